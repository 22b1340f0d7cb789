/* Files that real brokers wrote, read by our readers and compared with each other.  Passed over where the data is not there:
 * OFFSETLOG_DATA, else ../../../shared/data. */
#include <dirent.h>

#include "format/batch.h"
#include "log/files/checkpoint.h"
#include "log/files/offset_index.h"
#include "log/files/leader_epochs.h"
#include "log/files/names.h"
#include "log/files/partition_metadata.h"
#include "log/files/producers.h"
#include "ol_test.h"
#include "ol_test_directory.h"
#include "log/files/transaction_index.h"

static ol_error error;
static ol_fs *fs;
static size_t file_count;

typedef void (*file_check)(const char *directory, const char *name);

static bool ends_with(const char *text, const char *end) {
    size_t size = strlen(text), end_size = strlen(end);
    return size >= end_size && strcmp(text + size - end_size, end) == 0;
}

static void walk(const char *directory, file_check check) {
    DIR *handle = opendir(directory);
    if (handle == NULL) return;
    struct dirent *entry;
    while ((entry = readdir(handle)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (entry->d_type != DT_DIR) {
            check(directory, entry->d_name);
            continue;
        }
        char inner[OL_PATH_MAX];
        OL_CHECK_OK(ol_path_join(inner, sizeof inner, directory, entry->d_name, &error), &error);
        walk(inner, check);
    }
    closedir(handle);
}

static void walk_data(file_check check) {
    const char *data = getenv("OFFSETLOG_DATA");
    fs = ol_fs_posix();
    file_count = 0;
    walk(data != NULL ? data : "../../../shared/data", check);
    printf("    %zu files\n", file_count);
}

static void check_text(const char *directory, const char *name) {
    ol_offset_checkpoint checkpoint = {0};
    ol_leader_epochs epochs = {0};
    ol_uuid id;
    ol_directory_name parsed;
    const char *path = ol_test_path(directory, name);
    const char *last = strrchr(directory, '/') + 1;
    if (strcmp(name, "leader-epoch-checkpoint") == 0) {
        OL_CHECK_OK(ol_leader_epochs_load(&epochs, fs, path, &error), &error);
        OL_CHECK(ol_directory_name_parse(last, &parsed));
    } else if (ends_with(name, "-checkpoint")) {
        OL_CHECK_OK(ol_offset_checkpoint_load(&checkpoint, fs, path, &error), &error);
    } else if (strcmp(name, OL_PARTITION_METADATA_NAME) == 0) {
        OL_CHECK_OK(ol_partition_metadata_load(fs, path, &id, &error), &error);
        char text[OL_PARTITION_METADATA_SIZE];
        uint8_t *bytes;
        size_t size;
        ol_partition_metadata_format(&id, text);
        OL_CHECK_OK(ol_fs_read_file(fs, path, 1000, &bytes, &size, &error), &error);
        OL_CHECK(size == sizeof text && memcmp(bytes, text, size) == 0);
        free(bytes);
    } else {
        return;
    }
    file_count++;
    ol_offset_checkpoint_free(&checkpoint);
    ol_leader_epochs_free(&epochs);
}

OL_TEST(checkpoints_and_metadata_of_brokers) { walk_data(check_text); }

/* Batches of one log file, walked in order. */
typedef struct log_walk {
    uint8_t *bytes;
    size_t size;
    size_t position;
    ol_batch batch;
} log_walk;

static bool open_log(log_walk *log, const char *path) {
    memset(log, 0, sizeof *log);
    return ol_fs_read_file(fs, path, (size_t)1 << 30, &log->bytes, &log->size, &error) == OL_OK;
}

static bool next_batch(log_walk *log) {
    log->position += log->batch.size;
    return ol_batch_parse(log->bytes + log->position, log->size - log->position, &log->batch, &error) == OL_OK;
}

/* Every entry points at the start of a batch whose offsets reach what it names, or at a run of batches that does. */
static void check_offset_entries(const ol_index *index, const char *log_path) {
    log_walk log;
    if (!open_log(&log, log_path)) return;
    while (next_batch(&log)) {
        int64_t offset, position, targets[2] = {log.batch.base_offset, log.batch.last_offset};
        for (int i = 0; i < 2; i++) {
            if (targets[i] < index->base_offset) continue;
            OL_CHECK_OK(ol_offset_index_lookup(index, targets[i], &offset, &position, &error), &error);
            OL_CHECK(position <= (int64_t)log.position);
            ol_batch found;
            OL_CHECK_OK(ol_batch_parse(log.bytes + position, log.size - (size_t)position, &found, &error), &error);
            OL_CHECK(found.base_offset <= targets[i]);
        }
    }
    free(log.bytes);
}

static void check_index(const char *directory, const char *name) {
    int64_t base;
    const char *suffix;
    char log_name[64];
    if (!ol_file_name_parse(name, &base, &suffix)) return;
    bool is_time = strcmp(suffix, ".timeindex") == 0;
    if (!is_time && strcmp(suffix, ".index") != 0) return;
    OL_CHECK_OK(ol_file_name(log_name, sizeof log_name, base, ".log", &error), &error);
    log_walk log;
    if (!open_log(&log, ol_test_path(directory, log_name))) return;
    int64_t next = base;
    while (next_batch(&log)) next = log.batch.last_offset + 1;
    ol_index index;
    OL_CHECK_OK(ol_index_open(&index, fs, ol_test_path(directory, name), is_time ? OL_INDEX_TIME : OL_INDEX_OFFSET, base, 0,
                              OL_INDEX_READ, &error), &error);
    OL_CHECK_OK(ol_index_check(&index, (int64_t)log.size, next > base ? next : base + 1, &error), &error);
    free(log.bytes);
    if (!is_time) check_offset_entries(&index, ol_test_path(directory, log_name));
    ol_index_close(&index);
    file_count++;
}

OL_TEST(indexes_of_brokers) { walk_data(check_index); }

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static size_t log_names(const char *directory, char **names, size_t capacity) {
    size_t count = 0;
    DIR *handle = opendir(directory);
    struct dirent *entry;
    while ((entry = readdir(handle)) != NULL) {
        if (ends_with(entry->d_name, ".log") && count < capacity) names[count++] = strdup(entry->d_name);
    }
    closedir(handle);
    qsort(names, count, sizeof *names, compare_names);
    return count;
}

/* The aborts that a replay met, and how many there were. */
static ol_aborted_transaction aborts[4096];
static size_t abort_count;

/* A producer state from all batches of a partition below `end`. */
static void replay(ol_producers *producers, const char *directory, int64_t end) {
    char *names[256];
    size_t count = log_names(directory, names, 256);
    abort_count = 0;
    for (size_t i = 0; i < count; i++) {
        log_walk log;
        ol_producers_change change;
        OL_CHECK(open_log(&log, ol_test_path(directory, names[i])));
        while (next_batch(&log) && log.batch.base_offset < end) {
            OL_CHECK_OK(ol_producers_apply(producers, &log.batch, &change, &error), &error);
            if (change.aborted) aborts[abort_count++ % 4096] = change.transaction;
        }
        free(log.bytes);
        free(names[i]);
    }
}

/* Is there still a batch that begins here?  The cleaner drops the batches of an aborted transaction. */
static bool has_batch_at(const char *directory, int64_t offset) {
    char *names[256];
    bool found = false;
    size_t count = log_names(directory, names, 256);
    for (size_t i = 0; i < count; i++) {
        log_walk log;
        OL_CHECK(open_log(&log, ol_test_path(directory, names[i])));
        while (next_batch(&log)) found = found || log.batch.base_offset == offset;
        free(log.bytes);
        free(names[i]);
    }
    return found;
}

/* A cleaner drops batches that the state came from; brokers before 2.x kept other values for a transaction that ended. */
static bool can_be_replayed(const char *directory) {
    const char *others[] = {"compacted", "/0.11.", "/1.1.", "/upgraded"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strstr(directory, others[i]) != NULL) return false;
    }
    return true;
}

static void check_producer(const ol_producer *ours, const ol_producer *theirs) {
    OL_CHECK(ours != NULL);
    OL_CHECK_INT(ours->epoch, theirs->epoch);
    OL_CHECK_INT(ours->last_sequence, theirs->last_sequence);
    OL_CHECK_INT(ours->last_offset, theirs->last_offset);
    OL_CHECK_INT(ours->offset_delta, theirs->offset_delta);
    OL_CHECK_INT(ours->timestamp, theirs->timestamp);
    OL_CHECK_INT(ours->coordinator_epoch, theirs->coordinator_epoch);
    OL_CHECK_INT(ours->transaction_first_offset, theirs->transaction_first_offset);
}

static void check_snapshot(const char *directory, const char *name) {
    int64_t offset;
    const char *suffix;
    if (!ol_file_name_parse(name, &offset, &suffix) || strcmp(suffix, ".snapshot") != 0) return;
    ol_producers loaded = {0}, replayed = {0};
    OL_CHECK_OK(ol_producers_load(&loaded, fs, ol_test_path(directory, name), &error), &error);
    file_count++;
    if (can_be_replayed(directory)) {
        replay(&replayed, directory, offset);
        OL_CHECK_INT(replayed.count, loaded.count);
        OL_CHECK_INT(replayed.open_count, loaded.open_count);
        OL_CHECK_INT(ol_producers_first_open_offset(&replayed), ol_producers_first_open_offset(&loaded));
        for (size_t i = 0; i < loaded.slot_count; i++) {
            const ol_producer *theirs = &loaded.slots[i];
            if (theirs->producer_id >= 0) check_producer(ol_producers_find(&replayed, theirs->producer_id), theirs);
        }
    }
    ol_producers_free(&loaded);
    ol_producers_free(&replayed);
}

OL_TEST(snapshots_of_brokers_equal_a_replay) { walk_data(check_snapshot); }

static void check_aborts(const char *directory, const char *name) {
    int64_t base;
    const char *suffix;
    if (!ol_file_name_parse(name, &base, &suffix) || strcmp(suffix, ".txnindex") != 0) return;
    ol_transaction_index index;
    OL_CHECK_OK(ol_transaction_index_open(&index, fs, ol_test_path(directory, name), base, false, &error), &error);
    file_count++;
    ol_producers replayed = {0};
    if (can_be_replayed(directory)) replay(&replayed, directory, INT64_MAX);
    for (size_t i = 0; i < index.count && can_be_replayed(directory); i++) {
        size_t at = 0;
        while (at < abort_count && aborts[at].last_offset != index.entries[i].last_offset) at++;
        if (at == abort_count) OL_CHECK(!has_batch_at(directory, index.entries[i].first_offset));
        else OL_CHECK(memcmp(&aborts[at], &index.entries[i], sizeof aborts[at]) == 0);
    }
    ol_producers_free(&replayed);
    ol_transaction_index_close(&index);
}

OL_TEST(aborted_transactions_of_brokers_equal_a_replay) { walk_data(check_aborts); }

OL_TEST_MAIN()
