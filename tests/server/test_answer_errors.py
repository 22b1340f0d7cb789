"""The errors of answers: the first one is found, and one that refuses a request is put where the request asks."""

from __future__ import annotations

import pytest

from offsetlog.protocol import APIS, Request, fields_of
from offsetlog.protocol import messages as classes
from offsetlog.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from offsetlog.server.answer_errors import error_answer, first_error


def with_error(name: str, path: list[str]):
    """A message of this class with error 3 at the end of the path, and none before it."""
    kind = getattr(classes, name)
    fields = {each.name: each for each in fields_of(name)}
    first, *rest = path
    if not rest:
        return kind(**{first: 3})
    field = fields[first]
    inner = with_error(field.of_class.__name__, rest)
    return kind(**{first: (field.of_class(), inner) if field.kind == "array" else inner})


def error_paths(name: str) -> list[list[str]]:
    paths = []
    for each in fields_of(name):
        if each.name == "error_code":
            paths.append([each.name])
        elif each.of_class is not None:
            paths.extend([each.name, *rest] for rest in error_paths(each.of_class.__name__))
    return paths


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_the_first_error_of_an_answer_is_found(api):
    name = api.response.__name__
    assert error_paths(name)
    for path in error_paths(name):
        assert first_error(with_error(name, path)) == 3
    assert first_error(api.response()) == 0
    assert first_error(None) == 0


def asked(api_name: str, version: int, message) -> Request:
    key = next(each.key for each in APIS.values() if each.name == api_name)
    return Request(key, version, 1, "test", message)


def test_an_error_answer_names_what_was_asked_for():
    topic_id = bytes(range(16))
    places = (OffsetCommitRequestTopicPartition(3, 7), OffsetCommitRequestTopicPartition(5, 8))
    topics = (
        OffsetCommitRequestTopic("orders", partitions=places),
        OffsetCommitRequestTopic(topic_id=topic_id, partitions=places[:1]),
    )
    for version, names in ((9, [("orders", bytes(16)), ("", bytes(16))]), (10, [("", bytes(16)), ("", topic_id)])):
        answer = error_answer(asked("OffsetCommit", version, OffsetCommitRequest("g", topics=topics)), 16)
        assert [(each.name, each.topic_id) for each in answer.topics] == names
        found = [[tuple(each) for each in topic.partitions] for topic in answer.topics]
        assert found == [[(3, 16), (5, 16)], [(3, 16)]]
    groups = (OffsetFetchRequestGroup("a"), OffsetFetchRequestGroup("b"))
    answer = error_answer(asked("OffsetFetch", 9, OffsetFetchRequest(groups=groups)), 16)
    assert [(each.group_id, each.error_code, each.topics) for each in answer.groups] == [("a", 16, ()), ("b", 16, ())]
    old = OffsetFetchRequest("g", (classes.OffsetFetchRequestTopic("orders", (4,)),))
    assert error_answer(asked("OffsetFetch", 2, old), 16).error_code == 16
    (topic,) = error_answer(asked("OffsetFetch", 1, old), 16).topics
    assert (topic.name, tuple(topic.partitions[0])) == ("orders", (4, -1, -1, "", 16))
    finding = classes.FindCoordinatorRequest(coordinator_keys=("a", "b"))
    found = error_answer(asked("FindCoordinator", 4, finding), 15).coordinators
    assert [(each.key, each.node_id, each.port, each.error_code) for each in found] == [
        ("a", -1, -1, 15), ("b", -1, -1, 15),
    ]  # fmt: skip
    place = classes.FetchRequestTopicPartition(2, log_start_offset=9)
    fetch = classes.FetchRequest(topics=(classes.FetchRequestTopic("orders", partitions=(place,)),))
    answer = error_answer(asked("Fetch", 12, fetch), 6)
    place = answer.responses[0].partitions[0]
    assert (answer.error_code, answer.responses[0].topic) == (0, "orders")
    assert (place.partition_index, place.error_code, place.high_watermark, place.log_start_offset) == (2, 6, -1, -1)
    deleted = error_answer(asked("DeleteGroups", 2, classes.DeleteGroupsRequest(("a", "b"))), 16).results
    assert [tuple(each)[:2] for each in deleted] == [("a", 16), ("b", 16)]
