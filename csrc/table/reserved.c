/* table/reserved.c: names, numbers and verdicts of reserved cells. */
#include "table/reserved.h"

#include "table/table_impl.h"

uint32_t ol_table_pair_number(const ol_table *table, const ol_pair_name *name) {
    return ol_table_find_pair(table, name);
}

bool ol_table_group_number(const ol_table *table, ol_slice group, uint64_t group_hash,
                           uint32_t *number) {
    uint32_t pair = ol_table_find_group(table, group, group_hash);
    if (pair != 0) *number = ol_table_pair(table, pair)->group;
    return pair != 0;
}

uint32_t ol_table_reserved_group(const ol_table *table, const ol_reservation *reservation) {
    return ol_table_pair(table, reservation->pair)->group;
}

static const ol_cell_extras_entry *entry_of(const ol_table *table,
                                            const ol_reservation *reservation) {
    const ol_cell_extras_entry *entry = ol_cell_extras_find(
        &table->cell_extras, ol_cell_extras_key(reservation->pair, reservation->partition));
    OL_ASSERT(entry != NULL && entry->pins != 0);
    return entry;
}

bool ol_table_reserved_erased(const ol_table *table, const ol_reservation *reservation,
                              int64_t log_offset) {
    return entry_of(table, reservation)->tombstone >= log_offset;
}

bool ol_table_reserved_newer(const ol_table *table, const ol_reservation *reservation,
                             int64_t log_offset) {
    if (ol_table_reserved_erased(table, reservation, log_offset)) return false;
    const ol_cell *cell = ol_table_find_cell(table, reservation->pair, reservation->partition);
    OL_ASSERT(cell != NULL);
    return ol_table_is_absent(cell) || cell->log_offset < log_offset;
}

void ol_table_reserved_row(const ol_table *table, const ol_reservation *reservation,
                           ol_table_row *row) {
    const ol_pair *pair = ol_table_pair(table, reservation->pair);
    row->group = ol_string_pool_get(&table->string_pool, pair->group);
    row->topic = ol_string_pool_get(&table->string_pool, pair->topic);
    row->partition = reservation->partition;
    row->value.expire_timestamp = reservation->expire_timestamp;
    row->value.metadata = ol_string_pool_get(&table->string_pool, reservation->metadata);
    row->value.topic_id = ol_string_pool_topic_id(&table->string_pool, reservation->topic_id);
}
