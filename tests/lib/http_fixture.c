/* tests/lib/http_fixture.c - see http_fixture.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/http_fixture.h"

#include <stdarg.h>
#include <string.h>

#include "tests/lib/client.h"
#include "tests/lib/test.h"

#define ASK "GET /fetch HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
#define HEAD                                                                   \
    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-length: 17\r\n\r\n"
#define HEARD_MAX 65536

int
http_fixture_setup(void **state)
{
    struct http_fixture *r = calloc(1, sizeof *r);

    if (!r)
        return -1;
    tmpdir_make(&r->dir);
    *state = r;
    return 0;
}

int
http_fixture_teardown(void **state)
{
    struct http_fixture *r = *state;

    daemon_fini(&r->writer);
    tmpdir_remove(&r->dir);
    free(r);
    return 0;
}

void
http_fixture_start(struct http_fixture *r, const char *const *env, ...)
{
    const char *argv[DAEMON_ARGS_MAX + 1] = {
        "-d", r->dir.path,
        "-o", "log.size=64K",
        "-o", "log.count=1",
        "-o", "write.listen=",
        "-o", "write.ack_listen=127.0.0.1:0",
        "-o", "counter.enable=false",
        "-o", "sequence.enable=true",
        "-o", "sequence.reserve=2",
        "-o", "sequence.server_no=1",
        "-o", "http.listen=127.0.0.1:0"};
    const struct daemon_how how = {.argv = argv, .env = env};
    const char *option;
    size_t n = 0;
    va_list list;

    while (argv[n])
        n++;
    va_start(list, env);
    while ((option = va_arg(list, const char *))) {
        if (n + 2 > DAEMON_ARGS_MAX)
            fail_msg("too many options");
        argv[n++] = "-o";
        argv[n++] = option;
    }
    va_end(list);
    (void)daemon_start_how(&r->writer, "countd-write", &how); /* fails itself */
    r->port = daemon_port(&r->writer, "http");
}

void
http_fixture_stop(struct http_fixture *r)
{
    assert_int_equal(daemon_stop(&r->writer), 0);
}

void
http_say(int fd, const char *text)
{
    client_send(fd, text, strlen(text));
}

void
http_hear(int fd, const char *text)
{
    static char heard[HEARD_MAX];
    const size_t size = strlen(text);

    assert_true(size < sizeof heard);
    heard[client_read(fd, heard, size)] = '\0';
    assert_string_equal(heard, text);
}

void
http_hear_end(int fd, const char *text)
{
    http_hear(fd, text);
    client_expect_end(fd);
}

void
http_ask_number(int fd)
{
    /* A broken connection shows when the answer is taken. */
    (void)client_try_send(fd, ASK, strlen(ASK));
}

bool
http_take_number(int fd, char line[HTTP_FIXTURE_LINE],
                 struct sequence_parts *number)
{
    const size_t head = strlen(HEAD);
    char answer[sizeof HEAD + HTTP_FIXTURE_LINE];

    if (client_read(fd, answer, head + HTTP_FIXTURE_LINE) <
        head + HTTP_FIXTURE_LINE)
        return false;
    assert_memory_equal(answer, HEAD, head);
    memcpy(line, answer + head, HTTP_FIXTURE_LINE);
    assert_int_equal(line[SEQUENCE_SIZE], '\n');
    assert_true(sequence_parse(line, SEQUENCE_SIZE, number));
    return true;
}

int
http_order(const struct sequence_parts *a, const struct sequence_parts *b)
{
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    return a->serial < b->serial ? -1 : a->serial > b->serial;
}
