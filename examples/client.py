"""A client of the example's brokers.  It asks the controller which broker leads, and retries until that one answers.

    python examples/client.py 127.0.0.1:9000 commit GROUP TOPIC:PARTITION=OFFSET...
    python examples/client.py 127.0.0.1:9000 fetch GROUP
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from channel import connect

RETRY_SECONDS, PATIENCE_SECONDS = 0.2, 30.0


async def ask_leader(controller: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Sends a call to the broker that leads.  Raises OSError or TimeoutError if no broker answers."""
    address = await (await connect(controller, None)).call("leader")
    if address is None:
        raise ConnectionError("no broker leads")
    answer: dict[str, Any] = await (await connect(address, None)).call(name, **body)
    return answer


async def ask(controller: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
    """Repeats a call until it succeeds or fails with an error that is not retriable.

    If an answer is lost, a commit may be made twice.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            answer = await ask_leader(controller, name, body)
            if not answer.get("retriable"):
                return answer
            problem = answer["message"]
        except (OSError, TimeoutError) as failure:
            problem = str(failure) or type(failure).__name__
        if time.monotonic() > deadline:
            sys.exit(f"no answer within {PATIENCE_SECONDS:.0f} s: {problem}")
        print(f"again: {problem}", file=sys.stderr)
        await asyncio.sleep(RETRY_SECONDS)


def parsed(position: str) -> list[str | int]:
    key, _, offset = position.rpartition("=")
    topic, _, number = key.rpartition(":")
    return [topic, int(number), int(offset)]


async def main() -> None:
    match sys.argv[1:]:
        case [controller, "commit", group, *positions] if positions:
            body = {"group": group, "offsets": [parsed(each) for each in positions]}
            answer = await ask(controller, "commit", body)
        case [controller, "fetch", group]:
            answer = await ask(controller, "fetch", {"group": group})
        case _:
            sys.exit(__doc__)
    if "error" in answer:
        sys.exit(f"error {answer['error']}: {answer['message']}")
    for topic, number, offset in answer.get("offsets", []):
        print(f"{topic}:{number}={offset}")
    if "log_offset" in answer:
        print(f"committed at log offset {answer['log_offset']}")


if __name__ == "__main__":
    asyncio.run(main())
