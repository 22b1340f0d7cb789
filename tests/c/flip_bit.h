/* Damage to a file: one bit of it. */
#ifndef OL_TESTS_FLIP_BIT_H
#define OL_TESTS_FLIP_BIT_H

#include <fcntl.h>
#include <stdint.h>
#include <unistd.h>

#include "ol_test.h"

/* The same call again undoes it. */
static void flip_bit(const char *path, off_t position) {
    uint8_t byte;
    int file = open(path, O_RDWR);
    OL_CHECK(file >= 0 && pread(file, &byte, 1, position) == 1);
    byte ^= 0x10;
    OL_CHECK(pwrite(file, &byte, 1, position) == 1);
    close(file);
}

#endif
