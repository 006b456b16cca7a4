/* tests/lib/answer.c - see answer.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/test.h"

int
answer_join(struct fleet *f)
{
    return client_connect(
        daemon_port(fleet_daemon(f, FLEET_READ), "read-http"));
}

void
answer_request(int fd, const char *method, const char *target)
{
    char head[2048];
    const int n =
        snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 method, target);

    client_send(fd, head, (size_t)n);
}

void
answer_shell(struct fleet *f, const char *command)
{
    char line[2048];
    FILE *from;

    (void)snprintf(
        line, sizeof line, "U=http://127.0.0.1:%u; %s",
        (unsigned)daemon_port(fleet_daemon(f, FLEET_READ), "read-http"),
        command);
    from = popen(line, "r");
    assert_non_null(from);
    text[fread(text, 1, sizeof text - 1, from)] = '\0';
    if (pclose(from) != 0)
        fail_msg("%s: %s", line, text);
}

void
answer_read_head(int fd, struct answer *a)
{
    size_t size = 0;

    do {
        assert_true(size + 1 < sizeof a->head);
        assert_int_equal(client_read(fd, a->head + size, 1), 1);
        a->head[++size] = '\0';
    } while (size < 4 || strcmp(a->head + size - 4, "\r\n\r\n") != 0);
    assert_int_equal(sscanf(a->head, "HTTP/1.1 %d", &a->status), 1);
    a->body[0] = '\0';
}

void
answer_read(int fd, struct answer *a)
{
    const char *length;
    size_t size;

    answer_read_head(fd, a);
    length = strstr(a->head, "Content-length: ");
    assert_non_null(length);
    size = strtoul(length + 16, NULL, 10);
    assert_true(size < sizeof a->body);
    assert_int_equal(client_read(fd, a->body, size), size);
    a->body[size] = '\0';
}
