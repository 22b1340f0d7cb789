/* Keeps the list of leader epochs in an array that changes only at its ends. */
#include "log/files/leader_epochs.h"

#include <stdlib.h>
#include <string.h>

void ol_leader_epochs_free(ol_leader_epochs *epochs) {
    free(epochs->entries);
    memset(epochs, 0, sizeof *epochs);
}

int ol_leader_epochs_reserve(ol_leader_epochs *epochs, size_t additional, ol_error *error) {
    if (epochs->capacity - epochs->count >= additional) return OL_OK;
    size_t capacity = epochs->capacity == 0 ? 8 : 2 * epochs->capacity;
    if (capacity < epochs->count + additional) capacity = epochs->count + additional;
    ol_leader_epoch *entries = realloc(epochs->entries, capacity * sizeof *entries);
    if (entries == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for leader epochs");
    epochs->entries = entries;
    epochs->capacity = capacity;
    return OL_OK;
}

int ol_leader_epochs_assign(ol_leader_epochs *epochs, int32_t epoch, int64_t start_offset,
                            bool *changed, ol_error *error) {
    if (changed != NULL) *changed = false;
    if (epoch < 0 || start_offset < 0) {
        return ol_fail(error, OL_INVALID, "epoch %d at offset %lld: neither may be negative",
                       epoch, (long long)start_offset);
    }
    if (epochs->count > 0) {
        const ol_leader_epoch *newest = &epochs->entries[epochs->count - 1];
        if (newest->epoch == epoch && newest->start_offset <= start_offset) return OL_OK;
    }
    int status = ol_leader_epochs_reserve(epochs, 1, error);
    if (status != OL_OK) return status;
    /* Both columns ascend, so the entries to drop are at the end. */
    while (epochs->count > 0) {
        const ol_leader_epoch *last = &epochs->entries[epochs->count - 1];
        if (last->epoch < epoch && last->start_offset < start_offset) break;
        epochs->count--;
    }
    epochs->entries[epochs->count++] = (ol_leader_epoch){start_offset, epoch};
    if (changed != NULL) *changed = true;
    return OL_OK;
}

bool ol_leader_epochs_truncate_from_end(ol_leader_epochs *epochs, int64_t end_offset) {
    size_t before = epochs->count;
    while (epochs->count > 0 && epochs->entries[epochs->count - 1].start_offset >= end_offset) {
        epochs->count--;
    }
    return epochs->count != before;
}

bool ol_leader_epochs_truncate_from_start(ol_leader_epochs *epochs, int64_t start_offset) {
    size_t below = 0;
    while (below < epochs->count && epochs->entries[below].start_offset < start_offset) below++;
    if (below == 0) return false;
    bool next_starts_there = below < epochs->count &&
                             epochs->entries[below].start_offset == start_offset;
    size_t dropped = next_starts_there ? below : below - 1;
    epochs->count -= dropped;
    memmove(epochs->entries, epochs->entries + dropped, epochs->count * sizeof *epochs->entries);
    OL_ASSERT(epochs->count > 0);
    epochs->entries[0].start_offset = start_offset;
    return true;
}

void ol_leader_epochs_end_offset(const ol_leader_epochs *epochs, int32_t epoch, int64_t log_end,
                                 int32_t *found_epoch, int64_t *end_offset) {
    *found_epoch = -1;
    *end_offset = -1;
    if (epoch < 0 || epochs->count == 0) return;
    const ol_leader_epoch *entries = epochs->entries;
    size_t last = epochs->count - 1;
    if (epoch > entries[last].epoch) return;
    if (epoch == entries[last].epoch) {
        *found_epoch = epoch;
        *end_offset = log_end;
        return;
    }
    /* The newest is above, so one that is above exists. */
    size_t above = 0;
    while (entries[above].epoch <= epoch) above++;
    *found_epoch = above == 0 ? epoch : entries[above - 1].epoch;
    *end_offset = entries[above].start_offset;
}

int32_t ol_leader_epochs_newest(const ol_leader_epochs *epochs) {
    return epochs->count == 0 ? -1 : epochs->entries[epochs->count - 1].epoch;
}

int32_t ol_leader_epochs_at(const ol_leader_epochs *epochs, int64_t offset) {
    int32_t epoch = -1;
    for (size_t i = 0; i < epochs->count && epochs->entries[i].start_offset <= offset; i++) {
        epoch = epochs->entries[i].epoch;
    }
    return epoch;
}

int ol_leader_epochs_load(ol_leader_epochs *epochs, ol_fs *fs, const char *path, ol_error *error) {
    uint8_t *text;
    size_t size;
    ol_leader_epochs loaded = {NULL, 0, 0};
    int status = ol_fs_read_file(fs, path, OL_CHECKPOINT_SIZE_MAX, &text, &size, error);
    if (status != OL_OK) return status;
    status = ol_epoch_checkpoint_parse(ol_slice_of(text, size), &loaded.entries, &loaded.count,
                                       error);
    free(text);
    if (status != OL_OK) return ol_error_at(error, path, -1);
    loaded.capacity = loaded.count;
    ol_leader_epochs_free(epochs);
    *epochs = loaded;
    return OL_OK;
}

int ol_leader_epochs_store(const ol_leader_epochs *epochs, ol_fs *fs, const char *path,
                           ol_error *error) {
    char *text;
    size_t size;
    int status = ol_epoch_checkpoint_format(epochs->entries, epochs->count, &text, &size, error);
    if (status != OL_OK) return status;
    status = ol_fs_replace_file(fs, path, text, size, error);
    free(text);
    return status;
}
