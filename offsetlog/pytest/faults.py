"""The faults that a test can cause.  A fault is a situation that a real broker does not produce on demand."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from offsetlog.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    ErrorCode,
)
from offsetlog.errors import InvalidArgumentError
from offsetlog.protocol import APIS
from offsetlog.pytest.requests import REFUSED, checked_api, checked_code, groups_of, refuse
from offsetlog.pytest.virtual_clock import VirtualClock
from offsetlog.server.exchange import Exchange
from offsetlog.server.faults import Handler
from offsetlog.server.node import NodeState

_log = logging.getLogger(__name__)

#: The APIs that only the coordinator of a group answers.
OF_COORDINATOR = frozenset(
    (
        "DeleteGroups",
        "DescribeGroups",
        "Heartbeat",
        "JoinGroup",
        "LeaveGroup",
        "OffsetCommit",
        "OffsetDelete",
        "OffsetFetch",
        "SyncGroup",
    )
)


@dataclass(frozen=True, slots=True)
class _Target:
    # The requests that a fault affects; None for all.
    apis: frozenset[int] | None
    group: str | None
    client_id: str | None

    def fits(self, exchange: Exchange) -> bool:
        request = exchange.request
        if self.apis is not None and request.api_key not in self.apis:
            return False
        if self.client_id is not None and request.client_id != self.client_id:
            return False
        return self.group is None or self.group in groups_of(exchange)


class Fault:
    """A fault is in force from the call that creates it until it is used up or released.

    If a fault is used as a context manager, it is released at the end of the block.  Any thread may use it.

    Attributes:
        description: a text that describes the effect of the fault.
    """

    def __init__(
        self,
        description: str,
        target: _Target,
        times: int | None,
        replace: Callable[[Handler], Handler],
    ) -> None:
        if times is not None and times < 1:
            raise InvalidArgumentError(f"times must be at least 1, not {times}")
        self.description = description
        self._target = target
        self._left = times
        self._replace = replace
        self._changed = threading.Condition()
        self._hits = 0
        self._is_released = False

    @property
    def hits(self) -> int:
        """The number of requests that the fault has affected."""
        return self._hits

    @property
    def is_active(self) -> bool:
        """Whether the fault will affect the next matching request."""
        return not self._is_released and self._left != 0

    def wait(self, hits: int = 1, timeout: float = 10.0) -> None:
        """Waits until the fault has affected `hits` requests.

        Args:
            hits: the number of requests, counted from the creation of the fault.
            timeout: the longest wait, in seconds.

        Raises:
            TimeoutError: the fault affected fewer requests within that time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._hits >= hits, timeout):
                raise TimeoutError(
                    f"{self!r}: fewer than {hits} matching requests came within {timeout} s; does the client send any?"
                )

    def release(self) -> None:
        """Ends the fault, and logs how many requests it affected."""
        with self._changed:
            if self._is_released:
                return
            self._is_released = True
        if self._hits:
            _log.info("released: %r", self)
        else:
            _log.warning("released a fault that affected no request: %r", self)

    def take(self, handler: Handler, exchange: Exchange) -> Handler | None:
        """Returns the handler that replaces `handler` for this request; None if the fault does not affect it."""
        with self._changed:
            if not self.is_active or not self._target.fits(exchange):
                return None
            self._hits += 1
            if self._left is not None:
                self._left -= 1
            self._changed.notify_all()
        return self._replace(handler)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"<Fault: {self.description}; hits: {self._hits}>"


class FaultMenu:
    """The faults of one server.  Any thread may use this object.

    A fault is in force from the call that creates it.  If several faults match a request, the one that was created
    first applies.  `group`, `client_id` and `api` limit a fault to matching requests; None matches all requests.  `api`
    is the name of an API in Kafka's protocol, such as "OffsetCommit".

    Args:
        clock: the clock by which slow requests are delayed.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._faults: tuple[Fault, ...] = ()

    # -------------------------------------------------------------------------------------- the faults

    def loading(self, group: str, *, times: int | None = None) -> Fault:
        """Requests to the group's coordinator get COORDINATOR_LOAD_IN_PROGRESS (14), as if it were loading.

        Heartbeats succeed.

        Args:
            group: the group's id.
            times: the number of requests to affect; None to affect all requests until the fault is released.
        """
        code = COORDINATOR_LOAD_IN_PROGRESS.code

        def replace(handler: Handler) -> Handler:
            def load(node: NodeState, exchange: Exchange) -> None:
                is_heartbeat = APIS[exchange.request.api_key].name == "Heartbeat"
                refuse(exchange, 0 if is_heartbeat else code)

            return load

        return self._add(
            f"the coordinator of {group!r} is loading", OF_COORDINATOR, group, None, times, replace
        )

    def coordinator_moved(
        self, group: str, *, find_coordinator: bool = False, times: int | None = None
    ) -> Fault:
        """All requests to the group's coordinator get NOT_COORDINATOR (16), as if another node coordinated the group.

        Args:
            group: the group's id.
            find_coordinator: whether FindCoordinator also fails, with COORDINATOR_NOT_AVAILABLE (15).  If it does not
                fail, the client finds this server again.
            times: the number of requests to affect; None to affect all requests until the fault is released.
        """

        def replace(handler: Handler) -> Handler:
            def refuse_all(node: NodeState, exchange: Exchange) -> None:
                is_search = APIS[exchange.request.api_key].name == "FindCoordinator"
                error = COORDINATOR_NOT_AVAILABLE if is_search else NOT_COORDINATOR
                refuse(exchange, error.code)

            return refuse_all

        apis = OF_COORDINATOR | {"FindCoordinator"} if find_coordinator else OF_COORDINATOR
        return self._add(
            f"the coordinator of {group!r} has moved", apis, group, None, times, replace
        )

    def error(
        self,
        code: int | str | ErrorCode,
        api: str = "OffsetCommit",
        *,
        group: str | None = None,
        client_id: str | None = None,
        times: int | None = 1,
    ) -> Fault:
        """A request fails with an error and has no effect.

        Args:
            code: the error's number, or its name in Kafka's protocol, such as "ILLEGAL_GENERATION".
            api: the API of the request.
            group: the group that the request is about; None for any.
            client_id: the id of the client that sends the request; None for any.
            times: the number of requests to affect; None to affect all requests until the fault is released.

        Raises:
            InvalidArgumentError: the error or the API does not exist, or the API cannot be answered
                with an error.
        """
        checked_api(api)
        if api not in REFUSED:
            known = ", ".join(sorted(REFUSED))
            raise InvalidArgumentError(
                f"api={api!r} cannot be answered with an error; name one of {known}"
            )
        number = checked_code(code)

        def replace(handler: Handler) -> Handler:
            return lambda node, exchange: refuse(exchange, number)

        target = f" of group {group!r}" if group is not None else ""
        description = f"error {number} for {api}{target}"
        return self._add(description, frozenset([api]), group, client_id, times, replace)

    def slow(
        self,
        seconds: float,
        api: str | None = None,
        *,
        group: str | None = None,
        client_id: str | None = None,
        times: int | None = None,
    ) -> Fault:
        """A request is handled late, even if its client no longer waits for the answer by then.

        Later requests on the same connection wait too, because a broker handles the requests of a connection in order.

        Args:
            seconds: the delay by the server's clock, which `advance` moves.
            api: the API of the request; None for any.
            group: the group that the request is about; None for any.
            client_id: the id of the client that sends the request; None for any.
            times: the number of requests to affect; None to affect all requests until the fault is released.

        Raises:
            InvalidArgumentError: the API does not exist, or the delay is not above 0.
        """
        if not seconds > 0:
            raise InvalidArgumentError(
                f"seconds must be above 0, not {seconds}"
            )

        def replace(handler: Handler) -> Handler:
            def handle_later(node: NodeState, exchange: Exchange) -> None:
                self._clock.call_later(seconds, lambda: _handle(handler, node, exchange))
                exchange.wait()
                # If the connection ends meanwhile, the answer is dropped.
                exchange.on_abandoned(lambda: exchange.divert(lambda message: None))

            return handle_later

        description = f"{api or 'any request'} takes {seconds} s"
        return self._add(description, _named(api), group, client_id, times, replace)

    def close_connection(
        self,
        api: str | None = None,
        *,
        after_handling: bool = False,
        group: str | None = None,
        client_id: str | None = None,
        times: int | None = 1,
    ) -> Fault:
        """A request gets no answer, because its connection is closed.

        Args:
            api: the API of the request; None for any.
            after_handling: whether the request takes effect first, so that only its answer is lost.
            group: the group that the request is about; None for any.
            client_id: the id of the client that sends the request; None for any.
            times: the number of requests to affect; None to affect all requests until the fault is released.

        Raises:
            InvalidArgumentError: the API does not exist.
        """
        when = "instead of the answer" if after_handling else "before the request is handled"
        reason = f"a fault: the connection of {api or 'any request'} is closed {when}"

        def replace(handler: Handler) -> Handler:
            def end(node: NodeState, exchange: Exchange) -> None:
                exchange.end(reason)

            def handle_and_end(node: NodeState, exchange: Exchange) -> None:
                exchange.divert(lambda message: exchange.end(reason))
                handler(node, exchange)

            return handle_and_end if after_handling else end

        return self._add(
            reason.removeprefix("a fault: "), _named(api), group, client_id, times, replace
        )

    # ------------------------------------------------------------------------------- used by the server

    def around(self, handler: Handler, exchange: Exchange) -> Handler:
        """See offsetlog.server.faults.Faults."""
        for fault in self._faults:
            replaced = fault.take(handler, exchange)
            if replaced is not None:
                return replaced
        return handler

    def release(self) -> None:
        """Ends all faults."""
        for fault in self._faults:
            fault.release()

    def _add(
        self,
        description: str,
        apis: frozenset[str] | None,
        group: str | None,
        client_id: str | None,
        times: int | None,
        replace: Callable[[Handler], Handler],
    ) -> Fault:
        keys = None
        if apis is not None:
            keys = frozenset(key for each in apis if (key := checked_api(each)) is not None)
        fault = Fault(description, _Target(keys, group, client_id), times, replace)
        with self._lock:
            self._faults = (*(each for each in self._faults if each.is_active), fault)
        return fault


def _handle(handler: Handler, node: NodeState, exchange: Exchange) -> None:
    # As in a real connection, which has gone on to other requests.
    try:
        handler(node, exchange)
    except Exception:
        _log.exception("API %d", exchange.request.api_key)
        exchange.end("the request handler failed")


def _named(api: str | None) -> frozenset[str] | None:
    return None if api is None else frozenset([api])
