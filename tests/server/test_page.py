"""docs/server.md says what the code serves."""

from __future__ import annotations

import pytest

from . import api_table, metric_table, property_table
from .made_table import PAGE

pytestmark = pytest.mark.source_tree


@pytest.mark.parametrize(
    "table", [api_table.TABLE, property_table.TABLE, metric_table.TABLE], ids=lambda table: table.module
)
def test_the_table_is_that_of_the_code(table):
    page = PAGE.read_text()
    assert table.written(page) == page, f"run: {table.command}"
