/* testing/fault_crash.c: draws a state that the modelled disk may hold after a power loss. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "testing/fault_disk.h"

/* Draws, once for the whole state, the chance that a page is kept, in quarters.  "All pages" and
 * "no page" are drawn often, because mistakes of order show in those states. */
static unsigned draw_keep_quarters(uint64_t *random) {
    return (unsigned)(ol_fault_random(random) % 5);
}

static bool draw_kept(uint64_t *random, unsigned keep_quarters) {
    return ol_fault_random(random) % 4 < keep_quarters;
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* Loads page `at` of a content, zeros if it has none. */
static void load_page(uint8_t page[OL_FAULT_PAGE], const ol_fault_content *content, size_t at) {
    if (at < content->capacity) memcpy(page, content->bytes + at, OL_FAULT_PAGE);
    else memset(page, 0, OL_FAULT_PAGE);
}

/* Draws the content of one file: *bytes, which is malloc'ed, and *size. */
static void draw_content(const ol_fault_node *node, uint64_t *random, unsigned keep_quarters,
                         uint8_t **bytes, size_t *size) {
    const ol_fault_content *durable = &node->durable, *current = &node->current;
    size_t floor = smaller(node->floor, current->size);
    bool was_cut = floor < durable->size;
    bool cut_kept = was_cut && draw_kept(random, 2);
    bool growth_kept = draw_kept(random, 2);
    size_t capacity = durable->capacity > current->capacity ? durable->capacity : current->capacity;
    uint8_t *result = calloc(1, capacity + OL_FAULT_PAGE);
    OL_ASSERT(result != NULL);
    if (was_cut && !cut_kept) *size = durable->size;
    else if (was_cut) *size = growth_kept ? current->size : floor;
    else *size = growth_kept || current->size < durable->size ? current->size : durable->size;
    /* If the truncation is lost, no block after it was freed or rewritten. */
    size_t drawn_end = was_cut && !cut_kept ? floor : current->capacity;
    for (size_t at = 0; at < capacity; at += OL_FAULT_PAGE) {
        uint8_t newer[OL_FAULT_PAGE];
        load_page(newer, current, at);
        load_page(result + at, durable, at);
        bool dirty = at < drawn_end && memcmp(newer, result + at, OL_FAULT_PAGE) != 0;
        bool kept = dirty && draw_kept(random, keep_quarters);
        if (kept) memcpy(result + at, newer, OL_FAULT_PAGE);
        if (kept || !cut_kept || at + OL_FAULT_PAGE <= floor) continue;
        size_t from = at > floor ? at : floor;
        memset(result + from, 0, at + OL_FAULT_PAGE - from);
    }
    *bytes = result;
}

/* Writes only the pages that are not zeros, so that files sized ahead stay small. */
static int write_file(ol_fs *real, const char *path, const uint8_t *bytes, size_t size,
                      ol_error *error) {
    static const uint8_t zeros[OL_FAULT_PAGE];
    ol_file *file;
    int status = real->open(real, path, OL_OPEN_CREATE_NEW, &file, error);
    if (status != OL_OK) return status;
    status = real->truncate(file, (int64_t)size, error);
    for (size_t at = 0; at < size && status == OL_OK; at += OL_FAULT_PAGE) {
        size_t count = smaller(size - at, OL_FAULT_PAGE);
        if (memcmp(bytes + at, zeros, count) != 0) {
            status = real->write(file, (int64_t)at, bytes + at, count, error);
        }
    }
    real->close(file);
    return status;
}

typedef struct writer {
    const ol_fault_disk *disk;
    const ol_fault_names *names;
    uint64_t seed;
    unsigned keep_quarters;
    bool everything;
    ol_error *error;
} writer;

static int write_node(const writer *state, const ol_fault_node *node, const char *path) {
    uint8_t *bytes;
    size_t size;
    if (state->everything) {
        return write_file(state->disk->real, path, node->current.bytes, node->current.size,
                          state->error);
    }
    /* Each file has a draw of its own, so that it does not depend on the order of the names. */
    uint64_t random = state->seed ^ node->number * 0xd1b54a32d192ed03u;
    draw_content(node, &random, state->keep_quarters, &bytes, &size);
    int status = write_file(state->disk->real, path, bytes, size, state->error);
    free(bytes);
    return status;
}

static int write_directory(const writer *state, const ol_fault_node *directory, const char *path) {
    int status = OL_OK;
    for (size_t i = 0; i < state->names->count && status == OL_OK; i++) {
        const ol_fault_name *entry = &state->names->entries[i];
        if (entry->parent != directory) continue;
        char *inner = malloc(OL_PATH_MAX);
        OL_ASSERT(inner != NULL);
        status = ol_path_join(inner, OL_PATH_MAX, path, entry->name, state->error);
        if (status == OL_OK && entry->node->is_directory) {
            status = state->disk->real->make_directory(state->disk->real, inner, state->error);
            if (status == OL_OK) status = write_directory(state, entry->node, inner);
        } else if (status == OL_OK) {
            status = write_node(state, entry->node, inner);
        }
        free(inner);
    }
    return status;
}

int ol_fault_disk_materialize(const ol_fault_disk *disk, const char *target, uint64_t seed,
                              bool everything, ol_error *error) {
    ol_fault_names names;
    uint64_t random = seed;
    writer state = {disk, &names, seed, draw_keep_quarters(&random), everything, error};
    ol_fault_names_copy(&names, everything ? &disk->current : &disk->durable);
    size_t survivors = everything ? 0
                                  : (size_t)(ol_fault_random(&random) % (disk->journal_count + 1));
    for (size_t i = 0; i < survivors; i++) ol_fault_names_apply(&names, &disk->journal[i]);
    int status = write_directory(&state, disk->root, target);
    ol_fault_names_free(&names);
    return status;
}
