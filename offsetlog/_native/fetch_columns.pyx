"""Reads positions into Arrow columns without an object for each row, or a group's positions into a dict or set."""

cimport cython
from libc.stddef cimport size_t
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from cpython.bytes cimport PyBytes_FromStringAndSize

from offsetlog._native.buffers cimport NAME_GROUP, new_named_tuple, set_item, take_name, text_of
from offsetlog._native.store_core cimport StoreCore
from offsetlog._native.csrc cimport (
    OL_LIMIT,
    OL_NO_MEMORY,
    OL_OK,
    c_bool,
    ol_position_columns,
    ol_position_columns_append_group,
    ol_position_columns_append_table,
    ol_position_columns_free,
    ol_position_columns_reserve,
    ol_string_dictionary,
    ol_string_dictionary_get,
    ol_error,
    ol_partition_lock_state,
    ol_partition_unlock_state,
    ol_pending_next_unstable,
    ol_slice,
    ol_slice_of,
    ol_state,
    ol_table_count,
    ol_table_cursor,
    ol_table_group_hash,
    ol_table_row,
    ol_utf16_units,
)
from offsetlog._native.partition cimport Partition
from offsetlog._native.status cimport check

from uuid import UUID

from offsetlog.types import OffsetAndMetadata, TopicPartition

cdef type TOPIC_PARTITION = TopicPartition
cdef type OFFSET_AND_METADATA = OffsetAndMetadata


@cython.final
cdef class ColumnBlock:
    """A block of columns whose memory Arrow arrays can use without a copy.  The arrays keep the block alive."""

    cdef ol_position_columns columns

    def __cinit__(self):
        memset(&self.columns, 0, sizeof(self.columns))

    def __dealloc__(self):
        ol_position_columns_free(&self.columns)


cdef int add_block(list blocks) noexcept:
    # Returns a status instead of raising, because the caller holds a lock of the engine and must release it.
    try:
        blocks.append(ColumnBlock.__new__(ColumnBlock))
    except MemoryError:
        return OL_NO_MEMORY
    return OL_OK


cdef int read_partition(Partition partition, list blocks) except -1:
    # Appends all positions of a partition to the last block; begins another block when the metadata of one overflows.
    cdef const ol_state *state = NULL
    cdef ol_table_cursor cursor
    cdef ol_error error
    cdef ColumnBlock block = <ColumnBlock>blocks[len(blocks) - 1]
    cdef int status
    memset(&cursor, 0, sizeof(cursor))
    partition.enter()
    try:
        with nogil:
            check(ol_partition_lock_state(partition.handle, &state, &error), &error)
            status = ol_position_columns_reserve(&block.columns, ol_table_count(state.table), &error)
            while status == OL_OK:
                status = ol_position_columns_append_table(&block.columns, partition.number, state.table, &cursor, &error)
                if status != OL_LIMIT:
                    break
                with gil:
                    status = add_block(blocks)
                    block = <ColumnBlock>blocks[len(blocks) - 1]
            ol_partition_unlock_state(partition.handle)
            check(status, &error)
    finally:
        partition.leave()
    return 0


cdef int read_groups(Partition partition, list names, list blocks) except -1:
    # Appends the positions of groups, each as of one moment, as read_partition does.
    cdef const ol_state *state = NULL
    cdef ol_table_cursor cursor
    cdef ol_error error
    cdef ColumnBlock block
    cdef int status = OL_OK
    cdef size_t count = <size_t>len(names)
    cdef size_t index
    cdef ol_slice *slices = <ol_slice *>malloc((count + 1) * sizeof(ol_slice))
    if slices == NULL:
        raise MemoryError()
    try:
        for index in range(count):
            take_name(names[index], NAME_GROUP, &slices[index])
        index = 0
        block = <ColumnBlock>blocks[len(blocks) - 1]
        memset(&cursor, 0, sizeof(cursor))
        partition.enter()
        try:
            if count > 0:
                # A group is copied as a whole, and many groups under one hold of the lock.
                with nogil:
                    check(ol_partition_lock_state(partition.handle, &state, &error), &error)
                    while index < count:
                        status = ol_position_columns_append_group(
                            &block.columns, partition.number, state.table, slices[index], &cursor, &error
                        )
                        if status == OL_LIMIT:
                            with gil:
                                status = add_block(blocks)
                                block = <ColumnBlock>blocks[len(blocks) - 1]
                            if status == OL_OK:
                                continue
                        if status != OL_OK:
                            break
                        memset(&cursor, 0, sizeof(cursor))
                        index += 1
                    ol_partition_unlock_state(partition.handle)
                check(status, &error)
        finally:
            partition.leave()
    finally:
        free(slices)
    return 0


cdef object fixed_column(object pyarrow, object kind, const void *data, size_t width, ColumnBlock block):
    cdef size_t count = block.columns.count
    buffer = pyarrow.foreign_buffer(<uintptr_t>data, count * width, block)
    return pyarrow.Array.from_buffers(kind, count, [None, buffer], 0)


cdef bint all_valid(const ol_string_dictionary *dictionary) noexcept nogil:
    cdef size_t index
    cdef c_bool valid = True
    for index in range(dictionary.count):
        ol_utf16_units(ol_string_dictionary_get(dictionary, index), &valid)
        if not valid:
            return False
    return True


cdef object names_array(object pyarrow, const ol_string_dictionary *dictionary):
    # The distinct names as a column of strings; a name that is not valid UTF-8 is decoded as Java does.
    cdef size_t index
    cdef ol_slice name
    if dictionary.count == 0:
        return pyarrow.array([], pyarrow.string())
    if not all_valid(dictionary):
        texts = []
        for index in range(dictionary.count):
            name = ol_string_dictionary_get(dictionary, index)
            texts.append(text_of(name.data, name.size))
        return pyarrow.array(texts, pyarrow.string())
    ends = (<const char *>dictionary.ends)[: (dictionary.count + 1) * sizeof(int64_t)]
    # If the only name is empty, there are no bytes.
    size = dictionary.ends[dictionary.count]
    data = (<const char *>dictionary.bytes)[:size] if size > 0 else b""
    large = pyarrow.Array.from_buffers(
        pyarrow.large_string(), dictionary.count, [None, pyarrow.py_buffer(ends), pyarrow.py_buffer(data)], 0
    )
    return large.cast(pyarrow.string()) if size <= INT32_MAX else large


cdef bint metadata_is_valid(const ol_position_columns *columns) noexcept nogil:
    cdef size_t row
    cdef int32_t start, end
    cdef c_bool valid = True
    if columns.metadata_ends[columns.count] == 0:
        return True
    for row in range(columns.count):
        start, end = columns.metadata_ends[row], columns.metadata_ends[row + 1]
        if end > start:
            ol_utf16_units(ol_slice_of(columns.metadata + start, <size_t>(end - start)), &valid)
            if not valid:
                return False
    return True


cdef str metadata_at(const ol_position_columns *columns, size_t row):
    cdef int32_t start = columns.metadata_ends[row]
    return text_of(columns.metadata + start, <size_t>(columns.metadata_ends[row + 1] - start))


cdef object metadata_array(object pyarrow, ColumnBlock block):
    cdef ol_position_columns *columns = &block.columns
    cdef size_t row
    if not metadata_is_valid(columns):
        return pyarrow.array([metadata_at(columns, row) for row in range(columns.count)], pyarrow.string())
    ends = pyarrow.foreign_buffer(<uintptr_t>columns.metadata_ends, (columns.count + 1) * sizeof(int32_t), block)
    size = columns.metadata_ends[columns.count]
    data = pyarrow.foreign_buffer(<uintptr_t>columns.metadata, size, block) if size > 0 else pyarrow.py_buffer(b"")
    return pyarrow.Array.from_buffers(pyarrow.string(), columns.count, [None, ends, data], 0)


cdef object topic_id_array(object pyarrow, ColumnBlock block):
    cdef ol_position_columns *columns = &block.columns
    kind = pyarrow.binary(16)
    if columns.topic_ids == NULL:
        return pyarrow.nulls(columns.count, kind)
    valid = pyarrow.foreign_buffer(<uintptr_t>columns.topic_id_valid, (columns.count + 7) // 8, block)
    data = pyarrow.foreign_buffer(<uintptr_t>columns.topic_ids, columns.count * 16, block)
    return pyarrow.Array.from_buffers(kind, columns.count, [valid, data], columns.count - columns.topic_id_count)


def position_schema():
    """Returns the Arrow schema of `to_arrow` and `fetch_arrow`."""
    import pyarrow

    name = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    return pyarrow.schema([
        ("group", name),
        ("topic", name),
        ("partition", pyarrow.int32()),
        ("offset", pyarrow.int64()),
        ("leader_epoch", pyarrow.int32()),
        ("metadata", pyarrow.string()),
        ("commit_timestamp", pyarrow.int64()),
        ("expire_timestamp", pyarrow.int64()),
        ("topic_id", pyarrow.binary(16)),
        ("log_partition", pyarrow.int32()),
        ("log_offset", pyarrow.int64()),
    ])


cdef object batch_of(object pyarrow, ColumnBlock block):
    cdef ol_position_columns *columns = &block.columns
    cdef object int32 = pyarrow.int32()
    cdef object int64 = pyarrow.int64()
    groups = fixed_column(pyarrow, int32, columns.groups, 4, block)
    topics = fixed_column(pyarrow, int32, columns.topics, 4, block)
    arrays = [
        pyarrow.DictionaryArray.from_arrays(groups, names_array(pyarrow, &columns.group_names), safe=False),
        pyarrow.DictionaryArray.from_arrays(topics, names_array(pyarrow, &columns.topic_names), safe=False),
        fixed_column(pyarrow, int32, columns.partitions, 4, block),
        fixed_column(pyarrow, int64, columns.offsets, 8, block),
        fixed_column(pyarrow, int32, columns.leader_epochs, 4, block),
        metadata_array(pyarrow, block),
        fixed_column(pyarrow, int64, columns.commit_timestamps, 8, block),
        fixed_column(pyarrow, int64, columns.expire_timestamps, 8, block),
        topic_id_array(pyarrow, block),
        fixed_column(pyarrow, int32, columns.log_partitions, 4, block),
        fixed_column(pyarrow, int64, columns.log_offsets, 8, block),
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, names=position_schema().names)


cdef object table_of(list blocks):
    import pyarrow

    batches = [batch_of(pyarrow, block) for block in blocks if (<ColumnBlock>block).columns.count > 0]
    if not batches:
        return position_schema().empty_table()
    return pyarrow.Table.from_batches(batches)


def to_arrow(StoreCore core not None):
    """Returns every committed position of a store as a table of `position_schema`."""
    cdef list blocks = [ColumnBlock.__new__(ColumnBlock)]
    for partition in core.attached():
        read_partition(partition, blocks)
    return table_of(blocks)


def partition_to_arrow(Partition partition not None):
    """Returns every committed position of one log partition as a table of `position_schema`."""
    cdef list blocks = [ColumnBlock.__new__(ColumnBlock)]
    read_partition(partition, blocks)
    return table_of(blocks)


def fetch_arrow(StoreCore core not None, list groups not None):
    """Returns the committed positions of many groups as a table of `position_schema`."""
    cdef list blocks = [ColumnBlock.__new__(ColumnBlock)]
    cdef dict by_partition = {}
    for group in dict.fromkeys(groups):
        by_partition.setdefault(core.number_of(group), []).append(group)
    # Listed in one step, so that a refresh takes effect for all of them or none.
    partitions = {partition.number: partition for partition in core.attached()}
    for number, names in by_partition.items():
        partition = partitions.get(number)
        if partition is not None:
            read_groups(partition, names, blocks)
        else:
            core.partition(number)  # raises if its directory is missing
    return table_of(blocks)


def fetch_group(StoreCore core not None, group):
    """Returns the committed positions of one group as {TopicPartition: OffsetAndMetadata}."""
    cdef list blocks = [ColumnBlock.__new__(ColumnBlock)]
    cdef dict found = {}
    partition = core.partition(core.number_of(group))
    if partition is None:
        return found
    read_groups(partition, [group], blocks)
    for block in blocks:
        add_positions(<ColumnBlock>block, found)
    return found


cdef int add_positions(ColumnBlock block, dict found) except -1:
    cdef ol_position_columns *columns = &block.columns
    cdef size_t row
    cdef ol_slice name
    cdef list topics = []
    for row in range(columns.topic_names.count):
        name = ol_string_dictionary_get(&columns.topic_names, row)
        topics.append(text_of(name.data, name.size))
    for row in range(columns.count):
        key = new_named_tuple(TOPIC_PARTITION, 2)
        set_item(key, 0, topics[columns.topics[row]])
        set_item(key, 1, columns.partitions[row])
        value = new_named_tuple(OFFSET_AND_METADATA, 6)
        set_item(value, 0, columns.offsets[row])
        set_item(value, 1, metadata_at(columns, row))
        set_item(value, 2, columns.leader_epochs[row])
        set_item(value, 3, columns.commit_timestamps[row])
        set_item(value, 4, columns.expire_timestamps[row])
        set_item(value, 5, topic_id_at(columns, row))
        found[key] = value
    return 0


def fetch_keys(StoreCore core not None, group, list keys not None):
    """Returns {TopicPartition: OffsetAndMetadata} of the given (topic, partition) pairs that have a position."""
    cdef dict found = {}
    for topic, partition in keys:
        value = core.fetch_one(group, topic, partition)
        if value is not None:
            found[TopicPartition(topic, partition)] = value
    return found


def pending_keys(StoreCore core not None, group):
    """Returns the set of (topic, partition) of a group for which an open transaction has a value."""
    cdef const ol_state *state = NULL
    cdef ol_table_row row
    cdef ol_slice name
    cdef ol_error error
    cdef uint64_t cursor = 0
    cdef Partition partition
    cdef bytes topic
    cdef list flat = []
    take_name(group, NAME_GROUP, &name)
    partition = core.partition(core.number_of(group))
    if partition is None:
        return set()
    partition.enter()
    try:
        with nogil:
            check(ol_partition_lock_state(partition.handle, &state, &error), &error)
        # Only bytes and ints are created under the lock, because a garbage collection can run any code, which may wait for
        # the lock.
        try:
            hash = ol_table_group_hash(state.table, name)
            while ol_pending_next_unstable(state.pending, name, hash, &cursor, &row):
                flat.append(PyBytes_FromStringAndSize(<const char *>row.topic.data, <Py_ssize_t>row.topic.size))
                flat.append(row.partition)
        finally:
            ol_partition_unlock_state(partition.handle)
    finally:
        partition.leave()
    return {
        (text_of(<const uint8_t *><const char *>topic, <size_t>len(topic)), number)
        for topic, number in zip(flat[0::2], flat[1::2], strict=True)
    }


cdef object topic_id_at(const ol_position_columns *columns, size_t row):
    if columns.topic_ids == NULL or not (columns.topic_id_valid[row // 8] >> (row % 8)) & 1:
        return None
    return UUID(bytes=(<const char *>columns.topic_ids + 16 * row)[:16])
