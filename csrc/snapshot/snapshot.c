/* Builds the state of a log at an offset, and checks a snapshot against a log. */
#include "snapshot/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "log/batch_walk.h"
#include "base/pages.h"
#include "snapshot/snapshot_impl.h"
#include "state/batch_applier.h"

int ol_snapshot_create(ol_snapshot **snapshot, ol_error *error) {
    ol_snapshot *created = calloc(1, sizeof *created);
    if (created == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a snapshot");
    int status = ol_state_create(&created->state, error);
    if (status != OL_OK) {
        free(created);
        return status;
    }
    created->max_timestamp = -1;
    *snapshot = created;
    return OL_OK;
}

void ol_snapshot_destroy(ol_snapshot *snapshot) {
    if (snapshot == NULL) return;
    if (!snapshot->borrowed) {
        ol_state_destroy(&snapshot->state);
        ol_own_transactions_free(&snapshot->own);
    }
    for (int i = 0; i < OL_SNAPSHOT_OWN_SECTIONS; i++) free(snapshot->blobs[i]);
    free(snapshot->epochs);
    ol_log_mark_free(&snapshot->mark);
    free(snapshot);
}

void ol_snapshot_report(const ol_snapshot *snapshot, ol_snapshot_facts *facts) {
    *facts = (ol_snapshot_facts){
        .offset = snapshot->offset,
        .log_start = snapshot->log_start,
        .max_timestamp = snapshot->max_timestamp,
        .positions = ol_table_count(snapshot->state.table),
        .pending = snapshot->pending_count,
        .group_records = snapshot->copied
                             ? snapshot->group_record_count
                             : ol_group_records_count(snapshot->state.group_records),
    };
}

uint64_t ol_snapshot_term(const ol_snapshot *snapshot) { return snapshot->term; }

const ol_state *ol_snapshot_state(const ol_snapshot *snapshot) { return &snapshot->state; }

void ol_snapshot_digest(const ol_snapshot *snapshot, bool physical, ol_digest *digest) {
    OL_ASSERT(!snapshot->copied);
    ol_state_digest(&snapshot->state, physical, digest);
}

/* ------------------------------------------------------------------------ the log it belongs to */

/* The leader epochs below the offset identify the history of everything below it. */
static int take_epochs(ol_snapshot *snapshot, const ol_log *log, ol_error *error) {
    size_t count = ol_log_epochs(log, snapshot->offset, NULL, 0);
    ol_leader_epoch *epochs = malloc((count + 1) * sizeof *epochs);
    if (epochs == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu leader epochs", count);
    }
    /* Meanwhile only newer epochs can appear. */
    if (ol_log_epochs(log, snapshot->offset, epochs, count) != count) {
        free(epochs);
        return ol_fail(error, OL_WOULD_BLOCK,
                       "the leader epochs changed while the snapshot was taken");
    }
    free(snapshot->epochs);
    snapshot->epochs = epochs;
    snapshot->epoch_count = count;
    return OL_OK;
}

static void start_facts(ol_snapshot *snapshot, const ol_snapshot_source *source) {
    snapshot->log_start = ol_log_start(source->log);
    snapshot->has_topic_id = ol_log_topic_id(source->log, snapshot->topic_id);
    snapshot->number = source->number;
    snapshot->term = source->term;
}

int ol_snapshot_begin(const ol_snapshot_source *source, ol_snapshot **snapshot, ol_error *error) {
    int status = ol_snapshot_create(snapshot, error);
    if (status != OL_OK) return status;
    start_facts(*snapshot, source);
    (*snapshot)->offset = (*snapshot)->log_start;
    return OL_OK;
}

const char *ol_snapshot_gap(const ol_batch *batch, int64_t next_offset) {
    if (batch->base_offset != next_offset) {
        return "a batch does not begin where the previous batch ended";
    }
    if (batch->magic != 2) {
        return "a batch has an old format (magic 0 or 1), which hides missing records";
    }
    if (ol_batch_has_horizon(batch)) return "a batch was cleaned";
    if (batch->record_count != batch->last_offset - batch->base_offset + 1) {
        return "records of a batch were cleaned away";
    }
    return NULL;
}

/* Returns a sum over the closed segments that hold [from, below).  If a later sum differs, some
 * were cleaned or truncated in between.  A cleaning below `from` does not disturb a replay from
 * there. */
static uint64_t closed_segments(const ol_log *log, int64_t from, int64_t below) {
    ol_log_segment_info info, next;
    uint64_t sum = 0;
    bool there = ol_log_segment_at(log, 0, &info);
    for (size_t i = 1; there && info.base_offset < below && !info.active; i++, info = next) {
        there = ol_log_segment_at(log, i, &next);
        if (there && next.base_offset <= from) continue;
        sum = ol_hash64_mix(ol_hash64_mix(sum, (uint64_t)info.base_offset), (uint64_t)info.size);
    }
    return sum;
}

/* Returns the base of the active segment; the segments below it do not grow. */
static int64_t active_base(const ol_log *log) {
    ol_log_segment_info info;
    for (size_t i = 0; ol_log_segment_at(log, i, &info); i++) {
        if (info.active) return info.base_offset;
    }
    return 0;
}

/* ----------------------------------------------------------------------------- the second state */

typedef struct replay {
    ol_snapshot *snapshot;
    ol_batch_walk walk;
    ol_batch_applier loader;
    bool refused;               /* a record or a batch could not be applied */
    ol_error refusal;
} replay;

static void record_refusal(void *context, const ol_batch *batch, const ol_error *error) {
    replay *run = context;
    (void)batch;
    if (!run->refused) run->refusal = *error;
    run->refused = true;
}

static int replay_batch(replay *run, const ol_batch *batch, ol_error *error) {
    ol_snapshot *snapshot = run->snapshot;
    const char *gap = snapshot->from_file ? ol_snapshot_gap(batch, snapshot->offset) : NULL;
    if (gap != NULL) {
        (void)ol_fail(error, OL_CORRUPT, "%s", gap);
        error->offset = batch->base_offset;
        return OL_CORRUPT;
    }
    int status = ol_batch_applier_apply(&run->loader, batch, error);
    if (status == OL_OK && run->refused) {
        *error = run->refusal;
        status = OL_CORRUPT;
    }
    if (status != OL_OK) return status;
    snapshot->offset = batch->last_offset + 1;
    ol_snapshot_record_witness(snapshot, batch);
    return OL_OK;
}

static int replay_all(replay *run, int64_t up_to, const atomic_bool *stop, ol_error *error) {
    ol_batch_walk *walk = &run->walk;
    for (;;) {
        /* The next piece may overwrite the bytes that rows borrow. */
        if (walk->position >= walk->piece.size) {
            int status = ol_batch_applier_flush(&run->loader, error);
            if (status != OL_OK) return status;
            if (stop != NULL && atomic_load_explicit(stop, memory_order_relaxed)) {
                return ol_fail(error, OL_CLOSED, "the snapshot was stopped");
            }
        }
        ol_batch batch;
        int status = ol_batch_walk_next(walk, &batch, error);
        if (status == OL_OUT_OF_RANGE) {
            return ol_fail(error, OL_WOULD_BLOCK,
                           "the log was truncated while its snapshot was written");
        }
        if (walk->passed_over != 0) {
            *error = walk->damage;
            return error->status = OL_CORRUPT;
        }
        if (status == OL_OK && batch.last_offset < up_to) status = replay_batch(run, &batch, error);
        else if (status == OL_OK) status = OL_END;
        if (status == OL_END) return ol_batch_applier_flush(&run->loader, error);
        if (status != OL_OK) return status;
    }
}

static int run_replay(replay *run, const ol_snapshot_source *source, int64_t up_to,
                      const atomic_bool *stop, ol_error *error) {
    ol_snapshot *snapshot = run->snapshot;
    const ol_refusal refused = {record_refusal, run};
    ol_batch_applier_init(&run->loader, &snapshot->state, &snapshot->own, source->decompressor,
                          refused);
    int status = ol_batch_walk_open(&run->walk, source->log, snapshot->offset, up_to, true, error);
    if (status != OL_OK) return status;
    status = replay_all(run, up_to, stop, error);
    ol_batch_walk_close(&run->walk);
    if (run->loader.max_timestamp > snapshot->max_timestamp) {
        snapshot->max_timestamp = run->loader.max_timestamp;
    }
    return status;
}

int ol_snapshot_advance(ol_snapshot *snapshot, const ol_snapshot_source *source, int64_t up_to,
                        const atomic_bool *stop, ol_error *error) {
    OL_ASSERT(!snapshot->borrowed && !snapshot->copied);
    ol_log_mark_free(&snapshot->mark);
    start_facts(snapshot, source);
    int64_t start = snapshot->log_start, from = snapshot->offset, base = active_base(source->log);
    uint64_t segments = closed_segments(source->log, from, base);
    if (snapshot->offset < up_to) {
        replay *run = ol_pages_allocate(sizeof *run);
        if (run == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to take a snapshot");
        run->snapshot = snapshot;
        int status = run_replay(run, source, up_to, stop, error);
        ol_pages_free(run, sizeof *run);
        if (status != OL_OK) return status;
    }
    /* The replay may have read half of a segment before a cleaning and half after it.  The state
     * may then have a value whose tombstone is gone. */
    if (ol_log_start(source->log) != start ||
        closed_segments(source->log, from, base) != segments) {
        return ol_fail(error, OL_WOULD_BLOCK,
                       "the log was cleaned or truncated while the snapshot was taken");
    }
    return take_epochs(snapshot, source->log, error);
}

/* ----------------------------------------------------------------------------- a borrowed state */

/* Called while nothing is appended. */
static int take_mark(ol_snapshot *snapshot, ol_log *log, ol_error *error) {
    if (!ol_log_is_writable(log)) return OL_OK;
    int status = ol_log_take_mark(log, &snapshot->mark, error);
    if (snapshot->mark.offset != snapshot->offset) ol_log_mark_free(&snapshot->mark);
    return status;
}

int ol_snapshot_borrow(const ol_snapshot_source *source, const ol_state *state,
                       const ol_own_transactions *own, int64_t offset, int64_t max_timestamp,
                       ol_snapshot **snapshot, ol_error *error) {
    ol_snapshot *created = calloc(1, sizeof *created);
    if (created == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a snapshot");
    created->borrowed = true;
    created->state = *state;
    created->own = *own;
    created->offset = offset;
    created->max_timestamp = max_timestamp;
    start_facts(created, source);
    int status = ol_snapshot_find_witnesses(created, source->log, error);
    if (status == OL_OK) status = take_epochs(created, source->log, error);
    if (status == OL_OK) status = take_mark(created, source->log, error);
    if (status != OL_OK) {
        ol_snapshot_destroy(created);
        return status;
    }
    *snapshot = created;
    return OL_OK;
}

/* -------------------------------------------------------------- a state that keeps on changing */

bool ol_snapshot_is_copied(const ol_snapshot *snapshot) { return snapshot->copied; }

ol_table *ol_snapshot_copied_table(ol_snapshot *snapshot) { return snapshot->state.table; }

int ol_snapshot_keep_rest(ol_snapshot *snapshot, const ol_snapshot_source *source,
                          const ol_state *state, const ol_own_transactions *own, int64_t offset,
                          int64_t max_timestamp, ol_error *error) {
    OL_ASSERT(!snapshot->borrowed && !snapshot->from_file && snapshot->own.count == 0);
    snapshot->copied = true;
    snapshot->term = source->term;
    snapshot->offset = offset;
    snapshot->max_timestamp = max_timestamp;
    snapshot->state.value_version_max = state->value_version_max;
    snapshot->state.unknown_records = state->unknown_records;
    snapshot->group_record_count = ol_group_records_count(state->group_records);
    int status = OL_OK;
    for (size_t i = 0; i < own->count && status == OL_OK; i++) {
        status = ol_own_transactions_open(&snapshot->own, own->ids[i], error);
    }
    if (status == OL_OK) status = take_mark(snapshot, source->log, error);
    return status == OL_OK ? ol_snapshot_put_state(snapshot, state, error) : status;
}

int ol_snapshot_find_log(ol_snapshot *snapshot, const ol_snapshot_source *source,
                         ol_error *error) {
    uint64_t term = snapshot->term;
    start_facts(snapshot, source);
    snapshot->term = term;
    int status = ol_snapshot_find_witnesses(snapshot, source->log, error);
    return status == OL_OK ? take_epochs(snapshot, source->log, error) : status;
}

void ol_snapshot_swap_state(ol_snapshot *snapshot, ol_state *state, ol_own_transactions *own) {
    OL_ASSERT(!snapshot->borrowed && snapshot->from_file);
    ol_state other_state = *state;
    ol_own_transactions other_own = *own;
    *state = snapshot->state;
    *own = snapshot->own;
    snapshot->state = other_state;
    snapshot->own = other_own;
}

/* -------------------------------------------------------------------------------- against a log */

static bool are_epochs_equal(const ol_snapshot *snapshot, const ol_log *log, bool *no_memory) {
    size_t count = snapshot->epoch_count;
    ol_leader_epoch *epochs = malloc((count + 1) * sizeof *epochs);
    *no_memory = epochs == NULL;
    if (epochs == NULL) return false;
    bool equal = ol_log_epochs(log, snapshot->offset, epochs, count) == count;
    for (size_t i = 0; equal && i < count; i++) {
        equal = epochs[i].epoch == snapshot->epochs[i].epoch &&
                epochs[i].start_offset == snapshot->epochs[i].start_offset;
    }
    free(epochs);
    return equal;
}

int ol_snapshot_check(const ol_snapshot *snapshot, const ol_snapshot_source *source,
                      int64_t cleaned_to, ol_error *error) {
    ol_log *log = source->log;
    uint8_t topic_id[OL_TOPIC_ID_SIZE] = {0};
    bool has_topic_id = ol_log_topic_id(log, topic_id), no_memory;
    long long offset = snapshot->offset;
    if (has_topic_id != snapshot->has_topic_id ||
        (has_topic_id && memcmp(topic_id, snapshot->topic_id, OL_TOPIC_ID_SIZE) != 0)) {
        return ol_fail(error, OL_INVALID, "the snapshot belongs to another topic id");
    }
    int32_t number = source->number;
    if (number >= 0 && snapshot->number >= 0 && number != snapshot->number) {
        return ol_fail(error, OL_INVALID, "the snapshot belongs to log partition %d",
                       (int)snapshot->number);
    }
    if (ol_log_start(log) != snapshot->log_start) {
        return ol_fail(error, OL_INVALID, "the log start offset has changed from %lld to %lld",
                       (long long)snapshot->log_start, (long long)ol_log_start(log));
    }
    if (snapshot->offset > ol_log_end(log)) {
        return ol_fail(error, OL_INVALID,
                       "the snapshot's log offset is %lld, above the log end %lld", offset,
                       (long long)ol_log_end(log));
    }
    if (snapshot->offset < cleaned_to) {
        return ol_fail(error, OL_INVALID,
                       "the snapshot's log offset is %lld, but the log was cleaned below log "
                       "offset %lld",
                       offset, (long long)cleaned_to);
    }
    if (!are_epochs_equal(snapshot, log, &no_memory)) {
        if (no_memory) return ol_fail(error, OL_NO_MEMORY, "no memory for leader epochs");
        return ol_fail(error, OL_INVALID, "the leader epochs below offset %lld have changed",
                       offset);
    }
    return ol_snapshot_prove(snapshot, source, cleaned_to, error);
}
