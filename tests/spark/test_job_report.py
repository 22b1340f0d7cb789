"""The page of an audit: whole, bounded, and harmless whatever groups are called."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

pytest.importorskip("matplotlib")

from offsetlog.spark.jobs import audit, audit_report
from offsetlog.spark.jobs import audit_plots as plots
from offsetlog.spark.jobs.audit_text import bytes_text, duration_text, plain, short, time_text

from .frames import frame

HOSTILE = [
    "<script>alert(1)</script>",
    "</style><img src=x onerror=alert(1)>",
    "$\\frac{1}{$",
    "a\u202eb\x00c\nd",
    '"quoted" & more',
    "",
    "_hidden",
    "каталог",
    "long" * 100,
]


class Page(HTMLParser):
    """Which elements and attributes a page has, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: dict[str, list[str | None]] = {}
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, []).append(value)

    def handle_data(self, data):
        self.text.append(data)


@pytest.fixture(scope="module")
def page(spark):
    rows = []
    for number, group in enumerate(HOSTILE):
        for step in range(6):
            offset = 100 - step if step % 2 else step
            rows.append(
                {
                    "group": group,
                    "topic": group,
                    "offset": offset,
                    "leader_epoch": 5 - step,
                    "timestamp": 60_000 * step + number,
                }
            )
        rows.append(
            {"group": group, "offset": 1, "outcome": "open", "producer_id": number, "producer_epoch": 0, "topic": "t"}
        )
    commits = audit.prepared(frame(spark, rows)).persist()
    made = audit.audit(commits, stall_ms=60_000, bucket_ms=60_000)
    found = audit_report.gather(made, options={"stall": "1m", "<b>": "<i>"}, rows=5)
    commits.unpersist()
    return audit_report.page(found, path="a&b<c>")


def test_the_page_loads_and_runs_nothing(page):
    parsed = Page(page)
    assert not {"script", "img", "link", "iframe", "object", "embed", "base", "form", "i"} & set(parsed.tags)
    assert not [name for name in parsed.attributes if name.startswith("on") or name in ("src", "action", "data")]
    links = [link for name in ("href", "xlink:href") for link in parsed.attributes.get(name, [])]
    assert links
    assert all(link.startswith("#") for link in links)
    assert "://" not in page
    assert "default-src 'none'" in page
    assert "@import" not in page
    assert all(found.startswith("#") for found in re.findall(r"url\(([^)]*)\)", page))


def test_names_are_text(page):
    text = "".join(Page(page).text)
    assert "<script>alert(1)</script>" in text
    assert "a\\u202eb\\u0000c\\u000ad" in text
    assert "\u202e" not in page
    assert "каталог" in text
    assert "a&b<c>" in text
    # Also in the plots; the name that begins with an underscore has its place in the legend.
    assert page.count("<svg ") == 6
    identifiers = Page(page).attributes["id"]
    assert len(set(identifiers)) == len(identifiers)


@pytest.mark.long
def test_rows_are_bounded_and_the_rest_is_reported(page):
    assert re.search(r'<h3 id="rewinds">Rewinds <span class="count">18</span>', page)
    assert "13 more of 18 are not shown" in page
    assert page.count("<tr>") < 100


def test_an_empty_log_has_a_page(spark):
    commits = audit.prepared(frame(spark, []))
    found = audit_report.gather(audit.audit(commits), options={})
    text = audit_report.page(found)
    assert "No offset went down." in text
    assert "<svg" not in text


def test_times_that_no_calendar_has(spark):
    rows = [
        {"offset": 10 - number, "timestamp": time}
        for number, time in enumerate((0, 1_700_000_000_000, 253_402_300_799_999, 2**55, 2**63 - 1))
    ]
    made = audit.audit(audit.prepared(frame(spark, rows)), bucket_ms=audit.bucket_for(1_700_000_000_000))
    found = audit_report.gather(made, options={})
    assert len(found.series) == 3
    text = audit_report.page(found)
    assert str(2**63 - 1) in text
    assert text.count("<svg ") == 6


def test_the_times_of_a_plot_differ():
    def times(*at):
        text = plots.rewinds([{"at": each, "distance": 5, "after_delete": False} for each in at])
        return re.findall(r">(\d\d:\d\d[\d:.]*)<", text)

    within_a_second = times(1_700_000_000_100, 1_700_000_000_900)
    assert len(within_a_second) == len(set(within_a_second)) > 2
    assert "22:13:25" in times(1_700_000_000_000, 1_700_000_010_000)


def test_rewinds_of_one_size_have_a_scale():
    for distance, labels in ((4000, (">1k<", ">10k<")), (1, (">1<", ">10<")), (2**63 - 1, (">1E<", ">10E<"))):
        text = plots.rewinds([{"at": 0, "distance": distance, "after_delete": False}])
        assert all(label in text for label in labels), distance


def test_values_as_text():
    assert [duration_text(ms) for ms in (None, 5, 61_000, 3_600_000, 90_000_000)] == [
        "–",
        "5 ms",
        "1 min 1 s",
        "1 h",
        "1 d 1 h",
    ]
    assert [bytes_text(size) for size in (None, 5, 2048, 5 << 30)] == ["–", "5 B", "2.0 KiB", "5.0 GiB"]
    assert [time_text(ms) for ms in (None, 0, 2**62)] == ["–", "1970-01-01 00:00:00", str(2**62)]
    assert [plain(name) for name in ("", " ", "a b")] == ['""', '" "', "a b"]
    assert short("x" * 100, 10) == "xxxxxx…xxx"
    assert len(short("y" * 50)) == 28
