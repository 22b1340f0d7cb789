"""Polls a running server, and shows the result of each poll on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from offsetlog.cli.addresses import parse_address
from offsetlog.cli.top.frame import Frame, frame_of
from offsetlog.cli.top.groups import Groups, groups_of
from offsetlog.cli.top.kafka_client import KafkaClient
from offsetlog.cli.top.samples import Interval, Samples, fetch
from offsetlog.errors import CoordinatorLoadingError, OffsetLogError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: How long an answer may take.
TIMEOUT_SECONDS = 10.0


class Observer:
    """Polls a server; the difference between two polls gives the rates.

    Args:
        server: HOST:PORT for clients.
        metrics: HOST:PORT of the metrics; None if the server has none.
        groups: how many groups to describe.
        clock: returns the time of day in seconds.

    Raises:
        InvalidArgumentError: an address is not HOST:PORT.
    """

    def __init__(
        self, server: str, metrics: str | None, groups: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._text = server
        self._server = parse_address(server)
        self._metrics = None if metrics is None else parse_address(metrics)
        self._groups_max = groups
        self._clock = clock
        self._client: KafkaClient | None = None
        self._before: Samples | None = None

    def look(self) -> Frame:
        """Polls the server once; returns the frame to show.

        Raises:
            OSError: the server does not answer.
            CorruptionError, UnsupportedVersionError: the answer cannot be understood.
            ConfigError: a package is missing.
        """
        samples = self._samples()
        interval = None
        if samples is not None:
            interval, self._before = Interval(samples, self._before), samples
        rates = None if interval is None else interval.group_rates()
        try:
            groups, trouble = self._groups(rates), None
        except CoordinatorLoadingError as loading:
            groups, trouble = None, str(loading)
        return frame_of(self._text, groups, interval, trouble)

    def _samples(self) -> Samples | None:
        if self._metrics is None:
            return None
        return fetch(*self._metrics, TIMEOUT_SECONDS, self._clock())

    def _groups(self, rates: Mapping[str, float] | None) -> Groups:
        try:
            if self._client is None:
                self._client = KafkaClient(*self._server, TIMEOUT_SECONDS)
            return groups_of(self._client, self._groups_max, rates)
        except CoordinatorLoadingError:
            raise
        except (OSError, OffsetLogError):
            self.close()    # the next poll connects again
            raise

    def close(self) -> None:
        """Closes the connection; a later poll opens another."""
        client, self._client = self._client, None
        if client is not None:
            client.close()


def show(observer: Observer, console: Console, wait: Callable[[], None], frame: Frame) -> None:
    """Shows one frame after another on a terminal, beginning with the given one, until `wait` raises.

    If the server does not answer, the frame says so, and the server is polled again.
    """
    from rich.live import Live

    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(drawn(frame), refresh=True)
            wait()
            try:
                frame = observer.look()
            except (OSError, OffsetLogError) as failure:
                frame = Frame([f"offsetlog top: {failure}", "trying again"], [])


def drawn(frame: Frame) -> RenderableType:
    """Returns a frame as an object that rich draws."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    first, *lines = frame.lines
    parts: list[RenderableType] = [Text(first, style="bold"), *map(Text, lines)]
    for each in frame.tables:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", collapse_padding=True)
        for heading in each.headings:
            is_text = heading.startswith("<")
            table.add_column(
                heading.removeprefix("<"), justify="left" if is_text else "right", no_wrap=True
            )
        for row in each.rows:
            table.add_row(*map(Text, row))
        parts += [Text(), table]
    return Group(*parts)
