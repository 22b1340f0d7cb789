/* log/log: the log in one partition directory, in the same files and formats as Kafka's
 * (docs/format/directory.md §1, docs/format/recovery.md §9, docs/format/brokers.md §16;
 * docs/durability.md).
 *
 * The log reads and writes batches, but does not interpret their records.  It owns the segments
 * with their indexes, the transaction index, the producer state and its snapshots, the leader epoch
 * cache, partition.metadata, and the sidecar with the flushed bound.
 *
 * Three log offsets describe the log: start <= flushed <= end.  The next batch is written at `end`,
 * and everything below `end` can be read.  Everything below `flushed` survives a power loss.
 * `flushed` rises only after a successful flush.
 *
 * Locks: a call that is marked [writer] may be made only while its caller holds the partition's
 * writer lock.  Every other call may be made from any thread at any time between open and close,
 * also during a [writer] call.  No call takes a lock that belongs to its caller.  Flushing and
 * reading never wait for an append or a roll.  A flush waits while a truncation runs, and while an
 * epoch or the sidecar is stored.  A reader waits while a truncation shortens a file.
 *
 * Failure: a call that fails leaves the log as it was, unless the comment of the call says
 * otherwise or the log itself has *failed*.  A log fails when only another open can find out what
 * is on disk (docs/architecture.md §2.2):
 * - A flush of a segment failed, in any thread.
 * - A truncation or a swap of segments stopped half-way.
 * - A roll was undone, but its files could not be removed.
 * - Half a batch was written and cannot be removed.
 * - An ABORT is missing from the transaction index.
 * A full disk does not make the log fail.  Once the log has failed, every append and flush is
 * refused with OL_FAILED until the log is opened again.  Readers continue, except after a failed
 * truncation. */
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
    /* A batch starts a new segment if its timestamp is more than this number of milliseconds after
     * the first timestamp of the segment (docs/format/directory.md §1.10). */
    int64_t segment_ms;
    int64_t index_interval_bytes;
    int64_t segment_index_bytes;
    /* A producer without an open transaction is removed once its last batch is this old
     * (docs/format/directory.md §1.6). */
    int64_t producer_expiration_ms;
    /* The file of the active segment grows in steps.  The first step has extend_bytes_min bytes,
     * and each further step is twice as large, up to extend_bytes_max. */
    int64_t extend_bytes_min;
    int64_t extend_bytes_max;
    /* An open that is given a mark (log/mark.h) need not read the log below it.  If that part of
     * the log is smaller than settled_bytes_min, the open reads it all the same, because this takes
     * hardly any time and proves more. */
    int64_t settled_bytes_min;
    /* The highest producer id that a broker can have given to a producer.
     * ol_log_highest_producer_id ignores higher ids. 0: no limit. */
    int64_t given_producer_id_max;
    ol_append append;
} ol_log_config;

/* Sets the defaults that Kafka has for the offsets topic.  The steps in which the file grows are
 * set to 64 KiB to 8 MiB. */
void ol_log_config_init(ol_log_config *config);

typedef struct ol_log_options {
    ol_fs *fs;
    const char *directory;              /* ".../__consumer_offsets-12" */
    ol_log_config config;
    bool writable;  /* false: the open and the log change nothing in the directory */
    /* If the directory does not exist, create it and an empty log in it.  Only if `writable` is
     * true. */
    bool create;
    bool clean;                         /* The log dir had Kafka's clean-shutdown marker, so all of
                                           the log was flushed (docs/format/recovery.md §9.2). */
    /* Only for a read-only open: another process is appending to the log.  A bad tail then counts
     * as unfinished, even if `clean` is true. */
    bool being_written;
    /* Accept that records are missing (docs/repair.md).  The open copies the bytes that it removes
     * to other files and lists the losses in the report.  The log is then usable.  Allowed only if
     * `writable` is true and `clean` is false. */
    bool accept_loss;
    /* The log belongs to a replica.  The open ignores the `ol.flushed` headers in it, because they
     * say what the leader has flushed. */
    bool replicated;
    int64_t recovery_point;             /* of the checkpoint, -1 none */
    bool recovery_point_changed;        /* another program wrote the recovery-point checkpoint after
                                           offsetlog did */
    bool log_start_changed;             /* another program wrote the checkpoint of log start offsets
                                           after offsetlog did */
    bool witnessed;  /* the log dir has a record that this partition has a manifest and a sidecar */
    int changed_checkpoints;            /* how many checkpoints of the log dir another program wrote
                                           after offsetlog did */
    /* How far another program has cleaned the log, according to the cleaner's checkpoint:
     * - OL_CLEANED_UNKNOWN if the checkpoint is damaged;
     * - if another program wrote the log dir, the partition's entry in the checkpoint, or 0 if it
     *   has no entry;
     * - OL_CLEANED_UNKNOWN if the record of what offsetlog wrote is damaged or missing;
     * - -1 if the entry is the one that offsetlog wrote, the entry if it is higher than that one,
     *   and OL_CLEANED_UNKNOWN if it is lower. */
    int64_t cleaned_by_others;
    int64_t log_start_offset;           /* of the checkpoint, -1 none */
    /* The mark (log/mark.h) of a state that the caller has, or NULL.  The state contains everything
     * below the mark, so that the open need not read that part of the log (log/settled.c).  The
     * mark is used only while the log is opened. */
    const ol_log_mark *mark;
    /* The topic id (16 bytes) to be written if partition.metadata does not exist.  NULL: none is
     * written. */
    const uint8_t *topic_id;
    /* The topic id that the topic's other partitions have, or NULL.  Used if this partition's topic
     * id is damaged or missing. */
    const uint8_t *known_topic_id;
    const ol_decompressor *decompressor;  /* NULL: there is none.  Otherwise it must stay valid as
                                             long as the log. */
    /* The clock for timestamps of batches and for the ages of producers.  NULL: the clock of the
     * system. */
    int64_t (*clock_ms)(void *context);
    void *clock_context;
} ol_log_options;

/* A range of offsets whose records are missing or may be missing (docs/verify.md).  They may be
 * missing if no witness proves that they are present.  The witnesses are the manifest, the sidecar
 * and the checkpoints. */
typedef struct ol_log_loss {
    int64_t from;
    int64_t below;                      /* INT64_MAX: unknown */
    /* True: acknowledged batches are lost.  False: it is not certain that batches are lost, because
     * a witness is missing, or another program wrote to the log. */
    bool proven;
    ol_error error;                     /* its status is OL_CORRUPT and its offset is `from`; it has
                                           a path and a reason */
} ol_log_loss;
enum { OL_LOG_LOSSES_KEPT = 16 };

/* The value of cleaned_by_others when it is not known how far another program has cleaned the
 * log. */
#define OL_CLEANED_UNKNOWN INT64_MAX

/* The findings and actions of an open.  The counts are of this open only. */
typedef struct ol_log_recovery {
    bool recovered;                     /* the log had no clean-shutdown marker, so the open checked
                                           the batches at or above the recovery point */
    /* Writable: the number of bytes that were copied to other files before they were truncated, or
     * before their segment was repaired.  Read-only: the number of bytes of the torn tail. */
    int64_t torn_bytes;
    char torn_path[OL_ERROR_PATH_MAX];  /* the file that was truncated */
    char broken_path[OL_ERROR_PATH_MAX];/* the `.broken` copy of these bytes */
    int64_t torn_position;
    /* The number of segments that were removed: segments after a torn one, which were first copied
     * to other files; segments that a finished swap replaced; and files of interrupted swaps. */
    int64_t segments_removed;
    int64_t swaps_finished;
    int64_t rewritten_bytes;            /* bytes of [flushed, end) that the open wrote again and
                                           flushed (docs/architecture.md §2.2) */
    bool corrupt;                       /* A bad batch is below the flushed bound, so the log is
                                           open read-only.  `corruption` says where the batch is. */
    ol_error corruption;
    /* If no good batch follows the corruption: the log offset up to which the log was flushed. -1:
     * a good batch follows the corruption, or nothing proves up to where the log was flushed. */
    int64_t corruption_below;
    ol_log_loss losses[OL_LOG_LOSSES_KEPT];  /* if there are more losses, the last entry covers all
                                                others */
    size_t loss_count;
    bool is_lossy;  /* at least one loss is proven, so the log is open read-only */
    bool others_worked;  /* another program wrote to the directory since offsetlog closed the log */
    bool log_start_refused;             /* the open did not use the log start from the checkpoint */
} ol_log_recovery;

/* Opens a partition directory.  If options->writable is true, also recovers the log
 * (docs/format/recovery.md §9, docs/durability.md); the caller must then hold the lock of the log
 * dir.  Corruption below the flushed bound and proven loss do not make ol_log_open fail.  Instead,
 * it sets recovery->corrupt or recovery->is_lossy, and the log refuses writes.  Fails with OL_IO,
 * OL_DISK_FULL, OL_NO_MEMORY, OL_NO_SUCH_FILE, OL_INVALID (a setting or the path is invalid), or
 * OL_CORRUPT (the topic id in partition.metadata is not options->topic_id). */
int ol_log_open(const ol_log_options *options, ol_log **log, ol_log_recovery *recovery,
                ol_error *error) OL_NODISCARD;

/* [writer] Closes the log cleanly.  It trims the active segment and its indexes to their true
 * sizes, writes the producer snapshot, and flushes every file that it changed and the directory.
 * The log is freed even if the call fails.  After a failure the directory is not cleanly closed, so
 * the caller must not write a clean-shutdown marker. */
int ol_log_close(ol_log *log, ol_error *error) OL_NODISCARD;

/* Frees the log without writing anything.  Used after a failure.  Also used in a forked child,
 * where it only closes the handles. */
void ol_log_abandon(ol_log *log);

int64_t ol_log_start(const ol_log *log);
/* Returns whether another program, such as a broker, wrote a part of the log, or may have written
 * it.  Any thread may call it. */
bool ol_log_has_other_writers(const ol_log *log);
int64_t ol_log_end(const ol_log *log);  /* loads the log end with acquire order, so everything below
                                           the result can be read */
int64_t ol_log_flushed(const ol_log *log);
/* Only for a read-only log.  Stores `end` as the log end.  Called after the caller has read batches
 * up to `end` that another process has appended. */
void ol_log_record_end(ol_log *log, int64_t end);
bool ol_log_is_writable(const ol_log *log);
bool ol_log_has_failed(const ol_log *log);
int32_t ol_log_leader_epoch(const ol_log *log); /* newest epoch, -1 none */
/* Returns whether partition.metadata has a topic id, and sets topic_id to it. */
bool ol_log_topic_id(const ol_log *log, uint8_t topic_id[16]);
int64_t ol_log_size_bytes(const ol_log *log);   /* of all segments, true sizes */
/* [writer] Sets the file system, directory, settings and decompressor in *options to those of the
 * log.  They are valid as long as the log.  The other members of *options are not meaningful. */
void ol_log_options_of(const ol_log *log, ol_log_options *options);

/* ------------------------------------------------------------ appending */

/* [writer] Reserves the bytes of the next batch, which has `size` bytes and `last_offset_delta` + 1
 * offsets.  Rolls the segment if Kafka would (docs/format/directory.md §1.10).  Extends the file if
 * the background thread has not done so yet.  Sets *start to the reserved bytes: `size` bytes of
 * the active segment, which are all zero and may be written.  The content of the log does not
 * change.
 *
 * A caller that does not publish the batch must set the bytes that it wrote back to zero.  The next
 * reservation then gets the same bytes.  A caller that must not wait calls ol_log_is_prepared
 * before ol_log_reserve.
 *
 * Fails with OL_DISK_FULL, OL_IO, OL_NO_MEMORY, OL_READ_ONLY, OL_FAILED, OL_INVALID (the batch has
 * no header or no offset), or OL_TOO_LARGE.  OL_TOO_LARGE means that the log has no offset left, or
 * that the batch does not fit a segment together with the space that is kept for the ends of open
 * transactions (see below). */
int ol_log_reserve(ol_log *log, size_t size, int32_t last_offset_delta, int64_t max_timestamp,
                   uint8_t **start, int64_t *base_offset, ol_error *error) OL_NODISCARD;

/* The ends of transactions.  A full disk must not prevent the end of a transaction.  Therefore the
 * log keeps space for the end of a transaction from its first batch on.
 * ol_log_reserve_transactional keeps this space, and only ol_log_reserve_end uses it.  The log
 * keeps space for as many ends as fit a twelfth of a segment.  Further ends, and ends for which
 * there was no space when the log was opened, are written like other batches and may meet a full
 * disk. */

/* [writer] Does what ol_log_reserve does for a batch of a transaction.  It also keeps space for the
 * end of this transaction, in addition to the space for the ends of all others.  If it fails with
 * OL_DISK_FULL, the space that is kept is the same as before. */
int ol_log_reserve_transactional(ol_log *log, int64_t producer_id, size_t size,
                                 int32_t last_offset_delta, int64_t max_timestamp, uint8_t **start,
                                 int64_t *base_offset, ol_error *error) OL_NODISCARD;

/* [writer] Reserves space, as ol_log_reserve does, for the marker that ends an open transaction.
 * Fails with OL_DISK_FULL only if no space was kept for the marker. */
int ol_log_reserve_end(ol_log *log, int64_t max_timestamp, uint8_t **start, int64_t *base_offset,
                       ol_error *error) OL_NODISCARD;

/* [writer] Keeps space for the ends of all open transactions.  An owner calls it before it begins
 * to write.  If it fails with OL_DISK_FULL, nothing has changed and the log stays usable. */
int ol_log_keep_ends(ol_log *log, ol_error *error) OL_NODISCARD;

/* [writer] Frees the space that is kept for the ends of transactions.  A follower does not need it,
 * because it fetches these ends together with the other batches. */
void ol_log_release_ends(ol_log *log);

/* Returns the size of the largest batch that fits a segment even if the greatest possible space is
 * kept for ends. */
size_t ol_log_batch_bytes_max(const ol_log_config *config);

/* [writer] Returns whether the next batch, of at most `size` bytes, can be stored without a roll
 * and without a page fault, and with no system call except one that asks for the length of the
 * file.  The result is always false if batches are written with pwrite (ol_append). */
bool ol_log_is_prepared(const ol_log *log, size_t size, int32_t last_offset_delta,
                        int64_t max_timestamp);

/* [writer] Publishes the batch that the caller has sealed at the reserved start.  The log end moves
 * past the batch, and the indexes, the producer state and the epochs are updated.  If batches are
 * written with pwrite (ol_append), the call can fail.  After OL_DISK_FULL or OL_IO the reserved
 * bytes have been set to zero, and nothing has changed.  After OL_FAILED half a batch remains in
 * the file, and the log has failed. */
int ol_log_publish(ol_log *log, const ol_batch_fields *fields, size_t size, ol_error *error);

/* [writer] Ensures that `size` more bytes, in batches of at most `batch_size_max` bytes, can be
 * appended even if the disk becomes full.  If the bytes fit the rest of the active segment, the
 * call allocates them there.  If they fit one segment, but not the rest of the active one, the log
 * rolls at once, and the call allocates them in the new segment.  Otherwise the call allocates the
 * rest of the active segment and as many spare segments as needed, which the next rolls use.  A
 * roll to a spare segment may still meet a full disk, because it creates other files.  A call that
 * fails removes the spare segments that it made. */
int ol_log_reserve_space(ol_log *log, int64_t size, size_t batch_size_max,
                         ol_error *error) OL_NODISCARD;

/* [writer] Appends whole batches unchanged, as a follower fetches them.  Each batch is parsed and
 * its CRC is verified.  Its base offset must be at or above the end of the batch before it.  Gaps
 * are allowed, because the leader's log may have been cleaned.  If a batch is bad, the call fails
 * with OL_CORRUPT, and error->position is its position in `data`.
 *
 * The call appends all batches or none, with one exception.  The disk may become full after a roll,
 * and be too full even for the truncation that would undo the call.  The batches that were appended
 * so far then stay. */
int ol_log_append(ol_log *log, const uint8_t *data, size_t size, ol_error *error) OL_NODISCARD;

/* [writer] Starts a leader epoch at the log end (docs/format/directory.md §1.5).  All batches that
 * are appended from now on must carry this epoch.  The call writes the epoch to the checkpoint at
 * once. */
int ol_log_assign_epoch(ol_log *log, int32_t epoch, ol_error *error) OL_NODISCARD;

/* [writer] Moves an empty log to `offset`, which must be at or above its end.  A follower needs
 * this if the leader's log begins at `offset`.  After a crash, the log is still empty, and its end
 * is the former end or `offset`.  Fails with OL_INVALID, OL_DISK_FULL, OL_NO_MEMORY or OL_IO.  The
 * log is empty after a failure, too. */
int ol_log_restart(ol_log *log, int64_t offset, ol_error *error) OL_NODISCARD;

/* [writer] Removes everything at and above `offset`, including the epochs that begin there
 * (docs/format/leader-epochs.md §12).  The epochs are removed even if the log ends at `offset`.
 * Before the files are shortened, the sidecar is lowered and synced (docs/durability.md).  Only
 * whole batches are removed, so the new end may be below `offset`.  Before the call, the owner must
 * have durably lowered the recovery point in its checkpoint.  A recovery point above the new end
 * would make a torn tail look like corruption.  The log is unchanged if the call fails with
 * OL_DISK_FULL.  It is also unchanged if the call cannot even begin, because the log cannot be read
 * or because the files of an abandoned swap cannot be removed.  After any other failure the log has
 * failed. */
int ol_log_truncate(ol_log *log, int64_t offset, ol_error *error) OL_NODISCARD;

/* Makes everything below the present log end, and all rolls so far, survive a power loss.  Sets
 * *flushed to the new flushed bound.  Concurrent calls are allowed, but callers should arrange that
 * one call serves all threads that wait.  Returns at once if there is nothing new to flush. */
int ol_log_flush(ol_log *log, int64_t *flushed, ol_error *error) OL_NODISCARD;
/* Does what ol_log_flush does, for a flush on which no thread waits.  After ol_log_flush, later
 * appends cost more (see ol_log_expect_flushes).  After this call they do not. */
int ol_log_flush_unasked(ol_log *log, int64_t *flushed, ol_error *error) OL_NODISCARD;
/* Starts to write what a flush would write, and returns without waiting.  It makes nothing durable.
 * With this call the disk can work on several logs at the same time; flushes that are made one
 * after the other would wait for each other.  The call does nothing while a flush, a truncation or
 * a close runs.  If the disk reports an error, the log fails, and the next flush returns
 * OL_FAILED. */
void ol_log_begin_flush(ol_log *log);
/* Returns whether the background should flush the log, because at least OL_UNFLUSHED_WANTED
 * segments were rolled since the last flush.  A rolled segment keeps its files open until a
 * flush. */
bool ol_log_wants_flush(ol_log *log);
/* Called when commits will wait for the disk.  From then on, the log extends its file by writing
 * zeros, which makes flushes faster.  Without this call it begins to do so at the first
 * ol_log_flush. */
void ol_log_expect_flushes(ol_log *log);

/* Called by one background thread.  Extends the active segment, touches its pages and prepares the
 * next segment before the writer needs them.  Returns whether it did something.  It does not report
 * errors, because the writer will meet the same error. */
bool ol_log_prepare(ol_log *log);

/* [writer] Closes the active segment, even if it is small or young, and begins the next one.  The
 * closed segment can be cleaned once a flush has covered it.  If the active segment is empty,
 * nothing happens.  Fails as ol_log_reserve does. */
int ol_log_roll_active(ol_log *log, ol_error *error) OL_NODISCARD;

/* Returns a counter that changes before and after each truncation.  If it has changed since bytes
 * of the log were read, these bytes may differ from those in the log. */
uint64_t ol_log_cuts(const ol_log *log);

/* [writer] Returns the flushed bound, which the caller must write into the `ol.flushed` header of
 * the next batch.  Returns -1 if a batch with the present bound has already been published.  If the
 * batch cannot be appended, the next call returns the bound again. */
int64_t ol_log_take_flushed_record(ol_log *log);
/* [writer] Returns whether ol_log_take_flushed_record would return a bound. */
bool ol_log_has_flushed_record(const ol_log *log);

/* [writer] Returns the greatest timestamp in the active segment, in ms; -1 none. */
int64_t ol_log_active_timestamp(const ol_log *log);

/* [writer] Applies new values of segment_bytes, segment_ms, index_interval_bytes,
 * segment_index_bytes and producer_expiration_ms.  The other members of `config` are ignored.  The
 * active segment keeps its index files, and does not grow beyond the size for which it was made.
 * Fails with OL_INVALID if a value is not allowed, and with OL_IO if a spare file cannot be
 * removed.  After a failure the old values stay in force. */
int ol_log_change_config(ol_log *log, const ol_log_config *config, ol_error *error) OL_NODISCARD;

/* Moves the log start up to `offset`, and removes the closed and flushed segments below it.  Before
 * the call, the owner must have stored `offset` durably in its checkpoint of log starts.  If
 * `offset` is below the log start, the log start does not move.  After a crash the segments may or
 * may not exist.  A reader in a removed segment keeps the bytes that it has, and continues at the
 * new log start.  Only one call may run at a time.
 *
 * The call gives the files of the removed segments names that end in ".deleted".  The owner may
 * remove these files at any time; otherwise the next open removes them.  If an earlier call could
 * not rename some files, this call renames them.
 *
 * Fails with OL_INVALID if `offset` is above the flushed bound.  After OL_DISK_FULL or OL_IO the
 * log start has moved, and some files may still have their old names. */
int ol_log_delete_below(ol_log *log, int64_t offset, ol_error *error) OL_NODISCARD;
#define OL_DELETED_ENDING ".deleted"

/* ------------------------------------------------------------ producers, epochs */

typedef struct ol_log_transaction {
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_timestamp;     /* ms, of its newest batch */
    int16_t producer_epoch;
} ol_log_transaction;

/* [writer] Finds the open transaction at `index`.  The open transactions are numbered from 0 in the
 * order of their first offsets.  Returns false if no transaction has this index. */
bool ol_log_open_transaction_at(const ol_log *log, size_t index, ol_log_transaction *transaction);
/* [writer] */
bool ol_log_find_transaction(const ol_log *log, int64_t producer_id,
                             ol_log_transaction *transaction);
/* [writer] Finds the epoch of a producer's newest batch and the coordinator epoch of its last
 * marker.  Returns false if the producer is unknown. */
bool ol_log_producer(const ol_log *log, int64_t producer_id, int16_t *producer_epoch,
                     int32_t *coordinator_epoch);
/* [writer] Finds the newest data batch of a producer.  Returns false if the producer is unknown or
 * was removed because it was too old. */
typedef struct ol_log_last_batch {
    int64_t last_offset;        /* -1 none in its epoch */
    int64_t timestamp;          /* greatest of the batch, ms */
    int32_t last_sequence;      /* -1 none in its epoch */
    int32_t offset_delta;       /* last minus first offset */
    int16_t epoch;
} ol_log_last_batch;
bool ol_log_last_batch_of(const ol_log *log, int64_t producer_id, ol_log_last_batch *last);
/* [writer] Returns the highest producer id that was ever in this log.  Ids above
 * given_producer_id_max do not count.  Returns -1 if there is none. */
int64_t ol_log_highest_producer_id(const ol_log *log);
/* [writer] Returns the first offset of the oldest open transaction, or the log end if no
 * transaction is open. */
int64_t ol_log_first_unstable(const ol_log *log);

/* [writer] Copies the state of all producers, in ascending order of their ids, to memory that the
 * caller must free.  Sets *states to NULL if there are no producers. */
typedef struct ol_log_producer_state {
    int64_t producer_id;
    int64_t last_offset;        /* last offset of the producer's last data batch; -1: none */
    int16_t epoch;
} ol_log_producer_state;
int ol_log_producers_copy(const ol_log *log, ol_log_producer_state **states, size_t *count,
                          ol_error *error) OL_NODISCARD;

/* Calls `visit` for each aborted transaction that overlaps [from, up_to), in the order of the ABORT
 * markers in the log.  The marker may be in any segment, also in the active one.  No lock is held
 * during `visit`.  If `visit` returns a status other than OL_OK, the call ends and returns this
 * status.  Fails with OL_CORRUPT if a .txnindex cannot be parsed (error->path is its path), and
 * with OL_FAILED after a failed truncation. */
int ol_log_collect_aborted(ol_log *log, int64_t from, int64_t up_to,
                           int (*visit)(void *context, const ol_aborted_transaction *transaction),
                           void *context, ol_error *error) OL_NODISCARD;

/* Does what Kafka's endOffsetFor does (docs/format/directory.md §1.5, docs/format/leader-epochs.md
 * §12).  Sets *found_epoch and *end_offset to -1 if the result is unknown. */
void ol_log_end_for_epoch(const ol_log *log, int32_t epoch, int32_t *found_epoch,
                          int64_t *end_offset);

/* Returns the leader epoch of the record at `offset`, or -1 if it is unknown. */
int32_t ol_log_epoch_at(const ol_log *log, int64_t offset);

/* Copies the leader epochs that begin below `offset` to `epochs`, in ascending order, but no more
 * than `capacity` of them.  Returns how many such epochs there are in all. */
size_t ol_log_epochs(const ol_log *log, int64_t offset, ol_leader_epoch *epochs, size_t capacity);

/* ------------------------------------------------------------ reading */

/* A reader walks the log upwards in pieces that consist of whole batches.  The reader can read its
 * present segment to the end, even if the cleaner replaces the segment or a truncation removes it
 * in the meantime.  In that case the reader then finds its place in the log again by offset, not by
 * file position. */
typedef struct ol_log_reader ol_log_reader;

typedef struct ol_log_piece {
    const uint8_t *data;        /* whole batches; the first may begin below the offset at which the
                                   reader was opened */
    size_t size;
    int64_t base_offset;        /* of the first batch */
    int64_t position;           /* of data[0] in the file */
    int64_t segment_base;
    const char *path;           /* path of the segment file; valid until the next call */
} ol_log_piece;

int ol_log_reader_open(ol_log *log, int64_t offset, ol_log_reader **reader,
                       ol_error *error) OL_NODISCARD;

/* Reads the next piece.  It has at most `size_max` bytes, or one batch if that batch is larger.
 * The piece is valid until the next call or until the reader is closed.  The caller must check the
 * CRCs.  In a read-only log, a batch with a wrong CRC may be unfinished; see ol_log_reader_retry.
 *
 * Returns OL_END at the log end; a later call may return more.  Fails with OL_NO_MEMORY, with
 * OL_FAILED after a failed truncation, or with
 * - OL_OUT_OF_RANGE if the log was truncated below the reader's offset;
 * - OL_CORRUPT if there is no batch at error->path and error->position, or one whose offsets do not
 *   fit the segment or the log end; the caller can continue with ol_log_reader_skip;
 * - OL_IO with a position if the disk cannot read the bytes there, or if another process truncated
 *   the file; the caller can continue with ol_log_reader_skip;
 * - OL_IO without a position if the file as a whole cannot be used. */
int ol_log_reader_next(ol_log_reader *reader, size_t size_max, ol_log_piece *piece,
                       ol_error *error) OL_NODISCARD;

/* Reads the part of the last piece that begins at the file position `position` from the file again.
 * Returns OL_END at the third attempt in a row for the same piece.  Works only for a read-only log;
 * for other logs it always returns OL_END. */
int ol_log_reader_retry(ol_log_reader *reader, int64_t position, ol_log_piece *piece,
                        ol_error *error) OL_NODISCARD;

/* Moves the reader to the next good batch after `position` in the present segment.  If there is
 * none, moves it to the next segment.  A good batch has a valid header and a correct CRC.  Bytes
 * that the disk cannot read are skipped, too.  Sets *is_end to whether the log has no further
 * batch; the skipped bytes may then be an unfinished tail. */
int ol_log_reader_skip(ol_log_reader *reader, int64_t position, bool *is_end,
                       ol_error *error) OL_NODISCARD;

/* Returns the offset up to which the reader has returned or skipped every batch. */
int64_t ol_log_reader_offset(const ol_log_reader *reader);

void ol_log_reader_close(ol_log_reader *reader);

/* Reads whole batches of at most `capacity` bytes in total into `buffer`.  The first is the batch
 * that contains `offset`.  The others follow it, as long as all of their records are below `end`.
 * If `offset` is where an earlier call ended, the call needs only one read of the file.  *size is 0
 * if no such batch exists yet.  Any thread may call it.  No lock is held while the disk is read.
 * Fails with OL_OUT_OF_RANGE (`offset` is below the log start or above the log end), OL_TOO_LARGE
 * (the first batch does not fit the buffer; the reason says how many bytes it needs), OL_CORRUPT or
 * OL_IO. */
int ol_log_read(ol_log *log, int64_t offset, int64_t end, uint8_t *buffer, size_t capacity,
                size_t *size, ol_error *error) OL_NODISCARD;

/* The bytes that ol_log_read would read, as a range of one file that can be sent with sendfile.
 * The range begins with the batch that contains `offset`, and lies in one segment.  It contains at
 * least one whole batch, and may end in the middle of a later one. */
typedef struct ol_file_range {
    char path[OL_ERROR_PATH_MAX];
    int64_t position;
    size_t size;
} ol_file_range;
int ol_log_file_range(ol_log *log, int64_t offset, int64_t end, size_t size_max,
                      ol_file_range *range, ol_error *error) OL_NODISCARD;

/* Finds the segment at `index`, which counts the segments from 0 in ascending order of their base
 * offsets.  Returns false if no segment has this index. */
typedef struct ol_log_segment_info {
    int64_t base_offset;
    int64_t size;
    bool active;
    char path[OL_ERROR_PATH_MAX];
} ol_log_segment_info;
bool ol_log_segment_at(const ol_log *log, size_t index, ol_log_segment_info *info);

/* Facts about the files of one segment.  From these the cleaner decides which segments it cleans,
 * and which of them it cleans together (docs/format/cleaner.md §8.1, §8.4).
 * ol_log_segment_files_at reads the files.  It returns OL_OUT_OF_RANGE if no segment has this base
 * offset any more. */
typedef struct ol_log_segment_files {
    int64_t modified_ms;        /* of the .log */
    int64_t first_timestamp;    /* the greatest timestamp in the first batch; -1: the batch has no
                                   timestamp, or the segment is empty */
    int64_t largest_timestamp;  /* the greatest timestamp in the time index; if the time index has
                                   none, the same as modified_ms (docs/format/cleaner.md §8.1) */
    int64_t index_size;         /* bytes */
    int64_t time_index_size;
} ol_log_segment_files;
int ol_log_segment_files_at(ol_log *log, int64_t base_offset, ol_log_segment_files *files,
                            ol_error *error) OL_NODISCARD;

#endif
