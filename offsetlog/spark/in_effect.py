"""Which records of positions are in effect, and from when on: the rule, for columns of any kind.

A record of a position is in effect from a log offset on, or never.  The engine's word for it is
`HistoryEntry.effective_at`; the source computes it of Arrow's columns (`scan/history.py`), the jobs of Spark's
(`jobs/effects.py`), and both call these functions with columns of theirs: numpy arrays, or Columns of Spark.

Source: docs/format/loading.md §6.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: The log offset from which on something counts that never does.
NEVER = 2**63 - 1

#: `choose(condition, yes, no)`: for each row one or the other, each a column or a number.
Choose = Callable[[Any, Any, Any], Any]
#: Returns for each row whether its `outcome` is the one that is named.
OutcomeIs = Callable[[str], Any]


def counts_from(is_delete: Any, outcome_is: OutcomeIs, log_offset: Any, marker_offset: Any, choose: Choose) -> Any:
    """Returns the log offset from which on a record counts by itself, NEVER for one that does not.

    A tombstone counts at once, also in a transaction; so does a commit outside of one.  A commit of a transaction
    counts from its COMMIT on, and not while the transaction is open, nor if it was aborted.
    """
    at_once = is_delete | outcome_is("plain")
    return choose(at_once, log_offset, choose(outcome_is("committed"), marker_offset, NEVER))


def in_effect_from(counts: Any, least_of_later: Any, choose: Choose) -> Any:
    """Returns the log offset from which on a record is the position, NEVER where it never is.

    Args:
        counts: the result of `counts_from`.
        least_of_later: the least that it returned for records of the same position that are later in the log, NEVER
            where there is none: a record that counts before this one, or together with it, takes its place.
        choose: as for `counts_from`.
    """
    return choose(least_of_later <= counts, NEVER, counts)


def is_undone(is_delete: Any, outcome_is: OutcomeIs) -> Any:
    """Returns whether an abort undid a record, which `read_committed` leaves out: a tombstone it does not undo."""
    return outcome_is("aborted") & ~is_delete
