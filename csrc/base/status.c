/* base/status.c: fills errors and names statuses. */
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void ol_assert_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "offsetlog: broken invariant at %s:%d: %s\n", file, line, condition);
    fflush(stderr);
    abort();
}

void ol_error_clear(ol_error *error) {
    error->status = OL_OK;
    error->sys_errno = 0;
    error->position = -1;
    error->offset = -1;
    error->item = -1;
    error->path[0] = '\0';
    error->reason[0] = '\0';
}

int ol_fail(ol_error *error, int status, const char *format, ...) {
    OL_ASSERT(status != OL_OK);
    ol_error_clear(error);
    error->status = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->reason, sizeof error->reason, format, arguments);
    va_end(arguments);
    return status;
}

static void set_path(ol_error *error, const char *path) {
    size_t size = strlen(path);
    /* The end of a path identifies the file better than its beginning. */
    if (size >= sizeof error->path) path += size - (sizeof error->path - 1);
    snprintf(error->path, sizeof error->path, "%s", path);
}

/* glibc's strerror_r returns the message and may leave the buffer alone; musl's fills the buffer
 * and returns 0.  Unlike strerror, both are safe from any thread. */
static inline const char *message_returned(const char *message, const char *buffer) {
    (void)buffer;
    return message;
}

static inline const char *message_written(int failure, const char *buffer) {
    return failure == 0 ? buffer : "unknown error";
}

#define STRERROR(number, buffer) strerror_r(number, buffer, sizeof buffer)
#define MESSAGE_OF(number, buffer) \
    _Generic(STRERROR(number, buffer), char *: message_returned, int: message_written)( \
        STRERROR(number, buffer), buffer)

int ol_fail_errno(ol_error *error, int sys_errno, const char *operation, const char *path) {
    int status = OL_IO;
    if (sys_errno == ENOSPC || sys_errno == EDQUOT) status = OL_DISK_FULL;
    if (sys_errno == ENOENT) status = OL_NO_SUCH_FILE;
    if (sys_errno == ENOMEM) status = OL_NO_MEMORY;
    char text[128] = "";
    ol_fail(error, status, "%s: %s", operation, MESSAGE_OF(sys_errno, text));
    error->sys_errno = sys_errno;
    if (path != NULL) set_path(error, path);
    return status;
}

int ol_error_at(ol_error *error, const char *path, int64_t position) {
    if (path != NULL) set_path(error, path);
    error->position = position;
    return error->status;
}

const char *ol_status_name(int status) {
    switch (status) {
        case OL_OK: return "ok";
        case OL_END: return "end";
        case OL_WOULD_BLOCK: return "would block";
        case OL_NO_MEMORY: return "no memory";
        case OL_IO: return "input/output error";
        case OL_DISK_FULL: return "disk full";
        case OL_NO_SUCH_FILE: return "no such file";
        case OL_LOCKED: return "locked";
        case OL_CHANGED: return "changed";
        case OL_CORRUPT: return "corrupt";
        case OL_TORN: return "torn";
        case OL_UNSUPPORTED: return "unsupported";
        case OL_LIMIT: return "over a limit";
        case OL_INVALID: return "invalid";
        case OL_TOO_LARGE: return "too large";
        case OL_OUT_OF_RANGE: return "out of range";
        case OL_CLOSED: return "closed";
        case OL_READ_ONLY: return "read-only";
        case OL_FAILED: return "failed";
        case OL_LOADING: return "loading";
        case OL_NOT_COORDINATOR: return "not coordinator";
        case OL_CONDITION: return "condition not met";
        case OL_REWIND: return "would go back";
        case OL_FENCED: return "fenced";
        case OL_TRANSACTION: return "transaction state";
        case OL_TIMED_OUT: return "timed out";
        case OL_FENCED_LEADER_EPOCH: return "fenced leader epoch";
        case OL_UNKNOWN_LEADER_EPOCH: return "unknown leader epoch";
        case OL_GENERATION: return "another generation";
        case OL_CRASHED: return "crashed";
        default: return "unknown status";
    }
}
