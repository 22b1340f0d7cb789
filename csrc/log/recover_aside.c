/* Copies all bytes that recovery is about to truncate to another file, durably. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "log/log_impl.h"
#include "log/file_scan.h"

enum { COPY_CHUNK = 1 << 18, COPY_PAGE = 4096 };

static int free_path(ol_log *log, int64_t base_offset, int64_t position, char path[OL_PATH_MAX],
                     ol_error *error) {
    char name[OL_NAME_SIZE_MAX + 1];
    snprintf(name, sizeof name, "broken-%020" PRId64 ".log.%" PRId64, base_offset, position);
    return ol_log_untaken_path(log, name, path, error);
}

static int copy_bytes(ol_log *log, ol_file *source, int64_t position, int64_t end, ol_file *target,
                      ol_error *error) {
    uint8_t *chunk = malloc(COPY_CHUNK);
    if (chunk == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory to copy broken bytes");
    int status = OL_OK;
    for (int64_t at = position; at < end && status == OL_OK;) {
        size_t wanted = end - at < COPY_CHUNK ? (size_t)(end - at) : COPY_CHUNK;
        size_t got = 0;
        status = log->fs->read(source, at, chunk, wanted, &got, error);
        if (status == OL_OK && got == 0) break;
        if (status == OL_OK) status = log->fs->write(target, at - position, chunk, got, error);
        at += (int64_t)got;
    }
    free(chunk);
    return status;
}

int ol_recovery_copy_aside(ol_log *log, const ol_found_segment *segment, int64_t position,
                           char path[OL_PATH_MAX], int64_t *bytes, ol_error *error) {
    ol_file_scan scan;
    int64_t used = position;
    *bytes = 0;
    path[0] = '\0';
    int status = ol_file_scan_open(&scan, log->fs, segment->path, position, -1, error);
    if (status != OL_OK) return status;
    status = ol_file_scan_used(&scan, position, &used, error);
    if (status == OL_OK && used > position) {
        /* A batch may end with zeros of its own, so the copy includes the rest of the last page. */
        used += (COPY_PAGE - used % COPY_PAGE) % COPY_PAGE;
        if (used > scan.limit) used = scan.limit;
        ol_file *target = NULL;
        status = free_path(log, segment->base_offset, position, path, error);
        if (status == OL_OK) {
            status = log->fs->open(log->fs, path, OL_OPEN_CREATE_NEW, &target, error);
        }
        if (status == OL_OK) {
            status = copy_bytes(log, scan.file, position, used, target, error);
            if (status == OL_OK) status = log->fs->flush(target, error);
            log->fs->close(target);
        }
        if (status == OL_OK) status = log->fs->flush_directory(log->fs, log->directory, error);
        if (status == OL_OK) *bytes = used - position;
    }
    ol_file_scan_close(&scan);
    return status;
}
