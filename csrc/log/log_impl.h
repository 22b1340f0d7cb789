/* log/log_impl: the private struct of the log, and the calls that its files share; nothing outside
 * log/ includes it.
 *
 *   log             positions, epochs, producers, close
 *   append          reserves and publishes batches: the hot path
 *   ends            keeps space for the ends of transactions
 *   roll            extends the active segment, makes spare segments, begins the next segment
 *   flush, truncate
 *   delete_below    removes segments at the start
 *   keep_manifest   keeps the log's manifest up to date
 *   reader, read    walk the log; read into a caller's buffer
 *   view            the segments of one moment
 *   offset_for_time, transaction_spans   find the offset of a time; find where transactions began
 *                                        and ended
 *   segment_rewrite, segment_swap        write a cleaned segment; put it in the place of others
 *   segment_info, segment_checksum       facts about segment files
 *   open            the steps of an open, in their order
 *   settled         finds the part of the log that an open need not read
 *   recover         decides whether bad bytes are a torn tail or corruption
 *   recover_aside   copies bytes to another file before recovery truncates them
 *   repair          removes bad bytes from segments when the open accepts loss
 *   rebuild         rebuilds indexes and producer state from the log
 *   completeness    decides whether anything is missing from the log
 *
 * A call that fails leaves the log unchanged, unless its comment says otherwise.  *error gives the
 * reason. */
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
/* A truncation that has begun is marked by a file.  This is the prefix of its name; the offset of
 * the truncation follows. */
#define OL_CUT_PREFIX "offsetlog.cut-"
#define OL_EPOCHS_FILE "leader-epoch-checkpoint"

/* Each part of the struct has one owner.  The locks are listed in the order in which they must be
 * taken.  The comments of the parts below, and of log/segment.h, have the details:
 *
 *   1  swap.lock         replacing and cutting segments below the log end
 *   2  flush.lock        a flush, the flushed bound and its sidecar
 *   3  extension.lock    the zeros after the last batch, spares, the choice of the active segment
 *   4  manifest.lock     the manifest, and the epochs that it names
 *   5  list.lock         the list of segments, and the flags in them that a flush uses
 *   6  epochs.lock       leader epochs
 *   7  segment->lock     a segment's file, counts and indexes
 *   8  steps.locks       the steps in which the background flushes an extension; read.lock, under
 *                        which no other is taken */
struct ol_log {
    /* The end of the log, which ol_log_reserve and ol_log_publish move.  Only the writer uses it,
     * but it changes `active` only under extension.lock and list.lock. */
    struct {
        ol_segment *active;
        uint8_t *data;                  /* of the active segment */
        int64_t size;  /* size of the active segment; other threads read segment->size */
        int64_t next_offset;            /* the log end; other threads read shared.end */
        int64_t size_limit;             /* greatest size of the active segment */
        int64_t offset_limit;           /* the greatest offset that fits the active segment together
                                           with the markers for which space is kept (`kept`) */
        /* A batch with a later timestamp starts a new segment.  INT64_MIN: the limit is not known,
         * and ol_log_reserve must take its slow path, which looks at the segment. */
        int64_t timestamp_limit;
        /* How many bytes after `size` are kept for the ends of open transactions (log/ends.c).  The
         * file is extended over these bytes, and they are below size_limit. */
        _Atomic int64_t kept;
        /* The timestamp of the batch for which the length of the mapped file was last checked.
         * INT64_MIN: it must be checked for the next batch. */
        int64_t checked_at;
        int64_t checked_below;          /* Later batches need no other check if they have the
                                           timestamp `checked_at` and end at or below this
                                           position. */
        int64_t reserved_size;          /* of the last reservation, for assertions */
        int32_t newest_epoch;           /* of epochs.cache */
        bool slow;                      /* the next reservation must take the slow path */
        bool slow_publish;              /* ol_log_publish must also write the batch to the file
                                           (is_written), or report its store (`stored`) */
        bool index_full;
    } tail;

    /* Every thread may read these fields, without a lock. */
    struct {
        atomic_bool failed;
        /* A truncation failed.  The list, the files and the positions may contradict each other, so
         * nothing can be read. */
        atomic_bool half_cut;
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

    /* These fields are set while the log is opened.  Afterwards only ol_log_change_config changes
     * one of them: `config`, under extension.lock. */
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
        bool snapshot_unflushed;  /* A roll has stored the snapshot, and a roll does not flush
                                     it. */
    } producers;

    /* State of the flushed bound that the writer puts into the `ol.flushed` header of the first
     * record of a batch.  Only the writer uses it. */
    struct {
        int64_t written;                /* the bound in the newest batch with an `ol.flushed`
                                           header; -1: no batch has one */
        bool taken;                     /* the writer took a bound (ol_log_take_flushed_record)
                                           after the last batch was published */
    } note;

    /* Flags for communication between the writer, the flush and the background thread: one thread
     * sets a flag, and another acts on it.  They need no lock. */
    struct {
        atomic_bool appended;           /* something was written since the log was opened */
        atomic_bool names_changed;      /* names in the directory have changed, and no flush
                                           of the directory has made this durable */
        atomic_bool flush_demanded;     /* a caller waits for the disk, so extensions are flushed
                                           before they are needed */
        atomic_bool roll_unflushed;     /* a segment was rolled and no flush has covered it since,
                                           even if its bytes are on disk */
    } signals;

    /* The lock for changes below the log end.  These calls hold it until they end, including their
     * work on files: a swap of cleaned segments, the removal of its leftovers, a truncation, a
     * restart of an empty log, the removal of segments at the log start, and a close.  Commits,
     * rolls, flushes and readers never wait for this lock, so a swap does not delay them. */
    struct {
        pthread_mutex_t lock;
        bool leftovers;                 /* some .cleaned or .swap files of a swap that was given up
                                           could not be removed */
    } swap;

    /* Only one flush runs at a time.  A truncation and a close also hold this lock, so that no
     * flush reports bytes as durable that are being removed. */
    struct {
        pthread_mutex_t lock;
        ol_flush_sidecar sidecar;
        /* The bound of the last flush.  If `offset` in it equals shared.flushed, the bytes of its
         * segment below `position` are on disk.  `position` is 0 if this is not known, as after a
         * truncation. */
        ol_flush_sidecar_bound last;
        int64_t settled_base;           /* The base offset of a segment: the sidecar on disk
                                           certainly names this segment or a later segment.  -1 if
                                           it may name any segment. */
    } flush;

    /* The zeros after the active segment's last batch, the spares, and the choice of the active
     * segment. */
    struct {
        pthread_mutex_t lock;
        ol_segment **spares;  /* Segments that were made for the next rolls.  Until then, `path` in
                                 each is the name of its spare file, and base_offset is its
                                 number. */
        size_t spare_count;
        size_t spare_capacity;
        int64_t spare_number;
        int64_t step_bytes;
    } extension;

    /* The manifest as it was last stored, but without its segments, which are taken from the list.
     * A call that changes the manifest holds the lock.  Swaps, flushes, truncations and closes
     * store it. */
    struct {
        pthread_mutex_t lock;
        ol_manifest kept;
        atomic_bool is_due;  /* the manifest on disk lacks facts that could be written to it now */
        atomic_bool has_other;          /* another program wrote a range of the log, or may have
                                           written it */
    } manifest;

    /* The list of segments, and the flags in the segments that a flush uses.  The lock is held only
     * for a few instructions, except while a truncation shortens a file. */
    struct {
        pthread_mutex_t lock;
        ol_segment **segments;          /* ascending by base */
        size_t count;
        size_t capacity;
        bool is_cleaning;               /* there is an ol_segment_rewrite */
    } list;

    /* Leader epochs.  The writer changes them, and other threads read them. */
    struct {
        pthread_mutex_t lock;
        ol_leader_epochs cache;
        bool changed;                   /* the epochs have changed since the file was written */
    } epochs;

    /* The background thread flushes an extension in steps.  The two locks are used in turn. */
    struct {
        pthread_mutex_t locks[2];       /* The thread holds locks[number & 1] while it flushes step
                                           `number`. */
        _Atomic uint64_t newest;
    } steps;
};

/* log/log.c */
int ol_log_path(const ol_log *log, const char *name, char path[OL_PATH_MAX],
                ol_error *error) OL_NODISCARD;
/* Makes a path as ol_log_path does, but adds a number to the name if a file with this name exists.
 * An older copy is evidence and must not be overwritten. */
int ol_log_untaken_path(const ol_log *log, const char *name, char path[OL_PATH_MAX],
                        ol_error *error) OL_NODISCARD;
void ol_log_set_failed(ol_log *log);
/* Refuses with OL_FAILED or OL_READ_ONLY. */
int ol_log_check_writable(const ol_log *log, ol_error *error) OL_NODISCARD;
/* Sets the size and the limits in `tail` from the active segment and the settings.  Called after an
 * open, a roll, a truncation or a change of settings. */
void ol_log_set_limits(ol_log *log);
/* Reserves memory for one more segment in the list, so that ol_log_add_segment cannot fail. */
int ol_log_reserve_segment(ol_log *log, ol_error *error) OL_NODISCARD;
/* Adds a segment to the list and takes over the caller's reference. */
int ol_log_add_segment(ol_log *log, ol_segment *segment, ol_error *error) OL_NODISCARD;
/* Returns the last segment whose base offset is at or below `offset`.  If there is none, returns
 * the first segment.  Returns NULL if the log has no segment.  The caller gets a reference to the
 * segment. */
ol_segment *ol_log_find_segment(ol_log *log, int64_t offset);
/* Only for a read-only log.  Lists the directory again after another process has rolled or cleaned
 * the log.  Fails as ol_log_open does. */
int ol_log_list_again(ol_log *log, ol_error *error) OL_NODISCARD;
/* Returns the first segment whose base offset is above `base`, or NULL.  The caller gets a
 * reference to the segment. */
ol_segment *ol_log_next_segment(ol_log *log, int64_t base);
int ol_log_store_epochs(ol_log *log, ol_error *error) OL_NODISCARD;
/* Removes the producers that are too old (docs/format/directory.md §1.6).  Called before a snapshot
 * is stored, at the end of a load, and before the map of producers grows. */
size_t ol_log_expire_producers(ol_log *log);
int ol_log_store_snapshot(ol_log *log, int64_t offset, bool flush, ol_error *error) OL_NODISCARD;

/* A rolled segment keeps its files open until a flush covers it, but a process has at most a few
 * thousand descriptors.  Once OL_UNFLUSHED_WANTED rolled segments wait for a flush, the background
 * flushes the log.  Once OL_UNFLUSHED_MAX of them wait, the next roll flushes it. */
enum { OL_UNFLUSHED_WANTED = 4, OL_UNFLUSHED_MAX = 32 };

/* log/roll.c: closes the active segment and begins a new one at `base_offset`.  Leaves the note of
 * the roll: an empty file whose name says where the old segment ended and which segment follows. */
int ol_log_roll(ol_log *log, int64_t base_offset, ol_error *error) OL_NODISCARD;
/* Removes the note of a roll if an earlier flush could not remove it.  The caller holds
 * swap.lock. */
int ol_log_remove_stayed_note(ol_log *log, ol_segment *segment, ol_error *error) OL_NODISCARD;
/* Extends the active file to at least `needed` bytes. */
int ol_log_extend(ol_log *log, int64_t needed, ol_error *error) OL_NODISCARD;
int ol_log_drop_spares(ol_log *log, ol_error *error) OL_NODISCARD;
/* Creates `<base>.log`, with empty indexes, as an empty segment to which batches can be appended.
 * Uses a spare segment if there is one.  If the file exists, its content is dropped. */
int ol_log_start_segment(ol_log *log, int64_t base_offset, ol_segment **segment,
                         ol_error *error) OL_NODISCARD;
/* Makes a writable segment the active one.  The segment and its indexes must be open. */
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

/* These functions are in log/ends.c.  An end is the marker that ends an open transaction; the log
 * keeps space for such markers (log/log.h).  Only the writer calls these functions, except
 * ol_log_kept_bytes, which any thread may call. */
static inline int64_t ol_log_kept_bytes(const ol_log *log) {
    return atomic_load_explicit(&log->tail.kept, memory_order_relaxed);
}
size_t ol_log_kept_ends(const ol_log *log);
/* Sets the number of ends for which space is kept to `count`.  It allocates nothing; the caller
 * must allocate the space before the next batch is appended. */
void ol_log_count_ends(ol_log *log, size_t count);
/* Returns the number of ends for which space should be kept once `producer_id` has written its next
 * batch.  With -1, returns the number for the transactions that are open now. */
size_t ol_log_ends_wanted(const ol_log *log, int64_t producer_id);
/* Reserves space in the active segment's transaction index for the ends of `count` transactions. */
int ol_log_keep_entries(ol_log *log, size_t count, ol_error *error) OL_NODISCARD;
/* Keeps space in `next`, which is about to become the active segment, for the same number of ends
 * as in the present active segment.  The caller holds extension.lock. */
int ol_log_carry_ends(ol_log *log, ol_segment *next, ol_error *error) OL_NODISCARD;
/* Called after a marker was published.  The marker has used the space of one end. */
void ol_log_end_was_written(ol_log *log);

/* log/reader.c */
/* Called before the first piece is read.  The reader then reads all pieces into the caller's
 * buffer, which must stay valid longer than the reader.  A batch that does not fit the buffer is
 * refused with OL_TOO_LARGE. */
void ol_log_reader_lend(ol_log_reader *reader, uint8_t *buffer, size_t capacity);
/* Called before the first piece is read.  The reader may then begin the search for its offset at
 * this position.  A wrong hint costs time but does no harm. */
void ol_log_reader_hint(ol_log_reader *reader, int64_t segment_base, int64_t position);
typedef struct ol_log_place {
    const char *path;                   /* borrowed until the next call */
    int64_t segment_base;
    int64_t position;  /* file position of the batch that contains the offset, or of the first batch
                          after it */
    size_t batch_size;                  /* 0: the segment has none there */
    int64_t available;                  /* number of bytes of the segment from `position` on */
} ol_log_place;
/* Finds the place of the reader's offset.  Only for a writable log.  Returns OL_END if the log has
 * nothing at or above the offset. */
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
/* Returns the number of rolled segments that no flush has covered.  Takes list.lock.  The caller
 * need not hold flush.lock. */
size_t ol_log_count_unflushed(ol_log *log);
int ol_log_store_bound(ol_log *log, const ol_flush_sidecar_bound *bound, bool lower,
                       ol_error *error) OL_NODISCARD;
/* Makes sure that the sidecar on disk names the segment at `base_offset` or a later one.  The
 * segments before it may then be replaced. */
int ol_log_settle_bound(ol_log *log, int64_t base_offset, ol_error *error) OL_NODISCARD;

/* These calls are in log/keep_manifest.c, and each takes manifest.lock.  If a call fails, the
 * previous manifest stays on disk, and the new one remains to be stored. */
/* Stores the manifest.  It lists the closed segments that have been flushed. */
int ol_log_store_manifest(ol_log *log, ol_error *error) OL_NODISCARD;
/* Records how far the active segment is on disk.  The next store of the manifest writes it. */
void ol_log_note_tail(ol_log *log, const ol_flush_sidecar_bound *flushed);
/* Stores the manifest with a new leader epoch.  Called before the epoch is written to any other
 * file.  The caller must take manifest.lock before the call, and hold it until the epoch is
 * written. */
int ol_log_note_epoch(ol_log *log, int32_t epoch, ol_error *error) OL_NODISCARD;
/* Makes the manifest allow gaps between the offsets from the log end on.  Called before batches are
 * appended to which another process assigned the offsets, and before ol_log_restart leaves a
 * gap. */
int ol_log_note_foreign(ol_log *log, ol_error *error) OL_NODISCARD;
/* Called before a swap of old segments for the new segment `segment`.  The manifest then allows the
 * directory to contain either the old segments or the new one.  `last_base` is the base offset of
 * the last old segment. */
int ol_log_note_swap(ol_log *log, const ol_manifest_segment *segment, int64_t last_base,
                     ol_error *error) OL_NODISCARD;
/* Called after a swap has been completed or given up. */
void ol_log_forget_swap(ol_log *log);
/* Called before a truncation to the log end `end`.  The manifest then claims nothing above `end`.
 * After the truncation, the last segment is the one at `base_offset`, with `size` bytes. */
int ol_log_note_cut(ol_log *log, int64_t base_offset, int64_t end, int64_t size,
                    ol_error *error) OL_NODISCARD;

/* log/segment_swap.c: a new segment whose files still have temporary names, which end in
 * ".cleaned". */
typedef struct ol_aside {
    /* The object of the new segment, with its final names.  Its indexes are open.  The caller holds
     * one reference. */
    ol_segment *segment;
    ol_file *file;                      /* of the .log */
    int64_t size;
    int64_t next_offset;                /* offset after its last batch */
    uint64_t cuts;  /* the value of ol_log_cuts before the caller began to read the old segments */
} ol_aside;
/* Replaces old segments by a new one, which must be completely written.  ol_segment_rewrite_swap
 * calls it.  Takes over the file and the reference in `aside`, even if it fails. */
int ol_log_swap(ol_log *log, ol_aside *aside, const int64_t *bases, size_t count,
                ol_error *error) OL_NODISCARD;
/* Removes the files of a new segment that has not replaced the old ones.  Files that cannot be
 * removed become leftovers.  Takes swap.lock. */
void ol_log_remove_aside(ol_log *log, int64_t base_offset);
/* Removes the leftovers.  Takes swap.lock. */
int ol_log_clear_leftovers(ol_log *log, ol_error *error) OL_NODISCARD;
/* Removes the leftovers for a caller that already holds swap.lock. */
int ol_log_clear_leftovers_locked(ol_log *log, ol_error *error) OL_NODISCARD;

/* log/recover.c: one .log file that was found in the directory while the log is opened. */
typedef struct ol_found_segment {
    char *path;                         /* its current name */
    int64_t base_offset;
    int64_t file_size;
    int64_t size;   /* size of all complete and valid batches; if the segment was not checked, the
                       same as file_size */
    int64_t next_offset;                /* offset after the last batch; if the segment was not
                                           checked, the base offset of the next segment */
    int64_t first_timestamp;            /* greatest timestamp of the first batch; like the next two,
                                           known only if the segment was checked */
    int64_t max_timestamp;
    int64_t max_timestamp_offset;
    uint32_t checksum;  /* checksum of the batches; known if the segment was checked, or if the
                           manifest contains it */
    bool has_checksum;
    bool checked;
    /* The file position where the check of this segment begins.  This is the position of the
     * caller's mark (log/settled.c), or 0 if the whole file is checked. */
    int64_t from;
    bool rebuild_indexes;  /* rebuild both indexes for the batches at and after `from` */
    bool rebuild_times;  /* rebuild the time index only, which old brokers did not write */
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
    bool has_sidecar;                   /* the sidecar exists and is well-formed */
    ol_manifest manifest;
    bool has_manifest;                  /* the manifest exists and is well-formed */
    bool is_manifest_damaged;  /* the file of the manifest exists but has no valid content */
    bool is_manifest_later;  /* the manifest has a later version than this library can read */
    bool has_worked_here;               /* another program wrote to the directory after offsetlog
                                           wrote the manifest */
    bool is_cleaned_uncertain;  /* it is not known how far the other program cleaned the log */
    bool has_doubtful_gap;  /* there is a gap below the end in the manifest, and it may be a loss */
    int64_t cleaned;  /* The other program cleaned the log below this offset. -1: it cleaned
                         nothing, or it is not known how far. */
    int64_t recovery_point;  /* the recovery point in the checkpoint, if it can be trusted; -1:
                                there is none */
    int64_t log_start;  /* the log start in the checkpoint, if it can be trusted; 0: there is
                           none */
    bool is_settled;                    /* the checks began at options->mark */
    /* Only the list of doubts in this manifest is used: findings that an open could not decide
     * (log/files/manifest.h).  It contains those of this open and of earlier ones. */
    ol_manifest doubts;
    int64_t end;                        /* the end of the log, which the checks have found */
    int64_t flushed;  /* the greatest flushed bound that can be trusted; at most `end` */
} ol_opening;

/* log/roll.c: the note of a roll names a segment and the segment after it.  This function follows
 * the notes backwards from the segment at `base_offset`, as far as they lead.  It returns the base
 * offset of the segment that it reaches, which is `base_offset` if no note leads to that segment.
 * If the log start is above this result, it returns the log start, but never an offset above
 * `base_offset`. */
int64_t ol_log_rolled_first(const ol_opening *opening, int64_t base_offset);

/* log/settled.c: finds the segments that need not be checked, because they are below the mark
 * (log/mark.h) that was passed to the open.  Moves *first, the index of the first segment to check,
 * past these segments.  If the mark is within a segment, sets the field `from` of this segment to
 * the position of the mark.  If anything is doubtful, skips nothing, and `from` stays 0.  Fails
 * with OL_IO or OL_NO_MEMORY. */
int ol_settled_skip(ol_opening *opening, size_t *first, ol_error *error) OL_NODISCARD;

/* Checks the segments (docs/format/recovery.md §9.2), and decides whether bad bytes are a torn tail
 * or corruption (docs/durability.md).  If the log is writable, copies a torn tail to another file
 * and truncates it. */
int ol_recovery_run(ol_opening *opening, ol_error *error) OL_NODISCARD;
/* Writes the bytes of [flushed, end) to the file again and flushes them (docs/architecture.md
 * §2.2).  After an unclean shutdown, also flushes every file that was checked. */
int ol_recovery_rewrite(ol_opening *opening, ol_error *error) OL_NODISCARD;

/* log/completeness.c: compares the log with its witnesses, which are the manifest, the sidecar and
 * the checkpoints.  The findings are added to opening->report. */
/* Reads the manifest and the sidecar.  Must be called before the directory is listed.  The list
 * must then have everything that these two files claim to exist, unless another process has
 * replaced the manifest in between (ol_completeness_has_moved). */
int ol_completeness_load(ol_opening *opening, ol_error *error) OL_NODISCARD;
/* Called after the epochs were loaded and before the segments are checked.  Reports each witness
 * (manifest, sidecar or checkpoint) that is missing, and each closed segment that is missing or
 * shorter than the witnesses say. */
int ol_completeness_check_segments(ol_opening *opening, ol_error *error) OL_NODISCARD;
/* Called after the segments were checked.  Compares the end of the log and the contents of the
 * checked segments with the witnesses.  Segments that were not checked get their checksums from the
 * manifest. */
void ol_completeness_check_end(ol_opening *opening);
/* Called if the log start in the checkpoint is above the end of the log.  Decides whether the log
 * may begin again at this log start, as an empty log.  If it may not, the log start is not used,
 * and the report says so. */
void ol_completeness_judge_start(ol_opening *opening);
/* Only for a read-only open.  Sets *moved if another process has stored a new manifest since this
 * open read the manifest.  The findings may then come from two different moments. */
int ol_completeness_has_moved(ol_opening *opening, bool *moved, ol_error *error) OL_NODISCARD;
/* Returns whether the flushed bound in the sidecar can be trusted, whatever the other files
 * contain. */
bool ol_completeness_is_sidecar_true(const ol_opening *opening);
/* Returns whether the log may have a gap from `from` to `to`, where the next batch begins.  If it
 * may not, the bytes at `from` are bad.  A gap that another program may have left is reported. */
bool ol_completeness_is_gap_legal(ol_opening *opening, int64_t from, int64_t to);
/* Called at the end of an open.  Makes the manifest that was read the manifest of the log, and adds
 * the facts that the open has found.  If the manifest then differs from its file, it is marked as
 * due to be stored (`is_due`). */
int ol_completeness_adopt(ol_opening *opening, ol_error *error) OL_NODISCARD;

/* log/repair.c: called before the checks if the open accepts loss.  Removes bytes that are not good
 * batches from the segments, if good batches follow them, and keeps copies of the segments. */
int ol_repair_segments(ol_opening *opening, ol_error *error) OL_NODISCARD;

/* log/recover_aside.c: copies the bytes of a file from `position` to the end of the page that
 * contains the last nonzero byte.  The copy is named `broken-<base>.log.<position>` and is durable
 * when the call returns. */
int ol_recovery_copy_aside(ol_log *log, const ol_found_segment *segment, int64_t position,
                           char path[OL_PATH_MAX], int64_t *bytes,
                           ol_error *error) OL_NODISCARD;

/* log/rebuild.c: loads the producers from `mark`, or from the newest usable producer snapshot if
 * `mark` is NULL.  Then reads the log from there on, and rebuilds the indexes for which `found`
 * demands it. */
int ol_log_replay(ol_log *log, ol_found_segment *found, size_t count, int64_t snapshot_max,
                  const ol_log_mark *mark,
                  char *const *names, size_t name_count, ol_error *error) OL_NODISCARD;
/* Removes the producer snapshots above `offset`.  If `strays` is true, also removes snapshots whose
 * offset is not the base offset of a segment, except the newest snapshot if its offset is above all
 * base offsets. */
int ol_log_remove_snapshots(ol_log *log, char *const *names, size_t name_count, int64_t offset,
                            bool strays, ol_error *error) OL_NODISCARD;

#endif
