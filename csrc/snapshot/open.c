/* Lists the sections of a snapshot, writes the directory of a file's sections, and makes a state
 * from the sections in a file. */
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "snapshot/snapshot_impl.h"

static const char *const own_names[OL_SNAPSHOT_OWN_SECTIONS] = {"facts", "numbers", "pending",
                                                                "group_records"};

const char *ol_snapshot_section_name(int index) {
    return index < OL_SNAPSHOT_OWN_SECTIONS
               ? own_names[index]
               : ol_table_section_name(index - OL_SNAPSHOT_OWN_SECTIONS);
}

int ol_snapshot_seal(ol_snapshot *snapshot, unsigned threads,
                     ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS], ol_error *error) {
    ol_table_section arenas[OL_TABLE_SECTIONS];
    int status = ol_snapshot_put_blobs(snapshot, error);
    if (status != OL_OK) return status;
    for (int i = 0; i < OL_SNAPSHOT_OWN_SECTIONS; i++) {
        sections[i] = (ol_snapshot_section){.name = own_names[i],
                                            .data = snapshot->blobs[i],
                                            .size = snapshot->blob_sizes[i]};
    }
    ol_table_sections(snapshot->state.table, arenas);
    for (int i = 0; i < OL_TABLE_SECTIONS; i++) {
        const ol_arena *arena = arenas[i].arena;
        sections[OL_SNAPSHOT_OWN_SECTIONS + i] =
            (ol_snapshot_section){.name = arenas[i].name, .data = arena->base, .size = arena->used};
    }
    return ol_snapshot_checksum(sections, threads, error);
}

/* ------------------------------------------------------------------------------------ directory */

#define DIRECTORY_MAGIC UINT64_C(0x4f4c534e41504449)    /* "OLSNAPDI" */
#define ARROW_MAGIC "ARROW1"

enum {
    END_SIZE = 10,                  /* of an Arrow file: footer length, little-endian, and magic */
    MARK_SIZE = 8,                  /* of the end of the stream, before the footer */
    ENTRY_SIZE = 24,
    CRC_AT = OL_SNAPSHOT_DIRECTORY_SIZE - 16,
    MAGIC_AT = OL_SNAPSHOT_DIRECTORY_SIZE - 8,
};

void ol_snapshot_put_directory(const ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS],
                               uint8_t bytes[OL_SNAPSHOT_DIRECTORY_SIZE]) {
    ol_store_u32(bytes, OL_SNAPSHOT_VERSION);
    ol_store_u32(bytes + 4, OL_SNAPSHOT_SECTIONS);
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) {
        uint8_t *entry = bytes + 8 + i * ENTRY_SIZE;
        ol_store_i64(entry, sections[i].position);
        ol_store_u64(entry + 8, sections[i].size);
        ol_store_u64(entry + 16, sections[i].crc);
    }
    ol_store_u64(bytes + CRC_AT, ol_crc32c(bytes, CRC_AT));
    ol_store_u64(bytes + MAGIC_AT, DIRECTORY_MAGIC);
}

typedef struct opening {
    ol_fs *fs;
    ol_file *file;
    int64_t file_size;
    ol_snapshot *snapshot;
    uint32_t crcs[OL_SNAPSHOT_SECTIONS];        /* as the directory states them */
    ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS];
    uint8_t *blobs[OL_SNAPSHOT_OWN_SECTIONS];   /* of the sections that are not the table's */
} opening;

static int read_at(const opening *open, int64_t position, uint8_t *bytes, size_t size,
                   ol_error *error) {
    size_t got = 0;
    if (position < 0 || (uint64_t)position > (uint64_t)open->file_size ||
        size > (uint64_t)(open->file_size - position)) {
        return ol_fail(error, OL_CORRUPT, "the file is truncated");
    }
    int status = open->fs->read(open->file, position, bytes, size, &got, error);
    if (status == OL_OK && got != size) status = ol_fail(error, OL_CORRUPT,
                                                         "the file is truncated");
    return status;
}

static int check_extent(const opening *open, int index, ol_error *error) {
    const ol_snapshot_section *section = &open->sections[index];
    bool fits = section->position >= 0 && section->position <= open->file_size &&
                section->size <= (uint64_t)(open->file_size - section->position);
    return fits ? OL_OK
                : ol_fail(error, OL_CORRUPT, "section '%s' is not inside the file",
                          ol_snapshot_section_name(index));
}

static int read_directory(opening *open, ol_error *error) {
    uint8_t end[END_SIZE], bytes[OL_SNAPSHOT_DIRECTORY_SIZE];
    int status = read_at(open, open->file_size - END_SIZE, end, sizeof end, error);
    if (status != OL_OK) return status;
    uint32_t footer_size =
        (uint32_t)end[0] | (uint32_t)end[1] << 8 | (uint32_t)end[2] << 16 | (uint32_t)end[3] << 24;
    if (memcmp(end + 4, ARROW_MAGIC, 6) != 0) {
        return ol_fail(error, OL_CORRUPT,
                       "the file does not end with the magic number of an Arrow file");
    }
    status =
        read_at(open,
                open->file_size - END_SIZE - footer_size - MARK_SIZE - OL_SNAPSHOT_DIRECTORY_SIZE,
                bytes, sizeof bytes, error);
    if (status != OL_OK) return status;
    if (ol_load_u64(bytes + MAGIC_AT) != DIRECTORY_MAGIC ||
        ol_load_u64(bytes + CRC_AT) != ol_crc32c(bytes, CRC_AT)) {
        return ol_fail(error, OL_CORRUPT, "the list of the file's sections is missing or damaged");
    }
    if (ol_load_u32(bytes) != OL_SNAPSHOT_VERSION ||
        ol_load_u32(bytes + 4) != OL_SNAPSHOT_SECTIONS) {
        return ol_fail(error, OL_UNSUPPORTED, "version %u of a snapshot is not known",
                       ol_load_u32(bytes));
    }
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS && status == OL_OK; i++) {
        const uint8_t *entry = bytes + 8 + i * ENTRY_SIZE;
        open->sections[i] = (ol_snapshot_section){.name = ol_snapshot_section_name(i),
                                                  .position = ol_load_i64(entry),
                                                  .size = ol_load_u64(entry + 8)};
        open->crcs[i] = (uint32_t)ol_load_u64(entry + 16);
        status = check_extent(open, i, error);
    }
    return status;
}

/* ---------------------------------------------------------------------------------- from a file */

/* Reads a section that is not one of the table's; these are small. */
static int read_blob(opening *open, int index, ol_error *error) {
    ol_snapshot_section *section = &open->sections[index];
    open->blobs[index] = malloc(section->size + 1);
    if (open->blobs[index] == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for %zu bytes of a snapshot", section->size);
    }
    section->data = open->blobs[index];
    return read_at(open, section->position, open->blobs[index], section->size, error);
}

/* Allocates the table's sections where the table will use them. */
static int prepare_table(opening *open, ol_error *error) {
    ol_table_section arenas[OL_TABLE_SECTIONS];
    ol_table_sections(open->snapshot->state.table, arenas);
    int status = OL_OK;
    for (int i = 0; i < OL_TABLE_SECTIONS && status == OL_OK; i++) {
        ol_snapshot_section *section = &open->sections[OL_SNAPSHOT_OWN_SECTIONS + i];
        if (section->size == 0) continue;
        status = ol_arena_extend(arenas[i].arena, section->size, error);
        section->data = arenas[i].arena->base;
    }
    return status;
}

static int read_sections(opening *open, unsigned threads, ol_error *error) {
    int status = prepare_table(open, error);
    if (status == OL_OK) {
        status = ol_snapshot_read(open->fs, open->file, open->sections, threads, error);
    }
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS && status == OL_OK; i++) {
        const ol_snapshot_section *section = &open->sections[i];
        if (section->crc != open->crcs[i]) {
            status = ol_fail(error, OL_CORRUPT, "the checksum of section '%s' is wrong",
                             section->name);
        }
    }
    return status;
}

static ol_slice blob(const opening *open, int index) {
    return ol_slice_of(open->sections[index].data, open->sections[index].size);
}

static int take_state(opening *open, unsigned threads, ol_error *error) {
    ol_snapshot *snapshot = open->snapshot;
    ol_reservation *held = NULL;
    size_t held_count = 0;
    if (open->sections[OL_SNAPSHOT_NUMBERS].size != OL_TABLE_NUMBERS_SIZE) {
        return ol_fail(error, OL_CORRUPT, "section 'numbers' of the snapshot has a wrong size");
    }
    int status = ol_snapshot_take_held(blob(open, OL_SNAPSHOT_PENDING), &held, &held_count, error);
    if (status == OL_OK) {
        status =
            ol_table_restore(snapshot->state.table, open->sections[OL_SNAPSHOT_NUMBERS].data, held,
                             held_count, ol_snapshot_threads(open->sections, threads), error);
    }
    free(held);
    if (status == OL_OK) {
        status = ol_snapshot_take_pending(snapshot, blob(open, OL_SNAPSHOT_PENDING), error);
    }
    if (status == OL_OK) {
        status =
            ol_snapshot_take_group_records(snapshot, blob(open, OL_SNAPSHOT_GROUP_RECORDS), error);
    }
    return status;
}

static int open_file(opening *open, unsigned threads, ol_error *error) {
    int status = open->fs->size(open->file, &open->file_size, error);
    if (status == OL_OK) status = read_directory(open, error);
    for (int i = 0; i < OL_SNAPSHOT_OWN_SECTIONS && status == OL_OK; i++) {
        status = read_blob(open, i, error);
    }
    /* Facts come first: they say whether the rest can be understood at all. */
    if (status == OL_OK) {
        status = ol_snapshot_take_facts(open->snapshot, blob(open, OL_SNAPSHOT_FACTS), error);
    }
    if (status == OL_OK) status = read_sections(open, threads, error);
    if (status == OL_OK) status = take_state(open, threads, error);
    return status;
}

/* Reads only the facts, with their checksum. */
static int read_facts(opening *open, ol_error *error) {
    int status = open->fs->size(open->file, &open->file_size, error);
    if (status == OL_OK) status = read_directory(open, error);
    if (status == OL_OK) status = read_blob(open, OL_SNAPSHOT_FACTS, error);
    ol_snapshot_section facts[OL_SNAPSHOT_SECTIONS] = {0};
    if (status == OL_OK) {
        facts[OL_SNAPSHOT_FACTS] = open->sections[OL_SNAPSHOT_FACTS];
        status = ol_snapshot_checksum(facts, 1, error);
    }
    if (status == OL_OK && facts[OL_SNAPSHOT_FACTS].crc != open->crcs[OL_SNAPSHOT_FACTS]) {
        status = ol_fail(error, OL_CORRUPT, "the checksum of section 'facts' is wrong");
    }
    if (status != OL_OK) return status;
    return ol_snapshot_take_facts(open->snapshot, blob(open, OL_SNAPSHOT_FACTS), error);
}

int ol_snapshot_file_mark(ol_fs *fs, const char *path, ol_log_mark *mark, ol_error *error) {
    *mark = (ol_log_mark){0};
    opening open = {.fs = fs};
    int status = fs->open(fs, path, OL_OPEN_READ, &open.file, error);
    if (status != OL_OK) return status;
    status = ol_snapshot_create(&open.snapshot, error);
    if (status == OL_OK) {
        status = read_facts(&open, error);
        free(open.blobs[OL_SNAPSHOT_FACTS]);
        if (status == OL_OK) {
            *mark = open.snapshot->mark;
            open.snapshot->mark = (ol_log_mark){0};
        }
        ol_snapshot_destroy(open.snapshot);
    }
    fs->close(open.file);
    return status == OL_CORRUPT || status == OL_UNSUPPORTED ? ol_error_at(error, path, -1) : status;
}

int ol_snapshot_open(ol_fs *fs, const char *path, unsigned threads, ol_snapshot **snapshot,
                     ol_error *error) {
    opening open = {.fs = fs};
    int status = fs->open(fs, path, OL_OPEN_READ, &open.file, error);
    if (status != OL_OK) return status;
    status = ol_snapshot_create(&open.snapshot, error);
    if (status == OL_OK) {
        status = open_file(&open, threads, error);
        for (int i = 0; i < OL_SNAPSHOT_OWN_SECTIONS; i++) free(open.blobs[i]);
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
