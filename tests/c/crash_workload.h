/* crash_workload: a seeded run of commits, deletes, transactions, flushes, rolls, reopenings (and truncations) over a file port, beside
 * the model.  A step that fails leaves its atoms after history.done: they may be there or not. */
#ifndef CRASH_WORKLOAD_H
#define CRASH_WORKLOAD_H

#include <sys/stat.h>

#include "accusation.h"
#include "crash_model.h"
#include "testing/fault_fs.h"
#include "epoch_of.h"

enum {
    WORKLOAD_STEPS = 60,
    WORKLOAD_BATCH_BYTES_MAX = 1024,
    WORKLOAD_SMALL_MAX = 6,         /* entries that surely fit one batch */
    WORKLOAD_LARGE_MIN = 28,        /* entries that surely do not */
};

typedef struct workload {
    ol_fs *fs;
    ol_partition_options options;
    ol_partition *partition;        /* NULL while it could not be opened */
    model_history *history;
    model_state now;                /* after history->done atoms */
    int64_t next_value;
    size_t acknowledged_disk;       /* atoms that were waited for */
    int64_t cutting;                /* a truncation to here did not return, -1 */
    int32_t leader_epoch;
    int opens;                      /* that were tried */
    bool clean;                     /* closed cleanly and not opened since */
    bool check_live;
} workload;

static int64_t workload_end(const workload *w) { return ol_log_end(ol_partition_log(w->partition)); }

/* The call returned: what was tried counts. */
static void workload_done(workload *w, const ol_commit_result *result) {
    model_history *history = w->history;
    if (result->base_offset < 0) {
        model_drop_to(history, history->done);
        return;
    }
    for (; history->done < history->count; history->done++) {
        history->atoms[history->done].end_offset = result->end_offset;
        model_apply(&w->now, &history->atoms[history->done]);
    }
}

static void workload_acknowledge(workload *w, int64_t end_offset) {
    size_t count = model_count_below(w->history, end_offset);
    if (count > w->acknowledged_disk) w->acknowledged_disk = count;
}

/* ------------------------------------------------------------------------------------------------ items */

typedef struct workload_texts {
    char metadata[16];
    uint8_t key[32];
    uint8_t value[32];
} workload_texts;

static ol_item workload_item(const model_entry *entry, workload_texts *texts) {
    if (entry->kind == MODEL_RECORD || entry->kind == MODEL_RECORD_ERASE) {
        ol_item item = {.kind = OL_ITEM_GROUP_RECORD, .group = text(model_group_name(entry->key)),
                        .key = model_record_key(entry->key, texts->key)};
        if (entry->kind == MODEL_RECORD) item.value = model_record_value(entry->offset, texts->value);
        return item;
    }
    ol_item item = position_item(model_group_name(model_group_of(entry->key)), model_topic_of(entry->key),
                                 model_number_of(entry->key), entry->offset);
    item.leader_epoch = entry->leader_epoch;
    item.metadata = model_metadata(entry->metadata, texts->metadata);
    if (entry->kind == MODEL_ERASE) item.kind = OL_ITEM_POSITION_TOMBSTONE;
    return item;
}

static model_entry workload_put(workload *w, int key) {
    return (model_entry){.kind = MODEL_PUT, .key = key, .offset = ++w->next_value,
                         .leader_epoch = (int32_t)ol_test_below(4) - 1,
                         .metadata = ol_test_below(3) == 0 ? 1 + (int32_t)ol_test_below(99) : 0};
}

/* Commits the entries of the atoms after history->done, in one call. */
static int workload_commit(workload *w, int producer, uint8_t condition, int64_t expected, ol_error *error) {
    static ol_item items[MODEL_KEYS + 8];
    static workload_texts texts[MODEL_KEYS + 8];
    size_t count = 0;
    for (size_t i = w->history->done; i < w->history->count; i++) {
        const model_atom *atom = &w->history->atoms[i];
        for (size_t k = 0; k < atom->count; k++, count++) {
            OL_CHECK(count < MODEL_KEYS + 8);
            items[count] = workload_item(&atom->entries[k], &texts[count]);
        }
    }
    items[0].condition = condition;
    items[0].expected = expected;
    ol_commit_result result;
    int64_t id = producer >= 0 ? model_producer_ids[producer] : -1;
    int status = ol_partition_commit(w->partition, items, count, id, producer >= 0 ? 0 : -1, &result, error);
    if (status == OL_OK) workload_done(w, &result);
    return status;
}

/* ------------------------------------------------------------------------------------------------ steps */

static int step_small(workload *w, int producer, bool with_record, ol_error *error) {
    size_t count = 1 + ol_test_below(WORKLOAD_SMALL_MAX);
    int group = (int)ol_test_below(MODEL_GROUPS);
    model_atom *atom = model_add(w->history, count, producer, -1, workload_end(w));
    for (size_t i = 0; i < count; i++) {
        if (ol_test_below(6) == 0) group = (int)ol_test_below(MODEL_GROUPS);
        atom->entries[i] = workload_put(w, model_key_of(group, (int)ol_test_below(2), (int)ol_test_below(MODEL_NUMBERS)));
    }
    if (with_record) atom->entries[0] = (model_entry){.kind = MODEL_RECORD, .key = group, .offset = ++w->next_value};
    return workload_commit(w, producer, OL_CONDITION_NONE, 0, error);
}

/* One group that does not fit a batch: it is there whole or not at all. */
static int step_large(workload *w, ol_error *error) {
    int group = (int)ol_test_below(MODEL_GROUPS);
    size_t count = WORKLOAD_LARGE_MIN + ol_test_below(MODEL_KEYS_OF_GROUP - WORKLOAD_LARGE_MIN);
    model_atom *atom = model_add(w->history, count, -1, -1, workload_end(w));
    for (size_t i = 0; i < count; i++) atom->entries[i] = workload_put(w, group * MODEL_KEYS_OF_GROUP + (int)i);
    return workload_commit(w, -1, OL_CONDITION_NONE, 0, error);
}

/* Several groups in one call, some larger than a batch: each is atomic by itself, and they go in the order of their names. */
static int step_large_groups(workload *w, ol_error *error) {
    size_t total = 0;
    for (int group = 0; group < MODEL_GROUPS; group++) {
        size_t count = ol_test_below(3) == 0 ? WORKLOAD_LARGE_MIN + ol_test_below(8) : 1 + ol_test_below(12);
        if (group == MODEL_GROUPS - 1 && total + count < WORKLOAD_LARGE_MIN) count = WORKLOAD_LARGE_MIN;
        model_atom *atom = model_add(w->history, count, -1, -1, workload_end(w));
        for (size_t i = 0; i < count; i++) atom->entries[i] = workload_put(w, group * MODEL_KEYS_OF_GROUP + (int)i);
        total += count;
    }
    return workload_commit(w, -1, OL_CONDITION_NONE, 0, error);
}

/* A transaction that somebody else ends, larger than a batch: its parts become pending one after the other. */
static int step_large_pending(workload *w, int producer, ol_error *error) {
    int group = (int)ol_test_below(MODEL_GROUPS);
    for (int i = 0; i < WORKLOAD_LARGE_MIN + 5; i++) {
        model_atom *atom = model_add(w->history, 1, producer, -1, workload_end(w));
        atom->entries[0] = workload_put(w, group * MODEL_KEYS_OF_GROUP + i);
    }
    return workload_commit(w, producer, OL_CONDITION_NONE, 0, error);
}

static int step_end(workload *w, int producer, ol_error *error) {
    ol_control type = ol_test_below(2) ? OL_CONTROL_COMMIT : OL_CONTROL_ABORT;
    model_add(w->history, 0, producer, (int)type, workload_end(w));
    ol_commit_result result;
    int status = ol_partition_end_transaction(w->partition, model_producer_ids[producer], 0, type, 0, &result, error);
    if (status == OL_OK) workload_done(w, &result);
    return status;
}

static int step_transaction(workload *w, ol_error *error) {
    int producer = (int)ol_test_below(MODEL_PRODUCERS);
    if (w->now.is_open[producer] && ol_test_below(2)) return step_end(w, producer, error);
    return ol_test_below(5) == 0 ? step_large_pending(w, producer, error) : step_small(w, producer, false, error);
}

static bool workload_has(const workload *w, int key) {
    bool there = w->now.positions[key].present;
    for (int i = 0; i < MODEL_PRODUCERS; i++) there = there || w->now.pending[i][key].present;
    return there;
}

static int step_erase(workload *w, ol_error *error) {
    size_t count = 1 + ol_test_below(WORKLOAD_SMALL_MAX);
    int group = (int)ol_test_below(MODEL_GROUPS);
    model_atom *atom = model_add(w->history, count, -1, -1, workload_end(w));
    for (size_t i = 0; i < count; i++) {
        atom->entries[i] = (model_entry){.kind = MODEL_ERASE,
                                         .key = group * MODEL_KEYS_OF_GROUP + (int)ol_test_below(MODEL_KEYS_OF_GROUP)};
    }
    return workload_commit(w, -1, OL_CONDITION_NONE, 0, error);
}

static int step_delete_group(workload *w, ol_error *error) {
    int group = (int)ol_test_below(MODEL_GROUPS);
    model_atom *atom = model_add(w->history, MODEL_KEYS_OF_GROUP + 1, -1, -1, workload_end(w));
    atom->count = 0;
    for (int i = 0; i < MODEL_KEYS_OF_GROUP; i++) {
        int key = group * MODEL_KEYS_OF_GROUP + i;
        if (workload_has(w, key)) atom->entries[atom->count++] = (model_entry){.kind = MODEL_ERASE, .key = key};
    }
    if (w->now.records[group] >= 0) atom->entries[atom->count++] = (model_entry){.kind = MODEL_RECORD_ERASE, .key = group};
    bool something = atom->count > 0;
    ol_commit_result result;
    int status = ol_partition_delete_group(w->partition, text(model_group_name(group)), false, &result, error);
    if (status == OL_OK) {
        /* A leader may write a tombstone too many for what is deleted in flight already. */
        OL_CHECK(something ? result.written > 0 : result.written == 0 || w->options.replicated);
        workload_done(w, &result);
    }
    if (status != OL_TOO_LARGE) return status;
    model_drop_to(w->history, w->history->done);    /* tombstones are not spread over batches; nothing was changed */
    return OL_OK;
}

/* A commit under a condition, which holds in one half of the cases. */
static int step_condition(workload *w, ol_error *error) {
    int key = (int)ol_test_below(MODEL_KEYS);
    const model_value *stored = &w->now.positions[key];
    model_atom *atom = model_add(w->history, 1, -1, -1, workload_end(w));
    atom->entries[0] = workload_put(w, key);
    bool wrong = ol_test_below(2);
    uint8_t condition = stored->present ? (ol_test_below(2) ? OL_CONDITION_EQUALS : OL_CONDITION_MONOTONIC) : OL_CONDITION_ABSENT;
    int64_t expected = stored->offset + (wrong ? 1 : 0);
    if (condition == OL_CONDITION_MONOTONIC) atom->entries[0].offset = stored->offset - (wrong ? 1 : 0);
    if (condition == OL_CONDITION_ABSENT && wrong) condition = OL_CONDITION_EQUALS;
    int status = workload_commit(w, -1, condition, expected, error);
    int refusal = condition == OL_CONDITION_MONOTONIC ? OL_REWIND : OL_CONDITION;
    if (wrong && status == refusal) {
        model_drop_to(w->history, w->history->done);
        return OL_OK;
    }
    OL_CHECK(status != OL_OK || !wrong);
    OL_CHECK(status != OL_CONDITION && status != OL_REWIND);
    return status;
}

static int step_wait(workload *w, ol_error *error) {
    if (w->history->done == 0) return OL_OK;
    size_t index = ol_test_below(4) ? w->history->done - 1 : ol_test_below(w->history->done);
    int64_t end_offset = w->history->atoms[index].end_offset;
    int status = ol_partition_wait(w->partition, end_offset, OL_TERM_NOW, OL_WAIT_FLUSHED, -1, error);
    if (status != OL_OK) return status;
    workload_acknowledge(w, end_offset);
    if (ol_test_below(3) == 0) w->options.log.recovery_point = ol_log_flushed(ol_partition_log(w->partition));
    return OL_OK;
}

/* ------------------------------------------------------------------------------------------------ opening and closing */

static int workload_lead(workload *w, ol_error *error) {
    int status = ol_partition_become_leader(w->partition, ++w->leader_epoch, false, error);
    if (status == OL_OK) status = ol_partition_advance(w->partition, epoch_of(w->partition), INT64_MAX, error);
    return status;
}

static int workload_open(workload *w, ol_error *error) {
    ol_log_recovery recovery;
    w->options.log.clean = w->clean;
    w->opens++;
    int status = ol_partition_open(&w->options, &w->partition, &recovery, error);
    if (status != OL_OK) {
        w->partition = NULL;
        return status;
    }
    w->clean = false;
    if (accusation(&recovery) != NULL) return ol_fail(error, OL_CORRUPT, "reported: %s", accusation(&recovery));
    w->options.log.witnessed = true;
    OL_CHECK_INT(recovery.torn_bytes, 0);
    if (w->options.replicated) status = ol_partition_advance(w->partition, epoch_of(w->partition), INT64_MAX, error);
    if (status == OL_OK) status = ol_partition_load(w->partition, error);
    if (status == OL_OK && w->options.replicated) status = workload_lead(w, error);
    if (status != OL_OK) return status;
    /* An open makes what it found durable. */
    workload_acknowledge(w, ol_log_flushed(ol_partition_log(w->partition)));
    return OL_OK;
}

static int step_reopen(workload *w, ol_error *error) {
    int status = OL_OK;
    if (ol_test_below(2)) {
        int64_t end = workload_end(w);
        status = ol_partition_close(w->partition, error);
        if (status == OL_OK) {
            w->clean = true;
            w->options.log.recovery_point = end;
            workload_acknowledge(w, end);
        }
    } else {
        ol_partition_abandon(w->partition);
    }
    w->partition = NULL;
    return status == OL_OK ? workload_open(w, error) : status;
}

/* The leader is deposed and cuts what the new one does not have. */
static int step_truncate(workload *w, ol_error *error) {
    model_history *history = w->history;
    if (history->done < 4) return OL_OK;
    size_t keep = history->done - 1 - ol_test_below(history->done < 12 ? history->done - 1 : 11);
    while (keep + 1 < history->done && history->atoms[keep + 1].end_offset == history->atoms[keep].end_offset) keep++;
    int64_t offset = history->atoms[keep].end_offset;
    int status = ol_partition_become_follower(w->partition, ++w->leader_epoch, error);
    if (status != OL_OK) return status;
    if (w->options.log.recovery_point > offset) w->options.log.recovery_point = offset;
    if (w->acknowledged_disk > keep + 1) w->acknowledged_disk = keep + 1;
    w->cutting = offset;
    status = ol_partition_truncate(w->partition, epoch_of(w->partition), offset, error);
    if (status != OL_OK) return status;
    w->cutting = -1;
    model_drop_to(history, keep + 1);
    model_replay(history, keep + 1, &w->now);
    OL_CHECK_INT(workload_end(w), offset);
    if (ol_partition_role(w->partition) == OL_ROLE_UNLOADED) status = ol_partition_load(w->partition, error);
    return status == OL_OK ? workload_lead(w, error) : status;
}

static int step_replicated(workload *w, ol_error *error) {
    if (ol_test_below(3) == 0) return step_truncate(w, error);
    int64_t end = workload_end(w);
    return ol_partition_advance(w->partition, epoch_of(w->partition), end - (int64_t)ol_test_below(end < 10 ? (uint64_t)end + 1 : 10), error);
}

static int workload_step(workload *w, ol_error *error) {
    uint64_t draw = ol_test_below(100);
    if (draw < 30) return step_small(w, -1, ol_test_below(5) == 0, error);
    if (draw < 38) return step_large(w, error);
    if (draw < 42) return step_large_groups(w, error);
    if (draw < 56) return step_transaction(w, error);
    if (draw < 62) return step_erase(w, error);
    if (draw < 65) return step_delete_group(w, error);
    if (draw < 70) return step_condition(w, error);
    if (draw < 84) return step_wait(w, error);
    if (draw < 89) return ol_log_prepare(ol_partition_log(w->partition)), OL_OK;
    if (draw < 92) return ol_fault_fs_stopped(w->fs) ? OL_OK : ol_fault_fs_write_back(w->fs, ol_test_random(), error);
    if (draw < 95) return step_reopen(w, error);
    return w->options.replicated ? step_replicated(w, error) : step_wait(w, error);
}

/* ------------------------------------------------------------------------------------------------ a run */

OL_UNUSED static void workload_begin(workload *w, ol_fs *fs, const char *directory, bool replicated, uint64_t seed,
                                     model_history *history) {
    ol_test_random_state = seed;
    history->done = history->count = 0;
    *w = (workload){.fs = fs, .history = history, .cutting = -1};
    w->options = fixture_options(directory);
    w->options.log.fs = fs;
    w->options.replicated = replicated;
    w->options.batch_bytes_max = WORKLOAD_BATCH_BYTES_MAX;
    w->options.log.config.append = seed % 2 ? OL_APPEND_WRITTEN : OL_APPEND_MAPPED;
    w->options.log.config.segment_bytes = (int64_t)(4 + ol_test_below(8)) << 10;
    w->options.log.config.index_interval_bytes = 512;
    w->options.log.config.segment_index_bytes = ol_test_below(2) ? 256 : 4096;
    w->options.log.config.extend_bytes_min = 4096;
    w->options.log.config.extend_bytes_max = 8192;
    model_reset(&w->now);
}

static void workload_check_live(const workload *w) {
    char why[256] = "";
    if (w->options.replicated && ol_partition_role(w->partition) != OL_ROLE_ACTIVE) return;
    ol_positions positions;
    ol_partition_positions(w->partition, &positions);
    if (positions.applied < positions.written) return;
    if (model_same(&w->now, w->partition, why, sizeof why)) return;
    fprintf(stderr, "after %zu atoms the live state is not the model's: %s\n", w->history->done, why);
    exit(1);
}

/* The steps until one fails or all are done. */
OL_UNUSED static int workload_run(workload *w, ol_error *error) {
    int status = workload_open(w, error);
    for (int i = 0; i < WORKLOAD_STEPS && status == OL_OK; i++) {
        status = workload_step(w, error);
        if (status == OL_OK && w->check_live) workload_check_live(w);
    }
    return status;
}

OL_UNUSED static void workload_free(workload *w) {
    if (w->partition != NULL) ol_partition_abandon(w->partition);
    model_drop_to(w->history, 0);
}

/* ------------------------------------------------------------------------------------------------ scratch */

OL_UNUSED static void scratch_root(char path[256], const char *name) {
    const char *base = getenv("TMPDIR");
    if (base == NULL) base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, 256, "%s/offsetlog-crash-%d-%s", base, (int)getpid(), name);
    remove_tree(path);
    OL_CHECK(mkdir(path, 0777) == 0);
}

OL_UNUSED static void scratch_join(char path[256], const char *directory) {
    OL_CHECK(snprintf(path, 256, "%.200s/__consumer_offsets-0", directory) < 256);
}

#endif
