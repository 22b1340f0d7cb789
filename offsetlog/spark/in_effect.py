"""The rule that decides from which log offset on a record of a position is in effect, for columns of any kind.

A record of a position is in effect from a log offset on, or never.  The engine calls that log offset
`HistoryEntry.effective_at`; the source computes it from Arrow columns (`scan/history.py`), the jobs from Spark columns
(`jobs/effects.py`), and both call the functions of this module with their own columns: numpy arrays, or Columns of
Spark.

Source: docs/format/loading.md §6.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: The log offset for "never".
NEVER = 2**63 - 1

#: `choose(condition, yes, no)` returns for each row `yes` or `no`, each a column or a number.
Choose = Callable[[Any, Any, Any], Any]
#: Returns for each row whether its `outcome` is the given one.
OutcomeIs = Callable[[str], Any]


def counts_from(is_delete: Any, outcome_is: OutcomeIs, log_offset: Any, marker_offset: Any, choose: Choose) -> Any:
    """Returns the log offset from which on a record would be in effect if no later one replaced it, or NEVER.

    A tombstone counts at once, even in a transaction; so does a commit outside a transaction.  A commit in a
    transaction counts from the COMMIT marker on; while the transaction is open, or if it was aborted, it never counts.
    """
    at_once = is_delete | outcome_is("plain")
    return choose(at_once, log_offset, choose(outcome_is("committed"), marker_offset, NEVER))


def in_effect_from(counts: Any, least_of_later: Any, choose: Choose) -> Any:
    """Returns the log offset from which on a record is the value of its position, or NEVER.

    Args:
        counts: the result of `counts_from`.
        least_of_later: the smallest result of `counts_from` for later records of the same position, or NEVER: a later
            record that counts before this one, or together with it, replaces this one.
        choose: returns, for each row, one of two values by a condition (`Choose`).
    """
    return choose(least_of_later <= counts, NEVER, counts)


def is_undone(is_delete: Any, outcome_is: OutcomeIs) -> Any:
    """Returns whether an abort undid a record, so that `read_committed` omits it; an abort undoes no tombstone."""
    return outcome_is("aborted") & ~is_delete
