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

/* ---- slots --------------------------------------------------------------- */

/* Whether the slot is one of this fill; then *received_ms. */
static bool
is_used(int fd, const struct inspect *look, uint32_t number,
        uint64_t *received_ms)
{
    uint8_t slot[SLOT_SIZE_MAX];
    struct slot_stamp stamp;
    struct message m;

    if (inspect_slot(fd, &look->header.layout, number, slot) < 0 ||
        slot_parse(&look->header, slot, number, &m, &stamp) < 0)
        return false;
    *received_ms = stamp.received_ms;
    return true;
}

/* How many slots of an open log are used: they are written in order. */
static uint32_t
search_end(int fd, const struct inspect *look)
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
    return used;
}

/* How many slots are used, if that can be known, and when the first message
 * came, if there is one.  A file that is set aside may have any valid slots. */
static void
read_use(int fd, const struct logfile *f, struct inspect *look, int64_t *used,
         uint64_t *first_ms)
{
    if (f->kind != LOGFILE_LOG) {
        if (inspect_slots(fd, look) < 0)
            return;
        *used = look->valid;
        *first_ms = look->first_ms;
    } else if (look->header.state == LOG_OPEN) {
        *used = search_end(fd, look);
        if (*used > 0)
            (void)is_used(fd, look, 0, first_ms); /* it was just now */
    } else if (look->header.state == LOG_SEALED) {
        *used = look->header.count;
        *first_ms = look->header.first_ms;
    } else {
        *used = 0;
    }
}

/* ---- rows ---------------------------------------------------------------- */

static const char *
state_by_mode(const struct logfile *f)
{
    if (f->locked || (f->mode != LOG_MODE_EMPTY && f->mode != LOG_MODE_FULL))
        return "owned";
    return f->mode == LOG_MODE_EMPTY ? "empty" : "full";
}

/* The state of a file, and of its headers if they could be read. */
static const char *
state_of(const struct logfile *f, bool is_read, const struct inspect *look)
{
    static const char *const others[] = {[LOGFILE_LOCK] = "lock only",
                                         [LOGFILE_BAD] = "quarantined",
                                         [LOGFILE_SALVAGED] = "salvaged",
                                         [LOGFILE_OTHER] = "not countd's"};

    if (f->kind != LOGFILE_LOG)
        return others[f->kind];
    if (!is_read)
        return state_by_mode(f);
    if (look->headers_rc < 0)
        return look->headers_rc == -EPROTONOSUPPORT ? "newer version"
                                                    : "damaged";
    return look->header.state == LOG_EMPTY  ? "empty"
           : look->header.state == LOG_OPEN ? "open"
           : f->locked                      ? "merging"
                                            : "full";
}

void
log_row_read(int log_fd, const struct logfile *f, uint64_t now_ms,
             struct log_row *out)
{
    const bool is_file = f->kind != LOGFILE_LOCK && f->kind != LOGFILE_OTHER;
    const int fd = is_file ? folder_open_file(log_fd, f->name) : -1;
    uint64_t first_ms = f->mode == LOG_MODE_FULL ? f->mtime_ms : 0;
    struct inspect look = {.headers_rc = -EBADMSG};
    int64_t used = -1;
    bool known;

    if (fd >= 0 && inspect_headers(fd, UINT64_MAX, &look) < 0)
        look.headers_rc = -EBADMSG;
    known = look.headers_rc == 0;
    if (known)
        read_use(fd, f, &look, &used, &first_ms);
    if (fd >= 0)
        (void)close(fd);
    (void)snprintf(out->mode, sizeof out->mode, "%04o", f->mode);
    *hex_put(out->uuid, look.header.uuid, sizeof look.header.uuid) = '\0';
    out->cells[0] = cell_name(f->name, strlen(f->name));
    out->cells[1] = cell_text(state_of(f, fd >= 0, &look));
    out->cells[2] = cell_text(out->mode);
    out->cells[3] = used >= 0 ? cell_number(used) : cell_none();
    out->cells[4] = known ? cell_number(look.header.slots) : cell_none();
    out->cells[LOG_AGE] =
        first_ms > 0 ? cell_number((int64_t)(now_ms - first_ms)) : cell_none();
    out->cells[6] =
        known ? cell_number((int64_t)look.header.epoch) : cell_none();
    out->cells[LOG_UUID] = known ? cell_text(out->uuid) : cell_none();
}
