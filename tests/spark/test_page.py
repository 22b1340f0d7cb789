"""docs/how-to/spark.md runs as it is written, and prints what it shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.pages import is_like, play

pytestmark = [pytest.mark.source_tree, pytest.mark.gate]


def test_the_page_of_spark(spark: SparkSession, tmp_path: Path) -> None:
    there = {"/data/offsets": str(tmp_path / "offsets")}
    for printed in play("docs/how-to/spark.md", there, session={"spark": spark}):
        assert is_like(printed.expected, printed.actual), printed
