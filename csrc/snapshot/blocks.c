/* Checksums and reads the blocks of a snapshot's sections, several at once.
 *
 * A file is read into memory, not mapped.  A private mapping would copy a page at its first change,
 * with a page fault.  A load that replays 100,000 commits after the snapshot causes many such
 * faults.  Reading the file into memory of huge pages takes a sixth of that time, and later commits
 * cause no such faults.  All of the file must be read in any case, because all of it is checked.
 */
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/parallel.h"
#include "snapshot/snapshot_impl.h"

enum {
    PIECE_SIZE = 256 << 10,             /* stays in a core's cache between read and checksum */
    PARALLEL_SIZE_MIN = 8 << 20,        /* below this a second thread costs more than it gains */
};

typedef struct block {
    const uint8_t *data;
    size_t size;
    int64_t position;
    uint32_t crc;
} block;

typedef struct block_job {
    block *blocks;
    size_t count;
    ol_fs *fs;                          /* NULL: the blocks are in memory */
    ol_file *file;
    int statuses[OL_PARALLEL_WORKERS_MAX];
    ol_error errors[OL_PARALLEL_WORKERS_MAX];
} block_job;

static int read_piece(const block_job *job, const block *from, size_t at, size_t size,
                      ol_error *error) {
    size_t got = 0;
    int status = job->fs->read(job->file, from->position + (int64_t)at, (uint8_t *)from->data + at,
                               size, &got, error);
    return status == OL_OK && got != size ? ol_fail(error, OL_CORRUPT, "the file is truncated")
                                          : status;
}

static void run_block(void *context, unsigned worker, size_t index) {
    block_job *job = context;
    block *each = &job->blocks[index];
    int *status = &job->statuses[worker];
    for (size_t at = 0; at < each->size && *status == OL_OK; at += PIECE_SIZE) {
        size_t size = each->size - at < PIECE_SIZE ? each->size - at : PIECE_SIZE;
        if (job->fs != NULL) *status = read_piece(job, each, at, size, &job->errors[worker]);
        if (*status == OL_OK) each->crc = ol_crc32c_extend(each->crc, each->data + at, size);
    }
}

static size_t blocks_of(size_t size) {
    return (size + OL_SNAPSHOT_BLOCK_SIZE - 1) / OL_SNAPSHOT_BLOCK_SIZE;
}

static int cut(block_job *job, const ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS],
               ol_error *error) {
    size_t count = 0;
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) count += blocks_of(sections[i].size);
    job->blocks = malloc((count + 1) * sizeof *job->blocks);
    if (job->blocks == NULL) {
        return ol_fail(error, OL_NO_MEMORY, "no memory for the blocks of a snapshot");
    }
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) {
        const ol_snapshot_section *section = &sections[i];
        for (size_t at = 0; at < section->size; at += OL_SNAPSHOT_BLOCK_SIZE) {
            size_t left = section->size - at,
                   size = left < OL_SNAPSHOT_BLOCK_SIZE ? left : OL_SNAPSHOT_BLOCK_SIZE;
            job->blocks[job->count++] =
                (block){section->data + at, size, section->position + (int64_t)at, 0};
        }
    }
    OL_ASSERT(job->count == count);
    return OL_OK;
}

/* The checksum of a section covers the checksums of its blocks. */
static void join(const block_job *job, ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS]) {
    const block *next = job->blocks;
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) {
        sections[i].crc = 0;
        for (size_t k = 0; k < blocks_of(sections[i].size); k++) {
            uint8_t bytes[4];
            ol_store_u32(bytes, (next++)->crc);
            sections[i].crc = ol_crc32c_extend(sections[i].crc, bytes, sizeof bytes);
        }
    }
}

unsigned ol_snapshot_threads(const ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS],
                             unsigned threads) {
    size_t total = 0;
    for (int i = 0; i < OL_SNAPSHOT_SECTIONS; i++) total += sections[i].size;
    if (total < PARALLEL_SIZE_MIN || threads < 1) return 1;
    return threads > OL_PARALLEL_WORKERS_MAX ? OL_PARALLEL_WORKERS_MAX : threads;
}

static int run(block_job *job, ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS], unsigned threads,
               ol_error *error) {
    int status = cut(job, sections, error);
    if (status != OL_OK) return status;
    ol_parallel_run(ol_snapshot_threads(sections, threads), job->count, run_block, job);
    for (int i = 0; i < OL_PARALLEL_WORKERS_MAX && status == OL_OK; i++) {
        status = job->statuses[i];
        if (status != OL_OK) *error = job->errors[i];
    }
    if (status == OL_OK) join(job, sections);
    free(job->blocks);
    return status;
}

static int run_job(ol_fs *fs, ol_file *file, ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS],
                   unsigned threads, ol_error *error) {
    block_job *job = calloc(1, sizeof *job);
    if (job == NULL) return ol_fail(error, OL_NO_MEMORY, "no memory for the blocks of a snapshot");
    job->fs = fs;
    job->file = file;
    int status = run(job, sections, threads, error);
    free(job);
    return status;
}

int ol_snapshot_checksum(ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS], unsigned threads,
                         ol_error *error) {
    return run_job(NULL, NULL, sections, threads, error);
}

int ol_snapshot_read(ol_fs *fs, ol_file *file, ol_snapshot_section sections[OL_SNAPSHOT_SECTIONS],
                     unsigned threads, ol_error *error) {
    return run_job(fs, file, sections, threads, error);
}
