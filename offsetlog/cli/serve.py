"""`offsetlog serve`: a server for Kafka clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from offsetlog.cli.addresses import Address, parse_address
from offsetlog.cli.app import exit_code_of
from offsetlog.cli.log_lines import Form, Level, log_lines
from offsetlog.cli.stores import unknown_count
from offsetlog.config import PARTITIONS_DEFAULT
from offsetlog.errors import InvalidArgumentError, OffsetLogError, PartitionCountError
from offsetlog.server.configuration import settings_of
from offsetlog.server.event_loop import new_event_loop
from offsetlog.server.properties import Given, read_properties
from offsetlog.server.server import Server
from offsetlog.topics.open_files import raise_limit_of_open_files

_log = logging.getLogger(__name__)


def _given(option: str, value: object) -> Given | None:
    return None if value is None else Given(str(value), option)


def _listener(option: str, text: str | None, scheme: str = "PLAINTEXT") -> Given | None:
    if text is None:
        return None
    try:
        address = parse_address(text)
    except InvalidArgumentError as failure:
        raise InvalidArgumentError(f"{option}: {failure.message}") from failure
    return Given(f"{scheme}://{address}", option)


HELP = """Serve Kafka clients: consumer groups and their positions.

When the server is ready, it prints the address that it listens on. After SIGTERM or Ctrl-C, it writes everything and
stops. PATH is a new or empty directory, or a directory that a store or a stopped broker has written.

Exit codes: 0 stopped by a signal; 2 could not start.

\b
Examples:
  offsetlog serve data                                   on 127.0.0.1:9092
  offsetlog serve data --listen 127.0.0.1:0              on a free port
  offsetlog serve data --metrics 127.0.0.1:9093          with metrics and health checks
  offsetlog serve /var/kafka-logs --partitions 50        the directory of a stopped broker
  offsetlog serve --config server.properties             with the settings of a file
"""


def command(
    path: Annotated[
        Path | None,
        typer.Argument(metavar="PATH", help="The log directory. The default is log.dirs of --config."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file of settings with Kafka's names, such as server.properties. Options of the command override "
            "it.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="The address to listen on; port 0 means any free port.  [default: 127.0.0.1:9092]",
        ),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The address that clients connect to, if it differs from --listen."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Number of partitions of the offsets topic, for a new directory (the default is "
            f"{PARTITIONS_DEFAULT}) or for a directory that Kafka wrote.",
        ),
    ] = None,
    durability: Annotated[
        Literal["process", "disk"] | None,
        typer.Option(
            help="When to answer a commit: after the write (process) or after the flush (disk).  [default: disk]"
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="The address that serves /metrics, /healthz, /readyz and /groups over HTTP."
        ),
    ] = None,
    log_format: Annotated[
        Form, typer.Option(help="The form of the log on standard error.")
    ] = "text",
    log_level: Annotated[
        Level, typer.Option(help="The lowest level that is logged.")
    ] = "warning",
    allow_any_host: Annotated[
        bool,
        typer.Option("--allow-any-host", help="Allow addresses other than loopback; the server has no security yet."),
    ] = False,
) -> int:
    """Serves until a signal stops it."""
    options = {
        "listeners": _listener("--listen", listen),
        "advertised.listeners": _listener("--advertise", advertise),
        "metrics.listener": _listener("--metrics", metrics, "http"),
        "offsets.topic.num.partitions": _given("--partitions", partitions),
        "offsets.commit.durability": _given("--durability", durability),
    }
    given = {} if config is None else read_properties(config)
    given.update({name: each for name, each in options.items() if each is not None})
    settings = settings_of(given, path, allow_any_host=allow_any_host)
    raise_limit_of_open_files()
    with log_lines(log_format, log_level):
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(_run(Server(settings)))
        except Exception as failure:
            if isinstance(failure, PartitionCountError) and failure.asked is failure.actual is None:
                failure = PartitionCountError(
                    unknown_count(settings.manager.path), path=settings.manager.path
                )
            if log_format == "text":
                raise failure from None    # printed as one line, as for any command
            is_fault = not isinstance(failure, OffsetLogError | OSError)
            _log.critical("the server failed: %s", failure, exc_info=is_fault)
            return exit_code_of(failure)
    return 0


def _on_signals(call: Callable[[], object]) -> None:
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, call)


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Restores the earlier signal handlers at the end of the context.

    Otherwise uvloop's own handlers would remain, although the loop to which they belong is closed by then.
    """
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            asyncio.get_running_loop().remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL if handler is None else handler)


async def _run(server: Server) -> None:
    with _own_signals():
        # A recovery can take minutes and cannot be interrupted.  The server has answered nothing yet, so ending the
        # process leaves no more than a crash would.
        _on_signals(partial(os._exit, 0))
        address = Address(*await server.start())
        stopped = asyncio.Event()
        _on_signals(stopped.set)
        try:
            print(f"offsetlog listens on {address}", flush=True)
            if server.metrics_address is not None:
                metrics = Address(*server.metrics_address)
                print(f"offsetlog answers on http://{metrics}/metrics", flush=True)
            await stopped.wait()
        finally:
            await server.stop()
