"""Encodes keys, values and batches from Python objects, one record at a time.

It is the inverse of `records`, for tools and tests.  The names of the fields are those of Kafka's schemas, as `records`
returns them.  A field of bytes is passed as bytes or as base64 text, and an id as a UUID or as the text that Kafka
writes.  A tagged field is written only if the dictionary has a value for it that is not None.
"""

import base64
from uuid import UUID

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from offsetlog._native.csrc cimport (
    OL_ATTRIBUTE_TRANSACTIONAL,
    OL_BATCH_OVERHEAD,
    OL_FIELD_ARRAY,
    OL_FIELD_BYTES,
    OL_FIELD_STRING,
    OL_FIELD_STRUCT,
    OL_FIELD_UUID,
    ol_batch_fields,
    ol_batch_fields_init,
    ol_batch_seal,
    ol_error,
    ol_field,
    ol_field_in_version,
    ol_field_kind,
    ol_record_put,
    ol_record_size,
    ol_schema,
    ol_schema_of_key,
    ol_schema_of_value,
    ol_schema_put_begin_array,
    ol_schema_put_begin_struct,
    ol_schema_put_bytes,
    ol_schema_put_end_array,
    ol_schema_put_end_struct,
    ol_schema_put_integer,
    ol_schema_put_null,
    ol_schema_writer,
    ol_schema_writer_finish,
    ol_schema_writer_start,
    ol_slice,
    ol_slice_null,
    ol_slice_of,
)
from offsetlog._native.files import parse_uuid
from offsetlog._native.status cimport check

from offsetlog.errors import InvalidArgumentError, TooLargeError

cdef size_t SIZE_FIRST = 4096
cdef size_t SIZE_MAX = 64 << 20


cdef bytes _raw(ol_field_kind kind, object value):
    if kind == OL_FIELD_STRING:
        return value.encode("utf-8")
    if kind == OL_FIELD_UUID:
        return value.bytes if isinstance(value, UUID) else parse_uuid(value)
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else base64.b64decode(value, validate=True)


cdef int _put(ol_schema_writer *writer, const ol_field *field, ol_field_kind kind, int16_t version, object value,
              ol_error *error) except -1:
    cdef bytes raw
    if value is None:
        return check(ol_schema_put_null(writer, field, error), error)
    if kind == OL_FIELD_STRUCT:
        return _put_struct(writer, field, field.fields, version, value, error)
    if kind == OL_FIELD_ARRAY:
        check(ol_schema_put_begin_array(writer, field, <int32_t>len(value), error), error)
        for element in value:
            _put(writer, field, field.element, version, element, error)
        return check(ol_schema_put_end_array(writer, field, error), error)
    if kind in (OL_FIELD_STRING, OL_FIELD_UUID, OL_FIELD_BYTES):
        raw = _raw(kind, value)
        return check(ol_schema_put_bytes(writer, field, ol_slice_of(<const char *>raw, <size_t>len(raw)), error), error)
    return check(ol_schema_put_integer(writer, field, <int64_t>int(value), error), error)


cdef int _put_struct(ol_schema_writer *writer, const ol_field *of, const ol_field *fields, int16_t version, object values,
                     ol_error *error) except -1:
    cdef const ol_field *field
    cdef dict tagged = {}
    check(ol_schema_put_begin_struct(writer, of, error), error)
    field = fields
    while field.name != NULL:
        if ol_field_in_version(field, version):
            name = field.name.decode("ascii")
            if field.tagged:
                if values.get(name) is not None:
                    tagged[field.tag] = field - fields
            elif name not in values:
                raise InvalidArgumentError(f"the field {name} is missing")
            else:
                _put(writer, field, field.kind, version, values[name], error)
        field += 1
    for tag in sorted(tagged):
        field = fields + <Py_ssize_t>tagged[tag]
        _put(writer, field, field.kind, version, values[field.name.decode("ascii")], error)
    return check(ol_schema_put_end_struct(writer, of, error), error)


cdef bytes _encode(const ol_schema *schema, int16_t number, int16_t version, dict fields):
    # `number` is written first; it is the type of a key or the version of a value.
    cdef ol_schema_writer writer
    cdef ol_error error
    cdef size_t capacity = SIZE_FIRST
    cdef size_t size = 0
    while True:
        memory = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>capacity)
        try:
            check(ol_schema_writer_start(&writer, schema, version, <uint8_t *>PyBytes_AS_STRING(memory), capacity, &error), &error)
            _put_struct(&writer, NULL, schema.fields, version, fields, &error)
            check(ol_schema_writer_finish(&writer, &size, &error), &error)
            return int(number).to_bytes(2, "big", signed=True) + (<bytes>memory)[:size]
        except TooLargeError:
            if capacity >= SIZE_MAX:
                raise
            capacity *= 8


def encode_key(int16_t key_type, dict fields not None):
    """Returns the bytes of a key of this type.  Raises InvalidArgumentError if a field is missing or out of range."""
    cdef const ol_schema *schema = ol_schema_of_key(key_type)
    if schema == NULL:
        raise InvalidArgumentError(f"unknown key type {key_type}")
    return _encode(schema, key_type, 0, fields)


def encode_value(int16_t key_type, int16_t version, dict fields not None):
    """Returns the bytes of a value for a key of this type."""
    cdef const ol_schema *schema = ol_schema_of_value(key_type)
    if schema == NULL:
        raise InvalidArgumentError(f"key type {key_type} is unknown, or has no values")
    return _encode(schema, version, version, fields)


cdef ol_slice _slice(object value):
    return ol_slice_null() if value is None else ol_slice_of(<const char *><bytes>value, <size_t>len(value))


def encode_batch(int64_t base_offset, int64_t timestamp, list records not None, *, int32_t leader_epoch=-1,
                 int64_t producer_id=-1, int16_t producer_epoch=-1):
    """Returns a batch of magic 2 that contains the given (key, value) pairs; each part is bytes or None.

    The batch is transactional if a producer id is given.
    """
    cdef ol_batch_fields fields
    cdef size_t size = OL_BATCH_OVERHEAD
    cdef uint8_t *p
    cdef uint8_t *start
    cdef int32_t index = 0
    for key, value in records:
        size += ol_record_size(0, index, -1 if key is None else len(key), -1 if value is None else len(value), 0, 0)
        index += 1
    batch = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    start = <uint8_t *>PyBytes_AS_STRING(batch)
    p = start + OL_BATCH_OVERHEAD
    index = 0
    for key, value in records:
        p = ol_record_put(p, 0, index, _slice(key), _slice(value), 0, ol_slice_of(b"", 0))
        index += 1
    ol_batch_fields_init(&fields, base_offset, timestamp)
    fields.leader_epoch = leader_epoch
    fields.record_count = index
    fields.last_offset_delta = index - 1
    if producer_id >= 0:
        fields.producer_id = producer_id
        fields.producer_epoch = producer_epoch
        fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL
    ol_batch_seal(start, p, &fields)
    return batch
