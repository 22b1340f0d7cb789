/* completeness_fixture: a log of small segments of our own, harmed in one line, and what an open reports of it. */
#ifndef COMPLETENESS_FIXTURE_H
#define COMPLETENESS_FIXTURE_H

#include "accusation.h"
#include "base/hash.h"
#include "cleaned_fixture.h"
#include "log/files/flush_sidecar.h"
#include "log/files/leader_epochs.h"
#include "log/files/manifest.h"
#include "recovery_fixture.h"

enum { BATCH_SIZE = 256, SEGMENT_BATCHES = 16, SEGMENT_SIZE = BATCH_SIZE * SEGMENT_BATCHES };

/* A report that an open is expected to make. */
typedef struct finding {
    bool proven;
    int64_t from;
    int64_t below;
} finding;
#define UNKNOWN INT64_MAX

static fixture_batch scene_batch(uint64_t salt) {
    fixture_batch batch = fixture_plain(0, salt);
    while (fixture_batch_size(&batch) < BATCH_SIZE) batch.value_size++;
    OL_CHECK_INT(fixture_batch_size(&batch), BATCH_SIZE);
    return batch;
}

OL_UNUSED static void scene_append(ol_log *log, int count) {
    for (int i = 0; i < count; i++) fixture_append(log, scene_batch((uint64_t)i));
}

/* Segments of SEGMENT_BATCHES batches, each of one offset. */
OL_UNUSED static void scene_place(place *p) {
    place_make(p);
    p->options.config.segment_bytes = SEGMENT_SIZE;
}

/* `count` flushed batches, closed or killed.  The owner knows from then on that there are a manifest and a sidecar. */
OL_UNUSED static void scene_make(place *p, int count, bool clean) {
    scene_place(p);
    ol_log *log = fixture_open(&p->options, NULL);
    scene_append(log, count);
    flush(log);
    if (clean) fixture_close(log); else ol_log_abandon(log);
    p->options.witnessed = true;
    p->options.clean = clean;
    p->options.recovery_point = clean ? count : -1;
}

OL_UNUSED static void scene_name(char name[32], int64_t base_offset, const char *suffix) {
    snprintf(name, 32, "%020" PRId64 "%s", base_offset, suffix);
}

OL_UNUSED static void scene_path(const place *p, const char *name, char path[OL_PATH_MAX]) {
    fixture_join(path, p->path, name);
}

OL_UNUSED static void scene_remove(const place *p, const char *name) {
    char path[OL_PATH_MAX];
    scene_path(p, name, path);
    OL_CHECK(unlink(path) == 0);
}

OL_UNUSED static void scene_cut(const place *p, const char *name, int64_t size) {
    char path[OL_PATH_MAX];
    scene_path(p, name, path);
    OL_CHECK(truncate(path, size) == 0);
}

OL_UNUSED static void scene_remove_segment(const place *p, int64_t base_offset) {
    char name[32];
    scene_name(name, base_offset, ".log");
    scene_remove(p, name);
}

OL_UNUSED static void scene_cut_segment(const place *p, int64_t base_offset, int64_t size) {
    char name[32];
    scene_name(name, base_offset, ".log");
    scene_cut(p, name, size);
}

/* -------------------------------------------------------------------------------- witnesses by hand */

OL_UNUSED static void scene_load_manifest(const place *p, ol_manifest *manifest) {
    char path[OL_PATH_MAX];
    ol_error error;
    scene_path(p, OL_MANIFEST_FILE, path);
    OL_CHECK_OK(ol_manifest_load(manifest, ol_fs_posix(), path, &error), &error);
}

/* Stores it, and frees it. */
OL_UNUSED static void scene_store_manifest(const place *p, ol_manifest *manifest) {
    char path[OL_PATH_MAX];
    ol_error error;
    scene_path(p, OL_MANIFEST_FILE, path);
    OL_CHECK_OK(ol_manifest_store(manifest, ol_fs_posix(), path, &error), &error);
    ol_manifest_free(manifest);
}

OL_UNUSED static void scene_load_sidecar(const place *p, ol_flush_sidecar_bound *bound) {
    char path[OL_PATH_MAX];
    ol_error error;
    ol_flush_sidecar_found found;
    scene_path(p, OL_FLUSH_SIDECAR_FILE, path);
    OL_CHECK_OK(ol_flush_sidecar_load(ol_fs_posix(), path, &found, &error), &error);
    *bound = found.bound;
}

OL_UNUSED static void scene_store_sidecar(const place *p, const ol_flush_sidecar_bound *bound) {
    char path[OL_PATH_MAX];
    ol_error error;
    ol_flush_sidecar sidecar;
    scene_path(p, OL_FLUSH_SIDECAR_FILE, path);
    OL_CHECK_OK(ol_flush_sidecar_open(&sidecar, ol_fs_posix(), path, &error), &error);
    OL_CHECK_OK(ol_flush_sidecar_lower(&sidecar, bound, &error), &error);
    ol_flush_sidecar_close(&sidecar);
}

/* -------------------------------------------------------------------------------- what is reported */

/* The names and the bytes of everything in the directory that is evidence: not the indexes, since those without a
 * segment go before anything is compared, nor the zeros of an extension. */
OL_UNUSED static uint64_t scene_digest(const place *p) {
    uint64_t sum = 0;
    DIR *directory = opendir(p->path);
    OL_CHECK(directory != NULL);
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        char path[OL_PATH_MAX];
        struct stat status;
        fixture_join(path, p->path, entry->d_name);
        if (stat(path, &status) != 0 || !S_ISREG(status.st_mode) || strstr(entry->d_name, "index") != NULL) continue;
        size_t size;
        uint8_t *bytes = fixture_read(path, &size);
        while (size > 0 && bytes[size - 1] == 0 && strstr(entry->d_name, ".log") != NULL) size--;
        sum += ol_xxh3_128(bytes, size).low ^ ol_xxh3_128(entry->d_name, strlen(entry->d_name)).high;
        free(bytes);
    }
    closedir(directory);
    return sum;
}

static bool has_findings(const ol_log_recovery *recovery, const finding *expected, size_t count) {
    bool right = recovery->loss_count == count;
    for (size_t i = 0; i < count && right; i++) {
        const ol_log_loss *loss = &recovery->losses[i];
        right = loss->proven == expected[i].proven && loss->from == expected[i].from &&
                loss->below == expected[i].below && loss->error.status == OL_CORRUPT && loss->error.offset == loss->from &&
                loss->error.path[0] != '\0' && loss->error.reason[0] != '\0';
    }
    return right;
}

static void print_findings(const char *file, int line, const char *what, const ol_log_recovery *recovery) {
    fprintf(stderr, "%s:%d: %s reports other things than expected: %zu losses\n", file, line, what,
            recovery->loss_count);
    for (size_t i = 0; i < recovery->loss_count; i++) {
        const ol_log_loss *loss = &recovery->losses[i];
        fprintf(stderr, "  %s [%" PRId64 ", %" PRId64 "): %s (%s)\n", loss->proven ? "proven" : "doubt", loss->from,
                loss->below, loss->error.reason, loss->error.path);
    }
    if (recovery->corrupt) {
        fprintf(stderr, "  corrupt from %" PRId64 ": %s (%s)\n", recovery->corruption.offset,
                recovery->corruption.reason, recovery->corruption.path);
    }
}

static bool is_any_proven(const finding *expected, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (expected[i].proven) return true;
    }
    return false;
}

/* A broker worked here, and wrote its checkpoints: recovery points and high watermarks, and its cleaner's if it cleaned. */
OL_UNUSED static void checkpoint_as_broker(place *p, int64_t recovery_point, int64_t cleaned) {
    p->options.clean = false;
    p->options.recovery_point = recovery_point;
    p->options.recovery_point_changed = true;
    p->options.changed_checkpoints = 2 + (cleaned >= 0);
    p->options.cleaned_by_others = cleaned;
}

/* Opens for reading and for writing.  Both report the same; nothing changes where loss is proven, and where it is not
 * the log takes more and is whole from then on.  With `corrupt` bytes are bad beside. */
OL_UNUSED static void check_opens(const char *file, int line, const place *p, const finding *expected, size_t count,
                                  bool corrupt) {
    bool proven = is_any_proven(expected, count);
    uint64_t before = scene_digest(p);
    for (int writable = 0; writable < 2; writable++) {
        ol_log_options options = p->options;
        ol_log_recovery recovery;
        ol_error error;
        options.writable = options.create = writable;
        ol_log *log = fixture_open(&options, &recovery);
        bool right = has_findings(&recovery, expected, count) && recovery.is_lossy == proven &&
                     recovery.corrupt == corrupt;
        if (!right) print_findings(file, line, writable ? "the open to write" : "the open to read", &recovery);
        OL_CHECK(right);
        OL_CHECK_INT(ol_log_is_writable(log), writable && !proven && !corrupt);
        if (!writable || proven || corrupt) {
            ol_log_abandon(log);
            OL_CHECK(scene_digest(p) == before);
            continue;
        }
        scene_append(log, 2 * SEGMENT_BATCHES);
        int64_t end = ol_log_end(log);
        OL_CHECK_OK(ol_log_close(log, &error), &error);
        options.witnessed = options.clean = true;
        options.recovery_point = end;
        options.recovery_point_changed = options.log_start_changed = false;
        options.changed_checkpoints = 0;
        options.cleaned_by_others = -1;
        for (int again = 0; again < 2; again++) {
            options.clean = again == 0;
            log = fixture_open(&options, &recovery);
            OL_CHECK(!recovery.corrupt && !recovery.is_lossy && !recovery.others_worked);
            OL_CHECK_INT(ol_log_end(log), end);
            fixture_close(log);
        }
    }
}

/* The second argument on: findings in braces. */
#define CHECK_FINDINGS(p, ...) \
    do { \
        const finding expected_findings[] = {__VA_ARGS__}; \
        check_opens(__FILE__, __LINE__, p, expected_findings, sizeof expected_findings / sizeof(finding), false); \
    } while (0)
#define CHECK_CORRUPT(p, ...) \
    do { \
        const finding expected_findings[] = {__VA_ARGS__}; /* perhaps none */ \
        check_opens(__FILE__, __LINE__, p, expected_findings, sizeof expected_findings / sizeof(finding), true); \
    } while (0)
#define CHECK_COMPLETE(p) check_opens(__FILE__, __LINE__, p, NULL, 0, false)

#endif
