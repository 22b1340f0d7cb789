"""Calls between the processes of the example.  A call and its answer are one line of JSON each."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
from typing import Any

LINE_BYTES_MAX = 1 << 24


class Channel:
    """One connection.  Both sides can make calls over it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, served: Any) -> None:
        self.reader, self.writer, self.served = reader, writer, served
        self.loop, self.number = asyncio.get_running_loop(), 0
        self.open_calls: dict[int, asyncio.Future[Any]] = {}
        self.ended: asyncio.Task[None] | None = None

    def send(self, message: dict[str, Any]) -> None:
        """Sends a message as one line.  Any thread may call this."""
        line = json.dumps(message).encode() + b"\n"
        self.loop.call_soon_threadsafe(lambda: None if self.writer.is_closing() else self.writer.write(line))

    async def call(self, name: str, **body: Any) -> Any:
        """Calls the other side, and returns its answer.  Raises OSError, TimeoutError."""
        if self.writer.is_closing():
            raise ConnectionError("the other side has hung up")
        self.number += 1
        answer = self.open_calls[self.number] = self.loop.create_future()
        self.send({"id": self.number, "call": name, "body": body})
        return await asyncio.wait_for(answer, 10)

    async def run(self) -> None:
        """Serves the calls of the other side until that side closes the connection."""
        with contextlib.suppress(OSError):
            while line := await self.reader.readline():
                message = json.loads(line)
                if "call" in message:
                    self.served(self, message["call"], message["body"], functools.partial(self.reply, message["id"]))
                elif message["id"] in self.open_calls:
                    self.open_calls.pop(message["id"]).set_result(message["answer"])
        self.writer.close()

    def reply(self, number: int, answer: Any) -> None:
        """Answers a call.  Any thread may call this."""
        self.send({"id": number, "answer": answer})


async def connect(address: str, served: Any) -> Channel:
    host, _, port = address.rpartition(":")
    channel = Channel(*await asyncio.open_connection(host, int(port), limit=LINE_BYTES_MAX), served)
    channel.ended = asyncio.create_task(channel.run())
    return channel
