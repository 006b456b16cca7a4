/* common/log/packed_log.c - packing a log that nobody reads just now; see
 * packed.h.
 *
 * The slots are read and checked as when the log was merged: what is archived
 * must be what was counted. */
#include "common/log/packed.h"

#include <errno.h>
#include <stdlib.h>

#define READ_SIZE ((size_t)128 << 10)

static int
pack_slots(struct packer *p, const struct log *log, const uint8_t *slots,
           uint32_t from, uint32_t count)
{
    const struct layout *l = &log->layout;
    struct slot_stamp stamps[SLOT_RUN];
    struct message messages[SLOT_RUN];
    uint32_t at, run;
    int rc;

    for (at = 0; at < count; at += run) {
        run = count - at < SLOT_RUN ? count - at : SLOT_RUN;
        rc = slot_parse_run(l, slots + (size_t)at * l->slot_size, run,
                            log->header.uuid, from + at, log->header.epoch,
                            messages, stamps);
        if (rc == 0)
            rc = packer_add(p, messages, stamps, NULL, run);
        if (rc < 0)
            return rc == -ENOENT ? -EBADMSG : rc;
    }
    return 0;
}

int
packer_write(struct packer *p, const struct log *log, int fd)
{
    const uint32_t fit = (uint32_t)(READ_SIZE / log->layout.slot_size);
    const uint32_t end = (uint32_t)log->header.count;
    uint8_t *slots = malloc(READ_SIZE);
    uint32_t from, count;
    int rc;

    if (!slots)
        return -ENOMEM;
    rc = packer_begin(p, log, fd);
    for (from = 0; rc == 0 && from < end; from += count) {
        count = end - from < fit ? end - from : fit;
        rc = log_read(log, from, count, slots);
        if (rc == 0)
            rc = pack_slots(p, log, slots, from, count);
    }
    free(slots);
    return rc == 0 ? packer_end(p) : rc;
}
