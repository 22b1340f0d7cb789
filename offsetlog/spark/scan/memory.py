"""Returns memory of a worker to the system between two tasks."""

from __future__ import annotations

import ctypes

import pyarrow as pa


def release_unused() -> None:
    """Returns unused memory to the system.  Can be called from any thread.

    A worker of Spark reads one share of the keys of a log after another.  After each share, the C library would keep
    the free pages for later allocations, and the worker would grow with every share, by 20 to 80 MiB for a million
    records.  If another allocator (such as jemalloc, by LD_PRELOAD) replaces that of the C library, the other
    allocator decides which pages are returned.
    """
    pa.default_memory_pool().release_unused()
    # glibc has malloc_trim; musl returns memory by itself.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        # Without this type, the argument is passed as an int, and the upper half of the size_t is undefined.
        trim.argtypes = [ctypes.c_size_t]
        trim(0)
