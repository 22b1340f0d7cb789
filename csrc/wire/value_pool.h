/* wire/value_pool: memory for the values of a message.  The whole memory is released at once.
 *
 * Ownership: the pool owns its blocks, and a value is valid until the pool is next cleared or
 * freed.  Blocks do not move, so values may point to each other.  To make an empty pool, set all of
 * its memory to zero and then set `limit`.  The pool takes no locks.  Only one thread may use it at
 * a time.
 */
#ifndef OL_WIRE_VALUE_POOL_H
#define OL_WIRE_VALUE_POOL_H

#include "base/base.h"
#include "base/status.h"

/* One value of a message.  `number` is
 *
 *   of a boolean or an integer   the value
 *   of a string, bytes, a UUID   the size of `bytes`; -1: null
 *   of an array                  the number of elements, which follow each other at `values`;
 *                                -1: null
 *   of a struct                  1, its fields follow each other at `values` in the order of their
 *                                table; 0: null, or a tag that is not there
 *
 * The bytes are not copied.  They belong to the message that was read, or to the code that made the
 * value. */
typedef struct ol_value {
    int64_t number;
    union {
        const uint8_t *bytes;
        struct ol_value *values;
    };
} ol_value;

typedef struct ol_value_block ol_value_block;

typedef struct ol_value_pool {
    ol_value_block *blocks;     /* newest first; values are taken from the first */
    ol_value *next;             /* next free value in the newest block */
    size_t left;                /* free values in the newest block */
    size_t count;               /* values taken since the last clear */
    size_t limit;               /* the most values that may be taken */
} ol_value_pool;

/* Takes `count` consecutive zeroed values from the pool.  On success *values is never NULL.  Fails
 * with OL_LIMIT if more values would be taken than the limit allows, or with OL_NO_MEMORY.  After a
 * failure the pool is unchanged. */
int ol_value_pool_take(ol_value_pool *pool, size_t count, ol_value **values,
                       ol_error *error) OL_NODISCARD;

/* Ensures that the newest block has `count` free values and that the limit allows the caller to
 * take them.  Fails as ol_value_pool_take does. */
int ol_value_pool_extend(ol_value_pool *pool, size_t count, ol_error *error) OL_NODISCARD;

/* Like ol_value_pool_take, but the values are not zeroed; the caller must set them. */
OL_NODISCARD static inline int ol_value_pool_take_unset(ol_value_pool *pool, size_t count,
                                                        ol_value **values, ol_error *error) {
    if (OL_UNLIKELY(count > pool->left || count > pool->limit - pool->count ||
                    pool->next == NULL)) {
        int status = ol_value_pool_extend(pool, count, error);
        if (status != OL_OK) return status;
    }
    *values = pool->next;
    pool->next += count;
    pool->left -= count;
    pool->count += count;
    return OL_OK;
}

/* Releases all values.  The pool keeps one block of ordinary size for the next message. */
void ol_value_pool_clear(ol_value_pool *pool);
void ol_value_pool_free(ol_value_pool *pool);

static inline ol_value ol_value_integer(int64_t number) { return (ol_value){.number = number}; }
static inline ol_value ol_value_bytes(ol_slice bytes) {
    return (ol_value){.number = bytes.data != NULL ? (int64_t)bytes.size : -1, .bytes = bytes.data};
}
static inline ol_slice ol_value_slice(const ol_value *value) {
    return value->number < 0 ? ol_slice_null() : ol_slice_of(value->bytes, (size_t)value->number);
}

#endif
