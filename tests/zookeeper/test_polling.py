"""The wait of the client of ZooKeeper for its sockets, which are real ones here."""

from __future__ import annotations

import contextlib
import os
import resource
import socket

import pytest
from kazoo.handlers.utils import selector_select

from offsetlog.zookeeper.polling import wait_for_sockets


@pytest.fixture
def pair():
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def both(readers, writers, timeout):
    """Returns its result, which is that of kazoo's own."""
    found = wait_for_sockets(readers, writers, [], timeout)
    assert tuple(map(list, found)) == tuple(map(list, selector_select(readers, writers, [], timeout)))
    return found


def test_readable_and_writable(pair):
    one, other = pair
    assert both([one], [], 0) == ([], [], [])
    assert both([one], [other], 0) == ([], [other], [])
    other.send(b"x")
    assert both([one, other], [], 0) == ([one], [], [])
    assert both([one], [other], None) == ([one], [other], [])
    assert wait_for_sockets([one], [one]) == ([one], [one], [])
    assert wait_for_sockets([one.fileno()], [], [], 0) == ([one.fileno()], [], [])


def test_a_socket_whose_other_end_went_is_readable(pair):
    one, other = pair
    other.close()
    assert both([one], [], 5)[0] == [one]
    assert one.recv(1) == b""


def test_a_socket_that_cannot_be_written_to_is_waited_for(pair):
    one, _ = pair
    one.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while one.send(b"x" * 65536):
            pass
    assert both([], [one], 0.01) == ([], [], [])


def test_a_closed_socket_and_wrong_timeouts_are_errors(pair):
    one, other = pair
    number = other.fileno()
    for wait in (wait_for_sockets, selector_select):
        with pytest.raises(ValueError, match="negative"):
            wait([one], [], [], -1)
        with pytest.raises(TypeError):
            wait([one], [], [], "soon")
    other.close()
    for closed in (other, number):
        with pytest.raises(ValueError, match=r"."):
            wait_for_sockets([closed], [], [], 0)


def test_descriptors_above_those_that_select_takes():
    high = 1500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard <= high:
        pytest.skip("so many descriptors are not allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, high + 1), hard))
    try:
        one, other = socket.socketpair()
        with one, other, socket.socket(fileno=os.dup2(one.fileno(), high)) as numbered:
            other.send(b"x")
            assert both([numbered], [], 0)[0] == [numbered]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
