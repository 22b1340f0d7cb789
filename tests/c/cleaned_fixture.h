/* cleaned_fixture: what the tests of cleaned segments share: a model of the log's batches, of which some go with a swap. */
#ifndef CLEANED_FIXTURE_H
#define CLEANED_FIXTURE_H

#include "log_fixture.h"
#include "log/segment_rewrite.h"

enum { MODEL_BATCHES_MAX = 8192, MODEL_SEGMENTS_MAX = 256 };

typedef struct model_batch {
    uint8_t *bytes;
    size_t size;
    int64_t base;
    int64_t next;
    int64_t timestamp;
    int64_t producer_id;        /* >= 0: it and its marker stay, so that the rest of the log still shows its
    transactions */
    bool going;                 /* dropped by the swap that did not return yet */
} model_batch;

typedef struct model {
    model_batch batches[MODEL_BATCHES_MAX];
    size_t count;
} model;

OL_UNUSED static void model_add(model *m, const uint8_t *bytes, size_t size) {
    ol_batch batch;
    ol_error error;
    OL_CHECK(m->count < MODEL_BATCHES_MAX);
    OL_CHECK_OK(ol_batch_parse(bytes, size, &batch, &error), &error);
    model_batch *added = &m->batches[m->count++];
    *added = (model_batch){
        .bytes = malloc(size),
        .size = size,
        .base = batch.base_offset,
        .next = batch.last_offset + 1,
        .timestamp = batch.max_timestamp,
        .producer_id = batch.producer_id,
    };
    memcpy(added->bytes, bytes, size);
}

OL_UNUSED static void model_remove_from(model *m, size_t count) {
    while (m->count > count) free(m->batches[--m->count].bytes);
}

/* A truncation to `offset`. */
OL_UNUSED static void model_cut(model *m, int64_t offset) {
    size_t count = m->count;
    while (count > 0 && m->batches[count - 1].next > offset) count--;
    model_remove_from(m, count);
}

/* The swap came to its end, or was refused. */
OL_UNUSED static void model_settle(model *m, bool swapped) {
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        if (m->batches[i].going && swapped) {
            free(m->batches[i].bytes);
            continue;
        }
        m->batches[kept] = m->batches[i];
        m->batches[kept++].going = false;
    }
    m->count = kept;
}

/* How many batches from the start the bytes are, with or without those that go; -1 when they end within one, or are others. */
OL_UNUSED static int64_t model_match(const model *m, const uint8_t *bytes, size_t size, bool without_going, int64_t *end) {
    size_t at = 0;
    size_t i = 0;
    *end = 0;
    for (; i < m->count; i++) {
        const model_batch *batch = &m->batches[i];
        if (batch->going && without_going) continue;
        if (at == size) break;
        if (at + batch->size > size || memcmp(bytes + at, batch->bytes, batch->size) != 0) return -1;
        at += batch->size;
        *end = batch->next;
    }
    return at == size ? (int64_t)i : -1;
}

/* The log holds the model, byte for byte, from whichever offset it is read. */
OL_UNUSED static void model_check(const model *m, ol_log *log) {
    size_t size = 0;
    int64_t end = 0;
    uint8_t *bytes = fixture_read_log(log, 0, 4096, &size);
    int64_t matched = model_match(m, bytes, size, true, &end);
    OL_CHECK(matched >= 0 && (size_t)matched == m->count);
    free(bytes);
    OL_CHECK(ol_log_end(log) >= end);
    for (size_t i = 0; i < m->count; i += 1 + m->count / 37) {
        ol_error error;
        ol_log_reader *reader = NULL;
        ol_log_piece piece;
        OL_CHECK_OK(ol_log_reader_open(log, m->batches[i].next - 1, &reader, &error), &error);
        OL_CHECK_OK(ol_log_reader_next(reader, 1, &piece, &error), &error);
        OL_CHECK_INT(piece.base_offset, m->batches[i].base);
        OL_CHECK_INT(piece.size, m->batches[i].size);
        ol_log_reader_close(reader);
    }
}

OL_UNUSED static int model_append(model *m, ol_log *log, fixture_batch batch, ol_error *error) {
    uint8_t *start = NULL;
    size_t size = fixture_batch_size(&batch);
    int status = ol_log_reserve(log, size, batch.count - 1, batch.timestamp, &start, &batch.base_offset, error);
    if (status != OL_OK) return status;
    ol_batch_fields fields = fixture_encode(&batch, start);
    model_add(m, start, size);
    return ol_log_publish(log, &fields, size, error);
}

OL_UNUSED static int model_append_marker(model *m, ol_log *log, int64_t producer_id, ol_control type, ol_error *error) {
    uint8_t *start = NULL;
    int64_t base_offset = 0;
    int status = ol_log_reserve(log, OL_BATCH_MARKER_SIZE, 0, 1700000000000, &start, &base_offset, error);
    if (status != OL_OK) return status;
    ol_batch_put_marker(start, base_offset, -1, 1700000000000, producer_id, 0, type, 1);
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base_offset, 1700000000000);
    fields.producer_id = producer_id;
    fields.producer_epoch = 0;
    fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_CONTROL;
    fields.record_count = 1;
    model_add(m, start, OL_BATCH_MARKER_SIZE);
    return ol_log_publish(log, &fields, OL_BATCH_MARKER_SIZE, error);
}

OL_UNUSED static size_t segment_bases(ol_log *log, int64_t bases[MODEL_SEGMENTS_MAX]) {
    ol_log_segment_info info;
    size_t count = 0;
    while (ol_log_segment_at(log, count, &info)) {
        OL_CHECK(count < MODEL_SEGMENTS_MAX);
        bases[count++] = info.base_offset;
    }
    return count;
}

typedef bool (*keeps)(void *context, const model_batch *batch);

OL_UNUSED static bool keep_all(void *context OL_UNUSED, const model_batch *batch OL_UNUSED) { return true; }
OL_UNUSED static bool keep_none(void *context OL_UNUSED, const model_batch *batch) { return batch->producer_id >= 0; }

typedef struct cleaning {
    const model *m;
    ol_segment_rewrite *cleaned;
    int64_t from;
    int64_t up_to;
    ol_error *error;
} cleaning;

static int copy_aborted(void *context, const ol_aborted_transaction *transaction) {
    cleaning *state = context;
    bool stays = false;
    for (size_t i = 0; i < state->m->count && !stays; i++) {
        const model_batch *batch = &state->m->batches[i];
        stays = batch->base == transaction->last_offset && batch->base >= state->from && batch->base < state->up_to && !batch->going;
    }
    return stays ? ol_segment_rewrite_append_aborted(state->cleaned, transaction, state->error) : OL_OK;
}

/* Writes what `keep` says of the segments [first, first + count) aside; *cleaned is NULL when that failed.  Batches that go are marked. */
OL_UNUSED static int model_write_cleaned(model *m, ol_log *log, size_t first, size_t count, keeps keep, void *context,
                                         ol_segment_rewrite **cleaned, ol_error *error) {
    int64_t bases[MODEL_SEGMENTS_MAX];
    size_t segment_count = segment_bases(log, bases);
    OL_CHECK(first + count < segment_count);
    cleaning state = {.m = m, .from = bases[first], .up_to = bases[first + count], .error = error};
    for (size_t i = 0; i < m->count; i++) {
        model_batch *batch = &m->batches[i];
        if (batch->base >= state.from && batch->base < state.up_to) batch->going = !keep(context, batch);
    }
    int status = ol_segment_rewrite_start(log, bases[first], ol_log_cuts(log), cleaned, error);
    for (size_t i = 0; i < m->count && status == OL_OK; i++) {
        const model_batch *batch = &m->batches[i];
        if (batch->base < state.from || batch->base >= state.up_to || batch->going) continue;
        status = ol_segment_rewrite_append(*cleaned, batch->bytes, batch->size, batch->base, batch->next - 1, batch->timestamp, error);
    }
    state.cleaned = *cleaned;
    if (status == OL_OK) status = ol_log_collect_aborted(log, state.from, state.up_to, copy_aborted, &state, error);
    if (status == OL_OK) return OL_OK;
    ol_segment_rewrite_discard(*cleaned);
    *cleaned = NULL;
    return status;
}

/* All of a clean.  The model stays undecided after OL_CRASHED and after a failure that left the log failed. */
OL_UNUSED static int model_clean(model *m, ol_log *log, size_t first, size_t count, keeps keep, void *context, ol_error *error) {
    ol_segment_rewrite *cleaned = NULL;
    int64_t bases[MODEL_SEGMENTS_MAX];
    segment_bases(log, bases);
    int status = model_write_cleaned(m, log, first, count, keep, context, &cleaned, error);
    if (status == OL_OK) status = ol_segment_rewrite_swap(cleaned, bases + first, count, error);
    if (status == OL_CRASHED || ol_log_has_failed(log)) return status;
    model_settle(m, status == OL_OK);
    return status;
}

/* Nothing that a swap works with lies about. */
OL_UNUSED static void check_no_leftovers(const char *path) {
    static const char *const endings[] = {".cleaned", ".swap", ".deleted"};
    DIR *directory = opendir(path);
    OL_CHECK(directory != NULL);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        for (size_t i = 0; i < 3; i++) {
            size_t size = strlen(entry->d_name), ending = strlen(endings[i]);
            if (size < ending || strcmp(entry->d_name + size - ending, endings[i]) != 0) continue;
            fprintf(stderr, "left over: %s\n", entry->d_name);
            exit(1);
        }
    }
    closedir(directory);
}

#endif
