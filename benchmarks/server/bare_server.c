/* A server that splits its input into frames and answers each frame with the same bytes.  It shows
 * the highest rate that a server can reach.
 *
 *   bare_server ANSWER
 *
 * ANSWER is a file with one answer, without its size.  The server prints its port, and serves on
 * loopback until it is killed.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SIZE_BYTES = 4, CORRELATION_AT = 4, BUFFER = 1 << 20 };

typedef struct client {
    int fd;
    size_t in_size;
    uint8_t in[BUFFER];
} client;

static uint8_t answer[BUFFER];
static size_t answer_size;
static uint8_t out[4 * BUFFER];

static uint32_t load(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_all(int fd, size_t size) {
    for (size_t done = 0; done < size;) {
        ssize_t more = write(fd, out + done, size - done);
        if (more > 0) done += (size_t)more;
        else usleep(10);
    }
}

static void serve(client *c) {
    ssize_t got = read(c->fd, c->in + c->in_size, BUFFER - c->in_size);
    if (got <= 0) {
        close(c->fd);
        free(c);
        return;
    }
    c->in_size += (size_t)got;
    size_t at = 0, out_size = 0;
    while (c->in_size - at >= SIZE_BYTES) {
        size_t size = load(c->in + at);
        if (c->in_size - at - SIZE_BYTES < size) break;
        if (out_size + SIZE_BYTES + answer_size > sizeof out) {
            write_all(c->fd, out_size);
            out_size = 0;
        }
        memcpy(out + out_size, answer, answer_size);
        memcpy(out + out_size + SIZE_BYTES, c->in + at + SIZE_BYTES + CORRELATION_AT, 4);
        out_size += answer_size;
        at += SIZE_BYTES + size;
    }
    memmove(c->in, c->in + at, c->in_size - at);
    c->in_size -= at;
    write_all(c->fd, out_size);
}

int main(int count, char **words) {
    FILE *file = count == 2 ? fopen(words[1], "rb") : NULL;
    if (file == NULL) return 2;
    size_t size = fread(answer + SIZE_BYTES, 1, sizeof answer - SIZE_BYTES, file);
    answer[0] = (uint8_t)(size >> 24), answer[1] = (uint8_t)(size >> 16);
    answer[2] = (uint8_t)(size >> 8), answer[3] = (uint8_t)size;
    answer_size = size + SIZE_BYTES;
    int listener = socket(AF_INET, SOCK_STREAM, 0), poller = epoll_create1(0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 4096) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0) {
        perror("bare_server");
        return 1;
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
    epoll_ctl(poller, EPOLL_CTL_ADD, listener, &event);
    for (;;) {
        int ready = epoll_wait(poller, events, 256, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.ptr != NULL) {
                serve(events[i].data.ptr);
                continue;
            }
            client *c = calloc(1, sizeof *c);
            c->fd = accept(listener, NULL, NULL);
            setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            fcntl(c->fd, F_SETFL, O_NONBLOCK);
            event.data.ptr = c;
            epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &event);
        }
    }
}
