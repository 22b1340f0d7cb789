"""Runs on a thread a call that waits for the high watermark, while the test replicates the log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from offsetlog.errors import OffsetLogError
from offsetlog.manager.testing.replica_set import ReplicaSet

T = TypeVar("T")


class Caller:
    """A call that runs on a thread of its own.

    Args:
        call: the function to call on the thread.
        patience: seconds to wait for an answer before the test fails.
    """

    def __init__(self, call: Callable[[], object], patience: float) -> None:
        self._call = call
        self._patience = patience
        self._answers: list[object] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._answers.append(self._call())
        except OffsetLogError as failure:
            self._answers.append(failure)

    @property
    def is_waiting(self) -> bool:
        """Whether the call has not been answered yet."""
        return not self._answers

    def answer(self) -> object:
        """Returns the result of the call, or raises its error."""
        self._thread.join(self._patience)
        assert self._answers, "the call was not answered"
        if isinstance(self._answers[0], OffsetLogError):
            raise self._answers[0]
        return self._answers[0]


def wait_until(is_so: Callable[[], bool], patience: float) -> None:
    """Waits until a condition holds."""
    pause = threading.Event()
    for _ in range(int(patience * 1000)):
        if is_so():
            return
        pause.wait(0.001)
    raise AssertionError(f"the condition did not hold within {patience} s")


def serve(replicas: ReplicaSet, call: Callable[[], T]) -> object:
    """Runs a call that writes and waits for the high watermark; moves it once the call has written."""
    leader, partition = replicas[replicas.leader], replicas.partition
    end = leader.positions(partition).log_end
    patience = replicas.site.harness.patience
    caller = Caller(call, patience)
    wait_until(lambda: leader.positions(partition).log_end > end, patience)
    replicas.replicate()
    return caller.answer()
