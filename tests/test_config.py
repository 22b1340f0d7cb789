"""The settings of a store: defaults, domains, and what contradicts what."""

from __future__ import annotations

import dataclasses

import pytest

from offsetlog import OffsetAndMetadata, StoreConfig, TopicPartition
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
