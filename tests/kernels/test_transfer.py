"""The gradient of the transfer: the formula is the truth."""

import pytest
import torch
from accuracy import error
from place import DEVICE

from twomem.kernels import transfer


@pytest.mark.parametrize("queries", [8, 24])
@pytest.mark.parametrize("kind", [torch.float16, torch.float32])
@pytest.mark.parametrize("side_by_side", [2, 40])
def test_images_of_all_steps_meet_matches(queries, kind, side_by_side, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(3, 3, 3 * queries, 32, generator=generator, dtype=torch.float64)
    d_image = torch.randn(3, 3, queries, 32, generator=generator, dtype=torch.float64)
    query, key, _ = normal.chunk(3, dim=2)
    matches = torch.tanh(query[:, :, None] * key[:, :, :, None])  # batch time key query width
    want = torch.einsum("btjo,btjsi->osi", d_image, matches).flatten(1)
    monkeypatch.setattr(transfer, "at_once", lambda device: side_by_side)
    given = (x.to(DEVICE, torch.float32) for x in (normal, d_image))
    got = transfer.transfer_gradient(*given, kind)
    assert error(got.cpu(), want) < (2e-3 if kind == torch.float16 else 2e-6)
