"""Files that are whole or not there: written beside, flushed to the disk, and renamed."""

import errno
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as parse
from torch import Tensor

from twomem.core.errors import BadFile, TwomemError

_LARGEST_JSON = 16 * 2**20


class Unwritable(TwomemError, OSError):
    """A file could not be written; what was there before is untouched."""

    def __init__(self, what: Path, reason: str) -> None:
        """Says what could not be written, and why."""
        super().__init__(f"cannot write {what}: {reason}; nothing was changed")
        self.reason = reason


@contextmanager
def said_plainly(what: Path) -> Iterator[None]:
    """Turns the system's error into a sentence that names what was being written."""
    try:
        yield
    except Unwritable as error:
        raise Unwritable(what, error.reason) from None
    except OSError as error:
        reason = {
            errno.ENOSPC: "the disk is full",
            errno.EDQUOT: "your share of the disk is full",
            errno.EROFS: "the disk is read-only",
            errno.EACCES: "you may not write there",
            errno.EPERM: "you may not write there",
            errno.ENOTDIR: "something on its path is not a folder",
            errno.EEXIST: "something else has that name",
        }.get(error.errno or 0, error.strerror or str(error))
        raise Unwritable(what, reason) from None


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file so that a reader, even after a power cut, finds the old or the new one."""
    beside = path.with_name(f".{path.name}.writing")
    with said_plainly(path):
        try:
            with beside.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    """Makes the names in a folder survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def to_json(value: Any) -> bytes:
    """JSON for people: indented, the keys in their order."""
    return (json.dumps(value, indent=2) + "\n").encode()


def read_json(path: Path) -> dict[str, Any]:
    """Reads a table of JSON.

    Raises:
        BadFile: the file is not there, too large, cut, or something else than a table.
    """
    content = read_bytes(path, _LARGEST_JSON)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise BadFile(f"{path} is cut or is not JSON") from None
    if not isinstance(value, dict):
        raise BadFile(f"{path} holds a {type(value).__name__} where a table is needed")
    return value


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Reads a file of at most `most` bytes.

    Raises:
        BadFile: it is not there, not a file, or too large.
    """
    try:
        if most is not None and path.stat().st_size > most:
            raise BadFile(f"{path} has {path.stat().st_size} bytes; at most {most} are sensible")
        return path.read_bytes()
    except OSError as error:
        raise BadFile(f"cannot read {path}: {error.strerror or error}") from None


def read_tensors(path: Path, checksum: str | None = None) -> dict[str, Tensor]:
    """Reads a safetensors file, which cannot hold code.

    Raises:
        BadFile: it is not there, cut, altered, or another kind of file.
    """
    content = read_bytes(path)
    if checksum is not None and digest(content) != checksum:
        raise BadFile(f"{path} is cut or was altered: its checksum differs")
    try:
        return parse(content)
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, MemoryError):
        raise BadFile(f"{path} is cut or is not a safetensors file") from None


def digest(content: bytes) -> str:
    """The checksum of a content."""
    return hashlib.sha256(content).hexdigest()
