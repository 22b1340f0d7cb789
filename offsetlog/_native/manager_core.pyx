"""The hot path of an offset manager: commits that wait for the disk or for W, and W itself.

The rules are those of store_core.  A partition that has no slot has no directory, or is led by another process: the owner of
the core's partitions says which.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint64_t

from cpython.object cimport PyObject
from cpython.dict cimport PyDict_Next

from offsetlog._native.buffers cimport NAME_GROUP, item_array, take_name, take_timeout
from offsetlog._native.commit_items cimport own_dictionary, start_item, take_key, take_value
from offsetlog._native.csrc cimport (
    OL_ITEM_POSITION_TOMBSTONE,
    OL_WAIT_FLUSHED,
    OL_WAIT_WATERMARK,
    ol_commit_result,
    ol_error,
    ol_partition_fence,
    ol_slice,
)
from offsetlog._native.partition cimport Partition
from offsetlog._native.quotas cimport Quotas
from offsetlog._native.replica cimport Replica
from offsetlog._native.status cimport check
from offsetlog._native.store_core cimport StoreCore, commit_named
from offsetlog._native.tickets cimport new_position

from offsetlog.errors import ConfigError, GenerationError, GroupNotEmptyError, NotEnoughReplicasError, ThrottledError

# What a commit costs besides its names and its metadata: a batch of one record.
cdef enum:
    RECORD_BYTES = 100


cdef int durability_of(object value, int default) except -1:
    if value is None:
        return default
    if value == "process":
        return ANSWER_PROCESS
    if value == "disk":
        return ANSWER_DISK
    if value == "replicas":
        return ANSWER_REPLICAS
    raise ConfigError(f'durability must be "process", "disk" or "replicas", not {value!r}')


cdef class ManagerCore:
    """Commits, deletes and W of the partitions of one manager.  Every method can be called from any thread.

    Args:
        core: the partitions by number; its own durability is "process".
        durability: of a call that does not say it.
        timeout: seconds that a call waits for its answer where it does not say it.
        alone: whether there are no other replicas, so that "replicas" is "disk".
        quotas: None for none.
        settle: called with the number of a partition that is attended, and W, after W has moved.
        park: called with (number, end offset, term, durability, timeout); returns a PendingCommit.
    """

    def __init__(self, StoreCore core not None, durability, timeout, bint alone, Quotas quotas, settle, park):
        self.core = core
        self.quotas = quotas
        self.settle = settle
        self.park = park
        self.alone = alone
        self.default = durability_of(durability, ANSWER_DISK)
        self.timeout_ms = take_timeout(timeout)
        self.replicas = [None] * core.count
        self.attended = bytearray(core.count)
        self.short_of_replicas = set()

    # -------------------------------------------------------------------------------------------------- committing

    cdef int admit(self, object group, object offsets, object client) except -1:
        cdef double seconds
        cdef int64_t nbytes = 0
        if self.quotas is not None:
            for key, value in offsets.items():
                nbytes += RECORD_BYTES + len(group) + len(key[0])
                if isinstance(value, tuple) and len(value) > 1:
                    nbytes += len(value[1])
            seconds = self.quotas.charge(group, client, len(offsets), nbytes)
            if seconds > 0:
                raise ThrottledError(
                    f"group {group!r}: the quota is used up; the next commit is admitted in {seconds:.3f} s", seconds=seconds
                )
        if self.short_of_replicas and self.core.number_of(group) in self.short_of_replicas:
            raise NotEnoughReplicasError(f"group {group!r}: too few replicas of its log partition are in sync")
        return 0

    cdef int wait(self, int32_t number, int64_t end_offset, uint64_t term, int answer, object timeout) except -1:
        cdef Partition used
        cdef int64_t timeout_ms = self.timeout_ms if timeout is None else take_timeout(timeout)
        if answer == ANSWER_PROCESS:
            return 0
        used = self.core.used(number)
        if used is None:
            self.core.refuse_closed()
        if answer == ANSWER_DISK or self.alone:
            return used.wait_for(end_offset, term, OL_WAIT_FLUSHED, timeout_ms)
        return used.wait_for(end_offset, term, OL_WAIT_WATERMARK, timeout_ms)

    cdef inline int wrote(self, int32_t number) except -1:
        if self.appended is not None:
            self.appended(number)
        # W of a leader without followers is the log end.
        if self.moved is not None and self.alone:
            self.moved(number)
        return 0

    def commit(self, group, offsets, *, expected=None, monotonic=False, generation=None, timeout=None, durability=None,
               client=None, principal=None):
        """Commits positions of a group, all or none; see OffsetManager.commit."""
        cdef int32_t number = 0
        cdef int64_t end_offset
        cdef uint64_t term = 0
        cdef int answer = self.default if durability is None else durability_of(durability, self.default)
        if self.quotas is not None or self.short_of_replicas:
            self.admit(group, offsets, client)
        end_offset = commit_named(self.core, group, offsets, expected, monotonic, generation, -1, -1, &number, &term)
        self.wrote(number)
        if answer != ANSWER_PROCESS:
            self.wait(number, end_offset, term, answer, timeout)
        return new_position(number, end_offset)

    def commit_async(self, group, offsets, *, expected=None, monotonic=False, generation=None, timeout=None, durability=None,
                     client=None, principal=None):
        """Commits and returns a PendingCommit; see OffsetManager.commit_async."""
        cdef int32_t number = 0
        cdef int64_t end_offset
        cdef uint64_t term = 0
        cdef int answer = durability_of(durability, self.default)
        if self.quotas is not None or self.short_of_replicas:
            self.admit(group, offsets, client)
        end_offset = commit_named(self.core, group, offsets, expected, monotonic, generation, -1, -1, &number, &term)
        self.wrote(number)
        if answer == ANSWER_REPLICAS and self.alone:
            answer = ANSWER_DISK
        return self.park(number, end_offset, term, answer, timeout)

    def fence(self, group, offsets, timeout):
        """Ends the group's generation, with offsets in the same batch; returns the new one; see OffsetManager.fence."""
        cdef ol_slice name
        cdef ol_commit_result result
        cdef ol_error error
        cdef item_array array
        cdef dict given = own_dictionary({} if offsets is None else offsets)
        cdef list kept = []
        cdef size_t count = 0
        cdef Py_ssize_t cursor = 0
        cdef PyObject *key
        cdef PyObject *value
        cdef int32_t number
        cdef int32_t generation = 0
        cdef Partition used
        take_name(group, NAME_GROUP, &name)
        number = self.core.number_for(name)
        array = self.core.take_scratch(<size_t>len(given) + 1)
        try:
            while PyDict_Next(given, &cursor, &key, &value):
                start_item(&array.items[count], name)
                take_key(<object>key, &array.items[count])
                take_value(<object>value, &array.items[count], self.core.metadata_units_max, kept)
                count += 1
            if self.core.slots[number] == NULL:
                self.core.open_slot(number)
            used = self.core.used(number)
            if used is None:
                self.core.refuse_closed()
            used.enter()
            try:
                with nogil:
                    check(ol_partition_fence(used.handle, name, array.items, count, &generation, &result, &error), &error)
            finally:
                used.leave()
        finally:
            self.core.give_scratch(&array)
        self.wrote(number)
        self.wait(number, result.end_offset, result.term, self.default, timeout)
        return generation

    def delete(self, group, list keys not None, timeout):
        """Writes tombstones for positions of a group; returns how many were there; see OffsetManager.delete."""
        cdef ol_slice name
        cdef ol_commit_result result
        cdef ol_error error
        cdef item_array array
        cdef size_t count = 0
        cdef int32_t number
        take_name(group, NAME_GROUP, &name)
        number = self.core.number_for(name)
        array = self.core.take_scratch(<size_t>len(keys) + 1)
        try:
            for key in keys:
                start_item(&array.items[count], name)
                array.items[count].kind = OL_ITEM_POSITION_TOMBSTONE
                take_key(key, &array.items[count])
                count += 1
            if self.core.closed:
                self.core.refuse_closed()
            if self.core.slots[number] == NULL:
                self.core.load_now(number)
            if count == 0 or self.core.slots[number] == NULL:
                return 0
            self.core.write(number, array.items, count, -1, -1, &result, &error)
        finally:
            self.core.give_scratch(&array)
        if result.written > 0:
            self.wrote(number)
            self.wait(number, result.end_offset, result.term, self.default, timeout)
        return result.written

    def delete_group(self, group, timeout):
        """Deletes all of a group without members; returns how many records; see OffsetManager.delete_group."""
        cdef Partition used
        used = self.core.partition(self.core.number_of(group))
        if used is None:
            return 0
        try:
            end_offset, term, written = used.delete_group(group, only_empty=True)
        except GenerationError as failure:
            raise GroupNotEmptyError(
                f"group {group!r} has members; it goes only without them", group=group, actual=failure.actual
            ) from None
        if written > 0:
            self.wrote(used.number)
            self.wait(used.number, end_offset, term, self.default, timeout)
        return written

    # ------------------------------------------------------------------------------------------------------------ W

    def set_replica(self, int32_t number, Replica replica):
        """Uses a partition, or with None none."""
        self.core.check_number(number)
        self.replicas[number] = replica

    def replica(self, int32_t number):
        """Returns the Replica of a partition, None where there is no log; raises InvalidArgumentError."""
        self.core.check_number(number)
        if self.core.closed:
            self.core.refuse_closed()
        return self.replicas[number]

    def listen_to_moves(self, listener):
        """Has a callable called with the number of a partition after each move of W; None for nobody."""
        self.moved = listener

    def attend(self, int32_t number):
        """Has `settle` called whenever W of the partition has moved, from now on."""
        self.attended[number] = 1

    def disregard(self, int32_t number):
        """Ends that."""
        self.attended[number] = 0

    def advance(self, int32_t number, int32_t epoch, int64_t offset):
        """Moves W; see OffsetManager.advance."""
        cdef Replica replica
        cdef int64_t watermark
        self.core.check_number(number)
        replica = self.replicas[number]
        if replica is None:
            if self.core.closed:
                self.core.refuse_closed()
            return 0
        watermark = replica.move_watermark(epoch, offset)
        if self.attended[number]:
            self.settle(number, watermark)
        if self.moved is not None:
            self.moved(number)
        return watermark
