"""`offsets`, `groups` and `dump`: what a person sees, what a program gets, and what happens where bytes are bad."""

from __future__ import annotations

import errno
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

pytest.importorskip("typer")

import offsetlog
from offsetlog import TopicPartition
from offsetlog.__main__ import main
from offsetlog.cli.app import run
from offsetlog.cli.layout import Column
from offsetlog.cli.output import TABLE_ROWS_MAX, Format, Output
from offsetlog.cli.text import escape, json_text, plain, time_text
from offsetlog.errors import StorageError

DATA = Path(__file__).resolve().parents[1] / "data" / "kafka-4.3.0"
GROUPS = DATA / "groups" / "log"
TORN = DATA / "torn" / "log"
FIRST = "00000000000000000000.log"


def call(capsys, *arguments: object) -> tuple[int, str, str]:
    code = run([str(each) for each in arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def process(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "offsetlog", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=60, **options)


#: Ctrl-C, as a terminal sends it.
INTERRUPT = b"\x03"


def on_terminal(*arguments: object, columns: int = 140, answer: bytes = b"") -> tuple[int, str]:
    """Runs a command whose three standard streams are a terminal; returns its exit code and what it showed.

    It runs in a fork of this process, which has imported everything already. The answer is typed when a question is
    shown. An interrupt is typed again while the command stays silent, as a person would: Python loses one that comes
    just as it begins to read a line.
    """
    with warnings.catch_warnings():
        # Newer Pythons warn of other threads at a fork; the child uses none of them.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid, descriptor = pty.fork()
    if pid == 0:
        code = -1
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)  # another test may have left a handler of its own
            os.environ.update(COLUMNS=str(columns), LINES="50", TERM="xterm-256color")
            sys.stdin = os.fdopen(0, encoding="utf-8")
            sys.stdout, sys.stderr = (os.fdopen(number, "w", encoding="utf-8") for number in (1, 2))
            sys.argv = ["offsetlog", *map(str, arguments)]
            code = main()
            sys.stdout.flush()
        finally:
            os._exit(code)
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([descriptor], [], [], 2.0)
        if not ready:
            if answer == INTERRUPT and b"?" in shown:
                os.write(descriptor, INTERRUPT)
            continue
        try:
            piece = os.read(descriptor, 65536)
        except OSError:
            break
        if not piece:
            break
        shown += piece
        if answer and answer != INTERRUPT and b"?" in shown:
            os.write(descriptor, answer)
            answer = b""
    os.close(descriptor)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), shown.decode("utf-8")


# ------------------------------------------------------------------------------------------------------------ rendering


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("заказы 注文 é", "заказы 注文 é"),
        ("a\tb\nc\rd", "a\\tb\\nc\\rd"),
        ("\x00\x1b[31m\x7f\x85", "\\x00\\x1b[31m\\x7f\\x85"),
        ("\u2028\u202e", "\\u2028\\u202e"),
        ("", ""),
    ],
)
def test_control_characters_are_escaped_and_letters_are_not(text, expected):
    assert escape(text) == expected


def test_json_is_one_line_and_reads_back():
    row = {"name": "a\n\x85\u2028\x9bжя"}
    text = json_text(row)
    assert "ж" in text
    assert json.loads(text) == row
    assert not re.search("[\x00-\x1f\x80-\x9f\u2028]", text)


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [
        (1700000000123, "2023-11-14 22:13:20.123"),
        (-1, "-"),
        (None, "-"),
        (2**62, str(2**62)),
        (-(2**63), str(-(2**63))),
    ],
)
def test_any_number_is_shown_as_a_time(time_ms, expected):
    assert time_text(time_ms) == expected


def test_values_are_shown_in_a_line():
    assert [plain(each) for each in (None, True, 3, "a\n", ["b"])] == ["-", "yes", "3", "a\\n", '["b"]']


def test_many_rows_come_line_by_line(capsys):
    output = Output(Format.TEXT)
    output.is_terminal = True
    rows = ({"number": number} for number in range(TABLE_ROWS_MAX + 5))
    assert output.rows([Column("number", right=True)], rows, "") == TABLE_ROWS_MAX + 5
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "number"
    assert lines[-1].strip() == str(TABLE_ROWS_MAX + 4)


# ------------------------------------------------------------------------------------------------------- plain and json


def test_offsets_are_plain_lines_where_no_terminal_is(capsys):
    code, out, err = call(capsys, "offsets", GROUPS)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split("\t")[:4] == ["group", "topic", "partition", "offset"]
    assert len(lines) == 73
    assert "\x1b" not in out
    assert not re.search("[─│]", out)


@pytest.mark.parametrize("command", ["offsets", "groups", "dump", "verify"])
def test_json_is_an_object_a_line(capsys, command):
    code, out, _ = call(capsys, command, GROUPS, "--format", "json")
    assert code == 0
    assert all(isinstance(json.loads(line), dict) for line in out.splitlines())


def test_one_group_only(capsys):
    _, out, _ = call(capsys, "offsets", GROUPS, "--group=kip848-reports", "--format=json")
    assert {json.loads(line)["group"] for line in out.splitlines()} == {"kip848-reports"}
    assert call(capsys, "offsets", GROUPS, "--group=-1", "--format=json")[:2] == (1, "")


def test_groups_of_a_large_open_transaction(tmp_path, capsys):
    # Its values are walked once: by an index each, this would take minutes.
    path = tmp_path / "data"
    with (
        offsetlog.open(path, partitions=1) as store,
        store.transaction("billing", producer_id=7, producer_epoch=0) as transaction,
    ):
        transaction.commit({TopicPartition("orders", number): number for number in range(100_000)})
        code, out, _ = call(capsys, "groups", path, "--format", "json")
    assert code == 0
    assert [json.loads(line)["group"] for line in out.splitlines()] == ["billing"]


def test_a_partition_and_a_segment_are_read_alone(capsys):
    whole = call(capsys, "offsets", GROUPS / "__consumer_offsets-4", "--format=json")
    assert whole == call(capsys, "offsets", GROUPS / "__consumer_offsets-4" / FIRST, "--format=json")
    assert {json.loads(line)["log_partition"] for line in whole[1].splitlines()} == {4}


def test_what_a_stream_cannot_encode_is_escaped(tmp_path):
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    assert process("commit", tmp_path / "d", "ж", "topic:0=1", "--partitions=1").returncode == 0
    text = process("offsets", tmp_path / "d", env=environment)
    assert (text.returncode, b"\\u0436" in text.stdout) == (0, True)
    row = json.loads(process("offsets", tmp_path / "d", "--format=json", env=environment).stdout)
    assert row["group"] == "ж"


# ------------------------------------------------------------------------------------------------------------ terminals


def test_a_terminal_gets_a_table():
    code, shown = on_terminal("groups", GROUPS)
    assert code == 0
    assert "─" in shown
    assert "kip848-reports" in shown


LONG = "a group with a name that is much longer than a terminal is wide: " + "x" * 60


@pytest.fixture
def long_names(tmp_path):
    with offsetlog.open(tmp_path / "data", partitions=2) as store:
        store.commit_one(LONG, "topic", 0, 1)
        store.commit_one("billing", "y" * 70, 3, 2, "m" * 90)
    return tmp_path / "data"


def unstyled(shown: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("command", ["offsets", "groups", "dump"])
def test_a_terminal_never_breaks_a_name(long_names, command, columns):
    for more in ([], ["--wide"]):
        code, shown = on_terminal(command, long_names, *more, columns=columns)
        assert code == 0
        assert LONG in shown
        assert "billing" in shown
        assert command == "groups" or "y" * 70 in shown
        assert command == "groups" or "m" * 90 in shown


@pytest.mark.parametrize("command", ["offsets", "groups", "dump"])
def test_a_terminal_tells_what_it_does_not_show(command, capsys):
    _, shown = on_terminal(command, GROUPS, columns=80)
    lines = unstyled(shown).splitlines()
    assert any(line.startswith("not shown: ") for line in lines)
    _, wide = on_terminal(command, GROUPS, "--wide", columns=80)
    assert "not shown" not in wide
    hidden = " ".join(lines).partition("not shown: ")[2].partition(" (--wide")[0].split(", ")
    assert hidden
    assert set(hidden) <= set(json.loads(call(capsys, command, GROUPS, "--format=json")[1].splitlines()[0]))
    if command != "dump":
        assert max(map(len, lines)) <= 80


def test_help_tells_examples_and_the_version_is_reported(capsys):
    for command in (
        "offsets",
        "groups",
        "transactions",
        "dump",
        "verify",
        "commit",
        "fetch",
        "delete",
        "expire",
        "abort",
        "demo",
    ):
        code, out, _ = call(capsys, command, "--help")
        assert code == 0
        assert "Examples:" in out
        assert f"offsetlog {command}" in out
    assert "..." not in call(capsys, "--help")[1].partition("Commands:")[2]
    assert call(capsys, "--version")[1].startswith("offsetlog 0.")


# ------------------------------------------------------------------------------------------------------------ bad bytes


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log"
    shutil.copytree(GROUPS, path)
    return path


def damage(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)


def test_bad_bytes_in_the_middle_are_reported_with_their_place_and_passed_over(log, capsys):
    whole = call(capsys, "offsets", log, "--format=json")[1].splitlines()
    damage(log / "__consumer_offsets-4" / FIRST, 100)
    for command in ("offsets", "groups", "dump"):
        code, out, err = call(capsys, command, log, "--format=json")
        assert code == 1
        assert err.startswith("offsetlog: ")
        assert f"__consumer_offsets-4/{FIRST}, byte 0" in err
        assert out
    assert len(call(capsys, "offsets", log, "--format=json")[1].splitlines()) <= len(whole)


def test_a_bad_batch_before_the_last_segment_is_no_tail(tmp_path, capsys):
    log = tmp_path / "log"
    shutil.copytree(DATA.parent / "kafka-old" / "upgraded-compacted" / "log", log)
    first = sorted((log / "__consumer_offsets-0").glob("*.log"))[0]
    damage(first, first.stat().st_size - 1)
    code, _, err = call(capsys, "offsets", log)
    assert code == 1
    assert first.name in err


def test_an_unfinished_tail_is_no_failure(capsys):
    for command in ("offsets", "groups", "dump"):
        code, _, err = call(capsys, command, TORN)
        assert code == 0
        assert err.count("unfinished tail") == 3


def test_a_record_that_cannot_be_decoded_is_shown_and_counted(tmp_path, capsys):
    from handmade_batches import batch_of

    segment = tmp_path / "__consumer_offsets-0" / FIRST
    segment.parent.mkdir()
    segment.write_bytes(batch_of(0, [(b"\x00\x01\x00\x05ab", b"\x00\x03"), (b"\x00\x63zz", b"x"), (None, b"x")]))
    code, out, err = call(capsys, "dump", segment, "--format=json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 1
    assert [row["kind"] for row in rows] == ["undecodable", "unknown", "undecodable"]
    assert rows[0]["key"]["bytes"] == "AAEABWFi"
    assert "2 records cannot be decoded" in err


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path / "none", "no such file or directory"),
        (lambda path: path, "no partition of __consumer_offsets"),
        (lambda path: Path(__file__), "not a log segment"),
    ],
)
@pytest.mark.parametrize("command", ["offsets", "groups", "dump", "verify"])
def test_what_is_no_log_is_refused_in_one_line(tmp_path, capsys, command, make, reason):
    for form in ("json", "text"):
        code, out, err = call(capsys, command, make(tmp_path), "--format", form)
        assert (code, out) == (2, "")
        assert err.startswith("offsetlog: ")
        assert err.count("\n") == 1
        assert reason in err


def test_a_partition_of_another_topic_is_refused(tmp_path, capsys):
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / FIRST).touch()
    code, _, err = call(capsys, "offsets", tmp_path / "orders-0")
    assert code == 2
    assert "'orders'" in err


@pytest.mark.parametrize(
    "arguments", [["offsets"], ["bogus"], ["offsets", "--bogus", "x"], ["offsets", "x", "--format=xml"]]
)
def test_wrong_usage_is_one_line(capsys, arguments):
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("offsetlog: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["offsets"], "Missing argument 'PATH'; see offsetlog offsets --help"),
        (["bogus"], "No such command 'bogus'; see offsetlog --help"),
        (
            ["offsets", "x", "--format=xml"],
            "Invalid value for '--format': 'xml' is not one of 'text', 'tsv', 'csv', 'json'; "
            "see offsetlog offsets --help",
        ),
        (
            ["verify", "x", "--partitions=0"],
            "Invalid value for '--partitions': it must be at least 1; see offsetlog verify --help",
        ),
    ],
)
def test_wrong_usage_is_reported_in_words(capsys, arguments, said):
    assert call(capsys, *arguments) == (2, "", f"offsetlog: {said}\n")


def test_a_failed_system_call_is_reported_in_words(capsys, monkeypatch):
    def fail(path: Path) -> None:
        raise StorageError("opendir: Permission denied", errno=errno.EACCES, path=path)

    monkeypatch.setattr("offsetlog.cli.states.find_partitions", fail)
    assert call(capsys, "offsets", "x") == (2, "", "offsetlog: it cannot be listed: Permission denied (x)\n")


# ------------------------------------------------------------------------------------------------------------- the ends


def test_a_closed_pipe_is_quiet():
    reader = subprocess.Popen(
        [sys.executable, "-m", "offsetlog", "dump", str(GROUPS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert reader.stdout is not None
    reader.stdout.readline()
    reader.stdout.close()
    assert reader.stderr is not None
    assert reader.stderr.read() == b""
    reader.stderr.close()
    assert reader.wait(60) == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_under_the_output_is_reported():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "offsetlog", "offsets", str(GROUPS)]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (2, "offsetlog: No space left on device\n")


def test_an_interrupt_is_quiet():
    running = subprocess.Popen(
        [sys.executable, "-m", "offsetlog", "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert running.stdout is not None
    running.stdout.readline()
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert (running.returncode, err) == (130, b"")


@pytest.mark.parametrize("command", ["commit", "fetch", "groups", "offsets"])
def test_a_command_imports_only_what_it_needs(tmp_path, command):
    # A start takes less than 0.2 s; each of these would cost a tenth of that or more.
    dear = {"asyncio", "matplotlib", "numpy", "pyarrow", "pydantic", "pyspark", "rich", "offsetlog.cli.demo"}
    arguments = {"commit": ["billing", "orders:0=1"], "fetch": ["billing"]}
    offsetlog.open(tmp_path / "data", partitions=1).close()
    code = (
        "import sys; from offsetlog.__main__ import main; main();"
        f"print('loaded', *{dear!r} & set(sys.modules), file=sys.stderr)"
    )
    call = [sys.executable, "-c", code, command, str(tmp_path / "data"), *arguments.get(command, [])]
    done = subprocess.run(call, capture_output=True, text=True, timeout=60)
    assert done.stderr.splitlines()[-1] == "loaded", done.stderr


@pytest.mark.parametrize(("name", "requirement"), [("typer", "typer>=0.12,<0.29"), ("rich", "rich>=13")])
def test_a_missing_library_is_named_with_a_command_that_installs_it(name, requirement):
    code = f"import sys; sys.modules[{name!r}] = None; from offsetlog.__main__ import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == (
        f"offsetlog: the command line needs {name}, which is not installed: pip install '{requirement}'\n"
    )


@pytest.mark.parametrize("command", ["offsets", "groups", "transactions"])
def test_a_relative_path_of_a_partition_directory(command, tmp_path, capsys, monkeypatch):
    with offsetlog.open(tmp_path / "data", 1) as store:
        store.commit("billing", {TopicPartition("orders", 0): 5})
    monkeypatch.chdir(tmp_path)
    whole = call(capsys, command, tmp_path / "data" / "__consumer_offsets-0")
    assert whole[0] == 0
    assert call(capsys, command, "data/__consumer_offsets-0") == whole
    assert call(capsys, command, "data") == whole


def test_usage_without_a_value_names_the_help_of_the_command(capsys):
    assert call(capsys, "offsets", "data", "--group")[2].endswith("; see offsetlog offsets --help\n")
    assert call(capsys, "spark", "lag", "data", "--ends")[2].endswith("; see offsetlog spark lag --help\n")
    assert call(capsys, "--nothing")[2].endswith("; see offsetlog --help\n")


def test_a_log_without_a_record_is_called_empty(tmp_path, capsys):
    (tmp_path / "__consumer_offsets-0").mkdir()
    code, out, _ = call(capsys, "verify", tmp_path / "__consumer_offsets-0")
    assert code == 0
    assert "sound and empty" in out


def test_groups_name_their_last_commit_and_are_sorted_by_it(tmp_path, capsys):
    first, later = TopicPartition("orders", 0), TopicPartition("orders", 1)
    with offsetlog.open(tmp_path / "data", 4) as store:
        for group, time_ms in (("a", 1_772_330_400_000), ("b", 1_772_330_400_002), ("c", 1_772_330_400_001)):
            store.commit(group, {first: offsetlog.OffsetAndMetadata(5, commit_timestamp=time_ms)})
            store.commit(group, {later: offsetlog.OffsetAndMetadata(5, commit_timestamp=time_ms - 9)})
        store.transaction("d", 7).commit({first: 1})
    listed = [json.loads(line) for line in call(capsys, "groups", tmp_path / "data", "--format=json")[1].splitlines()]
    assert [(row["group"], row["last_commit"] % 100) for row in listed] == [("a", 0), ("b", 2), ("c", 1), ("d", 99)]
    out = call(capsys, "groups", tmp_path / "data", "--sort=changed", "--format=json")[1]
    assert [json.loads(line)["group"] for line in out.splitlines()] == ["b", "c", "a", "d"]
