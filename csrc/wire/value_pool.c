/* wire/value_pool.c: blocks in a list, the newest first. */
#include "wire/value_pool.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_VALUES = 1023 };    /* of 16 bytes; with its header a block has 16 KiB */

struct ol_value_block {
    ol_value_block *older;
    size_t capacity;
    ol_value values[];
};

static void begin_block(ol_value_pool *pool, ol_value_block *block) {
    pool->blocks = block;
    pool->next = block->values;
    pool->left = block->capacity;
}

int ol_value_pool_extend(ol_value_pool *pool, size_t count, ol_error *error) {
    if (count > pool->limit - pool->count) {
        return ol_fail(error, OL_LIMIT, "a message has more than %zu values", pool->limit);
    }
    if (pool->next != NULL && count <= pool->left) return OL_OK;
    size_t capacity = count > BLOCK_VALUES ? count : BLOCK_VALUES;
    size_t size;
    ol_value_block *block = NULL;
    if (!__builtin_mul_overflow(capacity, sizeof block->values[0], &size)) {
        block = malloc(sizeof *block + size);
    }
    if (block == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for %zu values", count);
    *block = (ol_value_block){.older = pool->blocks, .capacity = capacity};
    begin_block(pool, block);
    return OL_OK;
}

int ol_value_pool_take(ol_value_pool *pool, size_t count, ol_value **values, ol_error *error) {
    int status = ol_value_pool_take_unset(pool, count, values, error);
    if (status == OL_OK) memset(*values, 0, count * sizeof **values);
    return status;
}

void ol_value_pool_clear(ol_value_pool *pool) {
    ol_value_block *kept = NULL;
    while (pool->blocks != NULL) {
        ol_value_block *block = pool->blocks;
        pool->blocks = block->older;
        if (kept == NULL && block->capacity == BLOCK_VALUES) {
            kept = block;
        } else {
            free(block);
        }
    }
    pool->next = NULL;
    pool->left = 0;
    pool->count = 0;
    if (kept == NULL) return;
    kept->older = NULL;
    begin_block(pool, kept);
}

void ol_value_pool_free(ol_value_pool *pool) {
    ol_value_pool_clear(pool);
    free(pool->blocks);
    *pool = (ol_value_pool){.limit = pool->limit};
}
