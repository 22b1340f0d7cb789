"""Messages as Python objects: their fields, their bytes, and refusals of wrong bytes and values."""

from __future__ import annotations

import contextlib
import random
import re

import pytest

from offsetlog.errors import (
    ArgumentTypeError,
    CorruptionError,
    InvalidArgumentError,
    LimitError,
    OffsetLogError,
    TooLargeError,
    UnsupportedVersionError,
)
from offsetlog.protocol import (
    APIS,
    decode,
    decode_request,
    decode_response,
    encode,
    encode_request,
    encode_response,
    fields_of,
)
from offsetlog.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchResponseResponsePartition,
    FindCoordinatorRequest,
    HeartbeatRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.depth import by_depth, first_seed

from . import message_stub
from .drawn_messages import drawn

COMMIT = OffsetCommitRequest(
    group_id="my-group",
    generation_id_or_member_epoch=5,
    member_id="m-1",
    topics=[
        OffsetCommitRequestTopic(
            name="orders",
            partitions=[OffsetCommitRequestTopicPartition(3, 42, 7, committed_metadata="")],
        )
    ],
)
VERSIONS = [
    (kind, version)
    for api in APIS.values()
    for kind in (api.request, api.response)
    for version in range(api.first_version, api.last_version + 1)
]


def test_the_stub_is_that_of_the_tables():
    assert message_stub.PAGE.read_text() == message_stub.text(), "run: python tests/protocol/message_stub.py --write"


def test_a_request_is_written_and_read_with_its_header():
    # docs/format/wire.md §11.5
    frame = encode_request(COMMIT, 8, 2, "c1")
    assert frame.hex() == (
        "0000003c00080008000000020002633100096d792d67726f757000000005046d2d310002076f7264657273"
        "0200000003000000000000002a0000000701000000"
    )
    request = decode_request(frame[4:])
    assert request[:4] == (8, 8, 2, "c1")
    assert request.message == COMMIT._replace(
        topics=(COMMIT.topics[0]._replace(partitions=tuple(COMMIT.topics[0].partitions)),)
    )


def test_bytes_after_a_request_are_ignored():
    frame = encode_request(HeartbeatRequest("g", 1, "m"), 4, 9)
    assert decode_request(frame[4:] + b"anything") == decode_request(frame[4:])


def test_a_null_client_id_is_none():
    assert decode_request(encode_request(MetadataRequest(topics=None), 12, 1)[4:]).client_id is None


def test_the_answer_to_api_versions_has_no_tags_in_its_header():
    answer = encode_response(ApiVersionsResponse(), 3, 7)
    assert answer.hex() == "0000000c" + "00000007" + "0000" + "01" + "00000000" + "00"
    assert decode_response(ApiVersionsResponse, 3, answer[4:]) == (7, ApiVersionsResponse())


def test_other_answers_have_tags_from_their_flexible_version_on():
    # Correlation id, tags of the header, throttle time, topics, error, tags.
    old, flexible = "00000001" "00000000" "00000000" "0000", "00000001" "00" "00000000" "01" "0000" "00"
    for version, expected in ((5, old), (6, flexible)):
        answer = encode_response(OffsetFetchResponse(), version, 1)
        assert answer[4:].hex() == expected
        assert decode_response(OffsetFetchResponse, version, answer[4:]) == (1, OffsetFetchResponse())


def test_a_field_that_a_version_does_not_have_keeps_its_default():
    read, _ = decode(OffsetCommitRequest, 2, encode(COMMIT._replace(retention_time_ms=60_000), 2))
    partition = read.topics[0].partitions[0]
    assert read.retention_time_ms == 60_000
    assert (read.group_instance_id, partition.committed_leader_epoch) == (None, -1)


@pytest.mark.parametrize("version", [0, 1])
def test_commits_of_clients_that_do_not_ask_for_versions(version):
    # A client of 0.8: docs/format/wire.md §11.2.
    read, _ = decode(OffsetCommitRequest, version, encode(COMMIT, version))
    assert read.group_id == "my-group"
    assert read.generation_id_or_member_epoch == (5 if version == 1 else -1)
    assert read.topics[0].partitions[0].commit_timestamp == -1


def test_advertised_versions_are_those_of_kafka():
    # docs/format/brokers.md §15.1
    ranges = {api.name: (api.advertised_from, api.last_version) for api in APIS.values()}
    assert ranges["OffsetCommit"] == (2, 10)
    assert ranges["OffsetFetch"] == (1, 10)
    assert ranges["JoinGroup"] == (0, 9)
    assert ranges["Fetch"] == (4, 18)
    assert {APIS[8].first_version, APIS[9].first_version, APIS[10].first_version} == {0}


def test_a_null_list_of_topics_is_not_an_empty_one():
    for version in range(1, 14):
        assert decode(MetadataRequest, version, encode(MetadataRequest(topics=None), version))[0].topics is None
        assert decode(MetadataRequest, version, encode(MetadataRequest(topics=()), version))[0].topics == ()
    with pytest.raises(InvalidArgumentError, match="topics cannot be null"):
        encode(MetadataRequest(topics=None), 0)
    with pytest.raises(CorruptionError, match="topics is null"):
        decode(OffsetFetchRequest, 1, encode(OffsetFetchRequest("g", None), 2))


def test_names_that_are_not_utf8_are_read_as_java_reads_them():
    request = decode_request(bytes.fromhex("000a000000000001ffff" + "0003" + "61ff62"))
    assert request.message == FindCoordinatorRequest(key="a\ufffdb")


def test_a_tagged_struct_is_written_only_where_it_says_something():
    plain = FetchResponseResponsePartition()
    assert plain.diverging_epoch == type(plain.diverging_epoch)(-1, -1)
    assert [field.tag for field in fields_of(type(plain).__name__) if field.tag is not None] == [0, 1, 2]


@pytest.mark.parametrize(
    ("message", "version", "error", "text"),
    [
        (COMMIT._replace(group_id=5), 9, ArgumentTypeError, "OffsetCommitRequest.group_id: 5 is not of type string"),
        (COMMIT._replace(group_id="\ud800"), 9, ArgumentTypeError, "is not of type string"),
        (COMMIT._replace(group_id=None), 9, InvalidArgumentError, "groupId cannot be null"),
        (COMMIT._replace(group_id="g" * 32768), 9, TooLargeError, "groupId is longer than the format allows"),
        (COMMIT._replace(generation_id_or_member_epoch=1 << 31), 9, InvalidArgumentError, "is out of range"),
        (COMMIT._replace(generation_id_or_member_epoch=1 << 63), 9, ArgumentTypeError, "is not of type int32"),
        (COMMIT._replace(generation_id_or_member_epoch="1"), 9, ArgumentTypeError, "'1' is not of type int32"),
        (COMMIT._replace(topics={}), 9, ArgumentTypeError, "{} is not of type array of struct"),
        (COMMIT._replace(topics=[None]), 9, ArgumentTypeError, "None is not of class OffsetCommitRequestTopic"),
        (COMMIT._replace(topics=[OffsetCommitRequestTopic(topic_id=b"short")]), 10, ArgumentTypeError, "of type uuid"),
        (COMMIT, 11, UnsupportedVersionError, "version 11 of OffsetCommitRequest is not supported"),
        (COMMIT, -1, UnsupportedVersionError, "version -1 of OffsetCommitRequest is not supported"),
        (("no", "message"), 1, ArgumentTypeError, "neither a request nor a response"),
    ],
)
def test_values_that_are_wrong_are_refused_with_their_field(message, version, error, text):
    with pytest.raises(error, match=re.escape(text)):
        encode(message, version)


def test_apis_and_versions_that_are_not_served_are_refused():
    with pytest.raises(UnsupportedVersionError, match="API key 4 is not supported"):
        decode_request(bytes.fromhex("0004000000000001ffff"))
    with pytest.raises(UnsupportedVersionError, match="version 9 of ApiVersions is not supported"):
        decode_request(encode_request(ApiVersionsRequest(), 4, 1)[4:6] + b"\x00\x09" + bytes(8))


def test_a_count_beyond_the_bytes_is_refused_before_memory_is_taken():
    frame = bytearray(encode(COMMIT._replace(topics=()), 2))
    frame[-4:] = (2**31 - 1).to_bytes(4, "big")
    with pytest.raises(CorruptionError, match="topics extends beyond the end of the bytes"):
        decode(OffsetCommitRequest, 2, frame)


def test_more_values_than_a_message_may_have_are_refused():
    # Elements of one byte: ten values each.
    count = 3_000_000
    topics = OffsetFetchRequest("g", topics=[])
    written = bytearray(encode(topics, 1)[:-4]) + count.to_bytes(4, "big") + bytes(6 * count)
    with pytest.raises(LimitError, match="more than 4194304 values"):
        decode(OffsetFetchRequest, 1, written)


@pytest.mark.parametrize("start", [-1, 100])
def test_a_start_outside_of_the_bytes_is_refused(start):
    with pytest.raises(InvalidArgumentError, match=f"start must be from 0 to .*, not {start}"):
        decode(OffsetCommitRequest, 2, bytes(50), start)


def test_a_message_cut_anywhere_is_refused():
    draw = random.Random(first_seed(7))
    for kind, version in VERSIONS:
        written = encode(drawn(kind, version, draw), version)
        for size in range(len(written)):
            with pytest.raises(CorruptionError):
                decode(kind, version, written[:size])


def test_a_flipped_bit_gives_a_message_or_a_refusal():
    seed = first_seed(8)
    print(f"seed {seed}")
    draw = random.Random(seed)
    refused = read = 0
    for kind, version in VERSIONS * by_depth(gate=1, long=20):
        written = encode(drawn(kind, version, draw), version)
        for bit in range(0, 8 * len(written), 1 + len(written) // 40):
            flipped = bytearray(written)
            flipped[bit // 8] ^= 1 << bit % 8
            try:
                decode(kind, version, flipped)
                read += 1
            except (CorruptionError, LimitError):
                refused += 1
    assert read > 1000 < refused


def test_drawn_messages_come_back():
    draw = random.Random(first_seed(9))
    for kind, version in VERSIONS:
        message = drawn(kind, version, draw)
        assert decode(kind, version, encode(message, version)) == (message, len(encode(message, version)))


def test_every_refusal_is_an_error_of_ours():
    draw = random.Random(first_seed(10))
    for _ in range(by_depth(gate=20_000, long=1_000_000)):
        with contextlib.suppress(OffsetLogError):
            decode_request(draw.randbytes(draw.randrange(40)))
