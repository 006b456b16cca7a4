/* tests/lib/aside.c - see aside.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/aside.h"

#include <stdlib.h>
#include <string.h>

#include "common/log/waiting.h"
#include "tests/lib/test.h"

static struct message
message_of(const struct aside_record *r)
{
    return (struct message){.increment = r->increment,
                            .keyspace = (const uint8_t *)r->keyspace,
                            .keyspace_size = (uint16_t)strlen(r->keyspace),
                            .key = (const uint8_t *)r->key,
                            .key_size = (uint16_t)strlen(r->key)};
}

const char *
aside_put(int log_fd, bool placed, const struct log_fill *mark,
          const struct aside_record *records, size_t count,
          uint64_t received_ms)
{
    struct archive_fill_name *names = test_memory(calloc(count, sizeof *names));
    struct archive_header h = {.epoch = mark->epoch,
                               .first_ms = mark->first_ms,
                               .last_ms = received_ms,
                               .count = count,
                               .slots = (uint32_t)count,
                               .keyspace_size = 256,
                               .key_size = 256};
    static struct waiting_new n;
    struct waiting w;

    memcpy(h.uuid, mark->uuid, sizeof h.uuid);
    for (size_t i = 0; i < count; i++) {
        const struct message m = message_of(&records[i]);

        if (i == 0 || strcmp(records[i].keyspace, records[i - 1].keyspace) != 0)
            names[h.names++] =
                (struct archive_fill_name){m.keyspace, m.keyspace_size, 0};
        names[h.names - 1].increments++;
    }
    assert_rc(waiting_open(&w, log_fd, true, true, 0), 0);
    assert_rc(waiting_begin(&w, &n, placed), 0);
    assert_rc(waiting_member(&w, &n, &h, names), 0);
    for (size_t i = 0; i < count; i++) {
        const struct message m = message_of(&records[i]);

        assert_rc(waiting_record(&w, &m, received_ms), 0);
    }
    assert_rc(waiting_member_end(&w, &n), 0);
    assert_rc(waiting_end(&w, &n), 0);
    waiting_close(&w);
    free(names);
    return n.name;
}

uint64_t
aside_count(int log_fd)
{
    struct waiting w;
    uint64_t count;

    assert_rc(waiting_open(&w, log_fd, false, true, 0), 0);
    assert_rc(waiting_list(&w), 0);
    count = w.index.part_count;
    waiting_close(&w);
    return count;
}

void
aside_drop(int log_fd, const char *keyspace)
{
    struct waiting_left_out what = {.name = (const uint8_t *)keyspace,
                                    .size = strlen(keyspace)};
    struct waiting w;

    assert_rc(waiting_open(&w, log_fd, true, true, 0), 0);
    assert_rc(waiting_leave_out(&w, &what), 0);
    waiting_close(&w);
}
