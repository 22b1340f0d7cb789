"""The settings of a store: defaults, domains, and what contradicts what."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from offsetlog import MaintenanceConfig, OffsetAndMetadata, StoreConfig, TopicPartition
from offsetlog.errors import ConfigError


def test_the_defaults_are_kafkas():
    config = StoreConfig()
    assert config.segment_bytes == 104857600
    assert config.segment_ms == 604800000
    assert config.index_interval_bytes == 4096
    assert config.segment_index_bytes == 10485760
    assert config.producer_id_expiration_ms == 86400000
    assert config.metadata_max_units == 4096


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(StoreConfig)])
@pytest.mark.parametrize("value", [-1, 2**80, 1.5, None, True, "many"])
def test_a_value_out_of_its_domain_is_refused_by_name(name, value):
    if name == "flush_interval_ms" and value is None:
        assert StoreConfig(flush_interval_ms=None).flush_interval_ms is None
        return
    with pytest.raises(ConfigError, match=name):
        StoreConfig(**{name: value})


def test_steps_must_fit_each_other():
    with pytest.raises(ConfigError, match="extend_bytes_min"):
        StoreConfig(extend_bytes_min=2**20, extend_bytes_max=2**16)


def test_the_settings_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        StoreConfig().segment_bytes = 1


def test_positions_have_kafka_pythons_first_fields():
    assert OffsetAndMetadata._fields[:3] == ("offset", "metadata", "leader_epoch")
    assert OffsetAndMetadata(7) == (7, "", -1, -1, -1, None)
    assert TopicPartition("orders", 0) == ("orders", 0)


# ---------------------------------------------------------------------------------------------------------- maintenance


def test_maintenance_has_kafkas_defaults():
    config = MaintenanceConfig()
    assert config.interval_ms == 15000
    assert config.min_cleanable_dirty_ratio == 0.5
    assert config.min_compaction_lag_ms == 0
    assert config.max_compaction_lag_ms == 9223372036854775807
    assert config.delete_retention_ms == 86400000
    assert config.retention_check_interval_ms == 600000
    assert config.retention_ms is None
    assert not config.expires


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(MaintenanceConfig)])
@pytest.mark.parametrize("value", [-1, 2**80, "many", 1.5])
def test_maintenance_refuses_what_is_out_of_its_domain_by_name(name, value):
    with pytest.raises(ConfigError, match=name):
        MaintenanceConfig(**{name: value})


@pytest.mark.parametrize("name", ["min_history", "retention"])
@pytest.mark.parametrize("value", [{1: 1}, {"g": -1}, {"g": 1.5}, {"g": True}, [("g", 1)], None])
def test_times_by_group_are_checked(name, value):
    with pytest.raises(ConfigError, match=name):
        MaintenanceConfig(**{name: value})


def test_never_is_for_retention_alone():
    assert MaintenanceConfig(retention={"audit-*": None}).retention == {"audit-*": None}
    with pytest.raises(ConfigError, match="min_history"):
        MaintenanceConfig(min_history={"audit-*": None})


def test_what_expires():
    assert MaintenanceConfig(retention_ms=1).expires
    assert MaintenanceConfig(retention={"g": 1}).expires
    assert not MaintenanceConfig(retention={"g": None}).expires


def test_a_mapping_is_kept_as_it_was_given():
    given = {"g": 1}
    config = MaintenanceConfig(min_history=given)
    given["g"] = 2
    assert config.min_history == {"g": 1}
    assert hash(config) == hash(MaintenanceConfig(min_history={"g": 1}))
    assert pickle.loads(pickle.dumps(config)) == config


def test_lags_must_fit_each_other():
    with pytest.raises(ConfigError, match="max_compaction_lag_ms"):
        MaintenanceConfig(min_compaction_lag_ms=2, max_compaction_lag_ms=1)


@pytest.mark.parametrize("name", ["a" * 32768, "a" * 32768 + "*", "\ud800", "b\udfff*"])
def test_a_history_of_what_can_be_no_group_is_refused(name):
    with pytest.raises(ConfigError, match="min_history"):
        MaintenanceConfig(min_history={name: 1})
    MaintenanceConfig(min_history={"a" * 32767: 1, "a" * 32767 + "*": 1, "": 1, "*": 1})
