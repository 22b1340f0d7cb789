"""The writes that wait for the high watermark W or for the disk.

They wait in two lists for each partition, and need no thread.

Each write has a deadline and a term.  The term ends when the leadership ends or the log is truncated.  A write leaves
its list when it is completed.  A flush completes it, or a move of W, or the end of its term, or its deadline.  All
writes of a list share one timer, so no timer must be cancelled when a write completes.
"""

cimport cython
from libc.math cimport INFINITY
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

import copy

from offsetlog._native.completion cimport Completion, release_all
from offsetlog._native.csrc cimport (
    OL_OK,
    OL_WAIT_FLUSHED,
    OL_WAIT_WATERMARK,
    OL_WOULD_BLOCK,
    ol_error,
    ol_partition_try_wait,
)
from offsetlog._native.partition cimport Partition
from offsetlog._native.status cimport check as check_status
from offsetlog._native.tickets cimport new_position

from offsetlog.errors import CommitTimeoutError, NotCoordinatorError

# The pause between two checks of a list's deadlines, and its increase for each write, in seconds: a check reads all writes.
cdef double LOOK_SECONDS = 0.01
cdef double LOOK_SECONDS_A_WRITE = 2e-7


@cython.final
cdef class PendingWrite(Completion):
    """A commit, delete or fence that is not durable yet; the calls whose names end in `_async` return it."""

    def __init__(self):
        raise TypeError("PendingWrite cannot be created directly; it comes from an asynchronous call")

    def __repr__(self):
        state = "answered" if self.finished else "waiting"
        return f"<PendingWrite {self.position} {state}>"

    @property
    def position(self):
        """The Position of the last record of the write; its log offset is -1 if nothing was written."""
        return new_position(self.number, self.end_offset if self.refusal is None and self.count != 0 else 0)

    cdef object value(self):
        return new_position(self.number, self.end_offset) if self.count < 0 else self.count


cdef PendingWrite new_write(int32_t number, Partition owner, int64_t end_offset, uint64_t term, int64_t count):
    cdef PendingWrite write = PendingWrite.__new__(PendingWrite)
    write.number = number
    write.owner = owner
    write.end_offset = end_offset
    write.term = term
    write.count = count
    return write


@cython.final
cdef class Parking:
    """The writes to one partition that wait for the same event.  Any thread may use the object.

    Args:
        replicated: whether the writes wait until they are replicated; if not, they wait for the disk.
        now: returns the time in seconds.
        call_later: a function that arranges a call of another function after a number of seconds.  It returns a timer,
            which can be cancelled.
    """

    def __init__(self, bint replicated, now, call_later):
        self.what = OL_WAIT_WATERMARK if replicated else OL_WAIT_FLUSHED
        self.writes = []
        self.now = now
        self.call_later = call_later
        self.armed = INFINITY

    def __len__(self):
        return len(self.writes)

    # ---------------------------------------------------------------------------------------------------- parking

    cdef int park(self, PendingWrite write, int64_t timeout_ms) except -1:
        # The awaited flush may have finished already; the caller therefore calls `settle_one` or orders a flush.
        write.timeout_ms = timeout_ms
        write.deadline = INFINITY if timeout_ms < 0 else <double>self.now() + timeout_ms / 1000.0
        if self.closed:
            write.fail(NotCoordinatorError(
                "the manager was stopped before the write was known to be durable; the write may still take effect"))
            return 0
        self.insert(write)
        if write.deadline < self.armed:
            try:
                self.arm(write.deadline)
            except Exception as failure:
                write.fail(failure)  # it is written, so the call must not raise
        return 0

    cdef void insert(self, PendingWrite write):
        # The place is nearly always the end, because writes arrive out of order only from different threads.
        cdef Py_ssize_t at = len(self.writes)
        while at > 0 and (<PendingWrite>self.writes[at - 1]).end_offset > write.end_offset:
            at -= 1
        self.writes.insert(at, write)

    cdef bint order_flush(self) noexcept:
        # Returns whether a flush must be ordered; an ordered flush that has not begun covers everything written so far.
        if self.flush_ordered:
            return False
        self.flush_ordered = True
        return True

    def wants_flush(self):
        """Returns True unless a flush is ordered already.  The caller must then order one; it counts as ordered."""
        return self.order_flush()

    def begin_flush(self):
        """Records that the ordered flush is beginning.  Later writes need another flush."""
        self.flush_ordered = False

    # -------------------------------------------------------------------------------------------------- answering

    cdef int check(self, PendingWrite write) except -1:
        # Returns whether the write continues to wait; otherwise it has its answer, and the caller calls `release_all`.
        cdef ol_error error
        cdef int status
        if write.finished:
            return False
        if write.owner.handle == NULL:
            if self.what == OL_WAIT_FLUSHED and write.owner.is_flushed(write.end_offset, write.term):
                write.take(None, None)
            else:
                write.take(None, NotCoordinatorError("the partition was closed before the write was known to be durable"))
            return False
        status = ol_partition_try_wait(write.owner.handle, write.end_offset, write.term, self.what, &error)
        if status == OL_WOULD_BLOCK:
            return True
        if status == OL_OK:
            write.take(None, write.refusal)
            return False
        try:
            check_status(status, &error)
        except Exception as failure:
            write.take(None, failure)
        return False

    cdef list taken(self, int64_t reached):
        # Takes out the writes that end at or below a log offset.
        cdef list found = []
        cdef list writes = self.writes
        cdef Py_ssize_t count = 0
        while count < len(writes) and (<PendingWrite>writes[count]).end_offset <= reached:
            found.append(writes[count])
            count += 1
        del writes[:count]
        return found

    def settle(self, int64_t reached=INT64_MAX):
        """Completes the writes that end at or below a log offset.

        Fails those whose term has ended or whose log has failed.

        A write whose wait is not over stays in the list.  If no log offset is passed, all writes are checked.
        """
        cdef PendingWrite write
        cdef list found = self.taken(reached)
        cdef list answered = []
        cdef Py_ssize_t at = 0
        try:
            while at < len(found):
                write = found[at]
                if self.check(write):
                    self.insert(write)
                else:
                    answered.append(write)
                at += 1
        finally:
            # After an interrupt, the remaining writes continue to wait.
            while at < len(found):
                self.insert(found[at])
                at += 1
            if answered:
                release_all(answered)

    cdef int settle_one(self, PendingWrite write) except -1:
        # The awaited flush may have finished before the write was parked.
        if not self.check(write):
            self.settle(write.end_offset)
        return 0

    def refuse(self, failure, int64_t reached=INT64_MAX):
        """Fails the writes that end at or below a log offset, oldest first.

        Each write gets its own copy of the exception.
        """
        cdef PendingWrite write
        cdef list found = self.taken(reached)
        for write in found:
            write.take(None, own_failure(failure))
        release_all(found)

    def close(self, failure):
        """Fails all writes.  A write that is parked afterwards fails at once with NotCoordinatorError."""
        self.closed = True
        self.refuse(failure)

    # -------------------------------------------------------------------------------------------------- deadlines

    cdef int arm(self, double deadline) except -1:
        # The thread that sets `armed` starts a timer; one that fires too early only checks.
        if deadline >= self.armed:
            return 0
        self.armed = deadline
        timer, self.timer = self.timer, None
        try:
            if timer is not None:
                timer.cancel()
            self.timer = self.call_later(max(0.0, deadline - <double>self.now()), self.time_out)
        except BaseException:
            self.armed = INFINITY
            raise
        return 0

    def time_out(self):
        """Fails, with CommitTimeoutError, the writes whose deadline has passed.  Their records stay in the log."""
        cdef PendingWrite write
        cdef list late = []
        cdef list kept = []
        cdef double now
        cdef double next_deadline = INFINITY
        self.armed = INFINITY
        now = self.now()
        for write in self.writes:
            if write.deadline <= now:
                late.append(write)
            else:
                kept.append(write)
                next_deadline = min(next_deadline, write.deadline)
        if late:
            self.writes = kept
        try:
            # The timer is armed first, because a callback may take long.
            if next_deadline < INFINITY:
                self.arm(max(next_deadline, now + LOOK_SECONDS + len(kept) * LOOK_SECONDS_A_WRITE))
        finally:
            # These have been removed from the list.
            for write in late:
                write.take(None, CommitTimeoutError(late_text(write)))
            release_all(late)


cdef str late_text(PendingWrite write):
    record = f"the record at log offset {write.end_offset - 1} of log partition {write.number}"
    seconds = f"{write.timeout_ms / 1000.0:g} s"
    if write.refusal is not None:
        return f"the call depends on {record}, which was not replicated within {seconds}; the call wrote nothing"
    if write.count == 0:
        return f"the call waited for {record}, which was not durable within {seconds}; the call wrote nothing"
    return f"{record} was not durable within {seconds}; it stays in the log, and may still take effect"


cdef object own_failure(failure):
    # If several threads raised the same exception object, it would collect the tracebacks of all.
    try:
        return copy.copy(failure)
    except Exception:
        return failure
