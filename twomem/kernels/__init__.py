"""Kernels of our own, compiled at run time; nothing imports this package but `ops`."""

from pathlib import Path

SOURCES = Path(__file__).parent
"""Where the CUDA sources are."""
