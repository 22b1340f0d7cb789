"""The table of cases that both forms of the rules of a migration are tested with: Python's, and that of Spark."""

from __future__ import annotations

from typing import NamedTuple

from offsetlog.migration import rules
from offsetlog.migration.rules import Row

LONGEST = "g" * rules.NAME_BYTES_MAX


class RowCase(NamedTuple):
    """Rows that are read together, and the reason of each, None for a position.

    No position is in two cases, so that all of them can be read at once.
    """

    name: str
    rows: list[Row]
    reasons: list[str | None]


def _one(name: str, row: tuple[str | None, ...], reason: str | None) -> RowCase:
    return RowCase(name, [Row(*row)], [reason])


ROW_CASES = [
    _one("a position", ("a position", "t", "0", "1"), None),
    _one("nothing", (None, None, None, None), rules.NO_ROW),
    _one("no group", (None, "t", "0", "1"), rules.NO_GROUP),
    _one("an empty group", ("", "t", "0", "1"), rules.NO_GROUP),
    _one("no topic", ("g", None, "0", "1"), rules.NO_TOPIC),
    _one("an empty topic", ("g", "", "0", "1"), rules.NO_TOPIC),
    _one("the longest group", (LONGEST, "t", "0", "1"), None),
    _one("a group that is too long", (LONGEST + "g", "t", "0", "1"), rules.GROUP_TOO_LONG),
    _one("a group that is too long in UTF-8", ("ü" * 16384, "t", "0", "1"), rules.GROUP_TOO_LONG),
    _one("a topic that is too long", ("g", LONGEST + "t", "0", "1"), rules.TOPIC_TOO_LONG),
    _one("names with a space, a slash and a line", ("a b/c\n", " t\t", "0", "1"), None),
    _one("no partition", ("no partition", "t", None, "1"), rules.NO_PARTITION),
    _one("no offset", ("no offset", "t", "0", None), rules.NO_OFFSET),
    *(
        _one(f"the partition {text!r}", (f"partition {text!r}", "t", text, "1"), reason)
        for text, reason in [
            ("2147483647", None),
            *((wrong, rules.NO_PARTITION) for wrong in ("2147483648", "9" * 30, "-1", "+1", "01", "", " 1", "1 ")),
            *((wrong, rules.NO_PARTITION) for wrong in ("1\n", "\n1", "1.0", "x", "0x1", "٣", "1_0")),
        ]
    ),
    *(
        _one(f"the offset {text!r}", (f"offset {text!r}", "t", "0", text), reason)
        for text, reason in [
            ("0", None),
            ("007", None),
            ("9223372036854775807", None),
            *((wrong, rules.NO_OFFSET) for wrong in ("9223372036854775808", "9" * 19, "0" * 20, "-1", "+5", "", " 1")),
            *((wrong, rules.NO_OFFSET) for wrong in ("1 ", "1\n", "1\n2", "1.0", "not a number", "1e3", "٣", "1_0")),
        ]
    ),
    RowCase("the same row twice", [Row("twice", "t", "0", "5"), Row("twice", "t", "0", "05")], [None, None]),
    RowCase(
        "a position with two offsets",
        [Row("two", "t", "0", "5"), Row("two", "t", "0", "6"), Row("two", "t", "1", "5")],
        [rules.CONTRADICTED, rules.CONTRADICTED, None],
    ),
    RowCase(
        "the same partition of other topics", [Row("topics", "t", "0", "5"), Row("topics", "u", "0", "6")], [None, None]
    ),
    RowCase(
        "the same position of other groups", [Row("one", "t", "0", "5"), Row("other", "t", "0", "6")], [None, None]
    ),
    RowCase(
        "a row that is none contradicts nothing",
        [Row("none", "t", "0", "5"), Row("none", "t", "0", "x")],
        [None, rules.NO_OFFSET],
    ),
]


class ActionCase(NamedTuple):
    """The offsets of both places, and the action without and with `overwrite`; `lost` in a lost partition."""

    offset: int
    current: int | None
    action: str
    overwriting: str
    lost: str


ACTION_CASES = [
    ActionCase(5, None, "new", "new", "lost"),
    ActionCase(0, None, "new", "new", "lost"),
    ActionCase(5, 5, "same", "same", "same"),
    ActionCase(0, 0, "same", "same", "same"),
    ActionCase(5, 4, "forward", "forward", "lost"),
    ActionCase(2**63 - 1, 0, "forward", "forward", "lost"),
    ActionCase(4, 5, "lower", "back", "lower"),
    ActionCase(0, 2**63 - 1, "lower", "back", "lower"),
]
