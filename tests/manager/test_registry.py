"""Managers are found by name, and what is wrong with one is said."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from offsetlog.errors import ArgumentTypeError, ConfigError
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
    for name in (["log"], {}, 7):
        with pytest.raises(ConfigError, match="is not an installed manager; installed: log"):
            registry.create_manager({"offset.storage": name})
    with pytest.raises(ConfigError, match=r"offset.storage='zoo' is not an installed manager; installed: log"):
        registry.create_manager({"offset.storage": "zoo"})


def test_a_name_that_two_claim_is_refused(installed):
    installed.append(EntryPoint("log", "elsewhere:make", registry.GROUP))
    with pytest.raises(ConfigError, match="several managers have this name: elsewhere:make, "):
        registry.create_manager({})


def test_a_manager_that_cannot_be_imported_is_named(installed):
    installed.append(EntryPoint("gone", "no_such_module:make", registry.GROUP))
    with pytest.raises(ConfigError, match="no_such_module:make cannot be imported"):
        registry.create_manager({"offset.storage": "gone"})


def test_what_is_no_manager_is_refused(installed):
    installed.append(EntryPoint("dict", "builtins:dict", registry.GROUP))
    with pytest.raises(ConfigError, match="builtins:dict returned a dict, which has no "):
        registry.create_manager({"offset.storage": "dict"})


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("offsets.topic.num.partitions", "many", "offsets.topic.num.partitions must be a whole number"),
        ("commits.while.loading", "perhaps", "commits.while.loading must be accept or refuse"),
        ("min.insync.replicas", "2", "min.insync.replicas: .* from 1 to 1 .the replication factor., not 2"),
        ("offsets.commit.timeout.ms", "0", "offsets.commit.timeout.ms: .* must be above 0"),
        ("offsets.topic.num.partitions", "0", "offsets.topic.num.partitions: .* must have 1 to 100000"),
        ("offsets.topic.num.partitions", "100001", "offsets.topic.num.partitions: .* not 100001"),
        ("offsets.topic.replication.factor", "0", "offsets.topic.replication.factor: "),
        ("offsets.load.threads", "0", "offsets.load.threads: .* at least 1"),
        ("offsets.load.threads", None, "offsets.load.threads must be a whole number, not None"),
        ("offsets.quota.group.commits", "0", "offsets.quota.group.commits: .* above 0, not 0"),
        ("offsets.quota.group.bytes", "-1", "offsets.quota.group.bytes: "),
        ("offsets.quota.client.commits", "nan", "offsets.quota.client.commits: .* finite"),
        ("offsets.quota.client.bytes", None, "offsets.quota.client.bytes must be a number, not None"),
        ("offsets.topic.segment.bytes", "1", "offsets.topic.segment.bytes: .* from 4096"),
        ("offset.metadata.max.bytes", "-1", "offset.metadata.max.bytes: "),
        ("offsets.retention.minutes", "9" * 18, "offsets.retention.minutes: "),
        ("offsets.retention.check.interval.ms", "0", "offsets.retention.check.interval.ms: "),
        ("log.dir", "", "log.dir must be a directory, not ''"),
        ("log.dir", None, "log.dir must be a directory, not None"),
    ],
)
def test_a_property_out_of_its_domain_is_named(tmp_path, installed, name, value, text):
    with pytest.raises(ConfigError, match=text):
        registry.create_manager({"log.dir": str(tmp_path), name: value})


def test_what_bounds_a_property_is_read_before_it(tmp_path, installed):
    both = {"min.insync.replicas": "2", "offsets.topic.replication.factor": "3"}
    manager = registry.create_manager({**both, "log.dir": tmp_path})
    settings = manager.settings
    assert (settings.min_insync_replicas, settings.replication_factor) == (2, 3)


@pytest.mark.parametrize("settings", ["log", None, [("log.dir", "data")]])
def test_settings_that_are_no_mapping_are_refused(installed, settings):
    with pytest.raises(ArgumentTypeError, match="the settings must be a mapping of a broker's properties by name"):
        registry.create_manager(settings)


def test_a_directory_is_needed(installed):
    with pytest.raises(ConfigError, match=r"log.dir is missing"):
        registry.create_manager({})
