/* testing/fault_disk.c: names and contents of the modelled disk. */
#include "testing/fault_disk.h"

#include <stdlib.h>
#include <string.h>

static void *allocate(void *before, size_t size) {
    void *result = realloc(before, size == 0 ? 1 : size);
    OL_ASSERT(result != NULL);
    return result;
}

static char *copy_name(const char *name) {
    char *copy = strdup(name);
    OL_ASSERT(copy != NULL);
    return copy;
}

uint64_t ol_fault_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---------------------------------------------------------------------------------------- names */

static size_t find_name(const ol_fault_names *names, const ol_fault_node *parent, const char *name,
                        size_t name_size) {
    size_t at = 0;
    for (; at < names->count; at++) {
        const ol_fault_name *entry = &names->entries[at];
        if (entry->parent != parent || strncmp(entry->name, name, name_size) != 0) continue;
        if (entry->name[name_size] == '\0') break;
    }
    return at;
}

static void remove_name(ol_fault_names *names, const ol_fault_node *parent, const char *name) {
    size_t at = find_name(names, parent, name, strlen(name));
    if (at == names->count) return;
    free(names->entries[at].name);
    names->entries[at] = names->entries[--names->count];
}

static void put_name(ol_fault_names *names, ol_fault_node *parent, const char *name,
                     ol_fault_node *node) {
    remove_name(names, parent, name);
    if (names->count == names->capacity) {
        names->capacity = names->capacity == 0 ? 32 : 2 * names->capacity;
        names->entries = allocate(names->entries, names->capacity * sizeof *names->entries);
    }
    names->entries[names->count++] = (ol_fault_name){parent, node, copy_name(name)};
}

void ol_fault_names_apply(ol_fault_names *names, const ol_fault_change *change) {
    if (change->kind == OL_FAULT_LINK) {
        put_name(names, change->parent, change->name, change->node);
        return;
    }
    remove_name(names, change->parent, change->name);
    if (change->kind == OL_FAULT_RENAME) {
        put_name(names, change->target_parent, change->target_name, change->node);
    }
}

void ol_fault_names_copy(ol_fault_names *target, const ol_fault_names *source) {
    memset(target, 0, sizeof *target);
    for (size_t i = 0; i < source->count; i++) {
        put_name(target, source->entries[i].parent, source->entries[i].name,
                 source->entries[i].node);
    }
}

void ol_fault_names_free(ol_fault_names *names) {
    for (size_t i = 0; i < names->count; i++) free(names->entries[i].name);
    free(names->entries);
    memset(names, 0, sizeof *names);
}

ol_fault_node *ol_fault_disk_find(const ol_fault_disk *disk, const ol_fault_node *parent,
                                  const char *name, size_t name_size) {
    size_t at = find_name(&disk->current, parent, name, name_size);
    return at == disk->current.count ? NULL : disk->current.entries[at].node;
}

static void free_change(ol_fault_change *change) {
    free(change->name);
    free(change->target_name);
}

static void enter_change(ol_fault_disk *disk, ol_fault_change change) {
    ol_fault_names_apply(&disk->current, &change);
    if (disk->journal_count == disk->journal_capacity) {
        disk->journal_capacity = disk->journal_capacity == 0 ? 32 : 2 * disk->journal_capacity;
        disk->journal = allocate(disk->journal, disk->journal_capacity * sizeof *disk->journal);
    }
    disk->journal[disk->journal_count++] = change;
}

void ol_fault_disk_link(ol_fault_disk *disk, ol_fault_node *parent, const char *name,
                        ol_fault_node *node) {
    ol_fault_change change = {.kind = OL_FAULT_LINK,
                              .parent = parent,
                              .node = node,
                              .name = copy_name(name)};
    enter_change(disk, change);
}

void ol_fault_disk_flush_directory(ol_fault_disk *disk, const ol_fault_node *directory) {
    size_t kept = 0;
    for (size_t i = 0; i < disk->journal_count; i++) {
        ol_fault_change *change = &disk->journal[i];
        /* A rename between directories is one step of the journal; the directory it ends in
         * decides. */
        const ol_fault_node *decides = change->kind == OL_FAULT_RENAME ? change->target_parent
                                                                       : change->parent;
        if (decides != directory) {
            disk->journal[kept++] = *change;
            continue;
        }
        ol_fault_names_apply(&disk->durable, change);
        free_change(change);
    }
    disk->journal_count = kept;
}

void ol_fault_disk_flush_all_names(ol_fault_disk *disk) {
    for (size_t i = 0; i < disk->journal_count; i++) {
        ol_fault_names_apply(&disk->durable, &disk->journal[i]);
        free_change(&disk->journal[i]);
    }
    disk->journal_count = 0;
}

/* ------------------------------------------------------------------------------------- contents */

static void resize_content(ol_fault_content *content, size_t size) {
    size_t capacity = (size + OL_FAULT_PAGE - 1) / OL_FAULT_PAGE * OL_FAULT_PAGE;
    if (capacity > content->capacity) {
        content->bytes = allocate(content->bytes, capacity);
        memset(content->bytes + content->capacity, 0, capacity - content->capacity);
        content->capacity = capacity;
    }
}

static int read_content(ol_fault_disk *disk, ol_fault_node *node, ol_fault_content *content,
                        ol_error *error) {
    int64_t size;
    size_t got;
    int status = disk->real->size(node->reader, &size, error);
    if (status != OL_OK) return status;
    memset(content, 0, sizeof *content);
    resize_content(content, (size_t)size);
    status = disk->real->read(node->reader, 0, content->bytes, (size_t)size, &got, error);
    content->size = got;
    return status;
}

static int capture_node(ol_fault_disk *disk, ol_fault_node *node, ol_error *error) {
    ol_fault_content content = {NULL, 0, 0};
    if (node->is_directory || node->is_gone) return OL_OK;
    int status = read_content(disk, node, &content, error);
    free(node->current.bytes);
    node->current = content;
    return status;
}

int ol_fault_disk_capture(ol_fault_disk *disk, ol_error *error) {
    int status = OL_OK;
    for (ol_fault_node *node = disk->nodes; node != NULL && status == OL_OK; node = node->next) {
        status = capture_node(disk, node, error);
    }
    return status;
}

/* Called when a name is about to be removed: the file's content must be kept, because the removal
 * may be lost. */
static int let_go(ol_fault_disk *disk, ol_fault_node *node, ol_error *error) {
    if (node->is_directory || node->is_gone) return OL_OK;
    int status = capture_node(disk, node, error);
    if (status != OL_OK) return status;
    disk->real->close(node->reader);
    node->reader = NULL;
    node->is_gone = true;
    return OL_OK;
}

int ol_fault_disk_unlink(ol_fault_disk *disk, ol_fault_node *parent, const char *name,
                         ol_error *error) {
    ol_fault_node *node = ol_fault_disk_find(disk, parent, name, strlen(name));
    OL_ASSERT(node != NULL);
    int status = let_go(disk, node, error);
    if (status != OL_OK) return status;
    ol_fault_change change = {.kind = OL_FAULT_UNLINK,
                              .parent = parent,
                              .node = node,
                              .name = copy_name(name)};
    enter_change(disk, change);
    return OL_OK;
}

int ol_fault_disk_rename(ol_fault_disk *disk, ol_fault_node *parent, const char *name,
                         ol_fault_node *target_parent, const char *target_name, ol_error *error) {
    ol_fault_node *node = ol_fault_disk_find(disk, parent, name, strlen(name));
    ol_fault_node *replaced = ol_fault_disk_find(disk, target_parent, target_name,
                                                 strlen(target_name));
    OL_ASSERT(node != NULL);
    if (replaced == node) return OL_OK;
    int status = replaced == NULL ? OL_OK : let_go(disk, replaced, error);
    if (status != OL_OK) return status;
    ol_fault_change change = {OL_FAULT_RENAME, parent,        node,
                              copy_name(name), target_parent, copy_name(target_name)};
    enter_change(disk, change);
    return OL_OK;
}

static void drop_suspects(ol_fault_node *node, size_t from_page, size_t to_page) {
    for (size_t page = from_page; page < to_page && page < node->suspect_count; page++) {
        free(node->suspects[page]);
        node->suspects[page] = NULL;
    }
}

void ol_fault_node_touch(ol_fault_node *node, size_t from, size_t to) {
    if (from < to) {
        drop_suspects(node, from / OL_FAULT_PAGE, (to + OL_FAULT_PAGE - 1) / OL_FAULT_PAGE);
    }
}

static size_t whole_pages(size_t size) {
    return (size + OL_FAULT_PAGE - 1) / OL_FAULT_PAGE * OL_FAULT_PAGE;
}

bool ol_fault_node_is_allocated(const ol_fault_node *node, size_t to) {
    return whole_pages(to) <= node->allocated;
}

void ol_fault_node_allocate(ol_fault_node *node, size_t to) {
    if (whole_pages(to) > node->allocated) node->allocated = whole_pages(to);
}

void ol_fault_node_cut(ol_fault_node *node, size_t size) {
    if (size < node->floor) node->floor = size;
    if (whole_pages(size) < node->allocated) node->allocated = whole_pages(size);
    drop_suspects(node, size / OL_FAULT_PAGE, node->suspect_count);
}

/* Returns whether this page is clean although it is not durable.  Its bytes are compared, too,
 * because a store may not have been reported. */
static bool is_suspect(const ol_fault_node *node, size_t page, const uint8_t *bytes) {
    if (page >= node->suspect_count || node->suspects[page] == NULL) return false;
    return memcmp(node->suspects[page], bytes, OL_FAULT_PAGE) == 0;
}

/* Makes the pages [from, to) durable. */
static void flush_pages(ol_fault_node *node, const ol_fault_content *content, size_t from,
                        size_t to) {
    for (size_t at = from / OL_FAULT_PAGE * OL_FAULT_PAGE; at < to && at < content->capacity;
         at += OL_FAULT_PAGE) {
        size_t page = at / OL_FAULT_PAGE;
        if (is_suspect(node, page, content->bytes + at)) continue;
        drop_suspects(node, page, page + 1);
        memcpy(node->durable.bytes + at, content->bytes + at, OL_FAULT_PAGE);
    }
}

int ol_fault_node_flush(ol_fault_disk *disk, ol_fault_node *node, ol_error *error) {
    ol_fault_content content = {NULL, 0, 0};
    if (node->is_gone) return OL_OK;
    int status = read_content(disk, node, &content, error);
    if (status != OL_OK) {
        free(content.bytes);
        return status;
    }
    resize_content(&node->durable, content.size);
    flush_pages(node, &content, 0, content.capacity);
    /* Truncated bytes do not come back with a later growth. */
    if (node->durable.capacity > content.capacity) {
        memset(node->durable.bytes + content.capacity, 0,
               node->durable.capacity - content.capacity);
    }
    node->durable.size = content.size;
    node->floor = content.size;
    free(content.bytes);
    return OL_OK;
}

int ol_fault_node_flush_range(ol_fault_disk *disk, ol_fault_node *node, size_t from, size_t to,
                              ol_error *error) {
    ol_fault_content content = {NULL, 0, 0};
    if (node->is_gone) return OL_OK;
    int status = read_content(disk, node, &content, error);
    if (status == OL_OK) {
        /* A pending truncation is metadata: its bytes do not come back, and other pages stay as
         * they are. */
        if (node->floor < node->durable.size) {
            memset(node->durable.bytes + node->floor, 0, node->durable.capacity - node->floor);
            node->durable.size = node->floor;
        }
        resize_content(&node->durable, content.size);
        flush_pages(node, &content, from, to);
        size_t reached = to < content.size ? to : content.size;
        if (node->durable.size < reached) node->durable.size = reached;
        if (node->floor < node->durable.size) node->floor = node->durable.size;
    }
    free(content.bytes);
    return status;
}

int ol_fault_node_fail_flush(ol_fault_disk *disk, ol_fault_node *node, ol_error *error) {
    ol_fault_content content;
    if (node->is_gone) return OL_OK;
    int status = read_content(disk, node, &content, error);
    size_t pages = content.capacity / OL_FAULT_PAGE;
    if (status == OL_OK && pages > node->suspect_count) {
        node->suspects = allocate(node->suspects, pages * sizeof *node->suspects);
        for (size_t page = node->suspect_count; page < pages; page++) node->suspects[page] = NULL;
        node->suspect_count = pages;
    }
    resize_content(&node->durable, content.size);
    for (size_t page = 0; status == OL_OK && page < pages; page++) {
        size_t at = page * OL_FAULT_PAGE;
        if (memcmp(content.bytes + at, node->durable.bytes + at, OL_FAULT_PAGE) == 0) continue;
        drop_suspects(node, page, page + 1);
        node->suspects[page] = allocate(NULL, OL_FAULT_PAGE);
        memcpy(node->suspects[page], content.bytes + at, OL_FAULT_PAGE);
    }
    free(content.bytes);
    return status;
}

int ol_fault_node_write_back(ol_fault_disk *disk, ol_fault_node *node, uint64_t *random,
                             ol_error *error) {
    ol_fault_content content;
    if (node->is_gone || node->is_directory) return OL_OK;
    int status = read_content(disk, node, &content, error);
    /* After a truncation that is still pending, old and new pages must not mix. */
    size_t limit = node->floor < node->durable.size ? node->floor / OL_FAULT_PAGE * OL_FAULT_PAGE
                                                    : content.capacity;
    if (status == OL_OK) resize_content(&node->durable, content.size);
    for (size_t at = 0; status == OL_OK && at < limit && at < content.capacity;
         at += OL_FAULT_PAGE) {
        bool chosen = (ol_fault_random(random) & 1) != 0;
        if (!chosen || is_suspect(node, at / OL_FAULT_PAGE, content.bytes + at)) continue;
        memcpy(node->durable.bytes + at, content.bytes + at, OL_FAULT_PAGE);
    }
    free(content.bytes);
    return status;
}

/* ----------------------------------------------------------------------------------- life cycle */

ol_fault_node *ol_fault_disk_add_node(ol_fault_disk *disk, bool is_directory, ol_file *reader) {
    ol_fault_node *node = allocate(NULL, sizeof *node);
    memset(node, 0, sizeof *node);
    node->is_directory = is_directory;
    node->reader = reader;
    node->number = ++disk->node_count;
    node->next = disk->nodes;
    disk->nodes = node;
    return node;
}

void ol_fault_disk_open(ol_fault_disk *disk, ol_fs *real) {
    memset(disk, 0, sizeof *disk);
    disk->real = real;
    disk->root = ol_fault_disk_add_node(disk, true, NULL);
}

void ol_fault_disk_close(ol_fault_disk *disk) {
    while (disk->nodes != NULL) {
        ol_fault_node *node = disk->nodes;
        disk->nodes = node->next;
        if (node->reader != NULL) disk->real->close(node->reader);
        drop_suspects(node, 0, node->suspect_count);
        free(node->suspects);
        free(node->durable.bytes);
        free(node->current.bytes);
        free(node);
    }
    for (size_t i = 0; i < disk->journal_count; i++) free_change(&disk->journal[i]);
    free(disk->journal);
    ol_fault_names_free(&disk->current);
    ol_fault_names_free(&disk->durable);
    memset(disk, 0, sizeof *disk);
}
