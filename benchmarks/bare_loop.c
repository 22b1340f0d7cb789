/* Measures the speed of the machine if one thread does only the memory work, without Python, locks or checks of arguments.
 *
 *     bare_loop append FILE PAIRS PARTITIONS OPERATIONS ROUNDS SEED
 *         Commits to random keys of a table of PAIRS x PARTITIONS cells.  A commit makes three dependent reads (slot, pair, cell),
 *         encodes a batch of one record with its CRC-32C into a mapped file whose pages were touched before, and writes the cell.
 *     bare_loop fetch PAIRS PARTITIONS OPERATIONS ROUNDS SEED
 *         Makes the same three reads, and adds up the offsets of the cells.
 *     bare_loop load PAIRS PARTITIONS ROUNDS FILE...
 *         Reads segment files through a mapping.  It computes the CRC-32C of each batch, hashes the key of each record to a block
 *         of PARTITIONS cells, and writes the cell.
 *
 * All memory is touched before the first round.  Each round prints its seconds and its operations; a round of `load` also prints its
 * bytes and the sum of the offsets.  Round 0 is a warm-up.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILE_BYTES ((size_t)64 << 20)
#define HEADER_BYTES 61
#define BATCH_BYTES_MAX 256

typedef struct cell { int64_t offset, log_offset, time; int32_t epoch, metadata; } cell;
typedef struct pair { uint64_t hash; uint32_t block, unused; char name[40]; } pair;
typedef struct table { uint32_t *slots; pair *pairs; cell *cells; uint64_t slot_mask, pair_count, partitions; } table;

static double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void *memory(size_t size) {
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED) fail("mmap");
    madvise(bytes, size, MADV_HUGEPAGE);
    memset(bytes, 0, size);
    return bytes;
}

static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* ---- CRC-32C, with the processor's instruction if it has one, otherwise with a table */

static uint32_t crc_table[256];

static void crc_prepare(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = (crc >> 1) ^ (0x82f63b78u & (0u - (crc & 1)));
        crc_table[i] = crc;
    }
}

static uint32_t crc_bytes(uint32_t crc, const uint8_t *data, size_t size) {
    while (size-- > 0) crc = (crc >> 8) ^ crc_table[(crc ^ *data++) & 0xff];
    return crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>
static int crc_hardware(void) { return __builtin_cpu_supports("sse4.2"); }
#define CRC_TARGET __attribute__((target("sse4.2")))
#define CRC_WORD(crc, word) ((uint32_t)_mm_crc32_u64(crc, word))
#elif defined(__aarch64__)
#include <sys/auxv.h>
static int crc_hardware(void) { return (getauxval(AT_HWCAP) >> 7) & 1; }
#define CRC_TARGET __attribute__((target("+crc")))
#define CRC_WORD(crc, word) __builtin_aarch64_crc32cx(crc, word)
#endif

#ifdef CRC_TARGET
CRC_TARGET static uint32_t crc_words(uint32_t crc, const uint8_t **data, size_t *size) {
    for (; *size >= 8; *data += 8, *size -= 8) {
        uint64_t word;
        memcpy(&word, *data, 8);
        crc = CRC_WORD(crc, word);
    }
    return crc;
}
#endif

static uint32_t crc32c(const uint8_t *data, size_t size) {
    uint32_t crc = 0xffffffffu;
#ifdef CRC_TARGET
    if (crc_hardware()) crc = crc_words(crc, &data, &size);
#endif
    return ~crc_bytes(crc, data, size);
}

/* ---- big-endian integers */

static uint8_t *put16(uint8_t *at, uint16_t value) { value = __builtin_bswap16(value); memcpy(at, &value, 2); return at + 2; }
static uint8_t *put32(uint8_t *at, uint32_t value) { value = __builtin_bswap32(value); memcpy(at, &value, 4); return at + 4; }
static uint8_t *put64(uint8_t *at, uint64_t value) { value = __builtin_bswap64(value); memcpy(at, &value, 8); return at + 8; }
static uint32_t get32(const uint8_t *at) { uint32_t value; memcpy(&value, at, 4); return __builtin_bswap32(value); }
static uint64_t get64(const uint8_t *at) { uint64_t value; memcpy(&value, at, 8); return __builtin_bswap64(value); }

static int64_t get_varint(const uint8_t **at) {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t byte = *(*at)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
    }
}

/* ---- the table: a slot names a pair (group and topic), a pair names its block of cells */

static table make_table(uint64_t pair_count, uint64_t partitions) {
    table made = {.pair_count = pair_count, .partitions = partitions};
    uint64_t slots = 1;
    while (slots < pair_count * 2) slots *= 2;
    made.slot_mask = slots - 1;
    made.slots = memory(slots * sizeof(uint32_t));
    made.pairs = memory((pair_count + 1) * sizeof(pair));
    made.cells = memory((pair_count + 1) * partitions * sizeof(cell));
    return made;
}

/* Returns the pair with this hash, and adds it if it is missing.  Pairs are numbered from 1. */
static pair *find_pair(table *in, uint64_t hash, uint32_t *count) {
    for (uint64_t at = hash & in->slot_mask;; at = (at + 1) & in->slot_mask) {
        uint32_t number = in->slots[at];
        if (number == 0) {
            if (*count >= in->pair_count) fail("more pairs than were announced");
            number = in->slots[at] = ++*count;
            in->pairs[number].hash = hash;
            in->pairs[number].block = number;
        }
        if (in->pairs[number].hash == hash) return &in->pairs[number];
    }
}

static uint64_t hash_of_pair(uint64_t number, uint64_t seed) {
    uint64_t state = number * 0x2545f4914f6cdd1du + seed;
    return next_random(&state);
}

static void fill(table *in, uint64_t seed) {
    uint32_t count = 0;
    for (uint64_t number = 0; number < in->pair_count; number++) {
        pair *entered = find_pair(in, hash_of_pair(number, seed), &count);
        snprintf(entered->name, sizeof entered->name, "consumer-group-%05u|topic-name-%04u", (unsigned)(number / 100) % 100000,
                 (unsigned)(number % 100));
    }
}

/* Returns the cell of a random key.  It reads a slot, a pair and a cell; each read depends on the one before. */
static cell *random_cell(table *in, uint64_t random, uint64_t seed, pair **of) {
    uint64_t number = (random >> 32) % in->pair_count;
    uint32_t partition = (uint32_t)random % (uint32_t)in->partitions;
    uint32_t count = (uint32_t)in->pair_count;
    *of = find_pair(in, hash_of_pair(number, seed), &count);
    return &in->cells[(*of)->block * in->partitions + partition];
}

/* ---- append: a batch of one record, as offsetlog writes it */

static size_t encode(uint8_t *batch, const pair *of, uint32_t partition, int64_t offset, int64_t log_offset) {
    uint8_t *at = batch + HEADER_BYTES;
    *at++ = 0x96; *at++ = 0x01;                        /* 75 bytes follow */
    *at++ = 0; *at++ = 0; *at++ = 0;
    *at++ = (2 + 2 + 20 + 2 + 15 + 4) * 2;
    at = put16(at, 1);
    at = put16(at, 20); memcpy(at, of->name, 20); at += 20;
    at = put16(at, 15); memcpy(at, of->name + 21, 15); at += 15;
    at = put32(at, partition);
    *at++ = 24 * 2;
    at = put16(at, 3);
    at = put64(at, (uint64_t)offset);
    at = put32(at, 0xffffffffu);
    at = put16(at, 0);
    at = put64(at, 1700000000000u);
    *at++ = 0;
    size_t size = (size_t)(at - batch);
    at = put16(batch + 21, 0);
    at = put32(at, 0);
    at = put64(at, 1700000000000u);
    at = put64(at, 1700000000000u);
    at = put64(at, UINT64_MAX);
    at = put16(at, UINT16_MAX);
    at = put32(at, UINT32_MAX);
    put32(at, 1);
    put32(batch + 17, crc32c(batch + 21, size - 21));
    batch[16] = 2;
    put32(batch + 12, 0);
    put32(batch + 8, (uint32_t)size - 12);
    put64(batch, (uint64_t)log_offset);
    return size;
}

static uint8_t *touched_file(const char *path) {
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || ftruncate(file, (off_t)FILE_BYTES) != 0) fail(path);
    uint8_t *bytes = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) fail("mmap");
    memset(bytes, 0, FILE_BYTES);
    close(file);
    return bytes;
}

static void run_commits(table *in, uint8_t *log, uint64_t operations, int rounds, uint64_t seed) {
    uint64_t random = seed, sum = 0;
    int64_t log_offset = 0;
    size_t end = 0;
    for (int round = 0; round <= rounds; round++) {
        double start = now_seconds();
        for (uint64_t i = 0; i < operations; i++) {
            pair *of;
            uint64_t picked = next_random(&random);
            cell *found = random_cell(in, picked, seed, &of);
            if (log == NULL) {
                sum += (uint64_t)found->offset;
                random += (uint64_t)found->epoch;      /* the next key waits for this one, as a caller's would */
                continue;
            }
            if (end + BATCH_BYTES_MAX > FILE_BYTES) end = 0;
            end += encode(log + end, of, (uint32_t)picked % (uint32_t)in->partitions, (int64_t)i, log_offset);
            *found = (cell){(int64_t)i, log_offset++, 1700000000000, -1, 0};
        }
        printf("%.9f %llu %llu\n", now_seconds() - start, (unsigned long long)operations, (unsigned long long)sum);
    }
}

/* ---- load */

static uint64_t hash_bytes(const uint8_t *data, size_t size) {
    uint64_t hash = size, word = 0;
    for (; size >= 8; data += 8, size -= 8) {
        memcpy(&word, data, 8);
        hash = (hash ^ word) * 0x9fb21c651e98df25u;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, data, size);
    hash = (hash ^ word) * 0x9fb21c651e98df25u;
    return hash ^ (hash >> 29);
}

typedef struct loaded { uint64_t records, bytes, sum; uint32_t pairs; } loaded;

static void load_batch(table *in, const uint8_t *batch, size_t size, loaded *state) {
    if (crc32c(batch + 21, size - 21) != get32(batch + 17)) fail("a batch is damaged");
    uint32_t count = get32(batch + 57);
    int64_t base = (int64_t)get64(batch), time = (int64_t)get64(batch + 27);
    const uint8_t *at = batch + HEADER_BYTES;
    for (uint32_t i = 0; i < count; i++) {
        int64_t length = get_varint(&at);
        const uint8_t *next = at + length;
        at++;
        get_varint(&at);
        int64_t delta = get_varint(&at), key_size = get_varint(&at);
        const uint8_t *key = at, *value = at + key_size;
        get_varint(&value);
        uint32_t partition = get32(key + key_size - 4);
        pair *of = find_pair(in, hash_bytes(key, (size_t)key_size - 4), &state->pairs);
        int64_t offset = (int64_t)get64(value + 2);
        in->cells[of->block * in->partitions + partition % in->partitions] =
            (cell){offset, base + delta, time, (int32_t)get32(value + 10), 0};
        state->sum += (uint64_t)offset;
        state->records++;
        at = next;
    }
}

static void load_file(table *in, const char *path, loaded *state) {
    struct stat facts;
    int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &facts) != 0) fail(path);
    if (facts.st_size == 0) {
        close(file);
        return;
    }
    const uint8_t *bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    if (bytes == MAP_FAILED) fail(path);
    close(file);
    for (size_t at = 0; at + HEADER_BYTES <= (size_t)facts.st_size;) {
        size_t size = get32(bytes + at + 8) + 12;
        if (size < HEADER_BYTES || at + size > (size_t)facts.st_size) break;
        load_batch(in, bytes + at, size, state);
        at += size;
    }
    state->bytes += (uint64_t)facts.st_size;
    munmap((void *)bytes, (size_t)facts.st_size);
}

static void run_load(table *in, int rounds, char **paths, int count) {
    for (int round = 0; round <= rounds; round++) {
        loaded state = {0};
        memset(in->slots, 0, (in->slot_mask + 1) * sizeof(uint32_t));
        double start = now_seconds();
        for (int i = 0; i < count; i++) load_file(in, paths[i], &state);
        printf("%.9f %llu %llu %llu\n", now_seconds() - start, (unsigned long long)state.records,
               (unsigned long long)state.sum, (unsigned long long)state.bytes);
    }
}

int main(int count, char **words) {
    crc_prepare();
    if (count >= 6 && strcmp(words[1], "load") == 0) {
        table in = make_table(strtoull(words[2], NULL, 10), strtoull(words[3], NULL, 10));
        run_load(&in, atoi(words[4]), words + 5, count - 5);
        return 0;
    }
    int append = count == 8 && strcmp(words[1], "append") == 0;
    if (!append && !(count == 7 && strcmp(words[1], "fetch") == 0)) {
        fprintf(stderr, "see the head of bare_loop.c\n");
        return 2;
    }
    uint8_t *log = append ? touched_file(words[2]) : NULL;
    char **numbers = words + (append ? 3 : 2);
    table in = make_table(strtoull(numbers[0], NULL, 10), strtoull(numbers[1], NULL, 10));
    uint64_t seed = strtoull(numbers[4], NULL, 10);
    fill(&in, seed);
    run_commits(&in, log, strtoull(numbers[2], NULL, 10), atoi(numbers[3]), seed);
    return 0;
}
