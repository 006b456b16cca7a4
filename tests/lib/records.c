/* tests/lib/records.c - see records.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/records.h"

#include <string.h>
#include <unistd.h>

#include "common/base/array.h"
#include "common/log/inspect.h"
#include "common/log/logfile.h"
#include "tests/lib/test.h"

static int
add_record(void *ctx, uint32_t slot, const struct message *m,
           const struct slot_stamp *stamp)
{
    struct records *r = ctx;
    struct record *to;

    assert_rc(array_grow(&r->at, &r->capacity, r->count + 1, sizeof *r->at), 0);
    to = &r->at[r->count++];
    *to = (struct record){.increment = m->increment,
                          .minute = m->minute,
                          .log = r->log,
                          .slot = slot,
                          .stamp = *stamp};
    memcpy(to->keyspace, m->keyspace, m->keyspace_size);
    memcpy(to->key, m->key, m->key_size);
    return 0;
}

static void
read_log(struct records *r, int log_fd, const struct logfile *f)
{
    const int fd = logfile_open(log_fd, f->name);
    struct inspect report;

    assert_true(fd >= 0);
    assert_rc(log_inspect(fd, f->index, &report), 0);
    assert_rc(report.headers_rc, 0);
    r->log = f->index;
    r->logs++;
    r->states[report.header.state]++;
    r->damaged += report.damaged;
    if (report.header.state != LOG_EMPTY)
        assert_rc(logfile_each(&(struct logfile_slots){.fd = fd,
                                                       .header = &report.header,
                                                       .end = report.end},
                               add_record, r),
                  0);
    (void)close(fd);
}

void
records_read(struct records *r, int log_fd)
{
    struct logfile_list list;

    *r = (struct records){.count = 0};
    assert_rc(logfile_list_read(&list, log_fd), 0);
    for (size_t i = 0; i < list.count; i++)
        if (list.files[i].kind == LOGFILE_LOG)
            read_log(r, log_fd, &list.files[i]);
    logfile_list_free(&list);
}

void
records_free(struct records *r)
{
    free(r->at);
    *r = (struct records){0};
}

int64_t
records_sum(const struct records *r, const char *keyspace, const char *key,
            size_t *count)
{
    int64_t sum = 0;
    size_t i, n = 0;

    for (i = 0; i < r->count; i++) {
        if (strcmp(r->at[i].keyspace, keyspace) != 0 ||
            strcmp(r->at[i].key, key) != 0)
            continue;
        sum += r->at[i].increment;
        n++;
    }
    if (count)
        *count = n;
    return sum;
}
