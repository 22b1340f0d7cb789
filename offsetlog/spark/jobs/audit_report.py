"""The report of an audit: one self-contained HTML page, which loads no other file and runs no script.

`gather` collects the rows to show, at most a given number from each table; `page` makes the page from them.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from offsetlog.spark.jobs import audit_plots as plots
from offsetlog.spark.jobs.audit import Audit, covered, top_talkers
from offsetlog.spark.jobs.audit_coverage import Coverage
from offsetlog.spark.jobs.audit_text import LAST_MS, bytes_text, count_text, duration_text, plain, time_text

Row = dict[str, Any]

#: How many rows of each table the page shows by default.
ROWS = 50
#: The most that a plot shows: bars, groups of the plot over time, and points.
BARS, SERIES, POINTS = 15, 5, 2000


# --------------------------------------------------------------------------------------------------------- shown tables


@dataclass(frozen=True)
class Shown:
    """The rows of one table that the page shows, and the number of rows that the table has."""

    rows: list[Row]
    total: int


@dataclass(frozen=True)
class Findings:
    """Everything that the page shows."""

    options: Mapping[str, str]
    totals: Row
    tables: Mapping[str, Shown]
    talkers: list[Row]
    sizes: list[Row]
    rates: list[Row]
    series: list[Row]
    bucket_ms: int
    rewinds: list[Row]
    coverage: Coverage


def _orders() -> dict[str, list[SparkColumn | str]]:
    # The sort keys of each table.  The first keys decide which rows come first; the others make the order reproducible.
    place: list[SparkColumn | str] = ["group", "topic", "partition", "log_partition"]
    return {
        "rewinds": [fn.desc("distance"), *place, "log_offset"],
        "zombies": [fn.asc_nulls_first("offset_below"), fn.desc("at"), *place, "log_offset", "reason"],
        "stalls": [fn.desc("ongoing"), fn.desc("stalled_ms"), *place, "since"],
        "silences": [fn.desc("ongoing"), fn.desc("silent_ms"), "group", "since"],
        "generations": ["reason", "group", "log_offset"],
        "transactions": [fn.desc("outcome"), "first_at", "log_partition", "first_offset"],
        "groups": [fn.desc("commits"), "group"],
        "positions": [fn.desc("commits"), *place],
        "rates": [fn.col("group").isNotNull(), fn.desc("most"), "group"],
    }


def _shown(table: DataFrame, order: list[SparkColumn | str], limit: int) -> Shown:
    rows = [row.asDict(recursive=True) for row in table.orderBy(*order).limit(limit).collect()]
    total = len(rows) if len(rows) < limit else table.count()
    return Shown(rows, total)


def gather(audit: Audit, *, options: Mapping[str, str], rows: int = ROWS) -> Findings:
    """Runs the queries of an audit, and returns the contents of its report.

    Args:
        audit: the tables.
        options: the options of the audit, to be printed on the page.
        rows: how many rows of each table to show.
    """
    orders = _orders()
    tables = {name: _shown(table, orders[name], rows) for name, table in audit.tables().items() if name in orders}
    (totals,) = audit.totals.collect()
    talkers = [row.asDict() for row in top_talkers(audit.groups, "commits", BARS).collect()]
    sizes = [row.asDict() for row in top_talkers(audit.groups, "bytes", BARS).collect()]
    names = [row["group"] for row in talkers[:SERIES]]
    name = fn.when(fn.col("group").isin(names), fn.col("group")) if names else fn.lit(None).cast("string")
    # All buckets after the last moment that a plot can show become one bar.
    bucket = fn.least("bucket", fn.lit(LAST_MS))
    counted = (
        audit.over_time.groupBy(name.alias("group"), bucket.alias("bucket"))
        .agg(fn.sum(fn.col("commits") + fn.col("deletes")).alias("count"))
        .collect()
    )
    series = [row.asDict() for row in counted]
    series.sort(key=lambda row: (names.index(row["group"]) if row["group"] in names else SERIES, row["bucket"]))
    points = audit.rewinds.select("at", "distance", "after_delete").orderBy(fn.desc("distance")).limit(POINTS).collect()
    return Findings(
        options=options,
        totals=totals.asDict(),
        tables=tables,
        talkers=talkers,
        sizes=sizes,
        rates=tables["rates"].rows[: BARS + 1],
        series=series,
        bucket_ms=audit.bucket_ms,
        rewinds=[row.asDict() for row in points],
        coverage=covered(audit, totals.asDict()),
    )


# ----------------------------------------------------------------------------------------------------------- the tables


@dataclass(frozen=True)
class Column:
    """A column of a table on the page; `show` converts a value to text."""

    name: str
    heading: str
    show: Callable[[Any], str] = lambda value: "–" if value is None else plain(str(value))
    number: bool = False
    whole: bool = False


def _names(names: list[str]) -> str:
    shown = ", ".join(plain(name) for name in names[:5])
    return f"{shown} and {len(names) - 5:,} more" if len(names) > 5 else shown


def _yes(value: bool | None) -> str:
    return "–" if value is None else "yes" if value else "no"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _count(name: str, heading: str) -> Column:
    return Column(name, heading, count_text, number=True)


def _time(name: str, heading: str) -> Column:
    return Column(name, heading, time_text, whole=True)


_POSITION = [Column("group", "group"), Column("topic", "topic"), Column("partition", "partition", number=True)]
_COUNTS = [
    _count("commits", "commits"),
    _count("deletes", "deletions"),
    _count("without_effect", "without effect"),
    _count("aborted", "aborted"),
    _count("open", "open"),
    Column("bytes", "bytes", bytes_text, number=True),
]
_SPAN = [_time("first_at", "first"), _time("last_at", "last")]


@dataclass(frozen=True)
class Section:
    """A table of the page: its title, its explanation, and its columns."""

    table: str
    title: str
    note: str
    columns: list[Column]
    nothing: str = "None."


FINDINGS = [
    Section(
        "rewinds",
        "Rewinds",
        "A commit that took effect with a lower offset than the previous commit of the same position. The group "
        "reads the records between the two offsets again.",
        [
            *_POSITION,
            _count("from_offset", "from"),
            _count("to_offset", "to"),
            _count("distance", "back by"),
            _time("at", "when"),
            Column("after_delete", "after a deletion", _yes),
            _count("log_offset", "log offset"),
            Column("log_partition", "log partition", number=True),
        ],
        "No offset went down.",
    ),
    Section(
        "zombies",
        "Zombie commits",
        "A commit with an older leader epoch or producer epoch than an earlier commit. If the leader epoch "
        "is older and the offset is lower, the group was reset. If the leader epoch is older and the offset is not "
        "lower, the consumer read from a replaced leader. "
        "A commit names neither member nor generation, so the log does not show which member wrote it.",
        [
            *_POSITION,
            Column("reason", "of"),
            _count("epoch", "epoch"),
            _count("newer_epoch", "after"),
            _count("offset", "offset"),
            Column("offset_below", "went back", _yes),
            _time("at", "when"),
            _count("log_offset", "log offset"),
            Column("log_partition", "log partition", number=True),
        ],
        "No older epoch came after a newer one.",
    ),
    Section(
        "stalls",
        "Stalls",
        "A committed offset that did not change for a long time. It was either committed again and again (repeated), "
        "or only once (silent). Ongoing stalls come first.",
        [
            *_POSITION,
            _count("offset", "offset"),
            Column("stalled_ms", "for", duration_text, number=True),
            _time("since", "since"),
            _time("until", "until"),
            _count("commits", "commits"),
            Column("kind", "kind"),
            Column("ongoing", "ongoing", _yes),
        ],
        "Every position moved.",
    ),
    Section(
        "silences",
        "Silent groups",
        "A group that committed nothing for a long time while other groups committed.",
        [
            Column("group", "group"),
            Column("silent_ms", "for", duration_text, number=True),
            _time("since", "since"),
            _time("until", "until"),
            _count("others", "commits of others"),
            Column("ongoing", "ongoing", _yes),
        ],
        "No group was silent while others committed.",
    ),
    Section(
        "generations",
        "Groups out of order",
        "Two signs of disorder in the records of a group: a generation that is below an earlier one, or commits "
        "outside of transactions while the group had no member, for example from a tool that resets offsets.",
        [
            Column("group", "group"),
            Column("reason", "what"),
            _count("generation", "generation"),
            _count("newer_generation", "after"),
            _count("commits", "commits"),
            _time("at", "when"),
            _count("log_offset", "log offset"),
            Column("log_partition", "log partition", number=True),
        ],
    ),
    Section(
        "transactions",
        "Transactions that did not commit",
        "Open transactions come first. The records of an open transaction take effect only if the "
        "transaction commits. Records after its first record are not cleaned until the transaction ends.",
        [
            Column("outcome", "outcome"),
            Column("producer_id", "producer", number=True),
            Column("producer_epoch", "epoch", number=True),
            Column("groups", "groups", _names),
            _count("commits", "commits"),
            _time("first_at", "first"),
            _time("last_at", "last"),
            _count("first_offset", "from log offset"),
            _count("marker_offset", "ended at"),
            Column("log_partition", "log partition", number=True),
        ],
        "All committed.",
    ),
]
COUNTS = [
    Section(
        "groups",
        "Groups",
        "Groups that committed most come first.",
        [
            Column("group", "group"),
            _count("positions", "positions"),
            *_COUNTS,
            Column("bytes_share", "of all bytes", _share, number=True),
            *_SPAN,
        ],
        "Nothing was committed.",
    ),
    Section(
        "positions",
        "Positions",
        "Positions that were committed most often come first.",
        [*_POSITION, _count("offset", "offset now"), *_COUNTS, *_SPAN],
        "Nothing was committed.",
    ),
    Section(
        "rates",
        "Rates",
        "The commits per second. The percentiles cover only the seconds with at least one commit. The mean covers all "
        "seconds from the first commit to the last.",
        [
            Column("group", "group", lambda name: "all groups" if name is None else plain(name)),
            *(_count(name, heading) for name, heading in (("p50", "median"), ("p95", "95 %"), ("p99", "99 %"))),
            _count("most", "most"),
            _count("mean", "mean"),
            _count("active_seconds", "active seconds"),
            _count("span_seconds", "of"),
        ],
        "No commit carries a time.",
    ),
]


def _cell(column: Column, row: Row) -> str:
    text = html.escape(column.show(row[column.name]))
    if column.whole:
        return f'<td class="w">{text}</td>'
    return f'<td class="n">{text}</td>' if column.number else f"<td>{text}</td>"


def _table(section: Section, shown: Shown, nothing: str) -> str:
    head = f'<h3 id="{section.table}">{html.escape(section.title)} <span class="count">{shown.total:,}</span></h3>'
    parts = [head, f'<p class="note">{html.escape(section.note)}</p>']
    if not shown.rows:
        return "\n".join([*parts, f'<p class="none">{html.escape(nothing)}</p>'])
    headings = "".join(
        f'<th class="n">{html.escape(column.heading)}</th>'
        if column.number
        else f"<th>{html.escape(column.heading)}</th>"
        for column in section.columns
    )
    rows = ["<tr>" + "".join(_cell(column, row) for column in section.columns) + "</tr>" for row in shown.rows]
    parts.append(f'<div class="scroll"><table><thead><tr>{headings}</tr></thead><tbody>')
    parts += [*rows, "</tbody></table></div>"]
    left = shown.total - len(shown.rows)
    if left > 0:
        parts.append(f'<p class="left">{left:,} more of {shown.total:,} are not shown; --rows shows more.</p>')
    return "\n".join(parts)


# ------------------------------------------------------------------------------------------------------------- the page

_STYLE = """
:root { color-scheme: light dark; --ink: #1b2430; --soft: #5d6b7a; --line: #dfe4ea; --page: #f5f7f9; --card: #ffffff;
  --accent: #2f6fc4; --bad: #c23b3b; --good: #2a8a68; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9ef; --soft: #95a3b3; --line: #333d49; --page: #12171d;
  --card: #1a2129; --accent: #6ca4ec; --bad: #f07f7f; --good: #5cc39d; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1240px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 26px; margin: 0; letter-spacing: -0.01em; }
h2 { font-size: 19px; margin: 44px 0 12px; }
h3 { font-size: 16px; margin: 0 0 2px; }
p { margin: 0 0 8px; }
.path { color: var(--soft); overflow-wrap: anywhere; margin: 4px 0 24px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(148px, 1fr)); gap: 12px; }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 12px 16px; color: inherit; text-decoration: none; display: block; }
.tile b { display: block; font-size: 23px; font-weight: 650; letter-spacing: -0.01em;
  font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.tile.bad b { color: var(--bad); }
.tile.good b { color: var(--good); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(520px, 100%), 1fr)); gap: 16px; }
.card { padding: 16px 18px; margin: 0 0 16px; min-width: 0; }
.plots .card { margin: 0; }
.partial { border-color: var(--bad); }
.wide { grid-column: 1 / -1; }
.wide svg { max-height: 420px; }
svg { width: 100%; height: auto; display: block; overflow: visible; }
svg text { font-family: system-ui, sans-serif; }
.note, .left, .none { color: var(--soft); font-size: 13.5px; max-width: 92ch; }
.none { margin-top: 6px; color: var(--good); }
.left { margin: 8px 0 0; }
.count { color: var(--soft); font-weight: 400; margin-left: 4px; }
.scroll { overflow-x: auto; margin-top: 10px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; font-variant-numeric: tabular-nums; }
th { text-align: left; color: var(--soft); font-weight: 500; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th, td { padding: 5px 14px 5px 0; vertical-align: top; }
td { border-bottom: 1px solid var(--line); overflow-wrap: anywhere; max-width: 34ch; }
td:first-child { min-width: 12ch; }
td:not(.n, .w) { min-width: 7ch; }
.w { white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
.n { text-align: right; white-space: nowrap; padding-right: 20px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 18px; margin: 0; font-size: 13.5px; }
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
@media print { body { background: none; } .card, .tile { break-inside: avoid; } }
"""


def _tile(value: str, label: str, *, mood: str = "", to: str = "") -> str:
    inside = f"<b>{html.escape(value)}</b><span>{html.escape(label)}</span>"
    kind = f"tile {mood}".strip()
    return f'<a class="{kind}" href="#{to}">{inside}</a>' if to else f'<div class="{kind}">{inside}</div>'


def _tiles(findings: Findings) -> str:
    totals = findings.totals
    tiles = [
        _tile(count_text(totals["groups"]), "groups ever seen", to="groups"),
        _tile(count_text(totals["positions"]), "positions", to="positions"),
        _tile(count_text(totals["commits"]), "commits"),
        _tile(count_text(totals["deletes"]), "deletions"),
        _tile(bytes_text(totals["bytes"]), "of keys and values"),
    ]
    for section in FINDINGS:
        shown = findings.tables.get(section.table)
        if shown is not None:
            is_told = findings.coverage.nothing(section.table, section.nothing) == section.nothing
            mood = "bad" if shown.total else "good" if is_told else ""
            tiles.append(_tile(count_text(shown.total), section.title.lower(), mood=mood, to=section.table))
    return '<div class="tiles">\n' + "\n".join(tiles) + "\n</div>"


def _coverage(coverage: Coverage) -> str:
    kind = "card" if coverage.is_whole else "card partial"
    lines = "".join(f"<p>{html.escape(plain(line))}</p>" for line in coverage.lines())
    return f'<section class="{kind}" id="coverage"><h3>Coverage</h3>{lines}</section>'


def _plot(title: str, note: str, svg: str, *, wide: bool = False) -> str:
    kind = "card wide" if wide else "card"
    return f'<div class="{kind}"><h3>{title}</h3><p class="note">{note}</p>{svg}</div>'


def _plots(findings: Findings) -> str:
    found = []
    if findings.series:
        note = f"Commits and deletions of the {SERIES} groups with the most commits, and of all other groups together."
        found.append(_plot("Over time", note, plots.over_time(findings.series, findings.bucket_ms), wide=True))
    if findings.talkers:
        found.append(_plot("Top talkers", "Commits and deletions by group.", plots.talkers(findings.talkers)))
        note = "The uncompressed size of the keys and values in commits and deletions."
        found.append(_plot("Bytes by group", note, plots.sizes(findings.sizes)))
    if findings.rates:
        found.append(_plot("Rates", "The busiest groups, and all groups together.", plots.rates(findings.rates)))
    rewinds = [row for row in findings.rewinds if row["at"] is not None]
    if rewinds:
        total = findings.tables["rewinds"].total
        note = (
            "Each point shows the time and the distance of a rewind."
            if total <= POINTS
            else f"Each point shows the time and the distance of a rewind, for the {POINTS:,} longest of {total:,}."
        )
        found.append(_plot("Rewinds", note, plots.rewinds(rewinds)))
    stalls = findings.tables["stalls"].rows[:BARS]
    if stalls:
        found.append(_plot("Stalls", "Ongoing stalls, and the longest ones.", plots.stalls(stalls)))
    return '<div class="plots">\n' + "\n".join(found) + "\n</div>" if found else ""


def page(findings: Findings, *, title: str = "Audit of committed offsets", path: str = "") -> str:
    """Returns the page.

    Args:
        findings: the contents.
        title: the title of the page.
        path: the path of the audited log.
    """
    totals = findings.totals
    span = f"{time_text(totals['first_at'])} to {time_text(totals['last_at'])} UTC"
    options = "".join(
        f"<dt>{html.escape(plain(name))}</dt><dd>{html.escape(plain(value))}</dd>"
        for name, value in findings.options.items()
    )

    def nothing(section: Section) -> str:
        is_finding = section in FINDINGS
        return findings.coverage.nothing(section.table, section.nothing) if is_finding else section.nothing

    def cards(sections: list[Section]) -> str:
        tables = [
            _table(section, findings.tables[section.table], nothing(section))
            for section in sections
            if section.table in findings.tables
        ]
        return "\n".join(f'<section class="card">{each}</section>' for each in tables)

    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{html.escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>{html.escape(title)}</h1>
<p class="path">{html.escape(plain(path))}<br>{span}</p>
{_coverage(findings.coverage)}
{_tiles(findings)}
<h2>At a glance</h2>
{_plots(findings)}
<h2>Findings</h2>
{cards(FINDINGS)}
<h2>Counts</h2>
{cards(COUNTS)}
<h2>How this was made</h2>
<section class="card"><dl>{options}</dl>
<p class="note" style="margin-top:12px">The audit covers the records that the log still holds: a log that was
cleaned shows fewer commits and fewer findings than there were. All times are in UTC.</p></section>
</main>
</body>
</html>
"""
