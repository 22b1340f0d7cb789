/* Speed and memory of ol_table, beside a bare loop that does the same memory work.
 *
 *     make -C tests/c bench_table                     every workload at 1 M and 10 M entries
 *     bench_table ENTRIES [WORKLOAD [ORDER]]          one of them
 *
 * Each line is a process of its own.  bytes = (peak RssAnon while filling - RssAnon with an empty table - bytes of distinct strings) /
 * entries.  fill: the puts of that fill, fresh memory included.  put, get: a second pass over the same keys in the same order, names
 * hashed for each row, prefetched 10 to 40 rows ahead.  bare: 32 bytes stored at the end of the same chain of places
 * (slot, pair, cell).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "table/table.h"

typedef struct bench_workload {
    const char *name;
    unsigned partitions_min, partitions_max;    /* of a pair */
    unsigned pairs_per_group;
    unsigned distance;                          /* between partition numbers */
} bench_workload;

static const bench_workload workloads[] = {
    {"dense-100", 100, 100, 1, 1},
    {"dense-12-50", 12, 50, 1, 1},
    {"dense-13", 13, 13, 1, 1},
    {"dense-100000", 100000, 100000, 1, 1},
    {"one-partition", 1, 1, 100, 1},
    {"one-partition-own-group", 1, 1, 1, 1},
    {"far-apart-30", 30, 30, 1, 7919},
    {"far-apart-1000", 1000, 1000, 1, 7919},
    {"far-apart-100000", 100000, 100000, 1, 7919},
};

typedef struct bench_key {
    uint32_t pair;
    uint32_t partition;
} bench_key;

typedef struct bench_state {
    uint32_t entry_count, pair_count;
    bench_key *keys;
    char (*groups)[24];
    uint8_t *group_sizes;
    char (*topics)[24];
    unsigned pairs_per_group;
    ol_table *table;
} bench_state;

enum { TOPICS = 1000, RING = 64, SLOT_AHEAD = 40, PAIR_AHEAD = 30, CHUNK_AHEAD = 20, CELL_AHEAD = 10 };

static uint64_t random_state = 1;
static uint64_t next_random(void) {
    uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint64_t rss_anon_bytes(void) {
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    unsigned long kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "RssAnon: %lu", &kib) == 1) break;
    }
    if (file != NULL) fclose(file);
    return (uint64_t)kib * 1024;
}

static int by_partition(const void *a, const void *b) {
    const bench_key *x = a, *y = b;
    if (x->partition != y->partition) return x->partition < y->partition ? -1 : 1;
    return x->pair < y->pair ? -1 : x->pair > y->pair;
}

static void order_keys(bench_state *bench, const char *order) {
    if (strcmp(order, "lockstep") == 0) qsort(bench->keys, bench->entry_count, sizeof(bench_key), by_partition);
    if (strcmp(order, "random") != 0) return;
    for (uint32_t i = bench->entry_count - 1; i > 0; i--) {
        uint32_t j = (uint32_t)(next_random() % (i + 1));
        bench_key swapped = bench->keys[i];
        bench->keys[i] = bench->keys[j];
        bench->keys[j] = swapped;
    }
}

static void prepare(bench_state *bench, const bench_workload *workload, uint32_t entries, const char *order) {
    bench->keys = malloc((size_t)(entries + 128) * sizeof(bench_key));
    bench->pairs_per_group = workload->pairs_per_group;
    while (bench->entry_count < entries) {
        unsigned range = workload->partitions_max - workload->partitions_min + 1;
        unsigned partitions = workload->partitions_min + (unsigned)(next_random() % range);
        for (unsigned p = 0; p < partitions; p++) {
            bench->keys[bench->entry_count++] = (bench_key){bench->pair_count, p * workload->distance};
        }
        bench->pair_count++;
    }
    uint32_t group_count = bench->pair_count / workload->pairs_per_group + 1;
    bench->groups = malloc(group_count * sizeof *bench->groups);
    bench->group_sizes = malloc(group_count);
    for (uint32_t i = 0; i < group_count; i++) {
        bench->group_sizes[i] = (uint8_t)snprintf(bench->groups[i], sizeof *bench->groups, "consumer-group-%u", i);
    }
    bench->topics = malloc(TOPICS * sizeof *bench->topics);
    for (int i = 0; i < TOPICS; i++) snprintf(bench->topics[i], sizeof *bench->topics, "topic-name-%04d", i);
    order_keys(bench, order);
}

static ol_pair_name name_of(const bench_state *bench, uint32_t pair) {
    uint32_t group_number = pair / bench->pairs_per_group;
    ol_slice group = ol_slice_of(bench->groups[group_number], bench->group_sizes[group_number]);
    ol_slice topic = ol_slice_of(bench->topics[(group_number * 7 + pair % bench->pairs_per_group) % TOPICS], 15);
    return ol_table_name(bench->table, group, ol_table_group_hash(bench->table, group), topic);
}

/* The names are the bench's own memory; a log's reader has them at hand. */
static void prefetch_name(const bench_state *bench, uint32_t pair) {
    __builtin_prefetch(bench->groups[pair / bench->pairs_per_group]);
    __builtin_prefetch(&bench->group_sizes[pair / bench->pairs_per_group]);
}

/* A row of the same pair as the one before has everything at hand but its cell, and that lies beside the last one's. */
static bool is_new_pair(const bench_state *bench, uint32_t row) {
    return row < bench->entry_count && (row == 0 || bench->keys[row].pair != bench->keys[row - 1].pair);
}

static void prefetch_row(const bench_state *bench, const ol_pair_name *ring, uint32_t *hints, uint32_t i) {
    uint32_t at = i - (SLOT_AHEAD - PAIR_AHEAD);
    if (at < bench->entry_count) {
        hints[at % RING] = is_new_pair(bench, at) ? ol_table_prefetch_pair(bench->table, &ring[at % RING]) : hints[(at - 1) % RING];
    }
    at = i - (SLOT_AHEAD - CHUNK_AHEAD);
    if (is_new_pair(bench, at)) ol_table_prefetch_chunk(bench->table, hints[at % RING], (int32_t)bench->keys[at].partition);
    at = i - (SLOT_AHEAD - CELL_AHEAD);
    if (is_new_pair(bench, at)) ol_table_prefetch_cell(bench->table, hints[at % RING], (int32_t)bench->keys[at].partition);
}

/* One pass over all keys: puts, or gets into a sum.  `peak` samples the memory when it is not NULL. */
static uint64_t pass(const bench_state *bench, bool put, bool prefetch, int64_t round, uint64_t *peak) {
    ol_pair_name ring[RING];
    uint32_t hints[RING] = {0};
    ol_error error;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < bench->entry_count + SLOT_AHEAD; i++) {
        if (i + SLOT_AHEAD < bench->entry_count) prefetch_name(bench, bench->keys[i + SLOT_AHEAD].pair);
        if (i < bench->entry_count) {
            bool same = i > 0 && bench->keys[i].pair == bench->keys[i - 1].pair;
            ring[i % RING] = same ? ring[(i - 1) % RING] : name_of(bench, bench->keys[i].pair);
            if (prefetch && !same) ol_table_prefetch_slot(bench->table, &ring[i % RING]);
        }
        if (prefetch) prefetch_row(bench, ring, hints, i);
        if (i < SLOT_AHEAD) continue;
        uint32_t at = i - SLOT_AHEAD;
        ol_position_value value = {.offset = at, .log_offset = round + at, .commit_timestamp = 1700000000000, .leader_epoch = 5,
                                   .expire_timestamp = -1};
        int32_t partition = (int32_t)bench->keys[at].partition;
        if (put) {
            if (ol_table_put_hinted(bench->table, hints[at % RING], &ring[at % RING], partition, &value, &error) != OL_OK) abort();
        } else if (ol_table_get(bench->table, &ring[at % RING], partition, &value)) {
            sum += (uint64_t)value.offset;
        }
        if (peak != NULL && at % (bench->entry_count / 64) == 0) {
            uint64_t rss = rss_anon_bytes();
            if (rss > *peak) *peak = rss;
        }
    }
    return sum;
}

typedef struct bare_cell {
    int64_t field[4];
} bare_cell;

/* The places are those of a table that knows nothing about names: a hash slot, a record of 24 bytes, a cell. */
static double bare_rate(const bench_state *bench) {
    uint32_t slot_count = 1;
    while (slot_count < bench->pair_count + bench->pair_count / 4) slot_count *= 2;
    uint32_t *slots = calloc(slot_count, sizeof *slots);
    uint32_t (*pairs)[6] = calloc(bench->pair_count, sizeof *pairs);
    bare_cell *cells = calloc(bench->entry_count, sizeof *cells);
    uint32_t *place = malloc(bench->pair_count * sizeof *place);
    uint32_t first = 0;
    for (uint32_t i = 0; i < bench->pair_count; i++) place[i] = (i * 2654435761u) & (slot_count - 1);
    for (uint32_t i = 0; i < bench->pair_count; i++) slots[place[i]] = i;
    for (uint32_t i = 0; i < bench->pair_count; i++) pairs[i][4] = first, first += bench->entry_count / bench->pair_count;
    double best = 0;
    for (int round = 0; round < 3; round++) {
        double start = now_seconds();
        for (uint32_t i = 0; i < bench->entry_count; i++) {
            const bench_key *ahead = &bench->keys[i + SLOT_AHEAD < bench->entry_count ? i + SLOT_AHEAD : i];
            __builtin_prefetch(&slots[(ahead->pair * 2654435761u) & (slot_count - 1)]);
            ahead = &bench->keys[i + PAIR_AHEAD < bench->entry_count ? i + PAIR_AHEAD : i];
            __builtin_prefetch(&pairs[slots[(ahead->pair * 2654435761u) & (slot_count - 1)]]);
            ahead = &bench->keys[i + CELL_AHEAD < bench->entry_count ? i + CELL_AHEAD : i];
            uint32_t pair = slots[(ahead->pair * 2654435761u) & (slot_count - 1)];
            __builtin_prefetch(&cells[(pairs[pair][4] + ahead->partition) % bench->entry_count], 1);
            pair = slots[(bench->keys[i].pair * 2654435761u) & (slot_count - 1)];
            cells[(pairs[pair][4] + bench->keys[i].partition) % bench->entry_count] = (bare_cell){{i, round, 1700000000000, 5}};
        }
        double rate = bench->entry_count / (now_seconds() - start);
        if (rate > best) best = rate;
    }
    free(slots);
    free(pairs);
    free(cells);
    free(place);
    return best;
}

static double best_rate(const bench_state *bench, bool put, bool prefetch, uint64_t *sum) {
    double best = 0;
    for (int round = 1; round <= 3; round++) {
        double start = now_seconds();
        *sum += pass(bench, put, prefetch, round * (int64_t)bench->entry_count, NULL);
        double rate = bench->entry_count / (now_seconds() - start);
        if (rate > best) best = rate;
    }
    return best;
}

static void run(const bench_workload *workload, uint32_t entries, const char *order) {
    bench_state bench = {0};
    ol_error error;
    prepare(&bench, workload, entries, order);
    if (ol_table_create(&bench.table, &error) != OL_OK) abort();
    uint64_t before = rss_anon_bytes(), peak = 0, sum = 0;
    double start = now_seconds();
    pass(&bench, true, true, 0, &peak);
    double filled = now_seconds();
    uint64_t after = rss_anon_bytes();
    if (after > peak) peak = after;
    ol_table_memory memory;
    ol_table_memory_usage(bench.table, &memory);
    double count = bench.entry_count;
    double put = best_rate(&bench, true, true, &sum), get = best_rate(&bench, false, true, &sum);
    double plain = best_rate(&bench, true, false, &sum);
    double digest_start = now_seconds();
    ol_hash128 digest = ol_table_digest(bench.table, false);
    double digest_rate = count / (now_seconds() - digest_start);
    printf("%-24s %-8s %8u %6.2f B  fill %5.1f  put %5.1f  get %5.1f  no-prefetch put %5.1f  bare %5.1f  digest %5.1f M/s  %016llx%016llx\n",
           workload->name, order, bench.entry_count, ((double)(peak - before) - (double)memory.string_bytes) / count,
           count / (filled - start) / 1e6, put / 1e6, get / 1e6, plain / 1e6, bare_rate(&bench) / 1e6, digest_rate / 1e6,
           (unsigned long long)digest.high, (unsigned long long)digest.low);
    printf("    bytes an entry: cells %.2f pairs %.2f hash %.2f chunks %.2f strings %.2f side %.2f; free %.2f\n",
           (double)memory.cells / count, (double)memory.pairs / count, (double)memory.pair_hash / count,
           (double)memory.chunks / count, (double)(memory.strings - memory.string_bytes) / count, (double)memory.side / count,
           (double)memory.free / count);
    fflush(stdout);
    (void)sum;
}

static void run_in_child(const bench_workload *workload, uint32_t entries, const char *order) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        run(workload, entries, order);
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) exit(1);
}

int main(int argc, char **argv) {
    static const uint32_t sizes[] = {1000000, 10000000};
    static const char *const orders[] = {"sorted", "random", "lockstep"};
    for (int size = 0; size < 2; size++) {
        uint32_t entries = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : sizes[size];
        for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
            if (argc > 2 && strcmp(argv[2], workloads[i].name) != 0) continue;
            for (int k = 0; k < 3; k++) {
                if (argc > 3 && strcmp(argv[3], orders[k]) != 0) continue;
                run_in_child(&workloads[i], entries, orders[k]);
            }
        }
        if (argc > 1) break;
    }
    return 0;
}
