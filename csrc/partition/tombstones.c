/* Collects tombstones, and orders those of group records. */
#include "partition/tombstones.h"

#include <stdlib.h>
#include <string.h>

#include "format/batch.h"
#include "partition/commit/commit.h"
#include "format/offset_record.h"

enum {
    BLOCK_BYTES = 4096,
    /* A tombstone without its key: attributes, time, sizes, no headers. */
    RECORD_BYTES_MAX = 1 + 1 + 4 * OL_UVARINT_MAX + 1,
};

/* A string never moves once it is copied; a long one has a block of its own. */
typedef struct ol_tombstone_block {
    struct ol_tombstone_block *previous;
    size_t used;
    size_t size;
    uint8_t bytes[];
} ol_tombstone_block;

void ol_tombstones_free(ol_tombstones *all) {
    while (all->block != NULL) {
        ol_tombstone_block *previous = all->block->previous;
        free(all->block);
        all->block = previous;
    }
    free(all->items);
    memset(all, 0, sizeof *all);
}

static int no_memory(ol_error *error) {
    return ol_fail(error, OL_NO_MEMORY, "no memory for tombstones");
}

static int copy_of(ol_tombstones *all, ol_slice bytes, ol_slice *copy, ol_error *error) {
    if (all->block == NULL || all->block->size - all->block->used < bytes.size) {
        size_t size = bytes.size > BLOCK_BYTES ? bytes.size : BLOCK_BYTES;
        ol_tombstone_block *block = malloc(sizeof *block + size);
        if (block == NULL) return no_memory(error);
        *block = (ol_tombstone_block){.previous = all->block, .size = size};
        all->block = block;
    }
    uint8_t *data = all->block->bytes + all->block->used;
    if (bytes.size > 0) memcpy(data, bytes.data, bytes.size);
    all->block->used += bytes.size;
    *copy = ol_slice_of(data, bytes.size);
    return OL_OK;
}

static int grow(ol_tombstones *all, ol_error *error) {
    if (all->count < all->capacity) return OL_OK;
    size_t capacity = all->capacity * 2 + 16;
    ol_item *items = realloc(all->items, capacity * sizeof *items);
    if (items == NULL) return no_memory(error);
    all->items = items;
    all->capacity = capacity;
    return OL_OK;
}

static void add(ol_tombstones *all, const ol_item *item, size_t key_size) {
    if (all->count == 0) all->batch_bytes = OL_BATCH_OVERHEAD + OL_COMMIT_HEADERS_MAX;
    all->batch_bytes += key_size + RECORD_BYTES_MAX;
    all->items[all->count++] = *item;
}

int ol_tombstones_add_position(ol_tombstones *all, ol_slice group, ol_slice topic,
                               int32_t partition, ol_error *error) {
    int status = grow(all, error);
    bool is_known = all->topic_copy.data != NULL && topic.data == all->topic.data &&
                    topic.size == all->topic.size;
    if (status == OL_OK && !is_known) {
        status = copy_of(all, topic, &all->topic_copy, error);
        if (status == OL_OK) all->topic = topic;
    }
    if (status != OL_OK) return status;
    ol_item item = {.kind = OL_ITEM_POSITION_TOMBSTONE,
                    .group = group,
                    .topic = all->topic_copy,
                    .partition = partition};
    add(all, &item, ol_offset_key_size(group, topic));
    return OL_OK;
}

int ol_tombstones_add_group_records(ol_tombstones *all, const ol_group_records *records,
                                    ol_slice group, ol_error *error) {
    size_t cursor = 0;
    ol_group_record record;
    while (ol_group_records_next_of_group(records, group, &cursor, &record)) {
        ol_item item = {.kind = OL_ITEM_GROUP_RECORD, .group = group};
        int status = grow(all, error);
        if (status == OL_OK) status = copy_of(all, record.key, &item.key, error);
        if (status != OL_OK) return status;
        add(all, &item, record.key.size);
    }
    return OL_OK;
}

/* Returns the rank of a record type in the order of a group's tombstones: members before the
 * records that they depend on, the group itself last.  A type that is not listed would come even
 * after the group, so every new type must be listed (docs/architecture.md §11). */
static int tombstone_rank(int16_t type) {
    static const int8_t order[] = {8,  7,  6,  5,  16, 4,  3,  14, 13, 12,
                                   10, 15, 11, 22, 21, 20, 19, 17, 23, 2};
    for (size_t i = 0; i < sizeof order; i++) {
        if (order[i] == type) return (int)i;
    }
    return (int)sizeof order;
}

static int compare_ranks(const void *a, const void *b) {
    const ol_item *left = a, *right = b;
    ol_key left_key, right_key;
    ol_error ignored;
    int left_status = ol_key_decode(left->key, &left_key, &ignored);
    int right_status = ol_key_decode(right->key, &right_key, &ignored);
    OL_ASSERT(left_status == OL_OK && right_status == OL_OK);
    int difference = tombstone_rank(left_key.type) - tombstone_rank(right_key.type);
    if (difference != 0) return difference;
    size_t common = left->key.size < right->key.size ? left->key.size : right->key.size;
    int order = memcmp(left->key.data, right->key.data, common);
    return order != 0 ? order
                      : (left->key.size > right->key.size) - (left->key.size < right->key.size);
}

void ol_tombstones_sort_group_records(ol_tombstones *all, size_t first) {
    if (all->count > first + 1) {
        qsort(all->items + first, all->count - first, sizeof *all->items, compare_ranks);
    }
}

void ol_tombstones_cut(ol_tombstones *all, size_t count, size_t batch_bytes) {
    OL_ASSERT(count <= all->count);
    all->count = count;
    all->batch_bytes = batch_bytes;
}
