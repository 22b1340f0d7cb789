/* wire/value_pool.c: blocks in a list, the newest first. */
#include "wire/value_pool.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_VALUES = 1023 };    /* of 16 bytes; with its header a block has 16 KiB */

struct ol_value_block {
    ol_value_block *older;
    uint32_t used;
    uint32_t capacity;
    ol_value values[];
};

static ol_value_block *block_with_room(ol_value_pool *pool, size_t count) {
    ol_value_block *block = pool->blocks;
    if (block != NULL && block->capacity - block->used >= count) return block;
    size_t capacity = count > BLOCK_VALUES ? count : BLOCK_VALUES;
    block = malloc(sizeof *block + capacity * sizeof block->values[0]);
    if (block == NULL) return NULL;
    *block = (ol_value_block){.older = pool->blocks, .capacity = (uint32_t)capacity};
    pool->blocks = block;
    return block;
}

int ol_value_pool_take(ol_value_pool *pool, size_t count, ol_value **values, ol_error *error) {
    if (count > pool->limit - pool->count || count > UINT32_MAX) {
        return ol_fail(error, OL_LIMIT, "a message has more than %zu values", pool->limit);
    }
    ol_value_block *block = block_with_room(pool, count);
    if (block == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for %zu values", count);
    *values = block->values + block->used;
    memset(*values, 0, count * sizeof **values);
    block->used += (uint32_t)count;
    pool->count += count;
    return OL_OK;
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
    if (kept != NULL) {
        kept->older = NULL;
        kept->used = 0;
    }
    pool->blocks = kept;
    pool->count = 0;
}

void ol_value_pool_free(ol_value_pool *pool) {
    ol_value_pool_clear(pool);
    free(pool->blocks);
    pool->blocks = NULL;
}
