"""The numeric results of the C code.  `offsetlog.error_status` maps each failure to its exception."""

from __future__ import annotations

import enum


class Status(enum.IntEnum):
    """The results of the C code, numbered as in csrc/base/status.h."""

    OK = 0
    END = 1
    WOULD_BLOCK = 2
    NO_MEMORY = 10
    IO = 11
    DISK_FULL = 12
    NO_SUCH_FILE = 13
    LOCKED = 14
    CHANGED = 15
    CORRUPT = 20
    TORN = 21
    UNSUPPORTED = 22
    LIMIT = 23
    INVALID = 30
    TOO_LARGE = 31
    OUT_OF_RANGE = 32
    CLOSED = 40
    READ_ONLY = 41
    FAILED = 42
    LOADING = 43
    NOT_COORDINATOR = 44
    CONDITION = 45
    REWIND = 46
    FENCED = 47
    TRANSACTION = 48
    TIMED_OUT = 49
    FENCED_LEADER_EPOCH = 50
    UNKNOWN_LEADER_EPOCH = 51
    GENERATION = 52
    CRASHED = 60


#: Results that are not failures; they never become exceptions.
RESULTS = frozenset({Status.OK, Status.END, Status.WOULD_BLOCK})
