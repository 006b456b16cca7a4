/* tests/lib/records.c - see records.h. */
#include "tests/lib/records.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log/inspect.h"
#include "common/log/slot.h"
#include "tests/lib/test.h"

static void
add(struct records *r, const struct message *m, uint64_t log, uint32_t slot,
    const struct slot_stamp *stamp)
{
    struct record *to;

    if ((r->count & (r->count - 1)) == 0) {
        r->at = realloc(r->at, (r->count ? 2 * r->count : 1) * sizeof *r->at);
        assert_non_null(r->at);
    }
    to = &r->at[r->count++];
    memset(to, 0, sizeof *to);
    memcpy(to->keyspace, m->keyspace, m->keyspace_size);
    memcpy(to->key, m->key, m->key_size);
    to->increment = m->increment;
    to->log = log;
    to->slot = slot;
    to->stamp = *stamp;
}

/* A full log's mode forbids reading to all but root. */
static int
open_log(int log_fd, const char *name)
{
    struct stat st;
    int fd;

    fd = openat(log_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == EACCES &&
        fstatat(log_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        fchmodat(log_fd, name, 0600, 0) == 0) {
        fd = openat(log_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        assert_int_equal(fchmodat(log_fd, name, st.st_mode & 0777, 0), 0);
    }
    if (fd < 0)
        fail_msg("open log %s: %s", name, strerror(errno));
    return fd;
}

static void
read_log(struct records *r, int log_fd, uint64_t index)
{
    char name[LOG_NAME_SIZE];
    struct inspect report;
    struct slot_stamp stamp;
    struct message m;
    struct layout l;
    uint8_t *slot;
    uint32_t i;
    int fd;

    log_name(index, name);
    fd = open_log(log_fd, name);
    assert_rc(log_inspect(fd, index, &report), 0);
    assert_rc(report.headers_rc, 0);
    r->logs++;
    r->states[report.header.state]++;
    r->damaged += report.damaged;
    assert_rc(
        layout_init(&l, report.header.keyspace_size, report.header.key_size),
        0);
    slot = malloc(l.slot_size);
    assert_non_null(slot);
    for (i = 0; i < report.end && report.header.state != LOG_EMPTY; i++) {
        assert_int_equal(
            pread(fd, slot, l.slot_size, LOG_SLOTS_AT + (off_t)i * l.slot_size),
            l.slot_size);
        if (slot_parse(&l, slot, report.header.uuid, i, report.header.epoch, &m,
                       &stamp) == 0)
            add(r, &m, index, i, &stamp);
    }
    free(slot);
    close(fd);
}

static int
compare(const void *a, const void *b)
{
    const struct record *x = a, *y = b;

    if (x->log != y->log)
        return x->log < y->log ? -1 : 1;
    return x->slot < y->slot ? -1 : x->slot > y->slot;
}

void
records_read(struct records *r, int log_fd)
{
    struct dirent *e;
    uint64_t index;
    bool lock;
    DIR *dir;
    int fd;

    *r = (struct records){0};
    fd = openat(log_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    dir = fdopendir(fd);
    assert_non_null(dir);
    while ((e = readdir(dir)))
        if (log_parse_name(e->d_name, &index, &lock) == 0 && !lock)
            read_log(r, log_fd, index);
    closedir(dir);
    if (r->count > 0)
        qsort(r->at, r->count, sizeof *r->at, compare);
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
