"""`offsetlog verify`: checks everything in a log."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from offsetlog.cli.arguments import LogPath, OutputFormat
from offsetlog.cli.columns import columns
from offsetlog.cli.output import Format, Output, count_text, progress
from offsetlog.cli.text import escape
from offsetlog.directory.reading import find_partitions, whole_size
from offsetlog.types import Digest, Way
from offsetlog.verify.findings import Finding

if TYPE_CHECKING:
    from offsetlog.verify import Verification

HELP = """Check everything in a log, and print each problem with file and position.

The command checks batches and records, indexes, producer snapshots, leader epochs, checkpoints, and the log partition
of each group. It builds the state of each log partition in four ways: by a plain replay, by loading the partition as a
store does when it opens, by a replay of the records that the cleaner would leave, and from the snapshot with the log
after it. All of these states must have the same digest; if the digests differ, the command names the keys that differ.
The command only reads PATH, and another program may write to PATH meanwhile. Traces of a crash, such as an unfinished
tail, are notes and not problems. Transactions that have not ended are notes as well, and so is a snapshot that cannot
be used.

Exit codes: 0 sound, 1 problems found, 2 could not be read.

\b
Examples:
  offsetlog verify /var/kafka-logs
  offsetlog verify /var/kafka-logs --partitions 50      where a broker holds only some of them
  offsetlog verify data --ways                          the digest of each way, by log partition
  offsetlog verify data --format json
"""

#: How many keys of missing commits are named in text; JSON has them all.
LOST_KEYS_PRINTED = 20


def place_of(finding: Finding) -> str:
    """Returns the place of a finding as text: file, byte, log offset."""
    place = escape(finding.path)
    if finding.position is not None:
        place += f", byte {finding.position}"
    if finding.lost_from is not None:
        end = "and above" if finding.lost_below is None else f"to {finding.lost_below - 1}"
        place += f", log partition {finding.log_partition}, log offsets {finding.lost_from} {end}"
    elif finding.log_offset is not None:
        place += f", log offset {finding.log_offset}"
    return place


def print_finding(output: Output, finding: Finding) -> None:
    """Prints one finding as a line of text."""
    lines = [f"{finding.severity}: {finding.kind}: {escape(finding.reason)} ({place_of(finding)})"]
    lines += [f"  {escape(str(key))}" for key in finding.keys]
    lines += [
        f"  group {escape(repr(group))}, topic {escape(repr(topic))}, partition {partition}"
        for group, topic, partition in finding.lost[:LOST_KEYS_PRINTED]
    ]
    if len(finding.lost) > LOST_KEYS_PRINTED:
        lines.append(f"  and {count_text(len(finding.lost) - LOST_KEYS_PRINTED, 'more key')}")
    for text in lines:
        if output.is_terminal:
            output.styled(text, "red" if finding.severity == "problem" else "yellow")
        else:
            output.line(text)


def way_row(way: Way) -> dict[str, Any]:
    """Returns one way of reading a log partition as a row; the digest is that of the state with its log offsets."""
    digest = None if way.digest is None else str(way.digest)
    return {"log_partition": way.log_partition, "way": way.name, "end": way.end, "digest": digest, "note": way.note}


def ways_text(ways: list[Way]) -> str:
    """Returns a text that says which ways of reading gave the same state, and in how many partitions."""
    partitions: dict[int | None, dict[Digest, list[str]]] = {}
    for way in ways:
        if way.digest is not None:
            partitions.setdefault(way.log_partition, {}).setdefault(way.digest, []).append(way.name)
    counts = Counter(" != ".join(" = ".join(names) for names in states.values()) for states in partitions.values())
    return "; ".join(f"{text} in {count_text(count, 'partition')}" for text, count in counts.items()) or "-"


def print_summary(output: Output, found: Verification) -> None:
    """Prints what was read, the verdict and the digest."""
    problems, notes = len(found.problems), len(found.findings) - len(found.problems)
    if output.is_json:
        output.summary(
            columns("verify summary"),
            {
                "kind": "summary",
                "sound": found.sound,
                "problems": problems,
                "notes": notes,
                "log_partitions": found.partitions,
                "batches": found.batches,
                "records": found.records,
                "offsets": found.positions,
                "groups": found.groups,
                "digest": str(found.digest),
                "digest_physical": str(found.digest_physical),
                "ways": [way_row(way) for way in found.ways],
            },
        )
        return
    positions, group_records, pending = (f"{part:032x}" for part in found.digest)
    verdict = "sound" if found.sound else count_text(problems, "problem")
    if not found.batches and found.sound:
        verdict = "sound and empty"
    output.title(verdict + (f", {count_text(notes, 'note')}" if notes else ""))
    read = [
        count_text(found.partitions, "partition"),
        count_text(found.batches, "batch", "batches"),
        count_text(found.records, "record"),
    ]
    output.facts(
        [
            ("read", ", ".join(read)),
            ("state", f"{count_text(found.positions, 'committed offset')} of {count_text(found.groups, 'group')}"),
            ("digest of committed offsets", positions),
            ("digest of group records", group_records),
            ("digest of pending offsets", pending),
            ("ways compared", ways_text(found.ways)),
        ]
    )


def command(
    path: LogPath,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="How many partitions the offsets topic has. Needed if PATH does not record it."
        ),
    ] = None,
    ways: Annotated[
        bool,
        typer.Option(
            "--ways",
            help="Also print the digest of the state of each log partition, for each way in which the command builds "
            "the state. In TSV and CSV, print these digests instead of the findings.",
        ),
    ] = False,
    form: OutputFormat = Format.TEXT,
) -> int:
    """Verifies; returns the exit code."""
    # These modules are imported here, because they import numpy, which only this command needs.
    from offsetlog.cancellation import Control, interruptibly
    from offsetlog.verify import verify

    output = Output(form)
    kept: list[Finding] = []
    with progress("verifying", whole_size(find_partitions(path))) as advance:
        # Findings are kept until the verification ends, because a line that is printed now would break the progress
        # bar.
        found = interruptibly(lambda control: verify(path, partitions, kept.append, advance, control), Control())
    is_table_of_ways = ways and not output.is_json
    if output.is_text:
        for finding in kept:
            print_finding(output, finding)
    elif not is_table_of_ways:
        output.rows(columns("verify"), (finding.row() for finding in kept), "")
    if is_table_of_ways:
        output.rows(columns("verify --ways"), [way_row(way) for way in found.ways], "no partitions", wide=True)
    print_summary(output, found)
    return 0 if found.sound else 1
