/* recorded_fs: the real file system, with a list of its changes of names, its cuts and its flushes in their order.
 *
 * Writes are not in the list.  One log, one thread. */
#ifndef RECORDED_FS_H
#define RECORDED_FS_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fs/fs.h"
#include "ol_test.h"

enum { RECORDED_FILES_MAX = 256, RECORDED_BYTES_MAX = 1 << 16 };

static struct {
    char text[RECORDED_BYTES_MAX];
    size_t size;
    struct {
        const ol_file *file;
        char name[256];
    } files[RECORDED_FILES_MAX];
} recorded;

/* The last name of a path, without the zeros that a segment's number begins with. */
static const char *recorded_name(const char *path) {
    const char *name = strrchr(path, '/');
    name = name == NULL ? path : name + 1;
    while (name[0] == '0' && name[1] >= '0' && name[1] <= '9') name++;
    return name;
}

OL_PRINTF(1, 2) static void record(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    char *end = recorded.text + recorded.size;
    recorded.size += (size_t)vsnprintf(end, sizeof recorded.text - recorded.size, format, arguments);
    va_end(arguments);
    OL_CHECK(recorded.size < sizeof recorded.text);
}

static const char *recorded_file(const ol_file *file) {
    for (size_t i = 0; i < RECORDED_FILES_MAX; i++) {
        if (recorded.files[i].file == file) return recorded.files[i].name;
    }
    OL_CHECK(false);
    return NULL;
}

static int recorded_open(ol_fs *fs, const char *path, ol_open_mode mode, ol_file **file, ol_error *error) {
    bool existed = false;
    int status = ol_fs_posix()->exists(fs, path, &existed, error);
    if (status == OL_OK) status = ol_fs_posix()->open(fs, path, mode, file, error);
    if (status != OL_OK) return status;
    if (!existed) record("create %s\n", recorded_name(path));
    size_t i = 0;
    while (i < RECORDED_FILES_MAX && recorded.files[i].file != NULL && recorded.files[i].file != *file) i++;
    OL_CHECK(i < RECORDED_FILES_MAX);
    recorded.files[i].file = *file;
    snprintf(recorded.files[i].name, sizeof recorded.files[i].name, "%s", recorded_name(path));
    return OL_OK;
}

static void recorded_close(ol_file *file) {
    for (size_t i = 0; i < RECORDED_FILES_MAX; i++) {
        if (recorded.files[i].file == file) recorded.files[i].file = NULL;
    }
    ol_fs_posix()->close(file);
}

static int recorded_truncate(ol_file *file, int64_t size, ol_error *error) {
    record("cut %s\n", recorded_file(file));
    return ol_fs_posix()->truncate(file, size, error);
}

static int recorded_flush(ol_file *file, ol_error *error) {
    record("flush %s\n", recorded_file(file));
    return ol_fs_posix()->flush(file, error);
}

static int recorded_flush_range(ol_file *file, void *data, int64_t from, int64_t to, ol_error *error) {
    record(from == 0 ? "flush %s from its start\n" : "flush the end of %s\n", recorded_file(file));
    return ol_fs_posix()->flush_range(file, data, from, to, error);
}

static int recorded_flush_directory(ol_fs *fs, const char *path, ol_error *error) {
    record("flush directory %s\n", recorded_name(path));
    return ol_fs_posix()->flush_directory(fs, path, error);
}

/* An open file is recorded under its new name from now on. */
static int recorded_rename(ol_fs *fs, const char *source, const char *target, ol_error *error) {
    record("rename %s to %s\n", recorded_name(source), recorded_name(target));
    for (size_t i = 0; i < RECORDED_FILES_MAX; i++) {
        if (recorded.files[i].file == NULL || strcmp(recorded.files[i].name, recorded_name(source)) != 0) continue;
        snprintf(recorded.files[i].name, sizeof recorded.files[i].name, "%s", recorded_name(target));
    }
    return ol_fs_posix()->rename(fs, source, target, error);
}

static int recorded_remove(ol_fs *fs, const char *path, ol_error *error) {
    int status = ol_fs_posix()->remove(fs, path, error);
    if (status == OL_OK) record("remove %s\n", recorded_name(path));
    return status;
}

static int recorded_make_directory(ol_fs *fs, const char *path, ol_error *error) {
    record("make directory %s\n", recorded_name(path));
    return ol_fs_posix()->make_directory(fs, path, error);
}

/* One object for the process; it records its only log. */
static ol_fs *recorded_fs(void) {
    static ol_fs fs;
    fs = *ol_fs_posix();
    fs.open = recorded_open;
    fs.close = recorded_close;
    fs.truncate = recorded_truncate;
    fs.flush = recorded_flush;
    fs.flush_range = recorded_flush_range;
    fs.flush_directory = recorded_flush_directory;
    fs.make_directory = recorded_make_directory;
    fs.rename = recorded_rename;
    fs.remove = recorded_remove;
    return &fs;
}

/* Discards what was recorded before. */
static void recorded_begin(void) {
    recorded.size = 0;
    recorded.text[0] = '\0';
}

/* Fails unless exactly these lines were recorded since recorded_begin. */
static void recorded_check(const char *expected) {
    if (strcmp(recorded.text, expected) == 0) return;
    fprintf(stderr, "expected:\n%s\nrecorded:\n%s\n", expected, recorded.text);
    OL_CHECK(false);
}

#endif
