"""A simple connection to a broker, for the few requests that `offsetlog top` sends."""

from __future__ import annotations

import socket
from typing import Any, Self

from offsetlog.errors import CorruptionError, UnsupportedVersionError
from offsetlog.protocol import APIS, decode_response, encode_request
from offsetlog.protocol.messages import ApiVersionsRequest

#: The size of one answer; a larger one is not read.
ANSWER_BYTES_MAX = 64 << 20
CLIENT_ID = "offsetlog-top"


class KafkaClient:
    """A connection that sends one request at a time, in the newest version that both sides support.

    Args:
        host, port: the broker's address.
        timeout: the limit for each wait, in seconds.

    Raises:
        OSError: no server answers at this address.
        CorruptionError, UnsupportedVersionError: the server is not a broker, or supports no version that offsetlog
            supports.
    """

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._place = f"{host}:{port}"
        try:
            self._socket = socket.create_connection((host, port), timeout)
        except OSError as failure:
            raise ConnectionError(f"{self._place}: {failure.strerror or failure}") from failure
        self._correlation_id = 0
        try:
            answer = self._exchange(ApiVersionsRequest(), 0)
        except BaseException:
            self.close()
            raise
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def ask(self, message: Any) -> Any:
        """Sends a request and returns its answer; for the errors see the class."""
        api = _api_of(message)
        smallest, largest = self._versions.get(api.key, (0, -1))
        version = min(largest, api.last_version)
        if version < max(smallest, api.first_version):
            raise UnsupportedVersionError(f"{self._place} serves no version of {api.name} that offsetlog knows")
        return self._exchange(message, version)

    def _exchange(self, message: Any, version: int) -> Any:
        self._correlation_id += 1
        self._socket.sendall(encode_request(message, version, self._correlation_id, CLIENT_ID))
        size = int.from_bytes(self._exactly(4), "big")
        if size > ANSWER_BYTES_MAX:
            raise CorruptionError(f"{self._place} is not a broker, or its answer of {size} bytes is too large")
        got, answer = decode_response(_api_of(message).response, version, self._exactly(size))
        if got != self._correlation_id:
            raise CorruptionError(f"{self._place} sent the answer to another request")
        return answer

    def _exactly(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            try:
                more = self._socket.recv(min(size - len(received), 1 << 20))
            except TimeoutError as failure:
                raise TimeoutError(f"{self._place} does not answer") from failure
            if not more:
                raise ConnectionError(
                    f"{self._place} closed the connection; is this the address for Kafka clients?"
                )
            received += more
        return bytes(received)

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _api_of(message: Any) -> Any:
    return next(each for each in APIS.values() if each.request is type(message))
