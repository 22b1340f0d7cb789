"""Tickets of commits that become durable later, and the flushes that make the commits durable."""

cimport cython
from libc.stdint cimport int32_t, int64_t

from offsetlog._native.buffers cimport new_named_tuple, set_item, take_timeout
from offsetlog._native.csrc cimport (
    OL_FLUSHER_THREADS,
    OL_TERM_NOW,
    OL_WAIT_FLUSHED,
    ol_error,
    ol_flusher,
    ol_flusher_abandon,
    ol_flusher_begin,
    ol_flusher_create,
    ol_flusher_stop,
    ol_log_end,
    ol_partition,
    ol_partition_is_behind,
    ol_partition_log,
)
from offsetlog._native.partition cimport Partition
from offsetlog._native.status cimport check

from offsetlog.errors import ConfigError, OffsetLogError
from offsetlog.types import Position

cdef type POSITION = Position

cdef enum:
    BEGUN_TOGETHER = 64         # how many partitions one call of the flusher begins


cdef int durability_of(object value, durability_kind default) except -1:
    if value is None:
        return default
    if value == "process":
        return DURABILITY_PROCESS
    if value == "disk":
        return DURABILITY_DISK
    if value == "replicas":
        raise ConfigError('durability "replicas" needs a replicated partition; this store supports "process" and "disk"')
    raise ConfigError(f'durability must be "process" or "disk", not {value!r}')


def check_durability(value):
    """Raises ConfigError if the durability is unknown."""
    durability_of(value, DURABILITY_DISK)


cdef object new_position(int32_t number, int64_t end_offset):
    position = new_named_tuple(POSITION, 2)
    set_item(position, 0, number)
    set_item(position, 1, end_offset - 1)
    return position


@cython.no_gc_clear  # the partitions stay until the threads have ended
cdef class Flushes:
    """The partitions of a store that are waiting for a flush, and the threads that flush them.

    The GIL protects this object.

    Args:
        waiter: a function that takes a ticket, and returns an awaitable that ends when the ticket is durable or has
            failed.
        background: whether background threads make the flushes.  If not, a thread that waits for a flush makes the
            flush.
    """

    def __cinit__(self):
        self.threads = NULL

    def __init__(self, waiter, bint background):
        cdef ol_error error
        if self.wanted is not None:
            raise ValueError("the flushes have been initialized already")
        self.wanted = []
        self.begun = []
        self.waiter = waiter
        if background:
            check(ol_flusher_create(&self.threads, &error), &error)

    def __dealloc__(self):
        self.stop()

    cdef int want(self, Partition partition) except -1:
        self.wanted.append(partition)
        partition.wanted = True
        return 0

    cdef int begin(self, list partitions) except -1:
        # Returns at once.  Without threads, the caller that waits makes the flush.
        cdef ol_partition *handles[BEGUN_TOGETHER]
        cdef size_t count = 0
        cdef Partition partition
        if self.threads == NULL:
            return 0
        for partition in partitions:
            if partition.handle == NULL or partition.refusal is not None:
                continue
            if not partition.begun:
                self.begun.append(partition)
                partition.begun = True
            if count == BEGUN_TOGETHER:
                ol_flusher_begin(self.threads, handles, count)
                count = 0
            handles[count] = partition.handle
            count += 1
        if count > 0:
            ol_flusher_begin(self.threads, handles, count)
        return 0

    cdef int begin_wanted(self, Partition except_for) except -1:
        # Begins the flushes of all tickets that have none; a caller that waits for one partition flushes that one itself.
        cdef Partition partition
        cdef list wanted = self.wanted
        self.wanted = []
        for partition in wanted:
            partition.wanted = False
        return self.begin([partition for partition in wanted if partition is not except_for])

    def flush(self, partitions):
        """Waits until all records written to the partitions so far are on disk.

        If a flush fails, the other partitions are still flushed; then the first failure is raised.
        """
        cdef Partition partition
        cdef list waits = []
        failure = None
        for partition in partitions:
            if partition.writable and partition.handle != NULL:
                waits.append((partition, ol_log_end(ol_partition_log(partition.handle))))
        self.begin([partition for partition, _ in waits])
        for partition, end_offset in waits:
            try:
                partition.wait_for(end_offset, OL_TERM_NOW, OL_WAIT_FLUSHED, -1)
            except OffsetLogError as raised:
                # The other partitions are flushed in spite of the failure.
                failure = failure or raised
        if failure is not None:
            raise failure

    cdef void stop(self) noexcept:
        # Called before the partitions are closed.
        cdef ol_flusher *threads = self.threads
        self.threads = NULL
        if threads != NULL:
            with nogil:
                ol_flusher_stop(threads)

    cdef void forget(self) noexcept:
        # Called in a forked child, which does not have these threads.
        if self.threads != NULL:
            ol_flusher_abandon(self.threads)
        self.threads = NULL


@cython.no_gc  # its references lead back to it only while a task awaits it
@cython.freelist(1024)
cdef class Ticket:
    """A commit that has been written and becomes durable later.  `commit_async` returns it.  Any thread may use it.

    A flush starts when a caller waits with `result` or `await`, or calls `flush` of the store; without such a call, the
    store flushes every `flush_interval_ms`.  The first wait starts the flushes for all tickets.  If the ticket is
    durable already, a call of `result` can start the flush for later tickets.
    """

    def __init__(self):
        raise TypeError("Ticket cannot be created directly; it comes from commit_async")

    def __repr__(self):
        state = "durable" if self.done() else "not yet durable"
        return f"<Ticket log_partition={self.owner.number} log_offset={self.end_offset - 1} {state}>"

    @property
    def position(self):
        """The Position of the commit."""
        return new_position(self.owner.number, self.end_offset)

    def done(self):
        """Returns whether the commit has the durability that the caller requested."""
        return self.durability == DURABILITY_PROCESS or self.owner.is_flushed(self.end_offset, self.term)

    def result(self, timeout=None):
        """Waits until the commit is durable, and returns its Position.  Many waiting callers share one flush.

        Args:
            timeout: how long the call waits for a flush that another caller began, in seconds; None or infinity for no
                limit.  If no flush is running, this call makes one itself, which can take longer.

        Raises:
            CommitTimeoutError: the commit did not become durable in time; it may still become durable.
            InvalidArgumentError: the timeout is negative or not a number.
            PartitionFailedError: the flush failed, and it is unknown whether the commit is on disk.
            ClosedError: the store was closed before this commit reached the disk.
        """
        cdef Partition partition
        cdef int64_t timeout_ms = -1 if timeout is None else take_timeout(timeout)
        if self.durability == DURABILITY_PROCESS:
            pass
        elif self.owner.is_flushed(self.end_offset, self.term):
            # A caller that commits between the waits for its tickets should not wait for the next flush either, so the flush
            # begins early.  With more partitions than threads, flushes take turns and are faster with full batches.
            partition = self.owner
            if partition.wanted and len(self.flushes.wanted) <= OL_FLUSHER_THREADS and partition.handle != NULL:
                if ol_partition_is_behind(partition.handle, self.end_offset):
                    self.flushes.begin_wanted(None)
        else:
            self.flushes.begin_wanted(self.owner)
            self.owner.wait_for(self.end_offset, self.term, OL_WAIT_FLUSHED, timeout_ms)
        return new_position(self.owner.number, self.end_offset)

    def __await__(self):
        if not self.done():
            yield from self.flushes.waiter(self).__await__()
        return self.result(0)
