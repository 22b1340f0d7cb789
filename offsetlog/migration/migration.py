"""A migration: reads the source and the target, applies the rules to each group, writes the changes, and reports them.

No progress is stored.  A second run reads the target, and counts the positions that the first run wrote as "same".
If a group changes after it was read and before it is written, the run reads the group and applies the rules again.  It
does the same if the outcome of the group's write is unknown.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from offsetlog.errors import ZooKeeperUnavailableError
from offsetlog.migration import rules
from offsetlog.migration.places import Change, Fate, GroupOffsets, GroupWrite, Held, Refused, Source, Target, Written
from offsetlog.migration.report import Difference, Report
from offsetlog.types import TopicPartition

#: How many times the rules are applied to one group, at most.
TRIES = 20
#: The seconds for which no server may answer before the migration ends, and the longest pause between two tries.
PATIENCE, PAUSE_MAX = 60.0, 2.0
EXAMPLES = 100

_DEFAULT = Held(0)
#: The defaults of a position's fields other than the offset and the version.
_NO_FIELDS = _DEFAULT[1:-1]


@dataclass(slots=True)
class _Decision:
    """The decision about one group, which depends on the source and the target as they were read."""

    target: GroupOffsets
    actions: Counter[str] = field(default_factory=Counter)
    changes: list[Change] = field(default_factory=list)
    written: dict[TopicPartition, tuple[int, str]] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    has_consumers: bool = False


class _Silence:
    """Measures for how long an ensemble has not answered, while the connection looks for a server."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._pause = 0.05

    def wait(self, failure: ZooKeeperUnavailableError) -> None:
        """Waits before the next try.  If no server has answered for more than a minute, raises the failure."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since > PATIENCE:
            raise failure
        time.sleep(self._pause)
        self._pause = min(2 * self._pause, PAUSE_MAX)


class Migration:
    """A migration of groups from a source to a target.  Call `run` once.

    Args:
        source: the place from which the migration reads.
        target: the place to which it writes.
        groups: the names of the groups to migrate.
        overwrite: whether offsets may also be lowered.
        dry_run: whether to write nothing.
        examples: the largest number of refusals that the report keeps as examples.
        advance: called with the number of groups that have been finished since the last call.

    Attributes:
        report: the report of the migration, which is complete when `run` has ended.
    """

    def __init__(
        self,
        source: Source,
        target: Target,
        groups: Iterable[str],
        *,
        overwrite: bool = False,
        dry_run: bool = False,
        examples: int = EXAMPLES,
        advance: Callable[[int], object] = lambda done: None,
    ) -> None:
        self.report = Report(dry_run=dry_run, incomplete=(*source.incomplete, *target.incomplete))
        self._source = source
        self._target = target
        self._overwrite = overwrite
        #: The fields that the source can contain but the target does not store.
        self._lacks = sorted(source.has - target.keeps)
        self._examples = examples
        self._advance = advance
        #: The groups that are not finished, with the number of failed writes of each.
        self._left = dict.fromkeys(groups, 0)
        self._decided: dict[str, _Decision] = {}
        #: The positions that a write of unknown outcome may have written, each with its offset and its action.
        self._maybe: dict[str, dict[TopicPartition, tuple[int, str]]] = {}

    def run(self) -> Iterator[Difference]:
        """Runs the migration; yields the differences that remain.

        A dry run also yields a difference for each position that would be written.

        Raises:
            InvalidArgumentError: the root of the target's ZooKeeper connection does not exist.
            ZooKeeperUnavailableError: no server answered for a minute.  The positions that were written before stay.
            StateError, StorageError: a store failed.  The positions that were written before stay.
        """
        self._target.prepare(dry_run=self.report.dry_run)
        silence = _Silence()
        while self._left:
            finished = self.report.groups
            try:
                yield from self._pass(list(self._left))
            except ZooKeeperUnavailableError as failure:
                for group in list(self._decided):
                    self._may_be_written(group)
                if self.report.groups > finished:
                    silence = _Silence()
                silence.wait(failure)

    def _pass(self, groups: list[str]) -> Iterator[Difference]:
        if self.report.dry_run:
            for write in self._writes(groups):
                yield from self._finish(write.group)
            return
        for written in self._target.write(self._writes(groups)):
            yield from self._settle(written)

    def _writes(self, groups: list[str]) -> Iterator[GroupWrite]:
        for source, target in zip(self._source.read(groups), self._target.read(groups), strict=True):
            decision = self._decide(source, target)
            self._decided[target.group] = decision
            yield GroupWrite(decision.changes, target)

    # ------------------------------------------------------------------------------------------------------- deciding

    def _decide(self, source: GroupOffsets, target: GroupOffsets) -> _Decision:
        decision = _Decision(target, has_consumers=source.has_consumers or target.has_consumers)
        decision.refused += source.refused
        earlier = self._maybe.get(source.group, {})
        unreadable = {(each.topic, each.partition): each for each in target.refused}
        refused_topics: dict[str, str | None] = {}
        for key, held in source.offsets.items():
            topic = key[0]
            if topic not in refused_topics:
                refused_topics[topic] = self._target.refusal_of(target.group, topic)
            if refused_topics[topic] is not None or (unreadable and (topic, str(key[1])) in unreadable):
                decision.refused.append(_refusal(target, key, held, refused_topics[topic], unreadable))
                continue
            current = target.offsets.get(key)
            now = None if current is None else current.offset
            action = rules.action_of(held.offset, now, overwrite=self._overwrite, is_lost=target.is_lost)
            if action in rules.WRITTEN:
                decision.changes.append(Change(key, held, current))
                decision.written[key] = (held.offset, action)
                self._count_dropped(decision, held)
            elif action == rules.SAME and earlier.get(key, (None, ""))[0] == held.offset:
                action = earlier[key][1]
                self._count_dropped(decision, held)
            decision.actions[action] += 1
            if action in rules.KEPT[1:] or (self.report.dry_run and action in rules.WRITTEN):
                decision.differences.append(Difference(target.group, *key, now, held.offset, action))
        if decision.changes and target.is_closed:
            self._refuse_changes(decision, f"the group's positions in the target cannot be read: {target.is_closed}")
        return decision

    def _count_dropped(self, decision: _Decision, held: Held, number: int = 1) -> None:
        if not self._lacks or held[1:-1] == _NO_FIELDS:
            return
        for name in self._lacks:
            if getattr(held, name) != getattr(_DEFAULT, name):
                decision.dropped[name] += number

    def _refuse_changes(
        self, decision: _Decision, reason: str, refused: frozenset[TopicPartition] | None = None
    ) -> None:
        """Records the changes of the positions in `refused` as refused instead of written; with None, all changes."""
        for key, held, _ in decision.changes:
            if refused is not None and key not in refused:
                continue
            place = (decision.target.group, key.topic, str(key.partition), str(held.offset))
            decision.refused.append(Refused("", *place, reason))
            _, action = decision.written.pop(key)
            decision.actions[action] -= 1
            self._count_dropped(decision, held, -1)
        decision.changes = [each for each in decision.changes if each.key in decision.written]
        decision.differences = [
            each
            for each in decision.differences
            if each.action not in rules.WRITTEN or TopicPartition(each.topic, each.partition) in decision.written
        ]

    # -------------------------------------------------------------------------------------------------------- settling

    def _settle(self, written: Written) -> Iterator[Difference]:
        group = written.write.group
        fate = written.fate
        if fate in (Fate.CHANGED, Fate.UNKNOWN) and self._left[group] + 1 < TRIES:
            self._left[group] += 1
            if fate is Fate.UNKNOWN:
                self._may_be_written(group)
            else:
                del self._decided[group]
            return
        if fate is not Fate.MADE:
            reason = {
                Fate.CHANGED: f"the group changed before each of {TRIES} attempts to write it; migrate the group again",
                Fate.UNKNOWN: f"none of {TRIES} writes was answered, but some may have been applied; "
                "migrate the group again",
            }.get(fate, written.reason)
            self._refuse_changes(self._decided[group], reason, written.refused)
        yield from self._finish(group)

    def _may_be_written(self, group: str) -> None:
        decision = self._decided.pop(group)
        if decision.written:
            self._maybe.setdefault(group, {}).update(decision.written)

    def _finish(self, group: str) -> Iterator[Difference]:
        decision = self._decided.pop(group)
        report = self.report
        for action, number in decision.actions.items():
            if number:
                report.count(action, number)
        for name, number in decision.dropped.items():
            if number:
                report.dropped[name] = report.dropped.get(name, 0) + number
        report.refuse(decision.refused, self._examples)
        if decision.has_consumers:
            report.consumers.append(group)
        report.groups += 1
        self._maybe.pop(group, None)
        del self._left[group]
        self._advance(1)
        yield from decision.differences


def _refusal(
    target: GroupOffsets,
    key: TopicPartition,
    held: Held,
    reason: str | None,
    unreadable: dict[tuple[str, str], Refused],
) -> Refused:
    if reason is not None:
        return Refused("", target.group, key.topic, str(key.partition), str(held.offset), reason)
    found = unreadable[key.topic, str(key.partition)]
    reason = f"the target's value for this position is not an offset: {found.reason}"
    return Refused(found.place, target.group, key.topic, str(key.partition), found.offset, reason)
