/* cleaner/survey: the bytes and records that a clean would free, counted by group and by reason,
 * while nothing is changed (docs/maintenance.md).
 *
 * A survey is a run of the cleaner that writes nothing.  The code of the cleaner decides about
 * every record, so that a survey needs no rules of its own.  Pass B reports the outcome of every
 * record.  After the passes, the survey reads what a clean leaves alone: everything above E, and
 * the quarantined segments.  A record is *live* if the present state of the partition comes from
 * it.  To find this out, the survey does not ask the cleaner, but looks the record up in the
 * partition's table, group records and pending values.  The state keeps no records with unknown
 * keys.  A survey counts such a record as live if no later record supersedes it.
 *
 * All numbers of bytes are sizes of batches.  If a batch loses records, it frees the difference
 * between its old and its new size.  The bytes of a batch are divided among its records: the bytes
 * of its records in proportion to their encoded sizes, and the bytes of its header evenly.  The
 * bytes that a batch frees are divided among its dropped records in proportion to their encoded
 * sizes.  If no record is dropped, the bytes by which the batch grows are divided evenly among all
 * its records.  Batches without records are not counted. */
#ifndef OL_CLEANER_SURVEY_H
#define OL_CLEANER_SURVEY_H

#include "base/string_dictionary.h"
#include "cleaner/cleaner.h"

/* A clean that gives a batch a delete horizon may make the batch larger.  The number of freed bytes
 * is then negative. */
typedef struct ol_clean_share {
    int64_t records;
    /* Records from which the present state or an open transaction comes.  Every marker counts as
     * live. */
    int64_t live_records;
    /* The clean drops the records that this field and the next four fields count.  Each dropped
     * record is counted in one of these five fields. */
    int64_t superseded;
    int64_t aborted;
    int64_t expired_tombstones;
    int64_t expired_markers;
    int64_t keyless;
    int64_t tombstones;         /* tombstones that stay until their retention time has passed */
    int64_t markers;            /* markers that stay until their retention time has passed */
    double bytes;
    double live_bytes;
    double freed_bytes;
} ol_clean_share;

/* The result of a survey.  Zeroed memory is an empty result; ol_clean_survey_free frees it. */
typedef struct ol_clean_survey {
    ol_string_dictionary names;  /* the names of the groups, with the same bytes as in the keys */
    ol_clean_share *shares;  /* shares[0] counts the records without a group; shares[1 + i] counts
                                those of the group names[i] */
    size_t share_count;
    size_t share_capacity;
    int64_t segments;                   /* number of segments that have records */
    int64_t batches;                    /* number of batches that have records */
} ol_clean_survey;
void ol_clean_survey_free(ol_clean_survey *survey);

/* Surveys a partition, which must be loaded.  Its log may be open read-only.  If `closes_active` is
 * true, the survey shows the effect of `offsetlog compact`, which closes the active segment first.
 * If a transaction is open, `closes_active` has no effect.  The survey treats all of the log as
 * dirty, and ignores the options `sink`, `raise_floor` and `first_dirty`.
 *
 * The report has the fields that a run with a sink reports.  The caller must discard the survey if
 * `complete` is false in the report (the keys did not fit map_bytes), or if `stopped` or
 * `truncated` is true.  A survey skips damage, as a load does, and reports the damaged segment as
 * quarantined.  Returns OL_CHANGED if pass B found other bytes than pass A, because another
 * process replaced or truncated the file; the caller may load the partition again and repeat the
 * survey.  Otherwise fails as ol_cleaner_run does. */
int ol_cleaner_survey(ol_partition *partition, const ol_clean_options *options, bool closes_active,
                      ol_clean_survey *survey, ol_clean_report *report, ol_error *error)
    OL_NODISCARD;

#endif
