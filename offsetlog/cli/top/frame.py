"""One frame of the display: lines of facts about a server, and tables of its requests and groups.

Unknown values are omitted: for example, a broker without metrics has no rates.  The first frame shows the rates since
the start of the server.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from offsetlog.cli.output import count_text
from offsetlog.cli.text import name_text
from offsetlog.cli.top.groups import Group, Groups
from offsetlog.cli.top.samples import Interval

REQUESTS = "offsetlog_request_duration_seconds"
FLUSHES = "offsetlog_flush_duration_seconds"


class Table(NamedTuple):
    """A table of headings and rows; a `<` before a heading marks a column of text."""

    headings: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


class Frame(NamedTuple):
    """One frame: lines, and the tables below them."""

    lines: list[str]
    tables: list[Table]


def frame_of(
    address: str, groups: Groups | None, interval: Interval | None, trouble: str | None = None
) -> Frame:
    """Makes a frame.

    Args:
        address: the server's address.
        groups: the groups; None if they are unknown.
        interval: the samples from which the rates are computed; None if there are no metrics.
        trouble: the reason why facts that the user requested are missing.
    """
    lines = [f"offsetlog top  {address}"]
    tables = []
    if interval is not None:
        lines = [_first_line(address, interval), *_facts(interval)]
        tables.append(_requests(interval))
    if groups is not None:
        lines.append(_groups_line(groups))
        rates = None if interval is None else interval.group_rates()
        tables.append(_groups(groups.shown, rates))
    if trouble is not None:
        lines.append(trouble)
    return Frame(lines, [each for each in tables if each.rows])


# -------------------------------------------------------------------------------------------- numbers


def rate_text(rate: float | None) -> str:
    """Returns a rate per second as text; "" if the rate is unknown."""
    if rate is None:
        return ""
    return f"{rate:,.0f}" if rate >= 10 or rate == 0 else f"{rate:.2g}"


def duration_text(seconds: float | None) -> str:
    """Returns a short time as text; "" if the time is unknown."""
    if seconds is None:
        return ""
    if math.isinf(seconds):
        return "> 60 s"
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        # A number that rounds to 1000 is shown as 1 of the next unit.
        if seconds * factor < 999.5:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:,.0f} s"


def size_text(size: float) -> str:
    """Returns a number of bytes as text in a suitable unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:,.0f} {unit}" if unit == "B" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def age_text(seconds: float) -> str:
    """Returns a long time as text, in its two largest units."""
    whole = int(seconds)
    for larger, smaller, factor, of in (("d", "h", 86400, 3600), ("h", "m", 3600, 60), ("m", "s", 60, 1)):
        if whole >= factor:
            return f"{whole // factor} {larger} {whole % factor // of} {smaller}"
    return f"{whole} s"


# ---------------------------------------------------------------------------------------------- facts


def _first_line(address: str, interval: Interval) -> str:
    now = interval.now
    parts = [f"offsetlog top  {address}"]
    if now.get("offsetlog_healthy") == 0:
        parts.append("NOT HEALTHY (see /healthz)")
    if (ready := now.get("offsetlog_ready")) is not None:
        parts.append("ready" if ready else "not ready (see /readyz)")
    started = now.get("offsetlog_start_time_seconds")
    if started is not None:
        parts.append(f"up {age_text(max(0.0, now.at - started))}")
    if interval.is_since_start:
        parts.append("rates since its start")
    else:
        parts.append(f"rates of the last {interval.seconds:.3g} s")
    return "  ".join(parts)


def _facts(interval: Interval) -> list[str]:
    lines = [
        _line("commits", _a_second(interval, "offsetlog_commits_total", ""),
              _a_second(interval, "offsetlog_committed_positions_total", "positions "),
              _flushes(interval)),
        _line("clients", _amount(interval, "offsetlog_connections", "connection"),
              _bytes_a_second(interval, "offsetlog_received_bytes_total", "in"),
              _bytes_a_second(interval, "offsetlog_sent_bytes_total", "out")),
        _line("table", _amount(interval, "offsetlog_table_entries", "position"),
              _bytes(interval, "offsetlog_table_bytes", "in memory"),
              _bytes(interval, "offsetlog_log_size_bytes", "of logs"),
              _bytes(interval, "process_resident_memory_bytes", "of the process")),
    ]  # fmt: skip
    loads = _loads(interval)
    return [each for each in (*lines, loads) if each]


def _line(name: str, *facts: str) -> str:
    found = "  ".join(each for each in facts if each)
    return f"{name:<9}{found}" if found else ""


def _a_second(interval: Interval, name: str, of: str) -> str:
    rate = interval.rate(name)
    return "" if rate is None else f"{of}{rate_text(rate)}/s"


def _bytes_a_second(interval: Interval, name: str, way: str) -> str:
    rate = interval.rate(name)
    return "" if rate is None else f"{size_text(rate)}/s {way}"


def _amount(interval: Interval, name: str, one: str) -> str:
    amount = interval.now.total(name)
    return "" if amount is None else count_text(round(amount), one)


def _bytes(interval: Interval, name: str, of: str) -> str:
    size = interval.now.total(name)
    return "" if size is None else f"{size_text(size)} {of}"


def _flushes(interval: Interval) -> str:
    rate = interval.rate(f"{FLUSHES}_count", log="offsets")
    if rate is None:
        return ""
    text = f"flushes {rate_text(rate)}/s"
    middle, high = (interval.quantile(FLUSHES, share, log="offsets") for share in (0.5, 0.99))
    if middle is not None:
        text += f" (p50 {duration_text(middle)}, p99 {duration_text(high)})"
    return text


def _loads(interval: Interval) -> str:
    parts = interval.now.values.get("offsetlog_partition_loaded_ratio", {})
    loaded = sum(value >= 1 for value in parts.values())
    if loaded == len(parts):
        return ""
    share = sum(parts.values()) / len(parts)
    return _line("loading", f"{loaded} of {len(parts)} log partitions are loaded ({share:.0%} of the bytes)")


# --------------------------------------------------------------------------------------------- tables


def _requests(interval: Interval) -> Table:
    rows = []
    for labels in interval.now.values.get(f"{REQUESTS}_count", {}):
        api = dict(labels)["api"]
        rate = interval.rate(f"{REQUESTS}_count", api=api)
        if not rate:
            continue
        errors = interval.rate("offsetlog_request_errors_total", api=api)
        times = [interval.quantile(REQUESTS, share, api=api) for share in (0.5, 0.99, 0.999)]
        texts = (rate_text(rate), rate_text(errors), *map(duration_text, times))
        rows.append((rate, (name_text(api), *texts)))
    rows.sort(key=lambda each: (-each[0], each[1]))
    headings = ("<request", "a second", "errors", "p50", "p99", "p99.9")
    return Table(headings, [row for _, row in rows])


def _groups_line(groups: Groups) -> str:
    count = groups.by_state.total()
    states = ", ".join(f"{number:,} {state}" for state, number in groups.by_state.most_common())
    text = _line("groups", f"{count:,}" + (f": {states}" if states else ""))
    hidden = count - len(groups.shown)
    return f"{text} (the first {len(groups.shown)} below)" if hidden else text


def _groups(shown: list[Group], rates: Mapping[str, float] | None) -> Table:
    # Without rates the table has no column for them.
    heading = () if rates is None else ("commits/s",)
    rows = [
        (
            name_text(each.name),
            each.state,
            "" if each.members is None else f"{each.members:,}",
            *(() if rates is None else (rate_text(rates.get(each.name)),)),
            name_text(each.protocol) if each.protocol else "",
            ", ".join(map(name_text, each.clients)),
        )
        for each in shown
    ]
    return Table(("<group", "<state", "members", *heading, "<protocol", "<clients"), rows)


def plain_text(frame: Frame) -> str:
    """Returns a frame as lines, with columns aligned by spaces."""
    lines = list(frame.lines)
    for table in frame.tables:
        headings = [each.removeprefix("<") for each in table.headings]
        widths = [max(map(len, column)) for column in zip(headings, *table.rows, strict=True)]
        lines.append("")
        for row in (headings, *table.rows):
            cells = [
                cell.ljust(width) if heading.startswith("<") else cell.rjust(width)
                for heading, cell, width in zip(table.headings, row, widths, strict=True)
            ]
            lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
