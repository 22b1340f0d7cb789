/* fs/fs.c: operations that are made from the calls of any implementation. */
#include "fs/fs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ol_path_join(char *path, size_t capacity, const char *directory, const char *name,
                 ol_error *error) {
    size_t directory_size = strlen(directory);
    while (directory_size > 1 && directory[directory_size - 1] == '/') directory_size--;
    const char *separator = directory_size == 1 && directory[0] == '/' ? "" : "/";
    size_t size = directory_size + strlen(separator) + strlen(name);
    if (directory_size == 0 || name[0] == '\0') {
        return ol_fail(error, OL_INVALID, "a path must have a directory and a name");
    }
    if (size >= capacity || size >= OL_PATH_MAX) {
        ol_fail(error, OL_INVALID, "the path would have %zu bytes, which is too long", size);
        return ol_error_at(error, directory, -1);
    }
    snprintf(path, capacity, "%.*s%s%s", (int)directory_size, directory, separator, name);
    return OL_OK;
}

static int read_open_file(ol_fs *fs, ol_file *file, const char *path, size_t limit, uint8_t **data,
                          size_t *size, ol_error *error) {
    int64_t file_size;
    int status = fs->size(file, &file_size, error);
    if (status != OL_OK) return status;
    if (file_size < 0 || (uint64_t)file_size > limit) {
        ol_fail(error, OL_LIMIT, "the file has %lld bytes; the limit is %zu", (long long)file_size,
                limit);
        return ol_error_at(error, path, -1);
    }
    /* One byte more than needed, so that text can be terminated and an empty file is not a NULL
     * pointer. */
    uint8_t *bytes = malloc((size_t)file_size + 1);
    if (bytes == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %lld bytes of a file",
                       (long long)file_size);
    }
    /* The file may be shorter by now; the bytes that were read are its content. */
    status = fs->read(file, 0, bytes, (size_t)file_size, size, error);
    if (status != OL_OK) {
        free(bytes);
        return status;
    }
    bytes[*size] = 0;
    *data = bytes;
    return OL_OK;
}

int ol_fs_read_file(ol_fs *fs, const char *path, size_t limit, uint8_t **data, size_t *size,
                    ol_error *error) {
    ol_file *file;
    int status = fs->open(fs, path, OL_OPEN_READ, &file, error);
    if (status != OL_OK) return status;
    status = read_open_file(fs, file, path, limit, data, size, error);
    fs->close(file);
    return status;
}

/* A leftover of an earlier crash may be longer than the new content, so it is truncated first. */
static int write_new_content(ol_fs *fs, const char *path, const void *data, size_t size,
                             ol_error *error) {
    ol_file *file;
    int status = fs->open(fs, path, OL_OPEN_CREATE, &file, error);
    if (status != OL_OK) return status;
    status = fs->truncate(file, 0, error);
    if (status == OL_OK && size > 0) status = fs->write(file, 0, data, size, error);
    if (status == OL_OK) status = fs->flush(file, error);
    fs->close(file);
    return status;
}

static int directory_of(const char *path, char *directory, ol_error *error) {
    const char *slash = strrchr(path, '/');
    size_t size = slash == NULL ? 0 : (size_t)(slash - path);
    if (size >= OL_PATH_MAX) return ol_fail(error, OL_INVALID, "the path is too long");
    if (slash == NULL) strcpy(directory, ".");
    else if (size == 0) strcpy(directory, "/");
    else {
        memcpy(directory, path, size);
        directory[size] = '\0';
    }
    return OL_OK;
}

int ol_fs_replace_file(ol_fs *fs, const char *path, const void *data, size_t size,
                       ol_error *error) {
    char temporary[OL_PATH_MAX];
    char directory[OL_PATH_MAX];
    int written = snprintf(temporary, sizeof temporary, "%s.tmp", path);
    if (written < 0 || (size_t)written >= sizeof temporary) {
        return ol_fail(error, OL_INVALID, "the path is too long");
    }
    int status = directory_of(path, directory, error);
    if (status != OL_OK) return status;
    status = write_new_content(fs, temporary, data, size, error);
    if (status == OL_OK) status = fs->rename(fs, temporary, path, error);
    if (status != OL_OK) {
        /* The first error is the one to report; readers ignore a .tmp that stays, and the next
         * attempt truncates it. */
        ol_error ignored;
        (void)fs->remove(fs, temporary, &ignored);
        return status;
    }
    return fs->flush_directory(fs, directory, error);
}
