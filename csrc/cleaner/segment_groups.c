/* Which segments become one (docs/format/cleaner.md §8.4), and what happens to those that cannot be cleaned. */
#include "cleaner/cleaner_impl.h"

/* What must be as before when a group is begun anew. */
typedef struct saved {
    ol_clean_open open;
    ol_clean_report report;
} saved;

/* How many segments from `first` on make one group. */
static size_t group_size(ol_clean_run *run, size_t first) {
    const ol_log_config *config = &run->log_options->config;
    int64_t size = 0, index_size = 0, time_index_size = 0;
    size_t count = 0;
    for (size_t i = first; i < run->segment_count; i++, count++) {
        const ol_clean_segment *segment = &run->segments[i];
        ol_log_segment_files files;
        ol_error ignored;
        if (segment->quarantined || segment->base_offset >= run->pass_end) break;
        if (ol_log_segment_files_at(run->log, segment->base_offset, &files, &ignored) != OL_OK) break;
        size += segment->size;
        index_size += files.index_size;
        time_index_size += files.time_index_size;
        if (count == 0) continue;
        if (size > config->segment_bytes || index_size > config->segment_index_bytes ||
            time_index_size > config->segment_index_bytes) {
            break;
        }
        if (segment->size > 0 && segment->next_base - 1 - run->segments[first].base_offset > INT32_MAX) break;
    }
    return count == 0 ? 1 : count;
}

static int save(ol_clean_run *run, saved *before, ol_error *error) {
    before->report = *run->report;
    return ol_clean_open_copy(&before->open, &run->open, error);
}

/* Bytes were moved, and quarantines stay. */
static int restore(ol_clean_run *run, saved *before, ol_error *error) {
    ol_clean_report now = *run->report;
    *run->report = before->report;
    run->report->bytes_read = now.bytes_read;
    run->report->bytes_written = now.bytes_written;
    return ol_clean_open_copy(&run->open, &before->open, error);
}

static bool is_this_groups(int status) {
    return ol_clean_is_damage(status) || status == OL_TOO_LARGE || status == OL_INVALID;
}

/* One group, or as much of it as can be.  *count is how many segments it took; 0: try again, with what is known now. */
static int clean_group(ol_clean_run *run, size_t first, size_t *count, saved *before, ol_error *error) {
    size_t bad = first;
    int status = save(run, before, error);
    if (status != OL_OK) return status;
    status = ol_clean_copy_group(run, first, *count, &bad, error);
    if (OL_LIKELY(!is_this_groups(status))) return status;
    ol_error damage = *error;
    int restored = restore(run, before, error);
    if (restored != OL_OK) return restored;
    if (!ol_clean_is_damage(status) && *count > 1) {
        /* They do not fit one segment after all, or are not what they were: each by itself then. */
        *count = 1;
        return clean_group(run, first, count, before, error);
    }
    *count = 0;
    return ol_clean_quarantine_segment(run, &run->segments[bad], &damage, error);
}

int ol_clean_groups(ol_clean_run *run, ol_error *error) {
    saved before = {.open = {0}};
    int status = OL_OK;
    ol_clean_open_clear(&run->open);
    for (size_t i = 0; i < run->segment_count && status == OL_OK;) {
        if (run->segments[i].base_offset >= run->pass_end) break;
        run->report->told_end = run->segments[i].next_base;
        if (run->segments[i].quarantined) {
            i++;
            continue;
        }
        size_t count = run->options->sink == NULL ? group_size(run, i) : 1;
        status = clean_group(run, i, &count, &before, error);
        i += count;
    }
    ol_clean_open_free(&before.open);
    return status;
}
