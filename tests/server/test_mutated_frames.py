"""Frames that nobody means: none of them ends the server, fails a handler, or keeps others from being served."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from depth import by_depth, first_seed

from offsetlog.protocol import APIS, encode_request
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DescribeGroupsRequest,
    FetchRequest,
    FetchRequestTopic,
    FetchRequestTopicPartition,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    ListOffsetsRequest,
    ListOffsetsRequestTopic,
    ListOffsetsRequestTopicPartition,
    MetadataRequest,
    MetadataRequestTopic,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    ProduceRequest,
    ProduceRequestTopicData,
    ProduceRequestTopicDataPartitionData,
    SyncGroupRequest,
)
from offsetlog.server.node import TopicDefaults
from tests.protocol.drawn_messages import drawn

from .batches import produced_batch
from .running import Client, RunningServer

FRAMES = by_depth(gate=100_000, long=10_000_000)
#: A server gets no more of them: one of the changed frames may end the member that the front admits.
FRAMES_OF_A_SERVER = 100_000
#: The event loop does something else in between.
AT_A_TIME = 500


class Wire(asyncio.Transport):
    """The other end of a connection that is not there: it counts what is answered."""

    def __init__(self) -> None:
        super().__init__()
        self.answered = 0
        self.is_open = True

    def write(self, data: Any) -> None:
        self.answered += len(data)

    def close(self) -> None:
        self.is_open = False

    abort = close

    def is_closing(self) -> bool:
        return not self.is_open

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else default


def sensible() -> list[bytes]:
    """Requests that reach the logs and the groups."""
    now = int(time.time() * 1000)
    asked = ListOffsetsRequestTopicPartition(0, -1, 5)
    position = OffsetCommitRequestTopicPartition(0, 5, -1, committed_metadata="m")
    fetched = FetchRequestTopicPartition(0, -1, 0, partition_max_bytes=1 << 20)
    protocol = JoinGroupRequestProtocol("range", b"\0\0\0\0\0\0\0\0\0\0")
    produced = ProduceRequestTopicData(
        "orders", partition_data=(ProduceRequestTopicDataPartitionData(0, produced_batch(3, timestamp=now)),)
    )
    group = OffsetFetchRequestGroup("g", topics=(OffsetFetchRequestGroupTopic("orders", partition_indexes=(0, 1)),))
    return [
        encode_request(message, version, 7, "fuzz")[4:]
        for message, version in (
            (OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("orders", partitions=(position,)),)), 9),
            (OffsetFetchRequest(groups=(group,)), 9),
            (HeartbeatRequest("g", 1, "member"), 4),
            (JoinGroupRequest("g", 6000, 6000, "", None, "consumer", (protocol,)), 9),
            (ProduceRequest(None, -1, 1000, (produced,)), 9),
            (FetchRequest(max_bytes=1 << 20, topics=(FetchRequestTopic("orders", partitions=(fetched,)),)), 12),
            (ListOffsetsRequest(-1, 0, (ListOffsetsRequestTopic("orders", (asked,)),)), 9),
            (MetadataRequest((MetadataRequestTopic(name="orders"),), allow_auto_topic_creation=False), 12),
        )
    ]


def admitted(group: str, member_id: str, topic_id: bytes) -> list[bytes]:
    """Returns requests that the front answers, in every version: of a member of a stable group, and of nobody."""
    found = []
    for version in range(11):
        position = OffsetCommitRequestTopicPartition(0, 5, -1, committed_metadata="m")
        topic = OffsetCommitRequestTopic("orders", topic_id, (position,))
        who = (group, 1, member_id) if version >= 1 else ("free", -1, "")
        found.append((OffsetCommitRequest(*who, topics=(topic,)), version))
        asked = OffsetFetchRequestGroupTopic("orders", topic_id, (0, 1))
        if version < 8:
            fetched = OffsetFetchRequest(group, (OffsetFetchRequestTopic("orders", (0, 1)),))
        else:
            fetched = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=(asked,)),))
        found.append((fetched, version))
    found += [(HeartbeatRequest(group, 1, member_id), version) for version in range(5)]
    return [encode_request(message, version, 7, "fuzz")[4:] for message, version in found]


def stable_member(client: Client, group: str) -> str:
    """Makes the only member of a new group, whose session is longer than the test; returns its id."""
    protocol = JoinGroupRequestProtocol("range", b"r")
    join = JoinGroupRequest(group, 1_800_000, 60_000, "", None, "consumer", (protocol,))
    member_id = client.ask(join, 9).member_id
    assert client.ask(join._replace(member_id=member_id), 9).generation_id == 1
    synced = client.ask(SyncGroupRequest(group, 1, member_id, None, "consumer", "range", ()), 5)
    assert synced.error_code == 0
    return str(member_id)


def is_stable(client: Client, group: str) -> bool:
    """Whether no changed frame has ended its member, or had it rebalance."""
    (found,) = client.ask(DescribeGroupsRequest((group,)), 5).groups
    return bool(found.group_state == "Stable")


def frames(draw: random.Random, known: list[bytes]) -> Iterator[bytes]:
    """Requests of every API and version, most of them changed; for ever."""
    kinds = [
        (api.request, version)
        for api in APIS.values()
        for version in range(api.first_version, api.last_version + 1)
    ]
    while True:
        if draw.random() < 0.4:
            frame = draw.choice(known)
        else:
            kind, version = draw.choice(kinds)
            frame = encode_request(drawn(kind, version, draw), version, draw.randrange(1 << 31), "fuzz")[4:]
        yield mutated(bytearray(frame), draw)


def mutated(frame: bytearray, draw: random.Random) -> bytes:
    for _ in range(draw.choice((0, 1, 1, 2, 5))):
        if not frame:
            break
        at = draw.randrange(len(frame))
        way = draw.randrange(5)
        if way == 0:
            frame[at] ^= 1 << draw.randrange(8)
        elif way == 1:
            del frame[at:]
        elif way == 2:
            frame[at : at + 4] = draw.choice((b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\0\0\0\0", b"\x80\0\0\0"))
        elif way == 3:
            frame[at:at] = frame[at : at + draw.randrange(1, 20)]
        else:
            frame[at] = draw.randrange(256)
    return bytes(frame)


def send(running: RunningServer, some: list[bytes]) -> int:
    """Hands frames to the server, each on a connection of its own; returns how many were answered."""

    async def handed() -> int:
        answered = 0
        for frame in some:
            wire = Wire()
            connection = running.server.connect()
            connection.connection_made(wire)
            connection.data_received(len(frame).to_bytes(4, "big") + frame)
            connection.connection_lost(None)
            answered += wire.answered > 0
        return answered

    return asyncio.run_coroutine_threadsafe(handed(), running.loop).result(120)


@contextmanager
def serving(path: Path) -> Iterator[RunningServer]:
    # The names in frames are many, and a topic each would be made.
    topics = TopicDefaults(auto_create=False)
    with RunningServer(path, partitions=4, topics=topics) as running:
        with Client(running.address) as client:
            client.ask(CreateTopicsRequest((CreateTopicsRequestTopic("orders", 2, 1),), 1000), 7)
        yield running


@pytest.mark.parametrize("number", range(FRAMES // FRAMES_OF_A_SERVER))
def test_no_frame_fails_a_handler(number, tmp_path, caplog):
    seed = first_seed() + number
    print(f"seed {seed}")
    draw = random.Random(seed)
    caplog.set_level(logging.ERROR)
    with serving(tmp_path / "data") as server, Client(server.address) as client:
        metadata = client.ask(MetadataRequest((MetadataRequestTopic(name="orders"),)), 12)
        group, known, answered = "", list[bytes](), 0
        drawn_frames = frames(draw, known)
        for turn in range(FRAMES_OF_A_SERVER // AT_A_TIME):
            if not is_stable(client, group):
                group = f"stable-{turn}"
                member_id = stable_member(client, group)
                known[:] = sensible() + admitted(group, member_id, metadata.topics[0].topic_id)
            answered += send(server, list(islice(drawn_frames, AT_A_TIME)))
            assert not [each.getMessage() for each in caplog.records if each.exc_info]
        assert answered > FRAMES_OF_A_SERVER / 10
        front = server.server.node.front
        assert min(front.commits, front.fetches, front.heartbeats) > FRAMES_OF_A_SERVER / 500
        found = client.ask(MetadataRequest((MetadataRequestTopic(name="orders"),)), 12)
        assert found.topics[0].error_code == 0
