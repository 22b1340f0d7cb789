"""Changes positions in a log and in ZooKeeper.

A fetch returns the larger of the two positions.  The two storages are changed in such an order that no fetch sees half
of a change.

All calls except `may_go_back` block.  Calls that touch the same positions must not run at the same time.  The caller
therefore makes each call in its turn (`offsetlog.manager.turns`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from offsetlog.errors import (
    CommitTimeoutError,
    CorruptionError,
    DifferenceError,
    ExpectedOffsetError,
    OffsetLogError,
    RewindError,
    ZooKeeperUnavailableError,
)
from offsetlog.manager.dual.differences import Difference, Differences, larger, offset_or_none
from offsetlog.manager.dual.looks import Looks
from offsetlog.manager.dual.zookeeper_queue import ZooKeeperQueue
from offsetlog.manager.interface import Capability, OffsetManager
from offsetlog.types import OffsetAndMetadata, Position, TopicPartition

#: The number of tries to catch up a group while another client of ZooKeeper commits to it.
CATCH_UP_TRIES = 5
#: The largest number of positions of deleted topics in one request; they fit even if they have the longest names.
DELETED_TOGETHER = 500
Values = Mapping[TopicPartition, OffsetAndMetadata]


class Both:
    """Keeps the same positions in two storages.

    Args:
        log: the manager of the log.  A change takes effect when it is in the log.
        zookeeper: the manager of the other storage, which follows the log.
        differences: records the positions that were seen to differ between the two storages.
        queue: sends commits to ZooKeeper if they lower no position.
        patience: the seconds for which a call waits for writes that are being sent to ZooKeeper.
    """

    def __init__(
        self,
        log: OffsetManager,
        zookeeper: OffsetManager,
        differences: Differences,
        queue: ZooKeeperQueue,
        patience: float,
    ) -> None:
        self._log = log
        self._zookeeper = zookeeper
        self._differences = differences
        self._queue = queue
        self._patience = patience
        self.looks = Looks()

    # ------------------------------------------------------------------------------------------------------- fetches

    def fetch_beside(
        self, group: str, keys: list[TopicPartition] | None, is_busy: Callable[[], bool]
    ) -> dict[TopicPartition, OffsetAndMetadata] | None:
        """Returns the larger of the two positions of each key, or None.

        None means that a position may have been lowered during the read, so that the read may have seen the lower
        value in one storage only.  The caller must then wait for the turn of the positions, and call `fetch`.

        Args:
            group: the consumer group.
            keys: the positions to read; None for all positions.
            is_busy: returns whether a commit to the group is in progress, which only one storage may have so far.
        """
        with self.looks.at(group) as look:
            is_seen_in_part = look.went_back
            if is_seen_in_part:
                return None
            was_busy = is_busy()
            log, zookeeper, found = self._fetched(group, keys)
            if not (was_busy or look.is_disturbed):
                self._differences.note(group, found, log, zookeeper, is_fetch=True)
            return None if look.went_back else _there(found)

    def fetch(self, group: str, keys: list[TopicPartition] | None) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the larger of the two positions of each key (None: all keys).

        Call this method in the turn of these keys.
        """
        return _there(self._fetched(group, keys)[2])

    def _fetched(
        self, group: str, keys: list[TopicPartition] | None
    ) -> tuple[Values, Values, dict[TopicPartition, OffsetAndMetadata | None]]:
        """Returns the positions of the log, those of ZooKeeper, and the larger of both."""
        # Positions that differed before may now be missing in both storages.
        before = self._differences.keys(group) if keys is None else ()
        log, zookeeper = self._log.fetch(group, keys), self._zookeeper.fetch(group, keys)
        every = dict.fromkeys((*before, *log, *zookeeper))
        return log, zookeeper, {key: larger(log.get(key), zookeeper.get(key)) for key in every}

    def compare(self, group: str) -> list[Difference]:
        """Reads both storages, and returns the positions of a group that differ."""
        self._queue.settle(group, self._patience)
        log, zookeeper, found = self._fetched(group, None)
        self._differences.note(group, found, log, zookeeper)
        return differing(group, log, zookeeper)

    # ------------------------------------------------------------------------------------------------------- commits

    def may_go_back(self, group: str, values: Values) -> bool:
        """Whether a commit may lower a position.

        The answer is also True if the present value of a position in ZooKeeper is not known.
        """
        in_zookeeper = self._differences.last_in_zookeeper(group, values)
        if in_zookeeper is None:
            return True
        log = self._log.fetch(group, list(values))
        return any(
            value.offset < max(log[key].offset, -1 if (last := in_zookeeper[key]) is None else last)
            for key, value in values.items()
        )

    def commit(
        self, group: str, values: Values, given: Mapping[str, Any]
    ) -> tuple[Position, dict[TopicPartition, int]]:
        """Commits to ZooKeeper the positions that are lowered; then commits all positions to the log.

        Returns:
            The position of the commit in the log, and the offsets that are not lowered, which
            ZooKeeper should get next.

        Raises:
            DifferenceError: positions were lowered in ZooKeeper, but the log did not change, or it is unknown whether
                it changed.
            ZooKeeperUnavailableError: ZooKeeper is known not to answer; nothing was written.
        """
        timeout = given["timeout"]
        with self._back(group, values) as lowered:
            before = self._lower_zookeeper(group, values, timeout)
            lowered.update(before)
            back: dict[TopicPartition, int | None] = {key: values[key].offset for key in before}
            forward = {key: value.offset for key, value in values.items() if key not in back}
            try:
                position = self._log.commit(group, values, **given)
            except OffsetLogError as failure:
                if isinstance(failure, CommitTimeoutError):
                    self._queue.add_unsure(group, forward)
                if not back:
                    raise
                self._note_unfollowed(group, before, values)
                raise _different(group, "has the committed positions", back, failure) from failure
            self._differences.count(commits=1, rewinds=1 if back else 0)
            self._differences.note_equal(group, back)
        return position, forward

    def _note_unfollowed(self, group: str, keys: Iterable[TopicPartition], zookeeper: Values) -> None:
        """Records which positions differ after a change failed in the log, or was not confirmed by the log in time."""
        asked = list(keys)
        with suppress(OffsetLogError):  # the log is not led here any more, or failed: no fetch is answered
            self._differences.note(group, asked, self._log.fetch(group, asked), zookeeper)

    def _lower_zookeeper(
        self, group: str, values: Values, timeout: float | None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Commits to ZooKeeper those positions that the commit lowers.

        Returns:
            The positions that are lowered, each with the value that fetches returned before.
        """
        while True:
            keys = list(values)
            log, zookeeper = self._log.fetch(group, keys), self._zookeeper.fetch(group, keys)
            self._differences.note(group, values, log, zookeeper)
            back = {
                key: before
                for key, value in values.items()
                if (before := larger(log[key], zookeeper[key])) is not None and value.offset < before.offset
            }
            if not back:
                return back
            self._raise_log(group, back, log, zookeeper)
            lowered = {key: values[key].offset for key in back}
            seen = {key: offset_or_none(zookeeper[key]) for key in back}
            if Capability.CONDITIONS not in self._zookeeper.capabilities:
                self._zookeeper.commit(group, lowered, timeout=timeout)
                return back
            try:
                self._zookeeper.commit(group, lowered, expected=seen, timeout=timeout)
            except ExpectedOffsetError:
                continue  # another client of ZooKeeper committed meanwhile
            return back

    def _raise_log(self, group: str, keys: Iterable[TopicPartition], log: Values, zookeeper: Values) -> int:
        """Commits to the log those positions whose offsets are larger in ZooKeeper; returns the number of positions."""
        larger_there = {
            key: zookeeper[key].offset
            for key in keys
            if key in zookeeper and zookeeper[key].offset > (log[key].offset if key in log else -1)
        }
        if larger_there:
            self._log.commit(group, larger_there)
        return len(larger_there)

    def catch_up(self, group: str) -> tuple[int, list[Difference]]:
        """Raises each position of a group, in both storages, to the larger of its two values.

        A position that one storage lacks is added to that storage.

        Returns:
            The number of raised positions, and the positions that still differ.

        Raises:
            RewindError: in each of several tries, another client of ZooKeeper committed a larger offset meanwhile.
        """
        self._queue.settle(group, self._patience)
        raised = 0
        for left in reversed(range(CATCH_UP_TRIES)):
            log, zookeeper, found = self._fetched(group, None)
            self._differences.note(group, found, log, zookeeper)
            raised += self._raise_log(group, zookeeper, log, zookeeper)
            lagging = {
                key: value.offset
                for key, value in log.items()
                if value.offset > (zookeeper[key].offset if key in zookeeper else -1)
            }
            try:
                if lagging:
                    monotonic = Capability.CONDITIONS in self._zookeeper.capabilities
                    self._zookeeper.commit(group, lagging, monotonic=monotonic)
            except RewindError:
                if not left:
                    raise
                continue  # another client committed more meanwhile
            raised += len(lagging)
            break
        return raised, self.compare(group)

    def level(self, group: str) -> None:
        """Raises each position that exists in both storages to the larger of its two values.

        A position that only one storage has is not added to the other.

        Raises:
            RewindError: another client of ZooKeeper committed a larger position meanwhile.
        """
        self._queue.settle(group, self._patience)
        log, zookeeper, _ = self._fetched(group, None)
        both = log.keys() & zookeeper.keys()
        self._raise_log(group, both, log, zookeeper)
        lagging = {key: log[key].offset for key in both if log[key].offset > zookeeper[key].offset}
        if lagging:
            monotonic = Capability.CONDITIONS in self._zookeeper.capabilities
            self._zookeeper.commit(group, lagging, monotonic=monotonic)
            self._differences.note_equal(group, lagging)

    # ------------------------------------------------------------------------------------------------------- deletes

    def delete(self, group: str, keys: list[TopicPartition], timeout: float | None) -> int:
        """Deletes positions in both storages; returns how many existed in at least one of them."""
        with self._back(group, keys) as lowered:
            log, zookeeper, larger_of = self._fetched(group, keys)
            found = _there(larger_of)
            self._raise_log(group, found, log, zookeeper)
            if found:
                self._zookeeper.delete(group, found, timeout=timeout)
            lowered.update(found)
            gone: dict[TopicPartition, int | None] = dict.fromkeys(found)
            try:
                self._log.delete(group, keys, timeout=timeout)
            except OffsetLogError as failure:
                self._note_unfollowed(group, found, {})
                raise _different(group, "no longer has the deleted positions", gone, failure) from failure
            self._differences.note_equal(group, gone)
            return len(found)

    def delete_group(self, group: str, timeout: float | None) -> int:
        """Deletes a group in both storages.

        The result is the number of records written to the log, or the number of positions deleted in ZooKeeper if that
        is larger.
        """
        with self._back(group, None) as lowered:
            log, zookeeper, larger_of = self._fetched(group, None)
            found = _there(larger_of)
            self._raise_log(group, zookeeper, log, zookeeper)
            removed = self._zookeeper.delete_group(group, timeout=timeout)
            lowered.update(found)
            try:
                written = self._log.delete_group(group, timeout=timeout)
            except OffsetLogError as failure:
                self._note_unfollowed(group, found, {})
                raise _different(group, "no longer has the group", {}, failure) from failure
            self._differences.forget(lambda name: name == group)
            return max(removed, written)

    def delete_topics(self, group: str, topics: Collection[str], timeout: float | None) -> int:
        """Deletes a group's positions in the given topics, in both storages; returns their number.

        Call this method in the turn of the group.  It tries the deletion even while ZooKeeper is known not to answer,
        because nothing repeats the deletion later.

        Raises:
            DifferenceError: the positions are deleted in ZooKeeper, but the log did not change, or it is unknown
                whether it changed.
        """
        # The queue is read first: an offset that it sends to ZooKeeper meanwhile is then among its keys, or found in
        # ZooKeeper.
        known = [*self._queue.keys(group), *self._differences.keys(group), *self._log.fetch(group)]
        with suppress(CorruptionError):  # the later sweep of ZooKeeper finds the positions that cannot be read here
            known += self._zookeeper.fetch(group)
        keys = [key for key in dict.fromkeys(known) if key[0] in topics]
        if not keys:
            return 0
        held = self._queue.held(group, frozenset(keys), self._patience)
        with self.looks.going_back(group), held as lowered:
            deleted = self._delete_each(group, keys, timeout)
            lowered.update(keys)
            try:
                deleted = max(deleted, self._log.delete(group, keys, timeout=timeout))
            except OffsetLogError as failure:
                self._note_unfollowed(group, keys, {})
                gone: dict[TopicPartition, int | None] = dict.fromkeys(keys)
                raise _different(group, "no longer has the deleted positions", gone, failure) from failure
            self._differences.forget_positions(group, keys)
            return deleted

    def _delete_each(self, group: str, keys: list[TopicPartition], timeout: float | None) -> int:
        """Deletes positions in ZooKeeper, even if their nodes do not contain offsets; returns the number of positions.

        Before the deletion, the method commits to the log every position that is larger in ZooKeeper.
        """
        log = self._log.fetch(group, keys)
        self._raise_log(group, keys, log, self._readable(group, keys))
        deleted = 0
        try:
            for start in range(0, len(keys), DELETED_TOGETHER):
                deleted += self._zookeeper.delete(group, keys[start : start + DELETED_TOGETHER], timeout=timeout)
        except OffsetLogError:
            self._bring_back(group, keys)  # the requests before the failed one deleted positions
            raise
        return deleted

    def _readable(self, group: str, keys: list[TopicPartition]) -> Values:
        """Returns the positions in ZooKeeper, without those whose nodes do not contain an offset."""
        try:
            return self._zookeeper.fetch(group, keys)
        except CorruptionError:
            found: dict[TopicPartition, OffsetAndMetadata] = {}
            for key in keys:
                with suppress(CorruptionError):
                    found |= self._zookeeper.fetch(group, [key])
            return found

    def _bring_back(self, group: str, keys: Iterable[TopicPartition]) -> None:
        """Sends to ZooKeeper the values that the log has for these positions; call this method in their turn."""
        found = self._log.fetch(group, list(keys))
        offsets = {key: value.offset for key, value in found.items() if value.offset >= 0}
        if offsets:
            self._queue.add_unsure(group, offsets)

    def has_topics(self, group: str, topics: Collection[str]) -> bool:
        """Whether this process leads the group's log partition, and the log has a position of one of these topics."""
        try:
            return any(key[0] in topics for key in self._log.fetch(group))
        except OffsetLogError:
            return False

    def follow_topics(self, group: str, topics: Collection[str]) -> int:
        """Sends to ZooKeeper the positions that the log has in these topics; returns 0.

        Call this method in the turn of the group.
        """
        self._bring_back(group, [key for key in self._log.fetch(group) if key[0] in topics])
        return 0

    @contextmanager
    def _back(self, group: str, keys: Collection[TopicPartition] | None) -> Iterator[set[TopicPartition]]:
        """Keeps the queue from sending positions (None: all of the group) while they may be lowered.

        Yields the set of `ZooKeeperQueue.held`.
        """
        if self._queue.is_away:
            text = f"group {group!r}: ZooKeeper must store this change before the log does, but does not answer"
            raise ZooKeeperUnavailableError(f"{text}; nothing was written; try again when ZooKeeper answers", node="/")
        held = None if keys is None else frozenset(keys)
        with self.looks.going_back(group), self._queue.held(group, held, self._patience) as lowered:
            yield lowered


def differing(group: str, log: Values, zookeeper: Values) -> list[Difference]:
    """Returns the positions of a group that differ between the two storages, sorted."""
    found = {key: (offset_or_none(log.get(key)), offset_or_none(zookeeper.get(key))) for key in {**log, **zookeeper}}
    return sorted(Difference(group, key[0], key[1], *each) for key, each in found.items() if each[0] != each[1])


def _there(found: Mapping[TopicPartition, OffsetAndMetadata | None]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {key: value for key, value in found.items() if value is not None}


def _different(
    group: str, state: str, changed: Mapping[TopicPartition, int | None], failure: OffsetLogError
) -> DifferenceError:
    # A deleted position has no offset.
    shown = ", ".join(
        f"{topic}:{partition}" if offset is None else f"{topic}:{partition}={offset}"
        for (topic, partition), offset in list(changed.items())[:5]
    )
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    which = f" ({shown}{more})" if shown else ""
    return DifferenceError(
        f"group {group!r}: ZooKeeper {state}{which}, but the log may be unchanged: {failure}. "
        "Make the same call again. Until then, fetches return the log's positions"
    )
