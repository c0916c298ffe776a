"""Compiled kernels, kept on disk, so that each is compiled once on a machine.

They stand in the user's cache folder (`TWOMEM_CACHE`, or `twomem` in `XDG_CACHE_HOME` or `~/.cache`), named
after all that they were made of. A binary is code, so it is read only where nobody else can write. One that
was cut is made anew, and where nothing can be written nothing is kept.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

_DIGEST = 32
"""Bytes of the checksum that a file begins with."""
_OTHERS_WRITE = 0o022


def folder() -> Path:
    """Where binaries are kept."""
    if told := os.environ.get("TWOMEM_CACHE"):
        return Path(told)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "twomem"


def kept(made_of: str, make: Callable[[], bytes]) -> bytes:
    """The binary of all that `made_of` says, from the disk or else by `make`."""
    try:
        path = folder() / f"{hashlib.sha256(made_of.encode()).hexdigest()}.cubin"
    except RuntimeError:  # this user has no home
        return make()
    found = _read(path)
    if found is None:
        found = make()
        # a full or closed disk costs time, and nothing else
        with contextlib.suppress(OSError):
            _write(path, found)
    return found


def _read(path: Path) -> bytes | None:
    """What is there, whole, and written by this user alone; else none."""
    try:
        if not _own(path.parent) or not _own(path):
            return None
        content = path.read_bytes()
    except OSError:
        return None
    digest, binary = content[:_DIGEST], content[_DIGEST:]
    return binary if hashlib.sha256(binary).digest() == digest else None


def _own(path: Path) -> bool:
    if not hasattr(os, "getuid"):
        return True
    state = path.stat()
    return state.st_uid == os.getuid() and not state.st_mode & _OTHERS_WRITE


def _write(path: Path, binary: bytes) -> None:
    """Writes beside, and renames: a reader finds all of it or nothing."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _own(path.parent):
        return
    handle, beside = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(binary).digest() + binary)
        Path(beside).replace(path)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise
