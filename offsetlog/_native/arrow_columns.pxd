# The columns of an Arrow table as plain memory.  The columns borrow from the arrays, which must stay alive as long as the
# columns are used.

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t

from offsetlog._native.csrc cimport ol_slice, ol_slice_of

# A column of strings.  Either each row has its own string, or each row is an index into a dictionary of strings.
cdef struct string_column:
    const int32_t *ends32       # the ends of the strings: either ends32 or ends64 is set
    const int64_t *ends64
    const uint8_t *bytes
    const uint8_t *valid        # a bitmap, NULL if there are no nulls
    int64_t first               # the index of row 0 in the buffers
    const int32_t *numbers      # the index of each row in the dictionary; NULL if there is no dictionary

cdef struct batch_columns:
    size_t rows
    string_column group
    string_column topic
    string_column metadata
    const int32_t *partitions
    const int64_t *offsets
    const int32_t *leader_epochs        # NULL: the column is absent
    const int64_t *commit_timestamps
    bint has_metadata

# Returns a pyarrow.Table of any object that Arrow can read, with all required columns and no unknown ones.
cdef object table_from(object pyarrow, object batch)
# After the return, all references in the arrays are known to be inside their buffers; the values are not checked.  `kept`
# receives the arrays, and `distinct` the number of groups in their dictionary, 0 for plain strings.
cdef int take_columns(object pyarrow, object table, batch_columns *columns, list kept, size_t *distinct) except -1


cdef inline ol_slice string_at(const string_column *column, int64_t place) noexcept nogil:
    # `place` is the row of a plain string, or an index of the dictionary.
    cdef int64_t start
    cdef int64_t end
    if column.ends32 != NULL:
        start, end = column.ends32[place], column.ends32[place + 1]
    else:
        start, end = column.ends64[place], column.ends64[place + 1]
    return ol_slice_of(column.bytes + start, <size_t>(end - start))


cdef inline int64_t place_of(const string_column *column, size_t row) noexcept nogil:
    if column.numbers != NULL:
        return column.numbers[row]
    return column.first + <int64_t>row


cdef inline bint is_null(const string_column *column, size_t row) noexcept nogil:
    cdef size_t place = <size_t>column.first + row
    return column.valid != NULL and not (column.valid[place // 8] >> (place % 8)) & 1
