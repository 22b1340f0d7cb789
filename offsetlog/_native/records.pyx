# cython: wraparound=True
"""Reads the records of one .log file as Python objects, with keys and values decoded to the fields that Kafka's tools show.

This module is for people and tools that inspect single records.  Code that handles many records does not use it.
"""

import base64
import os
import re

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from offsetlog._native.buffers cimport text_of
from offsetlog._native.csrc cimport (
    OL_CODEC_NONE,
    OL_CONTROL_ABORT,
    OL_CONTROL_COMMIT,
    OL_ATTRIBUTE_CODEC,
    OL_ATTRIBUTE_CONTROL,
    OL_ATTRIBUTE_DELETE_HORIZON,
    OL_ATTRIBUTE_LOG_APPEND_TIME,
    OL_ATTRIBUTE_TRANSACTIONAL,
    OL_END,
    OL_FIELD_BOOLEAN,
    OL_FIELD_STRING,
    OL_FIELD_STRUCT,
    OL_FIELD_UUID,
    OL_NO_MEMORY,
    OL_OK,
    OL_TOPIC_ID_SIZE,
    ol_batch,
    ol_batch_check_crc,
    ol_batch_next_offset,
    ol_control,
    ol_control_decode,
    ol_error,
    ol_fail,
    ol_field,
    ol_key,
    ol_key_decode,
    ol_offset_value,
    ol_offset_value_decode,
    ol_record,
    ol_record_header_next,
    ol_records,
    ol_records_close,
    ol_records_next,
    ol_records_open,
    ol_file_scan,
    ol_file_scan_close,
    ol_file_scan_next,
    ol_file_scan_open,
    ol_schema,
    ol_schema_decode,
    ol_schema_of_key,
    ol_schema_of_subscription,
    ol_schema_of_transaction_key,
    ol_schema_of_transaction_value,
    ol_schema_of_value,
    ol_schema_visitor,
    ol_slice,
    ol_slice_of,
)
from offsetlog._native.decompress cimport Decompressor
from offsetlog._native.files cimport FileSystem
from offsetlog._native.resync cimport resync
from offsetlog._native.status cimport check, keep_interrupt

from offsetlog.errors import ClosedError, CorruptionError, InternalError, UnsupportedVersionError

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
KEY_TYPE_MAX = 63


def _kinds():
    # LegacyOffsetCommitKey -> offset_commit, ConsumerGroupMetadataKey -> consumer_group_metadata
    cdef int type_
    cdef const ol_schema *schema
    found = {}
    for type_ in range(KEY_TYPE_MAX):
        schema = ol_schema_of_key(<int16_t>type_)
        if schema != NULL:
            name = schema.name.decode("ascii").removeprefix("Legacy").removesuffix("Key")
            found[type_] = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
    return found


#: The kind of a record by the type of its key, named as in Kafka's schemas.
KINDS = _kinds()
#: The kind of the records of __transaction_state.
TRANSACTION_KIND = "transaction_log"


# ------------------------------------------------------------------------------------------------------ any record, by its schema


cdef class _Builder:
    # The result so far of a walk over a schema: the dictionaries and lists that are not complete, outermost first.
    cdef list open
    cdef list fields
    cdef object root
    cdef const ol_schema *schema

    def __cinit__(self):
        self.open = []

    cdef void put(self, const ol_field *field, object value):
        if not self.open:
            self.root = value
        elif type(self.open[-1]) is list:
            (<list>self.open[-1]).append(value)
        else:
            (<dict>self.open[-1])[field.name.decode("ascii")] = value


cdef int _failed(ol_error *error, object failure) noexcept:
    keep_interrupt(failure)
    cdef bytes text = (str(failure) or type(failure).__name__).encode("utf-8", "replace")
    return ol_fail(error, OL_NO_MEMORY, "%s", <const char *>text)


cdef int _begin_struct(void *context, const ol_field *field, ol_error *error) noexcept with gil:
    cdef _Builder builder = <_Builder>context
    cdef dict struct
    try:
        struct = {}
        builder.put(field, struct)
        builder.open.append(struct)
        return OL_OK
    except BaseException as failure:
        return _failed(error, failure)


cdef int _end_struct(void *context, const ol_field *field, ol_error *error) noexcept with gil:
    cdef _Builder builder = <_Builder>context
    cdef const ol_field *each
    try:
        struct = builder.open.pop()
        # Kafka prints an absent tagged struct as null, and omits other absent tags.
        each = builder.schema.fields if field == NULL else field.fields
        while each.name != NULL:
            if each.tagged and each.kind == OL_FIELD_STRUCT:
                struct.setdefault(each.name.decode("ascii"), None)
            each += 1
        return OL_OK
    except BaseException as failure:
        return _failed(error, failure)


cdef int _begin_array(void *context, const ol_field *field, int32_t count, ol_error *error) noexcept with gil:
    cdef _Builder builder = <_Builder>context
    cdef list array
    try:
        array = []
        builder.put(field, array)
        builder.open.append(array)
        return OL_OK
    except BaseException as failure:
        return _failed(error, failure)


cdef int _end_array(void *context, const ol_field *field, ol_error *error) noexcept with gil:
    cdef _Builder builder = <_Builder>context
    try:
        builder.open.pop()
        return OL_OK
    except BaseException as failure:
        return _failed(error, failure)


cdef int _integer(void *context, const ol_field *field, int64_t value, ol_error *error) noexcept with gil:
    cdef _Builder builder = <_Builder>context
    try:
        builder.put(field, value != 0 if field.kind == OL_FIELD_BOOLEAN else value)
        return OL_OK
    except BaseException as failure:
        return _failed(error, failure)


cdef int _bytes(void *context, const ol_field *field, ol_slice value, ol_error *error) noexcept with gil:
    cdef _Builder builder = <_Builder>context
    try:
        kind = field.kind if type(builder.open[-1]) is not list else field.element
        if kind == OL_FIELD_STRING:
            builder.put(field, text_of(value.data, value.size))
        elif kind == OL_FIELD_UUID:
            builder.put(field, _uuid_text(value.data))
        else:
            builder.put(field, base64.b64encode(_bytes_of(value)).decode("ascii"))
        return OL_OK
    except BaseException as failure:
        return _failed(error, failure)


cdef int _null_value(void *context, const ol_field *field, ol_error *error) noexcept with gil:
    cdef _Builder builder = <_Builder>context
    try:
        builder.put(field, None)
        return OL_OK
    except BaseException as failure:
        return _failed(error, failure)


cdef bytes _bytes_of(ol_slice slice):
    return PyBytes_FromStringAndSize(<const char *>slice.data, <Py_ssize_t>slice.size)


cdef str _uuid_text(const uint8_t *data):
    text = base64.urlsafe_b64encode(PyBytes_FromStringAndSize(<const char *>data, OL_TOPIC_ID_SIZE))
    return text.decode("ascii").rstrip("=")


cdef dict _decode_struct(const ol_schema *schema, int16_t version, ol_slice body):
    cdef _Builder builder = _Builder()
    cdef ol_schema_visitor visitor
    cdef ol_error error
    builder.schema = schema
    visitor.begin_struct, visitor.end_struct = _begin_struct, _end_struct
    visitor.begin_array, visitor.end_array = _begin_array, _end_array
    visitor.integer, visitor.bytes, visitor.null_value = _integer, _bytes, _null_value
    visitor.unknown_tag = NULL
    visitor.context = <void *>builder
    check(ol_schema_decode(schema, version, body, &visitor, NULL, &error), &error)
    return builder.root


cdef int16_t _leading_number(ol_slice bytes, object what) except? -1:
    if bytes.size < 2:
        raise CorruptionError(f"the {what} is truncated: it has {bytes.size} bytes, but its version alone needs 2")
    return <int16_t>(bytes.data[0] << 8 | bytes.data[1])


cdef dict _decode_key(ol_slice bytes):
    cdef ol_key key
    cdef ol_error error
    cdef const ol_schema *schema
    cdef int16_t type_
    if bytes.data == NULL:
        raise CorruptionError("the record has no key")
    type_ = _leading_number(bytes, "key")
    schema = ol_schema_of_key(type_)
    if schema == NULL:
        return None
    if type_ <= 1:
        check(ol_key_decode(bytes, &key, &error), &error)
        data = {
            "group": text_of(key.group.data, key.group.size),
            "topic": text_of(key.topic.data, key.topic.size),
            "partition": key.partition,
        }
    else:
        data = _decode_struct(schema, 0, ol_slice_of(bytes.data + 2, bytes.size - 2))
    return {"type": str(type_), "data": data}


cdef dict _decode_offset_value(ol_slice bytes, int16_t type_):
    cdef ol_offset_value value
    cdef ol_error error
    cdef dict data
    check(ol_offset_value_decode(bytes, type_, &value, &error), &error)
    data = {"offset": value.offset}
    if value.version >= 3:
        data["leaderEpoch"] = value.leader_epoch
    data["metadata"] = text_of(value.metadata.data, value.metadata.size)
    data["commitTimestamp"] = value.commit_timestamp
    if value.version == 1:
        data["expireTimestamp"] = value.expire_timestamp
    if value.topic_id != NULL:
        data["topicId"] = _uuid_text(value.topic_id)
    return {"version": str(value.version), "data": data}


cdef dict _decode_value(ol_slice bytes, int16_t type_):
    cdef const ol_schema *schema = ol_schema_of_value(type_)
    cdef int16_t version
    if type_ <= 1:
        return _decode_offset_value(bytes, type_)
    version = _leading_number(bytes, "value")
    if not schema.first_version <= version <= schema.last_version:
        raise UnsupportedVersionError(f"{schema.name.decode('ascii')} has no version {version}")
    return {
        "version": str(version),
        "data": _decode_struct(schema, version, ol_slice_of(bytes.data + 2, bytes.size - 2)),
    }


cdef tuple _transaction_content(const ol_record *record):
    # Returns (kind, key, value) of a record of __transaction_state.
    cdef const ol_schema *schema
    cdef int16_t type_
    cdef int16_t version
    if record.key.data == NULL:
        return "undecodable", {"error": "the record has no key"}, None
    try:
        type_ = _leading_number(record.key, "key")
        schema = ol_schema_of_transaction_key(type_)
        if schema == NULL:
            return "unknown", None, None
        key = {"type": str(type_), "data": _decode_after_version(schema, 0, record.key)}
    except CorruptionError as failure:
        return "undecodable", _undecodable(record.key, failure), None
    if record.value.data == NULL:
        return TRANSACTION_KIND, key, None
    try:
        version = _leading_number(record.value, "value")
        data = _decode_after_version(ol_schema_of_transaction_value(type_), version, record.value)
    except CorruptionError as failure:
        return "undecodable", key, _undecodable(record.value, failure)
    return TRANSACTION_KIND, key, {"version": str(version), "data": data}


cdef dict _decode_after_version(const ol_schema *schema, int16_t version, ol_slice bytes):
    return _decode_struct(schema, version, ol_slice_of(bytes.data + 2, bytes.size - 2))


def decode_key(bytes key not None):
    """Returns a key as {"type": "2", "data": {...}} with Kafka's field names; None if its type is unknown.

    Raises CorruptionError if the key is truncated.
    """
    return _decode_key(ol_slice_of(<const char *>key, <size_t>len(key)))


def decode_value(int key_type, bytes value not None):
    """Returns a value as {"version": "3", "data": {...}} with Kafka's field names.

    Bytes are base64; ids are in Kafka's text form.

    Raises:
        CorruptionError: the value is truncated.
        UnsupportedVersionError: the key type has no such value version.
        ValueError: the key type is unknown.
    """
    if key_type not in KINDS:
        raise ValueError(f"unknown key type {key_type}")
    return _decode_value(ol_slice_of(<const char *>value, <size_t>len(value)), <int16_t>key_type)


def decode_subscription(bytes value not None):
    """Returns the fields of the metadata that a consumer sends, with Kafka's names.

    Unknown fields of newer versions are ignored.

    Raises:
        CorruptionError: the bytes are truncated, or are not a subscription.
        UnsupportedVersionError: the version is negative.
    """
    cdef ol_slice raw = ol_slice_of(<const char *>value, <size_t>len(value))
    cdef const ol_schema *schema = ol_schema_of_subscription()
    version = min(_leading_number(raw, "subscription"), schema.last_version)
    return _decode_struct(schema, version, ol_slice_of(raw.data + 2, raw.size - 2))


# -------------------------------------------------------------------------------------------------------------- one .log file


cdef dict _undecodable(ol_slice bytes, object failure):
    found = {"error": failure.message}
    if bytes.data != NULL:
        found["bytes"] = base64.b64encode(_bytes_of(bytes)).decode("ascii")
    return found


cdef list _header_names(const ol_record *record):
    cdef const uint8_t *cursor = record.headers.data
    cdef const uint8_t *limit = cursor + record.headers.size
    cdef ol_slice key
    cdef ol_slice value
    cdef ol_error error
    cdef list names = []
    cdef int32_t index
    for index in range(record.header_count):
        if check(ol_record_header_next(&cursor, limit, &key, &value, &error), &error) == OL_END:
            break
        names.append(text_of(key.data, key.size))
    return names


cdef tuple _marker(const ol_record *record):
    cdef ol_control type_
    cdef int32_t coordinator_epoch
    cdef ol_error error
    check(ol_control_decode(record, &type_, &coordinator_epoch, &error), &error)
    if type_ != OL_CONTROL_ABORT and type_ != OL_CONTROL_COMMIT:
        return "unknown", None, None
    fields = {"type": "COMMIT" if type_ == OL_CONTROL_COMMIT else "ABORT", "coordinator_epoch": coordinator_epoch}
    return "marker", fields, fields


cdef tuple _content(const ol_batch *batch, const ol_record *record, bint transactions):
    # Returns (kind, key, value); for a record that cannot be decoded, the value shows the reason.
    if batch.attributes & OL_ATTRIBUTE_CONTROL:
        try:
            return _marker(record)
        except CorruptionError as failure:
            return "undecodable", _undecodable(record.key, failure), None
    if transactions:
        return _transaction_content(record)
    try:
        key = _decode_key(record.key)
    except CorruptionError as failure:
        return "undecodable", _undecodable(record.key, failure), None
    if key is None:
        return "unknown", None, None
    type_ = int(key["type"])
    try:
        value = None if record.value.data == NULL else _decode_value(record.value, <int16_t>type_)
    except CorruptionError as failure:
        return "undecodable", key, _undecodable(record.value, failure)
    return KINDS[type_], key, value


cdef str _timestamp_type(const ol_batch *batch):
    if batch.magic == 0:
        return "NoTimestampType"
    return "LogAppendTime" if batch.attributes & OL_ATTRIBUTE_LOG_APPEND_TIME else "CreateTime"


@cython.no_gc_clear  # an open file is closed through its file system
cdef class SegmentReader:
    """Reads a .log file batch by batch.  It uses plain reads, so the file may be truncated or removed at the same time.

    The reader reads the bytes that the file had when it was opened.  One thread at a time may use it.  `close`, or the
    end of a `with` block, closes the file.
    """

    cdef ol_file_scan scan
    cdef FileSystem fs
    cdef Decompressor decompressor
    cdef readonly object path
    cdef bint is_open
    cdef bint transactions
    cdef int64_t next_offset

    def __cinit__(self):
        self.is_open = False

    def __init__(self, path, FileSystem file_system=None, Decompressor decompressor=None, *, bint transactions=False):
        """Opens the file; raises MissingFileError or StorageError if that fails.

        `transactions` says that the file is a segment of __transaction_state, whose keys and values have schemas of
        their own.
        """
        cdef bytes name = os.fsencode(path)
        cdef const char *text = name
        cdef ol_error error
        if self.is_open:
            raise InternalError("the reader is open already")
        self.path = os.fsdecode(path)
        self.fs = file_system if file_system is not None else FileSystem()
        self.decompressor = decompressor if decompressor is not None else Decompressor()
        self.transactions = transactions
        self.next_offset = 0
        with nogil:
            check(ol_file_scan_open(&self.scan, self.fs.fs, text, 0, -1, &error), &error)
        self.is_open = True

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __dealloc__(self):
        if self.is_open:
            ol_file_scan_close(&self.scan)

    def close(self):
        """Closes the file; a second call does nothing."""
        if self.is_open:
            self.is_open = False
            ol_file_scan_close(&self.scan)

    cdef int ready(self) except -1:
        if not self.is_open:
            raise ClosedError("the reader is closed")
        return 0

    @property
    def position(self):
        """The byte position of the next batch."""
        return self.scan.position

    @property
    def size(self):
        """The size of the file in bytes when it was opened."""
        return self.scan.limit

    def read(self):
        """Returns (the fields of the next batch, the list of its records), or None at the end of the file.

        The fields of a batch are position, base_offset, last_offset, batch_size, magic, codec, crc, leader_epoch,
        producer_id, producer_epoch, base_sequence, transactional, control, delete_horizon and timestamp_type.  The
        fields of a record are log_offset, timestamp, headers (their names), kind, key and value.  The kind is "marker",
        "unknown", "undecodable" or one of KINDS.  If the reader was made with `transactions`, TRANSACTION_KIND takes
        the place of KINDS.

        Raises:
            CorruptionError: the batch at `position` cannot be read.  The reader stays at this batch; `skip` moves it to
                the next.
            TornTailError: the file ends within the batch.
            UnsupportedVersionError: the magic or codec of the batch is unknown.
        """
        cdef ol_batch batch
        cdef ol_error error
        cdef int64_t position = self.scan.position
        cdef int status
        self.ready()
        try:
            with nogil:
                status = check(ol_file_scan_next(&self.scan, &batch, &error), &error)
                if status == OL_OK:
                    check(ol_batch_check_crc(&batch, &error), &error)
            if status == OL_END:
                return None
            records = self.records_of(&batch)
        except CorruptionError as failure:
            self.scan.position = position
            failure.path, failure.position = self.path, position
            raise
        self.next_offset = ol_batch_next_offset(&batch)
        return self.fields_of(&batch, position, records), records

    cdef dict fields_of(self, const ol_batch *batch, int64_t position, list records):
        cdef bint wraps = batch.magic < 2 and (batch.attributes & OL_ATTRIBUTE_CODEC) != OL_CODEC_NONE
        return {
            "position": position,
            # The header of a wrapper has only the offset of its last message.
            "base_offset": records[0]["log_offset"] if wraps and records else batch.base_offset,
            "last_offset": batch.last_offset,
            "batch_size": batch.size,
            "magic": batch.magic,
            "codec": CODECS[batch.attributes & OL_ATTRIBUTE_CODEC],
            "crc": batch.crc,
            "leader_epoch": batch.leader_epoch,
            "producer_id": batch.producer_id,
            "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence,
            "transactional": batch.magic == 2 and (batch.attributes & OL_ATTRIBUTE_TRANSACTIONAL) != 0,
            "control": batch.magic == 2 and (batch.attributes & OL_ATTRIBUTE_CONTROL) != 0,
            "delete_horizon":
                batch.base_timestamp if batch.magic == 2 and batch.attributes & OL_ATTRIBUTE_DELETE_HORIZON else None,
            "timestamp_type": _timestamp_type(batch),
        }

    cdef list records_of(self, const ol_batch *batch):
        cdef ol_records records
        cdef ol_record record
        cdef ol_error error
        cdef list found = []
        check(ol_records_open(&records, batch, &self.decompressor.port, &error), &error)
        try:
            while check(ol_records_next(&records, &record, &error), &error) != OL_END:
                kind, key, value = _content(batch, &record, self.transactions)
                found.append(
                    {
                        "log_offset": record.offset,
                        "timestamp": record.timestamp,
                        "headers": _header_names(&record) if record.header_count else [],
                        "kind": kind,
                        "key": key,
                        "value": value,
                    }
                )
        finally:
            ol_records_close(&records)
        return found

    def read_again(self, int64_t position):
        """Opens the file again, in order to continue at `position`.

        A batch begins there, or may have been written there since.
        """
        cdef bytes name = os.fsencode(self.path)
        cdef const char *text = name
        cdef ol_file_scan scan
        cdef ol_error error
        self.ready()
        with nogil:
            check(ol_file_scan_open(&scan, self.fs.fs, text, position, -1, &error), &error)
        ol_file_scan_close(&self.scan)
        self.scan = scan

    def skip(self):
        """Moves to the next complete batch after `position` with a correct CRC; returns False if there is none."""
        cdef ol_error error
        cdef int status
        self.ready()
        with nogil:
            status = check(resync(&self.scan, self.scan.position, self.next_offset, &error), &error)
        return status == OL_OK
