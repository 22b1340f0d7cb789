/* Looking at a log that was cleaned: which batches it holds, and what a position is there. */
#ifndef CLEANER_FINDINGS_H
#define CLEANER_FINDINGS_H

#include "cleaner_fixture.h"

static void append_hex(world *w, const char *hex) {
    size_t size;
    uint8_t *data = ol_test_unhex(hex, &size);
    append_bytes(w, ol_slice_of(data, size));
    free(data);
}

typedef struct finding {
    int64_t base;
    const uint8_t *wanted;      /* NULL: only whether there is one */
    size_t wanted_size;
    bool found;
    ol_batch batch;
} finding;

static void find_batch(void *context, const ol_batch *batch) {
    finding *find = context;
    if (batch->base_offset != find->base) return;
    find->found = true;
    find->batch = *batch;
    if (find->wanted == NULL) return;
    OL_CHECK_INT(batch->size, find->wanted_size);
    OL_CHECK(memcmp(batch->data, find->wanted, batch->size) == 0);
}

static bool has_batch(world *w, int64_t base, ol_batch *batch) {
    finding find = {.base = base};
    walk_log(w, INT64_MAX, find_batch, &find);
    if (batch != NULL) *batch = find.batch;
    return find.found;
}

/* The log holds exactly these bytes at this offset. */
static void check_bytes(world *w, int64_t base, const char *hex) {
    finding find = {.base = base};
    uint8_t *wanted = ol_test_unhex(hex, &find.wanted_size);
    find.wanted = wanted;
    walk_log(w, INT64_MAX, find_batch, &find);
    OL_CHECK(find.found);
    free(wanted);
}

static int64_t offset_of(world *w, const char *group, int32_t number) {
    ol_state state;
    ol_position_value value;
    replay_log(w, INT64_MAX, &state);
    ol_pair_name name = ol_table_name(state.table, text(group), ol_table_group_hash(state.table, text(group)), text("t"));
    int64_t offset = ol_table_get(state.table, &name, number, &value) ? value.offset : -1;
    ol_state_destroy(&state);
    return offset;
}

static ol_clean_report clean_at(world *w, int64_t now, int64_t retention) {
    ol_clean_options options = clean_options(w);
    options.now_ms = now;
    options.delete_retention_ms = retention;
    ol_clean_report report = clean_with(w, &options);
    OL_CHECK(report.complete);
    check_log(w, INT64_MAX);
    return report;
}

static size_t segments_of(world *w, int64_t bases[64]) {
    ol_log_segment_info info;
    size_t count = 0;
    while (ol_log_segment_at(w->partition->log, count, &info)) bases[count++] = info.base_offset;
    return count;
}

#endif
