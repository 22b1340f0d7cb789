"""`offsetlog top`: groups, rates and latencies of a running server, and what it leaves out."""

from __future__ import annotations

import io
import itertools
import math
import socket
import threading

import pytest
from rich.console import Console

from offsetlog.cli.app import run
from offsetlog.cli.top.frame import age_text, duration_text, frame_of, plain_text, rate_text, size_text
from offsetlog.cli.top.groups import groups_of
from offsetlog.cli.top.kafka_client import ANSWER_BYTES_MAX, KafkaClient
from offsetlog.cli.top.live import Observer, show
from offsetlog.cli.top.samples import Interval, parse, quantile
from offsetlog.errors import CorruptionError, InvalidArgumentError
from offsetlog.protocol.messages import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    HeartbeatRequest,
)

from .running import SECONDS, Client, RunningServer
from .test_life import commit, member_of
from .test_metrics import METRICS_ANYWHERE, on_loop


@pytest.fixture
def server(tmp_path):
    with RunningServer(tmp_path / "data", "disk", 4, **METRICS_ANYWHERE) as running:
        yield running


def text_of(address: tuple[str, int]) -> str:
    return f"{address[0]}:{address[1]}"


def arguments(server) -> list[str]:
    return ["top", text_of(server.address), "--metrics", text_of(server.server.metrics_address)]


def observer(server, *times: float) -> Observer:
    address, metrics = text_of(server.address), text_of(server.server.metrics_address)
    return Observer(address, metrics, 10, iter(times).__next__)


def test_one_picture_has_groups_and_rates(server, capsys):
    with Client(server.address) as client:
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 2, 1),)), 7)
        assert commit(client, "alone", "orders", 3) == 0
        member_of(client, "members")
        client.ask(HeartbeatRequest("nobody", 1, "m"), 4)
        assert run([*arguments(server), "--once"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line}
    assert "ready" in lines[0]
    assert "rates since its start" in lines[0]
    assert rows["members"] == ["members", "Stable", "1", "range", "test"]
    assert rows["group"] == ["group", "state", "members", "commits/s", "protocol", "clients"]
    # The busiest comes first.
    assert list(rows)[-2:] == ["alone", "members"]
    assert rows["alone"][:3] == ["alone", "Empty", "0"]
    assert float(rows["alone"][3]) > 0
    assert rows["groups"] == ["groups", "2:", "1", "Stable,", "1", "Empty"]
    assert float(rows["OffsetCommit"][1]) > 0
    assert float(rows["Heartbeat"][2]) > 0
    assert rows["table"][1:3] == ["1", "position"]


def test_two_looks_give_the_rates_between_them(server):
    start = server.server.status.started_at
    seen = observer(server, start + 10, start + 20)
    with Client(server.address) as client:
        client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 2, 1),)), 7)
        for _ in range(30):
            client.ask(ApiVersionsRequest("a", "1"), 3)
        first = seen.look()
        for offset in range(50):
            assert commit(client, "g", "orders", offset) == 0
        second = seen.look()
    seen.close()
    before = {row[0]: row for row in first.tables[0].rows}
    after = {row[0]: row for row in second.tables[0].rows}
    assert before["ApiVersions"][1] == "3"
    assert "OffsetCommit" not in before
    assert after["OffsetCommit"][1:3] == ("5", "")
    # Once, after the first look at the metrics: the connection is kept.
    assert after["ApiVersions"][1] == after["ListGroups"][1] == "0.1"
    assert "rates of the last 10 s" in second.lines[0]
    # The first commit of the group was answered by a handler, the others by the front.
    assert server.server.status.front.commits == 49
    assert second.tables[1].rows == [("g", "Empty", "0", "5", "", "")]
    assert second.lines[1].startswith("commits  5/s  positions 5/s  flushes ")


def test_a_broker_without_metrics_has_groups_alone(server, capsys):
    with Client(server.address) as client:
        member_of(client, "members")
        member_of(client, "others")
        assert run(["top", text_of(server.address), "--once", "--groups", "1"]) == 0
    out = capsys.readouterr().out
    assert out == (
        f"offsetlog top  {text_of(server.address)}\n"
        "groups   2: 2 Stable (the first 1 below)\n"
        "\n"
        "group    state   members  protocol  clients\n"
        "members  Stable        1  range     test\n"
    )


def test_groups_that_are_being_loaded_are_said_to_be(server, capsys):
    coordinator = server.server.status.groups.coordinator
    on_loop(server, coordinator.resign, 1)
    on_loop(server, coordinator.begin_load, 1)
    assert run([*arguments(server), "--once"]) == 0
    out = capsys.readouterr().out
    assert "not ready (see /readyz)" in out
    assert "the server is still loading the groups" in out


def test_a_terminal_shows_one_picture_after_the_other(server):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, height=30, _environ={})
    start = server.server.status.started_at
    seen = observer(server, start + 1, start + 2, start + 3, start + 4)
    waits = itertools.count()

    def wait() -> None:
        number = next(waits)
        if number == 1:
            server.server.status.is_stopping = True
        if number == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        show(seen, console, wait, seen.look())
    seen.close()
    text = stream.getvalue()
    assert text.index("rates since its start") < text.index("rates of the last 1 s") < text.index("not ready")


def test_a_server_that_is_gone_is_asked_again(tmp_path):
    with RunningServer(tmp_path / "data", **METRICS_ANYWHERE) as running:
        seen = observer(running, 1.0, 2.0, 3.0)
        first = seen.look()
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, height=30, _environ={})
    waits = iter([None])
    with pytest.raises(StopIteration):
        show(seen, console, lambda: next(waits), first)
    seen.close()
    assert "trying again" in stream.getvalue()


# -------------------------------------------------------------------------------- what is no server


@pytest.fixture
def answers():
    """Makes something that listens, and answers each connection with given bytes and closes it."""
    listeners, threads = [], []

    def made(data: bytes) -> tuple[str, int]:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(data)

        threads.append(threading.Thread(target=serve))
        threads[-1].start()
        return listener.getsockname()

    yield made
    for listener in listeners:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
    for thread in threads:
        thread.join(SECONDS)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "closed the connection"),
        ((ANSWER_BYTES_MAX + 1).to_bytes(4, "big"), f"its answer of {ANSWER_BYTES_MAX + 1} bytes is too large"),
        (b"HTTP/1.0 400 Bad request\r\n\r\n", "is not a broker"),
        (b"\0\0\0\x04\0\0\0\x01", ""),
        (b"\0\0\0\x0a\0\0\0\x09\0\0\0\0\0\0", "sent the answer to another request"),
    ],
)
def test_what_is_no_broker_is_refused(answers, capsys, data, message):
    assert run(["top", text_of(answers(data)), "--once"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert "bug in offsetlog" not in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "no valid HTTP answer"),
        (b"nonsense\r\n\r\n", "no valid HTTP answer"),
        (b"HTTP/1.0 404 Not Found\r\n\r\n", "Not Found"),
        (b"HTTP/1.0 200 OK\r\n\r\na{b=\n", "the answer is not in the format of Prometheus"),
    ],
)
def test_what_has_no_metrics_is_refused(server, answers, capsys, data, message):
    assert run(["top", text_of(server.address), "--metrics", text_of(answers(data)), "--once"]) == 2
    assert message in capsys.readouterr().err


def test_an_address_where_nobody_is_is_named(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = taken.getsockname()
    assert run(["top", text_of(address), "--once"]) == 2
    assert capsys.readouterr().err == f"offsetlog: {text_of(address)}: Connection refused\n"
    with pytest.raises(InvalidArgumentError, match="'nowhere' is not HOST:PORT"):
        Observer("nowhere", None, 1)


def test_a_name_cannot_move_the_cursor(server):
    with Client(server.address) as client:
        member_of(client, "a\x1b[2J\nb")
        with KafkaClient(*server.address, SECONDS) as asked:
            frame = frame_of("here", groups_of(asked, 5), None)
    assert "a\\x1b[2J\\nb" in plain_text(frame)
    assert "\x1b" not in plain_text(frame)


# ------------------------------------------------------------------------------------------ numbers


def test_quantiles_are_those_of_prometheus():
    cumulative = [(1.0, 10.0), (2.0, 30.0), (4.0, 40.0), (math.inf, 40.0)]
    assert quantile(0.5, cumulative) == 1.5
    assert quantile(0.25, cumulative) == 1.0
    assert quantile(1.0, cumulative) == 4.0
    assert quantile(0.125, cumulative) == 0.5
    assert quantile(0.9, [(1.0, 0.0), (math.inf, 3.0)]) == math.inf
    assert quantile(0.5, [(1.0, 0.0), (math.inf, 0.0)]) is None
    assert quantile(0.5, []) is None


def test_rates_of_groups_begin_again_where_a_count_was_forgotten():
    first, second = (
        parse(START % 100, at)._replace(group_commits=commits)
        for at, commits in ((110, {"a": 10, "b": 7, "c": 1}), (120, {"a": 30, "b": 5, "c": 1, "d": 1}))
    )
    assert Interval(first, None).group_rates() == {"a": 1, "b": 0.7, "c": 0.1}
    assert Interval(second, first).group_rates() == {"a": 2, "b": 0.5, "d": 0.1}
    assert Interval(second._replace(group_commits=None), first).group_rates() is None
    assert Interval(second, first._replace(group_commits=None)).group_rates()["a"] == 3


COUNTER = "# TYPE c counter\nc_total{api=\"A\",error=\"x\"} %d\nc_total{api=\"B\",error=\"x\"} 5\n"
START = "offsetlog_start_time_seconds %d\n"


def test_rates_begin_again_with_the_server():
    first, second = parse(START % 100 + COUNTER % 10, 110), parse(START % 100 + COUNTER % 30, 120)
    assert Interval(first, None).rate("c_total") == 1.5
    assert Interval(second, first).rate("c_total", api="A") == 2
    assert Interval(second, first).rate("c_total", api="C") is None
    restarted = parse(START % 125 + COUNTER % 20, 130)
    assert Interval(restarted, second).rate("c_total", api="A") == 4
    assert Interval(restarted, second).is_since_start
    assert Interval(parse(COUNTER % 3, 1), None).rate("c_total") is None
    with pytest.raises(CorruptionError):
        parse('a{b="c} 1\n', 0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rate_text(None), ""),
        (rate_text(0.0), "0"),
        (rate_text(0.123), "0.12"),
        (rate_text(12345.6), "12,346"),
        (duration_text(0.0000123), "12.3 us"),
        (duration_text(0.25), "250 ms"),
        (duration_text(12.0), "12 s"),
        (duration_text(0.0009997), "1 ms"),
        (duration_text(0.9996), "1 s"),
        (duration_text(1234.5), "1,234 s"),
        (duration_text(math.inf), "> 60 s"),
        (size_text(1023), "1,023 B"),
        (size_text(1536), "1.5 KiB"),
        (age_text(59.9), "59 s"),
        (age_text(3725), "1 h 2 m"),
        (age_text(200_000), "2 d 7 h"),
    ],
)
def test_numbers_are_short(text, expected):
    assert text == expected
