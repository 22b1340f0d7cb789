/* base/status: how a failure is reported.
 *
 * A function that can fail returns an ol_status (0 is success) as int and fills the caller's
 * ol_error.  The error says where the failure is (file, byte position, log offset) and gives the
 * reason in one sentence.  An ol_error is plain memory and owns nothing.  The pointer to it must
 * not be NULL.  A function that fails leaves the state unchanged unless its header says otherwise.
 */
#ifndef OL_BASE_STATUS_H
#define OL_BASE_STATUS_H

#include "base/base.h"

typedef enum ol_status {
    OL_OK = 0,
    OL_END = 1,                 /* an iterator is exhausted; never turned into an exception */
    /* the call would have to wait, or the caller must repeat it; never turned into an exception */
    OL_WOULD_BLOCK = 2,
    /* the machine */
    OL_NO_MEMORY = 10,          /* an allocation failed; nothing changed */
    OL_IO = 11,  /* a system call failed (sys_errno), or a file is shorter than it must be */
    OL_DISK_FULL = 12,          /* the disk or the quota is full; nothing changed */
    OL_NO_SUCH_FILE = 13,       /* a required file or directory is missing */
    OL_LOCKED = 14,             /* another process, or this one, holds the directory's lock */
    OL_CHANGED = 15,            /* bytes changed between two reads of one call; retriable */
    /* bytes */
    /* bytes on the disk have changed since they were written: bytes that a flush had made durable,
     * or bytes of a closed file */
    OL_CORRUPT = 20,
    OL_TORN = 21,               /* an unfinished tail: the bytes end too early */
    OL_UNSUPPORTED = 22,        /* well-formed bytes of an unknown version, magic or codec */
    OL_LIMIT = 23,  /* a size in the bytes exceeds its limit, as in a decompression bomb */
    /* the caller */
    OL_INVALID = 30,            /* the value of an argument is not allowed */
    OL_TOO_LARGE = 31,  /* the record, batch or string does not fit the format or the setting */
    OL_OUT_OF_RANGE = 32,       /* the offset is not in the log */
    /* state */
    OL_CLOSED = 40,
    OL_READ_ONLY = 41,          /* opened read-only, or became read-only because of damage */
    /* the partition failed, for example because a flush failed, and must be opened again */
    OL_FAILED = 42,
    OL_LOADING = 43,            /* the partition is still loading; retriable */
    /* this process does not lead the partition; retry at its leader */
    OL_NOT_COORDINATOR = 44,
    OL_CONDITION = 45,          /* the condition `expected=` did not hold */
    OL_REWIND = 46,  /* the commit would have lowered an offset, which `monotonic=` forbids */
    OL_FENCED = 47,             /* a producer epoch that is older than the newest one known */
    /* the transaction is not open, the producer has an open one already, or its producer id is
     * negative or reserved */
    OL_TRANSACTION = 48,
    OL_TIMED_OUT = 49,          /* the time limit of the call was reached */
    OL_FENCED_LEADER_EPOCH = 50,    /* a leader epoch that is older than the newest one known */
    OL_UNKNOWN_LEADER_EPOCH = 51,   /* a leader epoch that is newer than the newest one known;
                                       retriable */
    OL_GENERATION = 52,         /* the group's record has another generation */
    OL_CRASHED = 60,            /* test file system only: the simulated machine has stopped */
} ol_status;

#define OL_ERROR_PATH_MAX 512
#define OL_ERROR_REASON_MAX 384

typedef struct ol_error {
    int status;                 /* an ol_status */
    int sys_errno;              /* errno of the failed call; 0: no system call failed */
    int64_t position;           /* byte position in the file; -1: unknown */
    int64_t offset;             /* log offset; -1: unknown */
    int64_t item;               /* index of the refused item in the caller's array; -1: none */
    /* path of the file, or "" if it is unknown; always terminated; if the path is too long, its
     * beginning is cut off */
    char path[OL_ERROR_PATH_MAX];
    char reason[OL_ERROR_REASON_MAX];   /* one sentence, always terminated */
} ol_error;

void ol_error_clear(ol_error *error);

/* Fills `error` and returns `status`, so that callers can write `return ol_fail(...)`.  The path,
 * position, offset and item are cleared.  The caller sets those that it knows afterwards. */
int ol_fail(ol_error *error, int status, const char *format, ...) OL_PRINTF(3, 4);

/* Like ol_fail, for a failed system call.  The status is OL_DISK_FULL for ENOSPC and EDQUOT,
 * OL_NO_SUCH_FILE for ENOENT, OL_NO_MEMORY for ENOMEM, and OL_IO for every other errno.
 * `operation` is the name of the system call.  `path` may be NULL. */
int ol_fail_errno(ol_error *error, int sys_errno, const char *operation, const char *path);

/* Adds a path and a byte position to an error that is already filled, and returns error->status.
 * If `path` is NULL, the error keeps its present path. */
int ol_error_at(ol_error *error, const char *path, int64_t position);

const char *ol_status_name(int status);

#endif
