"""docs/server.md says what the code serves."""

from __future__ import annotations

import pytest

from . import api_table

pytestmark = pytest.mark.source_tree


def test_the_table_is_that_of_the_code():
    page = api_table.PAGE.read_text()
    assert api_table.written(page) == page, "run: python -m tests.server.api_table --write"
