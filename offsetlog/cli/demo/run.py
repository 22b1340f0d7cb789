"""The steps of the demo."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import offsetlog
from offsetlog import OffsetAndMetadata, OffsetStore, TopicPartition
from offsetlog.cli.columns import columns
from offsetlog.cli.groups import rows_of
from offsetlog.cli.output import Format, Output, bytes_text, complain, count_text, progress
from offsetlog.directory.listing import offset_rows
from offsetlog.directory.reading import PartitionState, find_partitions, read_state
from offsetlog.errors import StorageError

HELP = """See offsetlog work on real input, in a temporary directory, in half a minute.

The demo opens a copy of a log directory that a Kafka 4.3.0 broker wrote, and shows its groups and offsets. It commits
offsets to the copy in every way, and prints the rates. Then it closes, reopens and verifies the copy, and prints how
much memory and disk space an entry takes. It leaves no files.

Exit codes: 0 everything was right, 1 something was wrong, 2 the demo could not run.

\b
Examples:
  offsetlog demo
  offsetlog demo --entries 100000     for a small machine
  offsetlog demo --keep               keeps the directory, so that you can inspect it
"""

BUNDLED = Path(__file__).parent / "kafka-4.3.0"
PARTITIONS = 8
TOPICS_PER_GROUP = 10
PARTITIONS_PER_TOPIC = 100
PER_GROUP = TOPICS_PER_GROUP * PARTITIONS_PER_TOPIC
#: The bytes that one offset takes on disk, roughly, over all steps.
DISK_BYTES_PER_ENTRY = 400
#: How long the step with commits that wait for the disk may take.
DISK_SECONDS = 2.0
SEED = 1
LOG = "log"
ROWS_SHOWN = 8


@dataclass(slots=True)
class _Demo:
    """One run of the demo: its directory, its size, and the number of records in the log so far."""

    output: Output
    path: Path
    entries: int
    records: int = 0
    expected: dict[tuple[str, str, int], int] = field(default_factory=dict)
    steps: list[tuple[str, int, str, float, dict[str, Any]]] = field(default_factory=list)

    def add_step(self, step: str, count: int, what: str, seconds: float, **more: Any) -> None:
        """Stores the duration of a step until `print_steps` prints it; a line now would break the progress bar."""
        self.steps.append((step, count, what, seconds, more))

    def committed(self, step: str, count: int, seconds: float) -> None:
        """Stores the duration of a step that commits, and counts one record for each offset that it commits."""
        self.records += count
        self.add_step(step, count, "offsets", seconds)

    def print_steps(self) -> None:
        """Prints the time and the rate of each step since the last call."""
        for step, count, what, seconds, more in self.steps:
            rate = count / seconds if seconds > 0 else 0.0
            label = f"{step}, {more['entries']:,} entries" if "entries" in more else step
            self.output.line(f"  {label:<35}{count:>11,} {what:<7}{seconds:>7.2f} s {rate:>10,.0f} /s")
            if self.output.is_json:
                row = {"step": step, what: count, "seconds": round(seconds, 3), "per_second": round(rate)}
                self.output.json_line({**row, **more})
        self.steps.clear()


def _clock() -> Callable[[], float]:
    start = time.perf_counter()
    return lambda: time.perf_counter() - start


# ---------------------------------------------------------------------------------------------------- what is there


def _show_bundled(demo: _Demo) -> None:
    output = demo.output
    output.title("A log directory as a Kafka 4.3.0 broker left it")
    seconds = _clock()
    states: list[PartitionState] = [read_state(each) for each in find_partitions(demo.path)]
    groups, offsets = rows_of(states), list(offset_rows(states))
    took = seconds()
    demo.records = sum(state.replay.records for state in states)
    batches = sum(state.replay.batches for state in states)
    if output.is_json:
        output.json_line({"step": "read", "batches": batches, "groups": len(groups), "offsets": len(offsets)})
        return
    output.rows(columns("groups"), groups, "")
    output.rows(columns("offsets"), offsets[:ROWS_SHOWN], "")
    more = f", of which {ROWS_SHOWN} are shown" if len(offsets) > ROWS_SHOWN else ""
    output.line(
        f"{count_text(len(groups), 'group')} and {count_text(len(offsets), 'committed offset')}{more}, "
        f"read from {count_text(batches, 'batch', 'batches')} in {1000 * took:.1f} ms"
    )


# ---------------------------------------------------------------------------------------------------------- commits


def _names(group: int, topic: int) -> tuple[str, str]:
    return f"demo-group-{group:06d}", f"topic-{topic}"


def _group_count(entries: int) -> int:
    return max(1, entries // PER_GROUP)


def _commit_columns(demo: _Demo, store: OffsetStore, advance: Callable[[int], None]) -> None:
    import pyarrow

    count = _group_count(demo.entries)
    batches = []
    for first in range(0, count, 100):
        rows = [
            (*_names(group, topic), partition)
            for group in range(first, min(first + 100, count))
            for topic in range(TOPICS_PER_GROUP)
            for partition in range(PARTITIONS_PER_TOPIC)
        ]
        names, topics, partitions = zip(*rows, strict=True)
        columns = {
            "group": pyarrow.array(names).dictionary_encode(),
            "topic": pyarrow.array(topics).dictionary_encode(),
            "partition": pyarrow.array(partitions, pyarrow.int32()),
            "offset": pyarrow.array(partitions, pyarrow.int64()),
        }
        batches.append(pyarrow.record_batch(columns))
        advance(len(rows))
    seconds = _clock()
    for batch in batches:
        store.commit_arrow(batch, durability="process")
    demo.committed("columns (commit_arrow)", count * PER_GROUP, seconds())


def _commit_single(demo: _Demo, store: OffsetStore, advance: Callable[[int], None]) -> None:
    count = _group_count(demo.entries)
    draw = random.Random(SEED)
    commit_one = store.commit_one
    total, took = demo.entries // 2, 0.0
    for first in range(0, total, 20_000):
        calls = [
            (
                *_names(draw.randrange(count), draw.randrange(TOPICS_PER_GROUP)),
                draw.randrange(PARTITIONS_PER_TOPIC),
                each,
            )
            for each in range(first, min(first + 20_000, total))
        ]
        seconds = _clock()
        for group, topic, partition, offset in calls:
            commit_one(group, topic, partition, offset, durability="process")
        took += seconds()
        demo.expected.update(((group, topic, partition), offset) for group, topic, partition, offset in calls)
        advance(len(calls))
    demo.committed("one at a time (commit_one)", total, took)


def _commit_hundreds(demo: _Demo, store: OffsetStore, advance: Callable[[int], None]) -> None:
    count = _group_count(demo.entries)
    draw = random.Random(SEED + 1)
    total, took = max(1, demo.entries // 200), 0.0
    for turn in range(total):
        group, topic = _names(draw.randrange(count), draw.randrange(TOPICS_PER_GROUP))
        offsets = {TopicPartition(topic, partition): turn for partition in range(PARTITIONS_PER_TOPIC)}
        seconds = _clock()
        store.commit(group, offsets, durability="process")
        took += seconds()
        demo.expected.update(((group, topic, partition), turn) for partition in range(PARTITIONS_PER_TOPIC))
        advance(len(offsets))
    demo.committed("a hundred at a time (commit)", total * PARTITIONS_PER_TOPIC, took)


def _commit_to_disk(demo: _Demo, store: OffsetStore) -> None:
    with progress("waiting for the disk", int(DISK_SECONDS * 10), in_bytes=False) as advance:
        done, shown, seconds = 0, 0, _clock()
        # This step commits at most as many offsets as --entries.  Without this limit, it would take most of the demo's
        # time on a fast disk.
        while (took := seconds()) < DISK_SECONDS and done < demo.entries:
            tickets = [
                store.commit_async(
                    f"waiting-{each}", {TopicPartition("topic", 0): OffsetAndMetadata(done)}, durability="disk"
                )
                for each in range(1000)
            ]
            for ticket in tickets:
                ticket.result(60)
            done += len(tickets)
            advance(int(took * 10) - shown)
            shown = int(took * 10)
        demo.committed("to disk, 1,000 commits at a time", done, seconds())


def _commit(demo: _Demo) -> str:
    demo.output.line()
    demo.output.title("Commits to it")
    with offsetlog.open(demo.path, partitions=PARTITIONS) as store:
        with progress("committing", 2 * demo.entries, in_bytes=False) as advance:
            # The steps are printed at the end, so that no line breaks a progress bar.
            _commit_columns(demo, store, advance)
            _commit_single(demo, store, advance)
            _commit_hundreds(demo, store, advance)
        demo.print_steps()
        _commit_to_disk(demo, store)
        demo.print_steps()
        return str(store.digest())


# ------------------------------------------------------------------------------------------------ what came of them


def _size_of(path: Path) -> int:
    return sum(each.stat().st_size for each in path.rglob("*.log"))


def _reopen(demo: _Demo, digest: str) -> bool:
    output = demo.output
    output.line()
    output.title("Closed and opened again")
    size = _size_of(demo.path)
    seconds = _clock()
    with offsetlog.open(demo.path) as store:
        took = seconds()
        count = store.to_arrow().num_rows
        demo.add_step("load", demo.records, "records", took, entries=count, log_bytes=size)
        seconds = _clock()
        wrong = sum(_is_wrong(store, *each) for each in _all_expected(demo))
        fetched = _group_count(demo.entries) * PER_GROUP
        demo.add_step("each of these positions (fetch_one)", fetched, "offsets", seconds(), wrong=wrong)
        seconds = _clock()
        problems = store.verify()
        same = str(store.digest()) == digest
        demo.add_step("verify (reads and compares the log)", demo.records, "records", seconds(), problems=len(problems))
        memory = store.memory()
    demo.print_steps()
    for problem in problems:
        complain(str(problem))
    _show_cost(demo, memory, count, size)
    output.line()
    output.title("sound" if not problems and not wrong and same else "NOT SOUND")
    output.facts(
        [
            ("digest", digest),
            ("", "the same before and after" if same else "different after the store was opened again"),
            ("wrong", f"{wrong:,} of {count_text(fetched, 'offset')}"),
        ]
    )
    if output.is_json:
        output.json_line({"step": "verdict", "sound": not problems and not wrong and same, "digest": digest})
    return not problems and not wrong and same


def _all_expected(demo: _Demo) -> Iterator[tuple[tuple[str, str, int], int]]:
    # A position that was not committed again has the value from the columns of the first step.
    for group in range(_group_count(demo.entries)):
        for topic in range(TOPICS_PER_GROUP):
            names = _names(group, topic)
            for partition in range(PARTITIONS_PER_TOPIC):
                key = (*names, partition)
                yield key, demo.expected.get(key, partition)


def _is_wrong(store: OffsetStore, key: tuple[str, str, int], offset: int) -> bool:
    found = store.fetch_one(*key)
    return found is None or found.offset != offset


def _show_cost(demo: _Demo, memory: dict[str, int], count: int, size: int) -> None:
    output = demo.output
    per_entry = memory["total"] / count
    if output.is_json:
        row = {"step": "memory", "entries": count, "bytes": memory["total"], "per_entry": round(per_entry, 1)}
        output.json_line(row)
        return
    output.line()
    output.facts(
        [
            (
                "memory",
                f"{bytes_text(memory['total'])} for {count_text(count, 'entry', 'entries')}, {per_entry:.1f} each",
            ),
            ("log", f"{bytes_text(size)} on disk: all commits of the demo, not compacted"),
        ]
    )


# -------------------------------------------------------------------------------------------------------- the whole


@contextlib.contextmanager
def _directory(keep: bool) -> Iterator[Path]:
    # SIGTERM and SIGHUP end the demo as an interrupt does: the directory is removed.
    before = {each: signal.signal(each, _end) for each in (signal.SIGTERM, signal.SIGHUP)}
    path = Path(tempfile.mkdtemp(prefix="offsetlog-demo-"))
    try:
        if keep:
            # This line is printed first, because the terminal may be gone at the end.
            complain(f"the directory is {os.fspath(path / LOG)}")
        yield path
    finally:
        if not keep:
            shutil.rmtree(path, ignore_errors=True)
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def _affordable(entries: int, path: Path) -> int:
    free = shutil.disk_usage(path).free
    fitting = int(free * 0.5) // DISK_BYTES_PER_ENTRY
    if fitting < PER_GROUP:
        raise StorageError(
            f"only {bytes_text(free)} are free, too little for the demo; free some space or set TMPDIR", path=path
        )
    if fitting < entries:
        complain(
            f"only {bytes_text(free)} are free in {path}: the demo commits {fitting:,} entries instead of {entries:,}"
        )
    return min(entries, fitting)


def command(
    entries: Annotated[
        int, typer.Option(min=1000, max=50_000_000, help="How many offsets the demo commits in its first step.")
    ] = 1_000_000,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the directory, and print its path.")] = False,
    form: Annotated[
        Literal["text", "json"],
        typer.Option("--format", help="Output format: text, or json (one object per line)."),
    ] = "text",
) -> int:
    """Runs the demo; returns the exit code."""
    output = Output(Format(form))
    with _directory(keep) as directory:
        entries = _affordable(entries, directory)
        log = directory / LOG
        shutil.copytree(BUNDLED, log, ignore=shutil.ignore_patterns(".gitattributes"))
        demo = _Demo(output, log, entries)
        _show_bundled(demo)
        is_sound = _reopen(demo, _commit(demo))
    return 0 if is_sound else 1
