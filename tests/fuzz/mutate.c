/* A seeded mutator for the fuzz targets where libFuzzer is not there.
 *
 *     OL_SEED=n OL_FUZZ_SECONDS=n run_fuzz_batch [directory or file of inputs]...
 *
 * The same seed and inputs give the same executions (the time decides only how many).  Before anything ends the process, the input
 * in question is written to crash-<program>-<seed>-<execution> in the working directory; given to the target as an argument, it is
 * tried as it is. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

enum {
    INPUT_SIZE_MAX = 4096,
    POOL_MAX = 4096,            /* seeds, and some of what came from them, so that changes add up */
    CHANGES_MAX = 6,
    HANG_SECONDS = 30,          /* an input that takes longer counts as a failure */
};

typedef struct input {
    uint8_t *bytes;
    size_t size;
} input;

static input pool[POOL_MAX];
static size_t pool_size, seed_count;
static uint64_t random_state;
static uint64_t seed = 1, executions;
static input current;

static uint64_t random_u64(void) {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static size_t below(size_t bound) { return (size_t)(random_u64() % bound); }

/* ------------------------------------------------------------------------------------------------ the report of a
 * failure */

static void save_current(void) {
    char path[128];
    /* The targets run side by side in one directory. */
    snprintf(path, sizeof path, "crash-%s-%" PRIu64 "-%" PRIu64, program_invocation_short_name, seed, executions);
    int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    ssize_t written = file < 0 ? -1 : write(file, current.bytes, current.size);
    fprintf(stderr, "%s: execution %" PRIu64 " of seed %" PRIu64 " failed; its input: %s\n",
            program_invocation_short_name, executions, seed,
            written == (ssize_t)current.size ? path : "could not be written");
    if (file >= 0) close(file);
}

static void on_abort(int signal_number) {
    (void)signal_number;
    save_current();
    _exit(1);
}

void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

/* ------------------------------------------------------------------------------------------------ inputs */

static void pool_add(const uint8_t *bytes, size_t size) {
    if (size > INPUT_SIZE_MAX) size = INPUT_SIZE_MAX;
    size_t slot = pool_size < POOL_MAX ? pool_size++ : seed_count + below(POOL_MAX - seed_count);
    free(pool[slot].bytes);
    pool[slot].bytes = malloc(size ? size : 1);
    memcpy(pool[slot].bytes, bytes, size);
    pool[slot].size = size;
}

static void add_hex(const char *hex) {
    static uint8_t bytes[INPUT_SIZE_MAX];
    size_t size = 0;
    for (; hex[0] != '\0' && hex[1] != '\0' && size < INPUT_SIZE_MAX; hex += 2) {
        char digits[3] = {hex[0], hex[1], '\0'};
        bytes[size++] = (uint8_t)strtoul(digits, NULL, 16);
    }
    pool_add(bytes, size);
}

static void add_file(const char *path) {
    static uint8_t bytes[INPUT_SIZE_MAX];
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    if (pool_size < POOL_MAX / 2) pool_add(bytes, size);
}

static void add_path(const char *path) {
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISDIR(status.st_mode)) {
        add_file(path);
        return;
    }
    struct dirent **entries;
    int count = scandir(path, &entries, NULL, alphasort);
    if (count < 0) {
        fprintf(stderr, "%s cannot be read\n", path);
        exit(2);
    }
    for (int i = 0; i < count; i++) {
        char inner[4096];
        snprintf(inner, sizeof inner, "%s/%s", path, entries[i]->d_name);
        if (stat(inner, &status) == 0 && S_ISREG(status.st_mode)) add_file(inner);
        free(entries[i]);
    }
    free(entries);
}

/* ------------------------------------------------------------------------------------------------ changes */

static void put_big_endian(uint8_t *p, uint64_t value, size_t width) {
    for (size_t i = 0; i < width; i++) p[i] = (uint8_t)(value >> (8 * (width - 1 - i)));
}

/* Sizes and counts fail at their ends, so these are tried where they are likely to stand. */
static uint64_t interesting(void) {
    static const uint64_t values[] = {0, 1, 2, 13, 14, 16, 49, 61, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 0x7fffffff, 0x80000000};
    uint64_t value = values[below(sizeof values / sizeof values[0])];
    size_t form = below(4);
    return form == 0 ? (uint64_t)0 - value : form == 1 ? value - 1 : form == 2 ? value + below(5) : value;
}

static size_t insert(uint8_t *bytes, size_t size, size_t at, const uint8_t *added, size_t added_size) {
    if (added_size > INPUT_SIZE_MAX - size) added_size = INPUT_SIZE_MAX - size;
    memmove(bytes + at + added_size, bytes + at, size - at);
    memcpy(bytes + at, added, added_size);
    return size + added_size;
}

static size_t change(uint8_t *bytes, size_t size) {
    static uint8_t added[INPUT_SIZE_MAX];
    size_t at = below(size + 1), width = (size_t)1 << below(4), run = 1 + below(16);
    const input *other = &pool[below(pool_size)];
    switch (below(9)) {
        case 0:     /* one bit */
            if (at < size) bytes[at] ^= (uint8_t)(1u << below(8));
            return size;
        case 1:     /* one byte */
            if (at < size) bytes[at] = (uint8_t)random_u64();
            return size;
        case 2:     /* an integer */
            if (size - at >= width) put_big_endian(bytes + at, interesting(), width);
            return size;
        case 3:     /* an integer a little off */
            if (at < size) bytes[at] = (uint8_t)(bytes[at] + below(9) - 4);
            return size;
        case 4:     /* cut at the end */
            return at;
        case 5:     /* cut inside */
            if (run > size - at) run = size - at;
            memmove(bytes + at, bytes + at + run, size - at - run);
            return size - run;
        case 6:     /* insert */
            for (size_t i = 0; i < run; i++) added[i] = (uint8_t)(below(2) ? random_u64() : 0xff);
            return insert(bytes, size, at, added, run);
        case 7: {   /* repeat a run of itself */
            if (run > size - at) run = size - at;
            memcpy(added, bytes + at, run);
            return insert(bytes, size, below(size + 1), added, run);
        }
        default: {  /* go on as another input does */
            size_t from = below(other->size + 1);
            size_t tail = other->size - from;
            if (tail > INPUT_SIZE_MAX - at) tail = INPUT_SIZE_MAX - at;
            memcpy(bytes + at, other->bytes + from, tail);
            return at + tail;
        }
    }
}

/* In memory of exactly its size, so that a sanitizer sees a read past it. */
static void execute(const uint8_t *bytes, size_t size) {
    current.bytes = malloc(size ? size : 1);
    current.size = size;
    memcpy(current.bytes, bytes, size);
    executions++;
    alarm(HANG_SECONDS);
    LLVMFuzzerTestOneInput(current.bytes, size);
    alarm(0);
    free(current.bytes);
    current.bytes = NULL;
    current.size = 0;
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    static uint8_t bytes[INPUT_SIZE_MAX];
    double seconds = 5;
    if (getenv("OL_SEED") != NULL) seed = strtoull(getenv("OL_SEED"), NULL, 10);
    if (getenv("OL_FUZZ_SECONDS") != NULL) seconds = strtod(getenv("OL_FUZZ_SECONDS"), NULL);
    random_state = seed;
    signal(SIGABRT, on_abort);
    signal(SIGALRM, on_abort);
    if (__sanitizer_set_death_callback != NULL) __sanitizer_set_death_callback(save_current);
    for (const char *const *hex = ol_fuzz_seeds(); *hex != NULL; hex++) add_hex(*hex);
    for (int i = 1; i < argc; i++) add_path(argv[i]);
    seed_count = pool_size;
    for (size_t i = 0; i < seed_count; i++) execute(pool[i].bytes, pool[i].size);
    for (double end = seconds_now() + seconds; executions % 256 != 0 || seconds_now() < end;) {
        /* Half of the inputs are a sound one with one change, most of which get past the first checks. */
        bool is_light = below(2) == 0;
        const input *start = &pool[below(is_light ? seed_count : pool_size)];
        size_t size = start->size;
        memcpy(bytes, start->bytes, size);
        for (size_t changes = is_light ? 1 : 1 + below(CHANGES_MAX); changes > 0; changes--) size = change(bytes, size);
        execute(bytes, size);
        if (below(64) == 0) pool_add(bytes, size);
    }
    for (size_t i = 0; i < pool_size; i++) free(pool[i].bytes);
    printf("%" PRIu64 " executions, 0 failures (seed %" PRIu64 ")\n", executions, seed);
    return 0;
}
