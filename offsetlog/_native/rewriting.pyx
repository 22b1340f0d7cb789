"""Writes records of existing logs into new batches of magic 2, without changing the bytes of keys and values.

A job that moves records from one log to another passes them as Arrow columns.  One call encodes any number of rows as a
batch.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uintptr_t

from offsetlog._native.csrc cimport (
    OL_ATTRIBUTE_CONTROL,
    OL_ATTRIBUTE_DELETE_HORIZON,
    OL_ATTRIBUTE_LOG_APPEND_TIME,
    OL_ATTRIBUTE_TRANSACTIONAL,
    OL_BATCH_OVERHEAD,
    ol_batch_fields,
    ol_batch_fields_init,
    ol_batch_seal,
    ol_record_put,
    ol_record_size,
    ol_slice,
    ol_slice_null,
    ol_slice_of,
)

from offsetlog.errors import InvalidArgumentError, TooLargeError

# The header in a commit of ours that is larger than a batch: a varint of the size, the name, a varint of the size, the value.
cdef bytes OWN_HEADER = b"\x1col.transaction\x021"
cdef size_t BATCH_SIZE_MAX = 0x7fffffff


cdef struct binary_column:
    const uint8_t *validity     # NULL: no row is null
    const int32_t *offsets
    const uint8_t *data
    Py_ssize_t first            # the index of the first row in the buffers


cdef inline ol_slice _bytes_at(const binary_column *column, Py_ssize_t row) noexcept nogil:
    cdef Py_ssize_t at = column.first + row
    cdef int32_t begin
    if column.validity != NULL and not (column.validity[at >> 3] >> (at & 7)) & 1:
        return ol_slice_null()
    begin = column.offsets[at]
    # An empty value is not null, so the address must not be NULL.
    if column.data == NULL:
        return ol_slice_of(b"", 0)
    return ol_slice_of(<const char *>(column.data + begin), <size_t>(column.offsets[at + 1] - begin))


cdef int _take_binary(object array, binary_column *column) except -1:
    buffers = array.buffers()
    if str(array.type) != "binary" or len(buffers) != 3:
        raise InvalidArgumentError(f"the columns of keys and values must have the type binary, not {array.type}")
    column.validity = <const uint8_t *><uintptr_t>(0 if buffers[0] is None else buffers[0].address)
    column.offsets = <const int32_t *><uintptr_t>buffers[1].address
    column.data = <const uint8_t *><uintptr_t>(0 if buffers[2] is None else buffers[2].address)
    column.first = array.offset
    return 0


cdef inline int64_t _size_of(ol_slice bytes_) noexcept nogil:
    return -1 if bytes_.data == NULL else <int64_t>bytes_.size


cdef class RowEncoder:
    """Encodes any consecutive rows of one set of columns as a batch.

    The columns must not be changed while the encoder exists.  One thread at a time may use it.

    Args:
        keys, values: Arrow columns of type binary.
        timestamps: a NumPy array of int64, in ms since 1970.
        own: a NumPy array of uint8, which is not 0 for a record of a transaction that offsetlog made of one large
            commit.
    """

    cdef binary_column keys
    cdef binary_column values
    cdef const int64_t[::1] timestamps
    cdef const uint8_t[::1] own
    cdef object held
    cdef Py_ssize_t rows

    def __init__(self, keys, values, timestamps, own):
        """Keeps references to the columns.

        Raises InvalidArgumentError if the columns differ in length, or if keys or values are not binary.
        """
        self.held = (keys, values, timestamps, own)
        self.rows = len(keys)
        if not len(values) == len(timestamps) == len(own) == self.rows:
            raise InvalidArgumentError("the columns have different lengths")
        _take_binary(keys, &self.keys)
        _take_binary(values, &self.values)
        self.timestamps = timestamps
        self.own = own

    def batch(self, Py_ssize_t start, Py_ssize_t count, int64_t base_offset, *, int32_t leader_epoch=-1,
              int64_t producer_id=-1, int16_t producer_epoch=-1, int32_t base_sequence=0, bint transactional=False,
              bint control=False, bint log_append_time=False, int64_t delete_horizon=-1):
        """Encodes `count` rows from `start` on as an uncompressed batch without gaps, which begins at `base_offset`.

        If `delete_horizon` is not -1, it replaces the base timestamp, as in a cleaned batch (docs/format/batches.md
        §2.7).  It is a time in ms since 1970.

        Raises:
            InvalidArgumentError: the rows do not exist.
            TooLargeError: the rows need more bytes than a batch can have.
        """
        cdef ol_batch_fields fields
        cdef int64_t base
        cdef size_t size
        cdef uint8_t *memory
        if start < 0 or count < 1 or count > 0x7fffffff or start > self.rows - count:
            raise InvalidArgumentError(f"rows [{start}, {start + count}) do not exist: there are {self.rows} rows")
        base = delete_horizon if delete_horizon >= 0 else self.timestamps[start]
        size = self.size_of(start, count, base)
        if size > BATCH_SIZE_MAX:
            raise TooLargeError(f"{count} records take {size} bytes, which is more than a batch can hold")
        ol_batch_fields_init(&fields, base_offset, base)
        fields.max_timestamp = self.max_timestamp(start, count)
        fields.leader_epoch = leader_epoch
        fields.producer_id = producer_id
        fields.producer_epoch = producer_epoch
        fields.base_sequence = base_sequence
        fields.record_count = <int32_t>count
        fields.last_offset_delta = <int32_t>count - 1
        fields.attributes = <int16_t>(
            (OL_ATTRIBUTE_TRANSACTIONAL if transactional else 0) | (OL_ATTRIBUTE_CONTROL if control else 0)
            | (OL_ATTRIBUTE_LOG_APPEND_TIME if log_append_time else 0)
            | (OL_ATTRIBUTE_DELETE_HORIZON if delete_horizon >= 0 else 0)
        )
        batch = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
        memory = <uint8_t *>PyBytes_AS_STRING(batch)
        ol_batch_seal(memory, self.put(memory + OL_BATCH_OVERHEAD, start, count, base), &fields)
        return batch

    cdef int64_t max_timestamp(self, Py_ssize_t start, Py_ssize_t count) noexcept:
        cdef int64_t latest = self.timestamps[start]
        for row in range(start, start + count):
            if self.timestamps[row] > latest:
                latest = self.timestamps[row]
        return latest

    cdef size_t size_of(self, Py_ssize_t start, Py_ssize_t count, int64_t base) noexcept:
        cdef size_t size = OL_BATCH_OVERHEAD
        cdef Py_ssize_t row
        cdef bint own
        for row in range(start, start + count):
            own = self.own[row] != 0
            size += ol_record_size(self.timestamps[row] - base, <int32_t>(row - start), _size_of(_bytes_at(&self.keys, row)),
                                   _size_of(_bytes_at(&self.values, row)), own, <size_t>len(OWN_HEADER) if own else 0)
        return size

    cdef uint8_t *put(self, uint8_t *p, Py_ssize_t start, Py_ssize_t count, int64_t base) noexcept:
        cdef Py_ssize_t row
        cdef bint own
        for row in range(start, start + count):
            own = self.own[row] != 0
            p = ol_record_put(p, self.timestamps[row] - base, <int32_t>(row - start), _bytes_at(&self.keys, row),
                              _bytes_at(&self.values, row), own,
                              ol_slice_of(<const char *>OWN_HEADER, <size_t>len(OWN_HEADER) if own else 0))
        return p
