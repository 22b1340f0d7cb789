"""The hot path of a store: one commit, one fetch, and commits from dictionaries.

A commit is tried with the GIL held; if the C call returns OL_WOULD_BLOCK, it is made again without the GIL.  Calls that
may wait release the GIL between `enter` and `leave`.  The objects of slices must stay alive until the call returns.
"""

import os
import weakref
from copy import copy

from cpython.dict cimport PyDict_CheckExact, PyDict_Next, PyDict_Size
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check
from cpython.unicode cimport PyUnicode_Check
from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from offsetlog._native.buffers cimport (
    NAME_GROUP,
    NAME_TOPIC,
    NUMBER_LEADER_EPOCH,
    NUMBER_OFFSET,
    NUMBER_PARTITION,
    item_array,
    reserve_items,
    take_metadata,
    take_name,
    take_number,
    text_of,
)
from offsetlog._native.csrc cimport (
    OL_CONDITION_MONOTONIC,
    OL_ITEM_POSITION_TOMBSTONE,
    OL_OK,
    OL_WAIT_FLUSHED,
    OL_WOULD_BLOCK,
    ol_commit_result,
    ol_error,
    ol_item,
    ol_log_expect_flushes,
    ol_pair_name,
    ol_partition,
    ol_partition_commit,
    ol_partition_lock_state,
    ol_partition_log,
    ol_partition_try_commit,
    ol_partition_try_lock_state,
    ol_partition_unlock_state,
    ol_position_value,
    ol_preallocator_abandon,
    ol_preallocator_add,
    ol_preallocator_kick,
    ol_preallocator_start,
    ol_preallocator_stop,
    ol_slice,
    ol_state,
    ol_table_get,
    ol_table_group_hash,
    ol_table_name,
)
from offsetlog._native.commit_items cimport (
    is_plain,
    is_refusal,
    name_key,
    name_raised,
    own_dictionary,
    own_expected,
    one_key,
    one_position,
    refusal,
    start_generation,
    start_item,
    take_expected,
    take_key,
    take_monotonic,
    take_value,
)
from offsetlog._native.partition cimport Partition
from offsetlog._native.fetched_position cimport new_offset_and_metadata
from offsetlog._native.status cimport check
from offsetlog._native.tickets cimport (
    DURABILITY_DISK,
    DURABILITY_PROCESS,
    Flushes,
    Ticket,
    durability_kind,
    durability_of,
    new_position,
)

from offsetlog.errors import (
    ClosedError,
    InvalidArgumentError,
    OffsetLogError,
    PartitionCountError,
    PartitionError,
    ReadOnlyError,
)

cdef object MINUS_ONE = -1

# How many items stay allocated between calls.
cdef size_t SCRATCH_ITEMS_MAX = 65536

cdef object _cores = weakref.WeakSet()


def _forget_after_fork():
    # The partitions release their handles themselves, so no slot may still point to one.
    cdef StoreCore core
    for core in list(_cores):
        core.forked = True
        core.closed = True
        memset(core.slots, 0, <size_t>core.slot_count * sizeof(void *))
        if core.preparer != NULL:
            ol_preallocator_abandon(core.preparer)
            core.preparer = NULL
        core.flushes.forget()
    _cores.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


ctypedef int64_t (*unchecked_commit)(StoreCore, object, object, object, bint, object, int64_t, int16_t, int32_t *, uint64_t *,
                                     size_t *) noexcept


cdef int64_t commit_checked(StoreCore core, object group, object offsets, object expected, bint monotonic, object generation,
                            int64_t producer_id, int16_t producer_epoch, int32_t *number, uint64_t *term,
                            size_t *taken) except -1:
    return core.commit_dictionary(group, offsets, expected, monotonic, generation, producer_id, producer_epoch, number, term, taken)


cdef int64_t commit_named(StoreCore core, object group, object offsets, object expected, bint monotonic, object generation,
                          int64_t producer_id, int16_t producer_epoch, int32_t *number, uint64_t *term) except -1:
    # An error names the key that caused it.  A `try` would make every commit a tenth slower.
    cdef size_t taken = <size_t>-1
    cdef int64_t end_offset = (<unchecked_commit>commit_checked)(core, group, offsets, expected, monotonic, generation,
                                                                 producer_id, producer_epoch, number, term, &taken)
    if end_offset < 0:
        name_raised(offsets, <Py_ssize_t>taken)
    return end_offset


# ---------------------------------------------------------------------------------------------------- the core


cdef class StoreCore:
    """The partitions of a store by number.  Any thread may call every method.

    Args:
        count: the number of partitions of the offsets topic.  If it is None, calls that need the number are refused.
        owner: the OpenPartitions, which passes to the core the partitions that the core uses.
        waiter: a function that returns, for a ticket, an awaitable that ends when the ticket is durable or has failed.
        durability: "process" or "disk", the durability of the calls that do not specify one.
        metadata_units_max: the longest metadata in UTF-16 units.
        read_only: whether all writes are refused.
        background: whether threads prepare segments and flush partitions, also every `flush_interval_ms` (0 for never).
    """

    def __cinit__(self):
        self.slots = NULL
        self.preparer = NULL
        self.scratch.items = NULL
        self.scratch.capacity = 0
        self.closed = True

    def __init__(self, count, owner, waiter, durability, size_t metadata_units_max, *,
                 bint read_only=False, bint background=True, int64_t flush_interval_ms=0):
        cdef ol_error error
        cdef int32_t slots = 1 + max(each.number for each in owner.all()) if count is None else count
        if self.slots != NULL or slots < 1:
            raise ValueError("a core must have at least one partition, and must not be initialized again")
        self.slots = <ol_partition **>calloc(<size_t>slots, sizeof(void *))
        if self.slots == NULL:
            raise MemoryError()
        self.slot_count = slots
        self.is_count_known = count is not None
        self.partitions = [None] * slots
        self.owner = owner
        self.flushes = Flushes(waiter, background and not read_only)
        self.durability = <durability_kind>durability_of(durability, DURABILITY_DISK)
        self.metadata_units_max = metadata_units_max
        self.read_only = read_only
        if background and not read_only:
            check(ol_preallocator_start(&self.preparer, self.flushes.threads, flush_interval_ms, &error), &error)
        self.closed = False
        _cores.add(self)

    def __del__(self):
        # The hot methods are bound to the core: a reference to one of them keeps all that it needs, without the store object.
        if self.closer is not None:
            self.closer.close_unreachable(self)

    def __dealloc__(self):
        if self.preparer != NULL:
            with nogil:
                ol_preallocator_stop(self.preparer)
        free(self.slots)
        free(self.scratch.items)

    # ------------------------------------------------------------------------------------------------ partitions

    cdef int refuse_closed(self) except -1:
        if self.forked:
            raise ClosedError("the store was opened before this process was forked; open the store again here")
        raise ClosedError("the store is closed")

    cdef int check_count_known(self) except -1:
        if not self.is_count_known:
            raise PartitionCountError()

    cdef int check_number(self, int32_t number) except -1:
        cdef int32_t highest = self.slot_count - 1
        if not 0 <= number <= highest:
            raise PartitionError(f"there is no log partition {number}: the highest is {highest}")

    @property
    def count(self):
        """The number of partitions of the offsets topic; raises PartitionCountError if it is unknown."""
        self.check_count_known()
        return self.slot_count

    cdef Partition used(self, int32_t number):
        return <Partition>self.partitions[number]

    cdef ol_partition *open_slot(self, int32_t number) except NULL:
        # A partition without any writes has no directory and no slot.
        if self.closed:
            self.refuse_closed()
        if self.read_only:
            raise ReadOnlyError("the store is open read-only")
        self.check_count_known()
        partition = self.owner.make(number)
        # Another thread may have created the partition meanwhile, or closed the store.
        if self.slots[number] == NULL:
            self.attach(partition)
        return self.slots[number]

    def attach(self, Partition partition not None):
        """Starts to use a loaded partition, unless it is in use.  Raises the error of `retire` if it is retired."""
        cdef ol_error error
        if self.closed:
            self.refuse_closed()
        if partition.refusal is not None:
            raise copy(partition.refusal)
        if partition.handle == NULL:
            raise ClosedError("the partition is closed")
        if self.slots[partition.number] == partition.handle:
            return
        if self.preparer != NULL and partition.writable:
            check(ol_preallocator_add(self.preparer, partition.handle, &error), &error)
        if self.durability == DURABILITY_DISK:
            ol_log_expect_flushes(ol_partition_log(partition.handle))
        self.partitions[partition.number] = partition
        self.slots[partition.number] = partition.handle

    def replace_all(self, list fresh not None):
        """Replaces all partitions of a read-only store by loaded ones.  Reads in progress finish on the old ones."""
        cdef Partition partition
        cdef list before = self.partitions
        if self.closed:
            self.refuse_closed()
        # No Python code runs before the old partitions are released at the end, so no call sees a mixture of old and new ones.
        self.partitions = [None] * self.slot_count
        memset(self.slots, 0, <size_t>self.slot_count * sizeof(void *))
        for partition in fresh:
            self.partitions[partition.number] = partition
            self.slots[partition.number] = partition.handle
        before.clear()

    def partition(self, int32_t number):
        """Returns the Partition of this number; None if it has no directory yet."""
        self.check_number(number)
        if self.closed:
            self.refuse_closed()
        if self.slots[number] == NULL:
            self.load_now(number)
        return self.partitions[number]

    def attached(self, bint wait=True):
        """Returns all partitions that are not retired, once they are loaded; with wait=False, only those loaded now."""
        if self.closed:
            self.refuse_closed()
        for number in self.owner.loading(wait):
            self.load_now(number)
        return [partition for partition in self.partitions if partition is not None and not partition.retired]

    def close(self):
        """Closes the core, so that every later call raises ClosedError.  The owner closes the partitions."""
        cdef ol_preallocator *preparer = self.preparer
        self.closed = True
        self.preparer = NULL
        if self.slots != NULL:
            memset(self.slots, 0, <size_t>self.slot_count * sizeof(void *))
        self.partitions = [None] * self.slot_count
        if preparer != NULL:
            with nogil:
                ol_preallocator_stop(preparer)
        self.flushes.stop()
        # This is Python code, in which the handler of a signal may raise, so the threads are ended before it.
        _cores.discard(self)

    def number_of(self, group):
        """Returns the number of the partition that keeps a group."""
        cdef ol_slice name
        take_name(group, NAME_GROUP, &name)
        return self.number_for(name)

    # ------------------------------------------------------------------------------------------------ writing

    def scratch_bytes(self):
        """Returns the number of bytes that stay allocated between two calls."""
        return self.scratch.capacity * sizeof(ol_item)

    cdef item_array take_scratch(self, size_t count) except *:
        # The call that fills the array owns it, because a call that releases the GIL must not find its items overwritten.
        cdef item_array array = self.scratch
        self.scratch.items = NULL
        self.scratch.capacity = 0
        try:
            reserve_items(&array, count)
        except MemoryError:
            free(array.items)
            raise
        return array

    cdef void give_scratch(self, item_array *array) noexcept:
        if self.scratch.items == NULL and array.capacity <= SCRATCH_ITEMS_MAX:
            self.scratch = array[0]
        else:
            free(array.items)

    cdef int write(self, int32_t number, const ol_item *items, size_t count, int64_t producer_id, int16_t producer_epoch,
                   ol_commit_result *result, ol_error *error) except -1:
        # The path that may wait.  The partition exists.
        cdef int status
        cdef Partition used = self.used(number)
        if used is None:
            self.refuse_closed()
        used.enter()
        try:
            with nogil:
                status = ol_partition_commit(used.handle, items, count, producer_id, producer_epoch, result, error)
        finally:
            used.leave()
        # The commit may have had to extend the file itself, so the thread that extends files ahead of use is woken.
        if self.preparer != NULL:
            ol_preallocator_kick(self.preparer)
        if is_refusal(status):
            raise refusal(status, items, result, error)
        return check(status, error)

    cdef int wait(self, int32_t number, int64_t end_offset, uint64_t term, durability_kind durability) except -1:
        cdef Partition used
        if durability == DURABILITY_PROCESS:
            return 0
        used = self.used(number)
        if used is None:
            self.refuse_closed()
        return used.wait_for(end_offset, term, OL_WAIT_FLUSHED, -1)

    def flush(self):
        """Waits until the records written to all partitions before the call are on disk; see OffsetStore.flush."""
        self.flushes.flush(self.attached())

    def commit_one(self, group, topic, partition=None, offset=None, metadata="", leader_epoch=-1, *, monotonic=False, durability=None):
        """Commits one position and returns the log offset of its record; see OffsetStore.commit_one."""
        cdef ol_item item
        cdef ol_commit_result result
        cdef ol_error error
        cdef ol_slice name
        cdef int64_t wide = 0
        cdef int32_t number
        cdef int status
        cdef durability_kind wanted = self.durability
        if durability is not None:
            wanted = <durability_kind>durability_of(durability, wanted)
        take_name(group, NAME_GROUP, &name)
        start_item(&item, name)
        if not PyUnicode_Check(topic) or PyTuple_Check(offset):
            offsets = one_position(topic, partition, offset, metadata, leader_epoch)
            return self.commit(group, offsets, monotonic=monotonic, durability=durability)[1]
        take_name(topic, NAME_TOPIC, &item.topic)
        take_number(partition, NUMBER_PARTITION, 0, INT32_MAX, &wide)
        item.partition = <int32_t>wide
        take_number(offset, NUMBER_OFFSET, 0, INT64_MAX, &item.offset)
        if monotonic is not False and take_monotonic(monotonic): item.condition = OL_CONDITION_MONOTONIC
        if metadata is not "":
            take_metadata(metadata, self.metadata_units_max, &item.metadata)
        if leader_epoch is not MINUS_ONE:
            take_number(leader_epoch, NUMBER_LEADER_EPOCH, -1, INT32_MAX, &wide)
            item.leader_epoch = <int32_t>wide
        number = self.number_for(item.group)
        if self.slots[number] == NULL:
            self.open_slot(number)
        status = ol_partition_try_commit(self.slots[number], &item, 1, &result, &error)
        if status == OL_WOULD_BLOCK:
            self.write(number, &item, 1, -1, -1, &result, &error)
        elif is_refusal(status):
            raise refusal(status, &item, &result, &error)
        elif status != OL_OK:
            check(status, &error)
        if wanted != DURABILITY_PROCESS:
            self.wait(number, result.end_offset, result.term, wanted)
        return result.end_offset - 1

    cdef bint commit_plain(self, ol_slice group, int32_t number, object offsets, ol_commit_result *result,
                           size_t *taken) except -1:
        # Commits a few plain positions without a copy: from the first key to the commit no Python code runs and the GIL is
        # kept, so nothing can change them.  Returns False, with nothing written, if they are not plain or the commit must wait.
        cdef ol_item[TRY_ITEMS_MAX] items
        cdef ol_error error
        cdef size_t count = 0
        cdef Py_ssize_t cursor = 0
        cdef PyObject *key
        cdef PyObject *value
        cdef int status
        if not PyDict_CheckExact(offsets) or not 0 < PyDict_Size(offsets) <= TRY_ITEMS_MAX or self.slots[number] == NULL:
            return False
        taken[0] = 0
        while PyDict_Next(offsets, &cursor, &key, &value):
            if not is_plain(<object>key, <object>value):
                return False
            start_item(&items[count], group)
            take_key(<object>key, &items[count])
            take_number(<object>value, NUMBER_OFFSET, 0, INT64_MAX, &items[count].offset)
            count += 1
            taken[0] = count
        status = ol_partition_try_commit(self.slots[number], items, count, result, &error)
        if status == OL_WOULD_BLOCK:
            return False
        check(status, &error)
        return True

    cdef int64_t commit_dictionary(self, group, object given, object given_expected, bint monotonic, object generation,
                                   int64_t producer_id, int16_t producer_epoch, int32_t *number, uint64_t *term,
                                   size_t *taken) except -1:
        # Returns the end offset to wait for, and its term.
        cdef dict offsets, expected
        cdef list kept
        cdef ol_slice name
        cdef ol_commit_result result
        cdef ol_error error
        cdef item_array array
        cdef size_t count = 0, first = 0
        cdef Py_ssize_t cursor = 0
        cdef PyObject *key
        cdef PyObject *value
        cdef ol_item *item
        cdef int status = OL_WOULD_BLOCK
        take_name(group, NAME_GROUP, &name)
        number[0] = self.number_for(name)
        if given_expected is None and not monotonic and producer_id < 0 and generation is None:
            if self.commit_plain(name, number[0], given, &result, taken):
                term[0] = result.term
                return result.end_offset
        taken[0] = <size_t>-1
        offsets = own_dictionary(given)
        expected = own_expected(given_expected, offsets)
        kept = []
        array = self.take_scratch(<size_t>len(offsets) + 1)
        try:
            if generation is not None:
                start_generation(&array.items[0], name, generation)
                first = 1
            taken[0] = 0
            while PyDict_Next(offsets, &cursor, &key, &value):
                item = &array.items[first + count]
                start_item(item, name)
                take_key(<object>key, item)
                take_value(<object>value, item, self.metadata_units_max, kept, False)
                if expected is not None:
                    take_expected(item, <object>key, expected, monotonic)
                elif monotonic:
                    item.condition = OL_CONDITION_MONOTONIC
                count += 1
                taken[0] = count
            if count == 0:
                raise InvalidArgumentError("a commit needs at least one position")
            if self.slots[number[0]] == NULL:
                self.open_slot(number[0])
            count += first
            if count <= TRY_ITEMS_MAX and producer_id < 0:
                status = ol_partition_try_commit(self.slots[number[0]], array.items, count, &result, &error)
            if status == OL_WOULD_BLOCK:
                self.write(number[0], array.items, count, producer_id, producer_epoch, &result, &error)
            elif is_refusal(status):
                raise refusal(status, array.items, &result, &error)
            else:
                check(status, &error)
            term[0] = result.term
            return result.end_offset
        finally:
            self.give_scratch(&array)

    def commit(self, group, offsets, *, expected=None, monotonic=False, durability=None):
        """Commits positions of one group, either all of them or none; see OffsetStore.commit."""
        cdef int32_t number = 0
        cdef int64_t end_offset
        cdef uint64_t term = 0
        cdef durability_kind wanted = <durability_kind>durability_of(durability, self.durability)
        end_offset = commit_named(self, group, offsets, expected, take_monotonic(monotonic), None, -1, -1, &number, &term)
        self.wait(number, end_offset, term, wanted)
        return new_position(number, end_offset)

    def commit_async(self, group, offsets, *, expected=None, monotonic=False, durability=None):
        """Commits as `commit` does, but returns a Ticket once the commit is written; see OffsetStore.commit_async."""
        cdef int32_t number = 0
        cdef int64_t end_offset
        cdef Partition used
        cdef Ticket ticket = Ticket.__new__(Ticket)
        ticket.durability = <durability_kind>durability_of(durability, self.durability)
        end_offset = commit_named(self, group, offsets, expected, take_monotonic(monotonic), None, -1, -1, &number, &ticket.term)
        used = self.used(number)
        if used is None:
            self.refuse_closed()
        ticket.flushes = self.flushes
        ticket.owner = used
        ticket.end_offset = end_offset
        if ticket.durability != DURABILITY_PROCESS and not used.wanted:
            self.flushes.want(used)
        return ticket

    def commit_transactional(self, group, offsets, int64_t producer_id, int16_t producer_epoch):
        """Writes positions inside an open transaction.  Returns the Position, without waiting for the disk."""
        cdef int32_t number = 0
        cdef int64_t end_offset
        cdef uint64_t term = 0
        end_offset = commit_named(self, group, offsets, None, False, None, producer_id, producer_epoch, &number, &term)
        return new_position(number, end_offset)

    def ready(self, int32_t number):
        """Returns the Partition of this number; creates its directory if it does not exist."""
        self.check_number(number)
        if self.slots[number] == NULL:
            self.open_slot(number)
        return self.partitions[number]

    def wait_durable(self, int32_t number, int64_t end_offset, uint64_t term, durability):
        """Waits until a term's records below a log offset have the durability; if it is None, the store's durability."""
        self.wait(number, end_offset, term, <durability_kind>durability_of(durability, self.durability))

    def wait_durable_all(self, waits, durability):
        """Waits as `wait_durable` does for each (number, log offset, term).  The partitions are flushed together."""
        cdef Partition used
        cdef durability_kind wanted = <durability_kind>durability_of(durability, self.durability)
        if wanted == DURABILITY_PROCESS:
            return
        if len(waits) > 1:
            all_used = (self.used(number) for number, _, _ in waits)
            self.flushes.begin([used for used in all_used if used is not None])
        for number, end_offset, term in waits:
            self.wait(number, end_offset, term, wanted)

    def delete(self, group, partitions, *, durability=None):
        """Deletes positions of a group, or all its records if `partitions` is None; returns how many existed."""
        cdef ol_slice name
        cdef ol_commit_result result
        cdef ol_error error
        cdef item_array array
        cdef size_t count = 0
        cdef int32_t number
        cdef list keys
        cdef durability_kind wanted
        if partitions is None:
            return self.delete_group(group, durability)
        keys = list(dict.fromkeys(partitions))
        wanted = <durability_kind>durability_of(durability, self.durability)
        take_name(group, NAME_GROUP, &name)
        number = self.number_for(name)
        array = self.take_scratch(<size_t>len(keys))
        try:
            for key in keys:
                start_item(&array.items[count], name)
                array.items[count].kind = OL_ITEM_POSITION_TOMBSTONE
                take_key(key, &array.items[count])
                count += 1
            if self.closed:
                self.refuse_closed()
            if self.read_only:
                raise ReadOnlyError("the store is open read-only")
            if self.slots[number] == NULL:
                self.load_now(number)
            if count == 0 or self.slots[number] == NULL:
                return 0
            self.write(number, array.items, count, -1, -1, &result, &error)
        except OffsetLogError as failure:
            name_key(failure, keys, <Py_ssize_t>count)
            raise
        finally:
            self.give_scratch(&array)
        self.wait(number, result.end_offset, result.term, wanted)
        return result.written

    cdef object delete_group(self, group, durability):
        cdef durability_kind wanted
        if self.closed:
            self.refuse_closed()
        if self.read_only:
            raise ReadOnlyError("the store is open read-only")
        wanted = <durability_kind>durability_of(durability, self.durability)
        partition = self.partition(self.number_of(group))
        if partition is None:
            return 0
        end_offset, term, written = partition.delete_group(group)
        self.wait(partition.number, end_offset, term, wanted)
        return written

    # ------------------------------------------------------------------------------------------------ reading

    def fetch_one(self, group, topic, partition=None):
        """Returns the committed OffsetAndMetadata of one position, or None; raises InvalidArgumentError, StateError."""
        cdef ol_slice group_name, topic_name
        cdef ol_pair_name name
        cdef ol_position_value value
        cdef const ol_state *state = NULL
        cdef ol_error error
        cdef int64_t wide = 0
        cdef int32_t number
        cdef int status
        cdef bint found
        cdef uint8_t[16] topic_id
        cdef uint8_t[256] short_metadata
        cdef uint8_t *metadata = short_metadata
        take_name(group, NAME_GROUP, &group_name)
        if not PyUnicode_Check(topic):
            return self.fetch_one(group, *one_key(topic, partition))
        take_name(topic, NAME_TOPIC, &topic_name)
        take_number(partition, NUMBER_PARTITION, 0, INT32_MAX, &wide)
        number = self.number_for(group_name)
        if self.slots[number] == NULL:
            if self.closed:
                self.refuse_closed()
            self.load_now(number)
            if self.slots[number] == NULL:
                return None
        status = ol_partition_try_lock_state(self.slots[number], &state, &error)
        if status != OL_OK:
            # The lock is taken, or the partition refuses; the call that may wait determines which.
            return self.fetch_one_waiting(number, group_name, topic_name, <int32_t>wide)
        # No Python code runs under the lock; borrowed bytes are copied.
        name = ol_table_name(state.table, group_name, ol_table_group_hash(state.table, group_name), topic_name)
        found = ol_table_get(state.table, &name, <int32_t>wide, &value)
        if found and value.metadata.size > 0:
            if value.metadata.size > sizeof(short_metadata):
                metadata = <uint8_t *>malloc(value.metadata.size)
            if metadata != NULL:
                memcpy(metadata, value.metadata.data, value.metadata.size)
        if found and value.topic_id != NULL:
            memcpy(topic_id, value.topic_id, 16)
            value.topic_id = topic_id
        ol_partition_unlock_state(self.slots[number])
        if not found:
            return None
        if value.metadata.size == 0:
            return new_offset_and_metadata(&value, "")
        if metadata == NULL:
            raise MemoryError()
        try:
            return new_offset_and_metadata(&value, text_of(metadata, value.metadata.size))
        finally:
            if metadata != short_metadata:
                free(metadata)

    cdef object fetch_one_waiting(self, int32_t number, ol_slice group, ol_slice topic, int32_t partition):
        # Does the work of fetch_one while the state is being changed: waits without the GIL.
        cdef const ol_state *state = NULL
        cdef ol_pair_name name
        cdef ol_position_value value
        cdef ol_error error
        cdef bint found
        cdef uint8_t[16] topic_id
        cdef uint8_t *metadata = NULL
        cdef Partition used = self.used(number)
        used.enter()
        try:
            with nogil:
                check(ol_partition_lock_state(used.handle, &state, &error), &error)
                name = ol_table_name(state.table, group, ol_table_group_hash(state.table, group), topic)
                found = ol_table_get(state.table, &name, partition, &value)
                if found:
                    metadata = <uint8_t *>malloc(value.metadata.size + 1)
                    if metadata != NULL and value.metadata.size > 0:
                        memcpy(metadata, value.metadata.data, value.metadata.size)
                    if value.topic_id != NULL:
                        memcpy(topic_id, value.topic_id, 16)
                        value.topic_id = topic_id
                ol_partition_unlock_state(used.handle)
            if not found:
                return None
            if metadata == NULL:
                raise MemoryError()
            return new_offset_and_metadata(&value, text_of(metadata, value.metadata.size))
        finally:
            free(metadata)
            used.leave()
