"""`offsetlog serve --log-format --log-level`: what a server logs, as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
import re

import pytest

from offsetlog.cli.app import run
from offsetlog.cli.log_lines import log_lines
from offsetlog.protocol.messages import ApiVersionsRequest
from offsetlog.server.connection_limits import ConnectionLimits

from .running import Client, RunningServer
from .test_life import started

LOGGER = logging.getLogger("offsetlog.server.of_a_test")


def logged(form, level, *calls) -> str:
    stream = io.StringIO()
    with log_lines(form, level, stream):
        for call in calls:
            call()
    return stream.getvalue()


def fail() -> None:
    try:
        raise ValueError("b\u00e4d")
    except ValueError:
        LOGGER.exception("it failed", extra={"partition": 3})


def test_text_is_one_line_whatever_is_in_a_name():
    text = logged("text", "warning", lambda: LOGGER.warning("group %s", "a\nb\x1b[0m"))
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z WARNING offsetlog\.server\.of_a_test: group a\\nb\\x1b\[0m\n", text
    )
    assert "ValueError: b\u00e4d" in logged("text", "error", fail)


def test_json_has_an_object_a_line():
    fields = {"group": "a\n\u2028\u00e4", "count": 2, "ratio": 0.5, "none": None, "where": ("a", 1)}
    text = logged("json", "info", lambda: LOGGER.info("group %s", "a\nb", extra=fields), fail)
    first, second = map(json.loads, text.splitlines())
    assert text.isascii()
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": LOGGER.name,
        "message": "group a\nb",
        "fields": {**fields, "where": "('a', 1)"},
    }
    assert second["fields"] == {"partition": 3}
    assert second["exception"].endswith("ValueError: b\u00e4d")


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_a_level_leaves_out_what_is_less(level, count):
    calls = (LOGGER.debug, LOGGER.info, LOGGER.warning, LOGGER.error)
    text = logged("text", level, *(lambda call=call: call("x") for call in calls))
    assert text.count("\n") == count


def test_other_libraries_are_heard_and_everything_is_as_before_afterwards():
    library = logging.getLogger("offsetlog")
    kept = logging.NullHandler()
    library.addHandler(kept)
    before = library.handlers[:], library.level, logging.getLogger().handlers[:]
    try:
        text = logged("text", "debug", lambda: logging.getLogger("asyncio").error("a callback failed"))
        assert "ERROR asyncio: a callback failed" in text
        assert (library.handlers, library.level, logging.getLogger().handlers) == before
    finally:
        library.removeHandler(kept)


def test_the_events_of_a_server_have_fields(tmp_path):
    stream = io.StringIO()
    limits = ConnectionLimits(connections_max=1, request_bytes_max=1000)
    with (
        log_lines("json", "info", stream),
        RunningServer(tmp_path / "data", partitions=1, limits=limits) as server,
        Client(server.address) as client,
    ):
        assert client.ask(ApiVersionsRequest("test", "1.0"), 3).error_code == 0
        with Client(server.address) as one_more:
            assert one_more.receive() is None
        client.send(b"\x7f\xff\xff\xff")
        assert client.receive() is None
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    found = {each["message"].replace(str(server.address[1]), "PORT"): each["fields"] for each in lines}
    assert found["listening on 127.0.0.1:PORT"] == {"host": "127.0.0.1", "port": server.address[1]}
    assert found["log partition 0 is loaded"] == {"partition": 0}
    assert found["127.0.0.1: connection refused: already 1 connections in total"] == {
        "client": "127.0.0.1",
        "connections": 1,
    }
    reason = "the request has an invalid size of 2147483647 bytes"
    assert found[f"127.0.0.1: connection closed: {reason}"] == {"client": "127.0.0.1", "reason": reason}
    assert "stopped" in found


def test_the_command_logs_as_asked(tmp_path):
    options = ("--log-format", "json", "--log-level", "info", "--partitions", "1")
    with started(tmp_path / "data", *options) as (process, _):
        process.terminate()
        assert process.wait(20) == 0
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
    assert lines[-1]["message"] == "stopped"


def test_a_start_that_fails_is_logged_in_the_same_form(tmp_path, capsys):
    with RunningServer(tmp_path / "data") as server:
        _, port = server.address
        listen = ["--listen", f"127.0.0.1:{port}", "--log-format", "json"]
        assert run(["serve", str(tmp_path / "other"), *listen]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert (found["level"], "in use" in found["message"]) == ("critical", True)
