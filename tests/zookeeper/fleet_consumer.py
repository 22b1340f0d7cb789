"""A consumer of the fleet: commits one offset after the other, and looks at each start that nothing went back.

    python fleet_consumer.py PORT GROUP TOPIC PARTITION

It ends at the end of its input, and then says what it saw.  It imports little, so that many start quickly.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time


class Broker:
    """A connection with the broker, made again until it is there."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.socket = self.lines = None

    def close(self) -> None:
        """Ends the connection; it is made again by the next request."""
        for each in (self.lines, self.socket):
            try:
                if each is not None:
                    each.close()
            except OSError:
                continue  # an unsent line cannot be sent any more
        self.socket = self.lines = None

    def ask(self, **request: object) -> dict[str, object]:
        """Returns the answer; raises OSError where the connection breaks."""
        if self.lines is None:
            self.socket = self.connected()
            self.lines = self.socket.makefile("rw")
        try:
            self.lines.write(json.dumps(request) + "\n")
            self.lines.flush()
            answer = self.lines.readline()
            if not answer.endswith("\n"):
                raise ConnectionError("the broker went away")
        except OSError:
            self.close()
            raise
        found: dict[str, object] = json.loads(answer)
        return found

    def connected(self) -> socket.socket:
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                time.sleep(0.02)  # nobody says when a broker listens


def main(port: int, group: str, topic: str, partition: int) -> None:
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    broker, place = Broker(port), {"group": group, "topic": topic, "partition": partition}
    acknowledged = sent = -1
    starts = commits = 0
    problems: list[str] = []
    while not is_over.is_set():
        try:
            found = broker.ask(op="fetch", **place)
            if "error" in found:
                continue
            starts += 1
            offset = int(str(found["offset"]))
            if not acknowledged <= offset <= max(sent, acknowledged):
                problems.append(f"fetched {offset}, acknowledged {acknowledged}, sent {sent}")
            while not is_over.is_set():
                offset += 1
                sent = max(sent, offset)
                answer = broker.ask(op="commit", offset=offset, **place)
                if "error" in answer:
                    break
                acknowledged = offset
                commits += 1
        except OSError:
            continue
    seen = {"acknowledged": acknowledged, "sent": sent, "starts": starts, "commits": commits, "problems": problems}
    print(json.dumps(seen | place), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
