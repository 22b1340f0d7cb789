"""The session of a manager: requests wait until a server is connected, and failed reads are repeated."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from offsetlog._native.completion import Completion
from offsetlog.errors import NoNodeError, UnknownOutcomeError, ZooKeeperError, ZooKeeperUnavailableError
from offsetlog.manager.work import Steps, Work
from offsetlog.zookeeper.connection import Answer, ConnectionSettings, ZooKeeperConnection
from offsetlog.zookeeper.operations import Operation

T = TypeVar("T")

#: The number of answers for which one piece of work waits at a time.
IN_FLIGHT = 1000

#: The seconds before a read is repeated if it failed although a server is connected.
ASK_AGAIN_SECONDS = 0.05


class Session:
    """A connection for work.  Thread-safe.

    While no server is connected, the session gives no request to the ZooKeeper client.  The client
    would keep the request and send it later, perhaps after the timeout of the caller, when another
    process may already have written.  If the connection breaks at the very moment at which the
    client gets a request, the client may keep the request, so the request counts as sent.

    Args:
        settings: the settings of the connection.
        submit: runs a call later, on a thread that does not belong to the connection.
        call_later: runs a call like `submit`, but after a number of seconds.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        submit: Callable[[Callable[[], object]], object],
        call_later: Callable[[float, Callable[[], object]], object],
    ) -> None:
        self.connection = ZooKeeperConnection(settings)
        self._submit = submit
        self._call_later = call_later
        self._lock = threading.Lock()
        #: Work that waits for a server, with the completion that makes it continue.
        self._waiting: dict[Work[Any], Completion[None]] = {}
        self.connection.add_state_listener(self._changed)

    def start(self) -> None:
        """Starts the session; see ZooKeeperConnection.start."""
        self.connection.start()

    def close(self) -> None:
        """Ends the session, and wakes the work that waits for a server.

        The caller has answered this work before, so the work ends.
        """
        self.connection.close()
        self._release()

    def _changed(self, state: str) -> None:
        # The call is made on another thread, because this thread alone sends requests and reads answers.
        if state == "connected" or self.connection.refusal is not None:
            self._submit(self._release)

    def _release(self) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for place in waiting.values():
            place.succeed(None)

    def leave(self, work: Work[Any]) -> None:
        """Removes work from the queue that waits for a server.

        The work then continues; if it has been answered, it ends.
        """
        with self._lock:
            place = self._waiting.pop(work, None)
        if place is not None:
            place.succeed(None)

    def _until_connected(self, work: Work[Any]) -> Completion[None]:
        place = self._place(work)
        # Before the work was in the queue, a server may have connected or refused the session, or the work may have
        # been answered and have left.
        if self.connection.is_connected or self.connection.refusal is not None or work.done():
            self.leave(work)
        return place

    def _place(self, work: Work[Any]) -> Completion[None]:
        place: Completion[None] = Completion()
        with self._lock:
            self._waiting[work] = place
        return place

    def _pause(self, work: Work[Any]) -> Completion[None]:
        place = self._place(work)
        self._call_later(ASK_AGAIN_SECONDS, lambda: self.leave(work))
        if work.done():
            self.leave(work)
        return place

    def connected(self, work: Work[Any]) -> Steps[None]:
        """Waits until a server is connected.  Raises ZooKeeperError if the servers refuse the credentials."""
        work.check()
        while not self.connection.is_connected:
            refusal = self.connection.refusal
            if refusal is not None:
                raise refusal
            yield [self._until_connected(work)]
            work.check()

    def read(self, work: Work[Any], ask: Callable[[], Sequence[Answer[Any]]]) -> Steps[list[Any]]:
        """Returns the answers to reads, with None for a missing node.  If the connection breaks, repeats the reads.

        If the work has called `sync`, and the read happens in a later session, the read calls `sync` again, because the
        new server may not have all writes yet.

        Raises:
            ZooKeeperError: ZooKeeper refuses the read.
        """
        while True:
            yield from self.connected(work)
            session = self.connection.session_id
            syncs = [] if work.synced_session in (None, session) else [self.connection.sync_async()]
            answers = ask()
            yield [*syncs, *answers]
            try:
                for each in syncs:
                    each.result()
                found = [_found(each) for each in answers]
            except ZooKeeperUnavailableError:
                # If no server is connected, the next pass waits for one.  If a server is connected, its answer may have
                # been unreadable, and the next read may fail, too; therefore pause first.
                if self.connection.is_connected:
                    yield [self._pause(work)]
                continue
            # Another session may have begun during the reads.  The id is 0 if the connection broke after the answers.
            if self.connection.session_id not in (session, 0):
                continue
            if syncs:
                work.synced_session = session
            return found

    def read_many(self, work: Work[Any], questions: Iterable[Callable[[], Answer[T]]]) -> Steps[list[T | None]]:
        """Returns the answers to any number of reads, in order; see `read`."""
        found: list[T | None] = []
        left = iter(questions)
        while several := list(itertools.islice(left, IN_FLIGHT)):
            found += yield from self.read(work, lambda asked=several: [ask() for ask in asked])  # type: ignore[misc]
        return found

    def sync(self, work: Work[Any]) -> Steps[None]:
        """Makes later reads of this work see every write of any client that was answered before."""
        sessions: list[int] = []

        def ask() -> list[Answer[None]]:
            sessions.append(self.connection.session_id)
            return [self.connection.sync_async()]

        work.synced_session = None
        yield from self.read(work, ask)
        work.synced_session = sessions[-1]

    def write(self, work: Work[Any], operations: Sequence[Operation]) -> Steps[None]:
        """Applies all of the writes or none.  Waits for a server before the writes are sent, but never afterwards.

        Raises:
            TooLargeError, NoNodeError, NodeExistsError, NodeVersionError, NodeNotEmptyError: no write was applied.
            UnknownOutcomeError: the connection broke, so it is unknown whether the writes were applied.
        """
        yield from self.connected(work)
        was_sent, work.is_sent, work.node = work.is_sent, True, operations[0].node
        # The flag is set before `check`, which checks who leads.  If this process resigns meanwhile, either the
        # resignation sees the flag, or `check` refuses the write.
        work.is_writing = True
        try:
            work.check()
            answer = self.connection.multi_async(operations)
            yield [answer]
            answer.result()
        except UnknownOutcomeError:
            raise
        except BaseException:
            work.is_sent = was_sent
            raise
        finally:
            work.is_writing = False


def _found(answer: Answer[T]) -> T | None:
    try:
        return answer.result()
    except NoNodeError:
        return None


def root_is_missing(connection: ZooKeeperConnection) -> ZooKeeperError:
    """Returns the error for a root that has been removed since the start created it or found it."""
    text = f"the root node of {connection.settings.hosts!r} was removed; create the node, or start the manager again"
    return ZooKeeperError(text, node="/")
