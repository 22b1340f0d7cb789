"""Whom a quota of the log manager slows: a group, or a client of one user."""

from __future__ import annotations

import pytest

from offsetlog.errors import (
    GroupError,
    InvalidArgumentError,
    NotEnoughReplicasError,
    ThrottledError,
)
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.settings import QuotaLimits
from offsetlog.types import TopicPartition
from tests.manager.watch_model import settings

KEY = TopicPartition("t", 0)


@pytest.fixture
def manager(tmp_path):
    limits = QuotaLimits(client_commits=1.0)
    made = LogManager(settings(tmp_path, quotas=limits), background=False)
    with made:
        made.become_leader(0, 1).result(30)
        yield made


def use_up(manager, **whom):
    while manager.throttle("g", **whom) == 0.0:
        manager.commit("g", {KEY: 1}, **whom)
    with pytest.raises(ThrottledError):
        manager.commit("g", {KEY: 1}, **whom)


def test_clients_of_one_name_and_two_users_do_not_slow_each_other(manager):
    use_up(manager, client="c", principal="alice")
    assert manager.throttle("g", "c", "alice") > 0
    for whom in ({"client": "c", "principal": "bob"}, {"client": "c"}, {"client": "d", "principal": "alice"}):
        assert manager.throttle("g", **whom) == 0.0
        manager.commit("g", {KEY: 1}, **whom)


def test_a_user_without_a_client_id_has_a_quota(manager):
    use_up(manager, principal="alice")
    assert manager.throttle("g", principal="alice") > 0
    manager.commit("g", {KEY: 1})


@pytest.mark.parametrize("offsets", [None, 5, [1], {"t": 1}, {(): 1}, {("t",): 1}, {KEY: "x"}])
def test_what_is_no_commit_is_refused_for_what_it_is(manager, offsets):
    with pytest.raises(InvalidArgumentError):
        manager.commit("g", offsets, client="c")
    with pytest.raises(InvalidArgumentError):
        manager.commit_async("g", offsets, client="c")
    with pytest.raises(GroupError):
        manager.commit("\ud800", {KEY: 1}, client="d")


def test_a_commit_that_too_few_replicas_would_get_is_charged_to_nobody(manager):
    manager.require_replicas(0, 1, enough=False)
    for _ in range(5):
        with pytest.raises(NotEnoughReplicasError):
            manager.commit("g", {KEY: 1}, client="c")
    assert manager.throttle("g", "c") == 0.0
