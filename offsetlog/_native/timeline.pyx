"""Reads the past of one partition from its log: changes of a position, states at log offsets, missing records.

Names and metadata are returned as the bytes that are in the log, so that the same bytes can be written back.  A value
is the tuple (offset, leader epoch, metadata, commit timestamp, expire timestamp, topic id or None, log offset).
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset
from posix.unistd cimport usleep

from offsetlog._native.buffers cimport NAME_GROUP, NAME_TOPIC, item_array, reserve_items, take_name
from offsetlog._native.csrc cimport (
    OL_CONDITION,
    OL_CONTROL_COMMIT,
    OL_ITEM_POSITION,
    OL_ITEM_POSITION_TOMBSTONE,
    OL_NO_MEMORY,
    OL_OK,
    OL_ROLE_UNLOADED,
    OL_TOPIC_ID_SIZE,
    ol_batch,
    ol_batch_is_transactional,
    ol_commit_result,
    ol_control,
    ol_error,
    ol_fail,
    ol_group_copy,
    ol_group_copy_free,
    ol_group_copy_row,
    ol_group_copy_take,
    ol_group_fingerprint,
    ol_item,
    ol_key,
    ol_log_offset_for_time,
    ol_log_end,
    ol_log_ended_by,
    ol_log_open_since,
    ol_log_segment_at,
    ol_log_segment_info,
    ol_log_start,
    ol_int64_map,
    ol_int64_map_free,
    ol_int64_map_get,
    ol_int64_map_reserve,
    ol_int64_map_set,
    ol_offset_value,
    ol_offset_value_decode,
    ol_pair_name,
    ol_partition_commit_unchanged,
    ol_partition_lock_state,
    ol_partition_log,
    ol_partition_positions,
    ol_partition_role,
    ol_partition_unlock_state,
    ol_state_at,
    ol_state_at_changes,
    ol_state_at_compare,
    ol_state_at_find_tombstones,
    ol_state_at_make,
    ol_state_at_tombstones,
    ol_position_value,
    ol_positions,
    ol_record,
    ol_slice,
    ol_slice_of,
    ol_state,
    ol_state_destroy,
    ol_table_cursor,
    ol_table_get,
    ol_table_group_hash,
    ol_table_name,
    ol_table_next,
    ol_table_row,
    ol_timeline_batch,
    ol_timeline_facts,
    ol_timeline_filter,
    ol_timeline_next_batch,
    ol_timeline_sink,
    ol_timeline_walk,
)
from offsetlog._native.commit_items cimport start_item
from offsetlog._native.partition cimport Partition
from offsetlog._native.status cimport check

from typing import NamedTuple

from offsetlog.errors import InternalError


class Facts(NamedTuple):
    """Facts that a walk over a part of the log has found.

    Attributes:
        first_missing: the first missing log offset, None if no log offset is missing.
        missing_end: the log offset after the last missing one, 0 if no log offset is missing.
        max_timestamp: the largest timestamp of the batches in the walk; -1 if they have none.
        last_timestamp: the timestamp of the last batch, -1 if it has none; None if the walk had no batch.
        passed_over: the number of batches that cannot be read.
        refused: the number of records that cannot be decoded.
    """

    first_missing: int | None
    missing_end: int
    max_timestamp: int
    last_timestamp: int | None
    passed_over: int
    refused: int


cdef object _facts_of(const ol_timeline_facts *facts):
    first = None if facts.first_missing == INT64_MAX else facts.first_missing
    last = None if facts.last_timestamp == INT64_MIN else facts.last_timestamp
    return Facts(first, facts.missing_end, facts.max_timestamp, last, facts.passed_over, facts.refused)


class Batch(NamedTuple):
    """A batch of a log: its records [first, next), and their greatest timestamp, -1 if they have none."""

    first: int
    next: int
    timestamp: int


cdef bytes _bytes_of(ol_slice slice):
    return PyBytes_FromStringAndSize(<const char *>slice.data, <Py_ssize_t>slice.size)


cdef object _topic_id_of(const uint8_t *topic_id):
    return None if topic_id == NULL else PyBytes_FromStringAndSize(<const char *>topic_id, OL_TOPIC_ID_SIZE)


cdef tuple _value_of(const ol_position_value *value):
    return (
        value.offset,
        value.leader_epoch,
        _bytes_of(value.metadata),
        value.commit_timestamp,
        value.expire_timestamp,
        _topic_id_of(value.topic_id),
        value.log_offset,
    )


cdef enum:
    ROWS_AT_A_TIME = 4096
    PAUSE_US = 100


cdef inline int _let_others_run(size_t index) except -1:
    # A loop that creates objects keeps other threads from running Python code, because the interpreter never switches within
    # it.
    if index % ROWS_AT_A_TIME == ROWS_AT_A_TIME - 1:
        # Without a pause, this thread would take the GIL back before a woken thread can start.
        with nogil:
            usleep(PAUSE_US)
    return 0


@cython.final
cdef class _Collector:
    # Filled by a callback of a walk.  A failure in the callback is kept; it ends the walk, and is then raised.
    cdef list rows
    cdef object failure
    cdef ol_int64_map open        # producers whose transactions have matching records
    cdef int64_t refused
    cdef bint names_positions     # whether a row names its position

    def __cinit__(self):
        self.rows = []
        self.names_positions = False
        self.failure = None
        memset(&self.open, 0, sizeof(self.open))
        self.refused = 0

    def __dealloc__(self):
        ol_int64_map_free(&self.open)

    cdef int fail(self, object failure, ol_error *error) noexcept:
        self.failure = failure
        return ol_fail(error, OL_NO_MEMORY, "the walk was ended")

    cdef int check(self, int status, ol_error *error) except -1:
        if self.failure is not None:
            raise self.failure
        return check(status, error)


# ---------------------------------------------------------------------------------------------------------- places in the log


def bounds(Partition partition not None):
    """Returns (log start offset, applied log offset) of a partition.

    The partition must not be loading and must not have failed.  Raises StateError.
    """
    cdef const ol_state *state = NULL
    cdef ol_positions positions
    cdef ol_error error
    partition.enter()
    try:
        with nogil:
            check(ol_partition_lock_state(partition.handle, &state, &error), &error)
            ol_partition_positions(partition.handle, &positions)
            ol_partition_unlock_state(partition.handle)
        return ol_log_start(ol_partition_log(partition.handle)), positions.applied
    finally:
        partition.leave()


def last_segment_base(Partition partition not None):
    """Returns the log offset at which the newest segment begins."""
    cdef ol_log_segment_info info
    cdef size_t index = 0
    cdef int64_t base = 0
    partition.enter()
    try:
        with nogil:
            while ol_log_segment_at(ol_partition_log(partition.handle), index, &info):
                base = info.base_offset
                index += 1
        return base
    finally:
        partition.leave()


def cutoff(Partition partition not None, int64_t timestamp_ms):
    """Returns the log offset below which no batch has a timestamp later than `timestamp_ms`.

    It is the greatest such log offset up to the log end, or, if the partition was loaded, up to the end of the applied
    records.  Any thread may call this function, even while the log is written and cleaned.  Raises StorageError,
    CapacityError.
    """
    cdef ol_positions positions
    cdef ol_error error
    cdef int64_t offset = 0
    cdef int64_t until
    partition.enter()
    try:
        with nogil:
            log = ol_partition_log(partition.handle)
            ol_partition_positions(partition.handle, &positions)
            until = positions.applied if ol_partition_role(partition.handle) != OL_ROLE_UNLOADED else ol_log_end(log)
            check(ol_log_offset_for_time(log, timestamp_ms, until, &offset, &error), &error)
        return offset
    finally:
        partition.leave()


def open_since(Partition partition not None, int64_t offset):
    """Returns the first log offset of the oldest transaction that was open at `offset`; `offset` if none was."""
    cdef ol_error error
    cdef int64_t first = offset
    partition.enter()
    try:
        with nogil:
            check(ol_log_open_since(ol_partition_log(partition.handle), offset, &first, &error), &error)
        return first
    finally:
        partition.leave()


def ended_by(Partition partition not None, int64_t offset, int64_t until):
    """Finds the last marker below `until` that ends a transaction that was open at `offset`.

    Returns the log offset after that marker.  Returns `offset` if no transaction was open at `offset`, or if no such
    transaction ends below `until`.
    """
    cdef ol_error error
    cdef int64_t end = offset
    partition.enter()
    try:
        with nogil:
            check(ol_log_ended_by(ol_partition_log(partition.handle), offset, until, &end, &error), &error)
        return end
    finally:
        partition.leave()


def survey(Partition partition not None, int64_t start, int64_t until):
    """Returns the Facts of [start, until).

    Reads only the headers of batches, except for compressed message sets of magic 0 and 1.
    """
    cdef ol_timeline_facts facts
    cdef ol_error error
    partition.enter()
    try:
        with nogil:
            check(ol_timeline_walk(partition.handle, start, until, NULL, NULL, &facts, &error), &error)
        return _facts_of(&facts)
    finally:
        partition.leave()


def next_batch(Partition partition not None, int64_t start):
    """Returns the first Batch that ends at or above a log offset, None if there is none.  Ignores damaged batches."""
    cdef ol_error error
    cdef ol_timeline_batch found
    partition.enter()
    try:
        with nogil:
            check(ol_timeline_next_batch(partition.handle, start, &found, &error), &error)
        return None if found.next < 0 else Batch(found.first, found.next, found.timestamp)
    finally:
        partition.leave()


# ---------------------------------------------------------------------------------------------------------- one position


cdef int _open_producer(_Collector found, int64_t producer_id, ol_error *error) noexcept nogil:
    cdef int status = ol_int64_map_reserve(&found.open, found.open.count + 1, error)
    if status == OL_OK:
        ol_int64_map_set(&found.open, <uint64_t>producer_id, 1)
    return status


cdef int _note_record(void *context, const ol_batch *batch, const ol_record *record, const ol_key *key,
                      ol_error *error) noexcept with gil:
    cdef _Collector found = <_Collector>context
    cdef ol_offset_value value
    cdef ol_error refusal
    cdef bint transactional = ol_batch_is_transactional(batch)
    cdef object committed = None
    cdef tuple event
    cdef int64_t producer = batch.producer_id if transactional else -1
    try:
        if record.value.data != NULL:
            if ol_offset_value_decode(record.value, key.type, &value, &refusal) != OL_OK:
                found.refused += 1
                return OL_OK
            committed = (value.offset, value.leader_epoch, _bytes_of(value.metadata), value.commit_timestamp,
                         value.expire_timestamp, _topic_id_of(value.topic_id), record.offset)
        event = (record.offset, record.timestamp, producer, batch.producer_epoch if transactional else -1, committed)
        if found.names_positions:
            event = (event, _bytes_of(key.topic), key.partition)
        found.rows.append(event)
        return _open_producer(found, batch.producer_id, error) if transactional else OL_OK
    except BaseException as failure:
        return found.fail(failure, error)


cdef int _tell_marker(_Collector found, const ol_batch *batch, const ol_record *record, ol_control type,
                      ol_error *error) noexcept with gil:
    try:
        found.rows.append((record.offset, batch.producer_id, type == OL_CONTROL_COMMIT))
        return OL_OK
    except BaseException as failure:
        return found.fail(failure, error)


cdef int _note_marker(void *context, const ol_batch *batch, const ol_record *record, ol_control type,
                      ol_error *error) noexcept nogil:
    # Most markers end transactions without records of the position, and are handled without the GIL.
    if ol_int64_map_get(&(<_Collector>context).open, <uint64_t>batch.producer_id) == 0:
        return OL_OK
    if type != OL_CONTROL_COMMIT and type != 0:
        return OL_OK
    ol_int64_map_set(&(<_Collector>context).open, <uint64_t>batch.producer_id, 0)
    return _tell_marker(<_Collector>context, batch, record, type, error)


def events(Partition partition not None, group, topic, int32_t number, int64_t until):
    """Returns the records of one position below `until`, in order, and the Facts of that part of the log.

    A record is (log offset, timestamp, producer id or -1, producer epoch, value or None for a tombstone).  The list
    also contains the markers that end a transaction with such a record: (log offset, producer id, whether it
    committed).  If `topic` is None, the call returns the records of all positions of the group, each together with its
    position: (record, topic, partition).
    """
    cdef _Collector found = _Collector.__new__(_Collector)
    cdef ol_timeline_filter filter
    cdef ol_timeline_sink sink
    cdef ol_timeline_facts facts
    cdef ol_error error
    cdef int status
    memset(&filter, 0, sizeof(filter))
    take_name(group, NAME_GROUP, &filter.group)
    if topic is None:
        found.names_positions = True
    else:
        take_name(topic, NAME_TOPIC, &filter.topic)
        filter.partition = number
    sink.record, sink.marker, sink.context = _note_record, _note_marker, <void *>found
    partition.enter()
    try:
        with nogil:
            status = ol_timeline_walk(partition.handle, 0, until, &filter, &sink, &facts, &error)
        found.check(status, &error)
    finally:
        partition.leave()
    facts.refused += found.refused
    return found.rows, _facts_of(&facts)


# ---------------------------------------------------------------------------------------------------------- states


cdef int _note_change(void *context, const ol_table_row *before, const ol_table_row *after, ol_error *error) noexcept with gil:
    cdef _Collector found = <_Collector>context
    cdef const ol_table_row *place = before if before != NULL else after
    try:
        found.rows.append((
            _bytes_of(place.group),
            _bytes_of(place.topic),
            place.partition,
            _value_of(&before.value) if before != NULL else None,
            _value_of(&after.value) if after != NULL else None,
        ))
        return OL_OK
    except BaseException as failure:
        return found.fail(failure, error)


cdef enum:
    PASTS_MAX = 2


@cython.final
cdef class Pasts:
    """One or two past states of a partition, for one group or for all groups.  One thread at a time may use the object.

    Args:
        partition: the partition.
        group: the group, None for all.
        cuts: one or two log offsets; each gives the state after the records below it.

    Raises StorageError, CapacityError.
    """

    cdef ol_state_at[PASTS_MAX] pasts
    cdef size_t count
    cdef readonly object facts

    def __cinit__(self):
        memset(self.pasts, 0, sizeof(self.pasts))
        self.count = 0

    def __init__(self, Partition partition not None, group, cuts):
        cdef ol_timeline_filter filter
        cdef ol_timeline_facts facts
        cdef ol_error error
        if self.count != 0 or not 1 <= len(cuts) <= PASTS_MAX:
            raise InternalError("Pasts takes one or two cuts, and must not be initialized again")
        memset(&filter, 0, sizeof(filter))
        if group is not None:
            take_name(group, NAME_GROUP, &filter.group)
        for cut in cuts:
            self.pasts[self.count].cut = cut
            self.count += 1
        partition.enter()
        try:
            with nogil:
                check(ol_state_at_make(partition.handle, &filter, self.pasts, self.count, NULL, &facts, &error), &error)
        finally:
            partition.leave()
        self.facts = _facts_of(&facts)

    def __dealloc__(self):
        cdef size_t index
        for index in range(<size_t>PASTS_MAX):
            ol_state_destroy(&self.pasts[index].state)

    def rows(self):
        """Returns the first state of the group as {(topic, partition): value}."""
        cdef ol_table_cursor cursor
        cdef ol_table_row row
        cdef dict found = {}
        cdef size_t index = 0
        memset(&cursor, 0, sizeof(cursor))
        while ol_table_next(self.pasts[0].state.table, &cursor, &row):
            found[_bytes_of(row.topic), row.partition] = _value_of(&row.value)
            index += 1
            _let_others_run(index)
        return found

    def changes(self):
        """Returns (group, topic, partition, first value, second value) of every position whose two values differ.
        """
        cdef _Collector found = _Collector.__new__(_Collector)
        cdef ol_state_at_changes changes
        cdef ol_error error
        cdef int status
        if self.count != 2:
            raise InternalError("changes() compares two states, but there is only one")
        changes.report, changes.context = _note_change, <void *>found
        with nogil:
            status = ol_state_at_compare(&self.pasts[0].state, &self.pasts[1].state, &changes, &error)
        found.check(status, &error)
        return found.rows


# ---------------------------------------------------------------------------------------------------------- tombstones


cdef int _note_tombstone(void *context, const ol_record *record, const ol_key *key, const ol_position_value *value,
                         const ol_timeline_facts *facts, ol_error *error) noexcept with gil:
    cdef _Collector found = <_Collector>context
    try:
        found.rows.append((
            _bytes_of(key.group),
            _bytes_of(key.topic),
            key.partition,
            record.offset,
            record.timestamp,
            facts.missing_end,
            _value_of(value) if value != NULL else None,
        ))
        return OL_OK
    except BaseException as failure:
        return found.fail(failure, error)


cdef bint _is_there(const ol_state *state, bytes group, bytes topic, int32_t number) noexcept:
    cdef ol_position_value value
    cdef ol_slice group_name = ol_slice_of(<const char *>group, <size_t>len(group))
    cdef ol_slice topic_name = ol_slice_of(<const char *>topic, <size_t>len(topic))
    cdef ol_pair_name name = ol_table_name(state.table, group_name, ol_table_group_hash(state.table, group_name), topic_name)
    return ol_table_get(state.table, &name, number, &value)


def tombstones(Partition partition not None, group, int64_t until, int64_t since_ms):
    """Returns the tombstones of deleted positions below the log offset `until`, in order, and the Facts of that part.

    Only positions that are deleted at `until`, and that have a tombstone no older than `since_ms`, are included.  Each
    tombstone is (group, topic, partition, log offset, timestamp, the log offset after the missing records before it,
    the value that it deleted or None if there was none).
    """
    cdef _Collector found = _Collector.__new__(_Collector)
    cdef ol_state_at_tombstones sink
    cdef ol_timeline_filter filter
    cdef ol_timeline_facts facts
    cdef ol_int64_map places
    cdef ol_state_at past
    cdef ol_error error
    cdef int status = OL_OK
    memset(&filter, 0, sizeof(filter))
    memset(&places, 0, sizeof(places))
    memset(&past, 0, sizeof(past))
    if group is not None:
        take_name(group, NAME_GROUP, &filter.group)
    past.cut = until
    sink.report, sink.context = _note_tombstone, <void *>found
    partition.enter()
    try:
        with nogil:
            check(ol_state_at_find_tombstones(partition.handle, &filter, until, since_ms, &places, &facts, &error), &error)
            if places.count > 0:
                filter.places = &places
                status = ol_state_at_make(partition.handle, &filter, &past, 1, &sink, &facts, &error)
        found.check(status, &error)
        rows = [row for row in found.rows if not _is_there(&past.state, row[0], row[1], row[2])]
    finally:
        ol_state_destroy(&past.state)
        ol_int64_map_free(&places)
        partition.leave()
    return rows, _facts_of(&facts)


# ---------------------------------------------------------------------------------------------------------- writing back


@cython.final
cdef class GroupNow:
    """The committed positions of a group, as `Pasts.rows` returns them, and a fingerprint that shows a change.

    Raises StateError.
    """

    cdef ol_group_fingerprint mark
    cdef readonly dict rows

    def __init__(self, Partition partition not None, group):
        cdef ol_slice name
        cdef ol_group_copy copy
        cdef ol_table_row row
        cdef ol_error error
        cdef size_t index
        cdef dict found = {}
        take_name(group, NAME_GROUP, &name)
        memset(&copy, 0, sizeof(copy))
        try:
            partition.enter()
            try:
                with nogil:
                    check(ol_group_copy_take(&copy, partition.handle, name, &error), &error)
            finally:
                partition.leave()
            self.mark = copy.fingerprint
            for index in range(copy.count):
                row = ol_group_copy_row(&copy, index)
                found[_bytes_of(row.topic), row.partition] = _value_of(&row.value)
                _let_others_run(index)
        finally:
            ol_group_copy_free(&copy)
        self.rows = found

    def commit(self, Partition partition not None, group, list changes not None):
        """Writes values and tombstones in one batch, unless the group has changed since it was read.

        Args:
            partition: the partition.
            group: the group.
            changes: a list of (topic, partition, value or None for a tombstone).  A commit timestamp of -1 means the
                present time.  The call checks only the sizes of a value, so that values from a log can be written
                again.

        Returns:
            (base offset, log offset to wait for, term, timestamp of the batch); None if the group has changed, so that
            nothing was written.

        Raises:
            TooLargeError: the tombstones do not fit into one batch.
            StateError, StorageError, CapacityError.
        """
        cdef ol_slice name
        cdef item_array array
        cdef ol_item *item
        cdef ol_commit_result result
        cdef ol_error error
        cdef size_t count = 0
        cdef int status
        take_name(group, NAME_GROUP, &name)
        memset(&array, 0, sizeof(array))
        partition.enter()
        try:
            reserve_items(&array, <size_t>len(changes) + 1)
            for topic, number, value in changes:
                item = &array.items[count]
                start_item(item, name)
                item.topic = _slice_of(topic)
                item.partition = number
                if value is None:
                    item.kind = OL_ITEM_POSITION_TOMBSTONE
                else:
                    item.kind = OL_ITEM_POSITION
                    item.offset, item.leader_epoch = value[0], value[1]
                    item.metadata = _slice_of(value[2])
                    item.commit_timestamp, item.expire_timestamp = value[3], value[4]
                    if value[5] is not None:
                        item.topic_id = _slice_of(value[5]).data
                count += 1
            with nogil:
                status = ol_partition_commit_unchanged(partition.handle, name, &self.mark, array.items, count, &result, &error)
            if status == OL_CONDITION:
                return None
            check(status, &error)
        finally:
            free(array.items)
            partition.leave()
        return result.base_offset, result.end_offset, result.term, result.timestamp


cdef ol_slice _slice_of(bytes content):
    # The slice borrows from the bytes, which a list of the caller keeps alive.
    return ol_slice_of(<const char *>content, <size_t>len(content))
