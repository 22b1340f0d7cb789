"""The crossing from the C floor to exceptions: every failure has one class, and arrives whole."""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path

import pytest

from offsetlog import errors
from offsetlog._native import status as native
from offsetlog.error_codes import ERROR_CODES
from offsetlog.error_status import STATUS_ERRORS
from offsetlog.status import RESULTS, Status

HEADER = Path(__file__).parent.parent / "csrc" / "base/status.h"
ALL_ERRORS = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, errors.OffsetLogError)
]


@pytest.mark.source_tree
def test_the_statuses_are_those_of_the_header():
    text = re.search(r"typedef enum ol_status \{(.*?)\} ol_status;", HEADER.read_text(), re.DOTALL)
    assert text is not None
    in_header = {name: int(number) for name, number in re.findall(r"\bOL_([A-Z_]+) = (\d+)", text[1])}
    assert {member.name: member.value for member in Status} == in_header


def test_every_status_is_a_result_or_has_a_class():
    # Only the faulting file system of the tests returns CRASHED; it brings the class along.
    only_in_tests = {Status.CRASHED}
    assert (set(STATUS_ERRORS) | RESULTS) - only_in_tests == set(Status) - only_in_tests
    assert not set(STATUS_ERRORS) & RESULTS


def test_a_class_carries_the_status_that_it_stands_for():
    for status, kind in STATUS_ERRORS.items():
        assert kind.status == status


@pytest.mark.parametrize("status", sorted(RESULTS))
def test_a_result_is_returned(status):
    assert native.provoke(status, "no failure") == status


@pytest.mark.parametrize("status", sorted(STATUS_ERRORS))
def test_a_failure_is_raised_without_the_gil_as_its_class(status):
    with pytest.raises(STATUS_ERRORS[status]) as caught:
        native.provoke(status, "the reason", path="/a/log", position=61, offset=7, item=3, errno=5)
    error = caught.value
    assert type(error) is STATUS_ERRORS[status]
    assert (error.message, error.path, error.position, error.item) == ("the reason", "/a/log", 61, 3)
    if isinstance(error, errors.ConditionError):
        assert (error.actual, error.log_offset) == (7, None)
    else:
        assert error.log_offset == 7
    if isinstance(error, OSError) and not isinstance(error, TimeoutError):
        assert error.errno == 5


def test_what_is_unknown_is_none():
    with pytest.raises(errors.CorruptionError) as caught:
        native.provoke(Status.CORRUPT, "the reason")
    error = caught.value
    assert (error.path, error.position, error.log_offset, error.item) == (None, None, None, None)
    assert str(error) == "the reason"


def test_an_unknown_status_is_our_bug():
    with pytest.raises(errors.InternalError, match="unknown status 999: odd"):
        native.provoke(999, "odd")


def test_a_path_that_is_not_utf8_arrives():
    with pytest.raises(errors.MissingFileError) as caught:
        native.provoke(Status.NO_SUCH_FILE, "open", path="/a/\udcff\udcfe")
    assert caught.value.path == "/a/\udcff\udcfe"


def test_a_long_path_keeps_its_end_even_when_cut_within_a_character():
    with pytest.raises(errors.StorageError) as caught:
        native.provoke(Status.IO, "open", path="/" + "é" * 400 + "/x.log")
    assert caught.value.path.endswith("é/x.log")


def test_the_message_names_the_place():
    error = errors.CorruptionError("a bad length", path="/a/0.log", position=61, log_offset=4)
    assert str(error) == "a bad length (/a/0.log, byte 61, log offset 4)"


@pytest.mark.parametrize("kind", ALL_ERRORS)
def test_an_error_survives_pickling(kind):
    error = kind("the reason", path="/a", position=1, log_offset=2, item=3)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert copy.__dict__ == error.__dict__
    assert str(copy) == str(error)
    assert copy.args == error.args


def test_errno_survives_pickling():
    error = pickle.loads(pickle.dumps(errors.DiskFullError("write", errno=28, path="/a")))
    assert (error.errno, error.strerror, error.filename) == (28, "No space left on device", "/a")


@pytest.mark.parametrize("kind", ALL_ERRORS)
def test_a_docstring_is_the_condition_in_one_sentence(kind):
    first = kind.__doc__.strip().split("\n")[0]
    assert first.endswith("."), first


@pytest.mark.parametrize(
    ("kind", "built_in"),
    [
        (errors.InvalidArgumentError, ValueError),
        (errors.ArgumentTypeError, TypeError),
        (errors.ConfigError, ValueError),
        (errors.TooLargeError, ValueError),
        (errors.OffsetOutOfRangeError, LookupError),
        (errors.StorageError, OSError),
        (errors.MissingFileError, FileNotFoundError),
        (errors.LockedError, BlockingIOError),
        (errors.CapacityError, MemoryError),
        (errors.CommitTimeoutError, TimeoutError),
    ],
)
def test_who_catches_the_built_in_catches_ours(kind, built_in):
    assert issubclass(kind, built_in)


@pytest.mark.parametrize("kind", ALL_ERRORS, ids=lambda kind: kind.__name__)
def test_an_error_has_the_code_of_the_nearest_class_in_the_table(kind):
    entry = next(ERROR_CODES[each.__name__] for each in kind.__mro__ if each.__name__ in ERROR_CODES)
    assert (kind.error_code, kind.retriable) == entry


def test_the_table_of_codes_names_errors_only():
    assert set(ERROR_CODES) <= {kind.__name__ for kind in ALL_ERRORS}


def test_only_these_are_worth_the_same_call_again():
    retriable = {kind for kind in ALL_ERRORS if kind.retriable}
    assert retriable == {
        errors.CoordinatorLoadingError,
        errors.NotCoordinatorError,
        errors.CommitTimeoutError,
        errors.ClusterUnavailableError,
        errors.UnknownOutcomeError,
        errors.DifferenceError,
        errors.ZooKeeperUnavailableError,
        errors.SessionExpiredError,
        errors.NotEnoughReplicasError,
        errors.ThrottledError,
        errors.UnknownLeaderEpochError,
    }


def test_a_refused_condition_tells_both_values():
    error = errors.ExpectedOffsetError.found("billing", "orders", 3, expected=None, actual=7)
    assert str(error) == "group 'billing' at orders:3: expected no offset, found 7"
    assert (error.group, error.topic, error.partition, error.expected, error.actual) == (
        "billing",
        "orders",
        3,
        None,
        7,
    )
    rewind = errors.RewindError.found("billing", "orders", 3, asked=5, actual=7)
    assert (rewind.asked, rewind.actual) == (5, 7)
    assert "5 is below the committed offset 7" in str(rewind)


def test_a_partition_count_tells_both_numbers():
    assert "pass partitions=" in errors.PartitionCountError().message
    error = errors.PartitionCountError(asked=10, actual=50, path="/a")
    assert (error.asked, error.actual) == (10, 50)
    assert str(error) == "partitions=10 was given, but the directory has 50 partitions (/a)"
