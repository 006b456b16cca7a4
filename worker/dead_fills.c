/* worker/dead_fills.c - see dead_fills.h. */
#include "worker/dead_fills.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/dirstream.h"
#include "common/log/inspect.h"
#include "common/log/log.h"

void
dead_fills_init(struct dead_fills *s, int log_fd)
{
    *s = (struct dead_fills){.log_fd = log_fd};
}

void
dead_fills_fini(struct dead_fills *s)
{
    free(s->logs);
    *s = (struct dead_fills){.log_fd = -1};
}

void
dead_fills_forget(struct dead_fills *s)
{
    s->count = 0;
    s->known = false;
}

/* Reads the header of a log that rules.  Both must be good: beside a bad one
 * the log may be fuller than the good one says. */
static bool
read_header(int fd, struct log_header *out)
{
    struct inspect look;

    if (inspect_headers(fd, UINT64_MAX, &look) < 0 || look.headers_rc < 0 ||
        !look.header_ok[0] || !look.header_ok[1])
        return false;
    *out = look.header;
    return true;
}

static int
open_log(const struct dead_fills *s, uint64_t index)
{
    char name[LOG_NAME_SIZE];

    log_name(index, name);
    return openat(s->log_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

/* Notes what one log says; false when it cannot be read. */
static bool
note_log(struct dead_fills *s, uint64_t index)
{
    struct log_header header;
    bool good;
    int fd;

    if (s->count == s->room) {
        const size_t room = s->room ? 2 * s->room : 64;
        struct dead_fills_log *more = realloc(s->logs, room * sizeof *more);

        if (!more)
            return false;
        s->logs = more;
        s->room = room;
    }
    fd = open_log(s, index);
    if (fd < 0)
        return false;
    good = read_header(fd, &header);
    (void)close(fd); /* only read */
    if (!good)
        return false;
    s->logs[s->count] =
        (struct dead_fills_log){.index = index,
                                .epoch = header.epoch,
                                .empty = header.state == LOG_EMPTY};
    memcpy(s->logs[s->count].uuid, header.uuid, sizeof header.uuid);
    s->count++;
    return true;
}

/* Reads all of them. */
static void
read_logs(struct dead_fills *s)
{
    const char *name;
    uint64_t index;
    bool lock;
    DIR *dir;
    int rc;

    s->known = true;
    s->all = false;
    if (dirstream_open(s->log_fd, ".", &dir) < 0)
        return;
    s->all = true;
    while ((rc = dirstream_next(dir, &name)) == 1)
        if (log_parse_name(name, &index, &lock) == 0 && !lock &&
            !note_log(s, index))
            s->all = false;
    if (rc < 0)
        s->all = false;
    (void)closedir(dir); /* only read */
}

/* Has what was read of the log be what the disk shows after a power loss: it is
 * synced, then read again. */
static bool
make_durable(const struct dead_fills *s, struct dead_fills_log *l)
{
    struct log_header header;
    int fd;

    if (l->durable)
        return true;
    fd = open_log(s, l->index);
    if (fd < 0)
        return false;
    l->durable = fdatasync(fd) == 0 && read_header(fd, &header) &&
                 header.state == LOG_EMPTY && header.epoch == l->epoch &&
                 memcmp(header.uuid, l->uuid, sizeof header.uuid) == 0;
    (void)close(fd); /* only read */
    return l->durable;
}

/* A log may be there twice, as a copy made by hand: all of them count. */
bool
dead_fills_contain(void *ctx, const struct store_mark *mark)
{
    struct dead_fills *s = ctx;
    bool found = false;
    size_t i;

    if (!s->known)
        read_logs(s);
    for (i = 0; i < s->count; i++) {
        struct dead_fills_log *l = &s->logs[i];

        if (memcmp(l->uuid, mark->uuid, sizeof l->uuid) != 0)
            continue;
        found = true;
        if (!l->empty || l->epoch < mark->epoch || !make_durable(s, l))
            return false;
    }
    return found || s->all;
}
