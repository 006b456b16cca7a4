/* tests/lib/aside.c - see aside.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/aside.h"

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

/* For waiting_add(). */
struct records {
    const struct aside_record *at;
    size_t count;
    uint64_t received_ms;
};

static int
read_records(void *ctx, slot_visit *visit, void *visit_ctx)
{
    const struct records *r = ctx;
    const struct slot_stamp stamp = {.received_ms = r->received_ms};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < r->count; i++) {
        const struct message m = message_of(&r->at[i]);

        rc = visit(visit_ctx, (uint32_t)i, &m, &stamp);
    }
    return rc;
}

const char *
aside_put(int log_fd, bool placed, const struct log_fill *mark,
          const struct aside_record *records, size_t count,
          uint64_t received_ms)
{
    struct records all = {records, count, received_ms};
    const struct waiting_source from = {read_records, &all};
    struct archive_header h = {.epoch = mark->epoch,
                               .first_ms = mark->first_ms,
                               .last_ms = received_ms,
                               .slots = (uint32_t)count,
                               .keyspace_size = 256,
                               .key_size = 256};
    static struct waiting_new n;
    struct name_table names;
    struct waiting w;

    memcpy(h.uuid, mark->uuid, sizeof h.uuid);
    n = (struct waiting_new){.fd = -1, .placed = placed};
    assert_rc(name_table_init(&names), 0);
    assert_rc(waiting_count_records(&from, &names), 0);
    assert_rc(waiting_open(&w, log_fd, true, true, 0), 0);
    assert_rc(waiting_add(&w, &n, &h, &names, &from), 1);
    assert_rc(waiting_end(&w, &n), 0);
    waiting_close(&w);
    name_table_clear(&names);
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
