"""The blocks of the documents run as they are written, and print what they show: each page is one session."""

from __future__ import annotations

import gc
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer
from markdown_it import MarkdownIt

import offsetlog
from offsetlog import TopicPartition, errors
from offsetlog.cli.app import application
from offsetlog.cli.output import Format
from tests.page_hosts import host_of
from tests.pages import OUTPUT, ROOT, Block, blocks, differences, fences, is_like, run

pytestmark = pytest.mark.source_tree


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")),
]

#: Pages whose blocks run in a test of their own, and the file that has it.
RUN_ELSEWHERE = {
    "docs/repair.md": "tests/test_documentation.py",
    "docs/pytest.md": "tests/pytest_plugin/test_plugin.py",
    "docs/how-to/spark.md": "tests/spark/test_page.py",
    "docs/spark-clusters.md": "tests/spark_cluster/test_page.py",
    "docs/spark.md": "tests/spark/test_page.py",
    "docs/zookeeper.md": "tests/zookeeper/test_page.py",
}

#: Blocks that do not run: how many a page has of a language, and why. A new one is a new number here.
NOT_RUN = {
    ("README.md", "text"): (1, "Spark on a broker's directory and a query without an end"),
    ("docs/architecture.md", "mermaid"): (2, "pictures; tests/rooms.py makes one, and the other has no code"),
    ("docs/architecture.md", "text"): (1, "made by tests/rooms.py, which compares it"),
    ("docs/cli.md", "text"): (110, "help and pictures, which tests/cli/test_cli_page.py makes and compares"),
    ("docs/commands.md", "text"): (1, "a question at a terminal; tests/cli/test_cli_consent.py asks each"),
    ("docs/digest.md", ""): (8, "bytes; tests/c/table/test_digest.c has the vectors"),
    ("docs/format/batches.md", ""): (1, "a layout of bytes"),
    ("docs/format/directory.md", ""): (3, "contents of files"),
    ("docs/format/records.md", ""): (3, "layouts of bytes"),
    ("docs/format/vectors.md", ""): (8, "bytes; the C tests have the vectors"),
    ("docs/format/wire.md", ""): (1, "a layout of bytes"),
    ("docs/format/wire.md", "text"): (26, "layouts of bytes"),
    ("docs/plugin.md", "text"): (1, "what pytest prints of the contract"),
    ("docs/plugin.md", "toml"): (1, "a line of another project; tests/manager/test_contract_plugin.py installs one"),
    ("docs/server.md", ""): (1, "a picture of a server under load"),
    ("docs/server.md", "json"): (1, "a line of the log"),
    ("docs/server.md", "properties"): (1, "a file for one machine; tests/server/test_page.py compares the table"),
    ("docs/table.md", ""): (1, "names of files"),
}


#: Indented blocks: how many a page has, and why they do not run. A new block is fenced. Commands in them are looked up.
INDENTED = {
    "docs/how-to/offsets-were-reset.md": (7, "for a broker; tests/kafka/test_copied_back.py and others follow them"),
    "README.md": (5, "commands of make, of a reader's Kafka, and the list of ours"),
    "CONTRIBUTING.md": (1, "commands of make, which tests run under"),
    "docs/format/conventions.md": (1, "a layout of bytes"),
    "docs/format/directory.md": (3, "contents of files"),
    "docs/format/index.md": (1, "forms of citations"),
    "docs/format/partitioning.md": (1, "a rule as pseudo-code; tests/c/base has its vectors"),
    "docs/history.md": (4, "commands on data of the reader"),
    "docs/kafka.md": (5, "commands on a broker; tests/kafka runs them"),
    "docs/library.md": (1, "the tree of exceptions; tests/test_errors.py"),
    "docs/maintenance.md": (1, "commands on data of the reader"),
    "docs/packages.md": (1, "commands that build"),
    "docs/plugin.md": (2, "three processes; tests/manager/test_broker_example.py starts them"),
    "docs/repair.md": (3, "commands on data of the reader"),
    "docs/retention.md": (1, "commands on data of the reader"),
    "docs/server.md": (4, "commands on data of the reader"),
    "docs/spark-clusters.md": (9, "machines, YARN, Kubernetes; parsed by tests/spark/test_cluster_manuals.py"),
    "docs/spark.md": (6, "commands on data of the reader"),
    "docs/verify.md": (2, "commands on data of the reader"),
}


def indented(page: str) -> list[str]:
    """The indented blocks of a page, by the rules of CommonMark."""
    tokens = MarkdownIt().parse((ROOT / page).read_text())
    return [token.content for token in tokens if token.type == "code_block"]


def test_no_indented_block_is_new():
    assert {page: len(found) for page in PAGES if (found := indented(page))} == {
        page: count for page, (count, _) in INDENTED.items()
    }


def runs(block: Block) -> bool:
    return block.language in ("python", "console") or block.info == OUTPUT


def test_every_block_runs_or_says_why_not():
    still = Counter((block.page, block.language) for page in PAGES for block in fences(page) if not runs(block))
    assert still == {key: count for key, (count, _) in NOT_RUN.items()}
    assert all(why for _, why in NOT_RUN.values())
    assert all((ROOT / test).is_file() for test in RUN_ELSEWHERE.values())


def test_output_follows_what_prints_it():
    for page in PAGES:
        before = None
        for block in fences(page):
            assert block.info != OUTPUT or before == "python", f"{block.place}: no Python block stands before it"
            before = block.language


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in RUN_ELSEWHERE and any(runs(block) for block in fences(page))]
)
def test_the_blocks_of_a_page_run(page):
    session: dict[str, Any] = {}
    with host_of(page) as play:
        found = differences(page, play, session)
        assert not found, "\n".join(found)
        stores = [value for value in session.values() if isinstance(value, offsetlog.OffsetStore)]
        # Clients end before the server that they are connected with, and not within a later test.
        session.clear()
        gc.collect()
    assert all(store.closed for store in stores)


@pytest.mark.parametrize(
    ("expected", "actual", "alike"),
    [
        ("a  b\n", "a b\n", True),
        ("a\n", "b\n", False),
        ("a\n", "a\nb\n", False),
        ("", "a\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nb\nc\n", False),
        ("took ... and ended\n", "took it and ended\n", True),
        ("at 2026-03-01 02:30:00.000 UTC, 2 d 3 h ago\n", "at 2027-01-01 00:00:00.001 UTC, 0 s ago\n", True),
        ("read in 3 ms\n", "read in 1.25 s\n", True),
        ("3 commits\n", "4 commits\n", False),
    ],
)
def test_outputs_are_compared(expected, actual, alike):
    assert is_like(expected, actual) == alike


def commands_in(page: str) -> list[str]:
    """The lines of a page's blocks, fenced and indented, that call the command; a server prints two that do not."""
    text = "".join([*(block.code for block in fences(page)), *indented(page)]).replace("\\\n", " ")
    return re.findall(r"^ *(?:\$ )?(offsetlog (?!(?:listens|answers) on )[a-z].*)", text, re.MULTILINE)


@cache
def every_command() -> Any:
    return typer.main.get_command(application())


def called(line: str) -> tuple[list[Any], list[str]]:
    """The commands that a line names, one for each of `a|b`, and the options in it."""
    place, group = 1, every_command()
    words = line.split()
    while hasattr(inner := group.commands.get(words[place]), "commands"):
        place, group = place + 1, inner
    return [group.commands[name] for name in words[place].split("|")], re.findall(r"(?<![\w-])--[a-z][a-z-]*", line)


@pytest.mark.parametrize("page", [page for page in PAGES if commands_in(page)])
def test_a_command_of_a_page_exists(page):
    for line in commands_in(page):
        named, options = called(line)
        known = {option for command in named for each in command.params for option in each.opts} | {"--help"}
        assert set(options) <= known, f"{line}: {sorted(set(options) - known)}"


def test_the_reference_has_every_public_name():
    pages = "".join(path.read_text() for path in (ROOT / "docs" / "reference").glob("*.md"))
    shown = re.findall(r"^::: (\S+)$", pages, re.MULTILINE)
    for name in offsetlog.__all__:
        value = getattr(offsetlog, name)
        if name in ("__version__", "errors", "types"):
            continue
        # An alias of types says that it is of the module `typing`.
        module = value.__module__ if value.__module__.startswith("offsetlog") else "offsetlog.types"
        assert {module, f"{module}.{name}"} & set(shown), f"docs/reference shows no {module}.{name}"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Each page with examples as a program, whose lines have the numbers that they have in the page."""
    folder = tmp_path_factory.mktemp("pages")
    written = []
    for page in PAGES:
        lines: list[str] = []
        for line, code in blocks(page):
            lines += [""] * (line - len(lines)) + code.splitlines()
        if not lines:
            continue
        written.append(folder / page.replace("/", "_").replace(".md", ".py"))
        written[-1].write_text("\n".join(lines) + "\n")
    return written


def test_type_checkers_refuse_names_that_the_package_lacks(tmp_path):
    program = tmp_path / "misspelt.py"
    lines = ["import offsetlog", "from offsetlog import Nonsense", "store: offsetlog.Storee", 'offsetlog.opne("x")']
    program.write_text("\n".join(lines) + "\n")
    call = [sys.executable, "-m", "mypy", "--config-file", "", "--cache-dir", str(tmp_path / "cache"), str(program)]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(call, capture_output=True, text=True, env=environment, timeout=300)
    assert [line for line in (2, 3, 4) if f"misspelt.py:{line}: error" not in done.stdout] == [], done.stdout


def test_mypy_takes_the_examples(sources):
    call = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--python-version", "3.11"]
    call += ["--ignore-missing-imports", "--cache-dir", str(sources[0].parent / "cache"), *map(str, sources)]
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(call, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_takes_the_examples(sources):
    pytest.importorskip("basedpyright", reason="basedpyright, of the dev extras, is not installed")
    settings = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "extraPaths": [str(ROOT)]}
    (sources[0].parent / "pyrightconfig.json").write_text(json.dumps(settings))
    call = [sys.executable, "-m", "basedpyright", "--project", str(sources[0].parent), "--pythonpath", sys.executable]
    done = subprocess.run(call, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("page", ["docs/library.md", "docs/tutorial.md", "docs/how-to/tail-files.md"])
def test_pages_agree_about_what_a_loss_of_power_takes(page):
    text = re.sub(r" \(`flush_interval_ms`\)", "", " ".join((ROOT / page).read_text().split()))
    assert "of the last second and of the flush under way" in text
    assert text.count("last second") == 1, "another account stands beside it"


def test_every_format_for_programs_is_stable():
    [row] = re.findall(r"^\| command line \|.*$", (ROOT / "docs" / "stability.md").read_text(), re.MULTILINE)
    covered = row.split("|")[2]
    assert all(each in covered for each in Format if each is not Format.TEXT)
def call_of(function: Any) -> str:
    """A function's name and arguments without their types, as the manual shows them."""
    signature = inspect.signature(function)
    plain = [each.replace(annotation=each.empty) for each in signature.parameters.values() if each.name != "self"]
    shown = str(signature.replace(parameters=plain, return_annotation=signature.empty))
    return function.__name__ + shown.replace("'", '"')


def test_the_manual_has_the_signature_of_open():
    shown = re.search(r"^`(open\(.*?\))`$", (ROOT / "docs/library.md").read_text(), re.MULTILINE | re.DOTALL)
    assert shown is not None
    assert " ".join(shown[1].split()) == call_of(offsetlog.open)


def test_the_calls_about_the_past_are_shown_with_their_arguments():
    shown = re.findall(r"^\| `(\w+\(.*?\))` \|", (ROOT / "docs/history.md").read_text(), re.MULTILINE)
    names = ("history", "group_history", "fetch", "to_arrow", "diff", "restore", "rewinds", "deletions", "undelete")
    assert shown == [call_of(getattr(offsetlog.OffsetStore, name)) for name in names]


def test_help_begins_with_the_two_calls_that_most_programs_need():
    shown = (inspect.getdoc(offsetlog.OffsetStore) or "")[:600]
    for call in (offsetlog.OffsetStore.fetch_one, offsetlog.OffsetStore.commit_one):
        named = re.search(rf"^ +{call.__name__}\((.*)\) ->", shown, re.MULTILINE)
        assert named is not None
        given = [each.partition("=")[0] for each in named[1].split(", ")]
        assert given == [each for each in inspect.signature(call).parameters if each != "self"][: len(given)]


GROUPS = [f"g{number}" for number in range(5)]


def damage(path: Path) -> Path:
    """Makes a store whose largest segment has a flipped bit in the middle of a batch, and returns the segment."""
    with offsetlog.open(path, partitions=4) as store:
        for number in range(20):
            store.commit(GROUPS[number % 5], {TopicPartition("orders", number % 3): number})
    segment = max(path.glob("*/*.log"), key=lambda file: file.stat().st_size)
    content = bytearray(segment.read_bytes())
    # In the records of the third batch, which the CRC covers: after two batches, each with its size at byte 8.
    third = 0
    for _ in range(2):
        third += 12 + int.from_bytes(content[third + 8 : third + 12])
    content[third + 70] ^= 1
    segment.write_bytes(content)
    return segment


def test_the_repair_of_a_damaged_directory(directory):
    segment = damage(directory / "data")
    damaged = segment.read_bytes()
    with pytest.warns(errors.CorruptionWarning):
        session = run("docs/repair.md")
    assert [problem.path for problem in session["found"]] == [str(segment.relative_to(directory))]
    assert segment.read_bytes() == damaged
    with pytest.warns(errors.CorruptionWarning):
        again = offsetlog.open("data", read_only=True)
    with (
        again as old,
        offsetlog.open("repaired", read_only=True) as by_columns,
        offsetlog.open("repaired-by-group", read_only=True) as by_group,
    ):
        kept = {group: old.fetch(group) for group in old.groups()}
        assert kept.keys() == set(GROUPS)
        assert {group: by_columns.fetch(group) for group in by_columns.groups()} == kept
        assert by_group.digest() == by_columns.digest() == old.digest()
        assert by_columns.problems() == by_columns.verify() == []
        assert by_columns.partitions == old.partitions


def follow(lines: Path, shipped: Path, *, kill: bool) -> None:
    """Runs the example of the page with its output appended to a file, as a service does; killed once it ships."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["PYTHONPATH"] = str(ROOT)
    before = shipped.stat().st_size if shipped.exists() else 0
    with shipped.open("ab") as target:
        process = subprocess.Popen([sys.executable, "follow.py", lines.name], stdout=target, env=environment)
    try:
        while kill and process.poll() is None and shipped.stat().st_size < before + 20_000:
            time.sleep(0.001)
        if kill:
            process.kill()
        assert process.wait(timeout=120) == (-signal.SIGKILL if kill else 0)
    finally:
        process.kill()
        process.wait()


def test_a_shipper_that_is_killed_loses_no_line(directory):
    [example] = [block for block in fences("docs/how-to/tail-files.md") if block.file == "follow.py"]
    Path("follow.py").write_text(example.code)
    lines, shipped, kills = directory / "app.log", directory / "shipped.txt", 2
    lines.write_text("".join(f"line {number:06}\n" for number in range(30_000)))
    for _ in range(kills):
        follow(lines, shipped, kill=True)
        status = lines.stat()
        with offsetlog.open("positions", read_only=True) as store:
            committed = store.fetch_one("shipper", f"{status.st_dev}-{status.st_ino}", 0)
        last = shipped.read_text().splitlines()[-1].removeprefix("app.log: ")
        assert committed is None or committed.offset <= lines.read_text().index(last) + len(last) + 1
    follow(lines, shipped, kill=False)
    counts = Counter(shipped.read_text().splitlines())
    assert counts.keys() == {f"app.log: {line}" for line in lines.read_text().splitlines()}
    assert sum(counts.values()) <= len(counts) + kills
