"""Requests of many writes: their bytes are those that kazoo makes of the same, and their answers are read truly."""

from __future__ import annotations

import contextlib
import random
import struct

import pytest
from kazoo.protocol import serialization as kazoo
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

from offsetlog.zookeeper import acl as access
from offsetlog.zookeeper.acl import Acl
from offsetlog.zookeeper.nodes import Node, NodeStat
from offsetlog.zookeeper.operations import Check, Create, Delete, SetData
from offsetlog.zookeeper.requests import END, HEADER, Multi, MultiRead, ReadListing, ReadNames, ReadNode
from tests.depth import first_seed

SECRET = (Acl("digest", "kafka:qhX4ZP4=", 31), Acl("world", "anyone", 1))


def drawn(random_: random.Random, count: int) -> list:
    found = []
    for _ in range(count):
        node = "/" + "/".join(random_.choice(["a", "größe", "orders-7"]) for _ in range(random_.randrange(1, 4)))
        data = b"%d" % random_.randrange(2**63) if random_.random() < 0.8 else b""
        version = random_.choice([-1, 0, 2**31 - 1])
        operations = [
            Create(node, data, random_.random() < 0.5),
            SetData(node, data, version),
            Delete(node, version),
            Check(node, version),
        ]
        found.append(random_.choice(operations))
    return found


def theirs(operations: list, root: str, acl: list[ACL]) -> bytes:
    made = []
    for each in operations:
        path = root + each.node
        if isinstance(each, Create):
            made.append(kazoo.Create(path, each.data, acl, int(each.ephemeral)))
        elif isinstance(each, SetData):
            made.append(kazoo.SetData(path, each.data, each.version))
        elif isinstance(each, Delete):
            made.append(kazoo.Delete(path, each.version))
        else:
            made.append(kazoo.CheckVersion(path, each.version))
    return bytes(kazoo.Transaction(made).serialize())


@pytest.mark.parametrize("root", ["", "/kafka/größe"])
@pytest.mark.parametrize("acl", [access.OPEN, SECRET])
def test_the_bytes_are_those_of_kazoo(root, acl):
    seed = first_seed()
    print(f"OL_SEED={seed}")
    random_ = random.Random(seed)
    kazoos = [ACL(each.permissions, Id(each.scheme, each.identity)) for each in acl]
    assert acl is not access.OPEN or kazoos == OPEN_ACL_UNSAFE
    for _ in range(50):
        operations = drawn(random_, random_.randrange(1, 20))
        more = len(access.encoded(acl)) - len(access.encoded(access.OPEN))
        multi = Multi(root, access.encoded(acl), more)
        for each in operations:
            multi.add(each)
        assert multi.serialize() == theirs(operations, root, kazoos)
        assert multi.nodes == [each.node for each in operations]
        assert multi.size >= len(multi.serialize()) + 12
        # In parts: the same operations in the same order, each part within the bound unless it is one operation.
        most = random_.randrange(100, 2000)
        parts = list(multi.parts(most))
        assert b"".join(part.serialize().removesuffix(END) for part in parts) + END == multi.serialize()
        assert all(part.size <= most or len(part.nodes) == 1 for part in parts)
        assert [node for part in parts for node in part.nodes] == multi.nodes


def test_the_node_of_the_root_itself():
    for root, path in [("", "/"), ("/kafka", "/kafka")]:
        multi = Multi(root)
        multi.check("/", 0)
        assert multi.serialize() == bytes(kazoo.Transaction([kazoo.CheckVersion(path, 0)]).serialize())


def test_an_answer_is_either_that_all_were_made_or_errors():
    multi = Multi()
    path = b"/a"
    made = HEADER.pack(1, False, 0) + struct.pack("!i", len(path)) + path + END
    assert multi.deserialize(b"head" + made, 4) == []
    codes = [0, -101, -2]
    refused = b"".join(HEADER.pack(-1, False, code) + struct.pack("!i", code) for code in codes) + END
    assert multi.deserialize(b"head" + refused, 4) == codes
    for end in range(4, len(refused) + 3):
        with pytest.raises(struct.error):
            multi.deserialize((b"head" + refused)[:end], 4)


def test_an_answer_without_a_result_does_not_say_that_all_were_made():
    with pytest.raises(ValueError, match="no result"):
        Multi().deserialize(b"head" + END, 4)


@pytest.mark.parametrize("acl", [(Acl("auth", "", 31),), SECRET])
def test_what_a_server_keeps_of_an_acl_is_not_underestimated(acl):
    # It replaces "auth" by the name and the base 64 of a SHA-1.
    auth = [("digest", "kafka:secret")]
    kept = [Acl("digest", "kafka:" + 28 * "x", 31)] if acl[0].scheme == "auth" else list(acl)
    assert access.stored_bytes_max(acl, auth) >= len(access.encoded(kept))


# --------------------------------------------------------------------------------------------------- many reads by one

STAT = (1, 22, 3, 4444, 5, 6, 7, 8, 9, 10, 111)


def text_of(data: bytes | None) -> bytes:
    return struct.pack("!i", -1) if data is None else struct.pack("!i", len(data)) + data


def node_result(data: bytes | None) -> bytes:
    return HEADER.pack(4, False, 0) + text_of(data) + struct.pack("!qqqqiiiqiiq", *STAT)


def names_result(names: list[bytes | None]) -> bytes:
    return HEADER.pack(8, False, 0) + struct.pack("!i", len(names)) + b"".join(map(text_of, names))


def error_result(code: int) -> bytes:
    return HEADER.pack(-1, False, code) + struct.pack("!i", code)


FOUND = NodeStat(5, 4444, 1, 8, 10, 22, 111)


def test_the_request_holds_the_reads_as_kazoo_writes_them():
    reads = [ReadNode("/a"), ReadNames("/größe"), ReadListing("/")]
    single = [
        kazoo.GetData("/kafka/a", None),
        kazoo.GetChildren("/kafka/größe", None),
        kazoo.GetChildren("/kafka", None),
        kazoo.GetData("/kafka", None),
    ]
    assert MultiRead("/kafka", reads).serialize() == bytes(kazoo.Transaction(single).serialize())


def test_what_each_read_finds():
    reads = [ReadNode("/a"), ReadNode("/b"), ReadNames("/c"), ReadListing("/d"), ReadListing("/e"), ReadListing("/f")]
    listing = names_result([b"1", b"0"]) + node_result(b"")
    gone = names_result([b"0"]) + error_result(-101)
    missing = error_result(-101) + error_result(-101)
    answer = node_result(b"7") + error_result(-102) + names_result([]) + listing + gone + missing + END
    found = MultiRead("", reads).deserialize(b"head" + answer, 4)
    assert found == [Node(b"7", FOUND), -102, [], (["0", "1"], FOUND), -101, -101]
    assert MultiRead("", reads[:1]).deserialize(node_result(None) + END, 0) == [Node(None, FOUND)]


def test_answers_that_are_none_are_errors_and_no_others():
    reads = [ReadNode("/a"), ReadNames("/c"), ReadListing("/d")]
    answer = node_result(b"7") + names_result([b"x", None, b"\xc3\xa4"]) + names_result([b"1"]) + node_result(b"") + END
    request = MultiRead("", reads)
    assert request.deserialize(answer, 0)[1] == ["", "x", "ä"]
    for end in range(len(answer)):
        with pytest.raises((struct.error, ValueError)):
            request.deserialize(answer[:end], 0)
    with pytest.raises(ValueError, match="more results"):
        request.deserialize(answer[: -len(END)] + node_result(b"8") + END, 0)
    with pytest.raises(ValueError, match="a result for operation 8, not for operation 4"):
        request.deserialize(names_result([]) + END, 0)
    seed = first_seed()
    print(f"OL_SEED={seed}")
    random_ = random.Random(seed)
    for _ in range(20_000):
        changed = bytearray(answer)
        for _ in range(random_.randrange(1, 4)):
            changed[random_.randrange(len(changed))] = random_.choice([0, 1, 127, 128, 255, random_.randrange(256)])
        # Errors of kazoo's thread that it does not expect would end it.
        with contextlib.suppress(struct.error, ValueError):
            assert len(request.deserialize(bytes(changed), 0)) == len(reads)
