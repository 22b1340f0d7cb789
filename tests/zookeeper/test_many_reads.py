"""Many reads by one request: how large it may be, and what it means where the request is refused as a whole."""

from __future__ import annotations

import pytest

from offsetlog import errors
from offsetlog.zookeeper.group_nodes import read_groups
from offsetlog.zookeeper.many_reads import ManyReads
from offsetlog.zookeeper.requests import MultiRead, ReadListing, ReadNames

#: As Kafka allows it for topics; a name of a group is not longer in practice.
NAME_MAX = 249
#: A fourth of what servers take unless they are configured otherwise: they answer with more than they were asked.
REQUEST_BYTES_MAX = 0xFFFFF // 4


class Answered:
    """An answer that is there."""

    def __init__(self, found) -> None:
        self._found = found

    def done(self) -> bool:
        return True

    def wait(self) -> bool:
        return True

    def result(self):
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


class Connection:
    """One that answers each request of many reads with the same error, or with that there are no nodes."""

    last_zxid = 5

    def __init__(self, failure: Exception | None = None) -> None:
        self._failure = failure
        self.requests: list[list] = []

    def reads_many(self) -> bool:
        return True

    def read_many_async(self, reads) -> Answered:
        self.requests.append(list(reads))
        missing = errors.NoNodeError("there is no node", node=reads[0].node)
        return Answered(self._failure or [missing] * len(reads))

    def children_async(self, node: str) -> Answered:
        return Answered(errors.NoNodeError("there is no node", node=node))


def test_a_request_that_is_refused_as_a_whole_is_that_of_each_of_its_reads():
    failure = errors.ZooKeeperError("ZooKeeper refuses /consumers/a: ThrottledOpError", node="/consumers/a")
    found = list(read_groups(Connection(failure), ["a", "b", "c"]))
    assert [(each.group, each.not_given) for each in found] == [("a", [failure]), ("b", [failure]), ("c", [failure])]
    questions = [("a", ReadNames("/a")), ("nothing", None), ("b", ReadNames("/b"))]
    answers = list(ManyReads(Connection(failure), 64).answers(questions))
    assert answers == [("a", failure), ("nothing", None), ("b", failure)]


def test_a_request_of_many_reads_that_nobody_answers_ends_the_reading():
    failure = errors.ZooKeeperUnavailableError("the connection to ZooKeeper broke", node="/")
    with pytest.raises(errors.ZooKeeperUnavailableError):
        list(read_groups(Connection(failure), ["a", "b", "c"]))


@pytest.mark.parametrize("in_flight", [64, 1024, 4096, 100_000])
def test_requests_stay_below_what_servers_take_however_many_reads_are_under_way(in_flight):
    connection = Connection()
    above = f"/consumers/{'g' * NAME_MAX}/offsets"
    reads = [ReadListing(f"{above}/{number:0{NAME_MAX}}") for number in range(2 * in_flight)]
    answers = ManyReads(connection, in_flight).answers((read.node, read) for read in reads)
    assert [key for key, _ in answers] == [read.node for read in reads]
    assert [each for request in connection.requests for each in request] == reads
    assert max(len(MultiRead("/kafka", request).serialize()) for request in connection.requests) < REQUEST_BYTES_MAX
    # And not so small that nothing is gained.
    assert min(map(len, connection.requests)) >= 16
