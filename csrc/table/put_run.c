/* table/put_run.c: puts several rows of one pair.  It puts whole chunks at once, and lets the array
 * of chunks grow once for all of them. */
#include "table/table_impl.h"

enum { CELL_DISTANCE = 8 };     /* rows between the prefetch of a cell and its store */

/* Returns whether a new cell can take the value without any string, extras entry or topic id. */
static inline bool is_bare(const ol_position_value *value) {
    return value->metadata.size == 0 && value->topic_id == NULL && value->expire_timestamp == -1;
}

/* Returns the number of leading rows that are in one chunk, ascend, and need nothing but a cell. */
static unsigned rows_of_chunk(const ol_position_row *rows, size_t count, uint32_t number,
                              uint16_t *bitmap) {
    unsigned length = 0;
    *bitmap = 0;
    for (size_t i = 0; i < count && i < OL_CHUNK_PARTITIONS; i++) {
        if (ol_chunk_number(rows[i].partition) != number || !is_bare(&rows[i].value)) break;
        uint16_t bit = (uint16_t)(1u << (uint32_t)rows[i].partition % OL_CHUNK_PARTITIONS);
        if (*bitmap >= bit) break;
        *bitmap |= bit;
        length++;
    }
    return length;
}

/* Makes space in the pair's array for the chunks of the leading rows that ascend.  A failure is
 * ignored: space is then made for each chunk by itself. */
static void make_room(ol_table *table, uint32_t pair, const ol_position_row *rows, size_t count) {
    ol_chunk *root = &ol_table_pair(table, pair)->root;
    uint32_t first = ol_chunk_number(rows[0].partition), last = first, added = 1;
    for (size_t i = 1; i < count; i++) {
        uint32_t number = ol_chunk_number(rows[i].partition);
        if (number < last) break;
        if (number == last) continue;
        last = number;
        if (ol_partition_map_find(&table->partition_map, root, number) == NULL) added++;
    }
    ol_error ignored;
    if (added > 1) {
        (void)!ol_partition_map_reserve(&table->partition_map, root, first, last, added, &ignored);
    }
}

static void fill(ol_cell *cells, const ol_position_row *rows, unsigned length) {
    for (unsigned i = 0; i < length; i++) {
        const ol_position_value *value = &rows[i].value;
        cells[i] = (ol_cell){value->offset, value->log_offset, value->commit_timestamp,
                             value->leader_epoch, 0};
    }
}

/* Adds a chunk that does not exist yet, with all its cells. */
static int add_chunk(ol_table *table, uint32_t pair, const ol_position_row *rows, unsigned length,
                     uint16_t bitmap, ol_error *error) {
    uint32_t run;
    unsigned capacity = ol_table_run_capacity(length);
    int status = ol_run_allocator_allocate(&table->cells, capacity, &run, error);
    if (status != OL_OK) return status;
    ol_chunk *root = &ol_table_pair(table, pair)->root;
    status = ol_partition_map_add(&table->partition_map, root, ol_chunk_number(rows[0].partition),
                                  run, bitmap, error);
    if (status != OL_OK) {
        ol_run_allocator_free(&table->cells, run, capacity);
        return status;
    }
    ol_cell *cells = (ol_cell *)table->cells.units.base + run;
    ol_table_mark(table, cells);
    fill(cells, rows, length);
    table->count += length;
    return OL_OK;
}

bool ol_table_run_settled(const ol_table *table, uint32_t pair, const ol_position_row *rows,
                          size_t count) {
    uint32_t metadata;
    for (size_t i = 0; i < count; i++) {
        const ol_cell *cell = ol_table_find_cell(table, pair, rows[i].partition);
        if (cell == NULL || !ol_table_is_plain(table, pair, cell, &rows[i].value, &metadata)) {
            return false;
        }
    }
    return true;
}

static int put_rows(ol_table *table, uint32_t pair, const ol_pair_name *name,
                    const ol_position_row *rows, size_t count, ol_error *error) {
    bool has_room = false;
    for (size_t i = 0; i < count;) {
        if (i + CELL_DISTANCE < count) {
            ol_table_prefetch_cell(table, pair, rows[i + CELL_DISTANCE].partition);
        }
        uint32_t number = ol_chunk_number(rows[i].partition), metadata;
        ol_chunk *root = &ol_table_pair(table, pair)->root,
                 *chunk = ol_partition_map_find(&table->partition_map, root, number);
        unsigned bit = (uint32_t)rows[i].partition % OL_CHUNK_PARTITIONS, length = 0;
        if (OL_LIKELY(chunk != NULL && chunk->bitmap >> bit & 1)) {
            ol_cell *cell = ol_table_cell_at(table, chunk, bit);
            if (OL_LIKELY(ol_table_is_plain(table, pair, cell, &rows[i].value, &metadata))) {
                ol_table_store_plain(table, cell, &rows[i].value, metadata);
                i++;
                continue;
            }
        }
        uint16_t bitmap;
        if (chunk == NULL) length = rows_of_chunk(rows + i, count - i, number, &bitmap);
        int status;
        if (length == 0) {
            status = ol_table_put_at(table, pair, name, rows[i].partition, &rows[i].value, error);
            length = 1;
        } else {
            /* The first chunk of a pair is stored in the pair itself, so that an array is never
             * empty. */
            bool is_first = root->bitmap == 0 && root->run == 0;
            if (!has_room && !is_first) {
                make_room(table, pair, rows + i, count - i);
                has_room = true;
            }
            status = add_chunk(table, pair, rows + i, length, bitmap, error);
        }
        if (OL_UNLIKELY(status != OL_OK)) return status;
        i += length;
    }
    return OL_OK;
}

int ol_table_put_run(ol_table *table, uint32_t hint, const ol_pair_name *name,
                     const ol_position_row *rows, size_t count, ol_error *error) {
    if (count == 0) return OL_OK;
    uint32_t pair = ol_table_find_hinted(table, hint, name);
    if (count == 1) return ol_table_put_at(table, pair, name, rows->partition, &rows->value, error);
    table->changes++;
    bool is_new = pair == 0;
    int status = is_new ? ol_table_add_pair(table, name, &pair, error) : OL_OK;
    if (status != OL_OK) return status;
    table->last_pair = pair;
    table->last_hash = name->hash;
    status = put_rows(table, pair, name, rows, count, error);
    /* A first row that failed in ol_table_put_at has already dropped the pair. */
    if (OL_UNLIKELY(status != OL_OK && is_new) && ol_table_find_pair(table, name) == pair) {
        ol_table_drop_empty_pair(table, pair);
    }
    return status;
}
