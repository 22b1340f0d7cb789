"""Restores earlier positions.  It makes new commits, and never changes existing records.

All changes of one call are written in one commit.  The commit is written only if the group has not changed since the
call read the group.  If the group has changed, the call reads the group again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from offsetlog import arguments, moments
from offsetlog._native import timeline as native
from offsetlog.clock import wall_ms
from offsetlog.directory.listing import decode_text
from offsetlog.errors import (
    ConditionError,
    DeletesGroupError,
    InvalidArgumentError,
    PossibleLossError,
    ReadOnlyError,
    TooLargeError,
)
from offsetlog.history.timeline import (
    LONG_AGO,
    DeletedRow,
    PartitionPast,
    Timeline,
    Value,
    refuse_future,
    value_of,
)
from offsetlog.types import Change, Deletion, PartitionKey, TopicPartition

#: How often a group is read again if it keeps committing.
TRIES = 50

#: (topic, partition) as in the log.
Place = tuple[bytes, int]
Rows = dict[Place, Value]


class Wanted(NamedTuple):
    """A position, its present value, and the value to restore.  A value is None where the position does not exist."""

    place: Place
    before: Value | None
    after: Value | None


def _is_same(one: Value, other: Value) -> bool:
    # The engine decides which fields count when it compares states (ol_state_at_is_same).
    topic_ids = {row[5] for row in (one, other)} - {None}
    return one[:3] == other[:3] and len(topic_ids) < 2


def _as_new(value: Value, now_ms: int) -> Value:
    # The restore is a new commit, which an expire timestamp in the past would delete at once.
    offset, leader_epoch, metadata, _, expires, topic_id, _ = value
    return (offset, leader_epoch, metadata, -1, expires if expires > now_ms else -1, topic_id, -1)


class Restoration(list[Change]):
    """The changes that a call of `OffsetStore.restore` or `undelete` made, sorted by position.

    Attributes:
        undo_at: the log offset of the first record that the call wrote.  A restore of the same positions to this
            moment undoes the call; it needs `delete_all` if the group had no offsets before.  None if the call wrote
            nothing, because nothing differed or because it was a dry run.
    """

    undo_at: int | None = None


class Undeletion(NamedTuple):
    """The result of `OffsetStore.undelete`.

    Attributes:
        restored: the positions that were restored.
        lost: the positions that were not restored, because their values had been cleaned away.
    """

    restored: Restoration
    lost: list[Deletion]


@dataclass(frozen=True, slots=True)
class Restorer:
    """Restores positions of one store.  Any thread may use the object."""

    timeline: Timeline
    read_only: bool

    def restore(
        self,
        group: str,
        given: moments.Moment,
        partitions: Iterable[PartitionKey] | None,
        *,
        dry_run: bool,
        delete_all: bool,
    ) -> Restoration:
        """See OffsetStore.restore."""
        at = arguments.checked_moment("at", given)
        past, chosen = self._begin(group, partitions, writes=not dry_run)
        refuse_future("at", at, past)
        if past is None:
            return Restoration()
        cut = past.cut(at, group)
        then = past.rows(group, cut)

        def plan(now: Rows) -> list[Wanted]:
            places = [
                place for place in {**now, **then} if chosen is None or _named(place) in chosen
            ]
            wanted = [Wanted(place, now.get(place), then.get(place)) for place in places]
            changed = [
                each
                for each in wanted
                if each.before is None
                or each.after is None
                or not _is_same(each.before, each.after)
            ]
            if not delete_all and _leaves_nothing(now, then, changed):
                raise _deletes_group(past, group, cut, len(changed))
            return changed

        return self._write(past, group, plan, dry_run=dry_run)

    def undelete(
        self,
        group: str,
        partitions: Iterable[PartitionKey] | None,
        given: moments.Moment | None,
        given_since: datetime | str | None,
        *,
        dry_run: bool,
    ) -> Undeletion:
        """See OffsetStore.undelete."""
        since = None if given_since is None else arguments.parsed_time("since", given_since)
        since_ms = LONG_AGO if since is None else arguments.checked_time("since", since)
        at = None if given is None else arguments.checked_moment("at", given)
        if at is not None and since is not None:
            raise InvalidArgumentError(
                "since= selects deletions, and at= selects a state: pass only one of them"
            )
        past, chosen = self._begin(group, partitions, writes=not dry_run)
        refuse_future("at", at, past)
        refuse_future("since", since, past)
        if past is None:
            return Undeletion(Restoration(), [])
        deleted: list[DeletedRow] = []
        if at is None:
            deleted = [
                row
                for row in past.deletions(group, since_ms)
                if chosen is None or _named((row.topic, row.partition)) in chosen
            ]
            then = {
                (row.topic, row.partition): row.value for row in deleted if row.value is not None
            }
        else:
            rows = past.rows(group, past.cut(at, group))
            then = {
                place: row
                for place, row in rows.items()
                if chosen is None or _named(place) in chosen
            }
        absent: set[Place] = set()

        def plan(now: Rows) -> list[Wanted]:
            absent.clear()
            absent.update(
                (row.topic, row.partition)
                for row in deleted
                if (row.topic, row.partition) not in now
            )
            return [Wanted(place, None, value) for place, value in then.items() if place not in now]

        restored = self._write(past, group, plan, dry_run=dry_run)
        lost = [
            row.as_deletion(past.partition.number)
            for row in deleted
            if row.value is None and (row.topic, row.partition) in absent
        ]
        return Undeletion(restored, sorted(lost, key=lambda deletion: deletion[:3]))

    # --------------------------------------------------------------------------------- committing

    def _begin(
        self, group: str, partitions: Iterable[PartitionKey] | None, *, writes: bool
    ) -> tuple[PartitionPast | None, set[TopicPartition] | None]:
        if writes and self.read_only:
            raise ReadOnlyError("the store is open read-only")
        chosen = None if partitions is None else set(self.timeline.checked_keys(group, partitions))
        past = self.timeline.of(group)
        if writes and past is not None:
            _refuse_damaged(past)
        return past, chosen

    def _write(
        self,
        past: PartitionPast,
        group: str,
        plan: Callable[[Rows], list[Wanted]],
        *,
        dry_run: bool,
    ) -> Restoration:
        core = self.timeline.core
        for _ in range(TRIES):
            now = native.GroupNow(past.partition, group)
            wanted = sorted(plan(now.rows), key=lambda each: each.place)
            now_ms = wall_ms()
            fresh = [None if each.after is None else _as_new(each.after, now_ms) for each in wanted]
            if not wanted or dry_run:
                return Restoration(_changes_of(group, wanted, fresh, -1))
            items = [(*each.place, value) for each, value in zip(wanted, fresh, strict=True)]
            try:
                written = now.commit(past.partition, group, items)
            except TooLargeError as failure:
                raise TooLargeError(
                    f"{failure.message}; restore fewer positions at a time with partitions=",
                    path=failure.path,
                ) from None
            if written is not None:
                base_offset, end_offset, term, timestamp = written
                core.wait_durable(past.partition.number, end_offset, term, None)
                done = Restoration(_changes_of(group, wanted, fresh, timestamp))
                done.undo_at = base_offset
                return done
        raise ConditionError(
            f"all {TRIES} attempts failed, because group {group!r} committed offsets during each attempt; "
            "stop the consumers of the group first",
            group=group,
        )


def _refuse_damaged(past: PartitionPast) -> None:
    # This applies even if nothing differs, because the damaged records may be the change that is to be undone.
    damages = [
        each for each in past.partition.problems() if not isinstance(each, PossibleLossError)
    ]
    if damages:
        raise ReadOnlyError(
            f"log partition {past.partition.number} is read-only because its log is damaged: {damages[0]}; "
            "first look for an undamaged replica or backup; `offsetlog repair` lists the damage, and "
            "`offsetlog repair --accept-loss` removes the damaged part",
            path=past.partition.path,
        )


def _leaves_nothing(now: Rows, then: Rows, changed: list[Wanted]) -> bool:
    deleted = {each.place for each in changed if each.after is None}
    stays = (now.keys() - deleted) | {each.place for each in changed if each.after is not None}
    return bool(deleted) and not (then and stays)


def _deletes_group(past: PartitionPast, group: str, cut: int, count: int) -> DeletesGroupError:
    reason = (
        f"none of the present offsets of group {group!r} existed at that moment, and the restore would delete {count} "
        "of them"
    )
    first = native.next_batch(past.partition, past.start)
    if first is not None and cut <= first.first and first.timestamp >= 0:
        since = arguments.time_of(first.timestamp)
        begins = "" if since is None else f" at {since.isoformat(timespec='milliseconds')}"
        reason += f" (the log of its log partition begins{begins}, after that moment)"
    return DeletesGroupError(f"{reason}; delete_all=True permits it")


def _named(place: Place) -> TopicPartition:
    return TopicPartition(decode_text(place[0]), place[1])


def _changes_of(
    group: str, wanted: list[Wanted], fresh: list[Value | None], timestamp: int
) -> list[Change]:
    changes = []
    for each, value in zip(wanted, fresh, strict=True):
        after = None if value is None else value_of(value)._replace(commit_timestamp=timestamp)
        before = None if each.before is None else value_of(each.before)
        changes.append(Change(group, *_named(each.place), before, after))
    return changes
