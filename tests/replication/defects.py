"""Defects to plant into the rules, each of which breaks the promise of replication.

Every function takes pytest's monkeypatch and breaks one rule.  A test shows that the cluster finds
it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from offsetlog.replication import election, follower, in_sync, leader, lease, progress
from offsetlog.replication.messages import NO_LEADER, FetchError
from tests.replication import cluster

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledges_unflushed_records(patch: pytest.MonkeyPatch) -> None:
    """The risk of ack="written", which the setting documents."""
    config = in_sync.InSyncConfig

    def written(**settings):
        return config(**settings | {"ack": "written"})

    patch.setattr(cluster.in_sync, "InSyncConfig", written)


def counts_own_unflushed_records(patch: pytest.MonkeyPatch) -> None:
    original = in_sync.LeaderView._acknowledged
    patch.setattr(
        in_sync.LeaderView,
        "_acknowledged",
        lambda self, replica: self._log_end if replica == self._own else original(self, replica),
    )


def never_truncates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leader, "diverging_epoch", lambda request, log: None)


def truncates_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """Kafka before KIP-101."""
    original = cluster.Cluster._take_role

    def take_role(self, node, state):
        original(self, node, state)
        if node.view is None:
            node.log.truncate(max(node.watermark, node.log.start))

    patch.setattr(cluster.Cluster, "_take_role", take_role)


def counts_positions_that_diverge(patch: pytest.MonkeyPatch) -> None:
    original = leader.diverging_epoch

    def diverging_epoch(request, log):
        # The view is the one that answers at this moment.
        end = original(request, log)
        if end is not None:
            answering[0].on_fetch(request, log.log_end(), 0)
        return end

    answering: list[in_sync.LeaderView] = []
    check = in_sync.LeaderView.check

    def remember(self, request):
        answering[:] = [self]
        return check(self, request)

    patch.setattr(in_sync.LeaderView, "check", remember)
    patch.setattr(leader, "diverging_epoch", diverging_epoch)


def restarted_follower_stays_in_sync(patch: pytest.MonkeyPatch) -> None:
    original = election.on_replica_registered

    def on_replica_registered(state, replica, *, assigned, live, may_elect):
        if replica == state.leader:
            return original(state, replica, assigned=assigned, live=live)
        return election.ensure_leader(state, assigned=assigned, live=live, may_elect=may_elect)

    patch.setattr(election, "on_replica_registered", on_replica_registered)


def restarted_leader_keeps_its_epoch(patch: pytest.MonkeyPatch) -> None:
    original = election.on_replica_registered

    def on_replica_registered(state, replica, *, assigned, live, may_elect):
        if replica == state.leader:
            return state
        return original(state, replica, assigned=assigned, live=live, may_elect=may_elect)

    patch.setattr(election, "on_replica_registered", on_replica_registered)
    # The cluster would notice at once that the epoch is led by two lives of a process.
    patch.setattr(cluster.Promise, "leads", lambda self, node, epoch: None)


def restarted_replica_keeps_its_positions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(progress.ReplicaProgress, "_start_over", lambda self, leader_log_end, now: None)


def accepts_any_incarnation(patch: pytest.MonkeyPatch) -> None:
    def is_eligible(state, member, live):
        return member.replica in live

    patch.setattr(election, "is_eligible", is_eligible)


def applies_answers_of_other_epochs(patch: pytest.MonkeyPatch) -> None:
    original = follower.Follower.on_response

    def on_response(self, request, response):
        if request.current_leader_epoch < self.leader_epoch and response.error == FetchError.NONE:
            request, response = self._request(), replace(response, leader_epoch=self.leader_epoch)
        return original(self, request, response)

    patch.setattr(follower.Follower, "on_response", on_response)


def applies_answers_to_earlier_fetches(patch: pytest.MonkeyPatch) -> None:
    original = follower.Follower._is_late

    def is_late(self, request):
        current = self._request()
        return original(
            self,
            replace(
                request,
                fetch_offset=current.fetch_offset,
                last_fetched_epoch=current.last_fetched_epoch,
            ),
        )

    patch.setattr(follower.Follower, "_is_late", is_late)


def takes_the_leaders_watermark_as_it_is(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(follower.Advance, "within", lambda self, log_end: self.high_watermark)


def counts_only_the_accepted_set(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(in_sync.LeaderView, "_counted", lambda self, now: self.in_sync)


def counts_only_the_proposed_set(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        in_sync.LeaderView,
        "_counted",
        lambda self, now: self.in_sync if self.proposed is None else self.proposed.replicas,
    )


def joins_below_the_watermark(patch: pytest.MonkeyPatch) -> None:
    def may_join(self, follower, now):
        return follower.acknowledged >= self.epoch_start_offset

    patch.setattr(in_sync.LeaderView, "_may_join", may_join)


def joins_below_the_epoch(patch: pytest.MonkeyPatch) -> None:
    def may_join(self, follower, now):
        return follower.acknowledged >= self._watermark

    patch.setattr(in_sync.LeaderView, "_may_join", may_join)
    patch.setattr(in_sync.LeaderView, "_keeps_up", lambda self, replica, now: True)


def takes_older_in_sync_sets(patch: pytest.MonkeyPatch) -> None:
    original = in_sync.LeaderView.on_in_sync

    def on_in_sync(self, leader_epoch, in_sync, version, now):
        self._version = min(self._version, version - 1)
        original(self, leader_epoch, in_sync, version, now)

    patch.setattr(in_sync.LeaderView, "on_in_sync", on_in_sync)


def forgets_a_proposal_that_is_open(patch: pytest.MonkeyPatch) -> None:
    original = cluster.Cluster._propose

    def propose(self, node):
        original(self, node)
        if self.rng.random() < 0.2:
            node.view.on_proposal_failed(self._time_of(node))

    patch.setattr(cluster.Cluster, "_propose", propose)


def elects_any_live_replica(patch: pytest.MonkeyPatch) -> None:
    original = election.elect

    def elect(assigned, in_sync, live):
        return original(assigned, in_sync, live, unclean=True)

    patch.setattr(election, "elect", elect)


def forgets_the_last_in_sync_replica(patch: pytest.MonkeyPatch) -> None:
    original = election.on_replica_lost

    def on_replica_lost(state, replica, *, assigned, live, may_elect):
        state = original(state, replica, assigned=assigned, live=live, may_elect=may_elect)
        return replace(state, in_sync=frozenset(assigned)) if state.leader == NO_LEADER else state

    patch.setattr(election, "on_replica_lost", on_replica_lost)


def elects_before_the_lease_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease.LeaseBook, "may_elect", lambda self, now: True)


def grants_a_lease_to_anybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lease.LeaseBook, "grant", lambda self, now, is_leader: self.length_ms)


def grants_more_than_the_book_says(patch: pytest.MonkeyPatch) -> None:
    def grant(self, now, *, is_leader):
        if is_leader:
            self.until = now
        return self.length_ms if is_leader else None

    patch.setattr(lease.LeaseBook, "grant", grant)


def answers_before_the_end_of_the_election_is_committed(patch: pytest.MonkeyPatch) -> None:
    def may_answer(self, node):
        return node.lease is not None and node.lease.is_held(self._time_of(node))

    patch.setattr(cluster.Cluster, "_may_answer", may_answer)


DEFECTS: list[Plant] = [
    acknowledges_unflushed_records,
    counts_own_unflushed_records,
    never_truncates,
    truncates_to_the_high_watermark,
    counts_positions_that_diverge,
    restarted_follower_stays_in_sync,
    restarted_leader_keeps_its_epoch,
    restarted_replica_keeps_its_positions,
    accepts_any_incarnation,
    applies_answers_of_other_epochs,
    applies_answers_to_earlier_fetches,
    takes_the_leaders_watermark_as_it_is,
    counts_only_the_accepted_set,
    counts_only_the_proposed_set,
    joins_below_the_watermark,
    joins_below_the_epoch,
    takes_older_in_sync_sets,
    forgets_a_proposal_that_is_open,
    elects_any_live_replica,
    forgets_the_last_in_sync_replica,
    elects_before_the_lease_ends,
    grants_a_lease_to_anybody,
    grants_more_than_the_book_says,
    answers_before_the_end_of_the_election_is_committed,
]
