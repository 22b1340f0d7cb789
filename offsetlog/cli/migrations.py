"""The words, columns and questions with which the command and the Spark job print a migration."""

from __future__ import annotations

from typing import Any

from offsetlog.cli.columns import columns
from offsetlog.cli.consent import Effect
from offsetlog.cli.output import count_text
from offsetlog.cli.text import name_text

#: The text for each action, after a number of positions.
WORDS = {
    "new": "added",
    "forward": "moved forward",
    "back": "moved back",
    "same": "already in the target",
    "lower": "lower than in the target, left as they are",
    "lost": "not committed, since records of their log partition are missing",
}

#: The text for each field that a target may not keep.
FIELDS = {"metadata": "metadata", "leader_epoch": "leader epoch", "expire_timestamp": "expire timestamp"}

#: Columns of the question: the offset that the target has, and the one that it gets.
CHANGES = tuple(column for column in columns("migrate") if column.name != "action")


def counts_text(counts: dict[str, int]) -> str:
    """Returns a text such as "3 positions added, 1 position moved back"."""
    return ", ".join(f"{count_text(count, 'position')} {WORDS[action]}" for action, count in counts.items())


def outcome_lines(committed: dict[str, int], kept: dict[str, int], *, dry_run: bool) -> list[str]:
    """Returns one line per action, with the number of positions that are, or would be, committed or kept."""
    would = "would be " if dry_run else ""
    done = [f"{count_text(count, 'position')} {would}{WORDS[action]}" for action, count in committed.items()]
    return [*done, *(f"{count_text(count, 'position')} {WORDS[action]}" for action, count in kept.items())]


def effect_of(
    target: str, committed: dict[str, int], rows: list[dict[str, Any]], count: int, refused: int = 0
) -> Effect:
    """Returns the effect of a migration; `rows` are its first changes, and `count` is the number of all changes."""
    left_out = f"; leave out {count_text(refused, 'position')} that cannot be moved" if refused else ""
    return Effect(f"commit to {target}: {counts_text(committed)}{left_out}", CHANGES, rows, _name, count)


def _name(row: dict[str, Any]) -> str:
    current = "none" if row["current"] is None else row["current"]
    return f"{name_text(row['group'])} {name_text(row['topic'])}:{row['partition']} {current} -> {row['offset']}"
