"""docs/server.md says what the code serves."""

from __future__ import annotations

import pytest

from . import api_table, metric_table, property_table

pytestmark = pytest.mark.source_tree


def test_the_table_is_that_of_the_code():
    page = api_table.PAGE.read_text()
    assert api_table.written(page) == page, "run: python -m tests.server.api_table --write"


def test_the_table_of_properties_is_that_of_the_code():
    page = property_table.PAGE.read_text()
    assert page.count(property_table.BEGIN) == page.count(property_table.END) == 1
    assert property_table.written(page) == page, "run: python -m tests.server.property_table --write"


def test_the_table_of_metrics_is_that_of_the_code():
    page = metric_table.PAGE.read_text()
    assert page.count(metric_table.BEGIN) == page.count(metric_table.END) == 1
    assert metric_table.written(page) == page, "run: python -m tests.server.metric_table --write"
