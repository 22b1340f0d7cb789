"""Requests and responses of Kafka's protocol as named tuples, made from the tables in csrc/wire.

A class has the fields of all versions of a message, with Kafka's names and in Kafka's order.  When a message is read, a
field that its version does not have keeps the default value.  When a message is written, such a field is omitted.  The
class of an element is named after the class and the field that contain it: the `topics` of a `MetadataResponse` have
the class `MetadataResponseTopic`.
"""

cimport cython
import re
from collections import namedtuple

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_Clear
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_Check
from cpython.tuple cimport PyTuple_GET_ITEM
from cpython.unicode cimport PyUnicode_Check
from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from offsetlog._native.buffers cimport new_named_tuple, set_item, text_of
from offsetlog._native.csrc cimport (
    OL_FIELD_ARRAY,
    OL_FIELD_BOOLEAN,
    OL_FIELD_BYTES,
    OL_FIELD_STRING,
    OL_FIELD_STRUCT,
    OL_FIELD_UUID,
    OL_RESPONSE_HEADER_MAX,
    OL_SCHEMA_NEVER,
    ol_api,
    ol_api_at,
    ol_api_count,
    ol_error,
    ol_field,
    ol_field_kind,
    ol_form,
    ol_forms,
    ol_forms_free,
    ol_forms_get,
    ol_message_read,
    ol_message_size_max,
    ol_message_width,
    ol_message_write,
    ol_request_header,
    ol_request_header_read,
    ol_response_header_write,
    ol_schema,
    ol_slice,
    ol_slice_null,
    ol_slice_of,
    ol_store_i32,
    ol_value,
    ol_value_bytes,
    ol_value_integer,
    ol_value_pool,
    ol_value_pool_free,
    ol_value_pool_take,
    utf8_or_null,
)
from offsetlog._native.status cimport check

from offsetlog.errors import ArgumentTypeError, CapacityError, CorruptionError, InvalidArgumentError, TooLargeError

#: The most values in one message, 16 bytes each; a message with more raises LimitError.
VALUES_MAX = 1 << 22
#: The longest message that is written, in bytes.  The largest legitimate message, a Fetch response, has some 55 MiB of
#: records.
MESSAGE_BYTES_MAX = 512 << 20

#: An API.  Its requests and responses have the versions first_version to last_version; servers advertise those from
#: advertised_from on.  flexible_from is the first version with compact sizes and tags, None if no version has them.
Api = namedtuple(
    "Api", "key name first_version last_version advertised_from flexible_from request response"
)

#: One field of a class.  last_version is None if the newest version has the field.  tag is None if the field is not
#: tagged.  nullable_from is None if the field is never null.  of_class is the class of a struct or of array elements.
Field = namedtuple(
    "Field", "name kind element first_version last_version nullable_from tag default of_class"
)

#: A request with its header.
Request = namedtuple("Request", "api_key api_version correlation_id client_id message")

cdef tuple KINDS = ("", "bool", "int8", "int16", "uint16", "int32", "int64", "uuid", "string", "bytes", "array", "struct")
cdef bytes ZERO_UUID = bytes(16)


# --------------------------------------------------------------------------------------------------------------- classes


@cython.final
cdef class _Shape:
    # A list of fields, and the class made from it.
    cdef const ol_field *fields
    cdef Py_ssize_t width
    cdef type kind
    cdef list inner     # by field: the shape of its struct or elements, or None


@cython.final
cdef class _Message:
    # A request or a response.
    cdef ol_forms forms
    cdef const ol_api *api
    cdef _Shape shape

    def __dealloc__(self):
        ol_forms_free(&self.forms)

    cdef const ol_form *form(self, int16_t version) except NULL:
        cdef const ol_form *form = NULL
        cdef ol_error error
        check(ol_forms_get(&self.forms, version, &form, &error), &error)
        return form


def _attribute(name):
    # The names are in snake case; tuples already have the methods index() and count().
    attribute = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return attribute + "_" if hasattr(tuple, attribute) else attribute


def _element_name(name):
    return name[0].upper() + name[1:].removesuffix("s")


cdef object _default(const ol_field *field, _Shape inner):
    if field.null_by_default or (field.kind == OL_FIELD_STRUCT and field.nullable):
        return None
    if field.kind == OL_FIELD_STRING:
        return ""
    if field.kind == OL_FIELD_BYTES:
        return b""
    if field.kind == OL_FIELD_UUID:
        return ZERO_UUID
    if field.kind == OL_FIELD_ARRAY:
        return ()
    if field.kind == OL_FIELD_STRUCT:
        return inner.kind()
    if field.kind == OL_FIELD_BOOLEAN:
        return bool(field.default_value)
    return field.default_value


cdef _Shape _shape_of(const ol_field *fields, str name, dict classes):
    cdef _Shape shape = _Shape.__new__(_Shape)
    cdef Py_ssize_t i
    shape.fields = fields
    shape.width = <Py_ssize_t>ol_message_width(fields)
    shape.inner = []
    names = [fields[i].name.decode("ascii") for i in range(shape.width)]
    for i in range(shape.width):
        of_struct = fields[i].fields != NULL
        shape.inner.append(_shape_of(fields[i].fields, name + _element_name(names[i]), classes) if of_struct else None)
    defaults = [_default(&fields[i], <_Shape>shape.inner[i]) for i in range(shape.width)]
    shape.kind = namedtuple(
        name, [_attribute(one) for one in names], defaults=defaults, module="offsetlog.protocol.messages"
    )
    if name in classes:
        raise AssertionError(f"two classes are named {name}")
    classes[name] = shape
    return shape


cdef dict _shapes = {}      # name -> _Shape, in the order in which they were made
cdef dict _messages = {}    # class -> _Message


cdef type _message_class(const ol_api *api, const ol_schema *schema):
    cdef _Message message = _Message.__new__(_Message)
    message.forms.schema = schema
    message.api = api
    message.shape = _shape_of(schema.fields, schema.name.decode("ascii"), _shapes)
    _messages[message.shape.kind] = message
    return message.shape.kind


cdef object _api(const ol_api *api):
    flexible_from = api.request.flexible_from
    return Api(
        api.key,
        api.name.decode("ascii"),
        api.request.first_version,
        api.request.last_version,
        api.advertised_from,
        None if flexible_from == OL_SCHEMA_NEVER else flexible_from,
        _message_class(api, api.request),
        _message_class(api, api.response),
    )


#: Every API by its key, in ascending order.
APIS = {one.key: one for one in [_api(ol_api_at(index)) for index in range(ol_api_count())]}

#: Every class by its name: those of messages, and of the structs in them.
CLASSES = {name: (<_Shape>shape).kind for name, shape in _shapes.items()}


cdef object _field(_Shape shape, Py_ssize_t i):
    cdef const ol_field *field = &shape.fields[i]
    cdef _Shape inner = <_Shape>shape.inner[i]
    return Field(
        name=shape.kind._fields[i],
        kind=KINDS[<int>field.kind],
        element=KINDS[<int>field.element] or None,
        first_version=field.first_version,
        last_version=field.removed_in - 1 if field.removed_in else None,
        nullable_from=field.nullable_from if field.nullable else None,
        tag=field.tag if field.tagged else None,
        default=shape.kind._field_defaults[shape.kind._fields[i]],
        of_class=None if inner is None else inner.kind,
    )


def fields_of(name):
    """Returns the fields of a message's class, as a list of Field."""
    cdef _Shape shape = <_Shape>_shapes[name]
    return [_field(shape, i) for i in range(shape.width)]


# ------------------------------------------------------------------------------------------------------- values to objects


cdef object _read_value(const ol_field *field, ol_field_kind kind, _Shape inner, const ol_value *value):
    if kind == OL_FIELD_ARRAY:
        return _read_array(field, inner, value)
    if kind == OL_FIELD_STRUCT:
        if value.number != 0:
            return _read_struct(inner, value.values)
        return None if field.nullable else inner.kind()
    if kind == OL_FIELD_STRING:
        return None if value.number < 0 else text_of(value.bytes, <size_t>value.number)
    if kind == OL_FIELD_BYTES or kind == OL_FIELD_UUID:
        return None if value.number < 0 else PyBytes_FromStringAndSize(<const char *>value.bytes, value.number)
    if kind == OL_FIELD_BOOLEAN:
        return value.number != 0
    return value.number


cdef object _read_array(const ol_field *field, _Shape inner, const ol_value *array):
    cdef int64_t i
    if array.number < 0:
        return None
    if inner is None:
        return tuple([_read_value(field, field.element, None, &array.values[i]) for i in range(array.number)])
    return tuple([_read_struct(inner, &array.values[i * inner.width]) for i in range(array.number)])


cdef object _read_struct(_Shape shape, const ol_value *values):
    cdef Py_ssize_t i
    cdef object row = new_named_tuple(shape.kind, shape.width)
    for i in range(shape.width):
        set_item(row, i, _read_value(&shape.fields[i], shape.fields[i].kind, <_Shape>shape.inner[i], &values[i]))
    return row


# ------------------------------------------------------------------------------------------------------- objects to values


cdef object _refusal(_Shape shape, const ol_field *field, object item):
    kind = KINDS[<int>field.kind] if field.kind != OL_FIELD_ARRAY else f"array of {KINDS[<int>field.element]}"
    return ArgumentTypeError(
        f"{shape.kind.__name__}.{_attribute(field.name.decode('ascii'))}: {item!r} is not of type {kind}"
    )


cdef int _fill_integer(_Shape shape, const ol_field *field, object item, ol_value *value) except -1:
    cdef int overflow = 0
    if not PyLong_Check(item):
        raise _refusal(shape, field, item)
    value.number = PyLong_AsLongLongAndOverflow(item, &overflow)
    if overflow != 0:
        raise _refusal(shape, field, item)
    return 0


cdef int _fill_text(_Shape shape, const ol_field *field, object item, ol_value *value) except -1:
    cdef Py_ssize_t size = 0
    cdef const char *text = NULL
    if PyUnicode_Check(item):
        text = utf8_or_null(item, &size)
        if text == NULL:
            PyErr_Clear()
    if text == NULL:
        raise _refusal(shape, field, item)
    value[0] = ol_value_bytes(ol_slice_of(text, <size_t>size))
    return 0


cdef int _fill_bytes(_Shape shape, const ol_field *field, ol_field_kind kind, object item, ol_value *value) except -1:
    if not PyBytes_CheckExact(item) or (kind == OL_FIELD_UUID and PyBytes_GET_SIZE(item) != 16):
        raise _refusal(shape, field, item)
    value[0] = ol_value_bytes(ol_slice_of(PyBytes_AS_STRING(item), <size_t>PyBytes_GET_SIZE(item)))
    return 0


cdef int _fill_array(_Shape shape, const ol_field *field, _Shape inner, object items, ol_value *value,
                     ol_value_pool *pool) except -1:
    cdef ol_error error
    cdef Py_ssize_t i
    cdef Py_ssize_t width = 1 if inner is None else inner.width
    if type(items) is not tuple and type(items) is not list:
        raise _refusal(shape, field, items)
    value.number = len(items)
    check(ol_value_pool_take(pool, <size_t>(value.number * width), &value.values, &error), &error)
    for i in range(len(items)):
        if inner is None:
            _fill_value(shape, field, field.element, None, items[i], &value.values[i], pool)
        else:
            _fill_struct(inner, items[i], &value.values[i * width], pool)
    return 0


cdef int _fill_value(_Shape shape, const ol_field *field, ol_field_kind kind, _Shape inner, object item, ol_value *value,
                     ol_value_pool *pool) except -1:
    cdef ol_error error
    if item is None:
        # The encoder checks whether the version allows it.
        value.number = 0 if kind == OL_FIELD_STRUCT else -1
        return 0
    if kind == OL_FIELD_ARRAY:
        return _fill_array(shape, field, inner, item, value, pool)
    if kind == OL_FIELD_STRUCT:
        value.number = 1
        check(ol_value_pool_take(pool, <size_t>inner.width, &value.values, &error), &error)
        return _fill_struct(inner, item, value.values, pool)
    if kind == OL_FIELD_STRING:
        return _fill_text(shape, field, item, value)
    if kind == OL_FIELD_BYTES or kind == OL_FIELD_UUID:
        return _fill_bytes(shape, field, kind, item, value)
    return _fill_integer(shape, field, item, value)


cdef int _fill_struct(_Shape shape, object row, ol_value *values, ol_value_pool *pool) except -1:
    cdef Py_ssize_t i
    if type(row) is not shape.kind:
        raise ArgumentTypeError(f"{row!r} is not of class {shape.kind.__name__}")
    for i in range(shape.width):
        _fill_value(shape, &shape.fields[i], shape.fields[i].kind, <_Shape>shape.inner[i],
                    <object>PyTuple_GET_ITEM(row, i), &values[i], pool)
    return 0


# ------------------------------------------------------------------------------------------------------------------ bytes


cdef _Message _message_of(object kind):
    found = _messages.get(kind)
    if found is None:
        raise ArgumentTypeError(f"{kind!r} is neither a request nor a response class")
    return <_Message>found


cdef object _read(_Message message, int16_t version, ol_slice body, size_t *used):
    cdef ol_value_pool pool
    cdef ol_value *values = NULL
    cdef ol_error error
    cdef const ol_form *form = message.form(version)
    (&pool)[0] = ol_value_pool(limit=<size_t>VALUES_MAX)
    try:
        check(ol_message_read(form, body, &pool, &values, used, &error), &error)
        return _read_struct(message.shape, values)
    finally:
        ol_value_pool_free(&pool)


cdef bytes _write(_Message message, object row, int16_t version, const uint8_t *head=NULL,
                  size_t head_size=0, bint framed=False):
    # Encodes the body after `head`; if framed, four bytes with the size of both precede them.
    cdef ol_value_pool pool
    cdef ol_value *values = NULL
    cdef uint8_t *written = NULL
    cdef ol_error error
    cdef size_t size = 0, capacity, start = head_size + (4 if framed else 0)
    cdef const ol_form *form = message.form(version)
    (&pool)[0] = ol_value_pool(limit=<size_t>VALUES_MAX)
    try:
        check(ol_value_pool_take(&pool, <size_t>message.shape.width, &values, &error), &error)
        _fill_struct(message.shape, row, values, &pool)
        capacity = ol_message_size_max(form, values)
        if capacity > <size_t>MESSAGE_BYTES_MAX:
            raise TooLargeError(f"the message may need up to {capacity} bytes; the limit is {MESSAGE_BYTES_MAX}")
        written = <uint8_t *>malloc(start + capacity)
        if written == NULL:
            raise CapacityError("out of memory for a message")
        check(ol_message_write(form, values, written + start, capacity, &size, &error), &error)
        if framed:
            ol_store_i32(written, <int32_t>(head_size + size))
        memcpy(written + start - head_size, head, head_size)
        return PyBytes_FromStringAndSize(<const char *>written, <Py_ssize_t>(start + size))
    finally:
        free(written)
        ol_value_pool_free(&pool)


cdef ol_slice _slice_from(const uint8_t[::1] data, Py_ssize_t start) except *:
    if not 0 <= start <= data.shape[0]:
        raise InvalidArgumentError(f"start must be from 0 to {data.shape[0]}, the number of bytes, not {start}")
    if start == data.shape[0]:
        return ol_slice_of(<const uint8_t *>PyBytes_AS_STRING(ZERO_UUID), 0)
    return ol_slice_of(&data[start], <size_t>(data.shape[0] - start))


def decode(kind, int version, const uint8_t[::1] data not None, Py_ssize_t start=0):
    """Reads the body of a message of this class that begins at `start`.  Returns the message and the position after it.

    Raises:
        CorruptionError: the message is truncated, or a field is null where the version does not allow it.
        UnsupportedVersionError: the class has no such version.
        LimitError: the message has more than VALUES_MAX values.
    """
    cdef size_t used = 0
    message = _read(_message_of(kind), <int16_t>version, _slice_from(data, start), &used)
    return message, start + <Py_ssize_t>used


def encode(message, int version):
    """Returns the body of a request or response in this version.

    Raises:
        ArgumentTypeError: the type of a value is not its field's type.
        InvalidArgumentError: a value is out of its field's range, or None where the version does not allow it.
        TooLargeError: a string is longer than 32,767 bytes, or the message is longer than MESSAGE_BYTES_MAX.
        UnsupportedVersionError: the class has no such version.
    """
    return _write(_message_of(type(message)), message, <int16_t>version)


def decode_request(const uint8_t[::1] frame not None):
    """Reads a request with its header, starting after the four bytes of its size.

    Bytes after the request are ignored, as in brokers.

    Raises the errors of `decode`.  An unknown API also raises UnsupportedVersionError.
    """
    cdef ol_request_header header
    cdef ol_error error
    cdef size_t used = 0
    check(ol_request_header_read(_slice_from(frame, 0), &header, &used, &error), &error)
    request = _messages[APIS[header.api_key].request]
    client_id = None if header.client_id.data == NULL else text_of(header.client_id.data, header.client_id.size)
    message = _read(<_Message>request, header.api_version, _slice_from(frame, <Py_ssize_t>used), NULL)
    return Request(header.api_key, header.api_version, header.correlation_id, client_id, message)


def encode_request(message, int version, int32_t correlation_id, client_id=None):
    """Returns a request with its size and header, as a client sends it.  Raises as `encode` does."""
    cdef _Message request = _message_of(type(message))
    if client_id is None:
        name = b"\xff\xff"
    else:
        name = client_id.encode()
        name = len(name).to_bytes(2, "big") + name
    cdef bytes head = b"".join((
        request.api.key.to_bytes(2, "big", signed=True),
        version.to_bytes(2, "big", signed=True),
        correlation_id.to_bytes(4, "big", signed=True),
        name,
        b"\0" if version >= request.forms.schema.flexible_from else b"",
    ))
    return _write(request, message, <int16_t>version, <const uint8_t *>PyBytes_AS_STRING(head),
                  <size_t>len(head), framed=True)


def encode_response(message, int version, int32_t correlation_id):
    """Returns a response with its size and header, as a server sends it.  Raises as `encode` does."""
    cdef _Message response = _message_of(type(message))
    cdef uint8_t[5] head
    cdef ol_request_header header
    header.api = response.api
    header.api_key = response.api.key
    header.api_version = <int16_t>version
    header.correlation_id = correlation_id
    header.client_id = ol_slice_null()
    size = ol_response_header_write(&header, head)
    return _write(response, message, <int16_t>version, head, size, framed=True)


def decode_response(kind, int version, const uint8_t[::1] frame not None):
    """Reads a response of this class with its header, without its size; returns the correlation id and the message.

    Raises as `decode` does.
    """
    cdef _Message response = _message_of(kind)
    cdef Py_ssize_t start = 4
    if frame.shape[0] < 4:
        raise CorruptionError("a response is truncated in its header")
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    if response.api.key != 18 and version >= response.forms.schema.flexible_from:
        start += 1
    message, _ = decode(kind, version, frame, start)
    return correlation_id, message
