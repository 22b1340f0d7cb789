"""docs/cli.md, whose second half is made here: the help of each command, and pictures of it at 80 and 120 columns.

`python -m tests.cli.captures --write` writes the page; a test refuses one that is not what the commands print.  The
data and the clock are fixed.  The pictures of Spark's jobs take minutes: they stay as they are in the page, unless
`--spark` is given as well.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq

import offsetlog
import offsetlog.migration.migration
import offsetlog.verify
from offsetlog import OffsetAndMetadata, TopicPartition
from offsetlog._native.clocks import ManualClock
from offsetlog.cli import moments, spark
from offsetlog.cli.app import COMMANDS, application, run
from offsetlog.cli.fields import FIELDS, TABLES, Field
from offsetlog.lifecycle import partition_opener
from offsetlog.lifecycle.partition_opener import ReplicaOptions
from tests.cli.live_captures import server, steady, without_versions

PAGE = Path(__file__).resolve().parents[2] / "docs" / "cli.md"
#: The line of the page below which everything is written by this program.
MARK = "<!-- From here on `python -m tests.cli.captures --write` writes this page. -->\n"
WIDTHS = (80, 120)
#: 2026-03-01 02:00 UTC, when the data begin.
BEGIN = 1_772_330_400_000
HOUR = 3_600_000
NOW = BEGIN + 50 * HOUR

#: The calls that are shown, by command.  Calls joined by "&&" run one after the other.
CALLS: dict[str, list[str]] = {
    "offsets": ["offsets data", "offsets data --at 2026-03-01T02:30 --topic orders"],
    "groups": ["groups data"],
    "transactions": ["transactions data"],
    "dump": ["dump data/__consumer_offsets-1", "dump data/__consumer_offsets-1 --formatter offsets"],
    "verify": ["verify data", "verify data --ways"],
    "commit": ["commit data billing orders:3=17"],
    "fetch": ["fetch data billing"],
    "delete": ["delete data billing orders:0 --dry-run"],
    "history": ["history data billing orders 0"],
    "diff": ["diff data 2026-03-01T02:30"],
    "rewinds": ["rewinds data", "rewinds data --by-group"],
    "restore": ["restore data billing --at 2026-03-01T02:30 --dry-run"],
    "undelete": ["undelete data", "undelete data billing --dry-run"],
    "expire": ["expire data --retention 7d --within 6d"],
    "abort": ["abort data 11 --dry-run"],
    "compact": ["abort data 11 --yes && compact data", "compact data --dry-run"],
    "snapshot": ["snapshot data"],
    "repair": ["repair damaged"],
    "migrate": ["migrate --from data --to copy --dry-run"],
    "serve": ["serve data --listen 127.0.0.1:0 --metrics 127.0.0.1:0"],
    "top": ["top SERVER --metrics METRICS --once"],
    "demo": ["demo --entries 20000"],
    "completion": ["completion bash"],
}
#: The addresses in the pictures of a server, which listens on free ports.
SERVER, METRICS = "127.0.0.1:9092", "127.0.0.1:9093"
#: The ends of logs for `spark lag`.
ENDS = [
    {"topic": topic, "partition": number, "log_start_offset": 0, "log_end_offset": end, "timestamp": NOW}
    for topic, number, end in (("orders", 0, 4400), ("orders", 1, 4301), ("clicks", 0, 95_000), ("letters", 0, 7))
]
#: Offsets of old consumers for `spark migrate`.
ZOOKEEPER = "".join(
    f'{{"group": "legacy", "topic": "orders", "partition": {number}, "offset": {offset}}}\n'
    for number, offset in ((0, 310), (1, 288), (2, -1))
)
#: The jobs of Spark.
JOBS = {
    "spark audit": "spark audit data --stall 1h",
    "spark lag": "spark lag data --ends ends.parquet",
    "spark compact-report": "spark compact-report data",
    "spark repartition": "spark repartition data copy --partitions 4",
    "spark snapshot": "spark snapshot data positions",
    "spark diff": "spark diff data --at 2026-03-01T02:30",
    "spark verify": "spark verify data",
    "spark migrate": "spark migrate target --dump zookeeper.jsonl --dry-run",
    "spark pack": "spark pack environment.tar.gz",
}


class _Terminal(io.StringIO):
    encoding = "utf-8"  # type: ignore[assignment]

    def isatty(self) -> bool:
        return True


class _FixedTime(datetime):
    @classmethod
    def now(cls, tz: Any = None) -> Any:
        return datetime.fromtimestamp(NOW / 1000, tz or UTC)


@contextlib.contextmanager
def fixed_clock(clock: ManualClock) -> Iterator[None]:
    """Has everything read `clock` in place of the time of day."""
    application()  # imports every command, so that none takes the replaced function with it
    timed = [module for name, module in [*sys.modules.items()] if name.startswith("offsetlog")]

    def reading() -> int:
        return clock.milliseconds

    with contextlib.ExitStack() as patches:
        for module in timed:
            if hasattr(module, "wall_ms"):
                patches.enter_context(mock.patch.object(module, "wall_ms", reading))
        options = functools.partial(ReplicaOptions, clock=clock)
        patches.enter_context(mock.patch.object(partition_opener, "ReplicaOptions", options))
        patches.enter_context(mock.patch.object(moments, "datetime", _FixedTime))
        yield


def make_data(path: Path, clock: ManualClock) -> None:
    """Makes a log directory with three groups, a reset, a deletion and an open transaction."""
    with offsetlog.open(path, partitions=2, maintenance=offsetlog.MaintenanceConfig(enabled=False)) as store:
        orders = [TopicPartition("orders", number) for number in range(3)]
        store.commit("billing", {each: OffsetAndMetadata(4200 + each.partition, "by hand", 3) for each in orders})
        store.commit("audit", {TopicPartition("clicks", 0): 90_120})
        clock.milliseconds += HOUR
        store.commit("billing", {orders[0]: 0, orders[1]: 4301})
        store.delete("billing", [orders[2]])
        clock.milliseconds += HOUR
        store.commit("mailer", {TopicPartition("letters", 0): 7})
        transaction = store.transaction("audit", producer_id=11)
        transaction.commit({TopicPartition("clicks", 1): 88_000})


def captured(arguments: list[str], width: int) -> str:
    """Returns what a command prints on a terminal of this width, without its styles."""
    shown = _Terminal()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": str(width), "LINES": "50", "TERM": "xterm"}),
        # Paths stay as they are typed, wherever the temporary directory is.
        mock.patch.object(Path, "absolute", lambda path: path),
        contextlib.redirect_stdout(shown),
        contextlib.redirect_stderr(io.StringIO()) as complaints,
    ):
        run(arguments)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue()) + complaints.getvalue()
    # A duration is as long as the machine takes; its column is wider than any.
    text = re.sub(r" +\d+ ms(?= |$)", lambda found: "1 ms".rjust(len(found[0])), text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines())


def _pictures(name: str, source: Path, clock: ManualClock) -> Iterator[str]:
    for call in CALLS.get(name, []):
        for width in WIDTHS:
            with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
                for copy in ("data", "damaged"):
                    shutil.copytree(source, copy)
                shutil.rmtree("damaged/__consumer_offsets-1")
                clock.milliseconds = NOW
                if name in ("serve", "top", "demo"):
                    shown = _live(name, call, width)
                else:
                    with fixed_clock(clock):
                        shown = "".join(_shown(each, width) for each in call.split(" && "))
            yield f"\n{width} columns:\n\n```text\n{shown}```\n"


def _shown(call: str, width: int) -> str:
    return f"$ offsetlog {call}\n{captured(call.split(), width)}\n"


def _live(name: str, call: str, width: int) -> str:
    if name == "demo":
        return steady(_shown(call, width))
    with server("data") as (printed, address, metrics):
        text = f"$ offsetlog {CALLS['serve'][0]}\n{printed}"
        if name == "top":
            text = _shown(call.replace("SERVER", address).replace("METRICS", metrics), width)
    return steady(text.replace(address, SERVER).replace(metrics, METRICS))


def job_pictures(source: Path, clock: ManualClock) -> Iterator[tuple[str, str]]:
    """Runs each job of Spark at each width; yields the job's name and its pictures."""
    # One directory for all: Spark's JVM stays in the one in which it began.
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        for name, call in JOBS.items():
            pictures = []
            for width in WIDTHS:
                _prepare(Path(directory), source)
                clock.milliseconds = NOW
                with fixed_clock(clock):
                    shown = _shown(call, width).replace(os.path.realpath(directory), "/var/lib/offsetlog")
                if name == "spark pack":
                    shown = without_versions(shown)
                pictures.append(f"\n{width} columns:\n\n```text\n{shown}```\n")
            yield name, "".join(pictures)


def _prepare(directory: Path, source: Path) -> None:
    for old in directory.iterdir():
        if old.is_dir():
            shutil.rmtree(old)
        else:
            old.unlink()
    shutil.copytree(source, directory / "data")
    pq.write_table(pa.Table.from_pylist(ENDS), directory / "ends.parquet")
    (directory / "zookeeper.jsonl").write_text(ZOOKEEPER, encoding="utf-8")


def pictures_of(section: str) -> str:
    """Returns the pictures of a section of the page: everything from the first width on."""
    found = re.search(rf"\n{WIDTHS[0]} columns:\n", section)
    return section[found.start() :] if found else ""


def sections(text: str) -> dict[str, str]:
    """Returns the sections of the commands in the page, by name."""
    parts = re.split(r"\n### (.+)\n", text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def _unit(field: Field) -> str:
    return f"{field.kind}, {field.unit}" if field.unit and field.unit != field.kind else str(field.kind)


def _tables(name: str) -> Iterator[str]:
    for table, uses in TABLES.items():
        command = table.removeprefix("spark ").split()[0] if name.startswith("spark ") else table.split()[0]
        is_job = table.startswith("spark ")
        if command == name.removeprefix("spark ") and is_job == name.startswith("spark "):
            fields = ", ".join(f"`{use.name}`" for use in uses)
            yield f"\nFields of `{table}`: {fields}.\n"


def _help(name: str) -> str:
    return f"```text\n{_shown(f'{name} -h', 80)}```\n"


def generated(written: str, *, jobs: bool = False) -> str:
    """Returns everything of the page below MARK.

    Args:
        written: the page as it is; it has the pictures of Spark's jobs.
        jobs: whether these are made, too.
    """
    clock = ManualClock(BEGIN)
    old = sections(written)
    names = [*COMMANDS, *(f"spark {each.replace('_', '-')}" for each in spark.COMMANDS)]
    parts = ["\n## Fields\n\nA name means the same in every command.\n\n"]
    parts.append("| field | type, unit | meaning |\n|---|---|---|\n")
    parts += [f"| `{name}` | {_unit(field)} | {field.meaning} |\n" for name, field in FIELDS.items()]
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory) / "data"
        with fixed_clock(clock):
            make_data(source, clock)
        parts.append("\n## Commands\n\n")
        parts.append(_help("").replace("$ offsetlog  -h", "$ offsetlog -h"))
        ran = dict(job_pictures(source, clock)) if jobs else {}
        for name in names:
            parts.append(f"\n### {name}\n\n{_help(name)}")
            parts += _tables(name)
            parts += _pictures(name, source, clock)
            if name in JOBS:
                parts.append(ran.get(name) or pictures_of(old.get(name, "")).rstrip("\n") + "\n")
    return "".join(parts)


def page(*, jobs: bool = False) -> str:
    """Returns the page as it should be: the text above MARK, and what the commands print."""
    written = PAGE.read_text(encoding="utf-8")
    before, mark, after = written.partition(MARK)
    return before + (mark or MARK) + generated(after, jobs=jobs)


def main() -> None:
    """Writes the page."""
    if sys.argv[1:] not in (["--write"], ["--write", "--spark"], ["--print", "--spark"]):
        sys.exit("give --write: it writes docs/cli.md; --spark runs Spark's jobs as well; --print prints the page")
    made = page(jobs="--spark" in sys.argv)
    if "--print" in sys.argv:
        sys.stdout.buffer.write(made.encode())
    else:
        PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
