/* format/schema_encode.c: writes values, structs, arrays and tags. */
#include "format/schema_encode.h"

#include "base/bytes.h"
#include "format/schema_put.h"

enum { FRAMES_MAX = 2 * OL_SCHEMA_DEPTH_MAX };

static int fail(ol_schema_writer *w, const ol_field *field, int status, const char *reason,
                ol_error *error) {
    w->status = status;
    return ol_fail(error, status, "%s version %d: %s %s", w->schema->name, w->version,
                   field != NULL ? field->name : "it", reason);
}

static int failed_before(const ol_schema_writer *w, ol_error *error) {
    return ol_fail(error, w->status, "%s version %d: an earlier field could not be written",
                   w->schema->name, w->version);
}

static bool has_room(const ol_schema_writer *w, size_t size) {
    return (size_t)(w->limit - w->p) >= size;
}

static ol_schema_frame *top(ol_schema_writer *w) {
    return w->depth > 0 ? &w->frames[w->depth - 1] : NULL;
}

/* ----------------------------------------------------------------------------------------- tags */

/* The size of a tag and the count of tags precede the bytes that they describe, and their own
 * length depends on the value.  So the bytes are written first, then moved by the one to five bytes
 * needed. */
static int insert_uvarint(ol_schema_writer *w, uint8_t *at, uint32_t value, ol_error *error) {
    size_t width = ol_uvarint_size(value);
    if (!has_room(w, width)) return fail(w, NULL, OL_TOO_LARGE, "does not fit the buffer", error);
    memmove(at + width, at, (size_t)(w->p - at));
    ol_store_uvarint(at, value);
    w->p += width;
    return OL_OK;
}

static int open_tag(ol_schema_writer *w, ol_schema_frame *frame, uint32_t tag, ol_error *error) {
    if (!w->flexible) return fail(w, NULL, OL_INVALID, "has no tags in this version", error);
    if (frame->tag_count > 0 && tag <= frame->last_tag) {
        return fail(w, NULL, OL_INVALID, "has tags that do not ascend", error);
    }
    if (!has_room(w, ol_uvarint_size(tag))) {
        return fail(w, NULL, OL_TOO_LARGE, "does not fit the buffer", error);
    }
    if (frame->tags == NULL) frame->tags = w->p;
    w->p = ol_store_uvarint(w->p, tag);
    frame->tag_size = w->p;
    frame->tag_count++;
    frame->last_tag = tag;
    return OL_OK;
}

static int close_tag(ol_schema_writer *w, ol_schema_frame *frame, ol_error *error) {
    uint8_t *at = frame->tag_size;
    frame->tag_size = NULL;
    return insert_uvarint(w, at, (uint32_t)(w->p - at), error);
}

/* Called before any value: counts the value as an element of its array, or opens its tag. */
static int before_value(ol_schema_writer *w, const ol_field *field, ol_error *error) {
    if (w->status != OL_OK) return failed_before(w, error);
    ol_schema_frame *frame = top(w);
    if (frame == NULL) {
        if (field != NULL) return fail(w, field, OL_INVALID, "is outside of a struct", error);
        return w->p == w->start ? OL_OK : fail(w, NULL, OL_INVALID, "is begun again", error);
    }
    if (field == NULL) return fail(w, NULL, OL_INVALID, "is begun twice", error);
    if (frame->is_array) {
        if (frame->field != field || frame->elements_left == 0) {
            return fail(w, field, OL_INVALID, "is one element too many", error);
        }
        frame->elements_left--;
        return OL_OK;
    }
    if (!ol_field_in_version(field, w->version)) {
        return fail(w, field, OL_INVALID, "is not in this version", error);
    }
    if (field->tagged) return open_tag(w, frame, field->tag, error);
    if (frame->tag_count > 0) return fail(w, field, OL_INVALID, "comes after a tag", error);
    return OL_OK;
}

static int after_value(ol_schema_writer *w, ol_error *error) {
    ol_schema_frame *frame = top(w);
    return frame != NULL && frame->tag_size != NULL ? close_tag(w, frame, error) : OL_OK;
}

static ol_field_kind kind_here(ol_schema_writer *w, const ol_field *field) {
    return top(w)->is_array ? field->element : field->kind;
}

static bool may_be_null(ol_schema_writer *w, const ol_field *field) {
    return ol_field_may_be_null(field, w->version) && !top(w)->is_array;
}

/* --------------------------------------------------------------------------------------- values */

int ol_schema_put_integer(void *writer, const ol_field *field, int64_t value, ol_error *error) {
    ol_schema_writer *w = writer;
    if (w->depth == 0) return fail(w, field, OL_INVALID, "is outside of a struct", error);
    ol_field_kind kind = kind_here(w, field);
    if (kind < OL_FIELD_BOOLEAN || kind > OL_FIELD_I64) {
        return fail(w, field, OL_INVALID, "is not an integer", error);
    }
    int status = before_value(w, field, error);
    if (status != OL_OK) return status;
    const ol_integer_form *form = &ol_integer_forms[kind];
    if (value < form->least || value > form->greatest) {
        return fail(w, field, OL_INVALID, "is out of range", error);
    }
    if (!has_room(w, form->width)) {
        return fail(w, field, OL_TOO_LARGE, "does not fit the buffer", error);
    }
    w->p = ol_put_integer(w->p, form->width, value);
    return after_value(w, error);
}

/* Puts a size in the form of the version; -1 for null. */
static int put_size(ol_schema_writer *w, const ol_field *field, ol_field_kind kind, int64_t size,
                    ol_error *error) {
    if (size > (kind == OL_FIELD_STRING ? OL_SCHEMA_STRING_MAX : INT32_MAX)) {
        return fail(w, field, OL_TOO_LARGE, "is longer than the format allows", error);
    }
    if (!has_room(w, ol_size_width(w->flexible, kind, size))) {
        return fail(w, field, OL_TOO_LARGE, "does not fit the buffer", error);
    }
    w->p = ol_put_size(w->p, w->flexible, kind, size);
    return OL_OK;
}

int ol_schema_put_bytes(void *writer, const ol_field *field, ol_slice value, ol_error *error) {
    ol_schema_writer *w = writer;
    if (w->depth == 0) return fail(w, field, OL_INVALID, "is outside of a struct", error);
    ol_field_kind kind = kind_here(w, field);
    if (kind < OL_FIELD_UUID || kind > OL_FIELD_BYTES) {
        return fail(w, field, OL_INVALID, "is not a string, bytes or UUID field", error);
    }
    int status = before_value(w, field, error);
    if (status != OL_OK) return status;
    if (kind == OL_FIELD_UUID) {
        if (value.size != OL_SCHEMA_UUID_SIZE) {
            return fail(w, field, OL_INVALID, "does not have 16 bytes", error);
        }
    } else {
        status = put_size(w, field, kind, (int64_t)value.size, error);
        if (status != OL_OK) return status;
    }
    if (!has_room(w, value.size)) {
        return fail(w, field, OL_TOO_LARGE, "does not fit the buffer", error);
    }
    if (value.size > 0) memcpy(w->p, value.data, value.size);
    w->p += value.size;
    return after_value(w, error);
}

int ol_schema_put_null(void *writer, const ol_field *field, ol_error *error) {
    ol_schema_writer *w = writer;
    if (w->depth == 0) return fail(w, field, OL_INVALID, "is outside of a struct", error);
    if (!may_be_null(w, field)) return fail(w, field, OL_INVALID, "cannot be null", error);
    int status = before_value(w, field, error);
    if (status != OL_OK) return status;
    if (field->kind == OL_FIELD_STRUCT) {
        if (!has_room(w, 1)) return fail(w, field, OL_TOO_LARGE, "does not fit the buffer", error);
        *w->p++ = field->tagged ? 0 : 0xff;
    } else {
        status = put_size(w, field, field->kind, -1, error);
        if (status != OL_OK) return status;
    }
    return after_value(w, error);
}

int ol_schema_put_unknown_tag(void *writer, uint32_t tag, ol_slice value, ol_error *error) {
    ol_schema_writer *w = writer;
    if (w->status != OL_OK) return failed_before(w, error);
    ol_schema_frame *frame = top(w);
    if (frame == NULL || frame->is_array) {
        return fail(w, NULL, OL_INVALID, "has a tag outside of a struct", error);
    }
    int status = open_tag(w, frame, tag, error);
    if (status != OL_OK) return status;
    if (!has_room(w, value.size)) {
        return fail(w, NULL, OL_TOO_LARGE, "does not fit the buffer", error);
    }
    if (value.size > 0) memcpy(w->p, value.data, value.size);
    w->p += value.size;
    return after_value(w, error);
}

/* --------------------------------------------------------------------------- structs and arrays */

static int push(ol_schema_writer *w, const ol_field *field, bool is_array, int32_t count,
                ol_error *error) {
    if (w->depth == FRAMES_MAX) return fail(w, field, OL_INVALID, "is nested too deeply", error);
    w->frames[w->depth++] = (ol_schema_frame){.field = field,
                                              .is_array = is_array,
                                              .elements_left = count};
    return OL_OK;
}

int ol_schema_put_begin_struct(void *writer, const ol_field *field, ol_error *error) {
    ol_schema_writer *w = writer;
    if (w->depth > 0 && field != NULL && kind_here(w, field) != OL_FIELD_STRUCT) {
        return fail(w, field, OL_INVALID, "is not a struct", error);
    }
    int status = before_value(w, field, error);
    if (status != OL_OK) return status;
    if (field != NULL && may_be_null(w, field)) {
        if (!has_room(w, 1)) return fail(w, field, OL_TOO_LARGE, "does not fit the buffer", error);
        *w->p++ = 1;
    }
    return push(w, field, false, 0, error);
}

int ol_schema_put_end_struct(void *writer, const ol_field *field, ol_error *error) {
    ol_schema_writer *w = writer;
    if (w->status != OL_OK) return failed_before(w, error);
    ol_schema_frame *frame = top(w);
    if (frame == NULL || frame->is_array || frame->field != field) {
        return fail(w, field, OL_INVALID, "ends but was not begun", error);
    }
    if (w->flexible) {
        int status = insert_uvarint(w, frame->tags != NULL ? frame->tags : w->p, frame->tag_count,
                                    error);
        if (status != OL_OK) return status;
    }
    w->depth--;
    return after_value(w, error);
}

int ol_schema_put_begin_array(void *writer, const ol_field *field, int32_t count, ol_error *error) {
    ol_schema_writer *w = writer;
    if (w->depth == 0 || kind_here(w, field) != OL_FIELD_ARRAY) {
        return fail(w, field, OL_INVALID, "is not an array", error);
    }
    int status = before_value(w, field, error);
    if (status != OL_OK) return status;
    if (count < 0) return fail(w, field, OL_INVALID, "has a negative count", error);
    status = put_size(w, field, OL_FIELD_ARRAY, count, error);
    return status == OL_OK ? push(w, field, true, count, error) : status;
}

int ol_schema_put_end_array(void *writer, const ol_field *field, ol_error *error) {
    ol_schema_writer *w = writer;
    if (w->status != OL_OK) return failed_before(w, error);
    ol_schema_frame *frame = top(w);
    if (frame == NULL || !frame->is_array || frame->field != field) {
        return fail(w, field, OL_INVALID, "ends but was not begun", error);
    }
    if (frame->elements_left != 0) {
        return fail(w, field, OL_INVALID, "has fewer elements than its count", error);
    }
    w->depth--;
    return after_value(w, error);
}

int ol_schema_writer_start(ol_schema_writer *writer, const ol_schema *schema, int16_t version,
                           uint8_t *bytes, size_t capacity, ol_error *error) {
    *writer = (ol_schema_writer){.schema = schema,
                                 .start = bytes,
                                 .p = bytes,
                                 .limit = bytes + capacity,
                                 .version = version,
                                 .flexible = version >= schema->flexible_from};
    if (version >= schema->first_version && version <= schema->last_version) return OL_OK;
    return fail(writer, NULL, OL_UNSUPPORTED, "has no such version", error);
}

int ol_schema_writer_finish(ol_schema_writer *writer, size_t *size, ol_error *error) {
    if (writer->status != OL_OK) return failed_before(writer, error);
    if (writer->depth != 0) return fail(writer, NULL, OL_INVALID, "is not ended", error);
    *size = (size_t)(writer->p - writer->start);
    return OL_OK;
}

ol_schema_visitor ol_schema_writer_visitor(ol_schema_writer *writer) {
    return (ol_schema_visitor){
        .begin_struct = ol_schema_put_begin_struct,
        .end_struct = ol_schema_put_end_struct,
        .begin_array = ol_schema_put_begin_array,
        .end_array = ol_schema_put_end_array,
        .integer = ol_schema_put_integer,
        .bytes = ol_schema_put_bytes,
        .null_value = ol_schema_put_null,
        .unknown_tag = ol_schema_put_unknown_tag,
        .context = writer,
    };
}
