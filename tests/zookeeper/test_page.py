"""docs/zookeeper.md runs as it is written, prints what it shows, and names the properties that there are."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from offsetlog.manager.zookeeper import security
from offsetlog.manager.zookeeper.settings import PROPERTIES, from_properties
from tests.page_hosts import host_of
from tests.pages import ROOT, differences

pytestmark = pytest.mark.source_tree
PAGE = "docs/zookeeper.md"


@pytest.mark.ci
@pytest.mark.usefixtures("zookeeper_is_here")
def test_the_page_of_zookeeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has an ensemble of its own, with nothing in it."""
    monkeypatch.chdir(tmp_path)
    with host_of(PAGE) as play:
        found = differences(PAGE, play)
    assert not found, "\n".join(found)


def test_the_table_has_every_property() -> None:
    text = (ROOT / PAGE).read_text(encoding="utf-8").partition("| property | default |")[2].partition("\n\n")[0]
    shown = set(re.findall(r"`((?:zookeeper|jute|offsets)\.[\w.]+)`", text))
    assert {name for name in shown if not name.startswith("zookeeper.ssl.")} == {*PROPERTIES, security.DIGEST}
    code = inspect.getsource(security)
    ssl = {name.removeprefix("zookeeper.ssl.") for name in shown if name.startswith("zookeeper.ssl.")}
    assert {name for name in ssl if name.partition(".")[0] not in code} == set()


def test_the_table_has_the_defaults() -> None:
    """A property whose default is no number has none here."""
    made = from_properties({"zookeeper.connect": "zk1:2181"})
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    shown = {name: int(number) for name, number in re.findall(r"^\| `([\w.]+)` \| (-?\d+) \|", text, re.MULTILINE)}
    assert shown == {
        "zookeeper.session.timeout.ms": round(made.connection.session_timeout * 1000),
        "zookeeper.connection.timeout.ms": round(made.connection.connection_timeout * 1000),
        "jute.maxbuffer": made.connection.request_bytes_max,
        "offsets.topic.num.partitions": made.partitions,
        "offsets.commit.timeout.ms": round(made.commit_timeout * 1000),
        "offsets.retention.minutes": -1 if made.retention_ms is None else made.retention_ms // 60_000,
        "offsets.retention.check.interval.ms": made.retention_check_interval_ms,
    }
