"""The memory of a worker between two tasks."""

from __future__ import annotations

import ctypes

import pyarrow as pa


def release_unused() -> None:
    """Returns unused memory to the system.  Safe from any thread.

    A Spark worker reads the shares of a log's keys one after another.  The C library keeps the freed pages between
    remaining allocations, so the worker would grow with every share: by 20 to 80 MiB for a million records.
    """
    pa.default_memory_pool().release_unused()
    # glibc has malloc_trim; musl returns memory by itself.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
