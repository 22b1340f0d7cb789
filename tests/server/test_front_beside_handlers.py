"""The native front beside the handlers, which know every rule: same history, same answers, same state after it."""

from __future__ import annotations

import itertools
import random
import shutil
import threading
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from depth import by_depth, first_seed

import offsetlog
from offsetlog._native.clocks import ManualClock
from offsetlog.protocol import decode_response, encode_request
from offsetlog.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    JoinGroupResponse,
    ListGroupsResponse,
    MetadataRequest,
    SyncGroupRequest,
)
from offsetlog.server.node import TopicDefaults

from .front_history import TOPICS, History, Identity, join
from .running import Client, RunningServer

SEEDS = by_depth(gate=2, long=60)
STEPS = by_depth(gate=700, long=3000)
NOW = 1_700_000_000_000

LIST_GROUPS = 16


def start(path: Path, durability: str, *, is_off: bool) -> RunningServer:
    running = RunningServer(
        path,
        durability,
        4,
        clock=ManualClock(NOW),
        topics=TopicDefaults(auto_create=False),
        advertised_host="localhost",
        advertised_port=9,
    )
    running.server.node.front.is_off = is_off
    # Or one of two would still be loading where the other one answers.
    running._run(running.server._groups.settle())
    return running


def _ordered(frame: bytes, answer: bytes) -> object:
    # ListGroups names groups in any order: log partitions are loaded side by side.
    if int.from_bytes(frame[4:6], "big") != LIST_GROUPS:
        return answer
    listed = decode_response(ListGroupsResponse, int.from_bytes(frame[6:8], "big"), answer)[1]
    return listed._replace(groups=sorted(listed.groups))


class Pair:
    """A server whose front answers, and one whose front declines everything."""

    def __init__(self, path: Path, durability: str, *, is_swapped: bool = False) -> None:
        self.servers = [start(path / "front", durability, is_off=is_swapped)]
        self.servers.append(start(path / "handlers", durability, is_off=not is_swapped))
        self.clients = [Client(each.address) for each in self.servers]

    @property
    def front(self):
        return self.servers[0].server.node.front

    def ask(self, frames: list[bytes], *, together: bool = False) -> list[bytes]:
        """Sends frames to both, in one write or one after the other; returns their answers, which are equal."""
        answers = [self._ask(client, frames, together=together) for client in self.clients]
        for frame, ours, others in zip(frames, *answers, strict=True):
            assert ours is not None
            assert _ordered(frame, ours) == _ordered(frame, others), (
                f"{frame.hex()}: {ours.hex()}, a handler answers {others.hex()}"
            )
            assert ours[:4] == frame[8:12]
        return answers[0]

    @staticmethod
    def _ask(client: Client, frames: list[bytes], *, together: bool) -> list[bytes | None]:
        if together:
            client.send(b"".join(frames))
            return [client.receive() for _ in frames]
        found = []
        for frame in frames:
            client.send(frame)
            found.append(client.receive())
        return found

    def stop(self) -> None:
        while self.clients:
            self.clients.pop().close()
        while self.servers:
            self.servers.pop().stop()


@pytest.fixture(params=["process", "disk"])
def pair(request, tmp_path, monkeypatch):
    # Each server draws the same ids, on its own thread.
    numbers: defaultdict[threading.Thread, Iterator[int]] = defaultdict(itertools.count)

    def drawn() -> uuid.UUID:
        return uuid.UUID(int=next(numbers[threading.current_thread()]))

    monkeypatch.setattr("offsetlog.server.group_host.uuid.uuid4", drawn)
    with start(tmp_path / "front", "process", is_off=False) as made, Client(made.address) as client:
        topics = tuple(CreateTopicsRequestTopic(name, count, 1) for name, count in TOPICS.items())
        client.ask(CreateTopicsRequest(topics, 1000), 7)
    shutil.copytree(tmp_path / "front", tmp_path / "handlers")
    running = Pair(tmp_path, request.param)
    yield running
    running.stop()


def member(pair: Pair, group: str, instance: str | None = None, member_id: str = "") -> Identity:
    """Joins and syncs as the only member."""

    def joined(member_id: str) -> tuple[int, JoinGroupResponse]:
        (frame,) = pair.ask([encode_request(join(group, member_id, instance), 9, 1, "c")])
        return decode_response(JoinGroupResponse, 9, frame)[1]

    answer = joined(member_id)
    if answer.error_code == 79:
        answer = joined(answer.member_id)
    assert answer.error_code == 0
    synced = SyncGroupRequest(group, answer.generation_id, answer.member_id, instance, "consumer", "range", ())
    pair.ask([encode_request(synced, 5, 1, "c")])
    return Identity(group, answer.generation_id, answer.member_id, instance)


def members(pair: Pair) -> list[Identity]:
    """Members of stable groups, one whose generation is over, one that is fenced; and clients without a group."""
    first = member(pair, "stable")
    again = member(pair, "stable", member_id=first.member_id)
    fenced = member(pair, "static", "i")
    nobody = [Identity("alone"), Identity("other"), Identity("")]
    return [again, again, member(pair, "static", "i"), first, fenced, *nobody]


def topic_ids(pair: Pair) -> dict[str, bytes]:
    with Client(pair.servers[0].address) as client:
        return {each.name: each.topic_id for each in client.ask(MetadataRequest(None), 12).topics}


@pytest.mark.parametrize("number", range(SEEDS))
def test_the_front_answers_as_the_handlers_do(pair, tmp_path, number):
    seed = first_seed(number)
    print(f"seed {seed}")
    draw = random.Random(seed)
    ids = topic_ids(pair)
    history = History(draw, members(pair), ids)
    steps = 0
    while steps < STEPS:
        frames = [history.frame() for _ in range(draw.choice((1, 2, 10, 60)))]
        pair.ask(frames, together=draw.random() < 0.7)
        steps += len(frames)
    assert min(pair.front.commits, pair.front.fetches, pair.front.heartbeats) > STEPS / 20
    others = pair.servers[1].server.node.front
    assert others.commits + others.fetches + others.heartbeats == 0
    pair.ask(history.everything())
    pair.stop()

    digests = []
    for name in ("front", "handlers"):
        with offsetlog.open(tmp_path / name, read_only=True) as store:
            digests.append(store.digest())
    assert digests[0] == digests[1]
    # Handlers read the front's records, and the other way round.
    again = Pair(tmp_path, "process", is_swapped=True)
    pair.clients, pair.servers = again.clients, again.servers
    pair.ask(history.everything())
    pair.ask([history.frame() for _ in range(100)], together=True)
