/* Extends the active segment before the space is needed, makes spare segments, and begins the next
 * segment (a roll).
 *
 * A roll does not flush the old segment, unless too many earlier ones are not flushed either; the
 * next ol_log_flush does.  Until then a power loss may destroy the end of the old segment's file,
 * whose size was never flushed, and leave the new segment whole.  Since gaps between offsets are
 * legal, the loss would look like a cleaned log.  Therefore a roll first creates a note: an empty
 * file whose *name* has the size of the old segment and the base offset of the new one.  Names
 * reach the disk in order, so if the new segment is on the disk, the note is, too.  The flush that
 * covers the old segment removes the note. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log/log_impl.h"
#include "log/swap_plan.h"

int ol_log_rolled_name(char *name, size_t capacity, int64_t base_offset, int64_t size,
                       int64_t next_base) {
    int length = snprintf(name, capacity, OL_ROLLED_PREFIX "%" PRId64 "-%" PRId64 "-%" PRId64,
                          base_offset, size, next_base);
    return length > 0 && (size_t)length < capacity ? OL_OK : OL_INVALID;
}

bool ol_log_rolled_parse(const char *name, int64_t *base_offset, int64_t *size,
                         int64_t *next_base) {
    if (strncmp(name, OL_ROLLED_PREFIX, strlen(OL_ROLLED_PREFIX)) != 0) return false;
    int64_t *const fields[] = {base_offset, size, next_base};
    const char *cursor = name + strlen(OL_ROLLED_PREFIX);
    for (int i = 0; i < 3; i++) {
        if (*cursor < '0' || *cursor > '9') return false;
        char *end = NULL;
        unsigned long long value = strtoull(cursor, &end, 10);
        if (value > INT64_MAX || *end != (i < 2 ? '-' : '\0')) return false;
        *fields[i] = (int64_t)value;
        cursor = end + 1;
    }
    return true;
}

int64_t ol_log_rolled_first(const ol_opening *opening, int64_t base_offset) {
    int64_t first = base_offset, base, size, next;
    for (size_t i = 0; i < opening->name_count;) {
        bool leads = ol_log_rolled_parse(opening->names[i], &base, &size, &next) && next == first &&
                     base < first;
        /* The search begins again after each hit, because names come in any order and `first` only
         * decreases. */
        if (leads) first = base;
        i = leads ? 0 : i + 1;
    }
    int64_t start = opening->log_start;
    if (first >= start) return first;
    return start < base_offset ? start : base_offset;
}

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Under extension.lock. */
static int extend_segment(ol_log *log, ol_segment *segment, int64_t needed, ol_error *error) {
    int64_t extended = atomic_load_explicit(&segment->extended, memory_order_relaxed);
    if (needed <= atomic_load_explicit(&segment->populated, memory_order_relaxed)) return OL_OK;
    if (needed <= extended) return ol_segment_extend(segment, extended, false, error);
    int64_t target = extended + log->extension.step_bytes;
    target -= target % 4096;
    if (target > (int64_t)segment->mapped_size) target = (int64_t)segment->mapped_size;
    if (target < needed) target = needed;
    /* Writing every byte twice pays off only if a caller waits for the disk. */
    bool written = atomic_load(&log->signals.flush_demanded);
    int status = ol_segment_extend(segment, target, written, error);
    if (status == OL_DISK_FULL && target > needed) {
        status = ol_segment_extend(segment, needed, written, error);
    }
    if (status != OL_OK) return status;
    if (log->extension.step_bytes < log->config.extend_bytes_max) log->extension.step_bytes *= 2;
    if (log->extension.step_bytes > log->config.extend_bytes_max) {
        log->extension.step_bytes = log->config.extend_bytes_max;
    }
    return OL_OK;
}

int ol_log_extend(ol_log *log, int64_t needed, ol_error *error) {
    if (needed <= atomic_load_explicit(&log->tail.active->populated, memory_order_acquire)) {
        return OL_OK;
    }
    pthread_mutex_lock(&log->extension.lock);
    int status = extend_segment(log, log->tail.active, needed, error);
    pthread_mutex_unlock(&log->extension.lock);
    return status;
}

/* Under extension.lock: adds a spare segment whose first `bytes` are allocated. */
static int add_spare(ol_log *log, int64_t bytes, ol_error *error) {
    if (log->extension.spare_count == log->extension.spare_capacity) {
        size_t capacity = log->extension.spare_capacity == 0 ? 4
                                                             : 2 * log->extension.spare_capacity;
        ol_segment **spares = realloc(log->extension.spares, capacity * sizeof *spares);
        if (spares == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a spare segment");
        log->extension.spares = spares;
        log->extension.spare_capacity = capacity;
    }
    char name[64];
    char path[OL_PATH_MAX];
    snprintf(name, sizeof name, OL_SPARE_PREFIX "%" PRId64, log->extension.spare_number);
    int status = ol_log_path(log, name, path, error);
    if (status != OL_OK) return status;
    ol_segment *spare = NULL;
    status = ol_segment_create(log->fs, log->directory, path, log->extension.spare_number, 0,
                               &spare, error);
    if (status != OL_OK) return status;
    ol_file *file = NULL;
    status = log->fs->open(log->fs, path, OL_OPEN_CREATE, &file, error);
    if (status == OL_OK) {
        status = log->fs->truncate(file, 0, error);
        if (status != OL_OK) log->fs->close(file);
    }
    if (status == OL_OK) {
        status = ol_segment_use_writable(spare, file, (size_t)log->config.segment_bytes,
                                         log->config.append, error);
    }
    if (status == OL_OK) {
        status = ol_segment_extend(spare, bytes, atomic_load(&log->signals.flush_demanded), error);
        if (status != OL_OK) ol_segment_unuse(spare);
    }
    if (status != OL_OK) {
        ol_error ignored;
        int removed = log->fs->remove(log->fs, path, &ignored);
        (void)removed;
        ol_segment_release(spare);
        return status;
    }
    log->extension.spare_number++;
    log->extension.spares[log->extension.spare_count++] = spare;
    return OL_OK;
}

/* Under extension.lock: drops all spares except the first `kept`. */
static int drop_spares_after(ol_log *log, size_t kept, ol_error *error) {
    int status = OL_OK;
    while (log->extension.spare_count > kept) {
        ol_segment *spare = log->extension.spares[--log->extension.spare_count];
        int removed = log->fs->remove(log->fs, spare->path, error);
        if (status == OL_OK) status = removed;
        ol_segment_unuse(spare);
        ol_segment_release(spare);
    }
    return status;
}

int ol_log_drop_spares(ol_log *log, ol_error *error) { return drop_spares_after(log, 0, error); }

/* Makes a spare the next segment.  The same object becomes the segment, because the background may
 * be flushing its file right now. */
static int take_spare(ol_log *log, int64_t base_offset, const char *path, ol_segment **segment,
                      ol_error *error) {
    ol_segment *spare = log->extension.spares[0];
    char *path_copy = strdup(path);
    if (path_copy == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a segment");
    int status = log->fs->rename(log->fs, spare->path, path, error);
    if (status != OL_OK) {
        free(path_copy);
        return status;
    }
    free(spare->path);
    spare->path = path_copy;
    spare->base_offset = base_offset;
    spare->max_timestamp_offset = base_offset;
    log->extension.spare_count--;
    memmove(log->extension.spares, log->extension.spares + 1,
            log->extension.spare_count * sizeof *log->extension.spares);
    *segment = spare;
    return OL_OK;
}

static int create_segment(ol_log *log, int64_t base_offset, const char *path, ol_segment **segment,
                          ol_error *error) {
    ol_segment *created = NULL;
    ol_file *file = NULL;
    int status = ol_segment_create(log->fs, log->directory, path, base_offset, 0, &created, error);
    if (status != OL_OK) return status;
    status = log->fs->open(log->fs, path, OL_OPEN_CREATE, &file, error);
    if (status == OL_OK) {
        status = log->fs->truncate(file, 0, error);
        if (status != OL_OK) log->fs->close(file);
    }
    if (status == OL_OK) {
        status = ol_segment_use_writable(created, file, (size_t)log->config.segment_bytes,
                                         log->config.append, error);
    }
    if (status != OL_OK) {
        ol_segment_release(created);
        return status;
    }
    *segment = created;
    return OL_OK;
}

/* Removes the files of a new segment that was not completed.  They must not stay: the active
 * segment will grow past the base of the new one, and the next open would find both.  If a file
 * cannot be removed, the log therefore fails.  A power loss must not bring the file back either:
 * its name may be on disk already, so the next flush must cover the removal. */
static void remove_leftover(ol_log *log, int64_t base_offset) {
    ol_error ignored;
    if (ol_segment_remove_files(log->fs, log->directory, base_offset, &ignored) != OL_OK) {
        ol_log_set_failed(log);
    }
    atomic_store(&log->signals.names_changed, true);
}

int ol_log_start_segment(ol_log *log, int64_t base_offset, ol_segment **segment, ol_error *error) {
    char path[OL_PATH_MAX];
    ol_segment *created = NULL;
    int status = ol_segment_path(path, sizeof path, log->directory, base_offset, ".log", error);
    if (status != OL_OK) return status;
    if (log->extension.spare_count > 0) {
        status = take_spare(log, base_offset, path, &created, error);
    } else {
        status = create_segment(log, base_offset, path, &created, error);
    }
    if (status != OL_OK) {
        remove_leftover(log, base_offset);
        return status;
    }
    /* A leftover index of that number must not describe the new segment. */
    status = ol_segment_open_indexes(created, (size_t)log->config.segment_index_bytes, error);
    if (status == OL_OK) status = ol_index_reset(&created->offset_index, error);
    if (status == OL_OK) status = ol_index_reset(&created->time_index, error);
    if (status == OL_OK && created->transaction_index.count > 0) {
        status = ol_transaction_index_reset(&created->transaction_index, error);
    }
    if (status != OL_OK) {
        remove_leftover(log, base_offset);
        ol_segment_unuse(created);
        ol_segment_release(created);
        return status;
    }
    created->created_ms = now_ms();
    atomic_store(&log->signals.names_changed, true);
    *segment = created;
    return OL_OK;
}

void ol_log_activate(ol_log *log, ol_segment *segment) {
    log->tail.active = segment;
    log->tail.data = segment->data;
    log->tail.slow_publish = segment->is_written || log->stored != NULL;
    log->tail.index_full = ol_index_is_full(&segment->offset_index) ||
                           ol_index_is_full(&segment->time_index);
    ol_log_set_limits(log);
}

static int note_path(const ol_log *log, int64_t next_base, char path[OL_PATH_MAX],
                     ol_error *error) {
    char name[128];
    if (ol_log_rolled_name(name, sizeof name, log->tail.active->base_offset, log->tail.size,
                           next_base) != OL_OK) {
        return ol_fail(error, OL_INVALID,
                       "the name of the file that records the segment's end is too long");
    }
    return ol_log_path(log, name, path, error);
}

/* Removes the note of a roll that did not happen: the segment stays active, and the note would
 * state a wrong end. */
static void take_note_back(ol_log *log, int64_t next_base) {
    char path[OL_PATH_MAX];
    ol_error ignored;
    int status = note_path(log, next_base, path, &ignored);
    if (status == OL_OK) status = log->fs->remove(log->fs, path, &ignored);
    if (status != OL_OK && status != OL_NO_SUCH_FILE) ol_log_set_failed(log);
    atomic_store(&log->signals.names_changed, true);
}

/* Creates a note of the size of the active segment, which `next_base` will follow. */
static int leave_note(ol_log *log, int64_t next_base, ol_error *error) {
    char path[OL_PATH_MAX];
    int status = note_path(log, next_base, path, error);
    ol_file *file = NULL;
    if (status == OL_OK) status = log->fs->open(log->fs, path, OL_OPEN_CREATE, &file, error);
    if (status == OL_OK) log->fs->close(file);
    return status;
}

/* Called when the flush that covered the roll could not remove the note. */
int ol_log_remove_stayed_note(ol_log *log, ol_segment *segment, ol_error *error) {
    char name[128];
    char path[OL_PATH_MAX];
    pthread_mutex_lock(&log->list.lock);
    bool stayed = segment->note_stayed;
    pthread_mutex_unlock(&log->list.lock);
    if (!stayed) return OL_OK;
    int status = ol_log_rolled_name(name, sizeof name, segment->base_offset,
                                    atomic_load(&segment->size), segment->next_base);
    if (status == OL_OK) status = ol_log_path(log, name, path, error);
    if (status == OL_OK) status = log->fs->remove(log->fs, path, error);
    return status == OL_NO_SUCH_FILE ? OL_OK : status;
}

/* Truncates the file of the active segment to its true size. */
static int trim_active(ol_log *log, ol_error *error) {
    ol_segment *active = log->tail.active;
    int64_t extended = atomic_load(&active->extended);
    /* If another process truncated the file, trimming would restore its length with zeros. */
    int status = ol_segment_check_length(active, log->tail.size, error);
    if (status != OL_OK || extended <= log->tail.size) return status;
    /* `populated` is lowered first, so that no thread that reads it stores beyond the new end of
     * the file. */
    int64_t populated = atomic_load(&active->populated);
    atomic_store(&active->extended, log->tail.size);
    atomic_store(&active->populated, log->tail.size);
    status = log->fs->truncate(active->file, log->tail.size, error);
    if (status != OL_OK) {
        /* The file is still as long as before, and the next roll must see that. */
        atomic_store(&active->extended, extended);
        atomic_store(&active->populated, populated);
    }
    return status;
}

/* Flushes the log if too many rolled segments wait for a flush, because no background thread
 * flushes them, or not fast enough.  The writer then waits for the disk. */
static int flush_rolled(ol_log *log, ol_error *error) {
    int64_t flushed = 0;
    if (ol_log_count_unflushed(log) < OL_UNFLUSHED_MAX) return OL_OK;
    return ol_log_flush_unasked(log, &flushed, error);
}

/* Prepares the next segment, with the space that is kept for the ends of transactions, and then
 * trims the active one.  Until then the active segment has that space as well, so a roll that a
 * full disk refuses leaves it there. */
static int prepare_next(ol_log *log, int64_t base_offset, ol_segment **next, ol_error *error) {
    ol_segment *created = NULL;
    int status = ol_log_reserve_segment(log, error);
    if (status == OL_OK) status = leave_note(log, base_offset, error);
    if (status == OL_OK) status = ol_log_start_segment(log, base_offset, &created, error);
    if (status == OL_OK) {
        status = ol_log_carry_ends(log, created, error);
        if (status == OL_OK) status = trim_active(log, error);
        if (status != OL_OK) {
            remove_leftover(log, base_offset);
            ol_segment_unuse(created);
            ol_segment_release(created);
        }
    }
    if (status != OL_OK) take_note_back(log, base_offset);
    *next = created;
    return status;
}

/* Frees the space that was kept in the transaction index of a segment that is no longer written to;
 * if that fails, it costs one block. */
static void trim_transactions(ol_segment *segment) {
    ol_error ignored;
    pthread_mutex_lock(&segment->lock);
    int status = ol_transaction_index_trim(&segment->transaction_index, &ignored);
    pthread_mutex_unlock(&segment->lock);
    (void)status;
}

int ol_log_roll(ol_log *log, int64_t base_offset, ol_error *error) {
    ol_segment *old = log->tail.active;
    ol_segment *next = NULL;
    OL_ASSERT(base_offset >= log->tail.next_offset);
    if (base_offset == old->base_offset) {
        return ol_fail(error, OL_TOO_LARGE, "the batch does not fit an empty segment");
    }
    int status = flush_rolled(log, error);
    if (status != OL_OK) return status;
    pthread_mutex_lock(&log->extension.lock);
    status = ol_segment_finish_indexes(old, error);
    if (status == OL_OK && log->producers.snapshot_offset < base_offset) {
        status = ol_log_store_snapshot(log, base_offset, false, error);
    }
    if (status == OL_OK) status = prepare_next(log, base_offset, &next, error);
    if (status == OL_OK) {
        int added = ol_log_add_segment(log, next, error);
        OL_ASSERT(added == OL_OK);
        pthread_mutex_lock(&log->list.lock);
        old->flush_needed = true;
        old->rolled_note = true;
        atomic_store(&log->signals.roll_unflushed, true);
        old->next_base = base_offset;
        ol_log_activate(log, next);
        pthread_mutex_unlock(&log->list.lock);
        trim_transactions(old);
    }
    pthread_mutex_unlock(&log->extension.lock);
    return status;
}

int ol_log_roll_active(ol_log *log, ol_error *error) {
    int status = ol_log_check_writable(log, error);
    if (status != OL_OK || log->tail.size == 0) return status;
    atomic_store(&log->signals.appended, true);
    return ol_log_roll(log, log->tail.next_offset, error);
}

int ol_log_change_config(ol_log *log, const ol_log_config *config, ol_error *error) {
    ol_log_config changed = log->config;
    changed.segment_bytes = config->segment_bytes;
    changed.segment_ms = config->segment_ms;
    changed.index_interval_bytes = config->index_interval_bytes;
    changed.segment_index_bytes = config->segment_index_bytes;
    changed.producer_expiration_ms = config->producer_expiration_ms;
    int status = ol_log_check_config(&changed, error);
    if (status != OL_OK) return status;
    pthread_mutex_lock(&log->extension.lock);
    /* Spares were made for segments of the old size. */
    if (changed.segment_bytes != log->config.segment_bytes) status = ol_log_drop_spares(log, error);
    if (status == OL_OK) {
        log->config = changed;
        if (log->tail.active != NULL) ol_log_set_limits(log);
    }
    pthread_mutex_unlock(&log->extension.lock);
    return status;
}

int ol_log_reserve_space(ol_log *log, int64_t size, size_t batch_size_max, ol_error *error) {
    int status = ol_log_check_writable(log, error);
    int64_t segment_bytes = log->config.segment_bytes;
    int64_t kept = ol_log_kept_bytes(log);
    int64_t segment_room = segment_bytes - kept;
    int64_t batch_max = (int64_t)batch_size_max;
    if (status == OL_OK && (size < 0 || batch_size_max == 0 || batch_max > segment_room)) {
        status = ol_fail(error, OL_INVALID,
                         "space cannot be reserved: its size is negative, or the largest batch is "
                         "empty or does not fit a segment");
    }
    /* Otherwise a roll between two batches could meet a full disk. */
    if (status == OL_OK && size <= segment_room &&
        size > log->tail.size_limit - log->tail.size - kept) {
        status = ol_log_roll_active(log, error);
    }
    if (status != OL_OK) return status;
    int64_t room = log->tail.size_limit - log->tail.size - kept;
    pthread_mutex_lock(&log->extension.lock);
    size_t spares_before = log->extension.spare_count;
    if (size <= room) {
        status = extend_segment(log, log->tail.active, log->tail.size + size + kept, error);
    } else {
        if (room > 0) status = extend_segment(log, log->tail.active, log->tail.size_limit, error);
        int64_t rest = size - (room >= batch_max ? room - batch_max + 1 : 0);
        /* A roll comes when the next batch does not fit, so a segment holds more than segment_room
         * - batch_max, and two in a row hold more than the room of one. */
        int64_t each = segment_room - batch_max + 1;
        int64_t needed = (rest + each - 1) / each;
        int64_t by_pairs = 2 * ((rest + segment_room - 1) / segment_room) + 1;
        if (needed > by_pairs) needed = by_pairs;
        for (size_t i = 0; i < log->extension.spare_count && status == OL_OK; i++) {
            status = ol_segment_extend(log->extension.spares[i], segment_bytes,
                                       atomic_load(&log->signals.flush_demanded), error);
        }
        while (status == OL_OK && (int64_t)log->extension.spare_count < needed) {
            status = add_spare(log, segment_bytes, error);
        }
    }
    /* A refused call must not keep the disk full, which other programs need, too. */
    if (status != OL_OK) {
        ol_error ignored;
        int dropped = drop_spares_after(log, spares_before, &ignored);
        (void)dropped;
    }
    pthread_mutex_unlock(&log->extension.lock);
    return status;
}

/* The kernel reports a lost page only once to all users of an open file, and this time perhaps to
 * us.  So the log fails before the step is over, and a flush that succeeded concurrently waits for
 * that (wait_for_step). */
static int flush_step(ol_log *log, ol_segment *segment, int64_t from, int64_t to) {
    ol_error ignored;
    uint64_t step = atomic_load(&log->steps.newest) + 1;
    pthread_mutex_lock(&log->steps.locks[step & 1]);
    atomic_store(&log->steps.newest, step);
    int status = ol_segment_flush_range(segment, from, to, &ignored);
    if (status != OL_OK) ol_log_set_failed(log);
    pthread_mutex_unlock(&log->steps.locks[step & 1]);
    return status;
}

/* Flushes [from, to) of an extension that is in use, and makes its pages writable again; otherwise
 * the next store to each page would fault during a commit.  It works in small steps, because other
 * flushes wait for each step, and the writer may need the lock. */
static void flush_extension(ol_log *log, ol_segment *segment, int64_t from, int64_t to) {
    const int64_t step = (int64_t)256 << 10;
    ol_error ignored;
    int status = OL_OK;
    for (int64_t at = from; at < to && status == OL_OK; at += step) {
        int64_t end = at + step < to ? at + step : to;
        status = flush_step(log, segment, at, end);
        pthread_mutex_lock(&log->extension.lock);
        /* A roll or a truncation may have shortened the file. */
        if (status == OL_OK &&
            atomic_load_explicit(&segment->extended, memory_order_relaxed) >= end) {
            status = log->fs->populate(segment->file, segment->data, (size_t)at, (size_t)end,
                                       &ignored);
            /* The writer relies on these pages. */
            if (status != OL_OK) ol_log_set_failed(log);
        }
        pthread_mutex_unlock(&log->extension.lock);
    }
}

/* The extension of a file that is written to is metadata, which the next flush stores. */
static ol_segment *to_be_flushed(ol_log *log, ol_segment *segment) {
    bool demanded = atomic_load(&log->signals.flush_demanded);
    return demanded && !segment->is_written ? segment : NULL;
}

bool ol_log_prepare(ol_log *log) {
    if (!log->writable || !atomic_load(&log->signals.appended) ||
        atomic_load(&log->shared.failed)) {
        return false;
    }
    ol_error ignored;
    bool did = false;
    ol_segment *to_flush = NULL;
    int64_t flush_from = 0;
    pthread_mutex_lock(&log->extension.lock);
    /* A truncation that failed while we waited may have left no active segment. */
    if (atomic_load(&log->shared.failed)) {
        pthread_mutex_unlock(&log->extension.lock);
        return false;
    }
    ol_segment *active = log->tail.active;
    int64_t limit = (int64_t)active->mapped_size;
    if (limit > log->config.segment_bytes) limit = log->config.segment_bytes;
    int64_t size = atomic_load_explicit(&active->size, memory_order_acquire);
    int64_t extended = atomic_load_explicit(&active->extended, memory_order_relaxed);
    int64_t ahead = extended - size - ol_log_kept_bytes(log);
    if (extended < limit && ahead < log->extension.step_bytes / 2) {
        int64_t target = extended + log->extension.step_bytes > limit
                             ? limit
                             : extended + log->extension.step_bytes;
        if (extend_segment(log, active, target, &ignored) == OL_OK) {
            did = true;
            flush_from = extended;
            to_flush = to_be_flushed(log, active);
        }
    } else if (log->extension.spare_count == 0 && size > limit / 2 &&
               limit - size < 2 * log->config.extend_bytes_max) {
        int64_t bytes = log->extension.step_bytes < log->config.segment_bytes
                            ? log->extension.step_bytes
                            : log->config.segment_bytes;
        if (add_spare(log, bytes, &ignored) == OL_OK) {
            did = true;
            to_flush = to_be_flushed(log, log->extension.spares[log->extension.spare_count - 1]);
        }
    }
    /* The flush runs without the lock, which the writer may need for the next step.  A use keeps
     * the file open. */
    if (to_flush != NULL && !ol_segment_use(to_flush)) to_flush = NULL;
    int64_t flush_to = to_flush == NULL
                           ? 0
                           : atomic_load_explicit(&to_flush->extended, memory_order_relaxed);
    pthread_mutex_unlock(&log->extension.lock);
    if (to_flush != NULL) {
        flush_extension(log, to_flush, flush_from, flush_to);
        ol_segment_unuse(to_flush);
    }
    return did;
}
