/* cleaner/survey: the bytes and records that a clean would free, counted by group and by reason,
 * while nothing is changed (docs/maintenance.md).
 *
 * A survey is a run of the cleaner that writes nothing.  The same code as in a clean decides every
 * record of the log, so a survey needs no rules of its own.  Pass B reports the outcome of every
 * record.  Everything that a clean leaves alone (above E, and quarantined segments) is walked after
 * the passes.  A record is *live* if the present state comes from it.  That is not decided by the
 * cleaner, but looked up in the partition's table, group records and pending values.  The state
 * keeps no record with an unknown key: such a record is live until it is superseded.
 *
 * Bytes are those of the batches.  A batch that loses records frees the difference between its size
 * and its rebuilt size.  The bytes of a batch are divided among its records in proportion to their
 * encoded sizes, those of its header evenly.  The bytes that it frees are divided among its dropped
 * records in the same proportion; if none is dropped, the bytes by which it grows are divided
 * evenly among all its records.  Batches without records are not counted. */
#ifndef OL_CLEANER_SURVEY_H
#define OL_CLEANER_SURVEY_H

#include "base/string_dictionary.h"
#include "cleaner/cleaner.h"

/* A clean that grows a batch, by a delete horizon, frees a negative number of bytes. */
typedef struct ol_clean_share {
    int64_t records;
    /* records that the present state or an open transaction comes from; every marker counts as
     * live */
    int64_t live_records;
    int64_t superseded;         /* the clean drops these and the next four kinds */
    int64_t aborted;
    int64_t expired_tombstones;
    int64_t expired_markers;
    int64_t keyless;
    int64_t tombstones;         /* tombstones that stay until their retention time has passed */
    int64_t markers;            /* likewise */
    double bytes;
    double live_bytes;
    double freed_bytes;
} ol_clean_share;

/* The result of a survey.  Zeroed memory is an empty result; ol_clean_survey_free frees it. */
typedef struct ol_clean_survey {
    ol_string_dictionary names;         /* group names, as they are in the keys */
    ol_clean_share *shares;  /* [0]: records without a group; [1 + i]: the group names[i] */
    size_t share_count;
    size_t share_capacity;
    int64_t segments;                   /* with records */
    int64_t batches;                    /* likewise */
} ol_clean_survey;
void ol_clean_survey_free(ol_clean_survey *survey);

/* Surveys a partition that is loaded; its log may be read-only.  `closes_active`: the result is as
 * if the active segment had been closed first (which `offsetlog compact` does), unless a
 * transaction is open.  The options `sink`, `raise_floor` and `first_dirty` are ignored: all of the
 * log is dirty.
 *
 * The report is that of a run with a sink.  The survey is useless if the report is not `complete`
 * (the keys did not fit map_bytes), or if the run was stopped or the log was truncated.  Like a
 * load, the survey skips damage; it reports the damaged segment as quarantined.  Fails as
 * ol_cleaner_run does.  OL_CHANGED: pass B found other bytes than pass A, because another process
 * replaced or truncated the file; after a new load, a survey may succeed. */
int ol_cleaner_survey(ol_partition *partition, const ol_clean_options *options, bool closes_active,
                      ol_clean_survey *survey, ol_clean_report *report, ol_error *error)
    OL_NODISCARD;

#endif
