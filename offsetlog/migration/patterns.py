"""Selects groups by patterns: names in which each * matches any characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def matching(groups: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Returns the groups that match any pattern, in the given order; all groups if no pattern is given."""
    if not patterns:
        return list(groups)
    wanted = re.compile("|".join(f"(?:{_expression(each)})" for each in patterns), re.DOTALL)
    return [group for group in groups if wanted.fullmatch(group)]


def unmatched(groups: Iterable[str], patterns: Sequence[str]) -> list[str]:
    """Returns the patterns that match no group."""
    left = {pattern: re.compile(_expression(pattern), re.DOTALL) for pattern in patterns}
    for group in groups:
        left = {pattern: wanted for pattern, wanted in left.items() if not wanted.fullmatch(group)}
        if not left:
            break
    return list(left)


def _expression(pattern: str) -> str:
    # Several stars in a row mean the same as one.  Each further star would multiply the ways in
    # which the regular expression tries to match a text.
    return ".*".join(re.escape(part) for part in re.split(r"\*+", pattern))
