/* format/schema_put: encodes sizes and integers in the form that a version of a schema requires.
 * Both encoders use it: format/schema_encode, which encodes events, and wire/message_write, which
 * encodes values.
 *
 * The caller has checked that the output fits into its buffer.  The functions take no locks. */
#ifndef OL_FORMAT_SCHEMA_PUT_H
#define OL_FORMAT_SCHEMA_PUT_H

#include "base/bytes.h"
#include "format/schema.h"

enum {
    OL_SCHEMA_STRING_MAX = 32767,
    OL_SCHEMA_UUID_SIZE = 16,
};

typedef struct ol_integer_form {
    int64_t least, greatest;
    uint8_t width;
} ol_integer_form;

static const ol_integer_form ol_integer_forms[] = {[OL_FIELD_BOOLEAN] = {0, 1, 1},
                                                   [OL_FIELD_I8] = {INT8_MIN, INT8_MAX, 1},
                                                   [OL_FIELD_I16] = {INT16_MIN, INT16_MAX, 2},
                                                   [OL_FIELD_U16] = {0, UINT16_MAX, 2},
                                                   [OL_FIELD_I32] = {INT32_MIN, INT32_MAX, 4},
                                                   [OL_FIELD_I64] = {INT64_MIN, INT64_MAX, 8}};

static inline uint8_t *ol_put_integer(uint8_t *p, uint8_t width, int64_t value) {
    switch (width) {
        case 1: *p = (uint8_t)value; break;
        case 2: ol_store_i16(p, (int16_t)value); break;
        case 4: ol_store_i32(p, (int32_t)value); break;
        default: ol_store_i64(p, value);
    }
    return p + width;
}

/* Returns how many bytes the size field of a string, bytes or an array has.  `size` is -1 for
 * null. */
static inline size_t ol_size_width(bool flexible, ol_field_kind kind, int64_t size) {
    if (flexible) return ol_uvarint_size((uint32_t)(size + 1));
    return kind == OL_FIELD_STRING ? 2 : 4;
}

static inline uint8_t *ol_put_size(uint8_t *p, bool flexible, ol_field_kind kind, int64_t size) {
    if (flexible) return ol_store_uvarint(p, (uint32_t)(size + 1));
    return ol_put_integer(p, kind == OL_FIELD_STRING ? 2 : 4, size);
}

#endif
