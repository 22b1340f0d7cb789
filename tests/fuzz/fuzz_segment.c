/* Any bytes as the files of a partition directory: it is opened read-only and loaded, then opened for writing, committed to, and opened
 * again.  Nothing crashes, hangs or takes memory without bound; a read-only open changes no byte; what two opens say of the same bytes is the same;
 * what was committed is there afterwards; a feed of changes leads to the state of the load.
 *
 * An input that begins with a zero byte is one segment file.  Any other one is flags and files:
 *     flags, then as often as bytes last: kind, size (2 bytes), bytes of the file */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../c/golden_batches.h"
#include "fuzz.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "partition/partition.h"
#include "epoch_of.h"
#include "feed_mirror.h"

enum {
    FLAG_STRUCTURED = 1,        /* always set, since an input without it is one segment */
    FLAG_CLEAN = 2,
    FLAG_REPLICATED = 4,
    FLAG_RIGHT_CRC = 8,         /* the batches' CRCs are set right, so that the code after them is reached */
    FLAG_RECOVERY_POINT = 16,
    FLAG_LOG_START = 32,
    FILES_MAX = 16,
    SECOND_BASE = 20,
    INPUT_MAX = 1 << 16,
};

static const char *const file_names[] = {
    "%020lld.log", "%020lld.index", "%020lld.timeindex", "%020lld.txnindex", "%020lld.snapshot", "offsetlog.flushed",
    "leader-epoch-checkpoint", "partition.metadata", "00000000000000000020.log", "00000000000000000020.snapshot",
    "offsetlog.rolled-0-100-20", "offsetlog.cut-7", "%020lld.log.swap", "%020lld.log.cleaned",
};
enum { FILE_KINDS = sizeof file_names / sizeof file_names[0] };

/* A few megabytes of input must not make the engine ask for more. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "max_allocation_size_mb=256"; }

/* ------------------------------------------------------------------------------------------------ the directory */

static char parent[256];
static char directory[300];

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void)info;
    (void)type;
    (void)walk;
    return remove(path);
}

static void remove_all(void) { nftw(parent, remove_entry, 8, FTW_DEPTH | FTW_PHYS); }

static void make_empty(void) {
    if (parent[0] == '\0') {
        snprintf(parent, sizeof parent, "%s/ol-fuzz-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", (int)getpid());
        snprintf(directory, sizeof directory, "%s/__consumer_offsets-0", parent);
        atexit(remove_all);
    }
    remove_all();
    OL_ASSERT(mkdir(parent, 0777) == 0 && mkdir(directory, 0777) == 0);
}

static void put_file(const char *name, const uint8_t *bytes, size_t size) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0666);
    OL_ASSERT(file >= 0 && write(file, bytes, size) == (ssize_t)size);
    close(file);
}

static void set_crcs_right(uint8_t *bytes, size_t size) {
    for (size_t at = 0; size - at >= OL_BATCH_OVERHEAD;) {
        int32_t length = ol_load_i32(bytes + at + OL_BATCH_AT_LENGTH);
        size_t batch = (size_t)length + OL_BATCH_LOG_OVERHEAD;
        if (length < OL_BATCH_OVERHEAD - OL_BATCH_LOG_OVERHEAD || batch > size - at || bytes[at + OL_BATCH_AT_MAGIC] != 2) return;
        uint32_t crc = ol_crc32c(bytes + at + OL_BATCH_AT_ATTRIBUTES, batch - OL_BATCH_AT_ATTRIBUTES);
        ol_store_u32(bytes + at + OL_BATCH_AT_CRC, crc);
        at += batch;
    }
}

/* Segments are called by the first offset in them, where it can be one. */
static long long base_of(const uint8_t *bytes, size_t size) {
    int64_t base = size >= 8 ? ol_load_i64(bytes) : 0;
    return base >= 0 && base < ((int64_t)1 << 40) ? (long long)base : 0;
}

static void put_files(uint8_t *input, size_t size, uint8_t flags) {
    char name[64];
    long long base = 0;
    size_t at = 1;
    for (int i = 0; i < FILES_MAX && at + 3 <= size; i++) {
        unsigned kind = input[at] % FILE_KINDS;
        size_t wanted = ol_load_u16(input + at + 1);
        at += 3;
        if (wanted > size - at) wanted = size - at;
        bool is_log = strstr(file_names[kind], ".log") != NULL && strncmp(file_names[kind], "off", 3) != 0;
        if (is_log && (flags & FLAG_RIGHT_CRC) != 0) set_crcs_right(input + at, wanted);
        if (kind == 0) base = base_of(input + at, wanted);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(name, sizeof name, file_names[kind], base);
#pragma GCC diagnostic pop
        put_file(name, input + at, wanted);
        at += wanted;
    }
}

/* Names, sizes and bytes of all files, in one number. */
static uint64_t print_of_directory;
static int add_print(const char *path, const struct stat *info, int type, struct FTW *walk) {
    (void)walk;
    if (type != FTW_F) return 0;
    uint32_t crc = ol_crc32c((const uint8_t *)path, strlen(path));
    int file = open(path, O_RDONLY);
    static uint8_t bytes[INPUT_MAX];
    ssize_t got;
    while (file >= 0 && (got = read(file, bytes, sizeof bytes)) > 0) crc = crc * 31 + ol_crc32c(bytes, (size_t)got);
    close(file);
    print_of_directory += (uint64_t)crc * 0x9e3779b97f4a7c15u + (uint64_t)info->st_size;
    return 0;
}

static uint64_t print_directory(void) {
    print_of_directory = 0;
    nftw(parent, add_print, 8, FTW_PHYS);
    return print_of_directory;
}

/* ------------------------------------------------------------------------------------------------ opening */

/* Only gzip "inflates", to the block itself. */
static int decompress(void *context, ol_codec codec, int magic, ol_slice input, size_t limit, ol_slice *output, ol_error *error) {
    (void)context;
    (void)magic;
    if (codec != OL_CODEC_GZIP) return ol_fail(error, OL_CORRUPT, "a damaged block");
    if (input.size > limit) return ol_fail(error, OL_LIMIT, "over the limit");
    uint8_t *copy = malloc(input.size ? input.size : 1);
    if (input.size > 0) memcpy(copy, input.data, input.size);
    *output = ol_slice_of(copy, input.size);
    return OL_OK;
}
static void release(void *context, ol_slice output) {
    (void)context;
    free((void *)(uintptr_t)output.data);
}
static const ol_decompressor port = {decompress, release, NULL, 1 << 16};

static int64_t clock_of_tests(void *context) {
    (void)context;
    return 1700000000000;
}

static ol_partition_options options_of(uint8_t flags, bool writable) {
    ol_partition_options options;
    ol_partition_options_init(&options);
    options.log.fs = ol_fs_posix();
    options.log.directory = directory;
    options.log.writable = writable;
    options.log.create = writable;
    options.log.clean = (flags & FLAG_CLEAN) != 0;
    options.log.recovery_point = (flags & FLAG_RECOVERY_POINT) != 0 ? SECOND_BASE : -1;
    options.log.log_start_offset = (flags & FLAG_LOG_START) != 0 ? 3 : -1;
    options.log.decompressor = &port;
    options.log.config.segment_bytes = INPUT_MAX;
    options.log.config.segment_index_bytes = 4096;
    options.log.config.extend_bytes_min = 4096;
    options.log.config.extend_bytes_max = 4096;
    options.batch_bytes_max = 4096;
    options.replicated = (flags & FLAG_REPLICATED) != 0;
    options.clock_ms = clock_of_tests;
    return options;
}

typedef struct opened {
    ol_partition *partition;
    ol_digest digest;
    bool loaded;
    bool sound;                 /* nothing was reported */
} opened;

/* The changes, applied one after the other, lead to the positions of the load. */
static void check_feed(ol_partition *partition, const ol_digest *loaded) {
    feed_mirror mirror;
    ol_digest digest;
    ol_error error;
    int status = feed_mirror_make(&mirror, partition, 3, &error);
    OL_ASSERT(status == OL_OK || (error.status == status && error.reason[0] != '\0'));
    if (status == OL_OK && mirror.is_exact) {
        ol_state_digest(&mirror.state, true, &digest);
        OL_ASSERT(memcmp(&digest.positions, &loaded->positions, sizeof digest.positions) == 0);
    }
    ol_state_destroy(&mirror.state);
}

/* A load that begins in the middle of a segment finds its place by the headers before it, and may see less of a damaged one
 * than a feed, which then begins at the segment's base. */
static bool begins_at_segment(const ol_log *log) {
    ol_log_segment_info first;
    return !ol_log_segment_at(log, 0, &first) || ol_log_start(log) == first.base_offset;
}

static opened open_and_load(uint8_t flags, bool writable) {
    opened result = {0};
    ol_partition_options options = options_of(flags, writable);
    ol_log_recovery recovery;
    ol_error error;
    ol_load_progress progress;
    const ol_state *state;
    if (ol_partition_open(&options, &result.partition, &recovery, &error) != OL_OK) {
        OL_ASSERT(error.reason[0] != '\0');
        result.partition = NULL;
        return result;
    }
    if (options.replicated) OL_ASSERT(ol_partition_advance(result.partition, epoch_of(result.partition), INT64_MAX, &error) == OL_OK);
    int status = ol_partition_load(result.partition, &error);
    OL_ASSERT(status == OL_OK || (error.status == status && error.reason[0] != '\0'));
    ol_partition_progress(result.partition, &progress);
    result.sound = status == OL_OK && progress.problems == 0;
    if (status != OL_OK || options.replicated) return result;
    OL_ASSERT(ol_partition_lock_state(result.partition, &state, &error) == OL_OK);
    ol_table_verify(state->table);
    ol_state_digest(state, true, &result.digest);
    ol_partition_unlock_state(result.partition);
    result.loaded = true;
    if (result.sound || begins_at_segment(ol_partition_log(result.partition))) check_feed(result.partition, &result.digest);
    return result;
}

static bool commit(ol_partition *partition, int64_t *end_offset) {
    ol_item item = {.kind = OL_ITEM_POSITION, .group = ol_slice_of("fuzz-group", 10), .topic = ol_slice_of("fuzz-topic", 10),
                    .offset = 4711, .commit_timestamp = -1, .expire_timestamp = -1, .leader_epoch = -1, .metadata = ol_slice_of("", 0)};
    ol_commit_result result;
    ol_error error;
    if (ol_partition_commit(partition, &item, 1, -1, -1, &result, &error) != OL_OK) {
        OL_ASSERT(error.reason[0] != '\0');
        return false;
    }
    *end_offset = result.end_offset;
    return true;
}

static bool has_commit(ol_partition *partition) {
    const ol_state *state;
    ol_error error;
    ol_slice group = ol_slice_of("fuzz-group", 10);
    ol_position_value value;
    if (ol_partition_lock_state(partition, &state, &error) != OL_OK) return false;
    ol_pair_name name = ol_table_name(state->table, group, ol_table_group_hash(state->table, group), ol_slice_of("fuzz-topic", 10));
    bool found = ol_table_get(state->table, &name, 0, &value) && value.offset == 4711;
    ol_partition_unlock_state(partition);
    return found;
}

static void write_and_open_again(uint8_t flags, const opened *reader) {
    ol_error error;
    int64_t end_offset = 0;
    opened writer = open_and_load(flags, true);
    if (writer.partition == NULL) return;
    /* The two opens read the same bytes. */
    if (reader->loaded && writer.loaded && reader->sound && writer.sound) {
        OL_ASSERT(memcmp(&reader->digest.positions, &writer.digest.positions, sizeof reader->digest.positions) == 0);
        OL_ASSERT(memcmp(&reader->digest.group_records, &writer.digest.group_records, sizeof reader->digest.group_records) == 0);
    }
    bool committed = commit(writer.partition, &end_offset);
    if (committed) OL_ASSERT(ol_partition_wait(writer.partition, end_offset, OL_TERM_NOW, OL_WAIT_FLUSHED, 10000, &error) == OL_OK);
    ol_partition_abandon(writer.partition);
    opened again = open_and_load(flags & (uint8_t)~FLAG_CLEAN, true);
    if (committed) OL_ASSERT(again.partition != NULL && again.loaded && has_commit(again.partition));
    if (again.partition != NULL) (void)!ol_partition_close(again.partition, &error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > INPUT_MAX / 2) return 0;
    uint8_t *input = malloc(size);
    memcpy(input, data, size);
    uint8_t flags = input[0] == 0 ? 0 : (uint8_t)(input[0] | FLAG_STRUCTURED);
    make_empty();
    if (flags != 0) {
        put_files(input, size, flags);
    } else {
        char name[64];
        snprintf(name, sizeof name, "%020lld.log", base_of(input, size));
        put_file(name, input, size);
    }
    free(input);
    uint64_t before = print_directory();
    opened reader = open_and_load(flags, false);
    if (reader.partition != NULL) ol_partition_abandon(reader.partition);
    OL_ASSERT(print_directory() == before);
    write_and_open_again(flags, &reader);
    return 0;
}

/* ------------------------------------------------------------------------------------------------ seeds */

/* A directory as the engine writes it: positions, a transaction that is open, one that ended, a roll of the epochs. */
static void make_seed_directory(void) {
    ol_error error;
    ol_commit_result result;
    opened writer = open_and_load(0, true);
    OL_ASSERT(writer.partition != NULL);
    for (int i = 0; i < 12; i++) {
        ol_item item = {.kind = OL_ITEM_POSITION, .group = ol_slice_of("g", 1), .topic = ol_slice_of("t", 1), .partition = i % 4,
                        .offset = i, .commit_timestamp = -1, .expire_timestamp = i == 3 ? 1700000099000 : -1, .leader_epoch = -1,
                        .metadata = ol_slice_of("meta", (size_t)i % 5)};
        int64_t producer = i < 4 ? -1 : i < 8 ? 4000 : 17;
        if (i == 8) OL_ASSERT(ol_partition_end_transaction(writer.partition, 4000, 0, OL_CONTROL_COMMIT, 0, &result, &error) == OL_OK);
        OL_ASSERT(ol_partition_commit(writer.partition, &item, 1, producer, producer < 0 ? -1 : 0, &result, &error) == OL_OK);
        if (i == 5) OL_ASSERT(ol_partition_wait(writer.partition, result.end_offset, result.term, OL_WAIT_FLUSHED, 10000, &error) == OL_OK);
    }
    OL_ASSERT(ol_partition_close(writer.partition, &error) == OL_OK);
}

/* Appends the file, if it is there, to a seed in hexadecimal. */
static void add_to_seed(char *seed, size_t capacity, unsigned kind, const char *name) {
    char path[512];
    static uint8_t bytes[2048];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) return;
    size_t size = fread(bytes, 1, sizeof bytes, file), length = strlen(seed);
    fclose(file);
    OL_ASSERT(length + 2 * size + 7 < capacity);
    length += (size_t)snprintf(seed + length, capacity - length, "%02x%04zx", kind, size);
    for (size_t i = 0; i < size; i++) length += (size_t)snprintf(seed + length, capacity - length, "%02x", bytes[i]);
}

const char *const *ol_fuzz_seeds(void) {
    static char whole[16384], checked[16384], killed[16384];
    static const char *const seeds[] = {whole, checked, killed, GOLDEN_A GOLDEN_B, GOLDEN_A_CLEANED GOLDEN_A_CLEANED_TWICE,
                                        GOLDEN_B_EMPTIED GOLDEN_C_WITH_HORIZON, NULL};
    make_empty();
    make_seed_directory();
    static const char *const names[] = {"00000000000000000000.log", "00000000000000000000.index", "00000000000000000000.timeindex", NULL,
                                        "00000000000000000013.snapshot", "offsetlog.flushed", "leader-epoch-checkpoint"};
    snprintf(whole, sizeof whole, "%02x", FLAG_STRUCTURED | FLAG_CLEAN);
    snprintf(checked, sizeof checked, "%02x", FLAG_STRUCTURED | FLAG_RIGHT_CRC | FLAG_RECOVERY_POINT);
    snprintf(killed, sizeof killed, "%02x", FLAG_STRUCTURED | FLAG_RIGHT_CRC);
    for (unsigned kind = 0; kind < sizeof names / sizeof names[0]; kind++) {
        if (names[kind] == NULL) continue;
        add_to_seed(whole, sizeof whole, kind, names[kind]);
        if (kind == 0 || kind == 5) add_to_seed(checked, sizeof checked, kind, names[kind]);
        if (kind == 0) add_to_seed(killed, sizeof killed, kind, names[kind]);
    }
    add_to_seed(checked, sizeof checked, 10, "leader-epoch-checkpoint");
    return seeds;
}
