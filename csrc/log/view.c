/* Opens a view by becoming a user of every segment that is in the list at one moment. */
#include "log/view.h"

#include <sched.h>
#include <stdlib.h>

#include "log/log_impl.h"

struct ol_log_view {
    ol_log *log;
    ol_segment **segments;      /* each is used, so that it stays readable */
    size_t count;
    uint64_t cuts;
};

static void release(ol_log_view *view) {
    for (size_t i = 0; i < view->count; i++) ol_segment_unuse(view->segments[i]);
    free(view->segments);
    view->segments = NULL;
    view->count = 0;
}

/* Copies the list, with a reference to each of the *count segments. */
static int copy_list(ol_log *log, ol_segment ***segments, size_t *count, ol_error *error) {
    pthread_mutex_lock(&log->list.lock);
    *count = log->list.count;
    *segments = malloc((*count + 1) * sizeof **segments);
    for (size_t i = 0; i < *count && *segments != NULL; i++) {
        (*segments)[i] = log->list.segments[i];
        ol_segment_reference(log->list.segments[i]);
    }
    pthread_mutex_unlock(&log->list.lock);
    return *segments != NULL
               ? OL_OK
               : ol_fail(error, OL_NO_MEMORY, "no memory for a view of %zu segments", *count);
}

/* OL_WOULD_BLOCK: a segment was replaced before it could be used, so the list must be copied
 * again. */
static int take(ol_log_view *view, ol_error *error) {
    ol_segment **segments = NULL;
    size_t count = 0;
    view->cuts = ol_log_cuts(view->log);
    int status = copy_list(view->log, &segments, &count, error);
    if (status != OL_OK) return status;
    view->segments = segments;
    for (size_t i = 0; i < count; i++) {
        /* A use is a separate reference.  Segments without a use keep their place in the array only
         * for this loop. */
        ol_segment *segment = segments[i];
        if (status == OL_OK && ol_segment_use(segment)) {
            segments[view->count++] = segment;
        } else {
            status = OL_WOULD_BLOCK;
        }
        ol_segment_release(segment);
    }
    if (status != OL_OK) release(view);
    return status;
}

int ol_log_view_open(ol_log *log, ol_log_view **view, ol_error *error) {
    if (!ol_log_is_writable(log)) {
        return ol_fail(error, OL_READ_ONLY,
                       "a read-only log cannot have a view, because another process may truncate "
                       "its files");
    }
    ol_log_view *created = calloc(1, sizeof *created);
    if (created == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for a view of a log");
    created->log = log;
    int status;
    do {
        status =
            atomic_load(&log->shared.half_cut)
                ? ol_fail(error, OL_FAILED,
                          "a truncation failed, so the log end is unknown; open the log again")
                : take(created, error);
    } while (status == OL_WOULD_BLOCK && sched_yield() == 0);
    if (status != OL_OK) {
        free(created);
        return status;
    }
    *view = created;
    return OL_OK;
}

bool ol_log_view_at(const ol_log_view *view, size_t index, ol_log_view_segment *segment) {
    if (index >= view->count) return false;
    const ol_segment *found = view->segments[index];
    segment->base_offset = found->base_offset;
    segment->size = atomic_load_explicit(&found->size, memory_order_acquire);
    segment->path = found->path;
    return true;
}

int ol_log_view_scan(const ol_log_view *view, size_t index, int64_t position, ol_file_scan *scan,
                     ol_error *error) {
    OL_ASSERT(index < view->count);
    ol_segment *segment = view->segments[index];
    int64_t size = atomic_load_explicit(&segment->size, memory_order_acquire);
    ol_file *file = NULL;
    bool shared = false;
    int status = ol_segment_open_file(segment, &file, &shared, error);
    if (status != OL_OK) return status;
    ol_file_scan_start(scan, view->log->fs, file, !shared, position, size);
    return OL_OK;
}

bool ol_log_view_is_current(const ol_log_view *view) {
    for (size_t i = 0; i < view->count; i++) {
        if (atomic_load(&view->segments[i]->detached)) return false;
    }
    return ol_log_cuts(view->log) == view->cuts;
}

void ol_log_view_close(ol_log_view *view) {
    if (view == NULL) return;
    release(view);
    free(view);
}
