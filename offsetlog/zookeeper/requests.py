"""Requests to ZooKeeper with many operations, kept in their encoded form.

kazoo sends these requests like its own.  kazoo's own classes create an object for each operation and each result, and
they split and join the path of each node.  In a write of many nodes, this costs more than everything else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from offsetlog.zookeeper.acl import OPEN, encoded
from offsetlog.zookeeper.nodes import Node, NodeStat, path_bytes
from offsetlog.zookeeper.operations import ANY_VERSION, Check, Create, Delete, Operation, SetData

#: The numbers of operations (ZooKeeper's ZooDefs.OpCode).
OP_CREATE, OP_DELETE, OP_GET_DATA, OP_SET_DATA, OP_GET_CHILDREN, OP_CHECK, OP_MULTI = 1, 2, 4, 5, 8, 13, 14
OP_MULTI_READ = 22
OP_ERROR = -1
_EPHEMERAL = 1

_NUMBER = struct.Struct("!i")
#: The header of each operation and each result: its number, whether it marks the end, an error.
HEADER = struct.Struct("!iBi")
#: A header and the length of the path: the beginning of each operation used here.
_BEGIN = struct.Struct("!iBii")
END = HEADER.pack(-1, True, -1)

#: The bytes that an operation needs beyond its path and its data: header, lengths, version, flags, the open ACL.
OPERATION_BYTES = 64
#: The bytes that the request itself needs.
REQUEST_BYTES = 64

_OPEN_ACL = encoded(OPEN)

#: The state of a node: the transactions that created it and changed it last, the times of the two, the versions of its
#: bytes, its children and its ACL, the owner, the length, the number of children, and the transaction that changed the
#: children last.
_STAT = struct.Struct("!qqqqiiiqiiq")


class Multi:
    """A request of writes, of which all are applied or none.  Not thread-safe.

    Args:
        root: the root of the connection; "" for none.
        acl: the encoded ACL of the nodes that the request creates.
        acl_bytes_more: how many more bytes a server may need for this ACL than for the open ACL.

    Attributes:
        nodes: the node of each operation, without the root.
        size: an upper bound of the size in bytes of the request, both as it is sent and in the internal form of
            servers.
    """

    type = OP_MULTI

    def __init__(self, root: str = "", acl: bytes = _OPEN_ACL, acl_bytes_more: int = 0) -> None:
        self.nodes: list[str] = []
        self.size = REQUEST_BYTES
        self._root = root
        self._end_of_create = (acl + _NUMBER.pack(0), acl + _NUMBER.pack(_EPHEMERAL))
        self._create_bytes = OPERATION_BYTES + 1 + acl_bytes_more
        #: The bytes of each operation, and its share of the size.
        self._operations: list[bytes] = []
        self._sizes: list[int] = []

    def create(self, node: str, data: bytes = b"", *, is_ephemeral: bool = False) -> None:
        """Creates a node."""
        path = _path(self._root, node)
        head = _BEGIN.pack(OP_CREATE, False, -1, len(path))
        self._operations.append(
            b"%b%b%b%b%b" % (head, path, _NUMBER.pack(len(data)), data, self._end_of_create[is_ephemeral])
        )
        self._count(node, self._create_bytes + len(path) + len(data))

    def set_data(self, node: str, data: bytes, version: int = ANY_VERSION) -> None:
        """Replaces the bytes of a node."""
        path = _path(self._root, node)
        head = _BEGIN.pack(OP_SET_DATA, False, -1, len(path))
        self._operations.append(b"%b%b%b%b%b" % (head, path, _NUMBER.pack(len(data)), data, _NUMBER.pack(version)))
        self._count(node, OPERATION_BYTES + 1 + len(path) + len(data))

    def delete(self, node: str, version: int = ANY_VERSION) -> None:
        """Removes a node that has no children."""
        self._versioned(OP_DELETE, node, version)

    def check(self, node: str, version: int) -> None:
        """Makes the whole request fail if the node has another version."""
        self._versioned(OP_CHECK, node, version)

    def add(self, operation: Operation) -> None:
        """Adds an operation."""
        if isinstance(operation, Create):
            self.create(operation.node, operation.data, is_ephemeral=operation.ephemeral)
        elif isinstance(operation, SetData):
            self.set_data(operation.node, operation.data, operation.version)
        elif isinstance(operation, Delete):
            self.delete(operation.node, operation.version)
        else:
            assert isinstance(operation, Check)
            self.check(operation.node, operation.version)

    def parts(self, most: int) -> Iterator[Multi]:
        """Splits the writes, in their order, into requests of at most `most` bytes; each has at least one operation."""
        first, size = 0, REQUEST_BYTES
        for number, more in enumerate(self._sizes):
            if number > first and size + more > most:
                yield self._part(first, number, size)
                first, size = number, REQUEST_BYTES
            size += more
        yield self._part(first, len(self.nodes), size)

    def _part(self, first: int, end: int, size: int) -> Multi:
        part = Multi(self._root)
        part.nodes, part._operations = self.nodes[first:end], self._operations[first:end]
        part._sizes, part.size = self._sizes[first:end], size
        return part

    def _versioned(self, kind: int, node: str, version: int) -> None:
        path = _path(self._root, node)
        self._operations.append(_BEGIN.pack(kind, False, -1, len(path)) + path + _NUMBER.pack(version))
        self._count(node, OPERATION_BYTES + 1 + len(path))

    def _count(self, node: str, size: int) -> None:
        self.nodes.append(node)
        self._sizes.append(size)
        self.size += size

    # The members that kazoo uses of a request.

    def serialize(self) -> bytes:
        """Returns the bytes of the request, without its header."""
        return b"".join(self._operations) + END

    def deserialize(self, answer: bytes, offset: int) -> Sequence[int]:
        """Returns the error of each operation if one of them failed; returns an empty list if all succeeded.

        Raises:
            struct.error, ValueError: the answer is truncated, or has no result.
        """
        codes: list[int] = []
        while True:
            kind, is_end, _ = HEADER.unpack_from(answer, offset)
            if is_end and not codes:
                raise ValueError("the answer has no result for any of the writes")
            # A server answers either that all writes were applied, or with an error for each.
            if is_end or kind != OP_ERROR:
                return codes
            offset += HEADER.size
            codes.append(_NUMBER.unpack_from(answer, offset)[0])
            offset += _NUMBER.size

    def __repr__(self) -> str:
        return f"Multi({len(self.nodes)} operations from {self.nodes[:1]})"


def _path(root: str, node: str) -> bytes:
    return path_bytes(root + node if node != "/" else root or node)


class ReadNode(NamedTuple):
    """Reads the bytes and the state of a node; the result is a `Node`."""

    node: str


class ReadNames(NamedTuple):
    """Reads the names below a node; the result is sorted."""

    node: str


class ReadListing(NamedTuple):
    """Reads the sorted names below a node, and then the state of the node, which shows later changes of the names."""

    node: str


Read = ReadNode | ReadNames | ReadListing
Found = Node | list[str] | tuple[list[str], NodeStat]

_KINDS: dict[type[Read], tuple[int, ...]] = {
    ReadNode: (OP_GET_DATA,),
    ReadNames: (OP_GET_CHILDREN,),
    ReadListing: (OP_GET_CHILDREN, OP_GET_DATA),
}


class MultiRead:
    """A request of several reads.  The answer has the result or the error of each read.

    Args:
        root: the root of the connection; "" for none.
        reads: the reads, at least one.

    Raises:
        InvalidArgumentError: the path of a read is not UTF-8.
    """

    type = OP_MULTI_READ

    def __init__(self, root: str, reads: Sequence[Read]) -> None:
        self._reads = reads
        self._pieces: list[bytes] = []
        for each in reads:
            path = _path(root, each.node)
            for kind in _KINDS[type(each)]:
                self._pieces += (_BEGIN.pack(kind, False, -1, len(path)), path, b"\0")
        self._pieces.append(END)

    # The members that kazoo uses of a request.

    def serialize(self) -> bytes:
        """Returns the bytes of the request, without its header."""
        return b"".join(self._pieces)

    def deserialize(self, answer: bytes, offset: int) -> list[Found | int]:
        """Returns the result of each read, or the number of its error if it failed.

        Raises:
            struct.error, ValueError: the answer does not fit these reads.
        """
        found: list[Found | int] = []
        for each in self._reads:
            if isinstance(each, ReadNode):
                node, offset = _node_in(answer, offset)
                found.append(node)
                continue
            names, offset = _names_in(answer, offset)
            if isinstance(each, ReadNames) or isinstance(names, int):
                found.append(names)
            if isinstance(each, ReadListing):
                node, offset = _node_in(answer, offset)
                # If the node is removed between the two parts, only this read fails.
                if not isinstance(names, int):
                    found.append(node if isinstance(node, int) else (names, node.stat))
        if HEADER.unpack_from(answer, offset) != HEADER.unpack(END):
            raise ValueError("the answer has more results than the request asked for")
        return found

    def __repr__(self) -> str:
        return f"MultiRead({len(self._reads)} reads from {self._reads[0].node})"


def _begin(kind: int, answer: bytes, offset: int) -> tuple[int | None, int]:
    """Returns the error of a result (None if it has none), and the offset at which the rest of it begins."""
    found, is_end, _ = HEADER.unpack_from(answer, offset)
    offset += HEADER.size
    if is_end or found not in (kind, OP_ERROR):
        raise ValueError(f"the answer has a result for operation {found}, not for operation {kind}")
    if found == OP_ERROR:
        return _NUMBER.unpack_from(answer, offset)[0], offset + _NUMBER.size
    return None, offset


def _node_in(answer: bytes, offset: int) -> tuple[Node | int, int]:
    error, offset = _begin(OP_GET_DATA, answer, offset)
    if error is not None:
        return error, offset
    data, offset = _bytes_in(answer, offset)
    made, changed, _, modified_ms, version, _, _, owner, _, children, below = _STAT.unpack_from(answer, offset)
    return Node(data, NodeStat(version, modified_ms, made, owner, children, changed, below)), offset + _STAT.size


def _names_in(answer: bytes, offset: int) -> tuple[list[str] | int, int]:
    error, offset = _begin(OP_GET_CHILDREN, answer, offset)
    if error is not None:
        return error, offset
    (count,) = _NUMBER.unpack_from(answer, offset)
    offset += _NUMBER.size
    names: list[str] = []
    for _ in range(count):
        name, offset = _bytes_in(answer, offset)
        names.append((name or b"").decode())
    names.sort()
    return names, offset


def _bytes_in(answer: bytes, offset: int) -> tuple[bytes | None, int]:
    (length,) = _NUMBER.unpack_from(answer, offset)
    offset += _NUMBER.size
    if length < 0:
        return None, offset
    end = offset + length
    if end > len(answer):
        raise ValueError(f"the answer ends inside a field of {length} bytes")
    return answer[offset:end], end
