/* table/table: the committed positions of one partition in memory.
 *
 * Each (group, topic, partition) maps to a cell. docs/table.md gives the reasons for the following
 * structure.  A *pair* is one (group, topic), and one probe of a hash index finds it.  The
 * partitions of a pair are divided into chunks of 4 consecutive numbers.  A chunk consists of a
 * bitmap and a packed, aligned run of cells of 32 bytes.  The cells of neighbouring partitions are
 * therefore next to each other, in whatever order they were added, and missing partition numbers
 * take no memory.  All addresses are indices of 32 bits into arenas that can grow.  There are no
 * pointers, so that the arenas can be written to a file and read back as they are.  A large arena
 * grows by an eighth at a time.  It grows in place or is moved without copying (mremap).  A very
 * large arena asks for huge pages.  The hash index of the pairs grows in small independent pieces.
 * No growth copies the whole table.
 *
 * Ownership: the table owns all of its memory.  It copies the slices that it is given.  Slices that
 * it returns are valid until the next call that changes the table.
 *
 * Locks: the functions take no lock.  Calls that take a const table may run at the same time.  No
 * other call may run during a call that changes the table.  A partition changes its table under
 * both its writer lock and its table lock, and reads it under one of them.  Its loader needs
 * neither lock (partition/partition_impl.h).
 *
 * Failure: only calls that are marked OL_NODISCARD can fail.  They fail with OL_NO_MEMORY, or with
 * OL_LIMIT if there are no indices left, and then change nothing.  Calls that apply a record with a
 * reservation cannot fail (docs/architecture.md §4 steps 7 and 9). */
#ifndef OL_TABLE_TABLE_H
#define OL_TABLE_TABLE_H

#include "base/base.h"
#include "base/hash.h"
#include "base/status.h"

typedef struct ol_table ol_table;

/* The value of one offset commit. metadata.data may be NULL only if metadata.size is 0. */
typedef struct ol_position_value {
    int64_t offset;
    int64_t log_offset;         /* of the record itself */
    int64_t commit_timestamp;
    int64_t expire_timestamp;   /* -1: none */
    int32_t leader_epoch;       /* -1: none; a record in a log may contain any number */
    ol_slice metadata;
    const uint8_t *topic_id;    /* 16 bytes or NULL */
} ol_position_value;

/* One position of a run.  A run is a sequence of positions of the same (group, topic).  The names
 * are passed separately (see ol_table_put_run). */
typedef struct ol_position_row {
    ol_position_value value;
    int32_t partition;
} ol_position_row;

/* The names of a (group, topic), and their hashes.  A caller that handles many records of a pair
 * computes the hashes only once. */
typedef struct ol_pair_name {
    ol_slice group;
    ol_slice topic;
    uint64_t group_hash;
    uint64_t hash;
} ol_pair_name;

/* The place for a value that will be installed later, allocated by ol_table_reserve.  It is plain
 * memory, and valid until the reservation is installed or released. */
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

/* ol_table_find returns the number of the pair, or 0 if the table does not have it.
 * ol_table_find_hinted does the same, but first tries the pair that a hint has returned (see
 * below). */
uint32_t ol_table_find(const ol_table *table, const ol_pair_name *name);
uint32_t ol_table_find_hinted(const ol_table *table, uint32_t hint, const ol_pair_name *name);

/* Hints for callers that handle many rows.  A hint for a row is called while the caller is still
 * some rows before it.  It only reads memory and changes nothing.  ol_table_prefetch_slot
 * prefetches the hash slot.  ol_table_prefetch_pair, called some rows later, looks the slot up and
 * prefetches the pair.  It returns the number of the pair, which is passed to the later hints and
 * to ol_table_put_hinted.  This number is a guess (0: none), and a wrong guess only costs time.
 * ol_table_prefetch_chunk prefetches the pair's strings and chunk, and ol_table_prefetch_cell the
 * cell.  ol_table_prefetch_reserved is for a cell that is, or will be, reserved. */
void ol_table_prefetch_slot(const ol_table *table, const ol_pair_name *name);
uint32_t ol_table_prefetch_pair(const ol_table *table, const ol_pair_name *name);
void ol_table_prefetch_chunk(const ol_table *table, uint32_t pair, int32_t partition);
void ol_table_prefetch_cell(const ol_table *table, uint32_t pair, int32_t partition);
void ol_table_prefetch_reserved(const ol_table *table, uint32_t pair, int32_t partition);

/* ------------------------------------------------------------------------------------- changing */

/* Allocates everything that is needed to install `value` at (name, partition) later: the pair, the
 * cell, the metadata string, the topic id and the entry for extras.  The cell is absent until the
 * value is installed, so that no read sees it.  A reservation pins its cell and its pair: as long
 * as it exists, neither is freed. */
int ol_table_reserve(ol_table *table, const ol_pair_name *name, int32_t partition,
                     const ol_position_value *value, ol_reservation *reservation, ol_error *error)
    OL_NODISCARD;

/* Installs a reserved value and ends the reservation.  Cannot fail.  `value` must be the value that
 * was reserved.  Its metadata, topic_id and expire_timestamp are taken from the reservation. */
void ol_table_install(ol_table *table, const ol_reservation *reservation,
                      const ol_position_value *value);

/* Installs a reserved value if it is newer than the cell (docs/format/loading.md §6.4,
 * docs/format/traps.md traps 14 and 15).  It is not newer if the cell's value, or a tombstone that
 * was applied to the cell while the reservation existed, has a log offset at or above
 * value->log_offset.  Ends the reservation in both cases.  Returns whether the value was
 * installed. */
bool ol_table_install_if_newer(ol_table *table, const ol_reservation *reservation,
                               const ol_position_value *value);

/* Ends a reservation without installing a value.  Frees the parts of the reservation that nothing
 * else uses. */
void ol_table_release(ol_table *table, const ol_reservation *reservation);

/* Reserves and installs a value in one step, with one probe, for a caller that needs no
 * reservation. */
int ol_table_put(ol_table *table, const ol_pair_name *name, int32_t partition,
                 const ol_position_value *value, ol_error *error) OL_NODISCARD;

/* Returns the number of the pair if ol_table_put of this value would allocate nothing and could
 * therefore not fail.  Otherwise returns 0.  Nothing is allocated if three conditions hold.  First,
 * the cell exists and has the same metadata.  Second, neither the cell nor the value needs an entry
 * for extras.  Third, the value has no topic id, or that of the pair.  The answer is valid until
 * the table is changed.  A commit to such a position needs no reservation. */
uint32_t ol_table_settled(const ol_table *table, const ol_pair_name *name, int32_t partition,
                          const ol_position_value *value);

/* Returns whether ol_table_put_run of all these rows would allocate nothing (see ol_table_settled).
 * `pair` comes from ol_table_find. */
bool ol_table_run_settled(const ol_table *table, uint32_t pair, const ol_position_row *rows,
                          size_t count);

/* Puts a value as ol_table_put does, but first tries the pair that ol_table_settled or a hint has
 * returned.  No pair may have been freed since then.  With a pair from ol_table_settled, the call
 * cannot fail. */
int ol_table_put_hinted(ol_table *table, uint32_t pair, const ol_pair_name *name, int32_t partition,
                        const ol_position_value *value, ol_error *error) OL_NODISCARD;

/* Puts the rows of one pair in their order.  The result is the same as that of ol_table_put for
 * each row, but memory is allocated for many rows at once.  `hint` is a number as for
 * ol_table_put_hinted, or 0.  If the call fails, the rows before the one that failed have been
 * put. */
int ol_table_put_run(ol_table *table, uint32_t hint, const ol_pair_name *name,
                     const ol_position_row *rows, size_t count, ol_error *error) OL_NODISCARD;

/* Applies a tombstone with the log offset `log_offset`: the cell becomes absent.  If a reservation
 * pins the cell, the cell keeps `log_offset`, so that a pending value with a lower log offset will
 * not be installed later.  Returns whether the cell had a value. */
bool ol_table_remove(ol_table *table, const ol_pair_name *name, int32_t partition,
                     int64_t log_offset);

/* -------------------------------------------------------------------------------------- reading */

/* If the position is committed, fills *value and returns true.  The metadata and the topic id point
 * into the table. */
bool ol_table_get(const ol_table *table, const ol_pair_name *name, int32_t partition,
                  ol_position_value *value);

/* ol_table_get_of_pair and ol_table_get_reserved get a value as ol_table_get does, but without a
 * probe of the hash index.  ol_table_get_of_pair needs a pair that ol_table_find has found.
 * ol_table_get_reserved needs a reservation of the cell. */
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

/* A walk over positions.  It must be initialised with zeros before the first call.  After any
 * change to the table, the walk must not be continued; this is asserted.  Within one (group,
 * topic), the partitions ascend.  The order of the pairs is not specified, but it is the same in
 * every walk of an unchanged table. */
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
/* Returns each group with a committed position, once.  Sets *positions to the number of the group's
 * committed positions. */
bool ol_table_next_group(const ol_table *table, ol_table_cursor *cursor, ol_slice *group,
                         uint64_t *positions);
uint64_t ol_table_group_positions(const ol_table *table, ol_slice group, uint64_t group_hash);
/* Returns each topic in which the group has a position or a reservation, once. */
bool ol_table_next_topic(const ol_table *table, ol_slice group, uint64_t group_hash,
                         ol_table_cursor *cursor, ol_slice *topic);
/* Allows a walk over groups (ol_table_next_group) to continue after the table has changed.  Other
 * walks cannot be continued.  Groups that have changed since the walk began may be missing, or may
 * be returned twice. */
void ol_table_renew(const ol_table *table, ol_table_cursor *cursor);

uint64_t ol_table_count(const ol_table *table);     /* committed positions */

/* ---------------------------------------------------------------------------- proof and account */

/* Returns the XXH3-128 hash of the canonical bytes of a position. docs/digest.md describes these
 * bytes and has test vectors.  If `physical` is true, they include the log offset. */
ol_hash128 ol_position_digest(ol_slice group, ol_slice topic, int32_t partition,
                              const ol_position_value *value, bool physical);

/* Returns the sum of the digests of all committed positions.  It is computed from the contents of
 * the table. */
ol_hash128 ol_table_digest(const ol_table *table, bool physical);

typedef struct ol_table_memory {
    uint64_t cells;  /* number of bytes allocated from the system, including unused ones */
    uint64_t pairs;
    uint64_t pair_hash;
    uint64_t chunks;
    uint64_t strings;           /* strings, their headers and their hash */
    uint64_t string_bytes;  /* the part of `strings` that is the bytes of the different strings
                               themselves */
    uint64_t side;              /* the memory of cell_extras: expire timestamps, topic ids that
                                   differ from the pair's, reservations */
    uint64_t free;              /* the part of all fields above that is allocated but not used */
} ol_table_memory;
void ol_table_memory_usage(const ol_table *table, ol_table_memory *memory);
/* Returns the sum of the fields of ol_table_memory that are not part of another field. */
uint64_t ol_table_memory_total(const ol_table *table);

/* Reads the whole table and asserts every invariant.  Takes time in proportion to the size of the
 * table; for tests. */
void ol_table_verify(const ol_table *table);

#endif
