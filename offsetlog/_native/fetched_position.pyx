"""Converts a committed position in the table to an OffsetAndMetadata."""

from offsetlog._native.buffers cimport new_named_tuple, set_item
from offsetlog._native.csrc cimport ol_position_value

from uuid import UUID

from offsetlog.types import OffsetAndMetadata

cdef type OFFSET_AND_METADATA = OffsetAndMetadata
cdef object MINUS_ONE = -1


cdef object new_offset_and_metadata(const ol_position_value *value, str metadata):
    row = new_named_tuple(OFFSET_AND_METADATA, 6)
    topic_id = None
    if value.topic_id != NULL:
        topic_id = UUID(bytes=(<const char *>value.topic_id)[:16])
    set_item(row, 0, value.offset)
    set_item(row, 1, metadata)
    set_item(row, 2, value.leader_epoch)
    set_item(row, 3, value.commit_timestamp)
    set_item(row, 4, MINUS_ONE if value.expire_timestamp == -1 else value.expire_timestamp)
    set_item(row, 5, topic_id)
    return row
