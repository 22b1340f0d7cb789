/* columns/record_block.c: fills arrays that grow with their block, and decodes UTF-8 as Java
 * does. */
#include "columns/record_block.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/java_string.h"

#define ASCII_MASK 0x8080808080808080u

enum { SHORT_BYTES = 64, STRING_BYTES_AHEAD = 32, UTF8_BYTES_MAX = 4, REPLACEMENT = 0xfffd };

/* The name and type of each column. */
static const struct {
    const char *name;
    ol_column_kind kind;
} columns_known[OL_COLUMN_COUNT] = {
    [OL_COLUMN_GROUP] = {"group", OL_COLUMN_STRING},
    [OL_COLUMN_TOPIC] = {"topic", OL_COLUMN_STRING},
    [OL_COLUMN_PARTITION] = {"partition", OL_COLUMN_INT32},
    [OL_COLUMN_OFFSET] = {"offset", OL_COLUMN_INT64},
    [OL_COLUMN_LEADER_EPOCH] = {"leader_epoch", OL_COLUMN_INT32},
    [OL_COLUMN_METADATA] = {"metadata", OL_COLUMN_STRING},
    [OL_COLUMN_COMMIT_TIMESTAMP] = {"commit_timestamp", OL_COLUMN_INT64},
    [OL_COLUMN_EXPIRE_TIMESTAMP] = {"expire_timestamp", OL_COLUMN_INT64},
    [OL_COLUMN_TOPIC_ID] = {"topic_id", OL_COLUMN_STRING},
    [OL_COLUMN_KIND] = {"kind", OL_COLUMN_STRING},
    [OL_COLUMN_TIMESTAMP] = {"timestamp", OL_COLUMN_INT64},
    [OL_COLUMN_OUTCOME] = {"outcome", OL_COLUMN_STRING},
    [OL_COLUMN_MARKER_OFFSET] = {"marker_offset", OL_COLUMN_INT64},
    [OL_COLUMN_PRODUCER_ID] = {"producer_id", OL_COLUMN_INT64},
    [OL_COLUMN_PRODUCER_EPOCH] = {"producer_epoch", OL_COLUMN_INT32},
    [OL_COLUMN_LOG_PARTITION] = {"log_partition", OL_COLUMN_INT32},
    [OL_COLUMN_LOG_OFFSET] = {"log_offset", OL_COLUMN_INT64},
    [OL_COLUMN_KEY] = {"key", OL_COLUMN_STRING},
    [OL_COLUMN_VALUE] = {"value", OL_COLUMN_STRING},
    [OL_COLUMN_VALUE_VERSION] = {"value_version", OL_COLUMN_INT32},
    [OL_COLUMN_HEADER_KEYS] = {"header_keys", OL_COLUMN_STRINGS},
    [OL_COLUMN_CONTROL_TYPE] = {"control_type", OL_COLUMN_STRING},
    [OL_COLUMN_SEGMENT] = {"segment", OL_COLUMN_STRING},
    [OL_COLUMN_POSITION] = {"position", OL_COLUMN_INT64},
    [OL_COLUMN_BASE_OFFSET] = {"base_offset", OL_COLUMN_INT64},
    [OL_COLUMN_LAST_OFFSET] = {"last_offset", OL_COLUMN_INT64},
    [OL_COLUMN_BATCH_SIZE] = {"batch_size", OL_COLUMN_INT32},
    [OL_COLUMN_MAGIC] = {"magic", OL_COLUMN_INT32},
    [OL_COLUMN_CODEC] = {"codec", OL_COLUMN_STRING},
    [OL_COLUMN_TIMESTAMP_TYPE] = {"timestamp_type", OL_COLUMN_STRING},
    [OL_COLUMN_TRANSACTIONAL] = {"transactional", OL_COLUMN_BOOLEAN},
    [OL_COLUMN_CONTROL] = {"control", OL_COLUMN_BOOLEAN},
    [OL_COLUMN_BASE_SEQUENCE] = {"base_sequence", OL_COLUMN_INT32},
    [OL_COLUMN_BATCH_LEADER_EPOCH] = {"batch_leader_epoch", OL_COLUMN_INT32},
    [OL_COLUMN_DELETE_HORIZON] = {"delete_horizon", OL_COLUMN_INT64},
    [OL_COLUMN_RECORD_COUNT] = {"record_count", OL_COLUMN_INT32},
    [OL_COLUMN_BASE_TIMESTAMP] = {"base_timestamp", OL_COLUMN_INT64},
    [OL_COLUMN_MAX_TIMESTAMP] = {"max_timestamp", OL_COLUMN_INT64},
    [OL_COLUMN_CRC] = {"crc", OL_COLUMN_INT64},
    [OL_COLUMN_CRC_OK] = {"crc_ok", OL_COLUMN_BOOLEAN},
    [OL_COLUMN_EFFECTIVE_AT] = {"effective_at", OL_COLUMN_INT64},
};

const char *ol_column_name(ol_column column) { return columns_known[column].name; }

ol_column_kind ol_column_kind_of(ol_column column) { return columns_known[column].kind; }

/* --------------------------------------------------------------------------------------- memory */

static size_t data_size(ol_column_kind kind, size_t capacity) {
    switch (kind) {
        case OL_COLUMN_BOOLEAN:
            return (capacity + 7) / 8;
        case OL_COLUMN_INT32:
            return 4 * capacity;
        case OL_COLUMN_INT64:
            return 8 * capacity;
        default:
            return STRING_BYTES_AHEAD * capacity;
    }
}

static bool allocate(ol_row_array *array, size_t capacity) {
    array->data_capacity = data_size(array->kind, capacity);
    array->data = malloc(array->data_capacity);
    array->valid = calloc((capacity + 7) / 8, 1);
    bool done = array->data != NULL && array->valid != NULL;
    if (array->kind == OL_COLUMN_STRING || array->kind == OL_COLUMN_STRINGS) {
        array->ends = calloc(capacity + 1, sizeof *array->ends);
        done = done && array->ends != NULL;
    }
    if (array->kind == OL_COLUMN_STRINGS) {
        array->list_capacity = capacity;
        array->list_ends = calloc(capacity + 1, sizeof *array->list_ends);
        done = done && array->list_ends != NULL;
    }
    return done;
}

int ol_record_block_create(ol_record_block *block, const ol_column *columns, size_t count,
                           size_t capacity, ol_error *error) {
    *block = (ol_record_block){.capacity = capacity};
    OL_ASSERT(capacity > 0);
    for (size_t i = 0; i < count; i++) {
        ol_row_array *array = &block->arrays[columns[i]];
        if (array->wanted) continue;
        array->wanted = true;
        block->columns[block->column_count++] = columns[i];
        array->kind = ol_column_kind_of(columns[i]);
        if (allocate(array, capacity)) continue;
        ol_record_block_free(block);
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu rows", capacity);
    }
    return OL_OK;
}

void ol_record_block_free(ol_record_block *block) {
    for (size_t i = 0; i < OL_COLUMN_COUNT; i++) {
        free(block->arrays[i].data);
        free(block->arrays[i].ends);
        free(block->arrays[i].list_ends);
        free(block->arrays[i].valid);
    }
    memset(block, 0, sizeof *block);
}

void ol_record_block_clear(ol_record_block *block) {
    for (size_t i = 0; i < block->column_count; i++) {
        ol_row_array *array = &block->arrays[block->columns[i]];
        array->has_nulls = false;
        memset(array->valid, 0, (block->capacity + 7) / 8);
    }
    block->count = 0;
}

/* --------------------------------------------------------------------------------------- values */

void ol_record_block_drop(ol_record_block *block) {
    size_t row = block->count;
    for (size_t i = 0; i < block->column_count; i++) {
        block->arrays[block->columns[i]].valid[row >> 3] &= (uint8_t)~(1u << (row & 7));
    }
}

static void set_valid(ol_row_array *array, size_t row) {
    array->valid[row >> 3] |= (uint8_t)(1u << (row & 7));
}

void ol_record_block_put_boolean(ol_record_block *block, ol_column column, bool value) {
    ol_row_array *array = &block->arrays[column];
    if (!array->wanted) return;
    uint8_t bit = (uint8_t)(1u << (block->count & 7));
    uint8_t *byte = &array->data[block->count >> 3];
    *byte = (uint8_t)(value ? *byte | bit : *byte & ~bit);
    set_valid(array, block->count);
}

void ol_record_block_set_null(ol_record_block *block, ol_column column) {
    ol_row_array *array = &block->arrays[column];
    size_t row = block->count;
    array->has_nulls = true;
    array->valid[row >> 3] &= (uint8_t)~(1u << (row & 7));
    if (array->kind == OL_COLUMN_INT64) ((int64_t *)(void *)array->data)[row] = 0;
    if (array->kind == OL_COLUMN_INT32) ((int32_t *)(void *)array->data)[row] = 0;
    if (array->kind == OL_COLUMN_BOOLEAN) array->data[row >> 3] &= (uint8_t)~(1u << (row & 7));
    if (array->kind == OL_COLUMN_STRING) array->ends[row + 1] = array->ends[row];
    if (array->kind == OL_COLUMN_STRINGS) array->list_ends[row + 1] = array->list_ends[row];
}

/* Reserves memory for `size` more bytes after `used`. */
static int reserve_bytes(ol_row_array *array, size_t used, size_t size, ol_error *error) {
    if (size > OL_RECORD_BLOCK_BYTES_MAX - used) {
        return ol_fail(error, OL_LIMIT, "a column of the block cannot hold %zu more bytes",
                       size);
    }
    if (used + size <= array->data_capacity) return OL_OK;
    /* The fast path compares only with the capacity, so the capacity must respect the limit. */
    size_t twice = 2 * array->data_capacity;
    if (twice > OL_RECORD_BLOCK_BYTES_MAX) twice = OL_RECORD_BLOCK_BYTES_MAX;
    size_t capacity = used + size > twice ? used + size : twice;
    uint8_t *moved = realloc(array->data, capacity);
    if (moved == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu bytes of strings", capacity);
    }
    array->data = moved;
    array->data_capacity = capacity;
    return OL_OK;
}

static bool is_ascii(ol_slice value) {
    uint64_t seen = 0;
    size_t at = 0;
    for (; at + 8 <= value.size; at += 8) {
        uint64_t word;
        memcpy(&word, value.data + at, 8);
        seen |= word;
    }
    for (; at < value.size; at++) seen |= (uint64_t)value.data[at] << 56 | value.data[at];
    return (seen & ASCII_MASK) == 0;
}

static bool is_utf8(ol_slice value) {
    bool valid = true;
    if (!is_ascii(value)) ol_utf16_units(value, &valid);
    return valid;
}

static uint8_t *put_character(uint8_t *p, uint32_t character) {
    if (character < 0x80) {
        *p++ = (uint8_t)character;
    } else if (character < 0x800) {
        *p++ = (uint8_t)(0xc0 | character >> 6);
        *p++ = (uint8_t)(0x80 | (character & 0x3f));
    } else if (character < 0x10000) {
        *p++ = (uint8_t)(0xe0 | character >> 12);
        *p++ = (uint8_t)(0x80 | (character >> 6 & 0x3f));
        *p++ = (uint8_t)(0x80 | (character & 0x3f));
    } else {
        *p++ = (uint8_t)(0xf0 | character >> 18);
        *p++ = (uint8_t)(0x80 | (character >> 12 & 0x3f));
        *p++ = (uint8_t)(0x80 | (character >> 6 & 0x3f));
        *p++ = (uint8_t)(0x80 | (character & 0x3f));
    }
    return p;
}

/* Appends bytes at *used, which moves: unchanged, or as Java decodes them. */
static int append(ol_row_array *array, size_t *used, ol_slice value, bool as_is, ol_error *error) {
    /* A malformed byte becomes three. */
    int status = reserve_bytes(array, *used, as_is ? value.size : UTF8_BYTES_MAX * value.size,
                               error);
    if (status != OL_OK) return status;
    uint8_t *p = array->data + *used;
    if (as_is) {
        if (value.size > 0) memcpy(p, value.data, value.size);
        *used += value.size;
        return OL_OK;
    }
    for (size_t at = 0; at < value.size;) {
        uint32_t character = REPLACEMENT;
        at += ol_java_character(value.data + at, value.size - at, &character);
        p = put_character(p, character);
    }
    *used = (size_t)(p - array->data);
    return OL_OK;
}

static int put(ol_row_array *array, size_t row, ol_slice value, bool as_is, ol_error *error) {
    size_t used = (size_t)array->ends[row];
    int status = append(array, &used, value, as_is, error);
    if (status != OL_OK) return status;
    array->ends[row + 1] = (int32_t)used;
    return OL_OK;
}

/* Copies bytes to memory that was reserved for them, and returns whether all are ASCII. */
static inline bool copy_ascii(uint8_t *to, ol_slice value) {
    const uint8_t *from = value.data;
    uint64_t seen = 0;
    if (OL_LIKELY(value.size >= 8)) {
        uint64_t word;
        size_t last = value.size - 8;
        for (size_t at = 0; at < last; at += 8) {
            memcpy(&word, from + at, 8);
            memcpy(to + at, &word, 8);
            seen |= word;
        }
        /* The last eight bytes may overlap the word before. */
        memcpy(&word, from + last, 8);
        memcpy(to + last, &word, 8);
        seen |= word;
    } else {
        for (size_t at = 0; at < value.size; at++) {
            to[at] = from[at];
            seen |= from[at];
        }
    }
    return (seen & ASCII_MASK) == 0;
}

/* Most rows repeat the name of the row before: bytes that were valid once are not checked again. */
static bool is_checked(const ol_row_array *array, ol_column column, size_t row, ol_slice value) {
    if (row == 0 || (column != OL_COLUMN_GROUP && column != OL_COLUMN_TOPIC)) return false;
    int32_t start = array->ends[row - 1];
    return ol_slice_equal(value,
                          ol_slice_of(array->data + start, (size_t)(array->ends[row] - start)));
}

static inline int append_string(ol_row_array *array, ol_column column, size_t row, ol_slice value,
                                ol_error *error) {
    size_t used = (size_t)array->ends[row];
    if (OL_LIKELY(value.size <= SHORT_BYTES && used + value.size <= array->data_capacity &&
                  copy_ascii(array->data + used, value))) {
        array->ends[row + 1] = (int32_t)(used + value.size);
        return OL_OK;
    }
    /* Bytes equal to text that is already in the column are valid. */
    return put(array, row, value, is_checked(array, column, row, value) || is_utf8(value), error);
}

int ol_record_block_append_string(ol_record_block *block, ol_column column, ol_slice value,
                                  ol_error *error) {
    ol_row_array *array = &block->arrays[column];
    int status = append_string(array, column, block->count, value, error);
    if (OL_LIKELY(status == OL_OK)) set_valid(array, block->count);
    return status;
}

int ol_record_block_append_strings(ol_record_block *block, ol_column column,
                                   const ol_slice *values, size_t count, ol_error *error) {
    OL_ASSERT(count <= block->capacity - block->count);
    for (size_t i = 0; i < count; i++) {
        int status = append_string(&block->arrays[column], column, block->count + i, values[i],
                                   error);
        if (OL_UNLIKELY(status != OL_OK)) return status;
    }
    return OL_OK;
}

void ol_record_block_mark(ol_record_block *block, ol_column column, size_t count, bool has_values) {
    ol_row_array *array = &block->arrays[column];
    size_t row = block->count, end = row + count;
    if (!has_values) {
        /* The bits of rows that are not filled yet mean null. */
        array->has_nulls = array->has_nulls || count > 0;
        return;
    }
    for (; row < end && (row & 7) != 0; row++) set_valid(array, row);
    for (; end - row >= 8; row += 8) array->valid[row >> 3] = 0xff;
    for (; row < end; row++) set_valid(array, row);
}

int ol_record_block_put_bytes(ol_record_block *block, ol_column column, ol_slice value,
                              ol_error *error) {
    ol_row_array *array = &block->arrays[column];
    if (!array->wanted) return OL_OK;
    if (value.data == NULL) {
        ol_record_block_put_null(block, column);
        return OL_OK;
    }
    int status = put(array, block->count, value, true, error);
    if (status == OL_OK) set_valid(array, block->count);
    return status;
}

/* ---------------------------------------------------------------------------------------- lists */

static int grow_list(ol_row_array *array, size_t count, ol_error *error) {
    if (count <= array->list_capacity) return OL_OK;
    if (count > OL_RECORD_BLOCK_BYTES_MAX) {
        return ol_fail(error, OL_LIMIT, "a list of the block cannot hold %zu strings", count);
    }
    size_t capacity = 2 * count;
    int32_t *moved = realloc(array->ends, (capacity + 1) * sizeof *moved);
    if (moved == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for a list of %zu strings", capacity);
    }
    array->ends = moved;
    array->list_capacity = capacity;
    return OL_OK;
}

int ol_record_block_add_string(ol_record_block *block, ol_column column, ol_slice value,
                               ol_error *error) {
    ol_row_array *array = &block->arrays[column];
    if (!array->wanted) return OL_OK;
    size_t row = block->count;
    bool is_first = (array->valid[row >> 3] >> (row & 7) & 1) == 0;
    /* The validity bit of a row being filled says that its list was begun. */
    if (is_first) array->list_ends[row + 1] = array->list_ends[row];
    size_t number = (size_t)array->list_ends[row + 1];
    int status = grow_list(array, number + 1, error);
    if (status != OL_OK) return status;
    size_t used = (size_t)array->ends[number];
    status = append(array, &used, value, is_utf8(value), error);
    if (status != OL_OK) return status;
    array->ends[number + 1] = (int32_t)used;
    array->list_ends[row + 1] = (int32_t)(number + 1);
    set_valid(array, row);
    return OL_OK;
}

void ol_record_block_end_list(ol_record_block *block, ol_column column) {
    ol_row_array *array = &block->arrays[column];
    if (!array->wanted) return;
    size_t row = block->count;
    bool is_empty = (array->valid[row >> 3] >> (row & 7) & 1) == 0;
    if (is_empty) array->list_ends[row + 1] = array->list_ends[row];
    set_valid(array, row);
}
