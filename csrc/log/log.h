/* log/log: one partition directory, exactly as Kafka keeps it (docs/format/directory.md §1,
 * docs/format/recovery.md §9, docs/format/brokers.md §16; docs/durability.md).
 *
 * The log knows batches, not their contents.  It owns the segments with their indexes, the
 * transaction index, the producer state and its snapshots, the leader epoch cache,
 * partition.metadata, and the sidecar with the flushed bound.
 *
 * Positions (all log offsets): start <= flushed <= end.  The next batch is written at `end`;
 * everything below `end` is readable.  Everything below `flushed` survives a power loss; `flushed`
 * rises only after a successful flush.
 *
 * Locks: calls marked [writer] are made by one thread at a time: the owner holds the partition's
 * writer lock.  All others may be made from any thread at any time between open and close, also
 * while a [writer] call runs.  No call takes a lock of its caller.  Flushing and reading never wait
 * for an append or a roll.  A flush waits while a truncation runs, and while an epoch or the
 * sidecar is stored.  A reader waits while a truncation shortens a file.
 *
 * Failure: a call that fails leaves the log as it was, unless its comment says otherwise or the log
 * has *failed*.  A log fails when only another open can find out what is on disk
 * (docs/architecture.md §2.2).  That is so after a failed flush of a segment, by any thread, and
 * after a truncation or a swap of segments that stopped half-way.  It is also so after a roll that
 * was undone and left files, half a batch that cannot be removed, and an ABORT that is missing from
 * the transaction index.  A full disk is not such a failure.  Every later append and flush is
 * refused with OL_FAILED until the log is opened again.  Readers continue, except after a failed
 * truncation.
 */
#ifndef OL_LOG_LOG_H
#define OL_LOG_LOG_H

#include "format/batch_write.h"
#include "log/files/checkpoint.h"
#include "fs/fs.h"
#include "base/status.h"
#include "log/files/transaction_index.h"
#include "log/mark.h"

typedef struct ol_log ol_log;

#define OL_SEGMENT_BYTES_DEFAULT ((int64_t)100 << 20)
/* Small segments are for tests; Kafka refuses sizes below 1 MiB. */
#define OL_SEGMENT_BYTES_MIN ((int64_t)1 << 12)
#define OL_SEGMENT_BYTES_MAX ((int64_t)0x7fffffff)
/* File name of the sidecar, which holds the flushed bound; it must not begin with a digit. */
#define OL_FLUSH_SIDECAR_FILE "offsetlog.flushed"

/* How batches reach the file of the active segment (docs/durability.md). */
typedef enum ol_append {
    OL_APPEND_AUTO = 0,         /* as the file system allows (ol_fs.keeps_pages) */
    OL_APPEND_MAPPED = 1,       /* stored through a mapping */
    OL_APPEND_WRITTEN = 2,      /* with pwrite */
} ol_append;

typedef struct ol_log_config {
    int64_t segment_bytes;
    /* a batch starts a new segment if its timestamp is more than this after the segment's first
     * (docs/format/directory.md §1.10) */
    int64_t segment_ms;
    int64_t index_interval_bytes;
    int64_t segment_index_bytes;
    int64_t producer_expiration_ms;     /* a producer without an open transaction expires when its
                                           last batch is this old (docs/format/directory.md §1.6) */
    int64_t extend_bytes_min;           /* the active segment grows in steps, which double from
                                           extend_bytes_min to extend_bytes_max */
    int64_t extend_bytes_max;
    /* if an open could leave fewer bytes than this unread (log/settled.c), it reads them: that
     * takes no time and proves more */
    int64_t settled_bytes_min;
    int64_t given_producer_id_max;      /* a greater producer id was not given by a broker
                                           (ol_log_highest_producer_id); 0: no limit */
    ol_append append;
} ol_log_config;

/* Sets Kafka's defaults for the offsets topic, and extension steps of 64 KiB to 8 MiB. */
void ol_log_config_init(ol_log_config *config);

typedef struct ol_log_options {
    ol_fs *fs;
    const char *directory;              /* ".../__consumer_offsets-12" */
    ol_log_config config;
    bool writable;                      /* else: nothing is changed */
    bool create;                        /* make the directory and an empty log if the directory is
                                           not there (writable only) */
    bool clean;                         /* the log dir had Kafka's clean-shutdown marker: all of
                                           the log was flushed (docs/format/recovery.md §9.2) */
    bool being_written;                 /* read-only: another process appends meanwhile, so a bad
                                           tail is unfinished, even with `clean` */
    bool accept_loss;                   /* writable, `clean` false: missing records count as lost;
                                           copies are kept, the report lists the losses, and the log
                                           stays usable (docs/repair.md) */
    bool replicated;                    /* the log is a replica's: `ol.flushed` headers are ignored,
                                           because they state the leader's flush */
    int64_t recovery_point;             /* of the checkpoint, -1 none */
    bool recovery_point_changed;        /* another program wrote the recovery-point checkpoint after
                                           offsetlog did */
    bool log_start_changed;             /* likewise */
    bool witnessed;                     /* the log dir says that this partition has a manifest and
                                           a sidecar */
    int changed_checkpoints;            /* how many checkpoints of the log dir another program wrote
                                           after offsetlog did */
    /* if another program wrote the log dir: the entry of the cleaner's checkpoint, 0 if there is
     * none; otherwise the entry if it is above the one offsetlog wrote, -1 if it is the same.
     * OL_CLEANED_UNKNOWN: it is below that, or the file, or the record of what offsetlog wrote, is
     * damaged */
    int64_t cleaned_by_others;
    int64_t log_start_offset;           /* of the checkpoint, -1 none */
    /* mark of a state that the caller has, so that the log below it need not be read
     * (log/settled.c); NULL: none.  Used only while the log is opened */
    const ol_log_mark *mark;
    const uint8_t *topic_id;            /* topic id (16 bytes) for a new partition.metadata; NULL:
                                           none is written */
    const uint8_t *known_topic_id;      /* topic id of the topic's other partitions, or NULL; used
                                           if this partition's is damaged or missing */
    const ol_decompressor *decompressor;/* NULL: none; must live as long as the log */
    int64_t (*clock_ms)(void *context); /* the clock of batch timestamps and of the ages of
                                           producers; NULL: the system's */
    void *clock_context;
} ol_log_options;

/* Offsets that are missing, or that no witness (manifest, sidecar or checkpoint) proves to be
 * present (docs/verify.md). */
typedef struct ol_log_loss {
    int64_t from;
    int64_t below;                      /* INT64_MAX: unknown */
    bool proven;                        /* acknowledged batches are lost; false: a witness is
                                           missing, or another program wrote here */
    ol_error error;                     /* OL_CORRUPT; path, reason, and `from` as its offset */
} ol_log_loss;
enum { OL_LOG_LOSSES_KEPT = 16 };

/* Value of cleaned_by_others if it is not known how far another program cleaned the log. */
#define OL_CLEANED_UNKNOWN INT64_MAX

/* Findings and actions of an open; counts are of this open. */
typedef struct ol_log_recovery {
    bool recovered;                     /* batches at or above the recovery point were checked
                                           (no clean marker) */
    int64_t torn_bytes;                 /* truncated, after a copy was made */
    char torn_path[OL_ERROR_PATH_MAX];  /* the file that was truncated */
    char broken_path[OL_ERROR_PATH_MAX];/* the `.broken` copy of these bytes */
    int64_t torn_position;
    /* later segments that were copied aside with a torn one, segments that a finished swap
     * replaced, and files of interrupted swaps */
    int64_t segments_removed;
    int64_t swaps_finished;
    int64_t rewritten_bytes;            /* bytes of [flushed, end) that were written again and
                                           flushed (docs/architecture.md §2.2) */
    bool corrupt;                       /* a bad batch is below the flushed bound: the log is open
                                           read-only; `corruption` says where */
    ol_error corruption;
    /* no right batch follows the corruption, and the log was flushed up to this log offset; -1: a
     * right batch follows, or nothing proves how far the log reached */
    int64_t corruption_below;
    ol_log_loss losses[OL_LOG_LOSSES_KEPT];  /* if there are more, the last entry covers the rest */
    size_t loss_count;
    bool is_lossy;                      /* one of the losses is proven: the log is open read-only */
    bool others_worked;                 /* another program worked here since the log was closed */
    bool log_start_refused;             /* the log start of the checkpoint was not adopted */
} ol_log_recovery;

/* Opens a partition directory, and recovers it when writable (docs/format/recovery.md §9,
 * docs/durability.md).  The owner holds the log dir's lock when writable.  Corruption below the
 * flushed bound and proven loss do not make ol_log_open fail: recovery->corrupt or
 * recovery->is_lossy is set, and the log refuses writes.  Fails with OL_IO, OL_DISK_FULL,
 * OL_NO_MEMORY, OL_NO_SUCH_FILE, OL_INVALID (a setting or the path), OL_CORRUPT (partition.metadata
 * names another topic id than options->topic_id). */
int ol_log_open(const ol_log_options *options, ol_log **log, ol_log_recovery *recovery,
                ol_error *error) OL_NODISCARD;

/* [writer] Closes the log cleanly: trims the active segment and its indexes to their true sizes,
 * writes the producer snapshot, and flushes every file that it changed and the directory.  The log
 * is freed in any case.  A failure only means that the directory is not cleanly closed, so no
 * clean-shutdown marker may be written. */
int ol_log_close(ol_log *log, ol_error *error) OL_NODISCARD;

/* Frees the log without writing a byte: after a failure, or in a forked child (where it only drops
 * the handles). */
void ol_log_abandon(ol_log *log);

int64_t ol_log_start(const ol_log *log);
/* Returns whether another program, such as a broker, wrote a part of the log, or may have written
 * it.  Any thread may call it. */
bool ol_log_has_other_writers(const ol_log *log);
int64_t ol_log_end(const ol_log *log);  /* an acquire load: everything below the result can be
                                           read */
int64_t ol_log_flushed(const ol_log *log);
/* For a read-only log: records that it was read up to `end` after another process appended to
 * it. */
void ol_log_record_end(ol_log *log, int64_t end);
bool ol_log_is_writable(const ol_log *log);
bool ol_log_has_failed(const ol_log *log);
int32_t ol_log_leader_epoch(const ol_log *log); /* newest epoch, -1 none */
/* Returns the id in partition.metadata; false: none. */
bool ol_log_topic_id(const ol_log *log, uint8_t topic_id[16]);
int64_t ol_log_size_bytes(const ol_log *log);   /* of all segments, true sizes */
/* [writer] Fills in the file system, directory, settings and decompressor of the log, which live as
 * long as the log.  The other members of *options are not meaningful. */
void ol_log_options_of(const ol_log *log, ol_log_options *options);

/* ------------------------------------------------------------ appending */

/* [writer] Reserves the bytes of the next batch, which has `size` bytes and `last_offset_delta` + 1
 * offsets.  Rolls if Kafka would (docs/format/directory.md §1.10), and extends the file if the
 * background thread has not done so yet.  *start is set to the reserved bytes in the active
 * segment: `size` writable bytes, all zero.  The log's content does not change.  A caller that does
 * not publish its reservation sets the bytes that it wrote back to zero; the next reservation then
 * replaces it.  To learn whether storing and publishing may have to wait, call ol_log_is_prepared
 * first.  Fails with OL_DISK_FULL, OL_IO, OL_NO_MEMORY, OL_READ_ONLY, OL_FAILED, OL_INVALID (the
 * batch has no header or no offset), or OL_TOO_LARGE (no offset is left, or the batch does not fit
 * a segment beside the space kept for the ends of open transactions, see below). */
int ol_log_reserve(ol_log *log, size_t size, int32_t last_offset_delta, int64_t max_timestamp,
                   uint8_t **start, int64_t *base_offset, ol_error *error) OL_NODISCARD;

/* The ends of transactions.  A full disk must not keep a transaction open, so space for the end of
 * each is kept from its first batch on.  ol_log_reserve_transactional keeps this space, and only
 * ol_log_reserve_end uses it.  Space is kept for as many ends as fit a twelfth of a segment.  Ends
 * beyond that number, and those for which there was no space when the log was opened, are written
 * like other batches. */

/* [writer] Does what ol_log_reserve does, for a batch of a transaction, and keeps space for the end
 * of this transaction and of all others.  OL_DISK_FULL: no more space is kept than before. */
int ol_log_reserve_transactional(ol_log *log, int64_t producer_id, size_t size,
                                 int32_t last_offset_delta, int64_t max_timestamp, uint8_t **start,
                                 int64_t *base_offset, ol_error *error) OL_NODISCARD;

/* [writer] Does what ol_log_reserve does, for the marker of an open transaction.  OL_DISK_FULL only
 * if no space is kept. */
int ol_log_reserve_end(ol_log *log, int64_t max_timestamp, uint8_t **start, int64_t *base_offset,
                       ol_error *error) OL_NODISCARD;

/* [writer] Keeps space for the ends of the transactions that are open, for an owner that begins to
 * write.  OL_DISK_FULL: nothing has changed, and the log stays usable. */
int ol_log_keep_ends(ol_log *log, ol_error *error) OL_NODISCARD;

/* [writer] Stops keeping space: the ends of a follower's transactions arrive among the batches that
 * it fetches. */
void ol_log_release_ends(ol_log *log);

/* Returns the size of the largest batch that always fits a segment beside the ends that are
 * kept. */
size_t ol_log_batch_bytes_max(const ol_log_config *config);

/* [writer] Returns whether the next batch, of at most `size` bytes, needs no roll, no page fault,
 * and no system call except one that asks for the length of the file.  Always false if batches are
 * written with pwrite (ol_append). */
bool ol_log_is_prepared(const ol_log *log, size_t size, int32_t last_offset_delta,
                        int64_t max_timestamp);

/* [writer] Publishes the batch that was sealed at the reserved start: the log end moves past it,
 * and indexes, producer state and epochs are updated.  If batches are written with pwrite
 * (ol_append), it can fail with OL_DISK_FULL or OL_IO: the reserved bytes are zeroed again, and
 * nothing has changed.  OL_FAILED: half a batch stays in the file, and the log has failed. */
int ol_log_publish(ol_log *log, const ol_batch_fields *fields, size_t size, ol_error *error);

/* [writer] Ensures that `size` more bytes in batches of at most `batch_size_max` can be appended
 * without meeting a full disk.  If they fit one segment, their space is the rest of the active one
 * or, after a roll now, the next one.  Otherwise the rest of the active segment is allocated, and
 * as many spare segments as needed, which the next rolls use.  Such a roll may still meet a full
 * disk, because it creates files.  A call that fails removes the spare segments that it made. */
int ol_log_reserve_space(ol_log *log, int64_t size, size_t batch_size_max,
                         ol_error *error) OL_NODISCARD;

/* [writer] Appends whole batches as they are (a follower's fetch).  Each is parsed and its CRC
 * checked; its base offset must be >= end (a gap is legal: the leader's log was cleaned).  Appends
 * all batches or none, with one exception: the disk becomes full after a roll, and too full even
 * for the truncation that would undo the call.  The batches appended so far then stay.  OL_CORRUPT
 * names the position in `data`. */
int ol_log_append(ol_log *log, const uint8_t *data, size_t size, ol_error *error) OL_NODISCARD;

/* [writer] Starts a leader epoch at the log end (docs/format/directory.md §1.5); batches appended
 * from now on must carry it.  The epoch is written to the checkpoint at once. */
int ol_log_assign_epoch(ol_log *log, int32_t epoch, ol_error *error) OL_NODISCARD;

/* [writer] Begins an empty log again at `offset`, which is at or above its end: for a follower
 * whose leader's log begins there.  After a crash the log is empty, at its former end or at
 * `offset`.  Fails with OL_INVALID, OL_DISK_FULL, OL_NO_MEMORY, OL_IO; the log is empty after a
 * failure, too. */
int ol_log_restart(ol_log *log, int64_t offset, ol_error *error) OL_NODISCARD;

/* [writer] Removes everything at and above `offset`, and the epochs that begin there, even if the
 * log ends at it (docs/format/leader-epochs.md §12, docs/durability.md: the sidecar is lowered and
 * synced first).  Only whole batches are removed, so the new end may be below `offset`.  Before the
 * call the owner must have lowered the recovery point of its checkpoint durably: a recovery point
 * above the new end makes a torn tail look like corruption.  The log is as it was after
 * OL_DISK_FULL, and if the call fails before its first change because files of an abandoned swap
 * cannot be removed, or the log cannot be read.  Any other failure leaves the log failed. */
int ol_log_truncate(ol_log *log, int64_t offset, ol_error *error) OL_NODISCARD;

/* Makes everything below the current end, and the rolls so far, survive a power loss; *flushed is
 * the new bound.  Callers arrange that one call serves every thread that waits, but concurrent
 * calls are allowed.  Returns at once when nothing is new. */
int ol_log_flush(ol_log *log, int64_t *flushed, ol_error *error) OL_NODISCARD;
/* Like ol_log_flush, for a flush that no thread waits for: later appends do not cost more after it,
 * as they do after ol_log_flush (ol_log_expect_flushes). */
int ol_log_flush_unasked(ol_log *log, int64_t *flushed, ol_error *error) OL_NODISCARD;
/* Begins to write what a flush would write, and returns.  The disk can then work on several logs at
 * a time, whereas flushes made one by one would wait for each other.  Does nothing while a flush, a
 * truncation or a close runs.  Makes nothing durable.  A failure leaves the log failed, which the
 * next flush reports. */
void ol_log_begin_flush(ol_log *log);
/* Returns whether the background should flush, because at least OL_UNFLUSHED_WANTED segments were
 * rolled since the last flush: rolled segments keep their files open until then. */
bool ol_log_wants_flush(ol_log *log);
/* Called when commits will wait for the disk: from then on, extensions are written as zeros.
 * Without this call, that begins only with the first flush. */
void ol_log_expect_flushes(ol_log *log);

/* For one background thread: extends the active segment, touches its pages and prepares the next
 * segment, ahead of need.  Returns whether it did something.  An error is not reported, because the
 * writer will meet it itself. */
bool ol_log_prepare(ol_log *log);

/* [writer] Closes the active segment, even if it is small or old, and begins the next one, so that
 * the closed one can be cleaned after a flush has covered it.  Nothing happens when the active
 * segment is empty.  Fails as a reservation does. */
int ol_log_roll_active(ol_log *log, ol_error *error) OL_NODISCARD;

/* Returns a counter that changes before and after each truncation.  If it changed, bytes that were
 * read earlier may differ from those in the log. */
uint64_t ol_log_cuts(const ol_log *log);

/* [writer] Returns the flushed bound to be written into the next batch's `ol.flushed` header, or -1
 * if a batch that carries it was published since the last flush.  If the batch for which a bound
 * was taken could not be appended, the bound is returned again. */
int64_t ol_log_take_flushed_record(ol_log *log);
/* [writer] Returns whether ol_log_take_flushed_record would return a bound. */
bool ol_log_has_flushed_record(const ol_log *log);

/* [writer] Returns the greatest timestamp in the active segment, in ms; -1 none. */
int64_t ol_log_active_timestamp(const ol_log *log);

/* [writer] Applies new values of segment_bytes, segment_ms, index_interval_bytes,
 * segment_index_bytes and producer_expiration_ms from now on; the other members of `config` are
 * ignored.  The active segment keeps its index files, and does not grow above the size for which it
 * was made.  Fails with OL_INVALID and nothing changed, or with OL_IO if a spare file cannot be
 * removed. */
int ol_log_change_config(ol_log *log, const ol_log_config *config, ol_error *error) OL_NODISCARD;

/* Moves the log start up to `offset`, which is flushed, and removes the segments below it that are
 * closed and flushed.  Their files get names that end in ".deleted"; the owner removes these files
 * at any time, or the next open does.  The owner must have stored the log start durably in its
 * checkpoint before the call: after a crash the segments may exist or not.  A reader in a removed
 * segment keeps the bytes that it has and continues at the new start.  A lower offset moves
 * nothing; files that an earlier call could not rename are renamed by the next one.  Fails with
 * OL_INVALID if `offset` is above the flushed bound.  After OL_DISK_FULL or OL_IO the start has
 * moved, and some files may still have their old names.  Only one call may run at a time. */
int ol_log_delete_below(ol_log *log, int64_t offset, ol_error *error) OL_NODISCARD;
#define OL_DELETED_ENDING ".deleted"

/* ------------------------------------------------------------ producers, epochs */

typedef struct ol_log_transaction {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_timestamp;     /* ms, of its newest batch */
    int16_t producer_epoch;
} ol_log_transaction;

/* [writer] Returns the open transaction at `index`, counted from 0 by first offset; false after the
 * last. */
bool ol_log_open_transaction_at(const ol_log *log, size_t index, ol_log_transaction *transaction);
/* [writer] */
bool ol_log_find_transaction(const ol_log *log, int64_t producer_id,
                             ol_log_transaction *transaction);
/* [writer] Returns the epoch of a producer's newest batch and the coordinator epoch of its last
 * marker; false: the producer is unknown. */
bool ol_log_producer(const ol_log *log, int64_t producer_id, int16_t *producer_epoch,
                     int32_t *coordinator_epoch);
/* [writer] Finds the newest data batch of a producer; false: the producer is unknown, or has
 * expired. */
typedef struct ol_log_last_batch {
    int64_t last_offset;        /* -1 none in its epoch */
    int64_t timestamp;          /* greatest of the batch, ms */
    int32_t last_sequence;      /* -1 none in its epoch */
    int32_t offset_delta;       /* last minus first offset */
    int16_t epoch;
} ol_log_last_batch;
bool ol_log_last_batch_of(const ol_log *log, int64_t producer_id, ol_log_last_batch *last);
/* [writer] Returns the highest producer id ever seen in this log, up to given_producer_id_max; -1:
 * none. */
int64_t ol_log_highest_producer_id(const ol_log *log);
/* [writer] Returns the first offset of the oldest open transaction, or the log end. */
int64_t ol_log_first_unstable(const ol_log *log);

/* [writer] Returns a malloc'ed copy of the state of all producers, ascending by id; NULL when there
 * are none. */
typedef struct ol_log_producer_state {
    int64_t producer_id;
    int64_t last_offset;        /* last offset of the producer's last data batch; -1: none */
    int16_t epoch;
} ol_log_producer_state;
int ol_log_producers_copy(const ol_log *log, ol_log_producer_state **states, size_t *count,
                          ol_error *error) OL_NODISCARD;

/* Calls `visit` with each aborted transaction that overlaps [from, up_to), whichever segment its
 * ABORT marker is in, the active one included.  The order is that of the markers in the log.  No
 * lock is held during `visit`; a status other than OL_OK ends the call.  OL_CORRUPT for a .txnindex
 * that does not parse, which error->path names; OL_FAILED after a truncation that failed. */
int ol_log_collect_aborted(ol_log *log, int64_t from, int64_t up_to,
                           int (*visit)(void *context, const ol_aborted_transaction *transaction),
                           void *context, ol_error *error) OL_NODISCARD;

/* Finds Kafka's endOffsetFor (docs/format/directory.md §1.5, docs/format/leader-epochs.md §12):
 * (-1, -1) when unknown. */
void ol_log_end_for_epoch(const ol_log *log, int32_t epoch, int32_t *found_epoch,
                          int64_t *end_offset);

/* Returns the epoch that wrote the record at `offset`; -1 when unknown. */
int32_t ol_log_epoch_at(const ol_log *log, int64_t offset);

/* Fills in the epochs that begin below `offset`, ascending, but at most `capacity` of them, and
 * returns how many there are in all. */
size_t ol_log_epochs(const ol_log *log, int64_t offset, ol_leader_epoch *epochs, size_t capacity);

/* ------------------------------------------------------------ reading */

/* A reader walks the log upwards in pieces of whole batches.  It holds the segment that it reads,
 * so a segment that is cleaned or truncated away stays readable until the reader moves on.  The
 * reader then finds its position again by offset, never by file position. */
typedef struct ol_log_reader ol_log_reader;

typedef struct ol_log_piece {
    const uint8_t *data;        /* whole batches; the first may begin below the offset asked for */
    size_t size;
    int64_t base_offset;        /* of the first batch */
    int64_t position;           /* of data[0] in the file */
    int64_t segment_base;
    const char *path;           /* path of the segment file; borrowed until the next call */
} ol_log_piece;

int ol_log_reader_open(ol_log *log, int64_t offset, ol_log_reader **reader,
                       ol_error *error) OL_NODISCARD;

/* Reads the next piece of at most `size_max` bytes (at least one whole batch), valid until the next
 * call or close.  OL_END at the log end; a later call may return more.  OL_OUT_OF_RANGE: the log
 * was truncated below the reader's offset.  OL_CORRUPT: the bytes at error->path and position
 * cannot be walked.  OL_IO with a position: the disk cannot read the bytes there, or another
 * process truncated the file.  After both, ol_log_reader_skip continues.  Any other OL_IO concerns
 * the file as a whole.  The caller checks the CRCs; on a read-only log a batch whose CRC fails may
 * be unfinished: see ol_log_reader_retry. */
int ol_log_reader_next(ol_log_reader *reader, size_t size_max, ol_log_piece *piece,
                       ol_error *error) OL_NODISCARD;

/* Reads the bytes of the last piece from `position` on again from the file, for read-only logs.
 * Returns OL_END instead of a third try in a row. */
int ol_log_reader_retry(ol_log_reader *reader, int64_t position, ol_log_piece *piece,
                        ol_error *error) OL_NODISCARD;

/* Continues at the next batch after `position` in the current segment whose header and CRC are
 * right, or at the next segment.  Bytes that the disk cannot read are skipped, too.  *is_end: no
 * later batch exists, so the bytes may be an unfinished tail. */
int ol_log_reader_skip(ol_log_reader *reader, int64_t position, bool *is_end,
                       ol_error *error) OL_NODISCARD;

/* Returns the offset below which every batch was returned or skipped. */
int64_t ol_log_reader_offset(const ol_log_reader *reader);

void ol_log_reader_close(ol_log_reader *reader);

/* Reads whole batches, at most `capacity` bytes, into `buffer`: from the one that holds `offset`
 * on, as long as all of their records are below `end`.  If `offset` is where an earlier call ended,
 * one read of the file is enough.  *size is 0 if no such batch exists yet.  Any thread; no lock is
 * held while the disk is read.  Fails with OL_OUT_OF_RANGE (below the start, or above the end of
 * the log), OL_TOO_LARGE (the first batch does not fit; the reason says what it needs), OL_CORRUPT,
 * OL_IO. */
int ol_log_read(ol_log *log, int64_t offset, int64_t end, uint8_t *buffer, size_t capacity,
                size_t *size, ol_error *error) OL_NODISCARD;

/* The bytes that ol_log_read would read, as a range of a file for sendfile.  The range begins with
 * the batch that holds `offset`, is in one segment, and may end in the middle of a batch other than
 * the first. */
typedef struct ol_file_range {
    char path[OL_ERROR_PATH_MAX];
    int64_t position;
    size_t size;
} ol_file_range;
int ol_log_file_range(ol_log *log, int64_t offset, int64_t end, size_t size_max,
                      ol_file_range *range, ol_error *error) OL_NODISCARD;

/* Finds the segment at `index`, counted from 0 in ascending order; false after the last. */
typedef struct ol_log_segment_info {
    int64_t base_offset;
    int64_t size;
    bool active;
    char path[OL_ERROR_PATH_MAX];
} ol_log_segment_info;
bool ol_log_segment_at(const ol_log *log, size_t index, ol_log_segment_info *info);

/* Facts about the files of one segment, from which a cleaner selects and groups segments
 * (docs/format/cleaner.md §8.1, §8.4).  Reads the files; OL_OUT_OF_RANGE when no segment has this
 * base any longer. */
typedef struct ol_log_segment_files {
    int64_t modified_ms;        /* of the .log */
    int64_t first_timestamp;    /* greatest timestamp of the first batch; -1: none, or an empty
                                   segment */
    int64_t largest_timestamp;  /* greatest timestamp in the time index; modified_ms if that has
                                   none (docs/format/cleaner.md §8.1) */
    int64_t index_size;         /* bytes */
    int64_t time_index_size;
} ol_log_segment_files;
int ol_log_segment_files_at(ol_log *log, int64_t base_offset, ol_log_segment_files *files,
                            ol_error *error) OL_NODISCARD;

#endif
