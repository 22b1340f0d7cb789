/* log/log_impl: the private struct of the log, and the calls that its files share; nothing outside
 * log/ includes it.
 *
 *   log             positions, epochs, producers, close
 *   append          the hot path
 *   ends            space for the ends of transactions
 *   roll            extension, spares, the next segment
 *   flush, truncate
 *   delete_below    removes segments at the start
 *   keep_manifest   the log's manifest
 *   reader, read    walks the log; reads into a caller's buffer
 *   view            the segments of one moment
 *   offset_for_time, transaction_spans   the offset of a time; where transactions began and ended
 *   segment_rewrite, segment_swap        writes a cleaned segment aside; puts it in place of others
 *   segment_info, segment_checksum       facts about segment files
 *   open            the order of opening
 *   settled         what an open need not read
 *   recover         torn or corrupt
 *   recover_aside   copies of truncated bytes
 *   repair          accepted loss
 *   rebuild         indexes and producer state from the log
 *   completeness    whether anything is missing
 *
 * On failure a call leaves the log as it was, unless it says otherwise; *error says why.
 */
#ifndef OL_LOG_LOG_IMPL_H
#define OL_LOG_LOG_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "log/files/flush_sidecar.h"
#include "log/files/leader_epochs.h"
#include "log/log.h"
#include "log/files/manifest.h"
#include "log/files/names.h"
#include "log/files/producers.h"
#include "log/segment.h"

#define OL_ROLLED_PREFIX "offsetlog.rolled-"
/* Prefix of a file name, followed by the offset of a truncation that has begun. */
#define OL_CUT_PREFIX "offsetlog.cut-"
#define OL_EPOCHS_FILE "leader-epoch-checkpoint"

/* Each part has one owner.  The locks, in the order in which they are taken; the comments of the
 * parts below, and of log/segment.h, have the details:
 *
 *   1  swap.lock         replacing and cutting segments below the log end
 *   2  flush.lock        a flush, the flushed bound and its sidecar
 *   3  extension.lock    the zeros after the last batch, spares, the choice of the active segment
 *   4  manifest.lock     the manifest, and the epochs that it names
 *   5  list.lock         the list of segments and their flags of a flush
 *   6  epochs.lock       leader epochs
 *   7  segment->lock     a segment's file, counts and indexes
 *   8  steps.locks       the steps in which the background flushes an extension; read.lock, under
 *                        which no other is taken
 */
struct ol_log {
    /* The end of the log, which reserve and publish move.  Only the writer uses it; `active`
     * changes under extension.lock and list.lock. */
    struct {
        ol_segment *active;
        uint8_t *data;                  /* of the active segment */
        int64_t size;                   /* size of the active segment; segment->size publishes it */
        int64_t next_offset;            /* shared.end publishes it */
        int64_t size_limit;             /* greatest size of the active segment */
        int64_t offset_limit;           /* greatest offset that fits the active segment together
                                           with the kept ends */
        int64_t timestamp_limit;        /* a batch with a later timestamp starts a new segment;
                                           INT64_MIN: every batch takes the slow check */
        _Atomic int64_t kept;           /* bytes after `size` for the ends of open transactions
                                           (log/ends.c): the file is extended over them, and
                                           they fit under size_limit */
        int64_t checked_at;             /* timestamp of the batch at which the length of the mapped
                                           file was checked; INT64_MIN: it was not */
        int64_t checked_below;          /* the check also counts for batches of the same timestamp
                                           that end at or below this position */
        int64_t reserved_size;          /* of the last reservation, for assertions */
        int32_t newest_epoch;           /* of epochs.cache */
        bool slow;                      /* the next reservation must take the slow path */
        bool slow_publish;              /* a batch that is stored in `data` is not yet in its file
                                           (is_written) */
        bool index_full;
    } tail;

    /* These fields are read by every thread, without a lock. */
    struct {
        atomic_bool failed;
        atomic_bool half_cut;           /* a truncation failed: list, files and positions may
                                           disagree, so nothing is read */
        _Atomic int64_t end;
        _Atomic int64_t flushed;
        _Atomic int64_t start;
        _Atomic uint64_t cuts;          /* counts the beginning and the end of each truncation */
    } shared;

    /* Where the last ol_log_read ended. */
    struct {
        pthread_mutex_t lock;
        int64_t offset;
        int64_t segment_base;
        int64_t position;
        uint64_t cuts;                  /* shared.cuts before that read */
    } read;

    /* Set while the log is opened, constant from then on. */
    int (*stored)(ol_file *file, int64_t position, size_t size, ol_error *error);
    ol_fs *fs;
    char *directory;
    ol_log_config config;
    bool writable;
    bool replicated;
    bool has_topic_id;
    uint8_t topic_id[OL_UUID_SIZE];
    pid_t process;
    const ol_decompressor *decompressor;
    int64_t (*clock_ms)(void *context);
    void *clock_context;

    /* Producer state.  Only the writer uses it. */
    struct {
        ol_producers map;
        int64_t highest_id;
        int64_t snapshot_offset;        /* offset of the newest producer snapshot; -1: none */
        bool snapshot_unflushed;  /* the snapshot was stored by a roll, which does not flush it */
    } producers;

    /* The flushed bound, which the writer puts into the `ol.flushed` header of a batch's first
     * record.  Only the writer uses this. */
    struct {
        int64_t written;                /* bound in the newest batch that carries one; -1: none */
        bool taken;                     /* since the last batch was published */
    } note;

    /* Flags between the writer, the flush and the background thread: one sets a flag, another acts
     * on it.  No lock. */
    struct {
        atomic_bool appended;           /* something was written since the log was opened */
        atomic_bool names_changed;      /* the directory has names that no flush of the directory
                                           covers */
        atomic_bool flush_demanded;     /* a caller waits for the disk: extensions are flushed
                                           ahead */
        atomic_bool roll_unflushed;     /* a segment was rolled that no flush has covered, though
                                           its bytes may be on disk */
    } signals;

    /* Changes below the log end.  A swap of cleaned segments, a truncation, a removal of segments
     * at the start and a close hold the lock to their end, file work included.  No other call waits
     * for it, so a swap does not delay commits, rolls, flushes or readers. */
    struct {
        pthread_mutex_t lock;
        bool leftovers;                 /* some .cleaned or .swap files could not be removed */
    } swap;

    /* One flush runs at a time.  A truncation and a close hold the lock, so that no flush reports
     * removed bytes. */
    struct {
        pthread_mutex_t lock;
        ol_flush_sidecar sidecar;
        ol_flush_sidecar_bound last;    /* the bound of the last flush.  While shared.flushed is its
                                           offset, nothing of its segment below `position` is dirty;
                                           position 0: unknown, as after a truncation */
        int64_t settled_base;           /* base offset: the sidecar on disk names this segment or a
                                           later one; -1: unknown */
    } flush;

    /* The zeros after the active segment's last batch, the spares, and the choice of the active
     * segment. */
    struct {
        pthread_mutex_t lock;
        ol_segment **spares;  /* `path` is the name of the spare file; base_offset is its number */
        size_t spare_count;
        size_t spare_capacity;
        int64_t spare_number;
        int64_t step_bytes;
    } extension;

    /* The manifest as it was stored last, without its segments, which are those of the list.  Its
     * writers hold the lock; a swap, a flush, a truncation and a close store it. */
    struct {
        pthread_mutex_t lock;
        ol_manifest kept;
        atomic_bool is_due;  /* the stored manifest lacks facts that could be stored now */
        atomic_bool has_other;          /* another program wrote a range of the log, or may have
                                           written it */
    } manifest;

    /* The segments and the flags in them that flushes use.  The lock is held for a few
     * instructions, or while a truncation shortens a file. */
    struct {
        pthread_mutex_t lock;
        ol_segment **segments;          /* ascending by base */
        size_t count;
        size_t capacity;
        bool is_cleaning;               /* there is an ol_segment_rewrite */
    } list;

    /* Leader epochs.  The writer changes them, other threads read them. */
    struct {
        pthread_mutex_t lock;
        ol_leader_epochs cache;
        bool changed;                   /* since the file was written */
    } epochs;

    /* The steps in which an extension is flushed; their locks are held in turn. */
    struct {
        pthread_mutex_t locks[2];       /* locks[number & 1] is held while step `number` flushes its
                                           piece */
        _Atomic uint64_t newest;
    } steps;
};

/* log/log.c */
int ol_log_path(const ol_log *log, const char *name, char path[OL_PATH_MAX],
                ol_error *error) OL_NODISCARD;
/* Like ol_log_path, but appends a number if the name is taken: an older copy is evidence and must
 * not be overwritten. */
int ol_log_untaken_path(const ol_log *log, const char *name, char path[OL_PATH_MAX],
                        ol_error *error) OL_NODISCARD;
void ol_log_set_failed(ol_log *log);
/* Refuses with OL_FAILED or OL_READ_ONLY. */
int ol_log_check_writable(const ol_log *log, ol_error *error) OL_NODISCARD;
/* Sets the size and the limits of `tail` from the active segment and the settings: after an open, a
 * roll, a truncation or a change of settings. */
void ol_log_set_limits(ol_log *log);
/* Reserves memory for one more segment in the list, so that ol_log_add_segment cannot fail. */
int ol_log_reserve_segment(ol_log *log, ol_error *error) OL_NODISCARD;
/* Adds a segment to the list and takes over the caller's reference. */
int ol_log_add_segment(ol_log *log, ol_segment *segment, ol_error *error) OL_NODISCARD;
/* Returns the last segment with a base at or below `offset`, else the first one, with a reference
 * for the caller.  NULL when the log has no segment. */
ol_segment *ol_log_find_segment(ol_log *log, int64_t offset);
/* Lists the directory of a read-only log again, after another process rolled or cleaned it.  Fails
 * as ol_log_open. */
int ol_log_list_again(ol_log *log, ol_error *error) OL_NODISCARD;
/* Returns the first segment with a base above `base`, with a reference for the caller, or NULL. */
ol_segment *ol_log_next_segment(ol_log *log, int64_t base);
int ol_log_store_epochs(ol_log *log, ol_error *error) OL_NODISCARD;
/* Removes the producers that are too old (docs/format/directory.md §1.6): before a snapshot, at the
 * end of a load, and before the map grows. */
size_t ol_log_expire_producers(ol_log *log);
int ol_log_store_snapshot(ol_log *log, int64_t offset, bool flush, ol_error *error) OL_NODISCARD;

/* Rolled segments keep their files open until a flush covers them.  From OL_UNFLUSHED_WANTED of
 * them on the background flushes them, and from OL_UNFLUSHED_MAX on the roll itself does, because a
 * process has at most a few thousand descriptors. */
enum { OL_UNFLUSHED_WANTED = 4, OL_UNFLUSHED_MAX = 32 };

/* log/roll.c */
int ol_log_roll(ol_log *log, int64_t base_offset, ol_error *error) OL_NODISCARD;
/* Removes the note of a roll that the flush could not remove.  Under swap.lock. */
int ol_log_remove_stayed_note(ol_log *log, ol_segment *segment, ol_error *error) OL_NODISCARD;
/* Extends the active file to at least `needed` bytes. */
int ol_log_extend(ol_log *log, int64_t needed, ol_error *error) OL_NODISCARD;
int ol_log_drop_spares(ol_log *log, ol_error *error) OL_NODISCARD;
/* Creates `<base>.log` with its indexes, or opens it when it is there, as a segment to be written
 * to. */
int ol_log_start_segment(ol_log *log, int64_t base_offset, ol_segment **segment,
                         ol_error *error) OL_NODISCARD;
/* Makes an opened writable segment, whose indexes are open, the active one. */
void ol_log_activate(ol_log *log, ol_segment *segment);
int ol_log_rolled_name(char *name, size_t capacity, int64_t base_offset, int64_t size,
                       int64_t next_base) OL_NODISCARD;
bool ol_log_rolled_parse(const char *name, int64_t *base_offset, int64_t *size, int64_t *next_base);

/* [writer] */
static inline void ol_log_count_producer_id(ol_log *log, int64_t producer_id) {
    int64_t given_max = log->config.given_producer_id_max;
    if (given_max != 0 && producer_id > given_max) return;
    if (producer_id > log->producers.highest_id) log->producers.highest_id = producer_id;
}

/* log/ends.c.  Only the writer calls these functions, except ol_log_kept_bytes, which any thread
 * may call. */
static inline int64_t ol_log_kept_bytes(const ol_log *log) {
    return atomic_load_explicit(&log->tail.kept, memory_order_relaxed);
}
size_t ol_log_kept_ends(const ol_log *log);
/* From now on space for `count` ends is kept; the caller provides it before the next batch. */
void ol_log_count_ends(ol_log *log, size_t count);
/* Returns for how many ends space should be kept once `producer_id` has written the next batch (-1:
 * now). */
size_t ol_log_ends_wanted(const ol_log *log, int64_t producer_id);
/* Keeps space for the entries of `count` ends in the active segment's transaction index. */
int ol_log_keep_entries(ol_log *log, size_t count, ol_error *error) OL_NODISCARD;
/* Keeps space in `next`, which will be the active segment, for as many ends as the active segment
 * keeps now.  Under extension.lock. */
int ol_log_carry_ends(ol_log *log, ol_segment *next, ol_error *error) OL_NODISCARD;
/* Called after a marker was published, which used the space of one end. */
void ol_log_end_was_written(ol_log *log);

/* log/reader.c */
/* Called before the first piece: pieces are then read into the caller's buffer, which outlives the
 * reader.  A batch that does not fit is OL_TOO_LARGE. */
void ol_log_reader_lend(ol_log_reader *reader, uint8_t *buffer, size_t capacity);
/* Called before the first piece: the search for the reader's offset may then begin at this
 * position.  A wrong hint only costs time. */
void ol_log_reader_hint(ol_log_reader *reader, int64_t segment_base, int64_t position);
typedef struct ol_log_place {
    const char *path;                   /* borrowed until the next call */
    int64_t segment_base;
    int64_t position;  /* position of the batch that holds the offset, or follows it */
    size_t batch_size;                  /* 0: the segment has none there */
    int64_t available;                  /* bytes of the segment from that position on */
} ol_log_place;
/* Finds the reader's offset in a writable log.  OL_END: nothing is at or above it. */
int ol_log_reader_locate(ol_log_reader *reader, ol_log_place *place,
                         ol_error *error) OL_NODISCARD;

/* log/open.c */
int ol_log_check_config(const ol_log_config *config, ol_error *error) OL_NODISCARD;

/* log/append.c */
int ol_log_reserve_at(ol_log *log, int64_t base_offset, size_t size, int64_t last_offset,
                      int64_t max_timestamp, uint8_t **start, ol_error *error) OL_NODISCARD;
int ol_log_publish_at(ol_log *log, int64_t base_offset, int64_t last_offset, int64_t max_timestamp,
                      int64_t producer_id, int32_t leader_epoch, size_t size,
                      ol_error *error) OL_NODISCARD;

/* log/flush.c: flushes the log; the caller holds flush.lock. */
int ol_log_flush_locked(ol_log *log, ol_error *error) OL_NODISCARD;
/* Returns the number of rolled segments that no flush has covered.  Takes list.lock; does not need
 * flush.lock. */
size_t ol_log_count_unflushed(ol_log *log);
int ol_log_store_bound(ol_log *log, const ol_flush_sidecar_bound *bound, bool lower,
                       ol_error *error) OL_NODISCARD;
/* Makes the sidecar on disk name the segment at `base_offset` or a later one, so that segments
 * before it may be replaced. */
int ol_log_settle_bound(ol_log *log, int64_t base_offset, ol_error *error) OL_NODISCARD;

/* log/keep_manifest.c; each call takes manifest.lock.  After a failure the previous manifest stays,
 * and the new one is still due to be stored. */
/* Stores the manifest, with the closed segments that are flushed. */
int ol_log_store_manifest(ol_log *log, ol_error *error) OL_NODISCARD;
/* Records how far the active segment reaches on disk; the next store of the manifest writes it. */
void ol_log_note_tail(ol_log *log, const ol_flush_sidecar_bound *flushed);
/* Called before an epoch is written anywhere else.  Unlike the other calls, it does not take
 * manifest.lock: the caller takes it, and holds it until the epoch is written. */
int ol_log_note_epoch(ol_log *log, int32_t epoch, ol_error *error) OL_NODISCARD;
/* Called before batches that may leave gaps are appended. */
int ol_log_note_foreign(ol_log *log, ol_error *error) OL_NODISCARD;
/* Called before a swap: from now on either the old segments or the new one may exist. */
int ol_log_note_swap(ol_log *log, const ol_manifest_segment *segment, int64_t last_base,
                     ol_error *error) OL_NODISCARD;
/* Called after a swap, whether it was made or given up. */
void ol_log_forget_swap(ol_log *log);
/* Called before a truncation to `end`, after which the segment at `base_offset` is the last one and
 * has `size` bytes. */
int ol_log_note_cut(ol_log *log, int64_t base_offset, int64_t end, int64_t size,
                    ol_error *error) OL_NODISCARD;

/* log/segment_swap.c: files of a segment that were written under names that end in ".cleaned". */
typedef struct ol_aside {
    ol_segment *segment;                /* the new segment under its final names; the caller holds
                                           one reference; its indexes are open */
    ol_file *file;                      /* of the .log */
    int64_t size;
    int64_t next_offset;                /* after its last batch */
    uint64_t cuts;                      /* ol_log_cuts when reading of the source segments began */
} ol_aside;
/* Does the work of ol_segment_rewrite_swap after everything is written.  Takes over the file and
 * the reference of `aside`, also on failure. */
int ol_log_swap(ol_log *log, ol_aside *aside, const int64_t *bases, size_t count,
                ol_error *error) OL_NODISCARD;
/* Removes the files of a segment that was written aside and not swapped; any that stay count as
 * leftovers.  Takes swap.lock. */
void ol_log_remove_aside(ol_log *log, int64_t base_offset);
/* Removes the leftovers.  Takes swap.lock. */
int ol_log_clear_leftovers(ol_log *log, ol_error *error) OL_NODISCARD;
/* Like ol_log_clear_leftovers, for a caller that holds swap.lock. */
int ol_log_clear_leftovers_locked(ol_log *log, ol_error *error) OL_NODISCARD;

/* log/recover.c: one .log file of the directory while the log is opened. */
typedef struct ol_found_segment {
    char *path;                         /* its current name */
    int64_t base_offset;
    int64_t file_size;
    int64_t size;   /* size of the complete, valid batches; file_size if the segment was not
                       checked */
    int64_t next_offset;                /* offset after the last batch; the next segment's base if
                                           the segment was not checked */
    int64_t first_timestamp;            /* of checked ones */
    int64_t max_timestamp;
    int64_t max_timestamp_offset;
    uint32_t checksum;  /* checksum of the batches, if the segment was checked or the manifest has
                           the checksum */
    bool has_checksum;
    bool checked;
    int64_t from;                       /* file position from which it is checked, which is the
                                           caller's mark (log/settled.c); 0: all of it */
    bool rebuild_indexes;               /* both indexes, for the batches at and after `from` */
    bool rebuild_times;                 /* only the time index, which old brokers did not have */
    bool rebuild_transactions;
} ol_found_segment;

typedef struct ol_opening {
    ol_log *log;
    const ol_log_options *options;
    ol_log_recovery *report;
    char **names;                       /* names in the directory, after the directory pass */
    size_t name_count;
    ol_found_segment *found;            /* ascending by base */
    size_t found_count;
    ol_flush_sidecar_found sidecar;
    bool has_sidecar;                   /* the sidecar file is valid in itself */
    ol_manifest manifest;
    bool has_manifest;                  /* the manifest is valid in itself */
    bool is_manifest_damaged;           /* the file exists but is not a manifest */
    bool is_manifest_later;             /* the manifest has a later version than this code knows */
    bool has_worked_here;               /* another program wrote here after the manifest was
                                           written */
    bool is_cleaned_uncertain;          /* it is unknown how far the other program cleaned */
    bool has_doubtful_gap;  /* a gap below the end that the manifest knows may be a loss */
    int64_t cleaned;  /* the other program cleaned below this offset; -1: nowhere, or unknown */
    int64_t recovery_point;  /* recovery point of the checkpoint, if it is believed; -1: none */
    int64_t log_start;  /* log start of the checkpoint, if it is believed; 0: none */
    bool is_settled;                    /* the checks began at options->mark */
    ol_manifest doubts;  /* only the doubts in it are used: those of this open and of earlier
                            ones */
    int64_t end;                        /* found by the checks */
    int64_t flushed;                    /* greatest flushed bound that holds; at most `end` */
} ol_opening;

/* log/roll.c: follows the notes of rolls backwards from `base_offset` and returns the base of the
 * first segment that they reach, or the log start if that is greater.  Never above `base_offset`,
 * which is returned if no note leads to it. */
int64_t ol_log_rolled_first(const ol_opening *opening, int64_t base_offset);

/* log/settled.c: moves *first, the index of the first segment to check, past the settled segments.
 * If the checks begin within a segment, sets its `from`; if anything is doubtful, `from` stays 0.
 * Fails with OL_IO or OL_NO_MEMORY. */
int ol_settled_skip(ol_opening *opening, size_t *first, ol_error *error) OL_NODISCARD;

/* Checks the segments (docs/format/recovery.md §9.2) and separates torn from corrupt bytes
 * (docs/durability.md).  If the log is writable, copies torn bytes aside and truncates them. */
int ol_recovery_run(ol_opening *opening, ol_error *error) OL_NODISCARD;
/* Writes the bytes of [flushed, end) again and flushes them (docs/architecture.md §2.2).  After an
 * unclean shutdown also flushes every file that was checked. */
int ol_recovery_rewrite(ol_opening *opening, ol_error *error) OL_NODISCARD;

/* log/completeness.c: compares the log with its witnesses.  Reports go to opening->report. */
/* Reads the manifest and the sidecar.  Called before the directory is listed, because their claims
 * hold from then on. */
int ol_completeness_load(ol_opening *opening, ol_error *error) OL_NODISCARD;
/* Called after the epochs were loaded and before the checks.  Reports missing witnesses, and closed
 * segments that are missing or shorter than they were. */
int ol_completeness_check_segments(ol_opening *opening, ol_error *error) OL_NODISCARD;
/* Called after the checks.  Compares the end of the log and the contents of the checked segments
 * with the witnesses.  Segments that were not checked get their checksums from the manifest. */
void ol_completeness_check_end(ol_opening *opening);
/* Called when the checkpoint's log start is above the end: decides whether the log may begin again
 * there. */
void ol_completeness_judge_start(ol_opening *opening);
/* Read-only: sets *moved if another process has written the manifest meanwhile, because the reports
 * may then mix two moments. */
int ol_completeness_has_moved(ol_opening *opening, bool *moved, ol_error *error) OL_NODISCARD;
/* Returns whether the bound in the sidecar holds, whatever the files look like. */
bool ol_completeness_is_sidecar_true(const ol_opening *opening);
/* Returns whether offsets from `from` to `to` may be missing; if not, the bytes at `from` are bad.
 * A gap that another program may have left is reported. */
bool ol_completeness_is_gap_legal(ol_opening *opening, int64_t from, int64_t to);
/* Sets the manifest of the log as it was opened.  If it says something new, it must be stored. */
int ol_completeness_adopt(ol_opening *opening, ol_error *error) OL_NODISCARD;

/* log/repair.c: called before the checks of an open that accepts loss.  Removes unreadable bytes
 * from segments, and keeps copies of them. */
int ol_repair_segments(ol_opening *opening, ol_error *error) OL_NODISCARD;

/* log/recover_aside.c: copies [position, end of the page with the last nonzero byte) of a file to
 * `broken-<base>.log.<position>`, durably. */
int ol_recovery_copy_aside(ol_log *log, const ol_found_segment *segment, int64_t position,
                           char path[OL_PATH_MAX], int64_t *bytes,
                           ol_error *error) OL_NODISCARD;

/* log/rebuild.c: loads the producers of `mark`, or of the newest usable snapshot if it is NULL,
 * walks the log from there, and rebuilds the indexes that are marked for it. */
int ol_log_replay(ol_log *log, ol_found_segment *found, size_t count, int64_t snapshot_max,
                  const ol_log_mark *mark,
                  char *const *names, size_t name_count, ol_error *error) OL_NODISCARD;
/* Removes producer snapshots above `offset`.  With `strays`, also removes those that do not match
 * the base of a segment, except the newest one if it is above all bases. */
int ol_log_remove_snapshots(ol_log *log, char *const *names, size_t name_count, int64_t offset,
                            bool strays, ol_error *error) OL_NODISCARD;

#endif
