"""Clients: they call whoever says that it leads, and remember what each call may have done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from offsetlog.errors import (
    CommitTimeoutError,
    ConditionError,
    GenerationError,
    GroupNotEmptyError,
    NotCoordinatorError,
    OffsetLogError,
)
from offsetlog.types import OffsetAndMetadata, TopicPartition
from tests.simulation import operations
from tests.simulation.batches import Position
from tests.simulation.checker import Violation, look
from tests.simulation.node import PARTITION, RETENTION_MS, Node
from tests.simulation.operations import GroupState, Operation

KEYS = tuple(TopicPartition("t", number) for number in range(3))
#: Keys of commits that take several batches.
WIDE = tuple(TopicPartition("wide", number) for number in range(40))
WIDE_METADATA = "." * 200
GONE = TopicPartition("gone", 0)
BUSY = ("red", "green", "blue")
#: A group that commits so rarely that its positions expire in between.
RARE = "grey"
GROUPS = (*BUSY, RARE)
#: Seconds after which a call is answered in any case.
PATIENCE = 2.0
#: Refusals of which each says that nothing was written.
REFUSALS = (ConditionError, GenerationError, GroupNotEmptyError)

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndMetadata]


class Clients:
    """Draws calls, and hands what they did to the checker."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self._random = world.scheduler.random
        self.operations = 0
        self.acknowledged = 0
        self.values = 0
        #: Violations that callbacks have found.
        self.violations: list[Violation] = []
        #: By group the newest generation that anybody has heard of.
        self._generations: dict[str, int] = {}
        self._kinds: list[tuple[Callable[[Node, str], None], float]] = [
            (self._expire, 3),
            (self._fetch, 30),
            (self._commit, 36),
            (self._commit_conditional, 16),
            (self._commit_to_disk, 3),
            (self._commit_wide, 2),
            (self._commit_gone, 1),
            (self._delete, 5),
            (self._delete_group, 1.5),
            (self._delete_topic, 1),
            (self._fence, 2),
        ]

    def call(self) -> None:
        """Makes one call."""
        self.operations += 1
        # Clients believe any node that says that it leads.
        up = [node for node in self._world.nodes if node.manager is not None]
        leaders = [node for node in up if node.role == "leader"]
        if not up:
            return
        calls, weights = zip(*self._kinds, strict=True)
        call = self._random.choices(calls, weights)[0]
        anybody = self._random.random() < 0.1 or call == self._expire
        node = self._random.choice(up if anybody else leaders or up)
        group = RARE if self._random.random() < 0.08 else self._random.choice(BUSY)
        node.show_time()
        try:
            call(node, group)
        except OffsetLogError as failure:
            self._world.coverage[type(failure).__name__, node.role] += 1

    # -------------------------------------------------------------------------------------- fetches

    def _fetch(self, node: Node, group: str) -> None:
        keys = None if self._random.random() < 0.3 else KEYS
        self.fetch(node, group, keys)

    def fetch(self, node: Node, group: str, keys: tuple[TopicPartition, ...] | None) -> None:
        """Fetches, and checks what is found."""
        assert node.manager is not None
        look(self._world.checker, node)
        found = node.manager.fetch(group, keys)
        leader = self._world.controller.state.leader
        if leader != node.number:
            raise Violation(f"node {node.number} answered a fetch, though {leader} is elected")
        shown = [f"{key.topic}{key.partition}={at.offset}" for key, at in sorted(found.items())]
        self._note(node, f"fetch {group}: {' '.join(shown[:4])}")
        self._world.checker.fetched(group, self._world.scheduler.steps, found, keys)

    # -------------------------------------------------------------------------------------- commits

    def _commit(self, node: Node, group: str) -> None:
        keys = KEYS if self._random.random() < 0.7 else (self._random.choice(KEYS),)
        self._write_commit(node, group, self._offsets(keys))

    def _offsets(self, keys: tuple[TopicPartition, ...], metadata: str = "") -> Offsets:
        self.values += 1
        epoch = self._random.choice((-1, -1, 0, 7))
        value = OffsetAndMetadata(self.values, metadata or f"m{self.values}", epoch)
        return dict.fromkeys(keys, value)

    def _commit_conditional(self, node: Node, group: str) -> None:
        assert node.manager is not None
        offsets = dict(self._offsets(KEYS))
        conditions: dict[str, Any] = {}
        kind = self._random.random()
        if kind < 0.5:
            known = node.manager.fetch(group, KEYS)
            conditions["expected"] = {
                key: None if known[key].offset < 0 else known[key].offset for key in KEYS
            }
        elif kind < 0.75:
            # Some would go back.
            back = OffsetAndMetadata(max(0, self.values - self._random.choice((0, 4, 40))))
            offsets[self._random.choice(KEYS)] = back
            conditions["monotonic"] = True
        else:
            newest = self._generations.get(group, 1)
            conditions["generation"] = newest - self._random.choice((0, 0, 1)) * (newest > 0)
        self._write_commit(node, group, offsets, **conditions)

    def _commit_wide(self, node: Node, group: str) -> None:
        self._write_commit(node, group, self._offsets(WIDE, WIDE_METADATA))

    def _commit_gone(self, node: Node, group: str) -> None:
        self._write_commit(node, group, self._offsets((GONE,)))

    def _write_commit(
        self,
        node: Node,
        group: str,
        offsets: Offsets,
        *,
        expected: Mapping[TopicPartition, int | None] | None = None,
        monotonic: bool = False,
        generation: int | None = None,
    ) -> None:
        assert node.manager is not None
        operation = self._operation(
            f"commit of {self.values}{' on a condition' if expected or monotonic else ''}",
            group,
            effect=operations.sets(offsets),
            condition=operations.holds(offsets, expected, monotonic, generation),
        )
        commit = partial(
            node.manager.commit_async,
            group,
            offsets,
            expected=expected,
            monotonic=monotonic,
            generation=generation,
            timeout=PATIENCE,
        )
        self._await(node, operation, self._write(node, operation, commit))

    def _commit_to_disk(self, node: Node, group: str) -> None:
        assert node.manager is not None
        offsets = self._offsets(KEYS)
        operation = self._operation("commit to disk", group, effect=operations.sets(offsets))
        commit = partial(
            node.manager.commit_async, group, offsets, timeout=PATIENCE, durability="disk"
        )
        pending = self._write(node, operation, commit)
        self._when_answered(pending, partial(self._is_on_disk, node, operation))

    def _is_on_disk(self, node: Node, operation: Operation, pending: Any) -> None:
        # It may be cut still, where no other replica has it; a crash of this one keeps it.
        if self._is_answered(node, pending):
            assert node.manager is not None
            flushed = node.manager.positions(PARTITION).flushed
            if flushed < operation.end:
                raise Violation(f"{operation} was said to be on disk, of which {flushed} is")

    # --------------------------------------------------------------------------------- other writes

    def _delete(self, node: Node, group: str) -> None:
        assert node.manager is not None
        keys = KEYS if self._random.random() < 0.5 else (self._random.choice(KEYS), GONE)
        operation = self._operation(
            "delete",
            group,
            effect=operations.removes(keys),
            answers=lambda before: sum(key in before.positions for key in keys),
        )
        delete = partial(node.manager.delete_async, group, keys, timeout=PATIENCE)
        pending = self._write(node, operation, delete)
        self._await(node, operation, pending, nothing=operations.lacks(keys))

    def _delete_group(self, node: Node, group: str) -> None:
        assert node.manager is not None
        operation = self._operation("delete of all", group, effect=operations.removes_all)
        # It returns how many records it wrote.
        operation.answers = lambda _: operation.end - operation.start
        delete = partial(node.manager.delete_group_async, group, timeout=PATIENCE)
        pending = self._write(node, operation, delete)
        self._await(node, operation, pending, nothing=lambda state: state == GroupState())

    def _fence(self, node: Node, group: str) -> None:
        assert node.manager is not None
        offsets = self._offsets(KEYS[:1]) if self._random.random() < 0.5 else {}
        operation = self._operation(
            "fence",
            group,
            effect=operations.fences(offsets),
            answers=lambda before: (before.generation or 0) + 1,
        )
        fence = partial(node.manager.fence_async, group, offsets, timeout=PATIENCE)
        pending = self._write(node, operation, fence)
        self._generations[group] = self._generations.get(group, 0) + 1
        self._await(node, operation, pending)

    def _delete_topic(self, node: Node, group: str) -> None:
        assert node.manager is not None

        def admits(key: TopicPartition | None, known: Position | None) -> bool:
            return key is not None and key.topic == GONE.topic

        settled, was_active = node.manager.positions(PARTITION).applied, node.is_active
        operation = self._operation(
            "delete of a topic", "", admits=admits, clears=GONE, settled=settled
        )
        deleted = self._write(node, operation, partial(node.manager.on_topic_deleted, [GONE.topic]))
        if deleted == 0 and was_active and node.is_active:
            for each in GROUPS:
                nothing = self._operation("delete of a topic", each)
                text = f"{nothing} found nothing"
                self._show(node, nothing, text, operations.lacks((GONE,)))

    def _expire(self, node: Node, group: str) -> None:
        # Any group may go, and a follower does nothing.
        assert node.manager is not None
        now = node.clock.milliseconds

        def admits(key: TopicPartition | None, known: Position | None) -> bool:
            return key is None or known is None or known.committed_at + RETENTION_MS <= now

        operation = self._operation("expiry", "", admits=admits)
        self._write(node, operation, node.manager.expire)
        self._note(node, f"expiry wrote {max(0, operation.end - operation.start)} records")
        self._world.coverage["expiry", node.role] += 1

    # -------------------------------------------------------------------------------------- writing

    def _operation(self, name: str, group: str, **fields: Any) -> Operation:
        return Operation(name=name, group=group, invoked=self._world.scheduler.steps, **fields)

    def _write(self, node: Node, operation: Operation, call: Callable[[], Any]) -> Any:
        """Makes a call, records what it wrote, and returns what it returns."""
        assert node.manager is not None
        start = node.manager.positions(PARTITION).log_end
        result, failure = None, None
        try:
            result = call()
        except CommitTimeoutError:
            pass        # it is written, and not in all replicas yet
        except OffsetLogError as raised:
            failure = raised
        end = node.manager.positions(PARTITION).log_end
        if end > start:
            if isinstance(failure, REFUSALS):
                raise Violation(f"{operation}: {start} to {end} written, and {failure}")
            operation.failed = failure is not None
            self._world.checker.wrote(operation, node, start, end)
            self._note(node, f"{operation} is written")
        if failure is not None:
            self._is_refused(node, operation, failure)
            raise failure
        return result

    def _await(
        self,
        node: Node,
        operation: Operation,
        pending: Any,
        *,
        nothing: Callable[[GroupState], bool] | None = None,
    ) -> None:
        """Looks at the answer when it comes; `nothing`: what holds where nothing was written."""
        position = pending.position.log_offset
        if position != max(operation.end, 0) - 1:
            raise Violation(f"{operation} was said to stand at {position}")
        if operation.start >= 0:
            self._when_answered(pending, partial(self._answered, node, operation))
        else:
            self._when_answered(pending, partial(self._wrote_nothing, node, operation, nothing))

    def _when_answered(self, pending: Any, look_at: Callable[[Any], None]) -> None:
        # A callback that raises stops nobody: the run stops with the next step.
        def call_back(answered: Any) -> None:
            try:
                look_at(answered)
            except Violation as violation:
                self.violations.append(violation)

        pending.add_done_callback(call_back)

    def _answered(self, node: Node, operation: Operation, pending: Any) -> None:
        if self._is_answered(node, pending):
            self._note(node, f"{operation} is acknowledged")
            self.acknowledged += 1
            step = self._world.scheduler.steps
            self._world.checker.acknowledged(operation, node, step, pending.result(0))

    def _wrote_nothing(
        self,
        node: Node,
        operation: Operation,
        nothing: Callable[[GroupState], bool] | None,
        pending: Any,
    ) -> None:
        try:
            answer = pending.result(0)
        except OffsetLogError as failure:
            self._world.coverage[type(failure).__name__, node.role] += 1
            self._is_refused(node, operation, failure)
            return
        if nothing is None or answer != 0:
            raise Violation(f"{operation} wrote nothing, was not refused, and returned {answer}")
        self._show(node, operation, f"{operation} found nothing", nothing)

    def _is_refused(self, node: Node, operation: Operation, failure: OffsetLogError) -> None:
        may_write = operation.condition
        if isinstance(failure, ConditionError | GenerationError) and may_write is not None:
            text = f"{operation} was refused: {failure}"
            self._show(node, operation, text, lambda state: not may_write(state))

    def _show(
        self, node: Node, operation: Operation, text: str, condition: Callable[[GroupState], bool]
    ) -> None:
        self._note(node, text)
        look(self._world.checker, node)
        self._world.checker.showed(operation, text, self._world.scheduler.steps, condition)

    def _is_answered(self, node: Node, pending: Any) -> bool:
        try:
            pending.result(0)
        except OffsetLogError as failure:
            self._world.coverage[type(failure).__name__, node.role] += 1
            return False
        return True

    def _note(self, node: Node, text: str) -> None:
        self._world.scheduler.note(f"node {node.number}: {text}")


def fetch_at_last(clients: Clients, node: Node, step: Callable[[], object]) -> None:
    """Fetches all groups from the last leader, whose lease may have to be renewed first."""
    for group in GROUPS:
        for _ in range(10_000):
            try:
                clients.fetch(node, group, None)
            except NotCoordinatorError:
                step()
                continue
            break
        else:
            raise Violation(f"group {group} cannot be fetched when all is well")
