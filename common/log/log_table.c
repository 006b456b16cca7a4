/* common/log/log_table.c - see log_table.h: log_row_read(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/log_table.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/folder.h"
#include "common/base/hex.h"
#include "common/log/inspect.h"
#include "common/log/slot.h"

const struct table_column log_columns[LOG_COLUMNS] = {
    {"log", "log", false},    {"state", "state", false},
    {"mode", "mode", false},  {"used", "used", true},
    {"slots", "slots", true}, {"age", "age_ms", true},
    {"epoch", "epoch", true}, {"uuid", "uuid", false},
};

/* State and header of one file. */
struct described {
    const char *state;
    bool header_known;
    struct log_header header;
    int64_t used;      /* -1: not known */
    uint64_t first_ms; /* 0: none */
};

static const char *
state_by_mode(const struct logfile *f)
{
    if (f->locked || (f->mode != LOG_MODE_EMPTY && f->mode != LOG_MODE_FULL))
        return "owned";
    return f->mode == LOG_MODE_EMPTY ? "empty" : "full";
}

/* ---- slots --------------------------------------------------------------- */

/* Whether the slot is one of this fill; then *received_ms. */
static bool
is_used(int fd, const struct inspect *look, uint32_t number,
        uint64_t *received_ms)
{
    uint8_t slot[SLOT_SIZE_MAX];
    const struct slot_fill fill = {&look->layout, look->header.uuid,
                                   look->header.epoch};
    struct slot_stamp stamp;
    struct message m;

    if (inspect_slot(fd, &look->layout, number, slot) < 0 ||
        slot_parse(&fill, slot, number, &m, &stamp) < 0)
        return false;
    *received_ms = stamp.received_ms;
    return true;
}

/* How far an open log is filled: its slots are written in order. */
static void
search_end(int fd, const struct inspect *look, struct described *out)
{
    uint32_t used = 0, limit = look->header.slots;
    uint64_t received_ms;

    while (used < limit) {
        const uint32_t middle = used + (limit - used) / 2;

        if (is_used(fd, look, middle, &received_ms))
            used = middle + 1;
        else
            limit = middle;
    }
    out->used = used;
    if (used > 0 && is_used(fd, look, 0, &received_ms))
        out->first_ms = received_ms;
}

/* How many slots of a damaged log are valid: it may have any of them. */
static void
count_slots(int fd, struct inspect *look, struct described *out)
{
    if (inspect_slots(fd, look) < 0)
        return;
    out->used = look->valid;
    out->first_ms = look->first_ms;
}

/* ---- files --------------------------------------------------------------- */

static void
describe_header(int fd, const struct logfile *f, struct described *out)
{
    struct inspect look;

    if (inspect_headers(fd, UINT64_MAX, &look) < 0 || look.headers_rc < 0) {
        out->state =
            look.headers_rc == -EPROTONOSUPPORT ? "newer version" : "damaged";
        return;
    }
    out->header_known = true;
    out->header = look.header;
    switch (look.header.state) {
    case LOG_EMPTY:
        out->state = "empty";
        out->used = 0;
        break;
    case LOG_OPEN:
        out->state = "open";
        if (f->kind == LOGFILE_LOG)
            search_end(fd, &look, out);
        break;
    case LOG_SEALED:
        out->state = f->locked ? "merging" : "full";
        out->used = (int64_t)look.header.count;
        out->first_ms = look.header.first_ms;
        break;
    }
    if (f->kind != LOGFILE_LOG)
        count_slots(fd, &look, out);
}

static void
describe_file(int log_fd, const struct logfile *f, struct described *out)
{
    int fd;

    *out = (struct described){.state = state_by_mode(f), .used = -1};
    if (f->mode == LOG_MODE_FULL)
        out->first_ms = f->mtime_ms;
    if (f->kind == LOGFILE_LOCK) {
        out->state = "lock only";
        return;
    }
    if (f->kind == LOGFILE_OTHER) {
        out->state = "not countd's";
        return;
    }
    fd = folder_open_file(log_fd, f->name);
    if (fd < 0)
        return;
    describe_header(fd, f, out);
    if (f->kind != LOGFILE_LOG)
        out->state = f->kind == LOGFILE_BAD ? "quarantined" : "salvaged";
    (void)close(fd);
}

void
log_row_read(int log_fd, const struct logfile *f, uint64_t now_ms,
             struct log_row *out)
{
    struct described l;

    describe_file(log_fd, f, &l);
    (void)snprintf(out->mode, sizeof out->mode, "%04o", f->mode);
    *hex_put(out->uuid, l.header.uuid, sizeof l.header.uuid) = '\0';
    out->cells[0] = cell_name(f->name, strlen(f->name));
    out->cells[1] = cell_text(l.state);
    out->cells[2] = cell_text(out->mode);
    out->cells[3] = l.used >= 0 ? cell_number(l.used) : cell_none();
    out->cells[4] = l.header_known ? cell_number(l.header.slots) : cell_none();
    out->cells[LOG_AGE] = l.first_ms > 0
                              ? cell_number((int64_t)(now_ms - l.first_ms))
                              : cell_none();
    out->cells[6] =
        l.header_known ? cell_number((int64_t)l.header.epoch) : cell_none();
    out->cells[LOG_UUID] = l.header_known ? cell_text(out->uuid) : cell_none();
}
