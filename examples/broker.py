"""A broker that keeps consumers' positions in offsetlog.  A controller and three brokers are a cluster.

    python examples/controller.py 9000
    python examples/broker.py 1 DIRECTORY 127.0.0.1:9000        (brokers 2 and 3 likewise, each with its own directory)
    python examples/client.py 127.0.0.1:9000 commit billing orders:0=42

The code of this file only handles sockets and the process.  `offsetlog.manager` stores the positions, and
`offsetlog.replication` has the rules of replication and of elections.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from channel import LINE_BYTES_MAX, Channel, connect

from offsetlog.errors import OffsetLogError
from offsetlog.manager.executor import ThreadExecutor
from offsetlog.manager.log_manager import LogManager
from offsetlog.manager.replica_host import HostConfig, ReplicaHost
from offsetlog.manager.settings import ManagerSettings
from offsetlog.replication.in_sync import InSyncConfig
from offsetlog.replication.messages import (
    EpochEnd,
    FetchError,
    FetchRequest,
    FetchResponse,
    InSyncChange,
    PartitionState,
)
from offsetlog.types import TopicPartition

PARTITION, REPLICAS = 0, (1, 2, 3)


class Broker:
    """One replica.  It is the network of its ReplicaHost, and serves clients and other brokers."""

    def __init__(self, number: int, path: str, controller: str) -> None:
        self.number, self.controller_address, self.loop = number, controller, asyncio.get_running_loop()
        settings = ManagerSettings(path=Path(path), partitions=1, replication_factor=3, min_insync_replicas=2)
        self.executor = ThreadExecutor(4)
        self.manager = LogManager(settings, executor=self.executor)
        self.incarnation, self.peers, self.addresses = time.time_ns(), dict[int, Channel](), dict[str, str]()

    async def run(self) -> None:
        self.manager.start()
        rules = InSyncConfig(min_insync_replicas=2, lag_time_max_ms=2000, join_wait_ms=200)
        self.host = ReplicaHost(self.manager, PARTITION, self.number, self.incarnation, REPLICAS, self, self.executor,
                                rules, HostConfig(fetch_wait=0.2, retry=0.3, tick=0.2, renew=0.15))
        self.manager.listen_to_writes(lambda _: self.host.on_written())
        server = await asyncio.start_server(self.accept, "127.0.0.1", 0, limit=LINE_BYTES_MAX)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.controller = await connect(self.controller_address, self.serve)
        await self.controller.call("register", replica=self.number, incarnation=self.incarnation, address=address)
        print(f"broker {self.number} listens at {address}", flush=True)
        assert self.controller.ended is not None
        await self.controller.ended
        self.end(f"the controller at {self.controller_address} has hung up")

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Channel(reader, writer, self.serve).run()

    def serve(self, _: Channel, name: str, body: dict[str, Any], reply: Any) -> None:
        try:
            if name == "state":
                self.addresses = body.pop("addresses")
                self.host.on_state(PartitionState(**{**body, "in_sync": frozenset(body["in_sync"])}))
                reply(None)
            elif name == "replicate":
                self.host.on_fetch(FetchRequest(**body), lambda answer: reply(
                    {**asdict(answer), "records": base64.b64encode(answer.records).decode()}))
            elif name == "commit":
                offsets = {TopicPartition(topic, number): offset for topic, number, offset in body["offsets"]}
                self.manager.commit_async(body["group"], offsets, timeout=5).add_done_callback(
                    lambda pending: self.answer(pending.result, reply))
            elif name == "fetch":
                found = self.manager.fetch(body["group"])
                reply({"offsets": [[*key, value.offset] for key, value in found.items()]})
        except OffsetLogError as failure:
            reply({"error": failure.error_code, "message": str(failure), "retriable": failure.retriable})

    def answer(self, result: Any, reply: Any) -> None:
        try:
            reply({"log_offset": result(0).log_offset})
        except OffsetLogError as failure:
            reply({"error": failure.error_code, "message": str(failure), "retriable": failure.retriable})

    # The ReplicaHost calls these methods (its Network), from any thread.

    def fetch(self, leader: int, request: FetchRequest, answer: Any) -> None:
        asyncio.run_coroutine_threadsafe(self.ask_leader(leader, request, answer), self.loop)

    async def ask_leader(self, leader: int, request: FetchRequest, answer: Any) -> None:
        try:
            if leader not in self.peers or self.peers[leader].writer.is_closing():
                self.peers[leader] = await connect(self.addresses[str(leader)], self.serve)
            found = await self.peers[leader].call("replicate", **asdict(request))
        except (OSError, KeyError, TimeoutError):
            self.peers.pop(leader, None)        # the ReplicaHost sends the fetch again
            return
        records, diverging = base64.b64decode(found.pop("records")), found.pop("diverging_epoch")
        found["error"] = FetchError(found["error"])
        answer(FetchResponse(**found, records=records, diverging_epoch=diverging and EpochEnd(*diverging)))

    def propose(self, partition: int, change: InSyncChange) -> None:
        asyncio.run_coroutine_threadsafe(self.ask_controller(None, "propose", asdict(change)), self.loop)

    def renew(self, partition: int, leader_epoch: int, answer: Any) -> None:
        body = {"replica": self.number, "leader_epoch": leader_epoch}
        asyncio.run_coroutine_threadsafe(self.ask_controller(answer, "renew", body), self.loop)

    async def ask_controller(self, answer: Any, name: str, body: dict[str, Any]) -> None:
        with contextlib.suppress(OSError, TimeoutError):
            found = await self.controller.call(name, **body)
            if answer is not None and found is not None:
                answer(found)

    def failed(self, partition: int, failure: OffsetLogError) -> None:
        self.end(str(failure))

    def end(self, reason: str) -> None:
        print(f"broker {self.number}: {reason}", file=sys.stderr, flush=True)
        os._exit(1)     # ends all threads at once; the next start of the broker recovers the log


async def main() -> None:
    match sys.argv[1:]:
        case [("1" | "2" | "3") as number, path, controller]:
            broker = Broker(int(number), path, controller)
        case _:
            sys.exit(__doc__)
    try:
        await broker.run()
    except (OSError, OffsetLogError) as failure:
        sys.exit(f"broker {number}: {failure}")


if __name__ == "__main__":
    asyncio.run(main())
