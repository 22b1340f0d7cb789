/* Puts a cleaned segment in the place of closed ones (docs/format/cleaner.md §8.6).
 *
 * After each file operation a recovery of the directory, by offsetlog or by Kafka, finds either the
 * old segments or the new one (docs/format/recovery.md §9.1):
 *
 *   1. The files of the new segment have names in `.cleaned`, and are complete and durable.  A
 *      recovery removes them.
 *   2. They are renamed to `.swap`, `<base>.log` as the last one.  While a `.cleaned` is left, it
 *      has the lowest number of them all, so a recovery removes every `.swap`.  The last rename is
 *      therefore the point of no return.  The directory is flushed.
 *   3. In memory the new segment replaces the old ones.  From here on a recovery finishes the swap:
 *      it removes every old file with a number from the base to the end of the `.log.swap`.  If all
 *      batches of the last old segment were dropped, that range ends too early.  Then an empty
 *      `.swap` with the number of that segment is renamed with the others, and replaces it.
 *   4. The old files are removed, the last one first, then the empty ones; each `.swap` is renamed
 *      to its final name, `.log` first; the directory is flushed.
 *
 * The sidecar and the notes of rolls contain sizes of segments.  Before anything is changed, the
 * sidecar is made to name a later segment, and the notes of the old segments are removed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/directory_pass.h"
#include "log/log_impl.h"

enum { FILE_KINDS = 4, LOG_KIND = FILE_KINDS - 1 };
static const char *const suffixes[FILE_KINDS] = {".index", ".timeindex", ".txnindex", ".log"};

typedef struct swap {
    ol_log *log;
    ol_aside *aside;
    const int64_t *bases;
    size_t count;
    size_t index;               /* of the first one in the list, which does not move while
                                   swap.lock is held */
    ol_segment **replaced;
    int64_t next_base;          /* of the segment after them */
    bool has_transactions;      /* the new segment has a .txnindex */
    bool has_tail;              /* an empty segment replaces the last of the old ones */
} swap;

static int64_t first_base(const swap *s) { return s->bases[0]; }
static int64_t last_base(const swap *s) { return s->bases[s->count - 1]; }

static int file_path(const ol_log *log, int64_t base_offset, int kind, const char *ending,
                     char path[OL_PATH_MAX], ol_error *error) {
    char suffix[64];
    snprintf(suffix, sizeof suffix, "%s%s", suffixes[kind], ending);
    return ol_segment_path(path, OL_PATH_MAX, log->directory, base_offset, suffix, error);
}

static int remove_file(ol_log *log, int64_t base_offset, int kind, const char *ending,
                       ol_error *error) {
    char path[OL_PATH_MAX];
    int status = file_path(log, base_offset, kind, ending, path, error);
    if (status == OL_OK) status = log->fs->remove(log->fs, path, error);
    return status == OL_NO_SUCH_FILE ? OL_OK : status;
}

static int rename_file(ol_log *log, int64_t base_offset, int kind, const char *from, const char *to,
                       ol_error *error) {
    char source[OL_PATH_MAX];
    char target[OL_PATH_MAX];
    int status = file_path(log, base_offset, kind, from, source, error);
    if (status == OL_OK) status = file_path(log, base_offset, kind, to, target, error);
    return status == OL_OK ? log->fs->rename(log->fs, source, target, error) : status;
}

/* ------------------------------------------------------------ before the point of no return */

/* Finds the segments.  Under flush.lock: a running flush still holds the segments that it has just
 * marked as flushed. */
static int find_replaced(swap *s, ol_error *error) {
    ol_log *log = s->log;
    int status = OL_OK;
    pthread_mutex_lock(&log->list.lock);
    while (s->index < log->list.count &&
           log->list.segments[s->index]->base_offset < first_base(s)) {
        s->index++;
    }
    bool closed = s->index + s->count < log->list.count;
    for (size_t i = 0; i < s->count && closed && status == OL_OK; i++) {
        s->replaced[i] = log->list.segments[s->index + i];
        closed = s->replaced[i]->base_offset == s->bases[i];
        if (s->replaced[i]->flush_needed) {
            status = ol_fail(error, OL_WOULD_BLOCK, "the segment at %lld is not flushed",
                             (long long)s->bases[i]);
        }
    }
    if (!closed) {
        status = ol_fail(error, OL_INVALID,
                         "the segments are not adjacent, or one of them is not closed");
    }
    if (status == OL_OK) s->next_base = log->list.segments[s->index + s->count]->base_offset;
    pthread_mutex_unlock(&log->list.lock);
    return status;
}

/* Checks that the segments may be replaced, and that no other file depends on their sizes. */
static int check_replaced(swap *s, ol_error *error) {
    ol_log *log = s->log;
    if (atomic_load(&log->shared.cuts) != s->aside->cuts) {
        return ol_fail(error, OL_WOULD_BLOCK,
                       "the log was truncated while the segments were cleaned");
    }
    pthread_mutex_lock(&log->flush.lock);
    int status = find_replaced(s, error);
    if (status == OL_OK && s->next_base > ol_log_flushed(log)) {
        status = ol_fail(error, OL_WOULD_BLOCK, "the segments below %lld are not flushed",
                         (long long)s->next_base);
    }
    if (status == OL_OK && s->aside->next_offset > s->next_base) {
        status = ol_fail(error, OL_INVALID,
                         "the cleaned segment extends up to offset %lld, but the next one begins "
                         "already at %lld",
                         (long long)s->aside->next_offset, (long long)s->next_base);
    }
    if (status == OL_OK) status = ol_log_settle_bound(log, s->next_base, error);
    pthread_mutex_unlock(&log->flush.lock);
    return status;
}

static int remove_notes(swap *s, ol_error *error) {
    int status = OL_OK;
    for (size_t i = 0; i < s->count && status == OL_OK; i++) {
        status = ol_log_remove_stayed_note(s->log, s->replaced[i], error);
    }
    return status;
}

static int create_empty(ol_log *log, int64_t base_offset, int kind, ol_error *error) {
    char path[OL_PATH_MAX];
    ol_file *file = NULL;
    int status = file_path(log, base_offset, kind, ".cleaned", path, error);
    if (status == OL_OK) status = log->fs->open(log->fs, path, OL_OPEN_CREATE_NEW, &file, error);
    if (status == OL_OK) log->fs->close(file);
    return status;
}

/* Adds the remaining files that a recovery of the swap must find. */
static int add_empty_files(swap *s, ol_error *error) {
    ol_log *log = s->log;
    int status = OL_OK;
    s->has_transactions = s->aside->segment->transaction_index.file != NULL;
    s->has_tail = s->count > 1 && s->aside->next_offset <= last_base(s);
    for (int kind = 0; kind < FILE_KINDS && s->has_tail && status == OL_OK; kind++) {
        status = create_empty(log, last_base(s), kind, error);
    }
    /* A .swap without a batch has no range from which a recovery would remove an old .txnindex, so
     * it has a .txnindex of its own. */
    if (status == OL_OK && s->aside->size == 0 && !s->has_transactions) {
        char path[OL_PATH_MAX];
        status = file_path(log, first_base(s), 2, "", path, error);
        if (status == OL_OK) status = log->fs->exists(log->fs, path, &s->has_transactions, error);
        if (status == OL_OK && s->has_transactions) {
            status = create_empty(log, first_base(s), 2, error);
        }
    }
    return status;
}

/* Kafka takes the age of tombstones in batches of magic 0 and 1, and of segments without
 * timestamps, from the file's modification time (docs/format/cleaner.md §8.3). */
static int copy_time(swap *s, ol_error *error) {
    static const int kinds[] = {LOG_KIND, 0, 1};
    ol_fs *fs = s->log->fs;
    int64_t modified_ms = 0;
    char path[OL_PATH_MAX];
    int status = file_path(s->log, last_base(s), LOG_KIND, "", path, error);
    if (status == OL_OK) status = fs->modified(fs, path, &modified_ms, error);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && status == OL_OK; i++) {
        status = file_path(s->log, first_base(s), kinds[i], ".cleaned", path, error);
        if (status == OL_OK) status = fs->set_modified(fs, path, modified_ms, error);
    }
    return status;
}

/* Renames `.cleaned` to `.swap`: the highest number first, and for each number the .log last. */
static int announce(swap *s, ol_error *error) {
    int status = OL_OK;
    for (int kind = 0; kind < FILE_KINDS && s->has_tail && status == OL_OK; kind++) {
        status = rename_file(s->log, last_base(s), kind, ".cleaned", ".swap", error);
    }
    for (int kind = 0; kind < FILE_KINDS && status == OL_OK; kind++) {
        if (kind == 2 && !s->has_transactions) continue;
        status = rename_file(s->log, first_base(s), kind, ".cleaned", ".swap", error);
    }
    return status;
}

/* The `.swap` files are removed before the `.cleaned` ones that condemn them; under swap.lock.  If
 * one cannot be removed, the others stay, too, and nothing is cleaned or truncated until it is
 * removed: a rename may have taken place although it was reported as failed. */
static void undo(ol_log *log, const int64_t *bases, size_t count) {
    static const char *const endings[] = {".swap", ".cleaned"};
    ol_error ignored;
    int status = OL_OK;
    for (size_t i = 0; i < 2; i++) {
        for (size_t at = count; at-- > 0 && status == OL_OK;) {
            for (int kind = 0; kind < FILE_KINDS && status == OL_OK; kind++) {
                status = remove_file(log, bases[at], kind, endings[i], &ignored);
            }
        }
    }
    if (status != OL_OK) log->swap.leftovers = true;
}

/* ------------------------------------------------------------ after it */

static void exchange(swap *s) {
    ol_log *log = s->log;
    pthread_mutex_lock(&log->list.lock);
    for (size_t i = 0; i < s->count; i++) ol_segment_detach(s->replaced[i]);
    ol_segment **place = log->list.segments + s->index;
    size_t after = log->list.count - s->index - s->count;
    place[0] = s->aside->segment;
    memmove(place + 1, place + s->count, after * sizeof *place);
    log->list.count -= s->count - 1;
    s->aside->segment->held = true;
    pthread_mutex_unlock(&log->list.lock);
    for (size_t i = 0; i < s->count; i++) ol_segment_release(s->replaced[i]);
}

static int put_in_place(swap *s, ol_error *error) {
    ol_log *log = s->log;
    int status = OL_OK;
    for (size_t i = s->count; i-- > 1 && status == OL_OK;) {
        status = ol_segment_remove_files(log->fs, log->directory, s->bases[i], error);
    }
    if (status == OL_OK && !s->has_transactions) {
        status = remove_file(log, first_base(s), 2, "", error);
    }
    for (int kind = FILE_KINDS; kind-- > 0 && s->has_tail && status == OL_OK;) {
        status = remove_file(log, last_base(s), kind, ".swap", error);
    }
    for (int kind = FILE_KINDS; kind-- > 0 && status == OL_OK;) {
        if (kind == 2 && !s->has_transactions) continue;
        status = rename_file(log, first_base(s), kind, ".swap", "", error);
    }
    if (status == OL_OK) status = log->fs->flush_directory(log->fs, log->directory, error);
    return status;
}

/* Called when the files have their final names: the next reader opens them again. */
static void let_go(ol_log *log, ol_segment *segment) {
    pthread_mutex_lock(&log->list.lock);
    segment->held = false;
    pthread_mutex_unlock(&log->list.lock);
    pthread_mutex_lock(&segment->lock);
    ol_segment_close_indexes(segment);
    pthread_mutex_unlock(&segment->lock);
    ol_segment_unuse(segment);
}

static bool is_snapshot_of(const char *name, int64_t *offset) {
    const char *suffix = NULL;
    return ol_file_name_parse(name, offset, &suffix) && strcmp(suffix, ".snapshot") == 0;
}

/* Removes producer snapshots named after a base that no longer exists, but never the newest.  The
 * next open removes one that could not be removed. */
static void remove_snapshots(swap *s) {
    ol_log *log = s->log;
    ol_error ignored;
    char **names = NULL;
    size_t name_count = 0;
    if (ol_directory_list(log->fs, log->directory, &names, &name_count, &ignored) != OL_OK) return;
    int64_t newest = -1;
    int64_t offset = 0;
    for (size_t i = 0; i < name_count; i++) {
        if (is_snapshot_of(names[i], &offset) && offset > newest) newest = offset;
    }
    for (size_t i = 0; i < name_count; i++) {
        char path[OL_PATH_MAX];
        if (!is_snapshot_of(names[i], &offset) || offset == newest || offset <= first_base(s) ||
            offset > last_base(s)) {
            continue;
        }
        bool named = false;
        for (size_t k = 1; k < s->count && !named; k++) named = s->bases[k] == offset;
        int status = named ? ol_log_path(log, names[i], path, &ignored) : OL_NO_SUCH_FILE;
        if (status == OL_OK) status = log->fs->remove(log->fs, path, &ignored);
        if (status == OL_CRASHED) break;
    }
    ol_directory_free_names(names, name_count);
}

/* ------------------------------------------------------------ all of it */

static int note_swap(const swap *s, ol_error *error) {
    const ol_aside *aside = s->aside;
    const ol_manifest_segment segment = {
        .base_offset = first_base(s),
        .end_offset = s->next_base,
        .size = aside->size,
        .checksum = aside->segment->checksum,
        .has_checksum = true,
    };
    return ol_log_note_swap(s->log, &segment, last_base(s), error);
}

/* Does everything up to the point of no return; a failure leaves nothing of the swap. */
static int prepare(swap *s, ol_error *error) {
    ol_aside *aside = s->aside;
    int status = ol_log_check_writable(s->log, error);
    if (status == OL_OK) status = check_replaced(s, error);
    if (status == OL_OK) status = remove_notes(s, error);
    if (status == OL_OK) status = add_empty_files(s, error);
    if (status == OL_OK) status = copy_time(s, error);
    if (status == OL_OK) {
        ol_segment_use_aside(aside->segment, aside->file, aside->size);
        aside->file = NULL;
        status = note_swap(s, error);
    }
    if (status == OL_OK) status = announce(s, error);
    if (status == OL_OK) return OL_OK;
    if (aside->file != NULL) {
        s->log->fs->close(aside->file);
    } else {
        ol_segment_unuse(aside->segment);
    }
    ol_segment_release(aside->segment);
    const int64_t bases[] = {first_base(s), last_base(s)};
    undo(s->log, bases, s->count > 1 ? 2 : 1);
    /* The next open may find leftovers, and finish the swap. */
    if (!s->log->swap.leftovers) ol_log_forget_swap(s->log);
    return status;
}

int ol_log_swap(ol_log *log, ol_aside *aside, const int64_t *bases, size_t count, ol_error *error) {
    swap s = {.log = log, .aside = aside, .bases = bases, .count = count};
    s.replaced = malloc(count * sizeof(ol_segment *));
    if (s.replaced == NULL) {
        log->fs->close(aside->file);
        int64_t base_offset = aside->segment->base_offset;
        ol_segment_release(aside->segment);
        ol_log_remove_aside(log, base_offset);
        return ol_fail(error, OL_NO_MEMORY, "no memory to swap %zu segments", count);
    }
    pthread_mutex_lock(&log->swap.lock);
    int status = prepare(&s, error);
    if (status == OL_OK) {
        status = log->fs->flush_directory(log->fs, log->directory, error);
        if (status == OL_OK) {
            exchange(&s);
            status = put_in_place(&s, error);
            if (status == OL_OK) remove_snapshots(&s);
            if (status == OL_OK) let_go(log, aside->segment);
            if (status == OL_OK) ol_log_forget_swap(log);
        } else {
            ol_segment_unuse(aside->segment);
            ol_segment_release(aside->segment);
        }
        /* The directory holds both the old and the new files, and only another open can resolve
         * that; nothing may be truncated or cleaned before. */
        if (status != OL_OK) ol_log_set_failed(log);
    }
    pthread_mutex_unlock(&log->swap.lock);
    free(s.replaced);
    return status;
}

void ol_log_remove_aside(ol_log *log, int64_t base_offset) {
    pthread_mutex_lock(&log->swap.lock);
    undo(log, &base_offset, 1);
    pthread_mutex_unlock(&log->swap.lock);
}

static bool is_left_over(const char *name, const char *ending) {
    int64_t number;
    const char *suffix = NULL;
    if (!ol_file_name_parse(name, &number, &suffix)) return false;
    size_t size = strlen(suffix);
    return size > strlen(ending) && strcmp(suffix + size - strlen(ending), ending) == 0;
}

static int clear_leftovers(ol_log *log, ol_error *error) {
    static const char *const endings[] = {".swap", ".cleaned"};
    char **names = NULL;
    size_t count = 0;
    int status = ol_directory_list(log->fs, log->directory, &names, &count, error);
    if (status != OL_OK) return status;
    for (size_t i = 0; i < 2; i++) {
        for (size_t at = 0; at < count && status == OL_OK; at++) {
            char path[OL_PATH_MAX];
            if (!is_left_over(names[at], endings[i])) continue;
            status = ol_log_path(log, names[at], path, error);
            if (status == OL_OK) status = log->fs->remove(log->fs, path, error);
        }
    }
    ol_directory_free_names(names, count);
    return status;
}

int ol_log_clear_leftovers_locked(ol_log *log, ol_error *error) {
    if (!log->swap.leftovers) return OL_OK;
    int status = clear_leftovers(log, error);
    if (status != OL_OK) return status;
    log->swap.leftovers = false;
    ol_log_forget_swap(log);
    return OL_OK;
}

int ol_log_clear_leftovers(ol_log *log, ol_error *error) {
    pthread_mutex_lock(&log->swap.lock);
    int status = ol_log_clear_leftovers_locked(log, error);
    pthread_mutex_unlock(&log->swap.lock);
    return status;
}
