"""`offsetlog dump`: every record of a log, decoded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from offsetlog.cli.arguments import LogPath, OutputFormat, Wide
from offsetlog.cli.columns import columns, shown_as
from offsetlog.cli.formatters import Formatter, Lines
from offsetlog.cli.output import Format, Output, complain
from offsetlog.cli.states import complain_of_tail
from offsetlog.cli.text import escape, plain
from offsetlog.directory.listing import TOPIC
from offsetlog.directory.reading import Tail, dump_batches, find_partitions
from offsetlog.errors import CorruptionError, InvalidArgumentError

HELP = """Print every record in the files, with keys and values decoded.

The rows are in log order, partition by partition, with the fields of their batch; a batch without records is a row of
kind "empty". Bytes that cannot be read are skipped, and reported on standard error.

With --formatter, the command prints the lines that Kafka's console consumer prints with one of its formatters. The
formatters "offsets" and "groups" are for __consumer_offsets, and "transactions" is for __transaction_state; "old" is
the formatter "offsets" of Kafka 0.8.2. Records that the formatter does not print are skipped. --kafka names a version
of Kafka; the lines are then as this version prints them. From Kafka 3.9 on, each record is one JSON object, on a line
of its own; Kafka 3.9 itself prints no line breaks between the objects. On a terminal, control characters are escaped;
elsewhere they are printed as they are, as Kafka does.

Exit codes: 0 done, 1 something is damaged or cannot be decoded, 2 could not be read.

\b
Examples:
  offsetlog dump /var/kafka-logs/__consumer_offsets-12
  offsetlog dump /var/kafka-logs --format json | grep '"marker"'
  offsetlog dump /var/kafka-logs --formatter offsets --kafka 0.10
  offsetlog dump /var/kafka-logs --formatter transactions
"""


def _parts(fields: dict[str, Any] | None) -> list[str]:
    if fields is None:
        return ["-"]
    data = fields.get("data", fields)
    return [f"{name}={plain(value)}" for name, value in data.items()]


def _fields_text(fields: dict[str, Any] | None) -> str:
    return " ".join(_parts(fields))


COLUMNS = columns("dump")
for _name in ("key", "value"):
    COLUMNS = shown_as(COLUMNS, _name, show=_fields_text, parts=_parts)


#: The fields that all records of a batch share.
BATCH = [column.name for column in COLUMNS[: [column.name for column in COLUMNS].index("log_offset")]]


class _Reported:
    """Reports damage while the rows are printed, and counts the damage and the undecodable records."""

    def __init__(self) -> None:
        self.damages = 0
        self.undecodable = 0

    def report(self, found: CorruptionError | Tail) -> None:
        if isinstance(found, CorruptionError):
            self.damages += 1
            complain(str(found))
        else:
            complain_of_tail(found)


def _batches(
    path: Path, reported: _Reported, topic: str = TOPIC
) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    for files in find_partitions(path, topic):
        for batch, records in dump_batches(files, reported.report):
            reported.undecodable += sum(record["kind"] == "undecodable" for record in records)
            batch["partition_leader_epoch"] = batch.pop("leader_epoch")
            yield {name: batch[name] for name in BATCH}, records


def _rows(path: Path, reported: _Reported) -> Iterator[dict[str, Any]]:
    return ({**batch, **record} for batch, records in _batches(path, reported) for record in records)


def _print_lines(path: Path, reported: _Reported, lines: Lines, output: Output) -> None:
    for _, records in _batches(path, reported, lines.topic):
        for record in records:
            text = lines.of(record)
            if text is not None:
                output.verbatim(escape(text) if output.is_terminal else text)


def command(
    path: LogPath,
    wide: Wide = False,
    form: OutputFormat = Format.TEXT,
    formatter: Annotated[
        Formatter | None,
        typer.Option("--formatter", help="Print what this formatter of Kafka prints, instead of the table of records."),
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            "--kafka",
            metavar="VERSION",
            help="Print the lines as this version of Kafka does; 0.8.2 is the oldest, and the newest is the default. "
            "A shorter number, such as 2.8 or 0.10, means the last release of that version.",
        ),
    ] = None,
) -> int:
    """Prints every record; returns the exit code."""
    reported = _Reported()
    output = Output(form)
    if formatter is not None:
        if form is not Format.TEXT or wide:
            raise InvalidArgumentError("--formatter prints lines as Kafka does; omit --format and --wide")
        _print_lines(path, reported, Lines(formatter, kafka), output)
    elif kafka is not None:
        raise InvalidArgumentError("--kafka needs --formatter")
    elif output.is_json:
        for batch, records in _batches(path, reported):
            output.objects(batch, records)
    else:
        output.rows(COLUMNS, _rows(path, reported), "no records", wide=wide)
    if reported.undecodable:
        complain(f'{reported.undecodable} records cannot be decoded; their kind is "undecodable"')
    return 1 if reported.damages or reported.undecodable else 0
