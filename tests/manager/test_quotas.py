"""Whom a quota of the log manager slows: a group, or a client of one user."""

from __future__ import annotations

import pytest

from offsetlog.errors import (
    ArgumentTypeError,
    ConfigError,
    GroupError,
    InvalidArgumentError,
    NotEnoughReplicasError,
    ThrottledError,
)
from offsetlog.manager.log_manager import LogManager, create
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


@pytest.mark.parametrize("whom", [{"client": 5}, {"principal": b"alice"}, {"client": ["c"]}])
def test_a_client_that_is_no_name_is_refused_also_without_quotas(tmp_path, manager, whom):
    with LogManager(settings(tmp_path / "free"), background=False) as free:
        free.become_leader(0, 1).result(30)
        for each in (free, manager):
            for call in (each.commit, each.commit_async):
                with pytest.raises(ArgumentTypeError, match="must be a str or None, not"):
                    call("g", {KEY: 1}, **whom)
            with pytest.raises(ArgumentTypeError):
                each.throttle("g", **whom)
            assert each.fetch("g") == {}


@pytest.mark.parametrize(
    ("limits", "used_up"),
    [
        (QuotaLimits(group_commits=1.0), "the commits of group 'g'"),
        (QuotaLimits(client_bytes=1.0), "the bytes of client 'c'"),
        (
            QuotaLimits(group_bytes=1.0, client_commits=1.0),
            "the bytes of group 'g' and the commits of client 'c'",
        ),
    ],
)
def test_a_commit_that_is_throttled_says_by_what(tmp_path, limits, used_up):
    with LogManager(settings(tmp_path, quotas=limits), background=False) as manager:
        manager.become_leader(0, 1).result(30)
        two = {KEY: 1, TopicPartition("t", 1): 1}
        manager.commit("g", two, client="c", principal="alice")
        with pytest.raises(ThrottledError) as caught:
            manager.commit("g", two, client="c", principal="alice")
        assert f"used up: {used_up}; the next commit" in str(caught.value)


def test_a_quota_that_is_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"offsets\.quota\.group\.comits is not a quota; the quotas are"):
        create({"log.dir": str(tmp_path), "offsets.quota.group.comits": "5"})
