"""The plots of an audit's report, as SVG for an HTML page.

Nothing is drawn to a screen, and matplotlib's global state does not change.  In the SVG, text is kept as text.  Text
and lines use the colours of the page, so they are also readable in a dark colour scheme.  Names come from a log and may
contain any characters.  They are not parsed as mathematics, and matplotlib escapes them.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.dates
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from offsetlog.spark.jobs.audit_text import bytes_text, duration_text, moment, short

#: Colours that most people can distinguish, on light and on dark pages.
COLOURS = ["#3b7dd8", "#e08a2c", "#2fa37c", "#c45aa0", "#8a6fd1", "#8d99a6"]
BAD = "#d64f4f"

# Placeholders for colours that the page decides.
_INK, _FAINT = "#010203", "#040506"
_WIDTH = 7.2

# matplotlib is only partly typed.
dates: Any = matplotlib.dates

Row = dict[str, Any]


def _number(value: float, _position: int = 0) -> str:
    for size, unit in ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:g}"


def _figure(height: float, width: float = _WIDTH) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    axes.set_facecolor("none")
    figure.patch.set_alpha(0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_FAINT)
    axes.tick_params(which="both", colors=_INK, labelsize=9, length=0)
    # Otherwise the first label of the time axis would overlap the lowest label of the other axis.
    axes.tick_params(axis="x", pad=8)
    axes.grid(visible=True, color=_FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _svg(figure: Figure, name: str, title: str) -> str:
    out = io.StringIO()
    # The salt makes the identifiers differ between the plots of a page, and stay the same in every run.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}
    with mpl.rc_context(settings), warnings.catch_warnings():
        # The browser has the glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = out.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # HTML needs neither metadata nor namespaces.  Without their URLs, it is easy to see that the page loads nothing.
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text, flags=re.ASCII)
    text = re.sub(r'^<svg[^>]*viewBox="([^"]*)"[^>]*>', rf'<svg viewBox="\1" role="img" aria-label="{title}">', text)
    # These identifiers would be the same in all plots of a page, and are not needed.  The ones that are needed are
    # salted.
    needed = set(re.findall(r"#([\w-]+)", text))
    text = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in needed else "", text)
    text = re.sub(r"font: ([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    return text.replace(_INK, "currentColor").replace(_FAINT, "var(--line)").strip()


def _labels(axes: Axes, names: Sequence[str | None]) -> None:
    axes.set_yticks(range(len(names)), labels=["all groups" if name is None else short(name) for name in names])
    for label in axes.get_yticklabels():
        label.set_parse_math(False)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")


def _height(rows: int) -> float:
    return 0.9 + 0.3 * max(rows, 1)


def _legend(axes: Axes, columns: int = 3, more: Sequence[Patch] = ()) -> None:
    legend = axes.legend(
        handles=[*more, *axes.get_legend_handles_labels()[0]],
        loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, frameon=False, fontsize=9, labelcolor=_INK,
        handlelength=1.0, handleheight=0.9, columnspacing=1.4, borderaxespad=0.2,
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)


def _times(axes: Axes) -> None:
    locator = dates.AutoDateLocator(minticks=3, maxticks=8)
    axes.xaxis.set_major_locator(locator)
    # Each tick shows the minute.  The day is written beside the axis, in the form of the tables.
    axes.xaxis.set_major_formatter(
        dates.ConciseDateFormatter(
            locator,
            # A fraction of a second is shown without trailing zeros.
            formats=["%Y", "%Y-%m", "%m-%d", "%H:%M", "%H:%M", "%H:%M:%S.%f"],
            zero_formats=["%Y", "%Y", "%Y-%m", "%m-%d", "%H:%M", "%H:%M:%S"],
            offset_formats=["", "%Y", "%Y-%m", "%Y-%m-%d", "%Y-%m-%d", "%Y-%m-%d"],
        )
    )
    axes.xaxis.get_offset_text().set_color(_INK)
    axes.xaxis.get_offset_text().set_fontsize(9)


def over_time(rows: list[Row], bucket_ms: int) -> str:
    """Plots records over time by group, from rows of group, bucket and count; the group None stands for all others."""
    figure, axes = _figure(3.4, 2 * _WIDTH)
    names = list(dict.fromkeys(row["group"] for row in rows))
    names.sort(key=lambda name: name is None)
    buckets = sorted({row["bucket"] for row in rows})
    counts = {(row["group"], row["bucket"]): row["count"] for row in rows}
    bottom = [0] * len(buckets)
    width = bucket_ms / 86_400_000 * 0.92
    colours = [COLOURS[-1] if name is None else colour for name, colour in zip(names, COLOURS, strict=False)]
    for name, colour in zip(names, colours, strict=True):
        heights = [counts.get((name, bucket), 0) for bucket in buckets]
        label = "others" if name is None else short(name, 22)
        places: Any = [moment(bucket + bucket_ms // 2) for bucket in buckets]
        # matplotlib leaves a name that begins with an underscore out of the legend.
        axes.bar(places, heights, width, bottom=bottom, color=colour, label="\u200b" + label)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.yaxis.set_major_formatter(FuncFormatter(_number))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.set_ylabel(f"in {duration_text(bucket_ms)}", color=_INK, fontsize=9)
    axes.grid(visible=False, axis="x")
    _times(axes)
    _legend(axes, 6)
    return _svg(figure, "over-time", "Records over time")


def rates(rows: list[Row]) -> str:
    """Plots percentiles of the rate by group, from rows of group, p50, p95, p99 and most."""
    figure, axes = _figure(_height(len(rows)))
    for place, row in enumerate(rows):
        axes.plot(
            [row["p50"], row["most"]], [place, place], color=_FAINT, linewidth=3, solid_capstyle="round", zorder=1
        )
    for name, label, colour, size in (
        ("p50", "median", COLOURS[0], 40),
        ("p95", "95 %", COLOURS[2], 30),
        ("p99", "99 %", COLOURS[1], 22),
        ("most", "most", BAD, 14),
    ):
        axes.scatter([row[name] for row in rows], range(len(rows)), size, color=colour, label=label, zorder=2)
    axes.set_xscale("log")
    axes.set_xlim(0.8, 1.25 * max([row["most"] for row in rows], default=1) + 0.4)
    axes.xaxis.set_major_formatter(FuncFormatter(_number))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, position: ""))
    axes.set_xlabel("commits per second (only seconds with a commit)", color=_INK, fontsize=9)
    _labels(axes, [row["group"] for row in rows])
    _legend(axes, 4)
    return _svg(figure, "rates", "Rates by group")


def _bars(rows: list[Row], parts: list[tuple[str, str, str]], name: str, title: str, text: Any) -> str:
    figure, axes = _figure(_height(len(rows)))
    left = [0] * len(rows)
    for field, label, colour in parts:
        widths = [row[field] for row in rows]
        axes.barh(range(len(rows)), widths, 0.62, left=left, color=colour, label=label)
        left = [low + width for low, width in zip(left, widths, strict=True)]
    most = max(left, default=0) or 1
    for place, whole in enumerate(left):
        axes.text(whole + most * 0.01, place, text(whole), va="center", fontsize=8.5, color=_INK)
    axes.set_xlim(0, most * 1.14)
    # Each bar is labelled with its length.
    axes.xaxis.set_major_locator(NullLocator())
    axes.spines["bottom"].set_visible(False)
    _labels(axes, [row["group"] for row in rows])
    if len(parts) > 1:
        _legend(axes)
    return _svg(figure, name, title)


def sizes(rows: list[Row]) -> str:
    """Plots bytes by group."""
    return _bars(rows, [("bytes", "bytes", COLOURS[2])], "sizes", "Bytes by group", bytes_text)


def talkers(rows: list[Row]) -> str:
    """Plots commits and deletions by group."""
    parts = [("commits", "commits", COLOURS[0]), ("deletes", "deletions", COLOURS[1])]
    rows = sorted(rows, key=lambda row: -(row["commits"] + row["deletes"]))
    return _bars(rows, parts, "talkers", "Commits by group", _number)


def rewinds(rows: list[Row]) -> str:
    """Plots the distance of each rewind over time, from rows of at, distance and after_delete."""
    figure, axes = _figure(4.2)
    for after_delete, label, colour, mark in (
        (False, "went back", BAD, "v"),
        (True, "began again after a deletion", COLOURS[4], "o"),
    ):
        mine = [row for row in rows if bool(row["after_delete"]) is after_delete and row["at"] is not None]
        if mine:
            places: Any = [moment(row["at"]) for row in mine]
            axes.scatter(
                places, [row["distance"] for row in mine], 26, color=colour, marker=mark, label=label, alpha=0.8
            )
    axes.set_yscale("log")
    # Limits are powers of ten, so that at least two ticks have labels.
    distances = [row["distance"] for row in rows]
    low, high = (math.floor(math.log10(min(distances, default=1))), math.ceil(math.log10(max(distances, default=10))))
    axes.set_ylim(0.8 * 10.0**low, 1.25 * 10.0 ** max(high, low + 1))
    axes.yaxis.set_major_formatter(FuncFormatter(_number))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, position: ""))
    axes.set_ylabel("offsets back", color=_INK, fontsize=9)
    _times(axes)
    if axes.get_legend_handles_labels()[0]:
        _legend(axes)
    return _svg(figure, "rewinds", "Rewinds over time")


def stalls(rows: list[Row]) -> str:
    """Plots the longest stalls, from rows of group, topic, partition, since, until, kind and ongoing."""
    figure, axes = _figure(_height(len(rows)))
    colours = {"repeated": COLOURS[1], "silent": COLOURS[5]}
    for place, row in enumerate(rows):
        begin, end = moment(row["since"]), moment(row["until"])
        length: Any = end - begin
        start: Any = begin
        axes.barh(place, length, 0.55, left=start, color=colours[row["kind"]])
        if row["ongoing"]:
            ends: Any = [end]
            axes.scatter(ends, [place], 28, color=BAD, marker=">", zorder=3)
    axes.scatter([], [], 28, color=BAD, marker=">", label="ongoing")
    _labels(axes, [f"{short(row['group'], 16)} {short(row['topic'], 12)}:{row['partition']}" for row in rows])
    _times(axes)
    kinds = {"repeated": "committed again and again", "silent": "one commit, then nothing"}
    _legend(axes, more=[Patch(color=colours[kind], label=label) for kind, label in kinds.items()])
    return _svg(figure, "stalls", "The longest stalls")
