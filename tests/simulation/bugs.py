"""Bugs to plant, each of which a few hundred seeds must find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.planted import Bug, Change

REFUSES_FOLLOWERS = (
    "case OL_ROLE_FOLLOWER:\n"
    "            return ol_partition_refuse(partition, OL_NOT_COORDINATOR, error,\n"
    '                                       "this process does not lead the partition");'
)
ADMITS_FOLLOWERS = "case OL_ROLE_FOLLOWER:\n            return OL_OK;"


def _replace(owner: Any, name: str, value: object) -> None:
    # A bug planted where nothing is any more would be none.
    getattr(owner, name)
    setattr(owner, name, value)


def _acknowledge_at_once() -> None:
    from functools import partial

    from offsetlog.manager.log_manager import LogManager

    starts = LogManager.start

    def start(self: LogManager) -> None:
        starts(self)
        vars(self)["commit_async"] = partial(self.commit_async, durability="process")

    _replace(LogManager, "start", start)


def _never_diverge() -> None:
    from offsetlog.replication import leader

    _replace(leader, "diverging_epoch", lambda request, log: None)


def _append_what_comes_late() -> None:
    from dataclasses import replace

    from offsetlog.manager.log_manager import LogManager
    from offsetlog.replication.follower import Action, Follower
    from offsetlog.replication.messages import FetchRequest, FetchResponse

    appends, responds = LogManager.append_as_follower, Follower.on_response

    def append(self: LogManager, partition: int, epoch: int, batches: bytes) -> int:
        return appends(self, partition, self.leader_epoch(partition), batches)

    def on_response(
        self: Follower, request: FetchRequest, response: FetchResponse
    ) -> list[Action]:
        return responds(self, request, replace(response, leader_epoch=self.leader_epoch))

    _replace(LogManager, "append_as_follower", append)
    _replace(Follower, "on_response", on_response)
    _replace(Follower, "_is_late", lambda *_: False)


def _expire_everywhere() -> None:
    from offsetlog.manager.sweep import Sweeps

    def active(self: Sweeps) -> list[Any]:
        return [each for each in self._there() if each.role in ("active", "follower")]

    _replace(Sweeps, "active", active)


#: Those that the gate plants.
BUGS = {
    "acknowledges before W": Bug(patch=_acknowledge_at_once),
    "no truncation at a new epoch": Bug(patch=_never_diverge),
    "a stale load wins": Bug(
        extensions=("partition", "snapshot"),
        changes=(
            Change(
                "partition/load.c",
                "load->limit = partition->options.replicated ? partition->watermark : INT64_MAX;",
                "load->limit = INT64_MAX;",
            ),
        ),
    ),
    "a fenced append is accepted": Bug(patch=_append_what_comes_late),
    "the overlay is not cleared": Bug(
        extensions=("replica",),
        changes=(
            Change(
                "partition/overlay.c",
                "    ol_in_flight_reset(&partition->inflight, partition->state.table);\n",
                "",
            ),
            Change("partition/overlay.c", "    ol_unapplied_free(&partition->unapplied);\n", ""),
        ),
    ),
    "a follower expires": Bug(
        extensions=("retention",),
        # A commit and a read of a follower's state, each of which refuses.
        changes=(
            Change("partition/partition.c", REFUSES_FOLLOWERS, ADMITS_FOLLOWERS),
            Change("partition/partition.c", REFUSES_FOLLOWERS, ADMITS_FOLLOWERS),
        ),
        patch=_expire_everywhere,
    ),
}

#: The extensions in which a change of the engine must be linked for all calls to meet it, each
#: before those that import it.
ENGINE = (
    "partition",
    "replica",
    "store_core",
    "parking",
    "manager_core",
    "retention",
    "snapshot",
    "cleaner",
)


def _engine(*changes: tuple[str, str, str], patch: Callable[[], None] | None = None) -> Bug:
    return Bug(ENGINE, tuple(Change(*change) for change in changes), patch)


def _never_check_the_lease() -> None:
    from offsetlog.manager.leases import Leases

    _replace(Leases, "check", lambda self, number: None)


def _stay_in_sync() -> None:
    from offsetlog.replication import election

    registers = election.on_replica_registered

    def on_replica_registered(state: Any, replica: int, **given: Any) -> Any:
        if replica == state.leader:
            return registers(state, replica, **given)
        return election.ensure_leader(state, **given)

    _replace(election, "on_replica_registered", on_replica_registered)


def _checkpoint_nothing_before_a_snapshot() -> None:
    from offsetlog.directory import snapshots

    _replace(snapshots, "checkpoint_bounds", lambda *_: None)


def _keep_checkpoints() -> None:
    from offsetlog.manager import log_manager

    _replace(log_manager, "lower_checkpoints", lambda *_: None)


def _keep_deleted_topics() -> None:
    from offsetlog.manager.sweep import Sweeps

    removes = Sweeps.removal

    def removal(self: Sweeps, topics: Any, timeout: float | None) -> Any:
        return removes(self, [], timeout)

    _replace(Sweeps, "removal", removal)


#: Those that only the long tests plant.
MORE = {
    "a wait outlives its term": _engine(
        ("partition/wait.c", "    if (partition->term != term) {", "    if (false) {"),
        # Most are refused as well by what is found when the role changes, or the log is cut.
        ("partition/wait.c", "partition->role == OL_ROLE_FOLLOWER) {", "false) {"),
        ("partition/wait.c", "    if (ol_log_end(partition->log) < end_offset) {", "    if (false) {"),
    ),
    "a cut below W keeps the table": _engine(
        (
            "partition/replication.c",
            "restart || keep < partition->watermark || keep < partition->applied;",
            "restart;",
        ),
    ),
    "a condition compares with the table only": _engine(
        (
            "partition/overlay.c",
            "    if (ol_partition_is_overlay_complete(partition)) return OL_OK;\n    int64_t end",
            "    if (true) return OL_OK;\n    int64_t end",
        ),
    ),
    "a leader answers before W is at the end of its election": _engine(
        (
            "partition/leadership.c",
            " ||\n        partition->applied < partition->leadership.elected_end) {",
            ") {",
        ),
    ),
    "a snapshot above W is loaded": _engine(
        (
            "partition/load.c",
            "partition->options.replicated && facts.offset > partition->watermark;",
            "false;",
        ),
        # Else there is none above W, unless the checkpoint of it was lost.
        patch=_checkpoint_nothing_before_a_snapshot,
    ),
    "expiry does not see what is in flight": _engine(
        (
            "retention/write.c",
            "if (is_pending || is_in_flight(now->in_flight, name, number)) {",
            "(void)is_in_flight;\n    if (is_pending) {",
        ),
        ("retention/write.c", "has_anything_in_flight(now->in_flight, group)) {", "false) {"),
    ),
    "the delete of a group does not see what is in flight": _engine(
        (
            "partition/delete_group.c",
            "if (status == OL_OK && partition->inflight.active) {\n        status = collect_pos",
            "if (false) {\n        status = collect_pos",
        ),
    ),
    "a delete counts one too many": _engine(
        ("partition/commit/commit.c", ".written = work->count,", ".written = work->count + 1,"),
    ),
    "a deleted topic keeps its positions": Bug(patch=_keep_deleted_topics),
    "the lease is never checked": Bug(patch=_never_check_the_lease),
    "a restarted replica stays in sync": Bug(patch=_stay_in_sync),
    "a cut leaves a recovery point above the log": Bug(patch=_keep_checkpoints),
}
