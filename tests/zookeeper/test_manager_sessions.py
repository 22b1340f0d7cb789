"""Reads of a manager whose session ends in the middle: the next session's server catches up before it is asked."""

from __future__ import annotations

import struct

import pytest

from offsetlog.types import TopicPartition

from .managers import leading
from .proxy import OP_SYNC, CuttingProxy, outlast_session
from .test_manager_removal import before_read

KEYS = [TopicPartition("orders", number) for number in range(2)]
#: The requests that read: exists, get, the names below a node, and these with its state.
OP_READS = (3, 4, 8, 12)


class Noting(CuttingProxy):
    """Notes the numbers of the requests."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.requests: list[int] = []

    def _moment_of(self, request: bytes):
        self.requests.append(struct.unpack_from(">i", request, 8)[0])
        return super()._moment_of(request)


@pytest.mark.parametrize(
    ("keys", "number"),
    [
        pytest.param(None, 2, id="of a group, before its topics"),
        pytest.param(None, 3, id="of a group, before its partitions"),
        pytest.param(KEYS, 2, id="of positions"),
    ],
)
def test_a_read_in_a_session_that_began_meanwhile_has_its_server_catch_up(ensemble, root, connection, keys, number):
    after: list[int] = []
    with (
        Noting(ensemble.ports[0]) as proxy,
        leading(f"127.0.0.1:{proxy.port}{root}", connection={"session_timeout": 1.0}) as manager,
    ):
        manager.commit("g", dict.fromkeys(KEYS, 1))

        def end_session() -> None:
            outlast_session(manager._session.connection, proxy, connection)
            after.append(len(proxy.requests))
            # Others go on, and the server of the new session may not have heard of it.
            for key in KEYS:
                connection.set_data(f"/consumers/g/offsets/orders/{key.partition}", b"7")

        with before_read(manager, number, end_session):
            found = manager.fetch("g", keys)
        assert {each.offset for each in found.values()} == {7}
        asked = [each for each in proxy.requests[after[0] :] if each == OP_SYNC or each in OP_READS]
        assert asked[0] == OP_SYNC
        assert len(asked) > 1
