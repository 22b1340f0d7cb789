"""The rule that decides from which log offset on a record is the value of its position, for columns of any kind.

A record is in effect while it is the value of its position.  Some records are never in effect; each other record is in
effect from some log offset on, which the engine calls `HistoryEntry.effective_at`.  The data source computes this log
offset from Arrow columns (`scan/history.py`), and the jobs compute it from Spark columns (`jobs/effects.py`).  Both
call the functions of this module, with numpy arrays or with Columns of Spark.

Source: docs/format/loading.md §6.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: The log offset for "never".
NEVER = 2**63 - 1

#: `choose(condition, yes, no)` returns for each row `yes` or `no`, each a column or a number.
Choose = Callable[[Any, Any, Any], Any]
#: A function that returns for each row whether its `outcome` is the given one.
OutcomeIs = Callable[[str], Any]


def counts_from(is_delete: Any, outcome_is: OutcomeIs, log_offset: Any, marker_offset: Any, choose: Choose) -> Any:
    """Returns the log offset from which on a record would be in effect if there were no later record, or NEVER.

    A tombstone takes effect at once, even in a transaction.  A commit outside a transaction also takes effect at once.
    A commit in a transaction takes effect at the COMMIT marker.  If the transaction is open or was aborted, the commit
    never takes effect.
    """
    at_once = is_delete | outcome_is("plain")
    return choose(at_once, log_offset, choose(outcome_is("committed"), marker_offset, NEVER))


def in_effect_from(counts: Any, least_of_later: Any, choose: Choose) -> Any:
    """Returns the log offset from which on a record is the value of its position, or NEVER if it never is.

    Args:
        counts: the result of `counts_from`.
        least_of_later: the smallest log offset (`counts_from`) at which a later record of the same position takes
            effect, or NEVER.  If a later record takes effect before this record, or together with it, this record
            never becomes the value.
        choose: a function that chooses one of two values for each row, by a condition (`Choose`).
    """
    return choose(least_of_later <= counts, NEVER, counts)


def is_undone(is_delete: Any, outcome_is: OutcomeIs) -> Any:
    """Returns whether `read_committed` omits a record, because its transaction was aborted; tombstones are kept."""
    return outcome_is("aborted") & ~is_delete
