"""Where a run was made: versions, device, threads, commit. Threads change the last bits of a sum."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import twomem
from twomem.training.files import read_json, to_json, write_whole


def describe(device: torch.device | str) -> dict[str, Any]:
    """This process, as far as it decides the numbers."""
    return {
        "twomem": twomem.__version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in ("torch", "triton", "numpy", "safetensors")},
        "device": _device(torch.device(device)),
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
        "command": " ".join(["twomem", *sys.argv[1:]]),
    }


def settle(folder: Path, device: torch.device | str) -> None:
    """Writes the environment of a new run; a run gone on with keeps its number of threads."""
    path = folder / "environment.json"
    if path.exists():
        threads = read_json(path).get("threads")
        if isinstance(threads, int) and threads > 0:
            torch.set_num_threads(threads)
        return
    write_whole(path, to_json(describe(device)))


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{device.type} ({platform.processor() or platform.machine()})"


def _commit() -> str | None:
    """The commit of this source; a copy without its repository is told it by TWOMEM_COMMIT."""
    if told := os.environ.get("TWOMEM_COMMIT"):
        return told
    here = Path(__file__).parent
    command = ["git", "-C", str(here), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
