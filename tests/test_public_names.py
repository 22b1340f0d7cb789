"""Names of the public API: nothing private is shown, and a partition is never taken for a log partition.

A partition is one of a topic that groups read.  A log partition is one of the offsets topic, whose log holds positions.
"""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
from collections.abc import Iterator
from typing import Any

import offsetlog
from offsetlog import config, errors, opening, types
from offsetlog.directory.snapshots import SnapshotReport
from offsetlog.lifecycle.background_load import LoadProgress
from offsetlog.maintenance.policy import Plan, StuckTransaction
from offsetlog.maintenance.scheduler import Maintenance
from offsetlog.maintenance.status import Decision, MaintenanceStatus

#: The names that `offsetlog` exports, and the values that its calls return.
PUBLIC: dict[str, Any] = {
    **{name: getattr(offsetlog, name) for name in offsetlog.__all__ if name not in ("errors", "__version__")},
    **{f"errors.{name}": value for name, value in vars(errors).items() if inspect.isclass(value)},
    **{f"types.{name}": value for name, value in vars(types).items() if getattr(value, "_fields", None)},
    "SnapshotReport": SnapshotReport,
    "LoadProgress": LoadProgress,
    "Maintenance": Maintenance,
    "MaintenanceStatus": MaintenanceStatus,
    "Decision": Decision,
    "Plan": Plan,
    "StuckTransaction": StuckTransaction,
}
PUBLIC = {
    name: value for name, value in PUBLIC.items() if getattr(value, "__module__", "").startswith("offsetlog")
}


def signature(value: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(value)
    except ValueError:  # a class in C, which is made by nobody
        return None


def callables() -> Iterator[tuple[str, Any]]:
    for name, value in PUBLIC.items():
        yield name, value
        if inspect.isclass(value):
            for member, method in inspect.getmembers(value, callable):
                if not member.startswith("_"):
                    yield f"{name}.{member}", method


def fields(kind: Any) -> list[str]:
    """The names of a value's attributes."""
    named = [*getattr(kind, "_fields", ())]
    if dataclasses.is_dataclass(kind):
        named += [field.name for field in dataclasses.fields(kind)]
    if inspect.isclass(kind) and issubclass(kind, Exception):
        named += _own(kind)
    named += [name for name, member in inspect.getmembers(kind) if isinstance(member, property)]
    return [name for name in named if not name.startswith("_")]


def test_there_is_something_to_look_at():
    assert len(PUBLIC) > 60
    assert len(dict(callables())) > 120


def test_no_parameter_is_private():
    shown = {called: [*found.parameters] for called, value in callables() if (found := signature(value)) is not None}
    assert {called: names for called, names in shown.items() if any(each.startswith("_") for each in names)} == {}


def test_help_shows_nothing_private():
    text = pydoc.plain(pydoc.render_doc(offsetlog.open))
    assert "lock_timeout" in text
    for hidden in ("_fs", "_background", "_by_partition", "_lock_seconds", "FileSystem"):
        assert hidden not in text
    assert set(inspect.signature(offsetlog.open).parameters) < set(inspect.signature(opening.open_with).parameters)


#: Where `partition` or `partitions` stands in the public API, and for which of the two.
TOPICS = "of a topic that groups read"
COUNT = "how many log partitions there are"
LOGS = "log partitions themselves, each of which says its number as log_partition"
MEANING = {
    "TopicPartition.partition": TOPICS,
    "Change.partition": TOPICS,
    "Deletion.partition": TOPICS,
    "Rewind.partition": TOPICS,
    "Expiring.partition": TOPICS,
    "types.PositionChange.partition": TOPICS,
    "errors.ConditionError.partition": TOPICS,
    "errors.ExpectedOffsetError.found(partition)": TOPICS,
    "errors.RewindError.found(partition)": TOPICS,
    "OffsetStore.commit_one(partition)": TOPICS,
    "OffsetStore.fetch_one(partition)": TOPICS,
    "OffsetStore.history(partition)": TOPICS,
    "OffsetStore.fetch(partitions)": TOPICS,
    "OffsetStore.delete(partitions)": TOPICS,
    "OffsetStore.restore(partitions)": TOPICS,
    "OffsetStore.undelete(partitions)": TOPICS,
    "OffsetStore.partitions": COUNT,
    "open(partitions)": COUNT,
    "open_async(partitions)": COUNT,
    "LoadProgress.partitions": COUNT,
    "ExpiryReport.partitions": COUNT,
    "StoreHealth.partitions": LOGS,
    "Maintenance.expire(partitions)": LOGS,
    "Maintenance.expiry_time(partitions)": LOGS,
    "Maintenance.look_after(partitions)": LOGS,
    "Maintenance.renew_snapshots(partitions)": LOGS,
}
AMBIGUOUS = {"partition", "partitions"}


def found_names() -> set[str]:
    """Each place of an ambiguous name, once: a type that has several public names counts under the first."""
    found: dict[tuple[str, str], str] = {}
    for name, value in PUBLIC.items():
        if inspect.isclass(value):
            for field in AMBIGUOUS & {*fields(value)}:
                defining = next(
                    (each for each in reversed(value.__mro__) if field in _own(each)), value
                )
                found.setdefault((defining.__qualname__, field), f"{name}.{field}")
    for called, value in callables():
        parameters = signature(value)
        if parameters is not None and not (inspect.isclass(value) and hasattr(value, "__mro__")):
            for each in AMBIGUOUS & {*parameters.parameters}:
                found.setdefault((value.__qualname__, each + "()"), f"{called}({each})")
    return set(found.values())


def _own(kind: Any) -> set[str]:
    names = {*kind.__dict__}
    if issubclass(kind, Exception) and "__init__" in names:  # it keeps its arguments as attributes
        names |= {*inspect.signature(kind.__init__).parameters}
    return names


def test_every_partition_is_known_to_be_of_a_topic_or_of_the_log():
    assert found_names() == set(MEANING)


def test_values_of_the_log_say_log_partition():
    for kind in (offsetlog.Position, offsetlog.OpenTransaction, offsetlog.CleaningReport, offsetlog.PartitionHealth):
        assert kind._fields.count("log_partition") == 1
    assert "log_partition" in [field.name for field in dataclasses.fields(SnapshotReport)]
    for call in (offsetlog.OffsetStore.compact, offsetlog.OffsetStore.snapshot):
        assert "log_partitions" in inspect.signature(call).parameters


def test_documented_attributes_are_there():
    for name, value in PUBLIC.items():
        text = inspect.getdoc(value) or ""
        if getattr(value, "_fields", None) and "Attributes:" in text:
            for field in value._fields:
                assert f"{field}: " in text, f"{name}.{field}"


def test_settings_hold_nothing_private():
    for kind in (config.StoreConfig, config.MaintenanceConfig):
        assert not any(field.name.startswith("_") for field in dataclasses.fields(kind))
