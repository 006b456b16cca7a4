/* tests/lib/numbers.c - see numbers.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/numbers.h"

#include <string.h>

#include "tests/lib/client.h"
#include "tests/lib/test.h"

#define ASK "GET /fetch HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
#define HEAD                                                                   \
    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-length: 17\r\n\r\n"

int
numbers_setup(void **state)
{
    return service_setup_with(
        state, "log.count=1", "write.listen=", "counter.enable=false",
        "sequence.enable=true", "sequence.reserve=2", "sequence.server_no=1",
        "http.listen=127.0.0.1:0", NULL);
}

void
numbers_ask(int fd)
{
    /* A broken connection shows when the answer is taken. */
    (void)client_try_send(fd, ASK, strlen(ASK));
}

bool
numbers_take(int fd, char line[NUMBERS_LINE], struct sequence_parts *number)
{
    const size_t head = strlen(HEAD);
    char answer[sizeof HEAD + NUMBERS_LINE];

    if (client_read(fd, answer, head + NUMBERS_LINE) < head + NUMBERS_LINE)
        return false;
    assert_memory_equal(answer, HEAD, head);
    memcpy(line, answer + head, NUMBERS_LINE);
    assert_int_equal(line[SEQUENCE_SIZE], '\n');
    assert_true(sequence_parse(line, SEQUENCE_SIZE, number));
    return true;
}

int
numbers_order(const struct sequence_parts *a, const struct sequence_parts *b)
{
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    return a->serial < b->serial ? -1 : a->serial > b->serial;
}
