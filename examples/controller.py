"""The controller of the example.  It elects leaders by the rules of `offsetlog.replication.election`.

    python examples/controller.py PORT

It keeps its state only in memory, so it must run as long as the cluster does.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from channel import LINE_BYTES_MAX, Channel

from offsetlog.replication import election
from offsetlog.replication.lease import LeaseBook
from offsetlog.replication.messages import InSyncChange, Member, PartitionState

REPLICAS = (1, 2, 3)
LEASE_MS = 600


class Controller:
    """The state of one partition, and the brokers that are connected."""

    def __init__(self) -> None:
        self.state = PartitionState(leader=-1, leader_epoch=0, in_sync=frozenset(REPLICAS), version=0)
        self.live: dict[int, int] = {}
        self.channels: dict[int, Channel] = {}
        self.addresses: dict[str, str] = {}
        self.leases = LeaseBook(LEASE_MS)
        self.is_due = False

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = Channel(reader, writer, self.serve)
        await channel.run()
        for number in [each for each, known in self.channels.items() if known is channel]:
            del self.channels[number]
            self.live.pop(number, None)
            self.decide(
                lambda number=number: election.on_replica_lost(
                    self.state, number, assigned=REPLICAS, live=self.live
                )
                if number not in self.live
                else self.state
            )

    def serve(self, channel: Channel, name: str, body: dict[str, Any], reply: Callable[[Any], None]) -> None:
        now = int(time.monotonic() * 1000)
        if name == "register":
            number = body["replica"]
            self.channels[number], self.live[number] = channel, body["incarnation"]
            self.addresses[str(number)] = body["address"]
            if number == self.state.leader:
                self.leases.release()   # the former process of this broker has ended
            self.decide(
                lambda: election.on_replica_registered(self.state, number, assigned=REPLICAS, live=self.live)
            )
            reply(None)
            self.announce()
        elif name == "renew":
            place = (body["replica"], body["leader_epoch"])
            leads = place == (self.state.leader, self.state.leader_epoch) and not self.is_due
            reply(self.leases.grant(now, is_leader=leads))
        elif name == "propose":
            members = tuple(Member(*member) for member in body.pop("members"))
            change = InSyncChange(**body, members=members)
            self.store(election.alter_in_sync(self.state, change, assigned=REPLICAS, live=self.live).state)
            reply(None)
        elif name == "leader":
            reply(self.addresses.get(str(self.state.leader)))

    def decide(self, decision: Callable[[], PartitionState]) -> None:
        """Stores the state that a decision returns. For a new leader, first waits until the last lease has ended."""
        state, now = decision(), int(time.monotonic() * 1000)
        if state.leader_epoch == self.state.leader_epoch or self.leases.may_elect(now):
            self.is_due = False
            self.store(state)
        else:
            self.is_due = True
            left = (self.leases.until - now + 1) / 1000
            asyncio.get_running_loop().call_later(left, self.decide, decision)

    def store(self, state: PartitionState) -> None:
        if state != self.state:
            self.state = state
            self.announce()

    def announce(self) -> None:
        body = {**asdict(self.state), "in_sync": sorted(self.state.in_sync), "addresses": self.addresses}
        for channel in self.channels.values():
            channel.send({"id": 0, "call": "state", "body": body})


async def main() -> None:
    if len(sys.argv) != 2 or not sys.argv[1].isdecimal():
        sys.exit(__doc__)
    controller = Controller()
    server = await asyncio.start_server(controller.accept, "127.0.0.1", int(sys.argv[1]), limit=LINE_BYTES_MAX)
    print(f"controller listens at 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
