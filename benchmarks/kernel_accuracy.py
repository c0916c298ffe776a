"""Compares every kernel that ships with float64, on a GPU, and asks for the same bits each time.

Both STMs read random sequences at the widths, queries, batches, lengths, blends and precisions of a plan
that meets every pair of width and queries in each form and precision. Truth is the model in float64 by
PyTorch's operations; the same operations at the kernels' precision (float32, tf32, or autocast) set what
is allowed: twice their error, for answers, memories and gradients. Buffers start as NaN.

    python benchmarks/kernel_accuracy.py --out accuracy.json
"""

import argparse
import json
import multiprocessing
import random
import sys
import time
from contextlib import nullcontext
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from twomem import models
from twomem.ops.choice import without_kernels
from twomem.training.environment import describe

PRECISIONS = {"fp32": None, "tf32": None, "half": torch.float16, "bf16": torch.bfloat16}
SHAPES = [
    *((1, 1, 0.1), (7, 1, -0.6), (128, 1, 0.0), (1600, 1, 0.1), (1, 130, 0.0), (7, 130, 0.1)),
    *((1, 36, -0.6), (7, 36, 0.1), (128, 36, 0.1), (7, 2, -0.6), (128, 2, -0.6), (1600, 2, 0.0)),
]
"""Batch, steps, and where all blends stand."""
EXTRAS: dict[str, dict[str, Any]] = {
    "rows that end": {"ends": True},
    "memories of their own": {"own": True},
    "no gates": {"gates": False},
    "no reads": {"alphas": (None, 0.0, None)},
    "no transfer": {"alphas": (1.0, None, 0.0)},
    "neither": {"alphas": (None, 0.0, 0.0)},
    "twelve queries": {"queries": 12},
    "width 48": {"width": 48},
    "width 112": {"width": 112},
}
DEVICE, SEEDS, REPEATS, ALLOWED = "cuda", 2, 30, 2.0
MOST_NUMBERS = 2**28, 2**26
"""In all relational memories, and in all matches: cases beside one another must fit in float64, many times."""


def plan() -> list[dict[str, Any]]:
    """Every case: what it is called, its model's settings, and its shape."""
    dice, cases = random.Random(0), []
    for form in ("stm", "stm_released"):
        for precision in PRECISIONS:
            for width in (5, 90, 96, 128):
                for queries in (1, 3, 8, 20):
                    for batch, steps, alpha in dice.sample(SHAPES, 3):
                        sizes = {"width": width, "queries": queries, "alpha": alpha}
                        shape = {"batch": _fitting(batch, steps, width, queries), "time": steps}
                        cases.append({"form": form, "precision": precision, **sizes, **shape})
            for name, extra in EXTRAS.items():
                sizes = {"width": 20, "queries": 3, "alpha": 0.1, "batch": 7, "time": 20}
                cases.append({"form": form, "precision": precision, **sizes, **extra, "case": name})
    # whatever is left out for want of time is left out evenly
    dice.shuffle(cases)
    return cases


def _fitting(batch: int, steps: int, width: int, queries: int) -> int:
    """The batch, or fewer sequences if that many take too much memory."""
    held, matched = queries * width**2, steps * queries**2 * width
    few = [each for each in (batch, 264, 33, 7) if each <= batch]
    fits = (b for b in few if b * held < MOST_NUMBERS[0] and b * matched < MOST_NUMBERS[1])
    return next(fits, few[-1])


def _model(case: dict[str, Any], seed: int) -> Any:
    torch.manual_seed(seed)
    more = {name: case[name] for name in ("gates", "alphas") if name in case}
    sizes = {"width": case["width"], "queries": case["queries"], "distilled": 16}
    built = models.load(case["form"], **sizes, precision=case["precision"], **more).build(6, 4)
    with torch.no_grad():
        for name, parameter in built.named_parameters():
            if name.startswith("alpha"):
                parameter.fill_(case["alpha"])
    return built


def _learned(case: dict[str, Any], seed: int, dtype: torch.dtype) -> dict[str, list[Tensor]]:
    """Answers, memories and gradients, for numbers that the seed alone decides."""
    model, time, batch = _model(case, seed), case["time"], case["batch"]
    xs = torch.randn(time, batch, 6).to(DEVICE, dtype)
    state = None
    if case.get("own"):
        state = type(model.initial_state(1))(
            *(0.1 * torch.randn(batch, *x.shape[1:]) for x in model.initial_state(1))
        )
        state = type(state)(*(x.to(DEVICE, dtype) for x in state))
    ends = [1 + (5 * row) % time for row in range(batch)] if case.get("ends") else None
    model.to(DEVICE, dtype)
    asked = (torch.arange(time) % 7 == 0) | (torch.arange(time) >= time - 2)
    ys, last = model(xs, state, lengths=ends, asked=asked)
    total = sum((part.to(dtype) * _weights(part)).sum() for part in (ys, *last))
    grads = torch.autograd.grad(total, list(model.parameters()), materialize_grads=True)
    numbers = torch.stack([grad.sum() for grad in grads if grad.numel() == 1])
    rest = [grad for grad in grads if grad.numel() > 1]
    found = {"answers": [ys], "memories": list(last), "gradients": [numbers, *rest]}
    return {kind: [x.detach() for x in each] for kind, each in found.items()}


def _weights(part: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(part.numel())
    return torch.randn(part.shape, generator=generator).to(part.device, part.dtype) / part.shape[0]


def _error(got: Tensor, truth: Tensor) -> float:
    if not got.isfinite().all():
        return float("inf")
    return ((got.double() - truth).norm() / truth.norm().clamp_min(1e-30)).item()


def _pooled(errors: list[float]) -> float:
    return (sum(each**2 for each in errors) / len(errors)) ** 0.5


def measure(case: dict[str, Any]) -> dict[str, Any]:
    """The errors of kernels and operations, and whether repeats give the same bits."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    kind, own, plain = PRECISIONS[case["precision"]], {}, {}
    for seed in range(SEEDS):
        with without_kernels():
            truth = _learned(case, seed, torch.float64)
            torch.backends.cuda.matmul.allow_tf32 = case["precision"] == "tf32"
            with nullcontext() if kind is None else torch.autocast("cuda", kind):
                reference = _learned(case, seed, torch.float32)
            torch.backends.cuda.matmul.allow_tf32 = False
        found = _learned(case, seed, torch.float32)
        for errors, got in ((own, found), (plain, reference)):
            for what, right in truth.items():
                pairs = zip(got[what], right, strict=True)
                errors.setdefault(what, []).extend(_error(g, t) for g, t in pairs)
    record = {**case, "same_bits": _repeated(case, found), "repeats": REPEATS}
    for what, errors in own.items():
        record[what], record[f"{what}_allowed"] = _pooled(errors), ALLOWED * _pooled(plain[what])
    slack = 4 * torch.finfo(torch.float32).eps
    # what is not finite is not right, even where the operations' own result is not finite either
    record["right"] = all(
        isfinite(record[what]) and record[what] <= record[f"{what}_allowed"] + slack for what in own
    )
    return record


def _repeated(case: dict[str, Any], first: dict[str, list[Tensor]]) -> bool:
    for _ in range(REPEATS):
        again = _learned(case, SEEDS - 1, torch.float32)
        for what, each in first.items():
            if not all(torch.equal(a, b) for a, b in zip(each, again[what], strict=True)):
                return False
    return True


def _tried(case: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(1)
    try:
        return measure(case)
    except RuntimeError as error:
        return {**case, "right": False, "failed": str(error).splitlines()[0][:200]}


def main() -> None:
    """Measures the whole plan, and ends with 1 if a case is not right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=12, help="processes side by side")
    parser.add_argument("--seconds", type=float, help="stop after so long, with what there is")
    parser.add_argument("--only", default="", help="cases whose description has these words")
    parser.add_argument("--out", type=Path, help="a file for the records, as JSON")
    told = parser.parse_args()
    cases = [case for case in plan() if all(word in str(case) for word in told.only.split())]
    context, records, started = multiprocessing.get_context("spawn"), [], time.monotonic()
    with context.Pool(told.workers) as pool:
        for record in pool.imap_unordered(_tried, cases, chunksize=1):
            records.append(record)
            good = record["right"] and record.get("same_bits", False)
            if not good:
                print("MISS" if record["right"] is False else "BITS", record)
            if told.out is not None:
                whole = {"environment": describe(DEVICE), "records": records}
                told.out.write_text(json.dumps(whole, indent=1))
            if told.seconds is not None and time.monotonic() - started > told.seconds:
                break
    wrong = sum(not (record["right"] and record["same_bits"]) for record in records)
    print(f"{len(records) - wrong} of {len(records)} cases are right; {len(cases)} are planned")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
