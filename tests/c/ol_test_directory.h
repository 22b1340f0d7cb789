/* A fresh directory for one test, below $TMPDIR or /tmp, removed with everything in it at the end of the test. */
#ifndef OL_TEST_DIRECTORY_H
#define OL_TEST_DIRECTORY_H

#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/fs.h"
#include "ol_test.h"

OL_UNUSED static void ol_test_directory_make(char path[256]) {
    /* Memory rather than a disk where there is one: the tests say what is durable by themselves. */
    const char *base = getenv("TMPDIR");
    if (base == NULL) base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, 256, "%s/ol-test-XXXXXX", base);
    OL_CHECK(mkdtemp(path) != NULL);
}

OL_UNUSED static int ol_test_directory_remove_one(const char *path, const struct stat *status, int flag, struct FTW *walk) {
    (void)status;
    (void)flag;
    (void)walk;
    return remove(path);
}

OL_UNUSED static void ol_test_directory_remove(const char *path) {
    nftw(path, ol_test_directory_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* "directory/name" in one of a few buffers that take turns. */
OL_UNUSED static const char *ol_test_path(const char *directory, const char *name) {
    static char paths[8][OL_PATH_MAX];
    static unsigned turn;
    char *path = paths[turn++ % 8];
    ol_error error;
    OL_CHECK_OK(ol_path_join(path, OL_PATH_MAX, directory, name, &error), &error);
    return path;
}

/* Writes a file as it is, past every port. */
OL_UNUSED static void ol_test_write_file(const char *path, const void *data, size_t size) {
    FILE *file = fopen(path, "wb");
    OL_CHECK(file != NULL);
    OL_CHECK(fwrite(data, 1, size, file) == size);
    OL_CHECK(fclose(file) == 0);
}

#endif
