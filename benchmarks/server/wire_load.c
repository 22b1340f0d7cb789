/* A client of Kafka's protocol that sends requests as fast as they are answered, and checks every
 * answer.
 *
 *   wire_load PORT CONNECTIONS DEPTH SECONDS ROUNDS FRAMES
 *
 * FRAMES is a file of pairs.  A pair is a request and its whole answer, each preceded by its size in
 * four bytes (big-endian).  Connection i sends the requests of the pairs i, i + CONNECTIONS, ...
 * repeatedly, each with a new correlation id.  On each connection, DEPTH requests are outstanding at
 * a time.  An answer must equal the answer of the pair in all bytes except the correlation id.
 *
 * The first round is a warm-up.  For each other round, the client prints a line with the seconds, the
 * number of answers, and the latencies p50, p99, p99.9 and the longest, in ns.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SIZE_BYTES = 4, CORRELATION_AT = 4, BUFFER = 1 << 20, BUCKETS = 64 * 64 };

typedef struct bytes {
    uint8_t *data;
    size_t size;
} bytes;

typedef struct pair {
    bytes request;      /* with its size */
    bytes answer;
} pair;

typedef struct connection {
    int fd;
    size_t first;       /* of its pairs, the next at + stride */
    size_t to_send;     /* the pair of the next request, and of the next answer */
    size_t to_receive;
    uint32_t sent;      /* correlation ids */
    uint32_t received;
    uint64_t *sent_at;  /* of the requests on their way, by correlation id modulo depth */
    uint8_t *out;
    size_t out_size, out_done;
    uint8_t *in;
    size_t in_size;
    bool is_blocked;    /* the server does not read */
} connection;

static pair *pairs;
static size_t pair_count, connection_count, depth;
static connection *connections;
static int poller;
static uint64_t histogram[BUCKETS];
static uint64_t answers, longest;

static void fail(const char *what) {
    fprintf(stderr, "wire_load: %s: %s\n", what, errno != 0 ? strerror(errno) : "wrong");
    exit(1);
}

static void *room(size_t size) {
    void *memory = calloc(1, size);
    if (memory == NULL) fail("memory");
    return memory;
}

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint32_t load(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store(uint8_t *p, uint32_t v) {
    p[0] = (uint8_t)(v >> 24), p[1] = (uint8_t)(v >> 16), p[2] = (uint8_t)(v >> 8), p[3] = (uint8_t)v;
}

/* ------------------------------------------------------------ latencies: 64 steps an octave */

static size_t bucket_of(uint64_t ns) {
    if (ns < 64) return ns;
    int shift = 63 - __builtin_clzll(ns) - 6;
    size_t bucket = (size_t)(shift + 1) * 64 + ((ns >> shift) & 63);
    return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

static uint64_t value_of(size_t bucket) {
    if (bucket < 64) return bucket;
    int shift = (int)(bucket / 64) - 1;
    return (64 + bucket % 64) << shift;
}

static uint64_t quantile(double share) {
    uint64_t wanted = (uint64_t)(share * (double)answers), seen = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        seen += histogram[i];
        if (seen > wanted) return value_of(i);
    }
    return longest;
}

/* ------------------------------------------------------------ the requests */

static bytes read_bytes(FILE *file, size_t head) {
    uint8_t size[SIZE_BYTES];
    if (fread(size, 1, sizeof size, file) != sizeof size) return (bytes){NULL, 0};
    bytes read = {NULL, head + load(size)};
    read.data = room(read.size);
    if (head > 0) memcpy(read.data, size, SIZE_BYTES);
    if (fread(read.data + head, 1, read.size - head, file) != read.size - head) fail("frames");
    return read;
}

static void read_pairs(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail(path);
    size_t capacity = 0;
    for (;;) {
        if (pair_count == capacity) {
            capacity = capacity == 0 ? 1024 : 2 * capacity;
            pairs = realloc(pairs, capacity * sizeof *pairs);
            if (pairs == NULL) fail("memory");
        }
        pair next = {.request = read_bytes(file, SIZE_BYTES)};
        if (next.request.data == NULL) break;
        next.answer = read_bytes(file, 0);
        if (next.answer.data == NULL) fail("frames");
        pairs[pair_count++] = next;
    }
    fclose(file);
}

static size_t after(const connection *c, size_t at) {
    at += connection_count;
    return at < pair_count ? at : c->first;
}

/* ------------------------------------------------------------ the socket */

static void wait_for(connection *c, uint32_t events) {
    struct epoll_event event = {.events = events, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &event) != 0) fail("epoll_ctl");
}

static void write_out(connection *c) {
    while (c->out_done < c->out_size) {
        ssize_t done = write(c->fd, c->out + c->out_done, c->out_size - c->out_done);
        if (done < 0 && errno == EAGAIN) {
            wait_for(c, EPOLLIN | EPOLLOUT);
            c->is_blocked = true;
            return;
        }
        if (done <= 0) fail("write");
        c->out_done += (size_t)done;
    }
    if (c->is_blocked) wait_for(c, EPOLLIN);
    c->is_blocked = false;
    c->out_size = c->out_done = 0;
}

/* Sends requests until `depth` are outstanding. */
static void ask(connection *c) {
    uint64_t time = now();
    while (c->sent - c->received < depth) {
        const bytes *request = &pairs[c->to_send].request;
        if (c->out_size + request->size > BUFFER) break;
        memcpy(c->out + c->out_size, request->data, request->size);
        store(c->out + c->out_size + SIZE_BYTES + CORRELATION_AT, c->sent);
        c->out_size += request->size;
        c->sent_at[c->sent % depth] = time;
        c->sent++;
        c->to_send = after(c, c->to_send);
    }
    write_out(c);
}

static void check(connection *c, const uint8_t *answer, size_t size, uint64_t time) {
    const bytes *expected = &pairs[c->to_receive].answer;
    if (size != expected->size || load(answer) != c->received ||
        memcmp(answer + 4, expected->data + 4, size - 4) != 0) {
        fprintf(stderr, "wire_load: request %u was answered otherwise:", c->received);
        for (size_t i = 0; i < size && i < 200; i++) fprintf(stderr, " %02x", answer[i]);
        fprintf(stderr, "\n");
        exit(1);
    }
    uint64_t took = time - c->sent_at[c->received % depth];
    histogram[bucket_of(took)]++;
    if (took > longest) longest = took;
    answers++;
    c->received++;
    c->to_receive = after(c, c->to_receive);
}

static void receive(connection *c) {
    ssize_t got = read(c->fd, c->in + c->in_size, BUFFER - c->in_size);
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) fail("the server closed a connection");
    c->in_size += (size_t)got;
    uint64_t time = now();
    size_t at = 0;
    while (c->in_size - at >= SIZE_BYTES) {
        size_t size = load(c->in + at);
        if (c->in_size - at - SIZE_BYTES < size) break;
        check(c, c->in + at + SIZE_BYTES, size, time);
        at += SIZE_BYTES + size;
    }
    memmove(c->in, c->in + at, c->in_size - at);
    c->in_size -= at;
}

static void open_connection(connection *c, size_t number, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int on = 1;
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    c->first = c->to_send = c->to_receive = number % pair_count;
    c->sent_at = room(depth * sizeof *c->sent_at);
    c->out = room(BUFFER);
    c->in = room(BUFFER);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event) != 0) fail("epoll_ctl");
}

static void run_for(double seconds) {
    struct epoll_event events[256];
    memset(histogram, 0, sizeof histogram);
    answers = longest = 0;
    uint64_t started = now(), end = started + (uint64_t)(seconds * 1e9);
    while (now() < end) {
        int count = epoll_wait(poller, events, 256, 1000);
        for (int i = 0; i < count; i++) {
            connection *c = events[i].data.ptr;
            if (events[i].events & EPOLLOUT) write_out(c);
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
            if (c->out_size == 0) ask(c);
        }
    }
    double took = (double)(now() - started) / 1e9;
    printf("%.6f %llu %llu %llu %llu %llu\n", took, (unsigned long long)answers,
           (unsigned long long)quantile(0.5), (unsigned long long)quantile(0.99),
           (unsigned long long)quantile(0.999), (unsigned long long)longest);
    fflush(stdout);
}

int main(int count, char **words) {
    if (count != 7) {
        fprintf(stderr, "usage: wire_load PORT CONNECTIONS DEPTH SECONDS ROUNDS FRAMES\n");
        return 2;
    }
    connection_count = strtoul(words[2], NULL, 10);
    depth = strtoul(words[3], NULL, 10);
    double seconds = strtod(words[4], NULL);
    int rounds = atoi(words[5]);
    read_pairs(words[6]);
    if (pair_count == 0 || connection_count == 0 || depth == 0) fail("nothing to ask");
    poller = epoll_create1(0);
    connections = room(connection_count * sizeof *connections);
    for (size_t i = 0; i < connection_count; i++) open_connection(&connections[i], i, atoi(words[1]));
    for (size_t i = 0; i < connection_count; i++) ask(&connections[i]);
    for (int i = 0; i <= rounds; i++) run_for(i == 0 ? seconds / 2 : seconds);
    return 0;
}
