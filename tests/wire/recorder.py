"""Plays cases on a broker and writes down its answers, as hex with holes (tests/coordinator/golden.py).

Holes are only: member ids and topic ids that the broker made up, producer ids, its node id, host and port, its
cluster's id, and texts of errors.  Everything else has to be equal.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

from offsetlog.protocol import APIS, Api, decode_response, encode_request
from tests.server.running import Client

from .ordered import ordered
from .spans import Span, spans_of_request, spans_of_response

RETRY_SECONDS = 10
#: The part of a member id that is made up.
MADE_UP = re.compile(rb"(?:.*-)?[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NODES = {"node_id", "leader_id", "controller_id", "broker_id", "broker_ids", "replica_nodes", "isr_nodes"}
TEXTS = {"error_message", "cluster_id"}


class Recorder:
    """Records cases, one after the other.

    Args:
        address: of the broker.
        values: what `made_topics` has returned for it.
    """

    def __init__(self, address: tuple[str, int], values: dict[str, bytes | None]) -> None:
        self.suffix = (values["S"] or b"").decode()
        self.cases: list[dict[str, Any]] = []
        self._address = address
        self._given = values
        self._values: dict[str, bytes | None] = {}
        self._sent: set[bytes | None] = set()
        self._clients: dict[int, Client] = {}
        self._correlation_id = 100

    def begin(self, name: str, about: str) -> None:
        """Begins a case, with connections of its own."""
        self.close()
        self._values = dict(self._given)
        self._correlation_id = 100
        self.cases.append({"name": name, "about": about, "steps": []})

    def close(self) -> None:
        """Closes the connections."""
        for client in self._clients.values():
            client.close()
        self._clients = {}

    def topic(self, key: str) -> str:
        """The name of a topic of this run."""
        return f"T{self.suffix}{key}"

    def group(self, key: str) -> str:
        """The name of a group of this run."""
        return f"g{self.suffix}-{key}"

    def topic_id(self, key: str) -> bytes:
        """The id of a topic that every case finds."""
        return self._values[f"T_{key}"] or b""

    @property
    def node(self) -> int:
        """The broker's node id."""
        return int.from_bytes(self._values["N"] or b"", "big")

    def ask(
        self,
        name: str,
        message: Any,
        version: int,
        *,
        conn: int = 0,
        client_id: str = "test",
        arrays: Sequence[dict[str, str]] = (),
        until: Callable[[Any], bool] | None = None,
        is_answered: bool = True,
    ) -> Any:
        """Sends a request, and returns its answer; None where the connection is closed.

        Args:
            name: of the step.
            message: the request.
            version: of it.
            conn: the number of the connection.
            client_id: in the header.
            arrays: those whose order, or content, is not compared (tests/wire/ordered.py).
            until: it is sent again until this is true of the answer.
            is_answered: False: the answer comes later, and is taken with `take`.
        """
        api = next(each for each in APIS.values() if each.request is type(message))
        self._correlation_id += 1
        frame = encode_request(message, version, self._correlation_id, client_id)[4:]
        sent = self._template(frame, spans_of_request(api, version, frame), is_answer=False)
        title = f"{api.name} v{version}: {name}".replace(self.suffix, "<S>")
        step: dict[str, Any] = {"name": title, "api": api.name, "version": version}
        if conn:
            step["conn"] = conn
        step["send"] = sent
        self._send(conn, frame)
        if not is_answered:
            self.cases[-1]["steps"].append(step)
            return None
        if until is not None:
            step["retry"] = RETRY_SECONDS
        return self._received(step, api, conn, list(arrays), lambda: self._send(conn, frame), until)

    def take(self, name: str, request: type[Any], version: int, *, conn: int,
             arrays: Sequence[dict[str, str]] = ()) -> Any:
        """Takes an answer for which `ask` did not wait."""
        api = next(each for each in APIS.values() if each.request is request)
        step = {"name": f"{api.name} v{version}: {name}", "api": api.name, "version": version, "conn": conn}
        return self._received(step, api, conn, list(arrays), lambda: None, None)

    def _send(self, conn: int, frame: bytes) -> None:
        if conn not in self._clients:
            self._clients[conn] = Client(self._address)
        self._clients[conn].send(len(frame).to_bytes(4, "big") + frame)

    def _received(self, step: dict[str, Any], api: Api, conn: int, arrays: list[dict[str, str]],
                  send_again: Callable[[], None], until: Callable[[Any], bool] | None) -> Any:
        self.cases[-1]["steps"].append(step)
        version = step["version"]
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            frame = self._clients[conn].receive()
            if frame is None:
                self._clients.pop(conn).close()
                step["recv"] = "closed"
                return None
            answer = decode_response(api.response, version, frame)[1]
            if until is None or until(answer):
                break
            assert time.monotonic() < deadline, f"{step['name']}: {answer}"
            time.sleep(0.05)
            send_again()
        if arrays:
            step["arrays"] = [
                {name: text.replace(self.suffix, "<S>") for name, text in each.items()} for each in arrays
            ]
            frame = ordered(api, version, frame, arrays, self.suffix.encode())
        step["recv"] = self._template(frame, spans_of_response(api, version, frame), is_answer=True)
        step["errors"] = sorted(errors_of(answer))
        return answer

    def _template(self, frame: bytes, spans: list[Span], *, is_answer: bool) -> str:
        out, at = [], 0
        for span in spans:
            hole = self._hole(span, is_answer=is_answer)
            if hole is not None:
                out += [self._hex(frame[at : span.start]), hole]
                at = span.end
        return "".join([*out, self._hex(frame[at:])])

    def _hex(self, data: bytes) -> str:
        return data.hex().replace(self.suffix.encode().hex(), "<S>")

    def _hole(self, span: Span, *, is_answer: bool) -> str | None:
        leaf, value = span.path.rpartition(".")[2], span.value
        if is_answer and leaf in TEXTS:
            return f"<*{span.kind}>"
        if is_answer and leaf == "producer_id" and value != b"\xff" * 8:
            return f"<*{span.kind}>"
        if leaf in NODES:
            return f"<N:{span.kind}>" if value == self._values["N"] else None
        if leaf in ("host", "port"):
            name = "H" if leaf == "host" else "PORT"
            return f"<{name}:{span.kind}>" if value == self._values[name] else None
        is_id = span.kind == "uuid" and value is not None and any(value)
        is_member = span.kind in ("str", "cstr") and value is not None and MADE_UP.fullmatch(value) is not None
        if not is_id and not is_member:
            return None
        known = next((name for name, each in self._values.items() if each == value), None)
        if known is not None:
            return f"<{known}:{span.kind}>"
        if not is_answer:
            self._sent.add(value)
        if value in self._sent:
            return None
        name = f"{'I' if is_id else 'M'}{len(self._values)}"
        self._values[name] = value
        return f"<{name}={span.kind}>"


def errors_of(message: Any) -> set[int]:
    """All error codes in an answer but 0."""
    found: set[int] = set()
    if isinstance(message, tuple) and hasattr(message, "_fields"):
        for name, value in zip(message._fields, message, strict=True):
            if name == "error_code" and value:
                found.add(value)
            found |= errors_of(value)
    elif isinstance(message, tuple | list):
        for each in message:
            found |= errors_of(each)
    return found
