"""The hot path of an offset manager: commits that wait for the disk or for the high watermark W, and the advance of W.

This file follows the rules of store_core.  If a log partition is not open in the core, either it has no directory or
another process leads it.  The owner of the core's partitions knows which.
"""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int32_t, int64_t, uint64_t

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.dict cimport PyDict_CheckExact, PyDict_Next
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from cpython.unicode cimport PyUnicode_Check, PyUnicode_GET_LENGTH

from offsetlog._native.buffers cimport (
    NAME_GROUP,
    NUMBER_LEADER_EPOCH,
    NUMBER_OFFSET,
    NUMBER_PARTITION,
    item_array,
    take_name,
    take_number,
    take_timeout,
)
from offsetlog._native.commit_items cimport own_dictionary, start_item, take_key, take_monotonic, take_value
from offsetlog._native.csrc cimport (
    OL_ITEM_GROUP_RECORD,
    OL_ITEM_POSITION_TOMBSTONE,
    OL_WAIT_FLUSHED,
    OL_WAIT_WATERMARK,
    ol_commit_result,
    ol_error,
    ol_flusher_remove,
    ol_item,
    ol_partition,
    ol_partition_fence,
    ol_partition_positions,
    ol_partition_term,
    ol_positions,
    ol_preallocator_remove,
    ol_slice,
    ol_slice_null,
    ol_slice_of,
)
from offsetlog._native.parking cimport Parking, PendingWrite, new_write
from offsetlog._native.partition cimport Partition
from offsetlog._native.quotas cimport Quotas, check_client
from offsetlog._native.replica cimport Replica
from offsetlog._native.status cimport check
from offsetlog._native.store_core cimport StoreCore, commit_named
from offsetlog._native.tickets cimport new_position

from offsetlog._native.quotas import client_name
from offsetlog.errors import (
    ClosedError,
    CommitTimeoutError,
    ConditionError,
    ConfigError,
    GenerationError,
    GroupNotEmptyError,
    InternalError,
    InvalidArgumentError,
    NotCoordinatorError,
    NotEnoughReplicasError,
    ThrottledError,
)

# The bytes of a commit without its names and metadata, in a batch of one record.
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


cdef object stopped_before():
    return NotCoordinatorError(
        "the manager was stopped before the write was known to be durable; the write may still take effect")


# Runs before a commit is checked, so any unexpected object raises TypeError.
cdef int64_t size_of_commit(object group, object offsets) except -1:
    cdef int64_t nbytes = 0
    cdef Py_ssize_t cursor = 0
    cdef PyObject *key
    cdef PyObject *value
    if not PyDict_CheckExact(offsets):
        offsets = dict(offsets.items())
    # No Python code runs meanwhile, which could change the dictionary.
    while PyDict_Next(offsets, &cursor, &key, &value):
        nbytes += RECORD_BYTES + size_of_text(group) + size_of_first(<object>key, 0)
        if PyTuple_Check(<object>value) and PyTuple_GET_SIZE(<object>value) > 1:
            nbytes += size_of_first(<object>value, 1)
    return nbytes


cdef inline Py_ssize_t size_of_text(object text) except -1:
    if not PyUnicode_Check(text):
        raise TypeError("a name must be a str")
    return PyUnicode_GET_LENGTH(text)


cdef inline Py_ssize_t size_of_first(object parts, Py_ssize_t at) except -1:
    if not PyTuple_Check(parts) or PyTuple_GET_SIZE(parts) <= at:
        raise TypeError("a key must be a tuple")
    return size_of_text(<object>PyTuple_GET_ITEM(parts, at))


cdef class ManagerCore:
    """Commits, deletes and high watermarks of the partitions of one manager.  Any thread may call every method.

    Args:
        core: the core that has the partitions; the durability of the core itself is "process".
        durability: the durability of the calls that do not specify one.
        timeout: how many seconds a call waits for its result if it specifies no timeout.
        alone: whether this is the only replica; if it is, "replicas" means the same as "disk".
        quotas: the quotas, None for no limits.
        settle: a function that is called with a partition's number and W after W has moved, if `attend` was called.
        flush: a function that is called with a partition's number if a write needs a flush and none has been ordered.
        check_lease: a function that is called with the number of a partition before a call is answered from the
            partition's table alone.  It raises NotCoordinatorError if another process may lead the partition now.
        for_watermark: a list that has, for each partition, the Parking of the writes that wait for W.
        for_disk: a list that has, for each partition, the Parking of the writes that wait for the disk.
    """

    def __init__(self, StoreCore core not None, durability, timeout, bint alone, Quotas quotas, settle, flush, check_lease, *,
                 list for_watermark not None, list for_disk not None):
        cdef Parking parking
        if not len(for_watermark) == len(for_disk) == core.count:
            raise ValueError("each partition must have a parking for W and one for the disk")
        for parking in for_watermark + for_disk:
            pass  # checks the type
        self.core = core
        self.quotas = quotas
        self.settle = settle
        self.flush = flush
        self.check_lease = check_lease
        self.for_watermark = for_watermark
        self.for_disk = for_disk
        self.alone = alone
        self.default = durability_of(durability, ANSWER_DISK)
        self.timeout_ms = take_timeout(timeout)
        self.replicas = [None] * core.count
        self.attended = bytearray(core.count)
        self.short_of_replicas = set()

    # --------------------------------------------------------------------------------------------------- admitting

    cdef int admit(self, object group, object offsets, object client, object principal) except -1:
        # If too few replicas are in sync, a commit is refused before it is charged.
        if self.short_of_replicas:
            self.admit_write(self.core.number_of(group))
        if self.quotas is None:
            return 0
        try:
            nbytes = size_of_commit(group, offsets)
        except (TypeError, AttributeError, LookupError, ValueError):
            return 0  # not a valid commit: it is refused later with its error, and not charged
        if principal is not None:
            client = client_name(client, principal)
        seconds = self.quotas.charge(group, client, len(offsets), nbytes)
        if seconds > 0:
            used_up = self.quotas.used_up(group, client) or "a quota"
            raise ThrottledError(
                f"group {group!r}: quota used up: {used_up}; the next commit is admitted in {seconds:.3f} s", seconds=seconds
            )
        return 0

    cdef int admit_write(self, int32_t number) except -1:
        if number in self.short_of_replicas:
            raise NotEnoughReplicasError(f"too few replicas of log partition {number} are in sync; the call wrote nothing")
        return 0

    # ----------------------------------------------------------------------------------------------------- waiting

    cdef int64_t limit_of(self, object timeout) except -2:
        # Checked before anything is written: an invalid timeout changes nothing.
        return self.timeout_ms if timeout is None else take_timeout(timeout)

    cpdef int report_written(self, int32_t number) except -1:
        """Notifies the listeners that a record was written to a partition."""
        if self.appended is not None:
            self.appended(number)
        # W of a leader without followers is the log end.
        if self.moved is not None and self.alone:
            self.moved(number)
        return 0

    cdef int wait(self, int32_t number, int64_t end_offset, uint64_t term, int answer, int64_t timeout_ms) except -1:
        cdef Partition used
        if answer == ANSWER_PROCESS:
            return 0
        used = self.core.used(number)
        if used is None:
            raise stopped_before()
        what = OL_WAIT_FLUSHED if answer == ANSWER_DISK or self.alone else OL_WAIT_WATERMARK
        try:
            return used.wait_for(end_offset, term, what, timeout_ms)
        except ClosedError:
            raise stopped_before() from None

    cdef object waited(self, written *write, object timeout):
        if write.end_offset >= 0:
            self.wait(write.number, write.end_offset, write.term, self.default, self.limit_of(timeout))
        return write.count

    cdef object parked(self, written *write, int answer, int64_t timeout_ms, object refusal=None):
        # The records that the call depends on have been written, so a later failure is passed to the PendingWrite.
        cdef Parking parking
        cdef PendingWrite pending
        cdef Partition used
        if write.end_offset < 0:
            pending = new_write(write.number, None, 0, 0, write.count)
            pending.finished = True
            return pending
        used = self.core.used(write.number)
        pending = new_write(write.number, used, write.end_offset, write.term, write.count)
        pending.refusal = refusal
        if answer == ANSWER_PROCESS:
            pending.finished = True
            return pending
        if used is None:
            pending.take(None, stopped_before())
            return pending
        if answer == ANSWER_DISK or self.alone:
            parking = self.for_disk[write.number]
            parking.park(pending, timeout_ms)
            if write.count == 0:
                parking.settle_one(pending)  # nothing was written: what it rests on may be on disk already
            if not pending.finished and parking.order_flush():
                try:
                    self.flush(write.number)
                except Exception as failure:
                    parking.begin_flush()
                    parking.refuse(failure, write.end_offset)
        else:
            parking = self.for_watermark[write.number]
            parking.park(pending, timeout_ms)
            # The partition is attended first, so that W either moves before the read here or calls `settle`.
            self.attended[write.number] = 1
            parking.settle_one(pending)
        return pending

    # A refusal that depends on records which are not replicated yet is not final: a truncation may remove them.

    cdef int wait_settled(self, int32_t number, object refused, int64_t timeout_ms) except -1:
        if refused.rests_on is not None:
            end_offset, term = refused.rests_on
            try:
                self.wait(number, end_offset, term, ANSWER_REPLICAS, timeout_ms)
            except CommitTimeoutError:
                raise CommitTimeoutError(
                    f"the call depends on the record at log offset {end_offset - 1} of log partition {number}, which was not "
                    f"replicated within {timeout_ms} ms; the call wrote nothing"
                ) from None
        return 0

    cdef object park_settled(self, int32_t number, object refused, int64_t timeout_ms):
        cdef written rested
        rested.number = number
        rested.end_offset, rested.term = refused.rests_on
        rested.count = -1
        return self.parked(&rested, ANSWER_REPLICAS, timeout_ms, refused)

    def check_timeout(self, timeout):
        """Raises InvalidArgumentError if the timeout is invalid."""
        self.limit_of(timeout)

    def wait_for(self, int32_t number, int64_t end_offset, uint64_t term, timeout):
        """Waits at most `timeout` seconds until a write has the default durability; raises the errors of `commit`."""
        self.core.check_number(number)
        self.wait(number, end_offset, term, self.default, self.limit_of(timeout))

    def park(self, int32_t number, int64_t end_offset, uint64_t term, int64_t count, timeout):
        """Returns a PendingWrite for a write that has been made; its result will be `count`."""
        cdef written write
        self.core.check_number(number)
        write.number, write.end_offset, write.term, write.count = number, end_offset, term, count
        return self.parked(&write, self.default, self.limit_of(timeout))

    def park_written(self, int32_t number):
        """Returns a PendingWrite that completes when W reaches the present log end; None if W is already there.
        """
        cdef written write
        cdef ol_positions positions
        cdef Partition used
        self.core.check_number(number)
        used = None if self.alone else self.core.used(number)
        if used is None:
            return None
        used.enter()
        try:
            write.term = ol_partition_term(used.handle)
            ol_partition_positions(used.handle, &positions)
        finally:
            used.leave()
        if positions.written <= positions.watermark:
            return None
        write.number, write.end_offset, write.count = number, positions.written, 0
        return self.parked(&write, ANSWER_REPLICAS, self.timeout_ms)

    # -------------------------------------------------------------------------------------------------- committing

    def commit(self, group, offsets, *, expected=None, monotonic=False, generation=None, timeout=None, durability=None,
               client=None, principal=None):
        """Commits positions of a group, either all of them or none; see OffsetManager.commit."""
        cdef int32_t number = 0
        cdef int64_t end_offset
        cdef uint64_t term = 0
        cdef written write
        cdef int answer = self.default if durability is None else durability_of(durability, self.default)
        cdef int64_t timeout_ms = self.timeout_ms if timeout is None else take_timeout(timeout)
        if client is not None or principal is not None:
            check_client(client, principal)
        if self.quotas is not None or self.short_of_replicas:
            self.admit(group, offsets, client, principal)
        if expected is None and monotonic is False and generation is None:
            end_offset = commit_named(self.core, group, offsets, None, False, None, -1, -1, &number, &term)
        else:
            refused = self.commit_conditional(group, offsets, expected, take_monotonic(monotonic), generation, &write)
            if refused is not None:
                self.wait_settled(write.number, refused, timeout_ms)
                raise refused
            number, term, end_offset = write.number, write.term, write.end_offset
        self.report_written(number)
        if answer != ANSWER_PROCESS:
            self.wait(number, end_offset, term, answer, timeout_ms)
        return new_position(number, end_offset)

    cdef object commit_conditional(self, object group, object offsets, object expected, bint monotonic, object generation,
                                   written *write):
        # Returns None, or a refusal that is not settled yet.  A `try` would slow down every plain commit.
        try:
            write.end_offset = commit_named(self.core, group, offsets, expected, monotonic, generation, -1, -1,
                                            &write.number, &write.term)
        except (ConditionError, GenerationError) as refused:
            self.check_lease(write.number)
            if refused.rests_on is None:
                raise
            return refused
        return None

    def commit_async(self, group, offsets, *, expected=None, monotonic=False, generation=None, timeout=None, durability=None,
                     client=None, principal=None):
        """Commits positions, and returns a PendingWrite; see OffsetManager.commit_async."""
        cdef written write
        cdef int answer = self.default if durability is None else durability_of(durability, self.default)
        cdef int64_t timeout_ms = self.timeout_ms if timeout is None else take_timeout(timeout)
        if client is not None or principal is not None:
            check_client(client, principal)
        if self.quotas is not None or self.short_of_replicas:
            self.admit(group, offsets, client, principal)
        if expected is None and monotonic is False and generation is None:
            write.end_offset = commit_named(self.core, group, offsets, None, False, None, -1, -1, &write.number, &write.term)
        else:
            refused = self.commit_conditional(group, offsets, expected, take_monotonic(monotonic), generation, &write)
            if refused is not None:
                return self.park_settled(write.number, refused, timeout_ms)
        write.count = -1
        self.report_written(write.number)
        return self.parked(&write, answer, timeout_ms)

    def commit_any_async(self, group, dict offsets not None, timeout):
        """Commits positions with any offset, even a negative one; see GroupLog.commit_async."""
        cdef written write
        cdef int64_t timeout_ms = self.limit_of(timeout)
        if self.quotas is not None or self.short_of_replicas:
            self.admit(group, offsets, None, None)
        self.write_any(group, offsets, &write)
        return self.parked(&write, self.default, timeout_ms)

    cdef Py_ssize_t take_positions(self, ol_slice group, dict offsets, bint any_offset, ol_item *items, list kept) except -1:
        # The items borrow from the dictionary and from `kept`; returns the number of items.
        cdef Py_ssize_t count = 0
        cdef Py_ssize_t cursor = 0
        cdef PyObject *key
        cdef PyObject *value
        while PyDict_Next(offsets, &cursor, &key, &value):
            start_item(&items[count], group)
            take_key(<object>key, &items[count])
            take_value(<object>value, &items[count], self.core.metadata_units_max, kept, any_offset)
            count += 1
        return count

    cdef int write_any(self, object group, dict offsets, written *write) except -1:
        cdef ol_slice name
        cdef ol_commit_result result
        cdef ol_error error
        cdef item_array array
        cdef dict given = offsets.copy()
        cdef list kept = []
        cdef size_t count
        cdef int32_t number
        take_name(group, NAME_GROUP, &name)
        number = self.core.number_for(name)
        array = self.core.take_scratch(<size_t>len(given))
        try:
            count = <size_t>self.take_positions(name, given, True, array.items, kept)
            if count == 0:
                raise InvalidArgumentError("a commit needs at least one position")
            if self.core.slots[number] == NULL:
                self.core.open_slot(number)
            self.core.write(number, array.items, count, -1, -1, &result, &error)
        finally:
            self.core.give_scratch(&array)
        write.number, write.end_offset, write.term, write.count = number, result.end_offset, result.term, -1
        return self.report_written(number)

    # ------------------------------------------------------------------------------------------ fencing and deleting

    def fence(self, group, offsets, timeout):
        """Ends the group's generation, commits positions in the same batch, and returns the new generation."""
        cdef written write
        self.limit_of(timeout)
        if self.fenced_by is not None:
            return self.fenced_by(group, self.own_positions(group, offsets), timeout).result()
        self.write_fence(group, offsets, &write)
        return self.waited(&write, timeout)

    def fence_async(self, group, offsets, timeout):
        """Does the work of `fence`, but returns a PendingWrite."""
        cdef written write
        cdef int64_t timeout_ms = self.limit_of(timeout)
        if self.fenced_by is not None:
            return self.fenced_by(group, self.own_positions(group, offsets), timeout)
        self.write_fence(group, offsets, &write)
        return self.parked(&write, self.default, timeout_ms)

    def delete(self, group, list keys not None, timeout):
        """Deletes positions of a group with tombstones; returns how many existed; see OffsetManager.delete."""
        cdef written write
        self.limit_of(timeout)
        self.write_delete(group, keys, &write)
        return self.waited(&write, timeout)

    def delete_async(self, group, list keys not None, timeout):
        """Does the work of `delete`, but returns a PendingWrite."""
        cdef written write
        cdef int64_t timeout_ms = self.limit_of(timeout)
        self.write_delete(group, keys, &write)
        return self.parked(&write, self.default, timeout_ms)

    def delete_unanswered(self, group, list keys not None):
        """Does the work of `delete` without waiting; returns (count, end offset or -1, term) for `wait_for` or `park`."""
        cdef written write
        self.write_delete(group, keys, &write)
        return write.count, write.end_offset, write.term

    def delete_group(self, group, timeout):
        """Deletes a group that has no members; returns how many records it had; see OffsetManager.delete_group."""
        cdef written write
        cdef int64_t timeout_ms = self.limit_of(timeout)
        try:
            self.write_delete_group(group, &write)
        except GroupNotEmptyError as refused:
            self.wait_settled(write.number, refused, timeout_ms)
            raise
        return self.waited(&write, timeout)

    def delete_group_async(self, group, timeout):
        """Does the work of `delete_group`, but returns a PendingWrite."""
        cdef written write
        cdef int64_t timeout_ms = self.limit_of(timeout)
        try:
            self.write_delete_group(group, &write)
        except GroupNotEmptyError as refused:
            if refused.rests_on is None:
                raise
            return self.park_settled(write.number, refused, timeout_ms)
        return self.parked(&write, self.default, timeout_ms)

    def write_group_records_async(self, group, list records not None, offsets, timeout):
        """Writes records of a group, and then positions, in one batch; see GroupLog.write_async."""
        cdef written write
        cdef int64_t timeout_ms = self.limit_of(timeout)
        self.write_group_records(group, records, offsets, &write)
        return self.parked(&write, self.default, timeout_ms)

    cdef int write_group_records(self, object group, list records, object offsets, written *write) except -1:
        cdef ol_slice name
        cdef ol_commit_result result
        cdef ol_error error
        cdef item_array array
        cdef dict given = own_dictionary({} if offsets is None else offsets)
        cdef list kept = []
        cdef ol_item *item
        cdef size_t count = 0
        cdef int32_t number
        cdef bytes key
        take_name(group, NAME_GROUP, &name)
        number = self.core.number_for(name)
        self.admit_write(number)
        array = self.core.take_scratch(<size_t>(len(records) + len(given)) + 1)
        try:
            for key, value in records:
                item = &array.items[count]
                start_item(item, name)
                item.kind = OL_ITEM_GROUP_RECORD
                item.key = ol_slice_of(PyBytes_AS_STRING(key), <size_t>len(key))
                item.value = ol_slice_null()
                if value is not None:
                    item.value = ol_slice_of(PyBytes_AS_STRING(<bytes?>value), <size_t>len(value))
                count += 1
            if count == 0:
                raise InvalidArgumentError("a write needs at least one record")
            count += <size_t>self.take_positions(name, given, False, &array.items[count], kept)
            if self.core.slots[number] == NULL:
                self.core.open_slot(number)
            self.core.write(number, array.items, count, -1, -1, &result, &error)
        finally:
            self.core.give_scratch(&array)
        write.number, write.end_offset, write.term = number, result.end_offset, result.term
        write.count = <int64_t>count
        return self.report_written(number)

    cdef dict own_positions(self, object group, object offsets):
        # Returns a copy, in which every position is valid.
        cdef ol_slice name
        cdef item_array array
        cdef dict given = own_dictionary({} if offsets is None else offsets)
        cdef list kept = []
        take_name(group, NAME_GROUP, &name)
        array = self.core.take_scratch(<size_t>len(given) + 1)
        try:
            self.take_positions(name, given, False, array.items, kept)
        finally:
            self.core.give_scratch(&array)
        return given

    cdef int write_fence(self, object group, object offsets, written *write) except -1:
        cdef ol_slice name
        cdef ol_commit_result result
        cdef ol_error error
        cdef item_array array
        cdef dict given = own_dictionary({} if offsets is None else offsets)
        cdef list kept = []
        cdef size_t count
        cdef int32_t number
        cdef int32_t generation = 0
        cdef Partition used
        take_name(group, NAME_GROUP, &name)
        number = self.core.number_for(name)
        self.admit_write(number)
        array = self.core.take_scratch(<size_t>len(given) + 1)
        try:
            count = <size_t>self.take_positions(name, given, False, array.items, kept)
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
        write.number, write.end_offset, write.term = number, result.end_offset, result.term
        write.count = generation
        return self.report_written(number)

    cdef int write_delete(self, object group, list keys, written *write) except -1:
        cdef ol_slice name
        cdef ol_commit_result result
        cdef ol_error error
        cdef item_array array
        cdef size_t count = 0
        cdef int32_t number
        take_name(group, NAME_GROUP, &name)
        number = self.core.number_for(name)
        self.admit_write(number)
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
                return self.report_delete(number, -1, 0, 0, write)
            self.core.write(number, array.items, count, -1, -1, &result, &error)
        finally:
            self.core.give_scratch(&array)
        return self.report_delete(number, result.end_offset, result.term, <int64_t>result.written, write)

    cdef int report_delete(self, int32_t number, int64_t end_offset, uint64_t term, int64_t count, written *write) except -1:
        # A delete that found nothing also waits for all earlier records: one of them may be a delete that is truncated.
        write.number, write.end_offset, write.term, write.count = number, end_offset, term, count
        if count > 0:
            return self.report_written(number)
        self.check_lease(number)
        return 0

    cdef int write_delete_group(self, object group, written *write) except -1:
        cdef Partition used
        cdef int32_t number = self.core.number_of(group)
        self.admit_write(number)
        write.number = number
        used = self.core.partition(number)
        if used is None:
            return self.report_delete(number, -1, 0, 0, write)
        try:
            end_offset, term, count = used.delete_group(group, only_empty=True)
        except GenerationError as failure:
            refused = GroupNotEmptyError(
                f"group {group!r} has members; it can be deleted once it has none", group=group, actual=failure.actual
            )
            refused.rests_on = failure.rests_on
            self.check_lease(number)
            raise refused from None
        return self.report_delete(number, end_offset, term, count, write)

    # ------------------------------------------------------------------------------------------------------------ W

    def set_replica(self, int32_t number, Replica replica):
        """Sets the Replica of a log partition; None means that there is no replica."""
        self.core.check_number(number)
        self.replicas[number] = replica

    def detach(self, int32_t number):
        """Removes a retired partition from the core, so that its owner may abandon it.

        Afterwards no thread of the core uses the partition.  Until `set_replica` replaces the partition, calls raise
        the error that was passed to `retire`.
        """
        cdef StoreCore core = self.core
        cdef ol_partition *handle
        core.check_number(number)
        handle = core.slots[number]
        if handle == NULL:
            return
        if core.used(number).refusal is None:
            raise InternalError("a partition must be retired before it is detached")
        core.slots[number] = NULL
        with nogil:
            if core.preparer != NULL:
                ol_preallocator_remove(core.preparer, handle)
            if core.flushes.threads != NULL:
                ol_flusher_remove(core.flushes.threads, handle)

    def replica(self, int32_t number):
        """Returns the Replica of a partition, None if there is no log; raises PartitionError for an unknown number."""
        self.core.check_number(number)
        if self.core.closed:
            self.core.refuse_closed()
        return self.replicas[number]

    def listen_to_moves(self, listener):
        """Sets a function that is called with a partition's number after each move of W; None removes it."""
        self.moved = listener

    def attend(self, int32_t number):
        """Makes every later move of W of the partition call `settle`."""
        self.attended[number] = 1

    def disregard(self, int32_t number):
        """Ends the effect of `attend`."""
        self.attended[number] = 0

    def advance(self, partition, epoch, offset):
        """Moves W; see OffsetManager.advance."""
        cdef Replica replica
        cdef int64_t watermark
        cdef int64_t wide_number = 0, wide_epoch = 0, end = 0
        cdef int32_t number
        take_number(partition, NUMBER_PARTITION, 0, INT32_MAX, &wide_number)
        take_number(epoch, NUMBER_LEADER_EPOCH, -1, INT32_MAX, &wide_epoch)
        # W never goes back, so no offset is too small.
        take_number(offset, NUMBER_OFFSET, INT64_MIN, INT64_MAX, &end)
        number = <int32_t>wide_number
        self.core.check_number(number)
        replica = self.replicas[number]
        if replica is None:
            if self.core.closed:
                self.core.refuse_closed()
            self.check_epoch(number, wide_epoch)
            return 0
        watermark = replica.move_watermark(<int32_t>wide_epoch, end)
        if self.attended[number]:
            self.settle(number, watermark)
        if self.moved is not None:
            self.moved(number)
        return watermark
