/* The sections of a snapshot: which there are, their checksums, where they lie, and a state from those of a file. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ol_crc32c.h"
#include "ol_parallel.h"
#include "ol_snapshot_internal.h"

enum {
    RESERVE_FACTOR = 8,             /* of the size of a section, so that a table may grow eightfold before anything is copied */
    RESERVE_MIN = 1 << 20,
    PARALLEL_SIZE_MIN = 8 << 20,    /* below this a second thread costs more than it gains */
};

static const char *const own_names[OL_SNAPSHOT_OWN_SECTIONS] = {"facts", "numbers", "pending", "group_records"};

const char *ol_snapshot_section_name(int index) {
    return index < OL_SNAPSHOT_OWN_SECTIONS ? own_names[index] : ol_table_section_name(index - OL_SNAPSHOT_OWN_SECTIONS);
}

static size_t round_up(size_t size) { return (size + OL_SNAPSHOT_ALIGNMENT - 1) / OL_SNAPSHOT_ALIGNMENT * OL_SNAPSHOT_ALIGNMENT; }

static bool is_mapped(int index, size_t used) { return index >= OL_SNAPSHOT_OWN_SECTIONS && used > OL_SNAPSHOT_COPY_MAX; }

/* ------------------------------------------------------------------------------------------------ checksums */

typedef struct block {
    const uint8_t *data;
    size_t size;
    uint32_t crc;
} block;

static void checksum_block(void *context, unsigned worker, size_t index) {
    block *blocks = context;
    (void)worker;
    blocks[index].crc = ol_crc32c(blocks[index].data, blocks[index].size);
}

static size_t blocks_of(size_t size) { return (size + OL_SNAPSHOT_BLOCK_SIZE - 1) / OL_SNAPSHOT_BLOCK_SIZE; }

int ol_snapshot_checksum(ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS], unsigned threads, ol_error *error) {
    size_t count = 0, filled = 0, total = 0;
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) {
        count += blocks_of(sections[i].size);
        total += sections[i].size;
    }
    block *blocks = malloc((count + 1) * sizeof *blocks);
    if (blocks == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for checksums");
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) {
        for (size_t at = 0; at < sections[i].size; at += OL_SNAPSHOT_BLOCK_SIZE) {
            size_t left = sections[i].size - at;
            blocks[filled++] = (block){sections[i].data + at, left < OL_SNAPSHOT_BLOCK_SIZE ? left : OL_SNAPSHOT_BLOCK_SIZE, 0};
        }
    }
    ol_parallel_run(total < PARALLEL_SIZE_MIN ? 1 : threads, count, checksum_block, blocks);
    filled = 0;
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) {
        sections[i].crc = 0;
        for (size_t k = 0; k < blocks_of(sections[i].size); k++) {
            uint8_t bytes[4];
            ol_store_u32(bytes, blocks[filled++].crc);
            sections[i].crc = ol_crc32c_extend(sections[i].crc, bytes, sizeof bytes);
        }
    }
    free(blocks);
    return OL_OK;
}

static unsigned sane_threads(unsigned threads) {
    return threads < 1 ? 1 : threads > OL_PARALLEL_WORKERS_MAX ? OL_PARALLEL_WORKERS_MAX : threads;
}

int ol_snapshot_seal(ol_snapshot *snapshot, unsigned threads, ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS], ol_error *error) {
    ol_table_section arenas[OL_TABLE_SECTIONS];
    int status = ol_snapshot_put_blobs(snapshot, error);
    if (status != OL_OK) return status;
    for (int i = 0; i < OL_SNAPSHOT_OWN_SECTIONS; i++) {
        sections[i] = (ol_snapshot_section){own_names[i], snapshot->blobs[i], snapshot->blob_sizes[i], snapshot->blob_sizes[i], 0, 0};
    }
    ol_table_sections(snapshot->state.table, arenas);
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) {
        const ol_arena *arena = arenas[i].arena;
        int index = OL_SNAPSHOT_OWN_SECTIONS + i;
        /* An arena of more than 16 KiB is whole pages, and what is not used of them is zeros. */
        size_t size = is_mapped(index, arena->used) ? round_up(arena->used) : arena->used;
        OL_ASSERT(size <= arena->capacity);
        sections[index] = (ol_snapshot_section){arenas[i].name, arena->base, arena->used, size, 0, 0};
    }
    return ol_snapshot_checksum(sections, sane_threads(threads), error);
}

/* ------------------------------------------------------------------------------------------------ directory */

#define DIRECTORY_MAGIC UINT64_C(0x4f4c534e41504449)    /* "OLSNAPDI" */
#define ARROW_MAGIC "ARROW1"

enum {
    END_SIZE = 10,                  /* of an Arrow IPC file: the length of the footer, little-endian, and the magic */
    MARK_SIZE = 8,                  /* of the end of the stream, before the footer */
    ENTRY_SIZE = 32,
    CRC_AT = OL_SNAPSHOT_DIRECTORY_SIZE - 16,
    MAGIC_AT = OL_SNAPSHOT_DIRECTORY_SIZE - 8,
};

void ol_snapshot_put_directory(const ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS], uint8_t bytes[OL_SNAPSHOT_DIRECTORY_SIZE]) {
    ol_store_u32(bytes, OL_SNAPSHOT_VERSION);
    ol_store_u32(bytes + 4, OL_SNAPSHOT_SECTIONS);
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) {
        uint8_t *entry = bytes + 8 + i * ENTRY_SIZE;
        ol_store_i64(entry, sections[i].position);
        ol_store_u64(entry + 8, sections[i].used);
        ol_store_u64(entry + 16, sections[i].size);
        ol_store_u64(entry + 24, sections[i].crc);
    }
    ol_store_u64(bytes + CRC_AT, ol_crc32c(bytes, CRC_AT));
    ol_store_u64(bytes + MAGIC_AT, DIRECTORY_MAGIC);
}

typedef struct opening {
    ol_fs *fs;
    ol_file *file;
    int64_t file_size;
    ol_snapshot *snapshot;
    uint32_t crcs[OL_SNAPSHOT_SECTIONS];        /* that the directory tells */
    ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS];
    uint8_t *copies[OL_SNAPSHOT_SECTIONS];      /* what was read */
} opening;

static int read_at(const opening *open, int64_t position, uint8_t *bytes, size_t size, ol_error *error) {
    size_t got = 0;
    if (position < 0 || (uint64_t)position > (uint64_t)open->file_size || size > (uint64_t)(open->file_size - position)) {
        return ol_fail(error, OL_CORRUPT, "the file is cut");
    }
    int status = open->fs->read(open->file, position, bytes, size, &got, error);
    if (status == OL_OK && got != size) status = ol_fail(error, OL_CORRUPT, "the file is cut");
    return status;
}

static int check_extent(const opening *open, int index, ol_error *error) {
    const ol_snapshot_section *section = &open->sections[index];
    bool mapped = is_mapped(index, section->used);
    bool fits = section->used <= (uint64_t)open->file_size && section->size == (mapped ? round_up(section->used) : section->used) &&
                section->position >= 0 && section->position <= open->file_size &&
                section->size <= (uint64_t)(open->file_size - section->position);
    if (fits && mapped) fits = section->position % OL_SNAPSHOT_ALIGNMENT == 0;
    return fits ? OL_OK : ol_fail(error, OL_CORRUPT, "the section %s is not where the file says", ol_snapshot_section_name(index));
}

static int read_directory(opening *open, ol_error *error) {
    uint8_t end[END_SIZE], bytes[OL_SNAPSHOT_DIRECTORY_SIZE];
    int status = read_at(open, open->file_size - END_SIZE, end, sizeof end, error);
    if (status != OL_OK) return status;
    uint32_t footer_size = (uint32_t)end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 | (uint32_t)end[3] << 24;
    if (memcmp(end + 4, ARROW_MAGIC, 6) != 0) return ol_fail(error, OL_CORRUPT, "the file does not end as an Arrow file does");
    status = read_at(open, open->file_size - END_SIZE - footer_size - MARK_SIZE - OL_SNAPSHOT_DIRECTORY_SIZE, bytes, sizeof bytes, error);
    if (status != OL_OK) return status;
    if (ol_load_u64(bytes + MAGIC_AT) != DIRECTORY_MAGIC || ol_load_u64(bytes + CRC_AT) != ol_crc32c(bytes, CRC_AT)) {
        return ol_fail(error, OL_CORRUPT, "the directory of the file is none");
    }
    if (ol_load_u32(bytes) != OL_SNAPSHOT_VERSION || ol_load_u32(bytes + 4) != OL_SNAPSHOT_SECTIONS) {
        return ol_fail(error, OL_UNSUPPORTED, "version %u of a snapshot is not known", ol_load_u32(bytes));
    }
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS && status == OL_OK; i++) {
        const uint8_t *entry = bytes + 8 + i * ENTRY_SIZE;
        open->sections[i] = (ol_snapshot_section){
            .position = ol_load_i64(entry), .used = ol_load_u64(entry + 8), .size = ol_load_u64(entry + 16)};
        open->crcs[i] = (uint32_t)ol_load_u64(entry + 24);
        status = check_extent(open, i, error);
    }
    return status;
}

/* ------------------------------------------------------------------------------------------------ from a file */

/* Address space for the section to grow in; less where there is not that much. */
static void *reserve(size_t size, size_t *reserved) {
    for (size_t factor = RESERVE_FACTOR; factor >= 1; factor /= 2) {
        *reserved = factor * size > RESERVE_MIN ? factor * size : RESERVE_MIN;
        void *base = mmap(NULL, *reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base != MAP_FAILED) return base;
    }
    return NULL;
}

static int map_section(opening *open, ol_snapshot_section *section, ol_arena *arena, ol_error *error) {
    size_t reserved;
    void *base = reserve(section->size, &reserved);
    if (base == NULL) return ol_fail(error, OL_NO_MEMORY, "no address space for %zu bytes", section->size);
    int status = open->fs->map_private(open->file, section->position, section->size, base, error);
    if (status != OL_OK) {
        munmap(base, reserved);
        return status;
    }
    ol_arena_adopt(arena, base, section->used, section->size, reserved);
    section->data = base;       /* what is checked is what is used */
    return OL_OK;
}

/* What is small, and what is not of the table. */
static int read_section(opening *open, int index, ol_error *error) {
    ol_snapshot_section *section = &open->sections[index];
    open->copies[index] = malloc(section->size + 1);
    if (open->copies[index] == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for %zu bytes of a snapshot", section->size);
    section->data = open->copies[index];
    return read_at(open, section->position, open->copies[index], section->size, error);
}

static int copy_section(const ol_snapshot_section *section, ol_arena *arena, ol_error *error) {
    if (section->used == 0) return OL_OK;
    int status = ol_arena_extend(arena, section->used, error);
    if (status == OL_OK) memcpy(arena->base, section->data, section->used);
    return status;
}

static int fill_table(opening *open, ol_error *error) {
    ol_table_section arenas[OL_TABLE_SECTIONS];
    ol_table_sections(open->snapshot->state.table, arenas);
    int status = OL_OK;
    for (int i = 0; i < OL_TABLE_SECTIONS && status == OL_OK; i++) {
        ol_snapshot_section *section = &open->sections[OL_SNAPSHOT_OWN_SECTIONS + i];
        if (is_mapped(OL_SNAPSHOT_OWN_SECTIONS + i, section->used)) {
            status = map_section(open, section, arenas[i].arena, error);
        } else {
            status = read_section(open, OL_SNAPSHOT_OWN_SECTIONS + i, error);
            if (status == OL_OK) status = copy_section(section, arenas[i].arena, error);
        }
    }
    return status;
}

static int check_contents(opening *open, unsigned threads, ol_error *error) {
    int status = ol_snapshot_checksum(open->sections, threads, error);
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS && status == OL_OK; i++) {
        const ol_snapshot_section *section = &open->sections[i];
        const char *name = ol_snapshot_section_name(i);
        if (section->crc != open->crcs[i]) return ol_fail(error, OL_CORRUPT, "the checksum of the section %s is wrong", name);
        for (size_t at = section->used; at < section->size; at++) {
            if (section->data[at] != 0) return ol_fail(error, OL_CORRUPT, "the section %s does not end in zeros", name);
        }
    }
    return status;
}

static ol_slice blob(const opening *open, int index) { return ol_slice_of(open->sections[index].data, open->sections[index].used); }

static int take_state(opening *open, unsigned threads, ol_error *error) {
    ol_snapshot *snapshot = open->snapshot;
    ol_reservation *held = NULL;
    size_t held_count = 0, total = 0;
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) total += open->sections[i].size;
    if (open->sections[OL_SNAPSHOT_NUMBERS].used != OL_TABLE_NUMBERS_SIZE) return ol_fail(error, OL_CORRUPT, "the numbers have an odd size");
    int status = ol_snapshot_take_held(blob(open, OL_SNAPSHOT_PENDING), &held, &held_count, error);
    if (status == OL_OK) {
        status = ol_table_restore(snapshot->state.table, open->sections[OL_SNAPSHOT_NUMBERS].data, held, held_count,
                                  total < PARALLEL_SIZE_MIN ? 1 : threads, error);
    }
    free(held);
    if (status == OL_OK) status = ol_snapshot_take_pending(snapshot, blob(open, OL_SNAPSHOT_PENDING), error);
    if (status == OL_OK) status = ol_snapshot_take_group_records(snapshot, blob(open, OL_SNAPSHOT_GROUP_RECORDS), error);
    return status;
}

static int open_file(opening *open, unsigned threads, ol_error *error) {
    int status = open->fs->size(open->file, &open->file_size, error);
    if (status == OL_OK) status = read_directory(open, error);
    for (int i = 0; i < OL_SNAPSHOT_OWN_SECTIONS && status == OL_OK; i++) status = read_section(open, i, error);
    /* The facts first: of another version nothing else can be said. */
    if (status == OL_OK) status = ol_snapshot_take_facts(open->snapshot, blob(open, OL_SNAPSHOT_FACTS), error);
    if (status == OL_OK) status = fill_table(open, error);
    if (status == OL_OK) status = check_contents(open, threads, error);
    if (status == OL_OK) status = take_state(open, threads, error);
    return status;
}

int ol_snapshot_open(ol_fs *fs, const char *path, unsigned threads, ol_snapshot **snapshot, ol_error *error) {
    opening open = {.fs = fs};
    int status = fs->open(fs, path, OL_OPEN_READ, &open.file, error);
    if (status != OL_OK) return status;
    status = ol_snapshot_create(&open.snapshot, error);
    if (status == OL_OK) {
        status = open_file(&open, sane_threads(threads), error);
        for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) free(open.copies[i]);
    }
    fs->close(open.file);
    if (status == OL_OK) {
        open.snapshot->from_file = true;
        *snapshot = open.snapshot;
        return OL_OK;
    }
    ol_snapshot_destroy(open.snapshot);
    return status == OL_CORRUPT || status == OL_UNSUPPORTED ? ol_error_at(error, path, -1) : status;
}
