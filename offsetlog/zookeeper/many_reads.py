"""Reads many nodes at the same time; if the servers support this, one request reads several nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar, cast

from offsetlog.errors import ZooKeeperError, ZooKeeperUnavailableError
from offsetlog.zookeeper.connection import Answer, ZooKeeperConnection
from offsetlog.zookeeper.requests import Found, Read, ReadListing, ReadNames, ReadNode

K = TypeVar("K")

#: The reads under way are divided among this many requests, so that the ensemble always has a request to answer.
REQUESTS = 4
#: The largest number of reads in one request; even with the longest names, servers accept far larger requests.
TOGETHER_MAX = 64


class _Asked(NamedTuple, Generic[K]):
    """Some questions and the answer to their request; the answer is None if none of the questions needs a read."""

    questions: list[tuple[K, Read | None]]
    answer: Answer[list[Found | ZooKeeperError]] | Answer[Found] | None

    def is_there(self) -> bool:
        return self.answer is None or self.answer.done()

    def found(self) -> list[Found | ZooKeeperError]:
        if self.answer is None:
            return []
        try:
            found = self.answer.result()
        except ZooKeeperUnavailableError:
            raise
        except ZooKeeperError as failure:
            return [failure] * self._asked()  # the request as a whole
        return cast("list[Found | ZooKeeperError]", found) if self._is_many() else [cast("Found", found)]

    def _is_many(self) -> bool:
        return self._asked() > 1

    def _asked(self) -> int:
        return sum(read is not None for _, read in self.questions)


class ManyReads:
    """Reads of one connection.

    Args:
        connection: a started connection.
        in_flight: the largest number of reads that wait for answers, in each call of `answers`.

    Raises:
        ZooKeeperUnavailableError: no server answers.
    """

    def __init__(self, connection: ZooKeeperConnection, in_flight: int) -> None:
        self._connection = connection
        self._together = max(1, min(TOGETHER_MAX, in_flight // REQUESTS)) if connection.reads_many() else 1
        self._requests = max(1, in_flight // self._together)

    def answers(self, questions: Iterable[tuple[K, Read | None]]) -> Iterator[tuple[K, Found | ZooKeeperError | None]]:
        """Sends questions; yields (key, result) in the order of the questions.

        If ZooKeeper refuses to return a node, the result is the error.

        Args:
            questions: pairs of a key, which the caller chooses, and a read.  If the read is None, nothing is read, and
                the result is None.

        Raises:
            ZooKeeperUnavailableError: no server answers, so no node can be read.
        """
        waiting: deque[_Asked[K]] = deque()
        # The loop waits for several answers at once, because one wait for many answers costs less than many waits.  It
        # does not wait for all of them, so that the ensemble always has a request to answer.
        some = self._requests // 8
        for batch in self._batches(questions):
            if len(waiting) >= self._requests:
                answer = waiting[some].answer
                if answer is not None:
                    answer.wait()
                yield from self._settle(waiting.popleft())
                while waiting and waiting[0].is_there():
                    yield from self._settle(waiting.popleft())
            waiting.append(_Asked(batch, self._ask([read for _, read in batch if read is not None])))
        while waiting:
            yield from self._settle(waiting.popleft())

    def _batches(self, questions: Iterable[tuple[K, Read | None]]) -> Iterator[list[tuple[K, Read | None]]]:
        batch: list[tuple[K, Read | None]] = []
        reads = 0
        for question in questions:
            batch.append(question)
            reads += question[1] is not None
            if reads >= self._together or len(batch) > 2 * self._together:
                yield batch
                batch, reads = [], 0
        if batch:
            yield batch

    def _ask(self, reads: list[Read]) -> Answer[list[Found | ZooKeeperError]] | Answer[Found] | None:
        if len(reads) > 1:
            return self._connection.read_many_async(reads)
        connection = self._connection
        for read in reads:
            if isinstance(read, ReadNode):
                return cast("Answer[Found]", connection.get_async(read.node))
            if isinstance(read, ReadListing):
                return cast("Answer[Found]", connection.listing_async(read.node))
            assert isinstance(read, ReadNames)
            return cast("Answer[Found]", connection.children_async(read.node))
        return None

    @staticmethod
    def _settle(asked: _Asked[K]) -> Iterator[tuple[K, Found | ZooKeeperError | None]]:
        found = iter(asked.found())
        for key, read in asked.questions:
            yield key, None if read is None else next(found)
