"""Serves /metrics, /healthz, /readyz and /groups over HTTP."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from offsetlog.errors import ClosedError
from offsetlog.server.metrics import registry_of
from offsetlog.server.status import ServerStatus, Verdict, group_commits, health, readiness

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_log = logging.getLogger(__name__)

#: The most requests at a time; a further one is closed at once.
REQUESTS_MAX = 16
#: The longest time that a stop may take.
POLL_SECONDS = 0.2
#: The longest time for which a client may be silent.
SILENCE_SECONDS = 10.0
#: The longest time for a request and its answer.
REQUEST_SECONDS = 30.0


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        _log.debug("%s: %s", self.client_address[0], format % args)


class _HttpServer(ThreadingWSGIServer):
    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._room = threading.BoundedSemaphore(REQUESTS_MAX)

    def server_bind(self) -> None:
        # Does not call HTTPServer's method, which looks up the host's name and can take long.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._room.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        end = threading.Timer(REQUEST_SECONDS, _cut, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("%s: a request for metrics failed", client_address[0], exc_info=True)


def _cut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _SixServer(_HttpServer):
    address_family = socket.AF_INET6


class Monitoring:
    """Answers HTTP requests on its own threads until `stop`.

    Args:
        status: the server's status.
        host, port: the address to listen on; with port 0, a free port.

    Raises:
        OSError: the port is in use, or the address is not one of this machine.
    """

    def __init__(self, status: ServerStatus, host: str, port: int) -> None:
        self._status = status
        self._metrics = make_wsgi_app(registry_of(status))
        kind = _SixServer if ":" in host else _HttpServer
        self._server = make_server(host, port, self._answer, kind, handler_class=_Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(POLL_SECONDS,),
            name="offsetlog-monitoring",
            daemon=True,
        )
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        """The address on which this server listens."""
        host, port = self._server.server_address[:2]
        return str(host), int(port)

    def stop(self) -> None:
        """Stops listening; do not call this on a thread that answers a request."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environ, start)
            return answer
        if path not in _VERDICTS and path != "/groups":
            return _text(
                start, "404 Not Found", "not found; try /metrics, /healthz, /readyz or /groups"
            )
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _text(start, "405 Method Not Allowed", "only GET is supported")
        if path == "/groups":
            return _groups(start, self._status)
        verdict: Verdict = _VERDICTS[path](self._status)
        return _text(start, "200 OK" if verdict.good else "503 Service Unavailable", verdict.text)


_VERDICTS = {"/healthz": health, "/readyz": readiness}


def _groups(start: StartResponse, status: ServerStatus) -> list[bytes]:
    try:
        commits = group_commits(status)
    except (TimeoutError, ClosedError) as failure:
        reason = str(failure) or "the server does not respond"
        return _text(start, "503 Service Unavailable", reason)
    return _text(start, "200 OK", json.dumps({"commits": commits}), "application/json")


def _text(start: StartResponse, status: str, text: str, kind: str = "text/plain") -> list[bytes]:
    content = f"{text}\n".encode(errors="backslashreplace")
    start(
        status,
        [("Content-Type", f"{kind}; charset=utf-8"), ("Content-Length", str(len(content)))],
    )
    return [content]
