"""The report of a migration: what the migration did, or what a dry run would do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from offsetlog.migration import rules
from offsetlog.migration.places import Refused


class Difference(NamedTuple):
    """A position that differs between source and target.

    Attributes:
        group: the position's group.
        topic: the position's topic.
        partition: the position's partition.
        current: the target's offset; None if the target has none.
        offset: the source's offset.
        action: one of the actions in `rules.WRITTEN` and `rules.KEPT`.
    """

    group: str
    topic: str
    partition: int
    current: int | None
    offset: int
    action: str


@dataclass(slots=True)
class Report:
    """The counts of a migration, complete when the migration has ended.

    Attributes:
        groups: the number of groups that were examined.
        committed: the number of written positions by action: "new", "forward", "back".
        kept: the number of positions that the target keeps unchanged, by reason: "same", "lower", "lost".
        dropped: for each field that the target does not store, the number of positions that lost it.
        refused: the number of refused positions, nodes or groups.
        examples: some of the refusals.
        consumers: the groups that had live consumers during the migration.
        dry_run: whether nothing was written.
        incomplete: the losses and the damage in a directory that were accepted.
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
        """Adds `number` positions to the count of an action."""
        counts = self.committed if action in rules.WRITTEN else self.kept
        counts[action] = counts.get(action, 0) + number

    def refuse(self, refused: Iterable[Refused], most: int) -> None:
        """Counts refusals; keeps them as examples until there are `most` examples."""
        for each in refused:
            self.refused += 1
            if len(self.examples) < most:
                self.examples.append(each)
