/* log_fixture: what the tests of the log share: a scratch directory, batches with known contents, and a walk over a log that
 * checks every batch against the model. */
#ifndef LOG_FIXTURE_H
#define LOG_FIXTURE_H

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "fs/fs.h"
#include "log/log.h"
#include "ol_test.h"
#include "forget_manifest.h"

/* A fresh directory under TMPDIR, else in memory where there is such a place (the flushes of thousands of opens are slow on a
 * disk); removed by fixture_remove. */
OL_UNUSED static void fixture_directory(char path[OL_PATH_MAX]) {
    const char *base = getenv("TMPDIR");
    if (base == NULL) base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, OL_PATH_MAX, "%s/ol_log_XXXXXX", base);
    OL_CHECK(mkdtemp(path) != NULL);
}

OL_UNUSED static void fixture_remove(const char *path) {
    DIR *directory = opendir(path);
    if (directory == NULL) return;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char child[OL_PATH_MAX];
        struct stat status;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        snprintf(child, sizeof child, "%s/%s", path, entry->d_name);
        if (lstat(child, &status) == 0 && S_ISDIR(status.st_mode)) {
            fixture_remove(child);
        } else {
            unlink(child);
        }
    }
    closedir(directory);
    rmdir(path);
}

OL_UNUSED static void fixture_join(char path[OL_PATH_MAX], const char *directory, const char *name) {
    OL_CHECK(snprintf(path, OL_PATH_MAX, "%s/%s", directory, name) < OL_PATH_MAX);
}

OL_UNUSED static uint8_t *fixture_read(const char *path, size_t *size) {
    ol_error error;
    uint8_t *data = NULL;
    OL_CHECK_OK(ol_fs_read_file(ol_fs_posix(), path, (size_t)1 << 31, &data, size, &error), &error);
    return data;
}

OL_UNUSED static void fixture_write(const char *path, const void *data, size_t size) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    OL_CHECK(fd >= 0);
    OL_CHECK(write(fd, data, size) == (ssize_t)size);
    close(fd);
}

OL_UNUSED static void fixture_copy_directory(const char *source, const char *target) {
    mkdir(target, 0777);
    DIR *directory = opendir(source);
    OL_CHECK(directory != NULL);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char from[OL_PATH_MAX];
        char to[OL_PATH_MAX];
        struct stat status;
        fixture_join(from, source, entry->d_name);
        fixture_join(to, target, entry->d_name);
        if (stat(from, &status) != 0 || !S_ISREG(status.st_mode)) continue;
        size_t size;
        uint8_t *data = fixture_read(from, &size);
        fixture_write(to, data, size);
        free(data);
    }
    closedir(directory);
}

OL_UNUSED static bool fixture_exists(const char *directory, const char *name) {
    char path[OL_PATH_MAX];
    fixture_join(path, directory, name);
    return access(path, F_OK) == 0;
}

OL_UNUSED static int64_t fixture_size(const char *directory, const char *name) {
    char path[OL_PATH_MAX];
    struct stat status;
    fixture_join(path, directory, name);
    return stat(path, &status) == 0 ? status.st_size : -1;
}

OL_UNUSED static int fixture_count(const char *path, const char *prefix) {
    int count = 0;
    DIR *directory = opendir(path);
    OL_CHECK(directory != NULL);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    }
    closedir(directory);
    return count;
}

/* Changes one bit of a file. */
OL_UNUSED static void flip_byte(const char *directory, const char *name, int64_t position) {
    char path[OL_PATH_MAX];
    uint8_t byte;
    fixture_join(path, directory, name);
    int fd = open(path, O_RDWR);
    OL_CHECK(fd >= 0 && pread(fd, &byte, 1, position) == 1);
    byte ^= 0x40;
    OL_CHECK(pwrite(fd, &byte, 1, position) == 1);
    close(fd);
}

/* The batches of the tests are of this time, so that is what it is. */
static int64_t fixture_now = 1700000000000;
OL_UNUSED static int64_t fixture_clock(void *context OL_UNUSED) { return fixture_now; }

/* OL_APPEND=1 and 2 choose one of the ways in which batches reach a file. */
OL_UNUSED static ol_append fixture_append_way(void) { return (ol_append)ol_test_setting("OL_APPEND", OL_APPEND_AUTO); }

/* Options with small steps: 64 KiB segments, 4 KiB extension. */
OL_UNUSED static ol_log_options fixture_options(const char *directory) {
    ol_log_options options = {
        .fs = ol_fs_posix(),
        .directory = directory,
        .writable = true,
        .create = true,
        .recovery_point = -1,
        .log_start_offset = -1,
        .clock_ms = fixture_clock,
    };
    ol_log_config_init(&options.config);
    options.config.segment_bytes = 64 << 10;
    options.config.extend_bytes_min = 4096;
    options.config.extend_bytes_max = 16 << 10;
    options.config.append = fixture_append_way();
    return options;
}

OL_UNUSED static ol_log *fixture_open(const ol_log_options *options, ol_log_recovery *recovery) {
    ol_error error;
    ol_log *log = NULL;
    ol_log_recovery ignored;
    OL_CHECK_OK(ol_log_open(options, &log, recovery != NULL ? recovery : &ignored, &error), &error);
    return log;
}

OL_UNUSED static void fixture_close(ol_log *log) {
    ol_error error;
    OL_CHECK_OK(ol_log_close(log, &error), &error);
}

/* Contents of a batch: a value of `value_size` bytes that follow from (offset, salt); `count` offsets, one record. */
typedef struct fixture_batch {
    int64_t base_offset;
    int32_t count;
    size_t value_size;
    uint64_t salt;
    int64_t timestamp;
    int64_t producer_id;
    int16_t producer_epoch;
    int16_t attributes;
    int32_t leader_epoch;
    int64_t flushed_note;       /* -1 none */
} fixture_batch;

OL_UNUSED static fixture_batch fixture_plain(size_t value_size, uint64_t salt) {
    return (fixture_batch){
        .count = 1,
        .value_size = value_size,
        .salt = salt,
        .timestamp = 1700000000000,
        .producer_id = -1,
        .producer_epoch = -1,
        .leader_epoch = -1,
        .flushed_note = -1,
    };
}

OL_UNUSED static size_t fixture_headers(const fixture_batch *batch, uint8_t headers[32]) {
    if (batch->flushed_note < 0) return 0;
    uint8_t *p = ol_store_varint(headers, 10);
    memcpy(p, "ol.flushed", 10);
    p = ol_store_varint(p + 10, 8);
    ol_store_i64(p, batch->flushed_note);
    return (size_t)(p + 8 - headers);
}

OL_UNUSED static size_t fixture_batch_size(const fixture_batch *batch) {
    uint8_t headers[32];
    size_t headers_size = fixture_headers(batch, headers);
    return OL_BATCH_OVERHEAD + ol_record_size(0, 0, 4, (int64_t)batch->value_size, headers_size > 0, headers_size);
}

/* Encodes the batch at `start`, which has room for fixture_batch_size. */
OL_UNUSED static ol_batch_fields fixture_encode(const fixture_batch *batch, uint8_t *start) {
    uint8_t headers[32];
    size_t headers_size = fixture_headers(batch, headers);
    uint8_t *value = malloc(batch->value_size + 1);
    for (size_t i = 0; i < batch->value_size; i++) {
        value[i] = (uint8_t)((uint64_t)batch->base_offset * 31 + batch->salt * 17 + i * 7 + 1);
    }
    uint8_t *end = ol_record_put(start + OL_BATCH_OVERHEAD, 0, 0, ol_slice_of("keyk", 4), ol_slice_of(value, batch->value_size),
                                 headers_size > 0, ol_slice_of(headers, headers_size));
    free(value);
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, batch->base_offset, batch->timestamp);
    fields.last_offset_delta = batch->count - 1;
    fields.record_count = 1;
    fields.producer_id = batch->producer_id;
    fields.producer_epoch = batch->producer_epoch;
    fields.attributes = batch->attributes;
    fields.leader_epoch = batch->leader_epoch;
    ol_batch_seal(start, end, &fields);
    OL_CHECK_INT(end - start, fixture_batch_size(batch));
    return fields;
}

/* Appends one batch; batch->base_offset is set.  Returns the status of reserve or publish. */
OL_UNUSED static int fixture_try_append(ol_log *log, fixture_batch *batch, ol_error *error) {
    uint8_t *start = NULL;
    size_t size = fixture_batch_size(batch);
    int status = ol_log_reserve(log, size, batch->count - 1, batch->timestamp, &start, &batch->base_offset, error);
    if (status != OL_OK) return status;
    for (size_t i = 0; i < size; i++) OL_CHECK_INT(start[i], 0);
    ol_batch_fields fields = fixture_encode(batch, start);
    return ol_log_publish(log, &fields, size, error);
}

OL_UNUSED static int64_t fixture_append(ol_log *log, fixture_batch batch) {
    ol_error error;
    OL_CHECK_OK(fixture_try_append(log, &batch, &error), &error);
    return batch.base_offset;
}

/* Appends a record whose value is one whole batch, as a client may store it: at `inner_base`, with an `ol.flushed` of as much unless `note`
 * is -1.  Returns the size of the batch that was appended. */
OL_UNUSED static size_t fixture_append_carrier(ol_log *log, int64_t inner_base, int64_t note) {
    uint8_t inner[256];
    uint8_t outer[512];
    ol_error error;
    fixture_batch batch = fixture_plain(20, 9);
    batch.base_offset = inner_base;
    batch.flushed_note = note;
    fixture_encode(&batch, inner);
    uint8_t *end = ol_record_put(outer + OL_BATCH_OVERHEAD, 0, 0, ol_slice_of("keyk", 4),
                                 ol_slice_of(inner, fixture_batch_size(&batch)), 0, ol_slice_null());
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, ol_log_end(log), 1700000000000);
    fields.record_count = 1;
    ol_batch_seal(outer, end, &fields);
    OL_CHECK_OK(ol_log_append(log, outer, (size_t)(end - outer), &error), &error);
    return (size_t)(end - outer);
}

/* An end-transaction marker through reserve and publish. */
OL_UNUSED static void fixture_append_marker(ol_log *log, int64_t producer_id, ol_control type) {
    ol_error error;
    uint8_t *start = NULL;
    int64_t base_offset = 0;
    OL_CHECK_OK(ol_log_reserve(log, OL_BATCH_MARKER_SIZE, 0, 1700000000000, &start, &base_offset, &error), &error);
    ol_batch_put_marker(start, base_offset, -1, 1700000000000, producer_id, 0, type, 3);
    ol_batch_fields fields;
    ol_batch_fields_init(&fields, base_offset, 1700000000000);
    fields.producer_id = producer_id;
    fields.producer_epoch = 0;
    fields.attributes = OL_ATTRIBUTE_TRANSACTIONAL | OL_ATTRIBUTE_CONTROL;
    fields.record_count = 1;
    OL_CHECK_OK(ol_log_publish(log, &fields, OL_BATCH_MARKER_SIZE, &error), &error);
}

/* Reads everything from `offset` on and returns the bytes, one after the other; every batch is checked. */
OL_UNUSED static uint8_t *fixture_read_log(ol_log *log, int64_t offset, size_t piece_max, size_t *size) {
    ol_error error;
    ol_log_reader *reader = NULL;
    uint8_t *bytes = malloc(1);
    *size = 0;
    int64_t next = -1;
    OL_CHECK_OK(ol_log_reader_open(log, offset, &reader, &error), &error);
    for (;;) {
        ol_log_piece piece;
        int status = ol_log_reader_next(reader, piece_max, &piece, &error);
        if (status == OL_END) break;
        OL_CHECK_OK(status, &error);
        for (size_t position = 0; position < piece.size;) {
            ol_batch batch;
            OL_CHECK_OK(ol_batch_parse(piece.data + position, piece.size - position, &batch, &error), &error);
            OL_CHECK_OK(ol_batch_check_crc(&batch, &error), &error);
            OL_CHECK(batch.base_offset >= next);
            next = batch.last_offset + 1;
            position += batch.size;
        }
        bytes = realloc(bytes, *size + piece.size);
        memcpy(bytes + *size, piece.data, piece.size);
        *size += piece.size;
    }
    ol_log_reader_close(reader);
    return bytes;
}

#endif
