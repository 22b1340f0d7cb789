/* testing/fault_disk: a simulated disk, with its durable content and the content that programs see.
 *
 * This is the model of the disk for testing/fault_fs, whose header states the rules of the model.
 * The disk keeps:
 * - for every file, the durable bytes, and an open file from which the current bytes can be read;
 * - the current set of names and the durable set of names;
 * - a journal of the changes that lead from the durable set of names to the current one.
 *
 * Ownership: the disk owns its nodes and contents.  It takes no locks, because the mutex of
 * testing/fault_fs protects it.  If memory runs out, the process ends, since this is a tool for
 * tests.
 */
#ifndef OL_TESTING_FAULT_DISK_H
#define OL_TESTING_FAULT_DISK_H

#include "base/base.h"
#include "fs/fs.h"
#include "base/status.h"

#define OL_FAULT_PAGE ((size_t)4096)

/* The bytes of a file, in whole pages.  The bytes at and after `size` are zeros, with one
 * exception: after a file has grown, the kernel may write back new pages before the new size is
 * durable.  These pages then have content although they are after `size`. */
typedef struct ol_fault_content {
    uint8_t *bytes;
    size_t capacity;
    size_t size;
} ol_fault_content;

/* A file or a directory.  Its names are stored elsewhere (ol_fault_names). */
typedef struct ol_fault_node {
    struct ol_fault_node *next;
    ol_file *reader;  /* reads the current bytes; NULL for a directory, and for a removed file */
    ol_fault_content durable;
    ol_fault_content current;   /* set by ol_fault_disk_capture, and when the file is removed */
    size_t floor;               /* smallest size since the last flush */
    size_t allocated;  /* bytes of its allocated blocks, in whole pages, also after its end */
    uint8_t **suspects;         /* by page: its bytes at a failed flush, or NULL */
    size_t suspect_count;       /* length of `suspects` */
    int64_t unreadable_from;    /* the disk cannot read [from, to) */
    int64_t unreadable_to;
    uint64_t number;
    bool is_directory;
    bool is_gone;
} ol_fault_node;

typedef struct ol_fault_name {
    ol_fault_node *parent;
    ol_fault_node *node;
    char *name;
} ol_fault_name;

typedef struct ol_fault_names {
    ol_fault_name *entries;
    size_t count;
    size_t capacity;
} ol_fault_names;

typedef enum ol_fault_change_kind {
    OL_FAULT_LINK,
    OL_FAULT_UNLINK,
    OL_FAULT_RENAME
} ol_fault_change_kind;

typedef struct ol_fault_change {
    ol_fault_change_kind kind;
    ol_fault_node *parent;
    ol_fault_node *node;
    char *name;
    ol_fault_node *target_parent;       /* of a rename */
    char *target_name;
} ol_fault_change;

typedef struct ol_fault_disk {
    ol_fs *real;
    ol_fault_node *nodes;
    ol_fault_node *root;
    ol_fault_names current;
    ol_fault_names durable;
    ol_fault_change *journal;
    size_t journal_count;
    size_t journal_capacity;
    uint64_t node_count;
} ol_fault_disk;

/* If memory runs out, the process ends, since this is a tool for tests. */
void ol_fault_disk_open(ol_fault_disk *disk, ol_fs *real);
void ol_fault_disk_close(ol_fault_disk *disk);

/* Adds a file or a directory that has no name yet. */
ol_fault_node *ol_fault_disk_add_node(ol_fault_disk *disk, bool is_directory, ol_file *reader);

ol_fault_node *ol_fault_disk_find(const ol_fault_disk *disk, const ol_fault_node *parent,
                                  const char *name, size_t name_size);

/* Change the current names, and record the changes in the journal. */
void ol_fault_disk_link(ol_fault_disk *disk, ol_fault_node *parent, const char *name,
                        ol_fault_node *node);
int ol_fault_disk_unlink(ol_fault_disk *disk, ol_fault_node *parent, const char *name,
                         ol_error *error) OL_NODISCARD;
int ol_fault_disk_rename(ol_fault_disk *disk, ol_fault_node *parent, const char *name,
                         ol_fault_node *target_parent, const char *target_name, ol_error *error)
    OL_NODISCARD;
/* Makes the changes of the names in this directory durable, and removes them from the journal. */
void ol_fault_disk_flush_directory(ol_fault_disk *disk, const ol_fault_node *directory);
void ol_fault_disk_flush_all_names(ol_fault_disk *disk);

/* Records a write to [from, to), so that the next flush makes its pages durable even if an earlier
 * flush of them failed. */
void ol_fault_node_touch(ol_fault_node *node, size_t from, size_t to);
void ol_fault_node_cut(ol_fault_node *node, size_t size);
/* ol_fault_node_is_allocated returns whether the blocks of [0, to) are allocated.
 * ol_fault_node_allocate allocates them. */
bool ol_fault_node_is_allocated(const ol_fault_node *node, size_t to);
void ol_fault_node_allocate(ol_fault_node *node, size_t to);
int ol_fault_node_flush(ol_fault_disk *disk, ol_fault_node *node, ol_error *error) OL_NODISCARD;
/* Makes the pages of [from, to) durable.  If the file has grown since the last flush, its new size
 * becomes durable only up to the end of these pages. */
int ol_fault_node_flush_range(ol_fault_disk *disk, ol_fault_node *node, size_t from, size_t to,
                              ol_error *error) OL_NODISCARD;
/* Records a failed flush: the dirty pages become clean although they are not durable. */
int ol_fault_node_fail_flush(ol_fault_disk *disk, ol_fault_node *node, ol_error *error)
    OL_NODISCARD;
int ol_fault_node_write_back(ol_fault_disk *disk, ol_fault_node *node, uint64_t *random,
                             ol_error *error) OL_NODISCARD;

/* Copies the current bytes of every file into its node. */
int ol_fault_disk_capture(ol_fault_disk *disk, ol_error *error) OL_NODISCARD;

/* Writes a state of the disk, as it was captured last, to the directory `target`.  If `everything`
 * is true, the state has all current bytes and names.  Otherwise it is a state that the disk could
 * have after a loss of power, drawn from `seed`. */
int ol_fault_disk_materialize(const ol_fault_disk *disk, const char *target, uint64_t seed,
                              bool everything, ol_error *error) OL_NODISCARD;

void ol_fault_names_apply(ol_fault_names *names, const ol_fault_change *change);
void ol_fault_names_copy(ol_fault_names *target, const ol_fault_names *source);
void ol_fault_names_free(ol_fault_names *names);

/* splitmix64. */
uint64_t ol_fault_random(uint64_t *state);

#endif
