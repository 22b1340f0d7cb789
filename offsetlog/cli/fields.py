"""The fields in the output of every command, as data: name, type, unit, meaning and order.

The tables on a terminal, TSV, CSV, JSON and docs/cli.md are generated from this data, so a field has the same name,
unit and order everywhere.  A name means the same in every command.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Kind(enum.StrEnum):
    """The type of a field, which decides how a value is written in each format."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "boolean"
    TIME = "time"
    DURATION = "duration"
    BYTES = "bytes"
    RATIO = "ratio"
    LIST = "list"
    OBJECT = "object"


class Field(NamedTuple):
    """One field.

    Attributes:
        kind: the type of the values.
        unit: the unit of a number; empty if the field has no unit.
        meaning: the meaning of the field, in a few words.
        unknown: the number that means "unknown" or "none", shown as "-" on a terminal; None if every number is a value.
    """

    kind: Kind
    unit: str
    meaning: str
    unknown: int | None = None


class Use(NamedTuple):
    """The use of a field in a table.

    Attributes:
        name: the key of the field in FIELDS.
        rank: 0 if a terminal always shows the field; on a narrow terminal, fields of rank 2 are omitted first, then
            rank 1.
    """

    name: str
    rank: int


def _text(meaning: str) -> Field:
    return Field(Kind.TEXT, "", meaning)


def _count(unit: str, meaning: str) -> Field:
    return Field(Kind.INTEGER, unit, meaning)


def _number(meaning: str, unknown: int | None = None, unit: str = "") -> Field:
    return Field(Kind.INTEGER, unit, meaning, unknown)


def _offset(meaning: str) -> Field:
    return Field(Kind.INTEGER, "offset", meaning)


def _log_offset(meaning: str, unknown: int | None = None) -> Field:
    return Field(Kind.INTEGER, "log offset", meaning, unknown)


def _time(meaning: str) -> Field:
    return Field(Kind.TIME, "ms since 1970, UTC", meaning, -1)


def _duration(meaning: str) -> Field:
    return Field(Kind.DURATION, "ms", meaning)


def _bytes(meaning: str) -> Field:
    return Field(Kind.BYTES, "bytes", meaning)


def _yes_or_no(meaning: str) -> Field:
    return Field(Kind.BOOLEAN, "", meaning)


def _list(meaning: str) -> Field:
    return Field(Kind.LIST, "", meaning)


def _object(meaning: str) -> Field:
    return Field(Kind.OBJECT, "", meaning)


#: Every field of every command.
FIELDS: dict[str, Field] = {
    # ------------------------------------------------------------------------------------------------------- positions
    "group": _text("the consumer group"),
    "topic": _text("the topic"),
    "partition": _number("the partition of the topic"),
    "offset": _offset("the committed offset: the next record that the group reads"),
    "offset_before": _offset("the committed offset before the change"),
    "offset_after": _offset("the committed offset after the change"),
    "step": _number("offset_after less offset_before", unit="records"),
    "leader_epoch": _number("the leader epoch that was committed with the offset", -1),
    "leader_epoch_before": _number("the leader epoch before the change", -1),
    "leader_epoch_after": _number("the leader epoch after the change", -1),
    "metadata": _text("the text that was committed with the offset"),
    "metadata_before": _text("the metadata before the change"),
    "metadata_after": _text("the metadata after the change"),
    "commit_timestamp": _time("when the offset was committed"),
    "commit_timestamp_before": _time("the commit time before the change"),
    "commit_timestamp_after": _time("the commit time after the change"),
    "expire_timestamp": _time("when the offset expires, if its record says so"),
    "expire_timestamp_before": _time("the expiry time before the change"),
    "expire_timestamp_after": _time("the expiry time after the change"),
    "topic_id": _text("the id of the topic, if its record has one"),
    "topic_id_before": _text("the topic id before the change"),
    "topic_id_after": _text("the topic id after the change"),
    "current": _offset("the offset that the target has"),
    "committed_offset": _offset("the committed offset, which stays"),
    "pending_offset": _offset("the offset that an open transaction would commit; the abort drops it"),
    "change": _text("added, removed or changed"),
    "action": _text("the action that is taken, or that a dry run would take"),
    # --------------------------------------------------------------------------------------------- places in the log
    "log_partition": _number("the partition of the offsets topic"),
    "log_offset": _log_offset("the offset of the record in its log partition"),
    "first_log_offset": _log_offset("the offset of the first record of the transaction"),
    "last_log_offset": _log_offset("the offset of the record with the last value"),
    "end": _log_offset("the offset below which records were read", -1),
    "timestamp": _time("the time of the record; in `expire` and `spark lag`, the time for which the result holds"),
    "kind": _text("the kind of record, finding or object"),
    "file": _text("the file or directory"),
    "position": _number("the position in the file", unit="bytes"),
    "reason": _text("the reason, as a sentence"),
    # ------------------------------------------------------------------------------------------------------- history
    "outcome": _text("how the record's transaction ended"),
    "restore_at": _log_offset(
        "the log offset of the state before the commit, for `restore --at offset:N`; none if the batch of the commit "
        "also contains the previous commit"
    ),
    "undo_at": _log_offset("the log offset of the state before the command, for `restore --at offset:N`"),
    "effective_at": _log_offset("the log offset at which the record takes effect"),
    "producer_id": _number("the id of the producer", -1),
    "producer_epoch": _number("the epoch of the producer", -1),
    "marker_offset": _log_offset("the offset of the marker that ended the transaction"),
    "recoverable": _yes_or_no("whether the log still holds the last value"),
    # -------------------------------------------------------------------------------------------------------- groups
    "type": _text("classic, consumer, share or streams"),
    "state": _text("Stable (with members) or Empty"),
    "protocol_type": _text("the type of protocol, e.g. consumer"),
    "protocol": _text("the assignment protocol of a classic group"),
    "generation": _number("the generation of a classic group, or the epoch of a newer type of group", -1),
    "members": _list("the members; a terminal shows how many"),
    "last_commit": _time("the latest commit time of the group's committed offsets"),
    "simple": _yes_or_no("whether the group has neither members nor a protocol type"),
    "group_names": _list("the groups of the transaction"),
    # -------------------------------------------------------------------------------------------------- transactions
    "begin_timestamp": _time("the time of the first pending offset"),
    "age_ms": _duration("the time since begin_timestamp"),
    "pending_offsets": _count("offsets", "how many are pending"),
    # ------------------------------------------------------------------------------------------------------ the dump
    "segment": _text("the file of the batch"),
    "base_offset": _log_offset("the first offset of the batch"),
    "last_offset": _log_offset("the last offset of the batch"),
    "batch_size": _bytes("the size of the batch"),
    "magic": _number("the version of the batch"),
    "codec": _text("the compression of the batch"),
    "crc": _number("the checksum of the batch"),
    "partition_leader_epoch": _number("the epoch of the leader that appended the batch", -1),
    "base_sequence": _number("the first sequence number of the batch", -1),
    "transactional": _yes_or_no("whether the batch belongs to a transaction"),
    "control": _yes_or_no("whether the batch holds markers"),
    "delete_horizon": _time("the earliest time at which tombstones and markers of the batch may be dropped"),
    "timestamp_type": _text("CreateTime or LogAppendTime"),
    "headers": _list("the headers of the record"),
    "key": _object("the decoded key"),
    "value": _object("the decoded value"),
    # ----------------------------------------------------------------------------------------------- the state, checked
    "severity": _text("problem or note"),
    "keys": _list("the affected keys that are known"),
    "lost_from": _log_offset("the first log offset that is missing"),
    "lost_below": _log_offset("the log offset after the last missing one"),
    "lost": _list("the missing positions, if a snapshot contains them"),
    "way": _text("how the state was built"),
    "digest": _text("the digest of the state"),
    "note": _text("a remark"),
    "equal": _yes_or_no("whether `spark` and `engine` are the same"),
    "spark": _text("the digest computed on Spark"),
    "engine": _text("the digest of a replay"),
    "sound": _yes_or_no("whether there is no problem"),
    "problems": _count("findings", "how many problems were found"),
    "notes": _count("findings", "how many notes were made"),
    "digest_physical": _text("the digest with log offsets"),
    "ways": _list("the rows of `verify --ways`: one for each way in which the state was built"),
    # ------------------------------------------------------------------------------------------------- what was done
    "committed_offsets": _count("offsets", "how many were committed"),
    "deleted_offsets": _count("offsets", "how many were deleted"),
    "rewound_offsets": _count("offsets", "how many positions moved back at least once"),
    "dropped_offsets": _count("offsets", "how many pending offsets were dropped"),
    "durability": _text("how durable the commit is: disk or process"),
    "dry_run": _yes_or_no("whether nothing was written"),
    "elapsed_ms": _duration("the duration of the work"),
    "report": _text("the file of the report"),
    "copies": _list("the copies of changed files, except the `broken-...` copies of segments"),
    "committed": _object("how many positions were committed, by action"),
    "kept": _object("how many positions the target keeps unchanged, by reason"),
    "dropped": _object("how many positions lost a field because the target cannot store it, by field"),
    "refused": _count("positions", "how many were refused"),
    "examples": _list("some of the refused positions, with the reason"),
    "consumers": _list("the groups that had live consumers"),
    "incomplete": _list("the parts that are missing or damaged"),
    # -------------------------------------------------------------------------------------------------------- expiry
    "expires_at": _time("when the offset expires or expired"),
    "counted_from": _time("the time at which the retention begins"),
    "retention_ms": _duration("the retention"),
    "rule": _text("the group or prefix for which the retention is set; none for the default retention"),
    "groups_never": _count("groups", "how many never expire"),
    "groups_held": _count("groups", "how many have members or an unreadable record, so that nothing in them expires"),
    "groups_removed": _count("groups", "how many were deleted because they had no offsets left"),
    "positions_expired": _count("offsets", "how many expired"),
    "positions_pending": _count("offsets", "how many are due to expire, but stay while a transaction is open"),
    # ------------------------------------------------------------------------------------------------------- counts
    "partitions": _count("partitions", "how many partitions of the topic"),
    "log_partitions": _count("partitions", "how many partitions of the offsets topic"),
    "batches": _count("batches", "how many batches"),
    "records": _count("records", "how many records"),
    "offsets": _count("offsets", "how many committed offsets"),
    "groups": _count("groups", "how many groups"),
    # ------------------------------------------------------------------------------------------- cleaning, snapshots
    "bytes": _bytes("the size of the log or of the file"),
    "clean_bytes": _bytes("the size of the part that is already clean"),
    "cleanable_bytes": _bytes("the size of the part that can be cleaned"),
    "ratio": Field(Kind.RATIO, "0 to 1", "the dirty share of the bytes below `uncleanable`"),
    "live_bytes": _bytes("the size of the live records, which make up the present state"),
    "dead_bytes": _bytes("the size of the dead records: all records that are not live"),
    "first_dirty": _log_offset("the first log offset that is not clean"),
    "uncleanable": _log_offset("the base offset of the first segment that cannot be cleaned"),
    "freed_records": _count("records", "how many are dropped"),
    "freed_bytes": _bytes("the size of the dropped records"),
    "bytes_before": _bytes("the size before"),
    "bytes_after": _bytes("the size after"),
    "segments_before": _count("segments", "how many before"),
    "segments_after": _count("segments", "how many after"),
    "bytes_read": _bytes("how much was read"),
    "bytes_written": _bytes("how much was written"),
    "records_read": _count("records", "how many were read"),
    "records_kept": _count("records", "how many stayed"),
    "superseded": _count("records", "how many are dropped because a later record has their key"),
    "aborted": _count("records", "how many are dropped because their transaction was aborted"),
    "tombstones": _count("records", "how many deletions stay"),
    "expired_tombstones": _count("records", "how many deletions are dropped"),
    "markers": _count("records", "how many markers stay"),
    "expired_markers": _count("records", "how many markers are dropped"),
    "keyless": _count("records", "how many are dropped because they have no key"),
    "tombstones_dropped": _count("records", "how many deletions were dropped"),
    "aborted_dropped": _count("records", "how many were dropped because their transaction was aborted"),
    "markers_dropped": _count("records", "how many markers were dropped"),
    "keyless_dropped": _count("records", "how many were dropped because they had no key"),
    "passes": _count("passes", "how often the log was read"),
    "quarantined": _count("segments", "how many damaged segments were left as they are"),
    "damaged": _list("the damaged segments that were left as they are"),
    "cleaned": _yes_or_no("whether the log was cleaned"),
    "complete": _yes_or_no("whether everything that can be cleaned was cleaned"),
    "stopped": _yes_or_no("whether the cleaning was stopped before its end"),
    "rolled": _yes_or_no("whether the active segment was closed"),
    "checkpoint": _log_offset("the first log offset that is not clean after the cleaning", -1),
    "floor": _log_offset("the log offset where the history begins; earlier states are unknown", -1),
    "cleaned_partitions": _count("partitions", "how many logs were cleaned"),
    "failed_partitions": _count("partitions", "how many logs could not be cleaned"),
    "stuck_transactions": _list("the open transactions that keep a log from being cleaned"),
    "live_records": _count("records", "how many are live"),
    "dead_records": _count("records", "how many are dead"),
    "records_after": _count("records", "how many are left"),
    "log_end": _log_offset("the offset of the next record"),
    "segments": _count("segments", "how many files"),
    "clean_end": _log_offset("the log offset below which records are cleaned"),
    "read_from": _log_offset("the log offset from which the log was read; none if the whole log was read"),
    "written": _yes_or_no("whether a new file was written"),
    # ----------------------------------------------------------------------------------------------------------- lag
    "lag": _count("records", "how many the group has not read yet"),
    "most": _count("records", "the lag of the partition that lags most"),
    "beyond_end": _count("partitions", "how many have a committed offset above their log end offset"),
    "lost_partitions": _count("partitions", "how many have a committed offset below their log start offset"),
    "without_end": _count("partitions", "how many have no known log end offset"),
    # ------------------------------------------------------------------------------------------------------ the jobs
    "coverage": _object("how much of the history the log still holds"),
    "commits": _count("records", "how many commits"),
    "deletes": _count("records", "how many deletions"),
    "without_effect": _count("records", "how many commits have not taken effect"),
    "aborted_records": _count("records", "how many belong to an aborted transaction"),
    "open_records": _count("records", "how many belong to an open transaction"),
    "first_timestamp": _time("the time of the first record"),
    "last_timestamp": _time("the time of the last record"),
    "findings": _object("how many findings, by table"),
    "target": _text("the directory or table that was written"),
    "partitions_before": _count("partitions", "how many partitions of the offsets topic the source has"),
    "partitions_after": _count("partitions", "how many partitions of the offsets topic the target has"),
    "renamed": _count("transactions", "how many got a new producer id"),
    "source": _text("the directory that was read"),
    "at": _text("the requested moment; none for the end of the log"),
    "taken_at": _text("when the table was made"),
    "format": _text("the format of the table"),
    "rows": _count("offsets", "how many rows the table has"),
    "digests": _object("the digest of each log partition"),
    "doubts": _list("the missing or damaged files that are needed to detect every loss of data"),
    "unpacked_bytes": _bytes("the size of the unpacked archive"),
    "python": _text("the version of Python that the archive needs"),
    "abi": _text("the ABI of Python that the archive needs"),
    "libc": _text("the oldest glibc that the archive runs with"),
    "packages": _object("the packages in the archive, with their versions"),
}


def _uses(text: str) -> tuple[Use, ...]:
    """Parses the names of a table's fields; `:1` or `:2` after a name is the field's rank."""
    return tuple(Use(name, int(rank or 0)) for name, _, rank in (each.partition(":") for each in text.split()))


_POSITION = "group topic partition offset leader_epoch:2 metadata:1 commit_timestamp expire_timestamp:2 topic_id:2"
_CHANGE = (
    "group topic partition offset_before offset_after step leader_epoch_before:2 leader_epoch_after:2 "
    "metadata_before:1 metadata_after:1 commit_timestamp_before:2 commit_timestamp_after:2 topic_id_before:2 "
    "topic_id_after:2"
)
_SURVEY = (
    "bytes live_bytes dead_bytes records live_records:2 dead_records:2 records_after:2 freed_records freed_bytes "
    "bytes_after superseded:1 aborted:1 expired_tombstones:2 expired_markers:2 keyless:2 tombstones:2 markers:2"
)

#: The fields that each command prints, in this order.  A command with two kinds of rows has two tables; a table whose
#: name ends with "summary" is a JSON object that follows the rows.
TABLES: dict[str, tuple[Use, ...]] = {
    name: _uses(text)
    for name, text in {
        "offsets": f"{_POSITION} log_partition:2 log_offset:2",
        "groups": (
            "group type state protocol_type:1 protocol:1 generation members last_commit simple:2 log_partition:1"
        ),
        "transactions": (
            "log_partition producer_id producer_epoch:2 first_log_offset:1 begin_timestamp:1 age_ms pending_offsets "
            "group_names"
        ),
        "dump": (
            "log_partition segment:2 position:2 base_offset:2 last_offset:2 batch_size:2 magic:2 codec:2 crc:2 "
            "partition_leader_epoch:2 producer_id:2 producer_epoch:2 base_sequence:2 transactional:2 control:2 "
            "delete_horizon:2 timestamp_type:2 log_offset timestamp headers:2 kind key value"
        ),
        "verify": (
            "severity kind log_partition lost_from:2 lost_below:2 lost:2 keys:2 file position log_offset reason"
        ),
        "verify --ways": "log_partition way end digest note",
        "verify summary": (
            "kind sound problems notes log_partitions batches records offsets groups digest digest_physical ways"
        ),
        "commit": "group committed_offsets log_partition log_offset undo_at:1 durability",
        "fetch": "group:2" + _POSITION.removeprefix("group"),
        "delete": "group deleted_offsets",
        "delete --dry-run": _CHANGE,
        "history": (
            "timestamp kind offset leader_epoch:2 metadata commit_timestamp:2 expire_timestamp:2 topic_id:2 "
            "log_partition:2 log_offset outcome effective_at:1 producer_id:2 producer_epoch:2 marker_offset:2"
        ),
        "history GROUP": (
            "topic partition timestamp kind offset leader_epoch:2 metadata:2 commit_timestamp:2 expire_timestamp:2 "
            "topic_id:2 log_partition:2 log_offset:1 outcome effective_at:1 producer_id:2 producer_epoch:2 "
            "marker_offset:2"
        ),
        "diff": _CHANGE,
        "rewinds": (
            "group topic partition timestamp offset_before offset_after step log_partition:2 log_offset:2 "
            "effective_at:2 restore_at"
        ),
        "rewinds --by-group": "group rewound_offsets first_timestamp last_timestamp:1 log_partition:2 restore_at",
        "restore": f"{_CHANGE} undo_at:2",
        "restore --dry-run": _CHANGE,
        "undelete": f"{_CHANGE} undo_at:2",
        "undelete --dry-run": _CHANGE,
        "undelete --list": (
            "group topic partition timestamp offset leader_epoch:2 metadata:1 commit_timestamp:1 recoverable "
            "log_partition:2 log_offset:2 last_log_offset:2"
        ),
        "expire": (
            "timestamp dry_run log_partitions groups groups_never groups_held groups_removed positions_expired "
            "positions_pending elapsed_ms"
        ),
        "expire --dry-run": (
            "group topic partition expires_at offset:2 counted_from:2 retention_ms:1 rule:1 log_partition:2 "
            "log_offset:2 reason:1"
        ),
        "abort": "producer_id log_partitions dropped_offsets",
        "abort --dry-run": (
            "group topic partition committed_offset pending_offset metadata:1 commit_timestamp:1 log_partition:2 "
            "log_offset:2"
        ),
        "compact": (
            "log_partition cleaned:2 complete:2 stopped:2 rolled:2 checkpoint:2 floor:2 bytes_before bytes_after "
            "segments_before:2 segments_after:2 bytes_read:2 bytes_written:2 records_read:1 records_kept superseded:1 "
            "tombstones_dropped:2 aborted_dropped:2 markers_dropped:2 keyless_dropped:2 passes:2 quarantined "
            "elapsed_ms:2 damaged:2 reason:1"
        ),
        "compact --dry-run": (
            "log_partition action bytes clean_bytes:2 cleanable_bytes ratio:1 live_bytes:1 first_dirty:2 uncleanable:2 "
            "records:2 freed_records:1 freed_bytes superseded:1 aborted:2 expired_tombstones:2 expired_markers:2 "
            "keyless:2 damaged:2 reason"
        ),
        "compact summary": (
            "kind log_partitions cleaned_partitions failed_partitions bytes_before bytes_after segments_before "
            "segments_after records_read records_kept quarantined stuck_transactions"
        ),
        "snapshot": "log_partition log_offset offsets bytes read_from:1 written:1 elapsed_ms:2",
        "repair": "kind log_partition lost_from lost_below keys file:1 position:2 reason",
        "repair --accept-loss": "report copies",
        "migrate": "group topic partition current offset action",
        "migrate summary": "dry_run groups committed kept dropped refused examples consumers incomplete",
        "spark audit": (
            "kind coverage log_partitions offsets groups commits deletes without_effect aborted_records open_records "
            "bytes first_timestamp last_timestamp findings"
        ),
        "spark lag": "group topic partitions lag most:1 beyond_end lost_partitions without_end",
        "spark lag --every": "group topic timestamp partitions lag most:1 beyond_end lost_partitions without_end",
        "spark compact-report": f"log_partition log_end:2 clean_end:1 segments:2 batches:2 {_SURVEY}",
        "spark compact-report --groups": f"group log_partition {_SURVEY}",
        "spark diff": (
            "group topic partition change offset_before offset_after leader_epoch_before:2 leader_epoch_after:2 "
            "metadata_before:1 metadata_after:1 commit_timestamp_before:2 commit_timestamp_after:2 "
            "expire_timestamp_before:2 expire_timestamp_after:2 topic_id_before:2 topic_id_after:2"
        ),
        "spark repartition": (
            "target partitions_before partitions_after batches records markers renamed digest incomplete"
        ),
        "spark snapshot": "source at taken_at format rows digest digests incomplete doubts",
        "spark migrate": "dry_run committed kept refused examples incomplete",
        "spark pack": "file bytes unpacked_bytes python abi libc packages",
        "spark verify": "log_partition end equal spark engine:1",
    }.items()
}
