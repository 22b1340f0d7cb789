"""Checks that the columns of an Arrow table refer only to their own buffers, and makes them readable as plain memory.

Arrow validates data only on request.  Until the checks of this module, the end offsets of strings and the indexes of
dictionaries can therefore have any value.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uintptr_t

from offsetlog.errors import ArgumentTypeError, InvalidArgumentError, OffsetError, PartitionError

cdef tuple NEEDED_COLUMNS = ("group", "topic", "partition", "offset")
cdef tuple COLUMNS = (*NEEDED_COLUMNS, "leader_epoch", "metadata", "commit_timestamp")
# The other columns of to_arrow, which are accepted so that its tables can be committed again.
cdef tuple UNUSED_COLUMNS = ("expire_timestamp", "topic_id", "log_partition", "log_offset")

ctypedef fused string_end:
    int32_t
    int64_t


cdef bint ends_are_sound(const string_end *ends, int64_t count, int64_t size) noexcept nogil:
    # One pass without a branch.  If the first end is not negative and the last is inside, none between can be wrong.
    cdef bint backwards = False
    cdef int64_t at
    for at in range(count):
        backwards |= ends[at + 1] < ends[at]
    return not backwards and ends[0] >= 0 and ends[count] <= size


cdef uintptr_t address_of(object buffer) except? 0:
    return 0 if buffer is None else buffer.address


cdef object whole(object pyarrow, object column):
    # Returns a column as one array, without a copy if it has only one chunk.
    is_dictionary = pyarrow.types.is_dictionary(column.type)
    # For plain strings and numbers this compares only sizes; references that Arrow itself follows are checked in full.
    column.validate(full=is_dictionary or pyarrow.types.is_string_view(column.type))
    if column.num_chunks == 1:
        return column.chunk(0)
    if is_dictionary:
        column = column.unify_dictionaries()
    elif pyarrow.types.is_string(column.type):
        column = column.cast(pyarrow.large_string())
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pyarrow.ChunkedArray) else combined


cdef object plain_numbers(object pyarrow, object array):
    # Nulls of an optional column become -1, as if the column were absent.  Times are milliseconds since 1970.
    if pyarrow.types.is_timestamp(array.type):
        # Finer units lose the precision that no record can hold; values of coarser units must fit.
        array = array.cast(pyarrow.timestamp("ms", array.type.tz), safe=array.type.unit in ("s", "ms")).cast(pyarrow.int64())
    elif pyarrow.types.is_null(array.type):
        array = array.cast(pyarrow.int64())
    if array.null_count and pyarrow.types.is_integer(array.type):
        array = array.cast(pyarrow.int64()).fill_null(-1)
    return array


cdef int take_integers(object pyarrow, object table, str name, object kind, list kept, uintptr_t *address) except -1:
    array = whole(pyarrow, table.column(name))
    if name == "leader_epoch" or name == "commit_timestamp":
        array = plain_numbers(pyarrow, array)
    if not pyarrow.types.is_integer(array.type):
        raise ArgumentTypeError(f"the column {name} must hold integers, not {array.type}")
    if array.null_count:
        raise InvalidArgumentError(f"the column {name} has nulls; every row needs a value")
    array = array.cast(kind)
    kept.append(array)
    address[0] = address_of(array.buffers()[1]) + <uintptr_t>(array.offset * (kind.bit_width // 8))
    return 0


cdef int take_plain(object pyarrow, object array, str name, bint nullable, list kept, string_column *column) except -1:
    cdef int64_t count = len(array)
    cdef int64_t size
    cdef bint sound
    if pyarrow.types.is_string_view(array.type):
        array = array.cast(pyarrow.large_string())
    elif pyarrow.types.is_null(array.type):
        array = array.cast(pyarrow.string())
    elif not (pyarrow.types.is_string(array.type) or pyarrow.types.is_large_string(array.type)):
        raise ArgumentTypeError(f"the column {name} must hold strings, not {array.type}")
    if array.null_count and not nullable:
        raise InvalidArgumentError(f"the column {name} has nulls; every row needs a value")
    kept.append(array)
    valid, ends, data = array.buffers()
    column.ends32 = NULL
    column.ends64 = NULL
    if pyarrow.types.is_string(array.type):
        column.ends32 = <const int32_t *>address_of(ends)
    else:
        column.ends64 = <const int64_t *>address_of(ends)
    column.bytes = <const uint8_t *>address_of(data)
    if column.bytes == NULL:
        column.bytes = <const uint8_t *>b""
    column.valid = <const uint8_t *>address_of(valid) if array.null_count else NULL
    column.first = array.offset
    column.numbers = NULL
    if count == 0:
        return 0
    size = 0 if data is None else data.size
    with nogil:
        if column.ends32 != NULL:
            sound = ends_are_sound(column.ends32 + column.first, count, size)
        else:
            sound = ends_are_sound(column.ends64 + column.first, count, size)
    if not sound:
        raise InvalidArgumentError(f"the column {name} is malformed: a string ends before it begins, or outside the buffer")
    return 0


cdef int take_strings(object pyarrow, object table, str name, bint nullable, list kept, string_column *column,
                      size_t *distinct) except -1:
    # distinct: the number of values in the dictionary, 0 for plain strings.
    cdef uintptr_t address
    array = whole(pyarrow, table.column(name))
    distinct[0] = 0
    if not pyarrow.types.is_dictionary(array.type):
        return take_plain(pyarrow, array, name, nullable, kept, column)
    if nullable:
        return take_plain(pyarrow, array.cast(array.type.value_type), name, nullable, kept, column)
    if array.null_count or array.dictionary.null_count:
        raise InvalidArgumentError(f"the column {name} has nulls; every row needs a value")
    numbers = array.indices.cast(pyarrow.int32())
    values = array.dictionary
    if values.offset:
        values = pyarrow.concat_arrays([values])
    take_plain(pyarrow, values, name, False, kept, column)
    kept.append(numbers)
    address = address_of(numbers.buffers()[1]) + <uintptr_t>(4 * numbers.offset)
    column.numbers = <const int32_t *>address
    distinct[0] = <size_t>len(values)
    return 0


cdef int take_column(object pyarrow, object table, str name, batch_columns *columns, list kept, size_t *distinct) except -1:
    cdef uintptr_t address = 0
    cdef size_t ignored = 0
    if name == "group":
        take_strings(pyarrow, table, name, False, kept, &columns.group, distinct)
    elif name == "topic":
        take_strings(pyarrow, table, name, False, kept, &columns.topic, &ignored)
    elif name == "metadata":
        take_strings(pyarrow, table, name, True, kept, &columns.metadata, &ignored)
        columns.has_metadata = True
    elif name == "partition":
        take_integers(pyarrow, table, name, pyarrow.int32(), kept, &address)
        columns.partitions = <const int32_t *>address
    elif name == "offset":
        take_integers(pyarrow, table, name, pyarrow.int64(), kept, &address)
        columns.offsets = <const int64_t *>address
    elif name == "leader_epoch":
        take_integers(pyarrow, table, name, pyarrow.int32(), kept, &address)
        columns.leader_epochs = <const int32_t *>address
    elif name == "commit_timestamp":
        take_integers(pyarrow, table, name, pyarrow.int64(), kept, &address)
        columns.commit_timestamps = <const int64_t *>address
    return 0


cdef int take_columns(object pyarrow, object table, batch_columns *columns, list kept, size_t *distinct) except -1:
    for name in COLUMNS:
        if name not in table.column_names:
            continue
        try:
            take_column(pyarrow, table, name, columns, kept, distinct)
        except pyarrow.ArrowMemoryError:
            raise
        except pyarrow.ArrowException as failure:
            error = PartitionError if name == "partition" else OffsetError if name == "offset" else InvalidArgumentError
            raise error(f"the column {name}: {failure}") from None
    return 0


cdef object table_of(object pyarrow, object batch):
    if isinstance(batch, pyarrow.Table):
        return batch
    if isinstance(batch, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([batch])
    if hasattr(batch, "__arrow_c_stream__") or hasattr(batch, "__arrow_c_array__"):
        try:
            return pyarrow.table(batch)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError) as failure:
            raise ArgumentTypeError(f"the batch cannot be read as an Arrow record batch or table: {failure}") from None
    raise ArgumentTypeError(f"the batch must be an Arrow record batch or table, not {type(batch).__name__}")


cdef object table_from(object pyarrow, object batch):
    table = table_of(pyarrow, batch)
    cdef list names = table.column_names
    for name in NEEDED_COLUMNS:
        if name not in names:
            raise InvalidArgumentError(f"the column {name} is missing")
    # Otherwise a misspelt column would be lost silently.
    unknown = [name for name in names if name not in COLUMNS and name not in UNUSED_COLUMNS]
    if unknown:
        raise InvalidArgumentError(
            f"unknown column {', '.join(map(repr, unknown))}; the known ones are {', '.join((*COLUMNS, *UNUSED_COLUMNS))}"
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgumentError(f"the column {twice!r} appears more than once")
    return table
