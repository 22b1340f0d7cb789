"""The view "records" of a directory as the independent reader of tests/conformance sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conformance import oracle


def outcomes(records: list[oracle.LogRecord]) -> dict[tuple[int, int], tuple[str, int | None]]:
    """(log partition, log offset) -> outcome and marker, of everything written in a transaction."""
    open_: dict[tuple[int, int], list[int]] = {}
    found: dict[tuple[int, int], tuple[str, int | None]] = {}
    for each in records:
        if each.record is None or not each.batch.transactional:
            continue
        producer = (each.log_partition, each.batch.producer_id)
        if each.kind == "marker":
            assert each.key is not None
            outcome = "committed" if each.key["type"] == "COMMIT" else "aborted"
            for offset in open_.pop(producer, []):
                found[each.log_partition, offset] = (outcome, each.record.offset)
        else:
            open_.setdefault(producer, []).append(each.record.offset)
            found[each.log_partition, each.record.offset] = ("open", None)
    return found


def record_rows(path: Path) -> list[dict[str, Any]]:
    """Rows for `frames.frame(spark, rows, RECORDS)`."""
    records = list(oracle.records(oracle.read_log(path)))
    ended = outcomes(records)
    return [_row(each, *ended.get((each.log_partition, each.record.offset), ("plain", None)))
            for each in records if each.record is not None]  # fmt: skip


def _row(each: oracle.LogRecord, outcome: str, marker_offset: int | None) -> dict[str, Any]:
    record, batch = each.record, each.batch
    assert record is not None
    row: dict[str, Any] = {
        "log_partition": each.log_partition,
        "log_offset": record.offset,
        "timestamp": record.timestamp,
        "kind": each.kind,
        "key": record.key,
        "value": record.value,
        "outcome": outcome,
        "marker_offset": marker_offset,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "segment": each.segment,
        "position": batch.position,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "batch_size": batch.size,
        "magic": batch.magic,
        "delete_horizon": batch.delete_horizon,
        "group": None,
        "topic": None,
        "partition": None,
    }
    if each.kind == "marker":
        assert each.key is not None
        row["control"] = each.key["type"]
    elif each.kind == "offset_commit":
        assert each.key is not None
        row |= each.key["data"]
        value = {} if each.value is None else each.value["data"]
        names = {
            "leader_epoch": "leaderEpoch",
            "commit_timestamp": "commitTimestamp",
            "expire_timestamp": "expireTimestamp",
        }
        row |= {name: value.get(theirs, -1) for name, theirs in names.items()}
        row |= {"offset": value.get("offset"), "metadata": value.get("metadata"), "topic_id": value.get("topicId")}
    elif each.key is not None:
        fields = {"key": each.key["data"], "value": None if each.value is None else each.value["data"]}
        row["fields"] = json.dumps(fields, default=repr)
    return row
