"""The steps of a commit.  One transaction of ZooKeeper writes all positions of the commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from offsetlog.errors import (
    NodeExistsError,
    NodeVersionError,
    NoNodeError,
    OffsetLogError,
    UnknownOutcomeError,
)
from offsetlog.manager.work import Steps, Work
from offsetlog.manager.zookeeper.session import Session, root_is_missing
from offsetlog.manager.zookeeper.writes import check_conditions, nodes_above, writes, writes_over
from offsetlog.types import TopicPartition
from offsetlog.zookeeper.connection import Node
from offsetlog.zookeeper.consumer_offsets import offset_in, offset_node


@dataclass(frozen=True, slots=True)
class Commit:
    """A checked commit.

    Attributes:
        group: the consumer group.
        offsets: the positions to commit.
        expected: for each of these keys, the offset that must be committed now.
        monotonic: whether the commit must not lower any offset.
    """

    group: str
    offsets: Mapping[TopicPartition, int]
    expected: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    monotonic: bool = False

    @property
    def conditional(self) -> tuple[TopicPartition, ...]:
        """The positions whose present offsets decide whether the conditions hold."""
        return tuple(self.offsets) if self.monotonic else tuple(self.expected)


def commit(session: Session, commit: Commit, work: Work[Any]) -> Steps[None]:
    """Commits the positions, and creates the missing nodes above them.

    If the outcome of a plain commit is unknown (UnknownOutcomeError), the commit is not sent again.  It may have been
    applied, and another client may have committed since; a second write would then undo that commit.  If the outcome
    of a conditional commit is unknown, the version of a node may show that it was not applied.  In that case, the
    conditions are checked again, and the commit is sent again.

    Raises:
        ExpectedOffsetError, RewindError: a condition does not hold.
        CorruptionError: a condition depends on a node that does not contain an offset.
        Also the errors of Session.write.
    """
    if not commit.conditional:
        try:
            yield from session.write(work, writes_over(commit.group, commit.offsets))
        except NoNodeError:
            pass
        else:
            return
    while True:
        found = yield from _look(session, commit, work)
        versions = _versions(commit, found)
        operations = writes(commit.group, commit.offsets, found, versions)
        try:
            yield from session.write(work, operations)
        except (NoNodeError, NodeExistsError, NodeVersionError):
            continue  # another client created, changed or removed a node meanwhile
        except UnknownOutcomeError as unknown:
            try:
                is_unmade = yield from _is_unmade(session, commit, work, found)
            except OffsetLogError as failure:
                # If the nodes cannot be read, it stays unknown whether the commit was made.
                raise unknown from failure
            if is_unmade:
                continue
            raise
        return


def _look(session: Session, commit: Commit, work: Work[Any]) -> Steps[dict[str, Node | None]]:
    """Returns the existing nodes by path: those of the positions, and those above them with the value None."""
    connection = session.connection
    above = ["/", *nodes_above(commit.group, commit.offsets)]
    nodes = [offset_node(commit.group, key) for key in commit.offsets]
    yield from session.sync(work)
    stats = yield from session.read_many(work, [partial(connection.exists_async, node) for node in above])
    if stats[0] is None:
        raise root_is_missing(connection)
    found = yield from session.read_many(work, [partial(connection.get_async, node) for node in nodes])
    there: dict[str, Node | None] = {node: None for node, stat in zip(above, stats, strict=True) if stat is not None}
    return there | {node: each for node, each in zip(nodes, found, strict=True) if each is not None}


def _versions(commit: Commit, found: Mapping[str, Node | None]) -> dict[TopicPartition, int]:
    """Checks the conditions; returns the versions of the nodes whose offsets were compared."""
    versions: dict[TopicPartition, int] = {}
    offsets: dict[TopicPartition, int | None] = {}
    for key in commit.conditional:
        path = offset_node(commit.group, key)
        node = found.get(path)
        offsets[key] = None if node is None else offset_in(node.data, path)
        if node is not None:
            versions[key] = node.stat.version
    check_conditions(commit.group, commit.offsets, commit.expected, commit.monotonic, offsets)
    return versions


def _is_unmade(session: Session, commit: Commit, work: Work[Any], before: Mapping[str, Node | None]) -> Steps[bool]:
    """Returns whether the nodes prove that a conditional commit, whose outcome is unknown, was not applied.

    A write changes the version of each node.  If a node still has its former version, the write has not been
    applied.  The write cannot be applied later either: it may still be on its way to an earlier server, but that
    server refuses it once another server has taken over the session.
    """
    if not commit.conditional:
        return False
    after = yield from _look(session, commit, work)
    paths = [offset_node(commit.group, key) for key in commit.conditional]
    is_unmade = any(_is_the_same(before.get(path), after.get(path)) for path in paths)
    if is_unmade:
        work.is_sent = False
    return is_unmade


def _is_the_same(old: Node | None, new: Node | None) -> bool:
    if old is None or new is None:
        return False
    return (old.stat.created_zxid, old.stat.version) == (new.stat.created_zxid, new.stat.version)
