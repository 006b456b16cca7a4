/* tests/lib/filler.c - see filler.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/lib/filler.h"

/* Workers look at logs that are being made and claimed, and get in the way for
 * a moment; a writer would take another log. */
#define TRIES_MAX 100000

void
filler_open(struct filler *f, int log_fd, uint64_t index, uint32_t slots)
{
    struct layout layout;
    int rc = -ESTALE;

    assert_rc(layout_init(&layout, MESSAGE_NAME_MAX, MESSAGE_NAME_MAX), 0);
    for (unsigned tries = 0; tries < TRIES_MAX && rc != 0; tries++) {
        rc = log_create(log_fd, index, &layout, slots);
        if (rc != -EEXIST && rc != -EAGAIN)
            assert_rc(rc, 0);
        rc = log_claim(&f->log, log_fd, index, LOG_MODE_EMPTY);
        if (rc != -ESTALE && rc != -EBUSY && rc != -ENOENT)
            assert_rc(rc, 0);
    }
    assert_rc(rc, 0);
    assert_rc(log_begin(&f->log), 0);
    f->received_ms = 1700000000000;
}

void
filler_add(struct filler *f, const char *keyspace, const char *key,
           int64_t increment)
{
    const struct message m = {.increment = increment,
                              .keyspace = (const uint8_t *)keyspace,
                              .keyspace_size = (uint16_t)strlen(keyspace),
                              .key = (const uint8_t *)key,
                              .key_size = (uint16_t)strlen(key)};
    const struct slot_stamp stamp = {.received_ms = f->received_ms};
    uint8_t slot[SLOT_SIZE_MAX];

    filler_put_slot(&f->log, &m, f->log.header.count, &stamp, slot);
    assert_rc(
        log_append(&f->log, slot, 1, stamp.received_ms, stamp.received_ms), 0);
}

struct log_fill
filler_seal(struct filler *f)
{
    assert_rc(log_seal(&f->log), 0);
    assert_rc(log_release(&f->log), 0);
    return LOG_FILL_OF(&f->log.header);
}

void
filler_die(struct filler *f)
{
    log_abandon(&f->log);
}

void
filler_empty(int log_fd, uint64_t index)
{
    struct log log;

    assert_rc(log_claim(&log, log_fd, index, LOG_MODE_FULL), 0);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
}

mode_t
filler_mode(int log_fd, uint64_t index)
{
    char name[LOG_NAME_SIZE];
    struct stat st;

    log_name(index, name);
    return fstatat(log_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0
               ? st.st_mode & 07777
               : 0;
}

void
filler_put_slot(const struct log *log, const struct message *m, uint32_t number,
                const struct slot_stamp *stamp, uint8_t *slot)
{
    struct message in;

    assert_rc(message_put(&log->header.layout, m, slot), 0);
    assert_rc(message_parse(&log->header.layout, slot, &in), 0);
    in.minute = m->minute;
    slot_put_run(&(struct slot_run){&log->header, number, 1}, slot, &in, stamp);
}
