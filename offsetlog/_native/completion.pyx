"""Results that arrive later: of writes that wait for the high watermark or the disk, leadership changes and flushes.

No thread is blocked while a result is awaited.  A thread that completes many results wakes each event loop only once.
"""

cimport cython
from libc.stdint cimport int64_t

import logging
import threading

from offsetlog._native.buffers cimport take_timeout

from offsetlog.errors import CommitTimeoutError

cdef object _log = logging.getLogger("offsetlog.manager")

# asyncio is imported on first use, because commands do not need it and start faster without it.
cdef object _running_loop = None

cdef enum:
    # How many futures are kept before the list is searched for cancelled ones.
    FUTURES_UNCHECKED = 8


cdef object running_loop():
    global _running_loop
    if _running_loop is None:
        from asyncio import get_running_loop
        _running_loop = get_running_loop
    return _running_loop()


@cython.final
@cython.freelist(256)
cdef class Answered:
    """The iterator that `await` uses once the result is available."""

    cdef object result
    cdef object failure

    def __iter__(self):
        return self

    def __next__(self):
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        raise StopIteration(self.result)


cdef class Completion:
    """A result that is set once: a value, or the error to raise.  Any thread may use the object.

    `result` blocks the calling thread.  `await` and callbacks block no thread.
    """

    @classmethod
    def __class_getitem__(cls, item):
        return cls

    cdef object value(self):
        return self.result_given

    cdef bint take(self, object result, object failure) noexcept:
        # Returns whether this is the first answer; if so, the caller calls `release_all`.
        if self.finished:
            return False
        self.result_given = result
        self.failure = failure
        self.finished = True
        return True

    def done(self):
        """Whether the answer was given."""
        return self.finished

    def succeed(self, result):
        """Sets the result and returns True; returns False if a result or error was set before."""
        if not self.take(result, None):
            return False
        release_all([self])
        return True

    def fail(self, failure):
        """Sets the error and returns True; returns False if a result or error was set before."""
        if not self.take(None, failure):
            return False
        release_all([self])
        return True

    def add_done_callback(self, callback):
        """Calls the callback with this object as soon as the result is set, or at once if it is set already.

        If the result is not set yet, the thread that sets it will call the callback, and hold no lock meanwhile.  The
        callback must not wait.  Its exceptions are logged.
        """
        cdef list fresh = []
        if not self.finished:
            if self.callbacks is None:
                self.callbacks = fresh
            self.callbacks.append(callback)
            return
        call_back(callback, self)

    def result(self, timeout=None):
        """Waits at most `timeout` seconds for the result, and returns it or raises the error.

        Raises:
            CommitTimeoutError: the result was not set in time; it may still be set later.
            InvalidArgumentError: the timeout is negative or not a number.
        """
        if not self.finished:
            self.wait(timeout)
        if self.failure is not None:
            # Otherwise every call would extend the traceback of the call before.
            raise self.failure.with_traceback(None)
        return self.value()

    cdef int wait(self, object timeout) except -1:
        cdef int64_t timeout_ms = take_timeout(timeout)
        cdef object event
        if timeout_ms != 0:
            event = threading.Event()
            if self.finished:
                return 0
            if self.waiting is None:
                self.waiting = event
            event = self.waiting
            if timeout_ms < 0:
                event.wait()
            else:
                event.wait(min(timeout_ms / 1000.0, threading.TIMEOUT_MAX))
        if not self.finished:
            raise CommitTimeoutError(f"no answer within {timeout} s; the call may still take effect")
        return 0

    def __await__(self):
        """Waits for the result in the running event loop, without blocking the loop."""
        cdef Answered answered
        cdef object future
        cdef list fresh
        if not self.finished:
            future = running_loop().create_future()
            fresh = [future]
            if not self.finished:
                if self.futures is None:
                    self.futures = fresh
                    self.futures_checked = FUTURES_UNCHECKED
                else:
                    self.futures.append(future)
                    if len(self.futures) > self.futures_checked:
                        self.drop_cancelled()
                return future.__await__()
        answered = Answered.__new__(Answered)
        answered.failure = self.failure
        answered.result = None if self.failure is not None else self.value()
        return answered

    cdef int drop_cancelled(self) except -1:
        # A caller may wait again and again with short timeouts, so the futures that it cancelled are dropped.
        cdef list before = self.futures
        cdef list kept = [future for future in before if not future.done()]
        if self.futures is before:  # otherwise it was answered meanwhile
            self.futures = kept
            self.futures_checked = 2 * len(kept) + FUTURES_UNCHECKED
        return 0


cdef int call_back(object callback, Completion answer) except -1:
    try:
        callback(answer)
    except Exception:
        _log.exception("a callback of %r failed", answer)
    return 0


def settle_futures(list pairs):
    """Completes the futures of one event loop, on its thread.

    In the list, the Completion of each future follows the future.
    """
    cdef Completion answer
    cdef Py_ssize_t at
    for at in range(0, len(pairs), 2):
        future = pairs[at]
        answer = pairs[at + 1]
        if future.done():
            continue  # cancelled
        if answer.failure is not None:
            future.set_exception(answer.failure)
        else:
            future.set_result(answer.value())


cdef int release_all(list answered) except -1:
    cdef Completion answer
    cdef dict by_loop = {}
    cdef list callbacks
    cdef list futures
    cdef object interrupt = None
    for answer in answered:
        callbacks, answer.callbacks = answer.callbacks, None
        futures, answer.futures = answer.futures, None
        try:
            if futures is not None:
                for future in futures:
                    by_loop.setdefault(future.get_loop(), []).extend((future, answer))
            if answer.waiting is not None:
                answer.waiting.set()
            if callbacks is not None:
                for callback in callbacks:
                    call_back(callback, answer)
        except BaseException as raised:
            # After an interrupt or an exit, the other futures still get their answers.
            interrupt = raised
    for loop, pairs in by_loop.items():
        try:
            loop.call_soon_threadsafe(settle_futures, pairs)
        except RuntimeError:
            continue  # the loop is closed: no task waits any more
    if interrupt is not None:
        raise interrupt
    return 0
