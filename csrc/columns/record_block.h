/* columns/record_block: records of a log as columns in Arrow's layout, one block of rows at a time.
 *
 * A block has only the columns that the caller requested; nothing else is copied or decoded.  Every
 * string in a block is valid UTF-8.  If the bytes in the log are malformed, they become U+FFFD, as
 * Java decodes them (docs/format/partitioning.md §4).
 *
 * Ownership: the block owns its memory until ol_record_block_free; ol_record_block_clear keeps the
 * memory for the next rows.  The functions take no locks.  One thread fills a block; any number of
 * threads may read it afterwards.
 */
#ifndef OL_COLUMNS_RECORD_BLOCK_H
#define OL_COLUMNS_RECORD_BLOCK_H

#include "base/base.h"
#include "base/status.h"

/* Every column that a view can have. */
typedef enum ol_column {
    OL_COLUMN_GROUP,
    OL_COLUMN_TOPIC,
    OL_COLUMN_PARTITION,
    OL_COLUMN_OFFSET,
    OL_COLUMN_LEADER_EPOCH,
    OL_COLUMN_METADATA,
    OL_COLUMN_COMMIT_TIMESTAMP,
    OL_COLUMN_EXPIRE_TIMESTAMP,
    OL_COLUMN_TOPIC_ID,
    OL_COLUMN_KIND,
    OL_COLUMN_TIMESTAMP,
    OL_COLUMN_OUTCOME,
    OL_COLUMN_MARKER_OFFSET,
    OL_COLUMN_PRODUCER_ID,
    OL_COLUMN_PRODUCER_EPOCH,
    OL_COLUMN_LOG_PARTITION,
    OL_COLUMN_LOG_OFFSET,
    OL_COLUMN_KEY,
    OL_COLUMN_VALUE,
    OL_COLUMN_VALUE_VERSION,
    OL_COLUMN_HEADER_KEYS,
    OL_COLUMN_CONTROL_TYPE,
    OL_COLUMN_SEGMENT,
    OL_COLUMN_POSITION,
    OL_COLUMN_BASE_OFFSET,
    OL_COLUMN_LAST_OFFSET,
    OL_COLUMN_BATCH_SIZE,
    OL_COLUMN_MAGIC,
    OL_COLUMN_CODEC,
    OL_COLUMN_TIMESTAMP_TYPE,
    OL_COLUMN_TRANSACTIONAL,
    OL_COLUMN_CONTROL,
    OL_COLUMN_BASE_SEQUENCE,
    OL_COLUMN_BATCH_LEADER_EPOCH,
    OL_COLUMN_DELETE_HORIZON,
    OL_COLUMN_RECORD_COUNT,
    OL_COLUMN_BASE_TIMESTAMP,
    OL_COLUMN_MAX_TIMESTAMP,
    OL_COLUMN_CRC,
    OL_COLUMN_CRC_OK,
    OL_COLUMN_EFFECTIVE_AT,
    OL_COLUMN_COUNT,
} ol_column;

typedef enum ol_column_kind {
    OL_COLUMN_BOOLEAN,          /* a bitmap */
    OL_COLUMN_INT32,
    OL_COLUMN_INT64,
    OL_COLUMN_STRING,           /* end positions and bytes; the raw keys and values, too */
    OL_COLUMN_STRINGS,          /* a list of strings */
} ol_column_kind;

const char *ol_column_name(ol_column column);
ol_column_kind ol_column_kind_of(ol_column column);

/* The most bytes that the strings of one column of a block may have together.  There is a limit
 * because end positions have 32 bits. */
#define OL_RECORD_BLOCK_BYTES_MAX ((size_t)1 << 30)

typedef struct ol_row_array {
    bool wanted;
    ol_column_kind kind;
    uint8_t *data;              /* strings: their bytes; otherwise `capacity` values */
    size_t data_capacity;       /* strings: bytes */
    /* strings and lists: 0, then for each string the position in `data` at which it ends */
    int32_t *ends;
    int32_t *list_ends;         /* lists: 0, then for each row the number of strings up to it */
    size_t list_capacity;
    uint8_t *valid;  /* a bitmap of `capacity` bits, lowest first; used only if has_nulls */
    bool has_nulls;             /* may also be true if the row with the null was dropped */
} ol_row_array;

typedef struct ol_record_block {
    size_t capacity;
    size_t count;
    size_t column_count;
    ol_column columns[OL_COLUMN_COUNT]; /* the wanted ones, each once */
    ol_row_array arrays[OL_COLUMN_COUNT];
} ol_record_block;

/* Allocates `capacity` rows of these columns.  After a failure there is nothing to free. */
int ol_record_block_create(ol_record_block *block, const ol_column *columns, size_t count,
                           size_t capacity, ol_error *error) OL_NODISCARD;
void ol_record_block_free(ol_record_block *block);       /* zeroed memory is fine */
void ol_record_block_clear(ol_record_block *block);

/* The caller fills every wanted column of a row once and then calls ol_record_block_end, which adds
 * the row to the block.  If the row cannot be filled, the caller calls ol_record_block_drop
 * instead.  A call for an unwanted column does nothing.  The caller ensures that the block has
 * space for the row. */
void ol_record_block_put_boolean(ol_record_block *block, ol_column column, bool value);
/* ol_record_block_set_null and ol_record_block_append_string may be called for wanted columns only.
 * The inline functions below check that a column is wanted. */
void ol_record_block_set_null(ol_record_block *block, ol_column column);
int ol_record_block_append_string(ol_record_block *block, ol_column column, ol_slice value,
                                  ol_error *error) OL_NODISCARD;
/* Fill one wanted column of `count` rows at once, beginning with the current row.
 * ol_record_block_append_strings appends strings that are not null, and fails as
 * ol_record_block_put_string does.  The caller writes values of fixed width straight into the
 * array.  ol_record_block_mark then marks these rows as having values, or as null. */
int ol_record_block_append_strings(ol_record_block *block, ol_column column,
                                   const ol_slice *values, size_t count,
                                   ol_error *error) OL_NODISCARD;
void ol_record_block_mark(ol_record_block *block, ol_column column, size_t count, bool has_values);
/* Puts bytes into the current row without changing them.  A slice whose data is NULL becomes a
 * null. */
int ol_record_block_put_bytes(ol_record_block *block, ol_column column, ol_slice value,
                              ol_error *error) OL_NODISCARD;
/* ol_record_block_add_string adds one string to the list of the current row.
 * ol_record_block_end_list ends the list. */
int ol_record_block_add_string(ol_record_block *block, ol_column column, ol_slice value,
                               ol_error *error) OL_NODISCARD;
void ol_record_block_end_list(ol_record_block *block, ol_column column);

static inline void ol_record_block_put_int64(ol_record_block *block, ol_column column,
                                             int64_t value) {
    ol_row_array *array = &block->arrays[column];
    if (!array->wanted) return;
    OL_ASSERT(array->kind == OL_COLUMN_INT64);
    ((int64_t *)(void *)array->data)[block->count] = value;
    array->valid[block->count >> 3] |= (uint8_t)(1u << (block->count & 7));
}

static inline void ol_record_block_put_int32(ol_record_block *block, ol_column column,
                                             int32_t value) {
    ol_row_array *array = &block->arrays[column];
    if (!array->wanted) return;
    OL_ASSERT(array->kind == OL_COLUMN_INT32);
    ((int32_t *)(void *)array->data)[block->count] = value;
    array->valid[block->count >> 3] |= (uint8_t)(1u << (block->count & 7));
}

static inline void ol_record_block_put_null(ol_record_block *block, ol_column column) {
    if (block->arrays[column].wanted) ol_record_block_set_null(block, column);
}

/* Puts a string into the current row.  Fails with OL_NO_MEMORY, or with OL_LIMIT if the column's
 * bytes would exceed OL_RECORD_BLOCK_BYTES_MAX. */
OL_NODISCARD static inline int ol_record_block_put_string(ol_record_block *block, ol_column column,
                                                          ol_slice value, ol_error *error) {
    if (!block->arrays[column].wanted) return OL_OK;
    return ol_record_block_append_string(block, column, value, error);
}

void ol_record_block_drop(ol_record_block *block);

static inline void ol_record_block_end(ol_record_block *block) {
    OL_ASSERT(block->count < block->capacity);
    block->count++;
}

#endif
