/* A topic as the owner of a log that is cleaned.  Such a log is never truncated and never
 * loaded. */
#include "cleaner/cleaner_impl.h"

static int find_limit(ol_clean_scope *scope, int64_t *log_end, ol_error *error) {
    if (!ol_log_is_writable(scope->log)) {
        return ol_fail(error, OL_READ_ONLY, "the log is open read-only");
    }
    ol_topic_stable stable;
    scope->cuts = ol_log_cuts(scope->log);
    int status = ol_topic_log_stable(scope->topic, &stable, error);
    if (status != OL_OK) return status;
    *log_end = stable.log_end;
    scope->limit = stable.first_unstable;
    scope->producers = stable.producers;
    scope->producer_count = stable.producer_count;
    return OL_OK;
}

static int flush(const ol_clean_scope *scope, int64_t log_end, ol_error *error) {
    (void)log_end;
    int64_t flushed = 0;
    return ol_log_flush_unasked(scope->log, &flushed, error);
}

static int hold_swap(const ol_clean_scope *scope, ol_error *error) {
    (void)scope;
    (void)error;
    return OL_OK;
}

static void release_swap(const ol_clean_scope *scope) { (void)scope; }

int ol_cleaner_run_topic(ol_topic_log *topic, const ol_clean_options *options,
                         ol_clean_report *report, ol_error *error) {
    static const ol_clean_owner owner = {find_limit, flush, hold_swap, release_swap};
    ol_log_options log_options;
    ol_topic_log_options(topic, &log_options);
    const ol_clean_scope scope = {
        .owner = &owner,
        .topic = topic,
        .keys_are_bytes = true,
        .log = ol_topic_log_log(topic),
        .log_options = &log_options,
    };
    ol_clean_options own = *options;
    own.use_table = false;
    own.holds = NULL;
    own.hold_count = 0;
    return ol_clean_log(&scope, &own, report, error);
}
