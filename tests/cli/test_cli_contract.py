"""One contract for all commands: the same fields in every format, one exit code for an unknown group, help."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from depth import first_seed

pytest.importorskip("typer")

import offsetlog
from offsetlog import OffsetAndMetadata, TopicPartition
from offsetlog.cli import spark
from offsetlog.cli.app import COMMANDS
from offsetlog.cli.columns import columns, utc_text
from offsetlog.cli.consent import ANSWER
from offsetlog.cli.fields import FIELDS, TABLES, Kind
from offsetlog.cli.help import example_lines
from offsetlog.cli.layout import INDENT, LONG, Column, Layout
from offsetlog.moments import parse_moment
from tests.cli.test_cli_read import DATA, call, on_terminal, unstyled

FORMATS = ("tsv", "csv", "json")


# ------------------------------------------------------------------------------------------------------------ the table


def test_every_field_of_a_table_is_defined_and_every_field_is_used():
    used = {use.name for uses in TABLES.values() for use in uses}
    assert used == set(FIELDS)
    assert all(len({use.name for use in uses}) == len(uses) for uses in TABLES.values())


def test_fields_stand_in_the_same_order_in_every_table():
    # A dump shows the bytes of a batch in their order.
    tables = {name: [use.name for use in uses] for name, uses in TABLES.items() if name != "dump"}
    for (first, one), (second, other) in itertools.combinations(tables.items(), 2):
        assert [name for name in one if name in other] == [name for name in other if name in one], (first, second)


def test_units_are_those_of_the_types():
    for name, field in FIELDS.items():
        assert name.endswith("_ms") == (field.kind is Kind.DURATION), name
        assert field.kind is not Kind.TIME or field.unit == "ms since 1970, UTC"
        assert not re.search("second|_size$", name) or name == "batch_size"
        assert field.meaning
        assert field.meaning[-1] != "."


def test_every_command_that_prints_rows_has_its_table():
    silent = {"serve", "top", "demo", "completion"}
    assert {name.split()[0] for name in TABLES} - {"spark"} == set(COMMANDS) - silent
    jobs = {name.split()[1] for name in TABLES if name.startswith("spark ")}
    assert jobs == {name.replace("_", "-") for name in spark.COMMANDS}


# ------------------------------------------------------------------------------------------------ commands and formats


@pytest.fixture
def data(tmp_path) -> Path:
    path = tmp_path / "data"
    with offsetlog.open(path, partitions=2) as store:
        store.commit("billing", {TopicPartition("orders", 0): OffsetAndMetadata(42, "a\tb\"c", 3)})
        store.commit("billing", {TopicPartition("orders", 0): 50, TopicPartition("orders", 1): 7})
        store.delete("billing", [TopicPartition("orders", 1)])
        transaction = store.transaction("billing", producer_id=11)
        transaction.commit({TopicPartition("orders", 5): 9})
    return path


def _copied(tmp_path: Path) -> list[object]:
    return ["--from", tmp_path / "data", "--to", tmp_path / "target"]


#: Calls that print the rows of each table; the jobs of Spark have theirs in tests/spark.
CALLS: dict[str, Callable[[Path], list[object]]] = {
    "offsets": lambda path: ["offsets", path],
    "groups": lambda path: ["groups", DATA / "groups" / "log"],
    "transactions": lambda path: ["transactions", path],
    "dump": lambda path: ["dump", path],
    "verify": lambda path: ["verify", path],
    "verify --ways": lambda path: ["verify", path, "--ways"],
    "commit": lambda path: ["commit", path, "billing", "orders:3=1"],
    "fetch": lambda path: ["fetch", path, "billing"],
    "delete": lambda path: ["delete", path, "billing", "orders:0", "--yes"],
    "delete --dry-run": lambda path: ["delete", path, "billing", "--dry-run"],
    "history": lambda path: ["history", path, "billing", "orders", "0"],
    "history GROUP": lambda path: ["history", path, "billing"],
    "diff": lambda path: ["diff", path, "offset:1", "--group", "billing"],
    "rewinds": lambda path: ["rewinds", path],
    "rewinds --by-group": lambda path: ["rewinds", path, "--by-group"],
    "restore": lambda path: ["restore", path, "billing", "--at", "offset:1", "--yes"],
    "restore --dry-run": lambda path: ["restore", path, "billing", "--at", "offset:1", "--dry-run"],
    "undelete": lambda path: ["undelete", path, "billing", "--yes"],
    "undelete --dry-run": lambda path: ["undelete", path, "billing", "--dry-run"],
    "undelete --list": lambda path: ["undelete", path],
    "expire": lambda path: ["expire", path, "--retention", "0", "--yes"],
    "expire --dry-run": lambda path: ["expire", path, "--retention", "7d", "--within", "8d"],
    "abort": lambda path: ["abort", path, "11", "--yes"],
    "abort --dry-run": lambda path: ["abort", path, "11", "--dry-run"],
    "compact": lambda path: ["compact", path],
    "compact --dry-run": lambda path: ["compact", path, "--dry-run"],
    "snapshot": lambda path: ["snapshot", path],
    "repair": lambda path: ["repair", path],
    "repair --accept-loss": lambda path: ["repair", path, "--accept-loss", "--yes"],
    "migrate": lambda path: ["migrate", *_copied(path.parent), "--dry-run"],
}


def _lose_a_log_partition(path: Path) -> None:
    # The witnesses know it, so repair reports it.
    for folder in path.glob("__consumer_offsets-1"):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def _rewind(data: Path) -> None:
    with offsetlog.open(data) as store:
        store.commit("billing", {TopicPartition("orders", 0): 3})


def _prepared(name: str, data: Path) -> list[object]:
    if name.startswith("repair"):
        _lose_a_log_partition(data)
    if name.startswith("rewinds"):
        _rewind(data)
    return CALLS[name](data)


def _table_of(form: str, out: str) -> tuple[list[str], list[list[str]]]:
    """The heading and the rows, with the texts that were meant."""
    if form == "csv":
        heading, *rows = csv.reader(io.StringIO(out, newline=""))
    else:
        heading, *lines = (line.split("\t") for line in out.split("\n")[:-1])
        rows = [[_meant(*each) for each in zip(heading, line, strict=True)] for line in lines]
    return heading, rows


_ESCAPED = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|(.))", re.DOTALL)


def _meant(name: str, cell: str) -> str:
    if FIELDS[name].kind in (Kind.LIST, Kind.OBJECT):
        return cell  # JSON has its own escapes
    letters = {"t": "\t", "n": "\n", "r": "\r", "\\": "\\"}
    return _ESCAPED.sub(lambda found: letters[found[3]] if found[3] else chr(int(found[1] or found[2], 16)), cell)


def test_a_time_as_it_is_printed_is_a_moment():
    assert parse_moment(utc_text(1_772_330_400_123)) == datetime.fromtimestamp(1_772_330_400.123, UTC)


def _cell(name: str, value: Any) -> str:
    if value is None or (FIELDS[name].kind is Kind.TIME and value == -1):
        return ""
    if FIELDS[name].kind is Kind.TIME:
        return utc_text(value)
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def test_each_table_of_the_commands_has_a_call():
    of_commands = {name for name in TABLES if not name.startswith("spark ") and not name.endswith("summary")}
    assert set(CALLS) == of_commands


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("form", FORMATS)
def test_the_fields_of_every_command_are_those_of_the_table(data, capsys, name, form):
    code, out, err = call(capsys, *_prepared(name, data), "--format", form)
    assert code in (0, 1), err
    expected = [use.name for use in TABLES[name]]
    if form != "json":
        heading, rows = _table_of(form, out)
        assert heading == expected
        assert rows or name == "verify --ways" or name == "verify"
        assert all(len(row) == len(expected) for row in rows)
        return
    rows = [json.loads(line) for line in out.splitlines()]
    summary = TABLES.get(f"{name.split()[0]} summary")
    if summary is not None and rows and "--dry-run" not in name:
        assert list(rows.pop()) == [use.name for use in summary]
    if name.startswith("verify --ways"):
        assert not rows or list(rows[0]) == [use.name for use in TABLES["verify"]]
        return
    assert rows
    assert all(list(row) == expected for row in rows)


@pytest.mark.parametrize(
    "name",
    [
        "offsets", "groups", "transactions", "dump", "verify", "fetch", "history", "history GROUP", "diff", "rewinds",
        "rewinds --by-group", "undelete --list",
    ],
)
def test_every_format_has_the_same_values(data, capsys, name, monkeypatch):
    monkeypatch.setattr("offsetlog.directory.listing.wall_ms", lambda: 1_900_000_000_000)
    arguments = _prepared(name, data)
    tsv = _table_of("tsv", call(capsys, *arguments, "--format=tsv")[1])
    assert tsv == _table_of("csv", call(capsys, *arguments, "--format=csv")[1])
    rows = [json.loads(line) for line in call(capsys, *arguments, "--format=json")[1].splitlines()]
    rows = [row for row in rows if row.get("kind") != "summary"]
    if name != "dump":  # bytes in keys and values are escaped there in their own way
        assert tsv[1] == [[_cell(field, value) for field, value in row.items()] for row in rows]
    piped = call(capsys, *arguments)[1]
    if name != "verify":
        assert _table_of("tsv", piped) == tsv
        lines = re.split(r"[\r\n]+", unstyled(on_terminal(*arguments, "--wide", columns=80)[1]))
        heading = next(number for number, line in enumerate(lines) if line.split() == tsv[0])
        shown = [re.split(" {2,}", line.strip()) for line in lines[heading + 2 : heading + 2 + len(rows)]]
        if name != "dump":  # a row of it has other fields, by the type of its record
            assert shown == [[_shown(field, value) for field, value in row.items()] for row in rows]


def _shown(name: str, value: Any) -> str:
    """A value of JSON as docs/cli.md says that a table shows it."""
    field = FIELDS[name]
    if value is None or value == "" or value == field.unknown or value == []:
        return "-"
    if field.kind is Kind.TIME:
        return "-" if value == -1 else utc_text(value)
    if field.kind is Kind.BOOLEAN:
        return "yes" if value else "no"
    if field.kind is Kind.RATIO:
        return f"{100 * value:.0f}%"
    if field.kind is Kind.LIST:
        return ", ".join(value) if name == "group_names" else str(len(value))
    if name == "step":
        return f"{value:+}"
    if field.kind is Kind.DURATION:
        days, hours = divmod(value // 3_600_000, 24)
        return f"{value} ms" if value < 10_000 else f"{days} d {hours} h"
    return str(value).replace("\\", "\\\\").replace("\t", "\\t") if field.kind is Kind.TEXT else str(value)


# ----------------------------------------------------------------------------------------------------- unknown groups

#: Every command that names a group.
NAMING = {
    "offsets": lambda path: ["offsets", path, "--group", "nobody"],
    "fetch": lambda path: ["fetch", path, "nobody"],
    "fetch of a topic": lambda path: ["fetch", path, "nobody", "orders:0"],
    "fetch at": lambda path: ["fetch", path, "nobody", "--at", "offset:1"],
    "history": lambda path: ["history", path, "nobody", "orders", "0"],
    "history of a group": lambda path: ["history", path, "nobody"],
    "diff": lambda path: ["diff", path, "offset:1", "--group", "nobody"],
    "rewinds": lambda path: ["rewinds", path, "--group", "nobody"],
    "delete": lambda path: ["delete", path, "nobody", "--yes"],
    "delete some": lambda path: ["delete", path, "nobody", "orders", "--yes"],
    "delete --dry-run": lambda path: ["delete", path, "nobody", "--dry-run"],
    "restore": lambda path: ["restore", path, "nobody", "--at", "offset:1", "--yes"],
    "undelete": lambda path: ["undelete", path, "nobody", "--yes"],
    "undelete --list": lambda path: ["undelete", path, "nobody", "--list"],
}


@pytest.mark.parametrize("form", ["text", "csv", "json"])
@pytest.mark.parametrize("name", NAMING)
def test_a_group_that_is_not_there_is_exit_code_1_and_one_line(data, capsys, name, form):
    call(capsys, "abort", data, 11, "--yes")  # so that an open for writing has nothing to report
    code, out, err = call(capsys, *NAMING[name](data), "--format", form)
    assert (code, err) == (1, f"offsetlog: there is no group nobody in {data}\n")
    assert len(out.splitlines()) <= (form != "json")


@pytest.mark.parametrize("command", ["offsets", "rewinds"])
def test_a_refusal_follows_no_empty_line_on_a_terminal(data, command):
    shown = unstyled(on_terminal(command, data, "--group", "nobody", columns=200)[1]).replace("\r", "")
    assert shown.endswith(f"offsetlog: there is no group nobody in {data}\n")
    assert "\n\n" not in shown


def test_a_group_of_a_broker_that_had_nothing_at_a_time_is_told_from_one_that_is_not_there(capsys):
    """A broker's directory does not say how many log partitions there are, so that no group can be looked up in one."""
    path = DATA / "groups" / "log"
    group = json.loads(call(capsys, "offsets", path, "--format", "json")[1].splitlines()[0])["group"]
    early = ["offsets", path, "--at", "2020-01-01", "--group"]
    assert call(capsys, *early, group)[::2] == (0, f"offsetlog: no offset of group {group} was committed\n")
    assert call(capsys, *early, "nobody")[::2] == (1, f"offsetlog: there is no group nobody in {path}\n")


#: Texts that a careless form of one would take for another.
HOSTILE = [
    *("a\tb", "a\\tb", "a\\", "\\", "a\nb", "a\r\nb", "\r", '"', "a,b", '","', "'", " ", ""),
    *("\x00", "\x1b[1m", "\u2028", "ж🦀", "[a", "{", "null"),
]


@pytest.mark.parametrize("form", ["tsv", "csv", "json"])
def test_texts_of_any_kind_can_be_read_back(tmp_path, capsys, form):
    path = tmp_path / "data"
    with offsetlog.open(path, partitions=1) as store:
        for number, text in enumerate(HOSTILE):
            store.commit("g", {TopicPartition("orders", number): OffsetAndMetadata(number, text)})
        store.commit("a\tb\\tc\r\n", {TopicPartition("orders", 99): 0})
    out = call(capsys, "offsets", path, "--format", form)[1]
    if form == "json":
        found = [json.loads(line) for line in out.splitlines()]
    else:
        heading, rows = _table_of(form, out)
        found = [dict(zip(heading, row, strict=True)) for row in rows]
    assert {int(row["partition"]): row["metadata"] for row in found if row["group"] == "g"} == dict(enumerate(HOSTILE))
    assert [row["group"] for row in found if int(row["partition"]) == 99] == ["a\tb\\tc\r\n"]


@pytest.mark.parametrize("name", [*COMMANDS, *(f"spark {each.replace('_', '-')}" for each in spark.COMMANDS)])
def test_help_states_the_exit_codes_in_a_paragraph_of_their_own(capsys, name):
    out = call(capsys, *name.split(), "--help")[1]
    assert re.search(r"\n\n +Exit codes: 0 ", out), out


def test_nobody_who_reads_the_help_is_a_closed_pipe():
    for arguments in (["commit", "-h"], ["--help"], ["offsets", DATA / "groups" / "log"]):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run(
            [sys.executable, "-m", "offsetlog", *map(str, arguments)], stdout=writer, stderr=subprocess.PIPE, timeout=60
        )
        os.close(writer)
        assert (done.returncode, done.stderr) == (141, b"")


def test_wrong_usage_is_one_line_without_the_words_of_the_parser(data, capsys):
    for arguments in (["completion"], ["completion", "ksh"], ["top", "h:1", "--interval", "x"]):
        code, _, err = call(capsys, *arguments)
        assert (code, err.count("\n")) == (2, 1)
        assert "\\n" not in err
        assert "valid float" not in err
    code, _, err = call(capsys, "commit", data, "g", "t:0=1", "--lock-timeout", "30")
    assert code == 2
    assert "30s" in err or "90s" in err
    assert "the limit is 24h" in call(capsys, "commit", data, "g", "t:0=1", "--lock-timeout", "2d")[2]


def test_help_states_the_exit_code_of_an_unknown_group(capsys):
    for name in {each.split()[0] for each in NAMING}:
        assert "no such group" in " ".join(call(capsys, name, "--help")[1].split()), name


def test_a_group_that_is_there_without_what_is_to_be_deleted_is_no_failure(data, capsys):
    code, out, err = call(capsys, "delete", data, "billing", "payments", "--yes")
    assert (code, out) == (0, "there is nothing to delete\n"), err


@pytest.mark.parametrize("name", ["offsets", "diff", "undelete --list"])
def test_a_group_that_is_there_and_has_no_rows_is_no_failure(data, capsys, name):
    with offsetlog.open(data) as store:
        store.commit("quiet", {TopicPartition("orders", 0): 1})
        if name == "offsets":
            store.delete("quiet", [TopicPartition("orders", 0)])
            transaction = store.transaction("quiet", producer_id=12)
            transaction.commit({TopicPartition("orders", 1): 1})
    arguments = [str(each).replace("nobody", "quiet").replace("offset:1", "now") for each in NAMING[name](data)]
    assert call(capsys, *arguments)[0] == 0


# --------------------------------------------------------------------------------------------------------------- help


@pytest.mark.parametrize("name", [*COMMANDS, *(f"spark {each.replace('_', '-')}" for each in spark.COMMANDS)])
def test_every_command_takes_h_and_its_help_fits_and_breaks_no_word(capsys, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = call(capsys, *name.split(), "-h")
    assert (code, err) == (0, "")
    assert out == call(capsys, *name.split(), "--help")[1]
    assert max(map(len, out.splitlines())) <= 80
    assert not re.search(r"[a-z-]-\n", out)
    assert "\u2011" not in out
    if "--format <text|tsv|csv|json>" in out:
        assert "'text' is a table on a terminal, and TSV elsewhere." in " ".join(out.split())


@pytest.mark.parametrize("moment", ["-2h", "-1.5d", "-90s"])
def test_a_moment_with_a_dash_is_no_option(data, capsys, moment):
    assert call(capsys, "diff", data, moment, "now")[0] == 0
    code, _, err = call(capsys, "diff", data, moment, "--group", moment)
    assert (code, err) == (1, f"offsetlog: there is no group {moment} in {data}\n")
    code, _, err = call(capsys, "diff", data, moment, "--gruop", "billing")
    assert code == 2
    assert "No such option: --gruop" in err


def test_an_example_that_is_too_long_goes_on_below():
    examples = ["  offsetlog fetch data       what is there", "  offsetlog groups data"]
    assert example_lines(examples, 42) == examples
    assert example_lines(examples, 40) == ["  offsetlog fetch data  what is there", "  offsetlog groups data"]
    folded = ["  offsetlog fetch data", "      what is there"]
    assert example_lines(examples, 30) == [*folded, "  offsetlog groups data"]
    long = "  offsetlog expire data --retention 'audit and more=never' --yes"
    assert example_lines([long], 40) == [
        "  offsetlog expire data --retention \\",
        "    'audit and more=never' --yes",
    ]


def test_a_comment_that_moves_below_its_example_keeps_its_apostrophes():
    example = "  offsetlog abort /var/kafka-logs 11    in a broker's directory, while stopped"
    assert example_lines([example], 40) == [
        "  offsetlog abort /var/kafka-logs 11",
        "      in a broker's directory, while",
        "      stopped",
    ]


def test_partitions_of_the_log_and_their_number_have_names_apart(capsys):
    for name in ("compact", "snapshot"):
        shown = " ".join(call(capsys, name, "-h")[1].split())
        assert "--log-partition N,... Process only these partitions of the offsets topic" in shown
        assert "--partitions N Number of partitions of the offsets topic" in shown
        assert "--partition " not in shown


@pytest.mark.parametrize("text", ["", "x", "3,1", "1-", "-1", "0-9999999"])
def test_a_list_of_log_partitions_that_is_none_is_refused(data, capsys, text):
    code, out, err = call(capsys, "snapshot", data, f"--log-partition={text}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--log-partition" in err


# ----------------------------------------------------------------------------------------------------------- terminals


def random_table(rng: random.Random) -> tuple[tuple[Column, ...], list[dict[str, str]]]:
    made = tuple(
        Column(f"{'abcdefgh'[number]}{'x' * rng.randrange(12)}", rank=rng.randrange(3), right=rng.random() < 0.3)
        for number in range(rng.randrange(1, 8))
    )
    longest = {column.name: rng.choice([1, 8, 30, 60]) for column in made}

    def value(name: str) -> str:
        size = rng.randrange(1, longest[name] + 1) if rng.random() < 0.9 else rng.randrange(41, 300)
        return "".join(rng.choices("klmnopq", k=size))

    return made, [{column.name: value(column.name) for column in made} for _ in range(rng.randrange(1, 7))]


@pytest.mark.parametrize("number", range(60))
def test_one_long_value_takes_no_room_from_the_others(number):
    seed = first_seed() * 1000 + number
    print(f"OL_SEED={first_seed()}")
    made, rows = random_table(random.Random(seed))
    hidden = {column.name for column in made}
    for width in range(10, 400, 3):
        layout = Layout.of(made, rows, width)
        assert set(layout.hidden) <= hidden, "a wider terminal shows less"
        hidden = set(layout.hidden)
        shown = [column.name for column in made if column.name not in hidden]
        for row in rows:
            lines = layout.lines(row)
            assert all(any(row[name] in line for line in lines) for name in shown), "a value is broken or left out"
            below = [line for line in lines if ": " in line]
            assert all(len(line) <= width for line in lines if line not in below)
            # Only a long value stands below, where a terminal has room for a column of another.
            assert width < LONG + len(INDENT) or sum(len(row[name]) > LONG for name in shown) >= len(below)
            if all(len(row[name]) <= LONG for name in shown) and width >= sum(len(column.name) + 42 for column in made):
                assert len(lines) == 1
        room = sum(max(len(column.name), *(len(row[column.name]) for row in rows)) + 2 for column in made) - 2
        if width >= room:
            assert not hidden
            assert all(len(layout.lines(row)) == 1 for row in rows), "rows are split that fit"


@pytest.mark.parametrize("table", TABLES)
def test_a_wider_terminal_never_shows_less(table):
    made = columns(table)
    row = {column.name: None for column in made}
    before: set[str] = set()
    for width in range(20, 400):
        layout = Layout.of(made, [row], width)
        shown = {column.name for column in made} - set(layout.hidden)
        assert before <= shown, width
        before = shown
        if len(layout.lines_of) > 1:
            least = [column for column in made if column.rank == 0]
            assert sum(len(column.name) for column in least) + 2 * (len(least) - 1) > width
            assert len(layout.hidden) == len(made) - len(least)
            continue
        assert len(layout.heading()[0].rstrip()) <= width
        if layout.hidden:
            # The next field, with its partner before or after a change, would not fit.
            left = sorted((column.rank, made.index(column)) for column in made if column.name in layout.hidden)
            stem = made[left[0][1]].name.removesuffix("_before")
            following = [name for name in layout.hidden if name in (stem, f"{stem}_before", f"{stem}_after")]
            assert sum(len(name) for name in [*shown, *following]) + 2 * (len(shown) + len(following) - 1) > width
    assert not layout.hidden


@pytest.mark.parametrize("name", ["delete --dry-run", "abort --dry-run", "fetch"])
def test_sentences_on_a_terminal_break_no_word(data, name):
    # The one of `fetch` stands on the standard error.
    arguments = ["fetch", data, "billing", "orders:77"] if name == "fetch" else CALLS[name](data)
    sentences = []
    for width in (50, 400):
        shown = unstyled(on_terminal(*arguments, columns=width)[1])
        found = re.search(r"(?:would|offsetlog:) .*", shown.replace("\r", ""), re.DOTALL)
        assert found
        lines = found[0].splitlines()
        assert max(map(len, lines)) <= width
        sentences.append([word for line in lines for word in line.split()])
    assert sentences[0] == sentences[1]
    assert len(lines) == 1


def test_a_question_on_a_terminal_breaks_no_word(data):
    shown = unstyled(on_terminal("delete", data, "billing", "orders:0", columns=50, answer=b"n\n")[1]).replace("\r", "")
    question = shown[shown.index("Delete 1") : shown.index("?") + 1]
    assert max(map(len, question.splitlines())) <= 50 - ANSWER
    assert re.search(r"last committed \S+ \S+ UTC, \d+ s ago\?", " ".join(question.split()))


def test_a_sentence_that_is_too_long_ends_lines_between_words():
    reason = Column("reason", parts=lambda value: str(value).split(" "))
    made = (Column("log_partition"), reason)
    sentence = "nothing was written since the log was cleaned the last time, and nothing waits for its time"
    layout = Layout.of(made, [{"log_partition": 1, "reason": sentence}], 40)
    lines = layout.lines({"log_partition": 1, "reason": sentence})
    assert max(map(len, lines)) <= 40
    assert " ".join(" ".join(lines).split()) == f"1 reason: {sentence}"
