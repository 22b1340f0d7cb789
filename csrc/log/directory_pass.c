/* Lists the names in a partition directory, and makes a swap plan from them. */
#include "log/directory_pass.h"

#include <stdlib.h>
#include <string.h>

#include "log/file_scan.h"

typedef struct name_list {
    char **names;
    size_t count;
    size_t capacity;
} name_list;

static int add_name(void *context, const char *name) {
    name_list *list = context;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 32 : 2 * list->capacity;
        char **names = realloc(list->names, capacity * sizeof *names);
        if (names == NULL) return OL_NO_MEMORY;
        list->names = names;
        list->capacity = capacity;
    }
    list->names[list->count] = strdup(name);
    return list->names[list->count++] == NULL ? OL_NO_MEMORY : OL_OK;
}

static int compare_names(const void *left, const void *right) {
    return strcmp(*(char *const *)left, *(char *const *)right);
}

int ol_directory_list(ol_fs *fs, const char *directory, char ***names, size_t *count,
                      ol_error *error) {
    name_list list = {0};
    int status = fs->list(fs, directory, add_name, &list, error);
    if (status != OL_OK) {
        ol_directory_free_names(list.names, list.count);
        return status == OL_NO_MEMORY
                   ? ol_fail(error, OL_NO_MEMORY, "no memory for the names in the directory")
                   : status;
    }
    /* Each file system lists names in its own order, and what is done to files must not depend on
     * that order. */
    if (list.count > 0) qsort(list.names, list.count, sizeof *list.names, compare_names);
    *names = list.names;
    *count = list.count;
    return OL_OK;
}

void ol_directory_free_names(char **names, size_t count) {
    for (size_t i = 0; i < count; i++) free(names[i]);
    free(names);
}

typedef struct place {
    ol_fs *fs;
    const char *directory;
} place;

/* The swapped segment is scanned to its end (docs/format/recovery.md §9.1 step 3); bytes that
 * cannot be walked were never finished. */
static int swap_next_offset(void *context, const char *name, int64_t base_offset,
                            int64_t *next_offset, ol_error *error) {
    const place *where = context;
    char path[OL_PATH_MAX];
    ol_file_scan scan;
    *next_offset = base_offset;
    int status = ol_path_join(path, sizeof path, where->directory, name, error);
    if (status == OL_OK) status = ol_file_scan_open(&scan, where->fs, path, 0, -1, error);
    if (status != OL_OK) return status;
    ol_batch batch;
    while ((status = ol_file_scan_next(&scan, &batch, error)) == OL_OK) {
        *next_offset = ol_batch_next_offset(&batch);
    }
    ol_file_scan_close(&scan);
    return status == OL_IO || status == OL_NO_MEMORY ? status : OL_OK;
}

int ol_directory_plan(ol_fs *fs, const char *directory, ol_swap_plan *plan, ol_error *error) {
    char **names = NULL;
    size_t count = 0;
    int status = ol_directory_list(fs, directory, &names, &count, error);
    if (status != OL_OK) return status;
    place where = {fs, directory};
    status = ol_swap_plan_make(names, count, swap_next_offset, &where, plan, error);
    ol_directory_free_names(names, count);
    return status;
}
