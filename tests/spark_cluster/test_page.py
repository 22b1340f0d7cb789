"""docs/spark-clusters.md runs as it is written, on a stand-alone cluster, and prints what it shows."""

from __future__ import annotations

import shutil

import pytest

from tests.spark.page_host import differences_of

pytestmark = [pytest.mark.source_tree, pytest.mark.ci]


def test_the_manual_of_clusters() -> None:
    """A cluster and a driver of its own: the session is the page's."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    found = differences_of("docs/spark-clusters.md")
    assert not found, found
