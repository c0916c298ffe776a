"""What later steps give back where they read what earlier ones added: the formula is the truth."""

import pytest
import torch
from accuracy import error
from place import DEVICE

from twomem.kernels.later import later

BATCH, TIME, WIDE, STEPS = 2, 18, 16, 32


def draw(queries):
    generator = torch.Generator().manual_seed(0)
    shapes = {
        "normal": (BATCH, TIME, 3 * queries, WIDE),
        "coefficient": (BATCH, TIME, STEPS, queries),
        "address": (BATCH, TIME, queries),
        "cue": (BATCH, TIME, WIDE),
        "kept": (TIME + 1,),
    }
    return {k: torch.randn(s, generator=generator, dtype=torch.float64) for k, s in shapes.items()}


def plain(normal, coefficient, address, cue, kept):
    after = torch.arange(TIME) - torch.arange(TIME)[:, None] - 1
    left = kept[after.clamp(min=0)] * (after >= 0)
    c = coefficient[:, :, :TIME] * left[None, :, :, None]
    queries, keys, _ = normal.chunk(3, dim=2)
    matches = torch.tanh(queries[:, :, None] * keys[:, :, :, None])  # batch t key query width
    to_cue = torch.einsum("bus,btuj,btjsi->bui", address, c, matches)
    return to_cue, torch.einsum("bui,btuj,btjsi->bus", cue, c, matches)


@pytest.mark.parametrize("queries", [16, 24])
@pytest.mark.parametrize("kind", [torch.float16, torch.float32])
def test_gradients_of_cues_and_addresses(queries, kind):
    given = draw(queries)
    want = plain(**given)
    # what is no later step is not looked at
    later_ones = torch.arange(STEPS) > torch.arange(TIME)[:, None]
    given["coefficient"].masked_fill_(~later_ones[None, :, :, None], float("nan"))
    given["coefficient"][:, :, TIME:] = float("nan")
    got = later(**{k: x.to(DEVICE, torch.float32) for k, x in given.items()}, kind=kind)
    allowed = 2e-3 if kind == torch.float16 else 2e-6
    assert all(error(x.cpu(), y) < allowed for x, y in zip(got, want, strict=True))


def test_where_nothing_fades_and_no_cue_is_asked_for():
    given = draw(16)
    want = plain(**{**given, "kept": torch.ones(TIME + 1)})[1]
    given = {k: x.to(DEVICE, torch.float32) for k, x in given.items()}
    none, got = later(**{**given, "kept": None}, kind=torch.float32, of_cue=False)
    assert none is None
    assert error(got.cpu(), want) < 2e-6
