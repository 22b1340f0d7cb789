"""Managers that each break one promise, for the contract suite to find."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from offsetlog.errors import (
    CommitTimeoutError,
    ExpectedOffsetError,
    GroupNotEmptyError,
    InvalidArgumentError,
    NotCoordinatorError,
    OffsetLogError,
    ThrottledError,
)
from offsetlog.manager.base import BaseOffsetManager
from offsetlog.manager.interface import Pending, Transition
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.testing.harness import ManagerHarness
from offsetlog.manager.transition import PartitionTransition
from offsetlog.types import LogGap, OffsetAndMetadata, Position, TopicPartition
from tests.manager.harnesses import LogHarness


class Planted(LogManager):
    """A log manager whose commits can be overridden."""

    def start(self) -> None:
        super().start()
        for name in ("commit", "commit_async", "advance"):
            vars(self).pop(name, None)


class DropsHalfACommit(Planted):
    def commit(self, group: str, offsets: Any, **more: Any) -> Position:
        kept = offsets
        if isinstance(offsets, dict) and len(offsets) > 100:
            kept = dict(list(offsets.items())[: len(offsets) // 2])
        return super().commit(group, kept, **more)


class CommitsWhatIsGood(Planted):
    def commit(self, group: str, offsets: Any, **more: Any) -> Position:
        try:
            return super().commit(group, offsets, **more)
        except InvalidArgumentError:
            super().commit(group, dict([next(iter(offsets.items()))]), **more)
            raise


class IgnoresExpected(Planted):
    def commit(self, group: str, offsets: Any, *, expected: Any = None, **more: Any) -> Position:
        return super().commit(group, offsets, **more)


class IgnoresMonotonic(Planted):
    def commit(self, group: str, offsets: Any, *, monotonic: bool = False, **more: Any) -> Position:
        return super().commit(group, offsets, **more)


def _without(field: str, offsets: Any, nothing: Any) -> Any:
    return {
        key: value._replace(**{field: nothing}) if isinstance(value, OffsetAndMetadata) else value
        for key, value in offsets.items()
    }


class ForgetsMetadata(Planted):
    def commit(self, group: str, offsets: Any, **more: Any) -> Position:
        return super().commit(group, _without("metadata", offsets, ""), **more)


class ForgetsEpochs(Planted):
    def commit(self, group: str, offsets: Any, **more: Any) -> Position:
        return super().commit(group, _without("leader_epoch", offsets, -1), **more)


class AnswersBeforeTheWatermark(Planted):
    def commit(self, group: str, offsets: Any, *, durability: Any = None, **more: Any) -> Position:
        return super().commit(group, offsets, durability="process", **more)


class RefusesBeforeTheWatermark(Planted):
    def commit(self, group: str, offsets: Any, **more: Any) -> Position:
        pending = self.commit_async(group, offsets, **more)
        if pending.position.log_offset < 0:
            raise ExpectedOffsetError("refused by what may be cut off", group=group)
        return pending.result()


class FindsNothingAtOnce(Planted):
    def delete_async(self, group: str, partitions: Any, **more: Any) -> Pending[int]:
        pending = super().delete_async(group, partitions, **more)
        if pending.position.log_offset >= 0:
            return pending
        # That of another group waits for nothing.
        return super().delete_async(f"not {group}", (), timeout=0)


class UndoesAtATimeout(Planted):
    def commit(self, group: str, offsets: Any, **more: Any) -> Position:
        try:
            return super().commit(group, offsets, **more)
        except CommitTimeoutError:
            number = self.partition_for(group)
            self.advance(number, self.leader_epoch(number), 2**40)
            self.open_core.core.delete(group, list(offsets), durability="process")
            raise


class AppendsWhatComesLate(Planted):
    def append_as_follower(self, partition: int, epoch: int, batches: Any) -> int:
        return super().append_as_follower(partition, self.leader_epoch(partition), batches)


class LeadsInAnOldEpoch(Planted):
    def become_leader(self, partition: int, epoch: int) -> Transition:
        known = self.leader_epoch(partition)
        return super().become_leader(partition, epoch if epoch > known else known + 1)


class FollowsAnOldLeader(Planted):
    def become_follower(self, partition: int, epoch: int) -> Transition:
        return super().become_follower(partition, max(epoch, self.leader_epoch(partition)))


class AcceptsOldGenerations(Planted):
    def commit(self, group: str, offsets: Any, *, generation: Any = None, **more: Any) -> Position:
        return super().commit(group, offsets, **more)


class FencesWithoutOffsets(Planted):
    def fence(self, group: str, offsets: Any = None, **more: Any) -> int:
        return super().fence(group, **more)


class FencesNobody(Planted):
    def fence(self, group: str, offsets: Any = None, **more: Any) -> int:
        self.commit(group, offsets)
        return 6


class LosesTheLastCommitAtStop(Planted):
    last: tuple[str, list[TopicPartition]] | None = None

    def commit(self, group: str, offsets: Any, **more: Any) -> Position:
        position = super().commit(group, offsets, **more)
        self.last = (group, list(offsets))
        return position

    def stop(self) -> None:
        if self.last is not None:
            last, self.last = self.last, None
            self.delete(*last)
        super().stop()


class LeavesOutWhatIsNotThere(Planted):
    def fetch(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Any:
        found = super().fetch(group, partitions)
        return {key: value for key, value in found.items() if value.offset >= 0}


class DeletesGroupsWithMembers(Planted):
    def delete_group(self, group: str, **more: Any) -> int:
        try:
            return super().delete_group(group, **more)
        except GroupNotEmptyError:
            self.fence(group)
            return super().delete_group(group, **more)


class MakesATransitionOfEachCall(Planted):
    def become_follower(self, partition: int, epoch: int) -> Transition:
        end = super().become_follower(partition, epoch).result(10)
        made = PartitionTransition(partition, epoch, float)
        made.succeed(end)
        return made


class AnswersAsAFollower(Planted):
    def start(self) -> None:
        super().start()
        self.answers: dict[str, Any] = {}

    def fetch(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Any:
        try:
            self.answers[group] = super().fetch(group, partitions)
        except NotCoordinatorError:
            if group not in self.answers:
                raise
        return self.answers[group]

    def become_follower(self, partition: int, epoch: int) -> Transition:
        for group in ("billing",):
            self.fetch(group)
        return super().become_follower(partition, epoch)


class LeavesThoseWhoWait(Planted):
    def _term_ended(self, number: int) -> None:
        pass


class ShowsConsumersWhatIsUncommitted(Planted):
    def read_into(self, partition: int, offset: int, buffer: Any, **more: Any) -> int:
        return super().read_into(partition, offset, buffer, uncommitted=True)


class NeverTruncates(Planted):
    def truncate_to(self, partition: int, epoch: int, offset: int) -> int:
        return self.positions(partition).log_end


class SaysMoreThanTheWatermark(Planted):
    def advance(self, partition: int, epoch: int, offset: int) -> int:
        super().advance(partition, epoch, offset)
        return offset


class ChecksTimeoutsLate(Planted):
    def commit(self, group: str, offsets: Any, *, timeout: Any = None, **more: Any) -> Position:
        position = super().commit(group, offsets, **more)
        if timeout is not None and not (isinstance(timeout, float) and timeout >= 0):
            raise InvalidArgumentError("the timeout is none")
        return position


class HasCodesOfItsOwn(Planted):
    def fetch(self, group: str, partitions: Iterable[TopicPartition] | None = None) -> Any:
        try:
            return super().fetch(group, partitions)
        except OffsetLogError as failure:
            failure.error_code = 15  # type: ignore[misc]
            raise


class ThrottlesWithoutATime(Planted):
    def commit(self, group: str, offsets: Any, **more: Any) -> Position:
        try:
            return super().commit(group, offsets, **more)
        except ThrottledError as failure:
            raise ThrottledError(failure.message) from None


class TakesPartOfATopicsName(Planted):
    def on_topic_deleted(self, topics: Any) -> int:
        return super().on_topic_deleted([*topics, *(name[1:] for name in topics), "kept"])


class CountsKeysItDidNotFind(Planted):
    def delete(self, group: str, partitions: Any, **more: Any) -> int:
        keys = list(partitions)
        super().delete(group, keys, **more)
        return len(keys)


class KeepsUnwantedConditions(BaseOffsetManager):
    """A manager without capabilities that takes conditions for nothing."""

    def __init__(self) -> None:
        super().__init__(partitions=2)
        self.kept: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}

    def read(self, group: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return dict(self.kept.get(group, {}))

    def write(self, group: str, changes: Mapping[TopicPartition, Any]) -> None:
        merged = {**self.kept.get(group, {}), **changes}
        self.kept[group] = {key: value for key, value in merged.items() if value is not None}

    def groups(self) -> Iterable[str]:
        return list(self.kept)

    def commit(self, group: str, offsets: Any, *, expected: Any = None, **more: Any) -> Position:
        return super().commit(group, offsets, **more)


class ChangedWatch:
    """A watch of the log manager with something changed."""

    def __init__(self, manager: LogManager, watch: Any) -> None:
        self.manager = manager
        self.watch = watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.watch, name)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.watch.close()


class ReportsTwice(LogManager):
    class Changed(ChangedWatch):
        @property
        def position(self) -> dict[int, tuple[int, int]]:
            places = self.watch.position
            return {number: (epoch, max(0, at - 1)) for number, (epoch, at) in places.items()}

    def watch(self, *given: Any, **more: Any) -> Any:
        return self.Changed(self, super().watch(*given, **more))


class SkipsGaps(LogManager):
    class Changed(ChangedWatch):
        def poll(self, *given: Any) -> list[Any]:
            return [each for each in self.watch.poll(*given) if not isinstance(each, LogGap)]

    def watch(self, *given: Any, **more: Any) -> Any:
        return self.Changed(self, super().watch(*given, **more))


class WatchesAboveTheWatermark(LogManager):
    class Changed(ChangedWatch):
        def poll(self, *given: Any) -> list[Any]:
            for number in self.watch.position:
                epoch, end = self.manager.leader_epoch(number), self.manager.positions(number).log_end
                self.manager.advance(number, epoch, end)
            found: list[Any] = self.watch.poll(*given)
            return found

    def watch(self, *given: Any, **more: Any) -> Any:
        return self.Changed(self, super().watch(*given, **more))


class MemoryHarness(ManagerHarness):
    name = "keeps_unwanted_conditions"

    def create(self, directory: Path) -> KeepsUnwantedConditions:
        return KeepsUnwantedConditions()


#: By defect the test of the contract that finds it.
FOUND_BY: dict[Callable[..., Any], str] = {
    DropsHalfACommit: "test_a_commit_of_many_positions",
    CommitsWhatIsGood: "test_a_commit_with_one_wrong_position_writes_none",
    IgnoresExpected: "test_what_is_expected_and_does_not_hold_writes_nothing",
    IgnoresMonotonic: "test_a_monotonic_commit_never_goes_back",
    ForgetsMetadata: "test_metadata_is_kept_exactly",
    ForgetsEpochs: "test_a_leader_epoch_is_kept_as_given_and_never_checked",
    AnswersBeforeTheWatermark: "test_a_call_waits_for_the_watermark",
    FindsNothingAtOnce: "test_a_delete_that_finds_nothing_waits_for_the_delete_before_it",
    RefusesBeforeTheWatermark: "test_a_refusal_waits_for_what_it_rests_on",
    UndoesAtATimeout: "test_a_timeout_answers_and_does_not_undo",
    AppendsWhatComesLate: "test_a_late_answer_of_a_former_leader_is_refused",
    LeadsInAnOldEpoch: "test_an_older_epoch_is_refused_and_changes_nothing",
    FollowsAnOldLeader: "test_an_older_epoch_is_refused_and_changes_nothing",
    AcceptsOldGenerations: "test_a_fence_refuses_the_old_generation_and_sets_offsets",
    FencesWithoutOffsets: "test_a_fence_refuses_the_old_generation_and_sets_offsets",
    FencesNobody: "test_a_fence_refuses_the_old_generation_and_sets_offsets",
    LosesTheLastCommitAtStop: "test_commits_and_deletes_stay_over_a_restart",
    LeavesOutWhatIsNotThere: "test_a_fetch_of_keys_answers_each_in_order",
    DeletesGroupsWithMembers: "test_a_group_with_members_is_not_deleted",
    MakesATransitionOfEachCall: "test_the_same_call_again_returns_the_same_transition",
    AnswersAsAFollower: "test_nobody_answers_who_leads_no_more",
    LeavesThoseWhoWait: "test_leadership_that_ends_answers_those_who_wait",
    ShowsConsumersWhatIsUncommitted: "test_only_followers_read_above_the_watermark",
    NeverTruncates: "test_a_tail_that_nobody_was_promised_is_cut",
    SaysMoreThanTheWatermark: "test_the_watermark_answers_those_below_it",
    ChecksTimeoutsLate: "test_a_commit_with_a_timeout_that_is_none_writes_nothing",
    HasCodesOfItsOwn: "test_nobody_answers_before_it_leads",
    ThrottlesWithoutATime: "test_a_quota_refuses_until_the_time_it_says",
    TakesPartOfATopicsName: "test_positions_of_deleted_topics_go",
    CountsKeysItDidNotFind: "test_positions_are_deleted",
    ReportsTwice: "test_a_later_watch_goes_on_where_one_ended",
    SkipsGaps: "test_what_is_gone_before_it_was_read_is_a_gap",
    WatchesAboveTheWatermark: "test_a_change_is_reported_once_it_is_below_the_watermark",
    KeepsUnwantedConditions: "test_what_needs_a_capability_is_refused",
}

SOUND = "unbroken"


def name_of(defect: Callable[..., Any]) -> str:
    """Returns the name of a defect, as it stands in the names of tests."""
    words = "".join(f"_{each.lower()}" if each.isupper() else each for each in defect.__name__)
    return words.removeprefix("_")


def _harness(kind: Any, name: str) -> LogHarness:
    harness = LogHarness()
    harness.kind, harness.name = kind, name
    if name != SOUND:
        harness.patience = 1.0  # an answer that never comes
    return harness


HARNESSES: list[ManagerHarness] = [
    _harness(LogManager, SOUND),
    *(_harness(each, name_of(each)) for each in FOUND_BY if each is not KeepsUnwantedConditions),
    MemoryHarness(),
]
