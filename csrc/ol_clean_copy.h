/* ol_clean_copy: what the files of pass B share; nobody else includes it.
 *
 * ol_clean_copy (batches of data, segments), ol_clean_markers (control batches), ol_clean_write (what becomes of a batch that was decided). */
#ifndef OL_CLEAN_COPY_H
#define OL_CLEAN_COPY_H

#include "ol_clean_internal.h"

typedef struct ol_clean_copier {
    ol_clean_run *run;
    size_t first;               /* of run->segments */
    size_t count;
    ol_clean_segment *segment;  /* the current one */
    ol_clean_source source;
    ol_cleaned *cleaned;        /* NULL: nothing differs yet */
    int64_t next_offset;        /* behind the batch before the current one, or the base of the group */
    int64_t unpaced;            /* bytes written that the pace was not told of */
    size_t row_count;           /* waiting in run->rows */
    size_t batch_count;         /* whose rows they are */
    ol_clean_verdict verdict;   /* of the batch that is being added */
    bool index_read;
    ol_aborted_transaction *index;          /* what the .txnindex files say of markers in the group */
    size_t index_count;
    size_t index_capacity;
    ol_aborted_transaction *aborted;        /* of the markers that stay */
    size_t aborted_count;
    size_t aborted_capacity;
} ol_clean_copier;

/* ol_clean_copy.c: decides all rows that wait, and writes their batches. */
int ol_clean_flush_rows(ol_clean_copier *copy, ol_error *error) OL_NODISCARD;

/* ol_clean_markers.c */
int ol_clean_add_control(ol_clean_copier *copy, const ol_batch *batch, ol_error *error) OL_NODISCARD;

/* ol_clean_write.c.  Everything from `position` of the current segment on is written, and what stands before it is copied. */
int ol_clean_start_writing(ol_clean_copier *copy, int64_t position, ol_error *error) OL_NODISCARD;
int ol_clean_put_batch(ol_clean_copier *copy, const ol_batch *batch, ol_clean_result result, ol_error *error) OL_NODISCARD;
/* Completes `choice`, of which the kept records are known, rebuilds and puts.  `begins_horizon`: the time of a tombstone or a marker begins. */
int ol_clean_finish_batch(ol_clean_copier *copy, const ol_batch *batch, int64_t record_count, ol_clean_choice *choice,
                          bool begins_horizon, ol_clean_result *result, ol_error *error) OL_NODISCARD;
/* Puts the segment in place of the group.  OL_END where the log was cut. */
int ol_clean_swap_in(ol_clean_copier *copy, ol_error *error) OL_NODISCARD;

#endif
