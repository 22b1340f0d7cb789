"""Three clients ask what a seed draws of one group, of Kafka 4.3.0 and of the server: both answer the same.

Every difference but these would be found: a member that sends a join or a sync while one of its own waits
(Kafka never answers the first), a group that never had members and has lost its positions, and a protocol that has
as many votes as another (Kafka takes that of a hash map).  They are not drawn.
"""

from __future__ import annotations

import random
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from broker import copy_template
from confluent_kafka.admin import AdminClient, NewTopic
from depth import by_depth, first_seed
from server.running import Client, RunningServer
from server.topic_requests import create

from offsetlog.protocol import APIS, decode_response, encode_request
from offsetlog.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitRequestTopicPartition,
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteRequestTopicPartition,
    OffsetFetchRequest,
    OffsetFetchRequestTopic,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

SEED = first_seed(5000)
SEQUENCES = by_depth(gate=60, long=700)
PARTITIONS = 4
TOPICS = ("t1", "t2")
CLIENTS = 3
STEPS = 14
#: An answer that has not come after so many seconds waits for another request; a sequence that differs is repeated
#: with more patience, so that a machine that is busy is not taken for a difference.
PATIENCE = (0.15, 0.6, 2.0)
#: Longer than any sequence takes: nobody leaves by itself.
SESSION_MS = 300_000

MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID = 79, 25
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
RESPONSES = {api.request: api.response for api in APIS.values()}
Address = tuple[str, int]


def subscription(topics: tuple[str, ...]) -> bytes:
    named = b"".join(len(each).to_bytes(2, "big") + each.encode() for each in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + named + b"\xff\xff\xff\xff"


class Actor:
    """A client with one connection, which has one request under way at most."""

    def __init__(self, address: Address, number: int) -> None:
        self.client = Client(address)
        self.name = f"c{number}"
        self.asked: tuple[Any, int] | None = None
        self.member_id = ""
        self.generation = -1
        self.members: tuple[str, ...] = ()

    def send(self, message: Any, version: int) -> None:
        self.client.send(encode_request(message, version, 1, self.name))
        self.asked = (message, version)

    def answer(self, seconds: float) -> Any:
        """The answer of the request under way; None: it has none yet."""
        assert self.asked is not None
        message, version = self.asked
        self.client.socket.settimeout(seconds)
        try:
            frame = self.client.receive()
        except TimeoutError:
            return None
        self.asked = None
        assert frame is not None, f"{type(message).__name__} ended the connection"
        return decode_response(RESPONSES[type(message)], version, frame)[1]

    def waits_as(self, kind: type) -> str | None:
        """The member of whom a request of this kind is under way."""
        message = self.asked[0] if self.asked is not None else None
        return message.member_id if isinstance(message, kind) else None


class Sequence:
    """The requests that one seed draws, sent to one server; `log` has them in names that both servers share."""

    def __init__(self, address: Address, seed: int, patience: float) -> None:
        self.draw = random.Random(seed)
        self.group = f"random-{seed}-{patience}"
        self.patience = patience
        self.actors = [Actor(address, number) for number in range(CLIENTS)]
        self.observer = Client(address)
        self.instances = [None, self.draw.choice([None, "i1"]), self.draw.choice([None, "i2"])]
        self.names: dict[str, str] = {}
        self.had_members = False
        self.log: list[Any] = []

    def run(self) -> list[Any]:
        try:
            for step in range(STEPS):
                self.read_answers()
                free = [number for number, actor in enumerate(self.actors) if actor.asked is None]
                if not free:
                    break
                self.ask(self.draw.choice(free), step)
            self.read_answers()
            self.log.append(self.canonical(self.observer.ask(DescribeGroupsRequest((self.group,)), 5)))
            asked = (OffsetFetchRequestTopic(TOPICS[0], (0,)),)
            self.log.append(self.canonical(self.observer.ask(OffsetFetchRequest(self.group, asked), 7)))
        finally:
            for client in (self.observer, *(each.client for each in self.actors)):
                client.close()
        return self.log

    # ------------------------------------------------------------------------------------------ requests

    def ask(self, number: int, step: int) -> None:
        actor = self.actors[number]
        message, version = self.drawn(number, step)
        if any(
            isinstance(message, kind) and each.waits_as(kind) == message.member_id != ""
            for kind in (JoinGroupRequest, SyncGroupRequest)
            for each in self.actors
        ):
            return
        self.log.append((number, version, type(message).__name__, self.canonical(message)))
        actor.send(message, version)
        self.take(number, actor.answer(self.patience))

    def drawn(self, number: int, step: int) -> tuple[Any, int]:
        draw, actor = self.draw, self.actors[number]
        other = draw.choice(self.actors)
        member_id = draw.choice([actor.member_id] * 5 + [other.member_id, "", "bogus"])
        generation = draw.choice([actor.generation] * 5 + [actor.generation - 1, actor.generation + 1, -1])
        instance = draw.choice([self.instances[number]] * 5 + [None, "i9"])
        topic = draw.choice(TOPICS)
        kind = draw.random()
        if kind < 0.4:
            return self.join(member_id, instance), draw.choice([3, 5, 7, 9])
        if kind < 0.62:
            return self.sync(actor, generation, member_id, instance, step), draw.choice([3, 3, 5])
        if kind < 0.7:
            return HeartbeatRequest(self.group, generation, member_id, instance), 4
        if kind < 0.77:
            leaver = (LeaveGroupRequestMember(member_id, instance),)
            return LeaveGroupRequest(self.group, member_id, leaver), draw.choice([2, 4])
        if kind < 0.87 or not self.had_members:
            rows = (OffsetCommitRequestTopicPartition(0, step, -1, committed_metadata=""),)
            topics = (OffsetCommitRequestTopic(TOPICS[0], partitions=rows),)
            return OffsetCommitRequest(self.group, generation, member_id, instance, topics=topics), draw.choice([7, 9])
        if kind < 0.92:
            deleted = OffsetDeleteRequestTopic(topic, (OffsetDeleteRequestTopicPartition(0),))
            return OffsetDeleteRequest(self.group, (deleted,)), 0
        if kind < 0.95:
            return DeleteGroupsRequest((self.group,)), 1
        return DescribeGroupsRequest((self.group,)), 5

    def join(self, member_id: str, instance: str | None) -> JoinGroupRequest:
        names = self.draw.choice([("range",)] * 3 + [("range", "rr"), ("rr",), ()])
        topics = self.draw.choice([TOPICS[:1], TOPICS])
        offered = tuple(JoinGroupRequestProtocol(each, subscription(topics)) for each in names)
        kind = self.draw.choice(["consumer"] * 9 + ["x"])
        return JoinGroupRequest(self.group, SESSION_MS, SESSION_MS, member_id, instance, kind, offered)

    def sync(
        self, actor: Actor, generation: int, member_id: str, instance: str | None, step: int
    ) -> SyncGroupRequest:
        given = tuple(SyncGroupRequestAssignment(each, b"of step %d" % step) for each in actor.members)
        protocol = self.draw.choice(["range"] * 6 + ["rr", "zz"])
        return SyncGroupRequest(self.group, generation, member_id, instance, "consumer", protocol, given)

    # ------------------------------------------------------------------------------------------- answers

    def read_answers(self) -> None:
        for number, actor in enumerate(self.actors):
            if actor.asked is not None:
                self.take(number, actor.answer(self.patience))

    def take(self, number: int, answer: Any) -> None:
        if answer is None:
            return
        if isinstance(answer, JoinGroupResponse):
            self.joined(self.actors[number], answer)
        if isinstance(answer, DeleteGroupsResponse) and not answer.results[0].error_code:
            self.had_members = False
        self.log.append((number, type(answer).__name__, self.canonical(answer)))

    def joined(self, actor: Actor, answer: JoinGroupResponse) -> None:
        if answer.error_code in (0, MEMBER_ID_REQUIRED):
            self.names.setdefault(answer.member_id, f"member {len(self.names)}")
            actor.member_id = answer.member_id
        if answer.error_code == 0:
            self.had_members = True
            actor.generation = answer.generation_id
            actor.members = tuple(each.member_id for each in answer.members)
        elif answer.error_code == UNKNOWN_MEMBER_ID:
            actor.member_id = ""

    def canonical(self, value: Any) -> Any:
        """A message in names that do not differ between servers; lists in order, since Kafka's are of hash maps."""
        if isinstance(value, bytes):
            value = value.decode("latin-1")
        if isinstance(value, str):
            for drawn, name in self.names.items():
                value = value.replace(drawn, name)
            return UUID.sub("a UUID", value).replace(self.group, "the group")
        if hasattr(value, "_asdict"):
            left_out = ("throttle_time_ms", "topic_id")
            return {name: self.canonical(each) for name, each in value._asdict().items() if name not in left_out}
        if isinstance(value, tuple):
            return sorted(map(self.canonical, value), key=repr)
        return value


def difference(kafka: Address, ours: Address, seed: int) -> str | None:
    """Where the answers of a seed differ, however long they are waited for; None: nowhere."""
    for patience in PATIENCE:
        theirs, own = (Sequence(address, seed, patience).run() for address in (kafka, ours))
        if theirs == own:
            return None
    at = next((n for n, pair in enumerate(zip(theirs, own, strict=False)) if pair[0] != pair[1]), -1)
    before = "\n  ".join(map(str, theirs[max(0, at - 12) : at]))
    return f"OL_SEED={seed}, entry {at}:\n  {before}\n  Kafka: {theirs[at]}\n  ours:  {own[at]}"


@pytest.fixture
def kafka(kafka_template, kafka_broker, tmp_path):
    """The address of a broker."""
    log_dir = copy_template(kafka_template(PARTITIONS), tmp_path / "data")
    with kafka_broker(log_dir, group_initial_rebalance_delay_ms=0) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for made in admin.create_topics([NewTopic(each, 1, 1) for each in TOPICS]).values():
            made.result(30)
        broker.wait_until_loaded(PARTITIONS)
        host, _, port = broker.bootstrap.rpartition(":")
        yield host, int(port)


def test_kafka_and_the_server_answer_the_same(kafka, tmp_path):
    print(f"seed {SEED}")
    with RunningServer(tmp_path / "ours") as running, ThreadPoolExecutor(16) as pool:
        with Client(running.address) as client:
            for each in TOPICS:
                create(client, each)
        seeds = range(SEED, SEED + SEQUENCES)
        found = list(pool.map(lambda seed: difference(kafka, running.address, seed), seeds))
    differing = [each for each in found if each is not None]
    assert not differing, "\n\n".join([f"{len(differing)} of {SEQUENCES} differ", *differing[:5]])
