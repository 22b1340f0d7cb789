"""Managers are found by name, and what is wrong with one is said."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from offsetlog.errors import ConfigError
from offsetlog.manager import registry
from offsetlog.manager.interface import OffsetManager
from offsetlog.manager.log_manager import LogManager
from offsetlog.types import TopicPartition

LOG = "offsetlog.manager.log_manager:create"


@pytest.fixture
def installed(monkeypatch):
    entries = [EntryPoint("log", LOG, registry.GROUP)]
    monkeypatch.setattr(registry, "entry_points", lambda group: [each for each in entries if each.group == group])
    return entries


def test_the_log_manager_is_chosen_by_default_and_by_name(tmp_path, installed):
    for epoch, more in enumerate(({}, {"offset.storage": "log"}), 1):
        manager = registry.create_manager({"log.dir": str(tmp_path), "offsets.topic.num.partitions": "4", **more})
        assert isinstance(manager, LogManager)
        with manager:
            assert isinstance(manager, OffsetManager)
            manager.become_leader(manager.partition_for("g"), epoch).result(10)
            manager.commit("g", {TopicPartition("t", 0): 5})
            assert manager.fetch("g")[TopicPartition("t", 0)].offset == 5


def test_the_package_declares_its_manager():
    assert registry.available_managers()["log"] == LOG


def test_an_unknown_name_is_refused_with_those_there_are(installed):
    with pytest.raises(ConfigError, match=r"offset.storage='zoo' is not known; there are: log"):
        registry.create_manager({"offset.storage": "zoo"})


def test_a_name_that_two_claim_is_refused(installed):
    installed.append(EntryPoint("log", "elsewhere:make", registry.GROUP))
    with pytest.raises(ConfigError, match="both claim the name"):
        registry.create_manager({})


def test_a_manager_that_cannot_be_imported_is_named(installed):
    installed.append(EntryPoint("gone", "no_such_module:make", registry.GROUP))
    with pytest.raises(ConfigError, match="no_such_module:make cannot be imported"):
        registry.create_manager({"offset.storage": "gone"})


def test_what_is_no_manager_is_refused(installed):
    installed.append(EntryPoint("dict", "builtins:dict", registry.GROUP))
    with pytest.raises(ConfigError, match="builtins:dict made a dict, it lacks "):
        registry.create_manager({"offset.storage": "dict"})


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("offsets.topic.num.partitions", "many", "offsets.topic.num.partitions must be a whole number"),
        ("commits.while.loading", "perhaps", "commits.while.loading must be accept or refuse"),
        ("min.insync.replicas", "2", "min.insync.replicas must be from 1 to the replication factor 1"),
        ("offsets.commit.timeout.ms", "0", "the commit timeout must be above 0"),
    ],
)
def test_a_property_out_of_its_domain_is_named(tmp_path, installed, name, value, text):
    with pytest.raises(ConfigError, match=text):
        registry.create_manager({"log.dir": str(tmp_path), name: value})


def test_a_directory_is_needed(installed):
    with pytest.raises(ConfigError, match=r"log.dir is missing"):
        registry.create_manager({})
