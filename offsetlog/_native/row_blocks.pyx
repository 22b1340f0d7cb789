"""Defines the columns of each view and their types, and makes Arrow batches from rows that the C code writes."""

import json

cimport cython
from cpython.ref cimport Py_REFCNT
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uintptr_t
from libc.string cimport memset

from offsetlog._native.csrc cimport (
    OL_COLUMN_BOOLEAN,
    OL_COLUMN_COUNT,
    OL_COLUMN_INT32,
    OL_COLUMN_INT64,
    OL_COLUMN_KEY,
    OL_COLUMN_STRINGS,
    OL_COLUMN_VALUE,
    ol_column,
    ol_column_kind_of,
    ol_column_name,
    ol_error,
    ol_row_array,
    ol_record_block,
    ol_record_block_clear,
    ol_record_block_create,
    ol_record_block_free,
)
from offsetlog._native.status cimport check

from offsetlog._native.records import decode_key as _decode_key
from offsetlog._native.records import decode_value as _decode_value
from offsetlog.errors import CorruptionError, InvalidArgumentError, UnsupportedVersionError

# ------------------------------------------------------------------------------------------------------------- the views


_POSITION = ("group", "topic", "partition", "offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp",
             "topic_id")
_BATCH = ("segment", "position", "base_offset", "last_offset", "batch_size", "magic", "codec", "timestamp_type",
          "transactional", "producer_id", "producer_epoch", "base_sequence", "batch_leader_epoch", "delete_horizon")

#: The columns of each view, in order.
VIEWS = {
    "commits": (*_POSITION, "kind", "timestamp", "outcome", "marker_offset", "producer_id", "producer_epoch", "log_partition",
                "log_offset"),
    "records": ("log_partition", "log_offset", "timestamp", "kind", "key", "value", *_POSITION, "value_version", "fields",
                "header_keys", "control", "outcome", "marker_offset", *_BATCH),
    "batches": ("log_partition", "segment", "position", "size", "base_offset", "last_offset", "record_count", "magic",
                "codec", "timestamp_type", "transactional", "control", "delete_horizon", "base_timestamp", "max_timestamp",
                "leader_epoch", "producer_id", "producer_epoch", "base_sequence", "crc", "crc_ok"),
    "offsets": (*_POSITION, "log_partition", "log_offset"),
    "changes": ("log_partition", "log_offset", "effective_at", "epoch", "timestamp", *_POSITION),
}
# The C names of a view's columns, if they differ.
_OTHER_NAMES = {
    ("records", "control"): "control_type",
    ("batches", "size"): "batch_size",
    ("batches", "leader_epoch"): "batch_leader_epoch",
    ("changes", "epoch"): "batch_leader_epoch",
}
cdef dict _COLUMNS = {ol_column_name(<ol_column>index).decode("ascii"): index for index in range(OL_COLUMN_COUNT)}


cdef int column_of(str view, str name) except -1:
    return _COLUMNS[_OTHER_NAMES.get((view, name), name)]


cdef object type_of(object pyarrow, str view, str name):
    if name == "fields":
        return pyarrow.string()
    if name in ("key", "value"):
        return pyarrow.binary()
    kind = ol_column_kind_of(<ol_column>column_of(view, name))
    if kind == OL_COLUMN_BOOLEAN:
        return pyarrow.bool_()
    if kind == OL_COLUMN_INT32:
        return pyarrow.int32()
    if kind == OL_COLUMN_INT64:
        return pyarrow.int64()
    if kind == OL_COLUMN_STRINGS:
        return pyarrow.list_(pyarrow.field("element", pyarrow.string()))
    return pyarrow.string()


def view_schema(view):
    """Returns the pyarrow.Schema of a view.  Raises InvalidArgumentError if the name is not in VIEWS."""
    import pyarrow

    if view not in VIEWS:
        raise InvalidArgumentError(f"unknown view {view!r}; the views are {', '.join(sorted(VIEWS))}")
    return pyarrow.schema([(name, type_of(pyarrow, view, name)) for name in VIEWS[view]])

# --------------------------------------------------------------------------------------------------------------- columns


@cython.final
cdef class RowBlock:
    """A block of rows whose memory Arrow arrays can use without a copy.  The arrays keep the block alive."""

    def __cinit__(self):
        memset(&self.rows, 0, sizeof(self.rows))

    def __dealloc__(self):
        ol_record_block_free(&self.rows)


cdef object _buffer(object pyarrow, const void *data, size_t size, RowBlock block):
    return pyarrow.foreign_buffer(<uintptr_t>data, size, block) if size > 0 else pyarrow.py_buffer(b"")


cdef object _strings(object pyarrow, object kind, const ol_row_array *array, size_t count, object valid, RowBlock block):
    ends = _buffer(pyarrow, array.ends, (count + 1) * sizeof(int32_t), block)
    data = _buffer(pyarrow, array.data, <size_t>array.ends[count], block)
    return pyarrow.Array.from_buffers(kind, count, [valid, ends, data])


cdef object array_of(object pyarrow, object kind, ol_column column, RowBlock block):
    cdef const ol_row_array *array = &block.rows.arrays[<int>column]
    cdef size_t count = block.rows.count
    valid = _buffer(pyarrow, array.valid, (count + 7) // 8, block) if array.has_nulls else None
    if array.kind == OL_COLUMN_BOOLEAN:
        return pyarrow.Array.from_buffers(kind, count, [valid, _buffer(pyarrow, array.data, (count + 7) // 8, block)])
    if array.kind == OL_COLUMN_INT32:
        return pyarrow.Array.from_buffers(kind, count, [valid, _buffer(pyarrow, array.data, 4 * count, block)])
    if array.kind == OL_COLUMN_INT64:
        return pyarrow.Array.from_buffers(kind, count, [valid, _buffer(pyarrow, array.data, 8 * count, block)])
    if array.kind == OL_COLUMN_STRINGS:
        ends = _buffer(pyarrow, array.list_ends, (count + 1) * sizeof(int32_t), block)
        child = _strings(pyarrow, pyarrow.string(), array, <size_t>array.list_ends[count], None, block)
        return pyarrow.Array.from_buffers(kind, count, [valid, ends], children=[child])
    return _strings(pyarrow, kind, array, count, valid, block)


cdef object _slot(const ol_row_array *array, size_t row):
    # Returns the bytes of one row of a column of strings, None if it is null.
    if not (array.valid[row >> 3] >> (row & 7)) & 1:
        return None
    return (<const char *>array.data)[array.ends[row] : array.ends[row + 1]]


cdef object _fields(bytes key, value):
    # Returns the decoded key and value of a group record, None for any other record.
    try:
        decoded = _decode_key(key)
        if decoded is None or int(decoded["type"]) <= 1:
            return None
    except CorruptionError as failure:
        return json.dumps({"key": {"error": failure.message}})
    found = {"key": decoded["data"], "value": None}
    if value is not None:
        try:
            found["value"] = _decode_value(int(decoded["type"]), value)["data"]
        except (CorruptionError, UnsupportedVersionError) as failure:
            found["value"] = {"error": failure.message}
    return json.dumps(found, ensure_ascii=False)


cdef list _all_fields(RowBlock block):
    cdef const ol_row_array *keys = &block.rows.arrays[<int>OL_COLUMN_KEY]
    cdef const ol_row_array *values = &block.rows.arrays[<int>OL_COLUMN_VALUE]
    cdef size_t row
    cdef int32_t start
    cdef list found = []
    for row in range(block.rows.count):
        start = keys.ends[row]
        # Nearly all records are markers and offset commits; both begin with a number below 2.
        if keys.ends[row + 1] - start < 2 or (keys.data[start] == 0 and keys.data[start + 1] < 2):
            found.append(None)
        else:
            found.append(_fields(_slot(keys, row), _slot(values, row)))
    return found


@cython.final
cdef class RowBlocks:
    """Creates blocks for the columns of a view, and makes Arrow batches from them."""

    def __init__(self, view, columns):
        import pyarrow

        self.view, self.columns = view, tuple(VIEWS[view] if columns is None else columns)
        for name in self.columns:
            if name not in VIEWS[view]:
                raise InvalidArgumentError(f"the view {view} has no column {name!r}; it has {', '.join(VIEWS[view])}")
        self.schema = pyarrow.schema([(name, type_of(pyarrow, view, name)) for name in self.columns])
        self.pool = []

    cdef RowBlock take(self, size_t rows):
        # A block that no array borrows any more is filled again, because allocating memory costs more than writing to it.
        cdef RowBlock block
        cdef ol_column wanted[<int>OL_COLUMN_COUNT]
        cdef size_t count = 0
        cdef ol_error error
        for each in self.pool:
            block = <RowBlock>each
            # The three references are those of the list, the loop and this function.
            if Py_REFCNT(each) == 3 and block.rows.capacity == rows:
                ol_record_block_clear(&block.rows)
                return block
        block = RowBlock.__new__(RowBlock)
        for name in self.columns:
            if name != "fields":
                wanted[count] = <ol_column>column_of(self.view, name)
                count += 1
        if "fields" in self.columns:
            # A column that is requested more than once is filled once.
            for each in (OL_COLUMN_KEY, OL_COLUMN_VALUE):
                if count < <size_t>OL_COLUMN_COUNT:
                    wanted[count] = each
                    count += 1
        check(ol_record_block_create(&block.rows, wanted, count, rows, &error), &error)
        if len(self.pool) < 4:
            self.pool.append(block)
        return block

    cdef object batch_of(self, RowBlock block):
        import pyarrow

        arrays = []
        for field in self.schema:
            if field.name == "fields":
                arrays.append(pyarrow.array(_all_fields(block), pyarrow.string()))
            else:
                arrays.append(array_of(pyarrow, field.type, <ol_column>column_of(self.view, field.name), block))
        if not arrays:
            # Without columns, rows are only counted.
            rows = pyarrow.Array.from_buffers(pyarrow.struct([]), block.rows.count, [None])
            return pyarrow.RecordBatch.from_struct_array(rows)
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self.schema)
