"""Snapshots of a partition's state (csrc/snapshot/snapshot.h), which are being made or were opened from a file."""

import os

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from offsetlog._native.csrc cimport (
    OL_INVALID,
    OL_LIMIT,
    OL_OK,
    OL_OPEN_CREATE,
    OL_SNAPSHOT_DIRECTORY_SIZE,
    OL_SNAPSHOT_FILE,
    OL_SNAPSHOT_SECTIONS,
    OL_SNAPSHOT_VERSION,
    OL_TERM_NOW,
    OL_WAIT_FLUSHED,
    atomic_flag_value,
    ol_digest,
    ol_error,
    ol_file,
    ol_fs,
    ol_hash128,
    ol_log_size_bytes,
    ol_partition,
    ol_partition_load_from,
    ol_partition_lock_applied,
    ol_partition_log,
    ol_partition_positions,
    ol_partition_snapshot_advance,
    ol_partition_snapshot_begin,
    ol_partition_snapshot_borrow,
    ol_partition_snapshot_check,
    ol_partition_snapshot_copy,
    ol_partition_snapshot_discarded,
    ol_partition_snapshot_offset,
    ol_partition_snapshot_publish,
    ol_partition_snapshot_remove,
    ol_partition_snapshot_tail_bytes,
    ol_partition_wait,
    ol_positions,
    ol_snapshot,
    ol_snapshot_destroy,
    ol_snapshot_digest,
    ol_snapshot_facts,
    ol_snapshot_is_copied,
    ol_snapshot_open,
    ol_snapshot_put_directory,
    ol_snapshot_report,
    ol_snapshot_seal,
    ol_snapshot_section,
    ol_snapshot_state,
    ol_pair_name,
    ol_partition_lock_state,
    ol_partition_unlock_state,
    ol_position_value,
    ol_state,
    ol_state_memory_usage,
    ol_table_cursor,
    ol_table_get,
    ol_table_group_hash,
    ol_table_name,
    ol_table_next,
    ol_table_row,
)
from offsetlog._native.buffers cimport text_of
from offsetlog._native.files cimport FileSystem
from offsetlog._native.partition cimport Partition
from offsetlog._native.status cimport check, raise_interrupt

from offsetlog.errors import ClosedError, InternalError

#: The name of the snapshot file in a partition's directory.
FILE_NAME = (<bytes>OL_SNAPSHOT_FILE).decode("ascii")
#: The alignment of sections that are mapped.
VERSION = OL_SNAPSHOT_VERSION
DIRECTORY_SIZE = OL_SNAPSHOT_DIRECTORY_SIZE


cdef object _whole(ol_hash128 value):
    return (int(value.high) << 64) | int(value.low)


cdef class StopFlag:
    """Stops the thread that makes a snapshot.  Any thread may call `set`."""

    def set(self):
        """Asks the thread that makes a snapshot to stop soon."""
        self.asked = True

    def is_set(self):
        """Returns whether `set` was called."""
        return bool(self.asked)


cdef bint _is_known(Partition partition, const ol_table_row *row, bint or_same):
    # One row at a time, because no object may be created under the table's lock.  Returns nothing for a failed partition.
    cdef const ol_state *state
    cdef ol_error error
    cdef ol_pair_name name
    cdef ol_position_value value
    cdef bint found
    if ol_partition_lock_state(partition.handle, &state, &error) != OL_OK:
        return False
    name = ol_table_name(state.table, row.group, ol_table_group_hash(state.table, row.group), row.topic)
    found = ol_table_get(state.table, &name, row.partition, &value)
    ol_partition_unlock_state(partition.handle)
    if not found:
        return False
    return value.log_offset > row.value.log_offset or (or_same and value.log_offset == row.value.log_offset)


cdef class Snapshot:
    """The state of a partition at a log offset.  One thread at a time may use it.

    A snapshot is made by one of four functions.  `begin` creates a second, empty state, and `advance` applies the log
    to it up to a log offset.  `copy` copies the partition's own state while commits continue.  `borrow` uses the
    partition's own state while the partition is being closed.  `open_file` reads a file.  `seal` then returns the
    sections to write.  After `load`, the snapshot cannot be used again.
    """

    def __cinit__(self):
        self.handle = NULL
        self.sections = NULL

    def __init__(self):
        raise TypeError("Snapshot cannot be created directly; use begin, copy, borrow or open_file")

    def __dealloc__(self):
        ol_snapshot_destroy(self.handle)
        free(self.sections)

    cdef int need(self) except -1:
        if self.handle == NULL:
            raise InternalError("the snapshot was loaded into a partition and cannot be used again")
        return 0

    cdef int need_state(self) except -1:
        # A copy has everything outside the table only as bytes of its file.
        self.need()
        if ol_snapshot_is_copied(self.handle):
            raise InternalError("a copied snapshot can only be sealed and published; for anything else, open its file")
        return 0

    def facts(self):
        """Returns the snapshot's log offset and log start, its largest timestamp, and counts, as a dictionary."""
        cdef ol_snapshot_facts facts
        self.need()
        ol_snapshot_report(self.handle, &facts)
        return {
            "offset": facts.offset,
            "log_start": facts.log_start,
            "max_timestamp": facts.max_timestamp,
            "positions": facts.positions,
            "pending": facts.pending,
            "group_records": facts.group_records,
        }

    def digest(self, bint physical=False):
        """Returns the digests of positions, group records and pending positions, as Partition.digest does.

        Raises:
            InternalError: the snapshot is a copy.
        """
        cdef ol_digest digest
        self.need_state()
        with nogil:
            ol_snapshot_digest(self.handle, physical, &digest)
        return _whole(digest.positions), _whole(digest.group_records), _whole(digest.pending)

    def positions_between(self, int64_t first, int64_t below, Py_ssize_t limit, Partition beside not None,
                          bint or_same=False):
        """Returns at most `limit` positions that were committed at log offsets in [first, below), sorted.

        A position is omitted if the loaded partition `beside` has a later commit of it.  With `or_same`, it is also
        omitted if `beside` has the same commit.  Each position is (group, topic, partition, offset, leader epoch or -1,
        metadata, commit timestamp, log offset).
        """
        cdef const ol_state *state
        cdef ol_table_cursor cursor
        cdef ol_table_row row
        cdef list positions = []
        self.need()
        state = ol_snapshot_state(self.handle)
        memset(&cursor, 0, sizeof(cursor))
        while len(positions) < limit and ol_table_next(state.table, &cursor, &row):
            if first <= row.value.log_offset < below and not _is_known(beside, &row, or_same):
                positions.append((
                    text_of(row.group.data, row.group.size),
                    text_of(row.topic.data, row.topic.size),
                    row.partition,
                    row.value.offset,
                    row.value.leader_epoch,
                    text_of(row.value.metadata.data, row.value.metadata.size),
                    row.value.commit_timestamp,
                    row.value.log_offset,
                ))
        positions.sort()
        return positions

    def advance(self, Partition partition not None, int64_t up_to, StopFlag stop=None):
        """Applies the records of the log up to a log offset that is flushed and committed.  Does not hold the GIL.

        Raises:
            CorruptionError: the log is damaged, or lacks records that follow the state that was read from a file.
            ClosedError: `stop` was set.  StorageError, CapacityError.
            InternalError: the snapshot is a copy.

        Returns:
            True, or False if the log was cleaned or truncated during the call.  After False the snapshot cannot be
            used, and the caller must begin another one.
        """
        cdef ol_error error
        cdef const atomic_flag_value *asked = NULL
        cdef int status
        self.need_state()
        if stop is not None:
            asked = &stop.asked
        partition.enter()
        try:
            with nogil:
                status = check(ol_partition_snapshot_advance(partition.handle, self.handle, up_to, asked, &error), &error)
        finally:
            partition.leave()
        return status == 0

    def check(self, Partition partition not None, int64_t cleaned_to=-1):
        """Returns the reason why the snapshot cannot be used with the partition's present log; None if it can."""
        cdef ol_error error
        cdef int status
        self.need()
        partition.enter()
        try:
            with nogil:
                status = ol_partition_snapshot_check(partition.handle, self.handle, cleaned_to, &error)
            if status == OL_INVALID:
                return (<bytes>error.reason).decode("utf-8", "replace")
            check(status, &error)
            return None
        finally:
            partition.leave()

    def load(self, Partition partition not None):
        """Loads the partition from this snapshot.  The snapshot cannot be used afterwards.

        Returns:
            None, or the reason why the snapshot was not used; in that case the whole state was loaded from the log.

        Raises:
            StorageError, CapacityError: the partition has failed.
            InternalError: the snapshot is a copy.
        """
        cdef ol_error error
        cdef ol_snapshot *handle
        self.need_state()
        partition.enter()
        try:
            handle = self.handle
            self.handle = NULL
            with nogil:
                check(ol_partition_load_from(partition.handle, handle, &error), &error)
            raise_interrupt()
            if ol_partition_snapshot_discarded(partition.handle, &error):
                return (<bytes>error.reason).decode("utf-8", "replace")
            return None
        finally:
            partition.leave()

    def seal(self, unsigned threads=1):
        """Encodes the state; returns (name, address, size) of each section to write.

        The bytes at [address, address + size) stay valid as long as this Snapshot exists.
        """
        cdef ol_error error
        cdef int index
        self.need()
        if self.sections == NULL:
            self.sections = <ol_snapshot_section *>calloc(OL_SNAPSHOT_SECTIONS, sizeof(ol_snapshot_section))
            if self.sections == NULL:
                raise MemoryError
        with nogil:
            check(ol_snapshot_seal(self.handle, threads, self.sections, &error), &error)
        return [
            (
                (<bytes>self.sections[index].name).decode("ascii"),
                <uintptr_t>self.sections[index].data,
                self.sections[index].size,
            )
            for index in range(OL_SNAPSHOT_SECTIONS)
        ]

    def directory(self, list positions not None):
        """Returns the list of the sections, encoded as in a snapshot file.

        `positions` has the position of each section in the file.
        """
        cdef int index
        if self.sections == NULL or len(positions) != OL_SNAPSHOT_SECTIONS:
            raise InternalError("a snapshot must be sealed before its list of sections is made")
        for index in range(OL_SNAPSHOT_SECTIONS):
            self.sections[index].position = positions[index]
        content = PyBytes_FromStringAndSize(NULL, OL_SNAPSHOT_DIRECTORY_SIZE)
        ol_snapshot_put_directory(self.sections, <uint8_t *><char *>content)
        return content

    def publish(self, Partition partition not None, temporary):
        """Makes a file the snapshot of the partition.  The file must have been written and flushed.

        Returns False, and does not use the file, if the log was truncated or the leadership ended after the snapshot
        was begun, or if the log is not flushed up to the snapshot's log offset.
        """
        cdef bytes name = os.fsencode(temporary)
        cdef const char *text = name
        cdef ol_error error
        cdef ol_partition *handle
        cdef int status
        self.need()
        if self.lender is not None:
            handle = _lent(partition)
            with nogil:
                status = check(ol_partition_snapshot_publish(handle, self.handle, text, &error), &error)
            return status == 0
        partition.enter()
        try:
            with nogil:
                status = check(ol_partition_snapshot_publish(partition.handle, self.handle, text, &error), &error)
        finally:
            partition.leave()
        return status == 0


cdef ol_partition *_lent(Partition partition) except NULL:
    # Allowed only for a partition that is about to close: every call has ended, and none can begin.
    if partition.handle == NULL or not partition.closing or partition.in_flight > 0:
        raise ClosedError("the state of a partition can be borrowed only while the partition is being closed")
    return partition.handle


cdef Snapshot _owning(ol_snapshot *handle):
    cdef Snapshot snapshot = Snapshot.__new__(Snapshot)
    snapshot.handle = handle
    return snapshot


def begin(Partition partition not None):
    """Returns a Snapshot at the log start, before any replay."""
    cdef ol_snapshot *handle = NULL
    cdef ol_error error
    partition.enter()
    try:
        check(ol_partition_snapshot_begin(partition.handle, &handle, &error), &error)
    finally:
        partition.leave()
    return _owning(handle)


def borrow(Partition partition not None):
    """Flushes the log of a partition, and returns a Snapshot of the partition's own state at its log end.

    `Partition.close` calls this function just before it closes the partition.  No other call may use the partition in
    between.
    """
    cdef ol_partition *lent = _lent(partition)
    cdef ol_snapshot *handle = NULL
    cdef ol_positions positions
    cdef ol_error error
    cdef Snapshot snapshot
    ol_partition_positions(lent, &positions)
    with nogil:
        check(ol_partition_wait(lent, positions.written, OL_TERM_NOW, OL_WAIT_FLUSHED, -1, &error), &error)
        check(ol_partition_snapshot_borrow(lent, &handle, &error), &error)
    snapshot = _owning(handle)
    snapshot.lender = partition
    return snapshot


def copy(Partition partition not None, StopFlag stop=None):
    """Copies a partition's own state at its log end.

    Commits continue; the call makes no flush, and does not hold the GIL.

    Returns:
        The Snapshot, or None if the snapshot must be made from the log instead.  This is the case if

        * the partition is not active, is a replica, has problems or is being copied already,
        * the log of the partition is being cleaned or truncated,
        * a copy of the table would delay commits by more than a few milliseconds.

    Raises:
        ClosedError: `stop` was set, or the partition is closed.  StorageError, CapacityError.
    """
    cdef ol_snapshot *handle = NULL
    cdef ol_error error
    cdef const atomic_flag_value *asked = NULL
    cdef int status
    if stop is not None:
        asked = &stop.asked
    partition.enter()
    try:
        with nogil:
            status = ol_partition_snapshot_copy(partition.handle, asked, &handle, &error)
            if status != OL_INVALID and status != OL_LIMIT:
                check(status, &error)
    finally:
        partition.leave()
    return _owning(handle) if handle != NULL else None


def open_file(FileSystem fs not None, path, unsigned threads=1):
    """Returns the Snapshot in a file.

    Raises:
        MissingFileError: the file does not exist.  CorruptionError, UnsupportedVersionError: the snapshot cannot be
            used.  StorageError, CapacityError.
    """
    cdef bytes name = os.fsencode(path)
    cdef const char *text = name
    cdef ol_snapshot *handle = NULL
    cdef ol_error error
    with nogil:
        check(ol_snapshot_open(fs.fs, text, threads, &handle, &error), &error)
    return _owning(handle)


def remove(Partition partition not None):
    """Removes the partition's snapshot durably; does nothing if there is none."""
    cdef ol_error error
    partition.enter()
    try:
        with nogil:
            check(ol_partition_snapshot_remove(partition.handle, &error), &error)
    finally:
        partition.leave()


def file_offset(Partition partition not None):
    """Returns the log offset of the latest snapshot that the partition has loaded or written; -1 if there is none."""
    partition.enter()
    try:
        return ol_partition_snapshot_offset(partition.handle)
    finally:
        partition.leave()


cdef struct _Tail:
    int64_t tail_bytes
    int64_t snapshot_bytes
    int64_t log_bytes


cdef void _measure(ol_partition *partition, _Tail *found) noexcept nogil:
    cdef const ol_state *state
    cdef ol_error error
    found.snapshot_bytes = -1
    if ol_partition_lock_applied(partition, &state, &error) == OL_OK:
        # A snapshot holds the table's arenas as they are in memory.
        found.snapshot_bytes = <int64_t>ol_state_memory_usage(state)
        ol_partition_unlock_state(partition)
    found.tail_bytes = ol_partition_snapshot_tail_bytes(partition)
    found.log_bytes = ol_log_size_bytes(ol_partition_log(partition))


def tails(list partitions not None):
    """Measures several logs in one call, without the GIL.

    For each log, the result has three numbers, or None if the partition is closed:

    * an estimate of the bytes that a load would read now,
    * an estimate of the bytes of a snapshot; -1 if nothing is loaded,
    * the bytes of the log.
    """
    cdef Py_ssize_t count = len(partitions)
    cdef Py_ssize_t index
    cdef Partition partition
    cdef list entered = []
    cdef ol_partition **handles = <ol_partition **>calloc(count + 1, sizeof(ol_partition *))
    cdef _Tail *found = <_Tail *>calloc(count + 1, sizeof(_Tail))
    try:
        if handles == NULL or found == NULL:
            raise MemoryError
        for index in range(count):
            partition = <Partition?>partitions[index]
            if partition is None:
                raise TypeError("a partition must not be None")
            try:
                partition.enter()
            except ClosedError:
                continue
            entered.append(partition)
            handles[index] = partition.handle
        with nogil:
            for index in range(count):
                if handles[index] != NULL:
                    _measure(handles[index], &found[index])
        return [
            (found[index].tail_bytes, found[index].snapshot_bytes, found[index].log_bytes)
            if handles[index] != NULL else None
            for index in range(count)
        ]
    finally:
        for partition in entered:
            partition.leave()
        free(handles)
        free(found)


@cython.no_gc_clear  # an open file is closed through its file system
cdef class OutputFile:
    """A new file into which pyarrow writes bytes without copying them.  One thread at a time may use it."""

    cdef FileSystem owner
    cdef ol_file *file
    cdef readonly int64_t size

    def __cinit__(self):
        self.file = NULL

    def __init__(self, FileSystem owner not None, path):
        """Creates the file; if it exists already, empties it."""
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef ol_error error
        self.owner = owner
        self.size = 0
        with nogil:
            check(owner.fs.open(owner.fs, text, OL_OPEN_CREATE, &self.file, &error), &error)
            check(owner.fs.truncate(self.file, 0, &error), &error)

    def __dealloc__(self):
        if self.file != NULL:
            self.owner.fs.close(self.file)

    @property
    def closed(self):
        """Whether the file was closed."""
        return self.file == NULL

    def tell(self):
        """Returns the number of bytes written so far."""
        return self.size

    def write(self, data):
        """Writes bytes, or any object with a buffer, at the end of the file; returns the number of bytes."""
        cdef Py_buffer view
        cdef ol_error error
        if self.file == NULL:
            raise ValueError("the file is closed")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            with nogil:
                check(self.owner.fs.write(self.file, self.size, view.buf, <size_t>view.len, &error), &error)
            self.size += view.len
            return view.len
        finally:
            PyBuffer_Release(&view)

    def flush(self):
        """Does nothing, because the object buffers no bytes; `sync` waits for the disk."""

    def sync(self):
        """Waits until all written bytes are on disk."""
        cdef ol_error error
        if self.file == NULL:
            raise ValueError("the file is closed")
        with nogil:
            check(self.owner.fs.flush(self.file, &error), &error)

    def close(self):
        """Closes the file; a second call does nothing."""
        cdef ol_file *file = self.file
        self.file = NULL
        if file != NULL:
            self.owner.fs.close(file)
