/* table/table: the committed positions of one partition in memory.
 *
 * Each (group, topic, partition) maps to a cell.  Structure (docs/table.md says why): a *pair* is
 * one (group, topic), found by one probe of a hash of pairs.  A pair's partitions are divided into
 * chunks of 4 consecutive numbers; a chunk is a bitmap and a packed, aligned run of 32-byte cells.
 * So cells of neighbouring partitions are adjacent, in whatever order they were added, and missing
 * numbers cost nothing.  All addresses are 32-bit indices into growing arenas, never pointers, so
 * the arenas can be written to a file and read back as they are.  Large arenas grow by an eighth at
 * a time, in place or moved without copying (mremap); very large ones ask for huge pages.  The hash
 * of pairs grows in small independent pieces.  Growth never copies the whole table.
 *
 * Ownership: the table owns every byte it holds.  Slices given to it are copied; slices taken from
 * it are borrowed and valid until the next call that changes the table.
 *
 * Locks: none in here.  Calls that take a const table may run side by side; any other call runs
 * alone.  A partition changes its table under its writer and table locks, and reads it under
 * either; its loader needs neither (partition/partition_impl.h).
 *
 * Failure: only calls marked OL_NODISCARD can fail, with OL_NO_MEMORY, or with OL_LIMIT when an
 * index space is full; nothing is changed then.  Calls that apply a record with a reservation
 * cannot fail (docs/architecture.md §4 steps 7 and 9).
 */
#ifndef OL_TABLE_TABLE_H
#define OL_TABLE_TABLE_H

#include "base/base.h"
#include "base/hash.h"
#include "base/status.h"

typedef struct ol_table ol_table;

/* The value of one offset commit as it is installed.  metadata.data may be NULL only when
 * metadata.size is 0. */
typedef struct ol_position_value {
    int64_t offset;
    int64_t log_offset;         /* of the record itself */
    int64_t commit_timestamp;
    int64_t expire_timestamp;   /* -1: none */
    int32_t leader_epoch;       /* -1: none; a log can hold any value */
    ol_slice metadata;
    const uint8_t *topic_id;    /* 16 bytes or NULL */
} ol_position_value;

/* One position of a run.  A run is a sequence of positions of the same (group, topic), which is
 * given apart; see ol_table_put_run. */
typedef struct ol_position_row {
    ol_position_value value;
    int32_t partition;
} ol_position_row;

/* A (group, topic) as a caller names it.  Callers that handle many records compute its hash
 * once. */
typedef struct ol_pair_name {
    ol_slice group;
    ol_slice topic;
    uint64_t group_hash;
    uint64_t hash;
} ol_pair_name;

/* The place of a future value, as allocated by ol_table_reserve.  Plain memory, valid until it is
 * installed or released. */
typedef struct ol_reservation {
    uint32_t pair;
    int32_t partition;
    uint32_t metadata;          /* string number, one reference held */
    uint32_t topic_id;          /* string number, one reference held */
    int64_t expire_timestamp;
} ol_reservation;

int ol_table_create(ol_table **table, ol_error *error) OL_NODISCARD;
void ol_table_destroy(ol_table *table);         /* NULL is fine */

uint64_t ol_table_group_hash(const ol_table *table, ol_slice group);
ol_pair_name ol_table_name(const ol_table *table, ol_slice group, uint64_t group_hash,
                           ol_slice topic);

/* Return the pair's number, or 0.  The second function first tries the pair that a hint (see below)
 * named. */
uint32_t ol_table_find(const ol_table *table, const ol_pair_name *name);
uint32_t ol_table_find_hinted(const ol_table *table, uint32_t hint, const ol_pair_name *name);

/* Hints for bulk work, called some rows ahead of the row itself; they read memory and change
 * nothing.  The first prefetches the hash slot.  The second, some rows later, looks the slot up and
 * prefetches the pair.  The third prefetches the pair's strings and chunk, the fourth the cell.
 * The second returns the pair's number for the later ones and for ol_table_put_hinted.  That number
 * is a guess (0: none); a wrong one only costs time.  The last hint is for a cell that is, or will
 * be, reserved. */
void ol_table_prefetch_slot(const ol_table *table, const ol_pair_name *name);
uint32_t ol_table_prefetch_pair(const ol_table *table, const ol_pair_name *name);
void ol_table_prefetch_chunk(const ol_table *table, uint32_t pair, int32_t partition);
void ol_table_prefetch_cell(const ol_table *table, uint32_t pair, int32_t partition);
void ol_table_prefetch_reserved(const ol_table *table, uint32_t pair, int32_t partition);

/* ------------------------------------------------------------------------------------- changing */

/* Allocates everything that installing `value` at (name, partition) will need: pair, cell (absent
 * until installed, so no read sees it), metadata string, topic id, extras entry.  A reservation
 * pins its cell and pair: neither is freed while it lives. */
int ol_table_reserve(ol_table *table, const ol_pair_name *name, int32_t partition,
                     const ol_position_value *value, ol_reservation *reservation, ol_error *error)
    OL_NODISCARD;

/* Installs a reserved value unconditionally and ends the reservation.  Cannot fail.  `value` is the
 * reserved one; its metadata, topic_id and expire_timestamp are taken from the reservation. */
void ol_table_install(ol_table *table, const ol_reservation *reservation,
                      const ol_position_value *value);

/* Installs only if nothing newer is there: no record (value or tombstone) of this cell at or above
 * value->log_offset was applied while the reservation lived (docs/format/loading.md §6.4,
 * docs/format/traps.md traps 14 and 15).  Ends the reservation.  Returns whether it installed. */
bool ol_table_install_if_newer(ol_table *table, const ol_reservation *reservation,
                               const ol_position_value *value);

/* Ends a reservation without installing; frees everything that nothing else needs. */
void ol_table_release(ol_table *table, const ol_reservation *reservation);

/* Reserves and installs in one step with one probe, for loading and a lone store. */
int ol_table_put(ol_table *table, const ol_pair_name *name, int32_t partition,
                 const ol_position_value *value, ol_error *error) OL_NODISCARD;

/* Returns the pair's number if ol_table_put of this value would allocate nothing and so cannot
 * fail; otherwise 0.  That is so if the cell exists with the same metadata, neither it nor the
 * value needs an extras entry, and the value's topic id, if it has one, is the pair's.  The answer
 * holds until the table is changed.  With it, a commit to a known position needs no reservation. */
uint32_t ol_table_settled(const ol_table *table, const ol_pair_name *name, int32_t partition,
                          const ol_position_value *value);

/* Like ol_table_settled, for a run of rows: returns whether ol_table_put_run of all of them would
 * allocate nothing.  `pair` is from ol_table_find. */
bool ol_table_run_settled(const ol_table *table, uint32_t pair, const ol_position_row *rows,
                          size_t count);

/* Like ol_table_put, but first tries the pair that ol_table_settled or a hint named; no pair may
 * have been freed since.  With a pair from ol_table_settled it cannot fail. */
int ol_table_put_hinted(ol_table *table, uint32_t pair, const ol_pair_name *name, int32_t partition,
                        const ol_position_value *value, ol_error *error) OL_NODISCARD;

/* Puts rows of one pair in their order, as ol_table_put of each would, but asks for memory for many
 * at once.  `hint` as for ol_table_put_hinted, or 0.  On failure the rows before the failed one
 * were put. */
int ol_table_put_run(ol_table *table, uint32_t hint, const ol_pair_name *name,
                     const ol_position_row *rows, size_t count, ol_error *error) OL_NODISCARD;

/* Applies a tombstone at log_offset: the cell becomes absent.  While a reservation pins the cell,
 * it remembers log_offset, so that pending values below that offset are not installed later.
 * Returns whether a value was there. */
bool ol_table_remove(ol_table *table, const ol_pair_name *name, int32_t partition,
                     int64_t log_offset);

/* -------------------------------------------------------------------------------------- reading */

/* Fills *value (metadata and topic_id are borrowed) and returns true if there is a committed
 * position. */
bool ol_table_get(const ol_table *table, const ol_pair_name *name, int32_t partition,
                  ol_position_value *value);

/* Like ol_table_get, without a probe: for a pair that ol_table_find has found, and for a reserved
 * cell. */
bool ol_table_get_of_pair(const ol_table *table, uint32_t pair, int32_t partition,
                          ol_position_value *value);
bool ol_table_get_reserved(const ol_table *table, const ol_reservation *reservation,
                           ol_position_value *value);

typedef struct ol_table_row {
    ol_slice group;
    ol_slice topic;
    int32_t partition;
    ol_position_value value;
} ol_table_row;

/* A walk.  Zero-initialise it before the first call.  Any change of the table ends the walk
 * (OL_ASSERTed through a change counter).  Within one (group, topic) partitions ascend; otherwise
 * the order is unspecified but repeatable for an unchanged table. */
typedef struct ol_table_cursor {
    uint64_t changes;
    uint32_t pair;
    uint32_t leaf;              /* the place in the pair's chunks */
    uint32_t place;
    uint32_t bit;
    bool started;
} ol_table_cursor;

/* Every position. */
bool ol_table_next(const ol_table *table, ol_table_cursor *cursor, ol_table_row *row);
bool ol_table_next_of_group(const ol_table *table, ol_slice group, uint64_t group_hash,
                            ol_table_cursor *cursor, ol_table_row *row);
bool ol_table_next_of_pair(const ol_table *table, const ol_pair_name *name, ol_table_cursor *cursor,
                           ol_table_row *row);
/* Returns every group with at least one committed position, once each; *positions is the number of
 * its positions. */
bool ol_table_next_group(const ol_table *table, ol_table_cursor *cursor, ol_slice *group,
                         uint64_t *positions);
uint64_t ol_table_group_positions(const ol_table *table, ol_slice group, uint64_t group_hash);
/* Returns the topics of a group that have a position or a reservation, once each. */
bool ol_table_next_topic(const ol_table *table, ol_slice group, uint64_t group_hash,
                         ol_table_cursor *cursor, ol_slice *topic);
/* Lets a walk of groups (ol_table_next_group), and no other, continue although the table has
 * changed: groups that changed meanwhile may be missed, or returned twice. */
void ol_table_renew(const ol_table *table, ol_table_cursor *cursor);

uint64_t ol_table_count(const ol_table *table);     /* committed positions */

/* ---------------------------------------------------------------------------- proof and account */

/* Returns the XXH3-128 of the canonical bytes of a position (docs/digest.md, with vectors);
 * `physical` adds the log offset. */
ol_hash128 ol_position_digest(ol_slice group, ol_slice topic, int32_t partition,
                              const ol_position_value *value, bool physical);

/* Returns the sum of the digests of all committed positions, computed from the table itself. */
ol_hash128 ol_table_digest(const ol_table *table, bool physical);

typedef struct ol_table_memory {
    uint64_t cells;             /* bytes as allocated from the system, slack included */
    uint64_t pairs;
    uint64_t pair_hash;
    uint64_t chunks;
    uint64_t strings;           /* strings, their headers and their hash */
    uint64_t string_bytes;  /* part of `strings`: the bytes of the distinct strings themselves */
    uint64_t side;              /* cell_extras: expire times, topic ids of their own, pins */
    uint64_t free;              /* part of all the above: allocated but unused bytes */
} ol_table_memory;
void ol_table_memory_usage(const ol_table *table, ol_table_memory *memory);
uint64_t ol_table_memory_total(const ol_table *table);      /* their sum */

/* Walks everything and asserts every invariant; O(n), for tests. */
void ol_table_verify(const ol_table *table);

#endif
