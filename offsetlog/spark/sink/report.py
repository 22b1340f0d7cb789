"""The refused rows of a write: read from the files of its tasks, and reported in an error, a warning or a file."""

from __future__ import annotations

import json
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs as arrow_fs

from offsetlog.errors import InvalidArgumentError
from offsetlog.spark.sink.staging import RefusedRow, StagedMessage, read_staged, refused_row
from offsetlog.types import TopicPartition

_log = logging.getLogger("offsetlog.spark.sink")

_TOLD_MAX = 5


@dataclass(slots=True)
class RefusedGroup:
    """A group that is left out because of its refused rows.

    Attributes:
        refused_rows: how many rows of the group were refused.
        left_out_rows: how many valid rows of the group are left out.
        first: the first refused row of the group.
    """

    refused_rows: int
    left_out_rows: int
    first: RefusedRow


@dataclass(slots=True)
class Refusals:
    """All refused rows of a write.  The memory that it takes grows with the number of groups that have a refused row.

    Attributes:
        groups: the groups that are left out, by name.
        without_group: how many refused rows have no valid group.
        first_without_group: the first refused row without a valid group, or None.
        reasons: the number of refused rows for each reason.
    """

    groups: dict[str, RefusedGroup] = field(default_factory=dict)
    without_group: int = 0
    first_without_group: RefusedRow | None = None
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def rows(self) -> int:
        """How many rows were refused."""
        return self.reasons.total()

    @property
    def left_out_rows(self) -> int:
        """How many valid rows are left out because their groups have refused rows."""
        return sum(group.left_out_rows for group in self.groups.values())

    def add(self, row: RefusedRow, *, has_group: bool) -> None:
        """Counts one refused row."""
        self.reasons[row.reason] += 1
        if not has_group or row.group is None:
            self.without_group += 1
            self.first_without_group = self.first_without_group or row
            return
        known = self.groups.get(row.group)
        if known is None:
            self.groups[row.group] = RefusedGroup(1, 0, row)
        else:
            known.refused_rows += 1

    def left_in(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the rows of groups without a refused row, and counts the other rows.

        The first column of the batches must be the group.
        """
        if not self.groups:
            yield from batches
            return
        refused = pa.array(self.groups, pa.string())
        for batch in batches:
            left_out = pc.is_in(batch.column(0), value_set=refused)
            for entry in pc.value_counts(batch.column(0).filter(left_out)).to_pylist():
                self.groups[entry["values"]].left_out_rows += entry["counts"]
            yield batch.filter(pc.invert(left_out))

    def write(self, directory: Path, name: str, mode: str, *, rows: int) -> Path:
        """Writes the report as JSON, and returns its path.  Replaces an earlier report of the same write."""
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"offsetlog-refused-{name}.json"
        content = {
            "write": name,
            "mode": mode,
            "committed_rows": rows if mode == "permissive" else 0,
            "refused_rows": self.rows,
            "left_out_rows": self.left_out_rows,
            "reasons": dict(self.reasons.most_common()),
            "groups": [
                {
                    "group": name,
                    "refused_rows": group.refused_rows,
                    "left_out_rows": group.left_out_rows,
                    "first": asdict(group.first),
                }
                for name, group in sorted(self.groups.items())
            ],
            "rows_without_group": self.without_group,
            "first_without_group": asdict(self.first_without_group) if self.first_without_group is not None else None,
        }
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        os.replace(partial, path)
        return path

    def tell(self, path: Path) -> None:
        """Logs a warning that names some of the groups that are left out."""
        names = [repr(name) for name in sorted(self.groups)[:_TOLD_MAX]]
        more = len(self.groups) - len(names)
        _log.warning(
            "%d rows were refused, so the write omits %d groups (%s%s) and their %d valid rows; %d of the refused rows "
            "have no group; the report is %s",
            self.rows,
            len(self.groups),
            ", ".join(names) or "none",
            f" and {more} more" if more else "",
            self.left_out_rows,
            self.without_group,
            path,
        )


def read_refusals(file_system: arrow_fs.FileSystem, messages: Sequence[StagedMessage]) -> Refusals:
    """Returns the rows that the tasks refused, in the order of the DataFrame's partitions."""
    found = Refusals()
    for message in messages:
        if message.refused is None:
            continue
        for batch in read_staged(file_system, message.refused):
            has_group = batch.column(5).to_pylist()
            for row in range(batch.num_rows):
                found.add(refused_row(batch, row), has_group=has_group[row])
    return found


def refusal_error(messages: Sequence[StagedMessage]) -> InvalidArgumentError | None:
    """Returns the error that fails a write with mode=failfast; None if no row was refused."""
    first: RefusedRow | None = None
    rows = 0
    for message in messages:
        if message.refused is not None:
            rows += message.refused.rows
            first = first or message.first_refused
    if first is None:
        return None
    are = "1 row was" if rows == 1 else f"{rows} rows were"
    key: object = None
    if first.topic is not None and first.partition is not None:
        key = TopicPartition(first.topic, first.partition)
    return InvalidArgumentError(
        f"{are} refused, and nothing was committed. The first refused row has {first.key()}: {first.reason}. To commit "
        "the groups without refused rows, use mode=permissive",
        item=key,
    )
