"""The report of a migration: everything that it did, or with a dry run would do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from offsetlog.migration import rules
from offsetlog.migration.places import Refused


class Difference(NamedTuple):
    """A position that the source and the target do not have alike.

    Attributes:
        group: its group.
        topic: its topic.
        partition: its partition.
        current: the offset of the target, None for none.
        offset: that of the source.
        action: one of `rules.WRITTEN` and `rules.KEPT`.
    """

    group: str
    topic: str
    partition: int
    current: int | None
    offset: int
    action: str


@dataclass(slots=True)
class Report:
    """The counts of a migration; they are complete when it has ended.

    Attributes:
        groups: how many were looked at.
        committed: positions by action: "new", "forward", "back".
        kept: positions that the target keeps as they are, by the reason: "same", "lower", "lost".
        dropped: fields that positions were committed without, as the target does not keep them: how often each.
        refused: how many positions, nodes or groups were refused.
        examples: some of these.
        consumers: groups that had live consumers meanwhile.
        dry_run: whether nothing was written.
        incomplete: losses and damage in a directory; only where these were let pass.
    """

    groups: int = 0
    committed: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    examples: list[Refused] = field(default_factory=list)
    consumers: list[str] = field(default_factory=list)
    dry_run: bool = False
    incomplete: tuple[str, ...] = ()

    def count(self, action: str, number: int = 1) -> None:
        """Counts positions by their action."""
        counts = self.committed if action in rules.WRITTEN else self.kept
        counts[action] = counts.get(action, 0) + number

    def refuse(self, refused: Iterable[Refused], most: int) -> None:
        """Counts refusals, and keeps the first `most` of all."""
        for each in refused:
            self.refused += 1
            if len(self.examples) < most:
                self.examples.append(each)
