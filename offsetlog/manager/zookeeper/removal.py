"""The steps that delete positions, the positions of topics, whole groups, or positions that have expired.

A write names the version of each position that it removes, so that no concurrent commit is lost silently.  When a
group is removed or expires, the same transaction also checks that the group has no live consumer
(`/consumers/GROUP/ids` has no children).  A consumer that starts meanwhile therefore loses nothing.

One case is not detected.  If a position is removed after it was read, and then created again, the new node may have
the version that was read.  ZooKeeper compares nothing but the version.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from offsetlog.errors import (
    ClockError,
    GroupNotEmptyError,
    NodeExistsError,
    NodeNotEmptyError,
    NodeVersionError,
    NoNodeError,
    ZooKeeperError,
)
from offsetlog.manager.work import Steps, Work
from offsetlog.manager.zookeeper.reading import read_group
from offsetlog.manager.zookeeper.session import Session
from offsetlog.types import TopicPartition
from offsetlog.zookeeper.connection import NodeStat
from offsetlog.zookeeper.consumer_offsets import group_node, offset_node, offsets_node, topic_node
from offsetlog.zookeeper.operations import Create, Delete, Operation

#: The largest number of levels of nodes that a group may have.  The deepest nodes that Kafka creates are
#: `offsets/TOPIC/PARTITION`.
DEPTH_MAX = 8
#: If a node was changed more than this many milliseconds after the present time of the clock, the clock must be wrong.
CLOCK_TOLERANCE_MS = 3_600_000
#: The transaction that created a node, and the number of changes of its bytes since.
State = tuple[int, int]


def ids_node(group: str) -> str:
    """Returns the path of the node above the live consumers of a group."""
    return f"{group_node(group)}/ids"


def _unoccupied(group: str, has_ids: bool) -> list[Operation]:
    """Returns writes that change nothing, but that make their transaction fail if the group has a live consumer."""
    ids = ids_node(group)
    return [Delete(ids), Create(ids)] if has_ids else [Create(ids), Delete(ids)]


def _parts(session: Session, operations: Sequence[Operation], fixed: Sequence[Operation]) -> Iterable[list[Operation]]:
    """Yields the operations in parts.  Each part, together with the fixed operations, fits into a request."""
    limit = session.connection.settings.request_bytes_max - session.connection.request_size(fixed)
    part: list[Operation] = []
    size = 0
    for each in operations:
        needed = session.connection.request_size([each])
        if part and size + needed > limit:
            yield part
            part, size = [], 0
        part.append(each)
        size += needed
    if part:
        yield part


def state_of(stat: NodeStat) -> State:
    """Returns the part of a node's state that shows whether the node has been written to, or created again."""
    return stat.created_zxid, stat.version


# ----------------------------------------------------------------------------------------------------------- positions


def delete_positions(session: Session, work: Work[Any], group: str, keys: Sequence[TopicPartition]) -> Steps[int]:
    """Deletes positions, all or none; returns how many existed.

    Raises:
        GroupNotEmptyError: another client committed one of the positions after it was read.
        NodeNotEmptyError: the node of one of the positions has child nodes.
        Also the errors of Session.write.
    """
    nodes = [offset_node(group, key) for key in keys]
    judged: Mapping[str, State] | None = None
    while nodes:
        yield from session.sync(work)
        there = yield from _stats(session, work, nodes)
        judged = _judged(group, there, judged)
        if not there:
            break
        try:
            yield from session.write(work, [Delete(node, stat.version) for node, stat in there.items()])
        except NoNodeError:
            continue  # another client deletes positions at the same time
        except NodeVersionError as failure:
            raise _changed(group, failure.node, 0) from failure
        return len(there)
    return 0


def _stats(session: Session, work: Work[Any], nodes: Sequence[str]) -> Steps[dict[str, NodeStat]]:
    """Returns the states of those nodes that exist."""
    found = yield from session.read_many(work, [partial(session.connection.exists_async, each) for each in nodes])
    return {node: stat for node, stat in zip(nodes, found, strict=True) if stat is not None}


def _judged(
    group: str, there: Mapping[str, NodeStat], before: Mapping[str, State] | None, deleted: int = 0
) -> Mapping[str, State]:
    """Returns the state that each position must still have when it is deleted: its state at the first read.

    Raises:
        GroupNotEmptyError: in a later read, a position has another state, because another client committed it.
    """
    states = {node: state_of(stat) for node, stat in there.items()}
    if before is None:
        return states
    changed = sorted(node for node, state in states.items() if before.get(node) != state)
    if changed:
        raise _changed(group, changed[0], deleted)
    return before


def delete_topics(session: Session, work: Work[Any], group: str, topics: Iterable[str]) -> Steps[int]:
    """Deletes all positions of the topics, and the nodes above them; returns the number of positions.

    If the deletion of a topic fails, the other topics are still handled, and the first failure is raised at the end.

    Raises:
        GroupNotEmptyError: another client committed a position after it was read; the position stays.
        NodeNotEmptyError: the node of a position has child nodes.
        Also the errors of Session.write.
    """
    deleted, first = 0, None
    for topic in topics:
        try:
            deleted += yield from _delete_topic(session, work, group, topic)
        except (GroupNotEmptyError, NodeNotEmptyError) as failure:
            first = first or failure
    if first is not None:
        raise first
    return deleted


def _delete_topic(session: Session, work: Work[Any], group: str, topic: str) -> Steps[int]:
    above = topic_node(group, topic)
    judged: Mapping[str, State] = {}
    deleted = 0
    while True:
        yield from session.sync(work)
        (names,) = yield from session.read(work, lambda: [session.connection.children_async(above)])
        if names is None:
            return deleted
        there = yield from _stats(session, work, [f"{above}/{name}" for name in names])
        # Positions that are created meanwhile are deleted, too, because their topic is gone.
        judged = _judged(group, there, {node: state_of(stat) for node, stat in there.items()} | dict(judged), deleted)
        _check_empty(there)
        operations = [*(Delete(node, stat.version) for node, stat in there.items()), Delete(above)]
        try:
            for part in _parts(session, operations, []):
                yield from session.write(work, part)
                deleted += sum(each.node != above for each in part)
        except (NoNodeError, NodeNotEmptyError):
            continue  # other clients commit or delete at the same time
        except NodeVersionError as failure:
            raise _changed(group, failure.node, deleted) from failure
        return deleted


def _check_empty(positions: Mapping[str, NodeStat]) -> None:
    """Raises NodeNotEmptyError, with the path, if the node of a position has child nodes; no consumer creates these."""
    for node, stat in positions.items():
        if stat.children:
            raise NodeNotEmptyError(f"the position {node} has child nodes; remove them by hand", node=node)


# ------------------------------------------------------------------------------------------------------- a whole group


@dataclass(frozen=True, slots=True)
class Tree:
    """All nodes of a group with their states, children before parents; empty if the group does not exist.

    Attributes:
        group: the name of the group.
        nodes: the state of each node, by its path.
    """

    group: str
    nodes: Mapping[str, NodeStat]

    def positions(self) -> list[str]:
        """Returns the paths of the positions."""
        above, depth = f"{offsets_node(self.group)}/", offsets_node(self.group).count("/") + 2
        return [node for node in self.nodes if node.startswith(above) and node.count("/") == depth]

    def check_unoccupied(self) -> None:
        """Raises GroupNotEmptyError if the group has a live consumer."""
        ids = f"{ids_node(self.group)}/"
        consumers = [node for node, stat in self.nodes.items() if node.startswith(ids) or stat.ephemeral_owner]
        if consumers:
            raise _occupied(self.group, f"{consumers[0]} exists")

    def removal(self) -> list[Operation]:
        """Returns the writes that remove the group; they fail if a position has changed."""
        positions = set(self.positions())
        return [Delete(node, stat.version) if node in positions else Delete(node) for node, stat in self.nodes.items()]


def _occupied(group: str, why: str) -> GroupNotEmptyError:
    return GroupNotEmptyError(f"group {group!r} is in use: {why}; stop the group's consumers first", group=group)


def _changed(group: str, node: str | None, deleted: int) -> GroupNotEmptyError:
    so_far = f" (positions deleted so far: {deleted})" if deleted else ""
    return _occupied(group, f"{node} changed during the deletion{so_far}")


def read_tree(session: Session, work: Work[Any], group: str) -> Steps[Tree]:
    """Reads the states of all nodes of a group.

    Raises:
        ZooKeeperError: the tree of nodes is deeper than any that Kafka creates.
    """
    connection = session.connection
    yield from session.sync(work)
    levels: list[dict[str, NodeStat]] = []
    paths = [group_node(group)]
    while paths:
        if len(levels) == DEPTH_MAX:
            text = f"{paths[0]} is too deep to be a node of a group; remove this node by hand"
            raise ZooKeeperError(text, node=paths[0])
        found = yield from session.read_many(work, [partial(connection.listing_async, path) for path in paths])
        listed = [(path, each) for path, each in zip(paths, found, strict=True) if each is not None]
        levels.append({path: stat for path, (_, stat) in listed})
        paths = [f"{path}/{name}" for path, (names, _) in listed for name in names]
    return Tree(group, {path: stat for level in reversed(levels) for path, stat in level.items()})


def delete_group(
    session: Session, work: Work[Any], group: str, judged: Mapping[str, State] | None = None
) -> Steps[int]:
    """Removes a group that has no consumers; returns how many positions it had.

    If all nodes of the group fit into one request, one transaction removes them.  Otherwise, several transactions
    remove first the positions and then the other nodes.  If one of them fails, repeat the call to remove the rest.

    Args:
        session: the manager's session.
        work: the work to which these steps belong.
        group: the name of the group.
        judged: the state that each position of the group must still have when it is deleted; None
            for the states that are read first.

    Raises:
        GroupNotEmptyError: the group has a live consumer, or another client committed during the removal.
        Also the errors of Session.write.
    """
    deleted = 0
    while True:
        tree = yield from read_tree(session, work, group)
        if not tree.nodes:
            return deleted
        tree.check_unoccupied()
        positions = frozenset(tree.positions())
        # If another client has removed positions, there is a second pass; no position may have changed since the first
        # read.
        judged = _judged(group, {node: tree.nodes[node] for node in positions}, judged, deleted)
        try:
            for part in _removals(session, tree, positions):
                yield from session.write(work, part)
                deleted += sum(each.node in positions for each in part)
        except NoNodeError:
            continue  # another client removes the group, too
        except (NodeVersionError, NodeNotEmptyError, NodeExistsError) as failure:
            raise _changed(group, failure.node, deleted) from failure
        return deleted


def _removals(session: Session, tree: Tree, positions: frozenset[str]) -> list[list[Operation]]:
    """Returns the transactions that remove a group: first the positions, then all other nodes."""
    everything = tree.removal()
    if session.connection.request_size(everything) <= session.connection.settings.request_bytes_max:
        return [everything]
    guard = _unoccupied(tree.group, ids_node(tree.group) in tree.nodes)
    first = [each for each in everything if each.node in positions]
    rest = [each for each in everything if each.node not in positions]
    parts = [[*guard, *part] for part in _parts(session, first, guard)]
    return [*parts, *_parts(session, rest, [])]


# -------------------------------------------------------------------------------------------------------------- expiry


def expire_group(
    session: Session, work: Work[Any], group: str, retention_ms: int, clock: Callable[[], int]
) -> Steps[int]:
    """Deletes the expired positions of a group, if the group has no consumers; returns how many were deleted.

    A position has expired if it has not changed for longer than the retention time.  If no position is left, the nodes
    of the group are removed, too.

    Raises:
        ClockError: a position was changed more than an hour after the present time of the clock; nothing was deleted.
        NodeNotEmptyError: the node of a position has child nodes.  The other expired positions are deleted.
        Also the errors of Session.write.
    """
    while True:
        (consumers,) = yield from session.read(work, lambda: [session.connection.children_async(ids_node(group))])
        if consumers:
            return 0
        nodes, _ = yield from read_group(session, work, group)
        now = clock()
        newest = max((each.stat.modified_ms for each in nodes), default=0)
        if newest > now + CLOCK_TOLERANCE_MS:
            text = (
                f"group {group!r}: a position changed at {newest} ms, more than an hour after the present time of the "
                f"clock, {now} ms; no position expired"
            )
            raise ClockError(text, now=now, newest=newest)
        old = [each for each in nodes if now - each.stat.modified_ms > retention_ms]
        if not old:
            return 0
        try:
            if len(old) == len(nodes):
                return (yield from delete_group(session, work, group, {each.node: state_of(each.stat) for each in old}))
            guard = _unoccupied(group, consumers is not None)
            removable = [each for each in old if not each.stat.children]
            for part in _parts(session, [Delete(each.node, each.stat.version) for each in removable], guard):
                yield from session.write(work, [*guard, *part])
        except GroupNotEmptyError:
            return 0  # a consumer or a commit came: the group is in use
        except (NoNodeError, NodeVersionError, NodeExistsError, NodeNotEmptyError):
            continue
        _check_empty({each.node: each.stat for each in old})
        return len(old)
