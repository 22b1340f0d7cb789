/* Takes the manifest of a log away: its files are as if another program had written them, so that nothing shows that any
 * is missing. */
#ifndef FORGET_MANIFEST_H
#define FORGET_MANIFEST_H

#include <stdio.h>
#include <unistd.h>

#include "fs/fs.h"
#include "log/files/manifest.h"
#include "ol_test.h"

OL_UNUSED static void fixture_forget_manifest(const char *directory) {
    char path[OL_PATH_MAX];
    ol_error error;
    OL_CHECK_OK(ol_path_join(path, sizeof path, directory, OL_MANIFEST_FILE, &error), &error);
    OL_CHECK(unlink(path) == 0);
}

#endif
