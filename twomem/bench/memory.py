"""Prints the peak memory of one pass: a program of its own, since a peak cannot be taken back."""

import json
import resource
import sys
from pathlib import Path

import torch

from twomem.bench.shapes import Shape
from twomem.bench.stm import make


def resident_bytes() -> int:
    """Memory that this process holds now."""
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


def highest_bytes() -> int:
    """The most that it ever held; what `getrusage` says would include the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status does not tell the peak")


def main() -> None:
    """Makes the pass that the argument describes."""
    what = json.loads(sys.argv[1])
    torch.set_num_threads(what["threads"])
    small = Shape(**{**what["shape"], "batch": 1, "time": 2})
    make(what["model"], what["form"], small).run()
    measured = make(what["model"], what["form"], Shape(**what["shape"]))
    before = resident_bytes()
    measured.run()
    print(max(highest_bytes() - before, 0))  # noqa: T201


if __name__ == "__main__":
    main()
