"""Checks of errors: an error must be of a class of offsetlog, and have the code from the table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from offsetlog.error_codes import ERROR_CODES
from offsetlog.errors import OffsetLogError


def check_error(error: OffsetLogError) -> None:
    """Asserts that an error carries the code and the `retriable` flag of its class."""
    names = [each.__name__ for each in type(error).__mro__ if each.__name__ in ERROR_CODES]
    assert (error.error_code, error.retriable) == ERROR_CODES[names[0]]
    assert str(error)


@contextmanager
def refused(
    *kinds: type[OffsetLogError], case: object = None
) -> Iterator[pytest.ExceptionInfo[OffsetLogError]]:
    """Asserts that the block raises one of these errors.

    Args:
        kinds: the classes of the errors.
        case: the name of the case.  If a test has several cases, a failure of the test shows it.
    """
    try:
        with pytest.raises(kinds) as caught:
            yield caught
        check_error(caught.value)
    except BaseException as failure:
        if case is not None:
            failure.add_note(f"in the case: {case!r}")
        raise
