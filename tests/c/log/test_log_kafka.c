/* Directories that real brokers wrote: opened read-only and writable, compared with Kafka's checkpoints and its own dump of the batches.
 * The data lies outside the repository: OFFSETLOG_SHARED names its place, else ../../../shared relative to tests/c. */
#include <glob.h>

#include "log_fixture.h"
#include "log/files/checkpoint.h"
#include "log/files/offset_index.h"
#include "log/files/names.h"

typedef struct scenario {
    char log_dir[OL_PATH_MAX];
    char dump[OL_PATH_MAX];
    bool clean;
    ol_offset_checkpoint recovery_points;
    ol_offset_checkpoint starts;
    ol_offset_checkpoint watermarks;
} scenario;

/* One batch (magic 2) or message of a partition, as the reader gave it. */
typedef struct seen_batch {
    int64_t segment_base;
    int64_t position;
    int64_t base_offset;
    int64_t last_offset;
    size_t size;
    int magic;
} seen_batch;

typedef struct seen_log {
    seen_batch *batches;
    size_t count;
    int64_t end;
} seen_log;

static const char *shared_directory(void) {
    const char *path = getenv("OFFSETLOG_SHARED");
    return path != NULL ? path : "../../../shared";
}

static void load_checkpoint(ol_offset_checkpoint *checkpoint, const char *log_dir, const char *name) {
    char path[OL_PATH_MAX];
    ol_error error;
    fixture_join(path, log_dir, name);
    int status = ol_offset_checkpoint_load(checkpoint, ol_fs_posix(), path, &error);
    OL_CHECK(status == OL_OK || status == OL_NO_SUCH_FILE);
}

static int64_t checkpoint_value(const ol_offset_checkpoint *checkpoint, int32_t partition) {
    const ol_checkpoint_entry *entry = ol_offset_checkpoint_find(checkpoint, "__consumer_offsets", partition);
    return entry != NULL ? entry->offset : -1;
}

static seen_log walk_log(ol_log *log, size_t piece_max) {
    ol_error error;
    ol_log_reader *reader = NULL;
    seen_log seen = {0};
    OL_CHECK_OK(ol_log_reader_open(log, ol_log_start(log), &reader, &error), &error);
    for (;;) {
        ol_log_piece piece;
        int status = ol_log_reader_next(reader, piece_max, &piece, &error);
        if (status == OL_END) break;
        OL_CHECK_OK(status, &error);
        for (size_t at = 0; at < piece.size;) {
            ol_batch batch;
            OL_CHECK_OK(ol_batch_parse(piece.data + at, piece.size - at, &batch, &error), &error);
            OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
            seen.batches = realloc(seen.batches, (seen.count + 1) * sizeof *seen.batches);
            seen.batches[seen.count++] = (seen_batch){piece.segment_base, piece.position + (int64_t)at, batch.base_offset,
                                                      batch.last_offset,  batch.size,                   batch.magic};
            at += batch.size;
        }
    }
    ol_log_reader_close(reader);
    seen.end = ol_log_end(log);
    return seen;
}

static const seen_batch *find_batch(const seen_log *seen, int64_t segment_base, int64_t position) {
    for (size_t i = 0; i < seen->count; i++) {
        if (seen->batches[i].segment_base == segment_base && seen->batches[i].position == position) return &seen->batches[i];
    }
    return NULL;
}

/* Every batch of magic 2 that Kafka's dump lists for this partition is there, at its position, and no other.  Dumps of old brokers list
 * records with their batch's position instead. */
static size_t compare_with_dump(const scenario *s, int32_t partition, const seen_log *seen) {
    FILE *file = fopen(s->dump, "r");
    if (file == NULL) return 0;
    char line[1 << 16];
    int32_t dumped_partition = -1;
    int64_t segment_base = 0;
    size_t dumped = 0;
    size_t magic_2 = 0;
    size_t records = 0;
    while (fgets(line, sizeof line, file) != NULL) {
        long long base, last, position;
        int number;
        long long segment;
        if (sscanf(line, "Dumping __consumer_offsets-%d/%lld.log", &number, &segment) == 2) {
            dumped_partition = number;
            segment_base = segment;
        } else if (strncmp(line, "Dumping ", 8) == 0) {
            dumped_partition = -1;
        } else if (dumped_partition == partition && sscanf(line, "baseOffset: %lld lastOffset: %lld", &base, &last) == 2) {
            const char *at = strstr(line, " position: ");
            const char *size = strstr(line, " size: ");
            const char *magic = strstr(line, " magic: ");
            if (at == NULL || size == NULL || magic == NULL || atoi(magic + 8) < 2) continue;
            position = atoll(at + 11);
            const seen_batch *batch = find_batch(seen, segment_base, position);
            OL_CHECK(batch != NULL);
            OL_CHECK_INT(batch->base_offset, base);
            OL_CHECK_INT(batch->last_offset, last);
            OL_CHECK_INT(batch->size, atoll(size + 7));
            dumped++;
        } else if (dumped_partition == partition && sscanf(line, "offset: %lld position: %lld", &base, &position) == 2) {
            const seen_batch *batch = find_batch(seen, segment_base, position);
            OL_CHECK(batch != NULL);
            OL_CHECK(batch->last_offset >= base);
            records++;
        }
    }
    fclose(file);
    for (size_t i = 0; i < seen->count; i++) magic_2 += seen->batches[i].magic == 2;
    if (records == 0) OL_CHECK_INT(dumped, magic_2);
    return dumped + records;
}

/* Each entry points at the start of a batch, and what it names does not lie before that (docs/format/brokers.md §15.2: the first or the last offset, of a
 * wrapper the first inner one, of a cleaner's run of batches the last). */
static size_t check_indexes(const char *partition, const seen_log *seen) {
    char pattern[OL_PATH_MAX];
    glob_t found;
    size_t entries = 0;
    fixture_join(pattern, partition, "*.index");
    if (glob(pattern, 0, NULL, &found) != 0) return 0;
    for (size_t i = 0; i < found.gl_pathc; i++) {
        size_t size;
        const char *suffix;
        int64_t base;
        OL_CHECK(ol_file_name_parse(strrchr(found.gl_pathv[i], '/') + 1, &base, &suffix));
        uint8_t *bytes = fixture_read(found.gl_pathv[i], &size);
        for (size_t at = 0; at + 8 <= size; at += 8) {
            int64_t offset = base + ol_load_i32(bytes + at);
            int64_t position = ol_load_i32(bytes + at + 4);
            if (offset == base && position == 0) continue;
            const seen_batch *batch = find_batch(seen, base, position);
            OL_CHECK(batch != NULL);
            bool first = batch == seen->batches || batch[-1].segment_base != base;
            OL_CHECK(first || offset > batch[-1].last_offset);
            entries++;
        }
        free(bytes);
    }
    globfree(&found);
    return entries;
}

/* Names and bytes of all files with `suffix` (NULL: all) are the same in both. */
static bool same_files(const char *a, const char *b, const char *suffix, bool report) {
    DIR *directory = opendir(a);
    bool same = true;
    OL_CHECK(directory != NULL);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        size_t length = strlen(entry->d_name);
        if (entry->d_name[0] == '.') continue;
        if (suffix != NULL && (length < strlen(suffix) || strcmp(entry->d_name + length - strlen(suffix), suffix) != 0)) continue;
        char path[OL_PATH_MAX];
        size_t size_a, size_b;
        fixture_join(path, b, entry->d_name);
        if (access(path, F_OK) != 0) {
            if (report) printf("  only in %s: %s\n", a, entry->d_name);
            same = false;
            continue;
        }
        uint8_t *data_b = fixture_read(path, &size_b);
        fixture_join(path, a, entry->d_name);
        uint8_t *data_a = fixture_read(path, &size_a);
        bool equal = size_a == size_b && memcmp(data_a, data_b, size_a) == 0;
        if (!equal && report) printf("  differs: %s (%zu, %zu bytes)\n", path, size_a, size_b);
        same = same && equal;
        free(data_a);
        free(data_b);
    }
    closedir(directory);
    return same;
}

static bool has_deleted(const char *directory) {
    char pattern[OL_PATH_MAX];
    glob_t found;
    fixture_join(pattern, directory, "*.deleted");
    bool any = glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    return any;
}

static ol_log_options options_of(const scenario *s, int32_t partition, const char *directory, bool writable) {
    ol_log_options options = {
        .fs = ol_fs_posix(),
        .directory = directory,
        .writable = writable,
        .clean = s->clean,
        .recovery_point = checkpoint_value(&s->recovery_points, partition),
        .log_start_offset = checkpoint_value(&s->starts, partition),
    };
    ol_log_config_init(&options.config);
    return options;
}

static void check_unchanged(const scenario *s, int32_t partition, const char *original, const char *copy) {
    ol_log_options options = options_of(s, partition, copy, true);
    ol_log_recovery recovery;
    ol_log *log = fixture_open(&options, &recovery);
    OL_CHECK_INT(recovery.rewritten_bytes, 0);
    OL_CHECK_INT(recovery.torn_bytes, 0);
    OL_CHECK_INT(ol_log_end(log), options.recovery_point);
    OL_CHECK_INT(ol_log_flushed(log), options.recovery_point);
    fixture_close(log);
    static const char *const suffixes[] = {".log", ".index", ".timeindex", ".txnindex", "leader-epoch-checkpoint",
                                           "partition.metadata"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        OL_CHECK(same_files(original, copy, suffixes[i], true));
    }
    OL_CHECK(same_files(copy, original, ".log", true));
}

static size_t batches_compared;

static void check_partition(const scenario *s, int32_t partition, const char *original, const char *scratch) {
    char copy[OL_PATH_MAX];
    ol_log_recovery recovery;
    fixture_join(copy, scratch, "__consumer_offsets-x");
    fixture_copy_directory(original, copy);
    ol_log_options options = options_of(s, partition, copy, false);
    ol_log *log = fixture_open(&options, &recovery);
    OL_CHECK(!recovery.corrupt);
    seen_log read_only = walk_log(log, 1 << 14);
    fixture_close(log);
    OL_CHECK(same_files(original, copy, NULL, true) && same_files(copy, original, NULL, true));
    batches_compared += compare_with_dump(s, partition, &read_only);
    OL_CHECK(read_only.end >= checkpoint_value(&s->watermarks, partition));

    options.writable = true;
    log = fixture_open(&options, &recovery);
    OL_CHECK(!recovery.corrupt);
    seen_log written = walk_log(log, 1 << 20);
    OL_CHECK_INT(written.count, read_only.count);
    OL_CHECK_INT(written.end, read_only.end);
    for (size_t i = 0; i < written.count; i++) {
        OL_CHECK_INT(written.batches[i].position, read_only.batches[i].position);
        OL_CHECK_INT(written.batches[i].base_offset, read_only.batches[i].base_offset);
        OL_CHECK_INT(written.batches[i].size, read_only.batches[i].size);
    }
    fixture_close(log);
    check_indexes(copy, &written);
    bool clean_copy = s->clean && options.recovery_point >= 0 && !has_deleted(original);
    if (clean_copy) {
        fixture_remove(copy);
        fixture_copy_directory(original, copy);
        check_unchanged(s, partition, original, copy);
    }
    /* And it goes on: another batch after those of the broker. */
    options.clean = true;
    options.recovery_point = written.end;
    log = fixture_open(&options, &recovery);
    fixture_append(log, fixture_plain(100, 1));
    fixture_close(log);
    options.recovery_point = written.end + 1;
    log = fixture_open(&options, &recovery);
    OL_CHECK_INT(ol_log_end(log), written.end + 1);
    OL_CHECK_INT(recovery.torn_bytes, 0);
    seen_log longer = walk_log(log, 1 << 20);
    OL_CHECK_INT(longer.count, written.count + 1);
    fixture_close(log);
    free(longer.batches);
    free(written.batches);
    free(read_only.batches);
    fixture_remove(copy);
}

static int check_scenario(const char *log_dir, const char *scratch) {
    scenario s = {0};
    char pattern[OL_PATH_MAX];
    glob_t found;
    snprintf(s.log_dir, sizeof s.log_dir, "%s", log_dir);
    OL_CHECK(snprintf(s.dump, sizeof s.dump, "%s/../expected/dump-log.txt", log_dir) < (int)sizeof s.dump);
    s.clean = fixture_exists(log_dir, ".kafka_cleanshutdown");
    load_checkpoint(&s.recovery_points, log_dir, "recovery-point-offset-checkpoint");
    load_checkpoint(&s.starts, log_dir, "log-start-offset-checkpoint");
    load_checkpoint(&s.watermarks, log_dir, "replication-offset-checkpoint");
    fixture_join(pattern, log_dir, "__consumer_offsets-*");
    int partitions = 0;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            int32_t partition = atoi(strrchr(found.gl_pathv[i], '-') + 1);
            if (getenv("OL_VERBOSE") != NULL) printf("  %s\n", found.gl_pathv[i]);
            check_partition(&s, partition, found.gl_pathv[i], scratch);
            partitions++;
        }
    }
    globfree(&found);
    ol_offset_checkpoint_free(&s.recovery_points);
    ol_offset_checkpoint_free(&s.starts);
    ol_offset_checkpoint_free(&s.watermarks);
    return partitions;
}

OL_TEST(every_directory_that_a_broker_wrote_is_opened_as_kafka_left_it) {
    char pattern[OL_PATH_MAX];
    char scratch[OL_PATH_MAX];
    glob_t found;
    fixture_join(pattern, shared_directory(), "data/*/*/log");
    if (glob(pattern, 0, NULL, &found) != 0 || found.gl_pathc == 0) {
        printf("  skipped: no broker data at %s (set OFFSETLOG_SHARED)\n", shared_directory());
        return;
    }
    fixture_directory(scratch);
    int partitions = 0;
    for (size_t i = 0; i < found.gl_pathc; i++) partitions += check_scenario(found.gl_pathv[i], scratch);
    printf("  %zu scenarios, %d partitions, %zu lines of Kafka's dumps\n", found.gl_pathc, partitions, batches_compared);
    OL_CHECK(partitions > 0);
    globfree(&found);
    fixture_remove(scratch);
}

OL_TEST_MAIN()
