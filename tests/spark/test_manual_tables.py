"""The tables of docs/spark.md name the columns, options and defaults that the code has."""

from __future__ import annotations

import inspect
import re

import pytest

from offsetlog.spark.listener import OffsetCommitListener
from offsetlog.spark.scan.options import BATCH_NAMES, SPLIT_BYTES, STREAM_NAMES, VIEWS
from offsetlog.spark.scan.views import columns_of
from offsetlog.spark.sink.options import OPTIONS
from tests.pages import ROOT

pytestmark = [pytest.mark.source_tree, pytest.mark.gate]
PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")


def rows(section: str, heading: str) -> dict[str, list[str]]:
    """The cells after the first one of a table in a section, by the names in the first one."""
    text = PAGE.partition(f"\n{section}\n")[2].partition(f"\n| {heading} |")[2].partition("\n\n")[0]
    table = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines()[2:]]
    return {name: row[1:] for row in table for name in re.findall(r"`(\w+)`", row[0])}


def names_in(text: str) -> list[str]:
    # Kinds and outcomes stand in brackets.
    return re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", text))


def expanded(names: list[str], text: str) -> list[str]:
    """The columns of a row in which `group` to `topic_id` stands for those of `commits`."""
    if "`group` to `topic_id`" not in text:
        return names
    commits = list(columns_of("commits").names)
    before, after = names[: names.index("group")], names[names.index("topic_id") + 1 :]
    return [*before, *commits[: commits.index("topic_id") + 1], *after]


def test_the_columns_of_each_view():
    table = rows("### Views", "view")
    assert set(table) == set(VIEWS)
    for view in VIEWS:
        shown = expanded(names_in(table[view][1]), table[view][1])
        if view == "history":
            shown = [*columns_of("commits").names, "effective_at"]
        assert sorted(shown) == sorted(columns_of(view).names), view


def test_the_options_of_each_reader():
    batch = rows("### Options", "option")
    assert {*batch, "path"} == set(BATCH_NAMES)
    assert batch["splitBytes"][0] == f"{SPLIT_BYTES // 2**20} MiB"
    said = PAGE.partition("\n## Following\n")[2].partition("```")[0]
    as_above = set(re.findall(r"`(\w+)`", said.partition("with the options")[2]))
    assert {*rows("## Following", "option"), *as_above, "path", "view"} == set(STREAM_NAMES)


def test_the_options_of_the_sink():
    assert set(rows("## Writing", "option")) == set(OPTIONS)


def test_the_defaults_of_the_listener():
    said = {name: parameter.default for name, parameter in inspect.signature(OffsetCommitListener).parameters.items()}
    assert re.search(rf"`interval_seconds` \({said['interval_seconds']:.0f}\)", PAGE)
    first, longest = said["back_off_seconds"]
    waits = rf"after {first} s, then after twice as long each time, up to {longest:.0f} s \(`back_off_seconds`\)"
    assert re.search(waits, PAGE)
    assert f"`positions_max` ({said['positions_max']:,})" in PAGE
    assert re.search(r"every hour \(`refresh_seconds`\)", PAGE)
    assert said["refresh_seconds"] == 3600
    assert f"the newest {said['failures_max']}" in PAGE
