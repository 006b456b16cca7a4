/* common/store/postgresql/pg_sender.c - finds whether the database has lost
 * commits that it had acknowledged to this data directory.
 *
 * Each commit of a lane adds one to its number in the table `lane`.  The file
 * data/store has the directory's id and the highest number of each lane that a
 * COMMIT was acknowledged for, durably before a log is emptied:
 *
 *   at    size  field
 *      0     8  magic   "COUNTDS1"
 *      8    16  id      random, of the data directory
 *     24   128  acked   uint64 for each of 16 lanes
 *    152     4  crc32   of bytes 0 to 151
 *
 * Invariant: a database that has less than `acked` is an older copy, or a
 * standby that took over without all commits.  Nothing is merged into it then:
 * a later fill of a log would hide for ever that earlier ones are missing.
 * Several workers may share the file; they write under its flock.
 *
 * Not detected: loss of another directory's commits, which sees it itself; a
 * database that was copied, where both are used on.
 *
 * Entry points: pg_sender_check() at a connection, pg_sender_sent() before
 * COMMIT, pg_sender_acked() after it, pg_settle() before logs are emptied. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/postgresql/pg.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/state_file.h"

#define MAGIC     "COUNTDS1"
#define FILE_SIZE 156

struct pg_sender {
    uint8_t id[PG_SENDER_SIZE];
    int fd;
    _Atomic uint64_t acked[POSTGRESQL_LANES_MAX];
    uint64_t saved[POSTGRESQL_LANES_MAX]; /* of these: synced by this process */
};

/* ---- the file -------------------------------------------------------------- */

/* Takes what the file has, also of other workers.  -ENOENT: it is empty. */
static int
read_file(struct pg_sender *p)
{
    uint8_t bytes[FILE_SIZE];
    const int rc = state_read(p->fd, bytes, sizeof bytes, MAGIC);

    if (rc < 0)
        return rc;
    memcpy(p->id, bytes + 8, sizeof p->id);
    for (int i = 0; i < POSTGRESQL_LANES_MAX; i++) {
        const uint64_t acked = get_le64(bytes + 24 + 8 * (size_t)i);

        if (acked > p->acked[i])
            p->acked[i] = acked;
    }
    return 0;
}

static int
write_file(struct pg_sender *p)
{
    uint64_t acked[POSTGRESQL_LANES_MAX];
    uint8_t bytes[FILE_SIZE];
    int rc;

    memcpy(bytes + 8, p->id, sizeof p->id);
    for (int i = 0; i < POSTGRESQL_LANES_MAX; i++) {
        acked[i] = p->acked[i];
        put_le64(bytes + 24 + 8 * (size_t)i, acked[i]);
    }
    rc = state_write(p->fd, bytes, sizeof bytes, MAGIC);
    if (rc == 0 && fdatasync(p->fd) < 0)
        rc = -errno;
    if (rc == 0)
        memcpy(p->saved, acked, sizeof acked);
    return rc;
}

/* With the file's flock; makes the id of a new file. */
static int
begin_file(struct pg_sender *p, const struct datadir *d)
{
    int rc = read_file(p);

    if (rc != -ENOENT)
        return rc;
    if (getrandom(p->id, sizeof p->id, 0) != (ssize_t)sizeof p->id)
        return -EIO;
    rc = write_file(p);
    return rc == 0 && fsync(d->fd) < 0 ? -errno : rc;
}

int
pg_sender_open(struct pg_sender **out, const struct datadir *d)
{
    struct pg_sender *p = calloc(1, sizeof *p);
    int rc;

    if (!p)
        return -ENOMEM;
    p->fd = openat(d->fd, PG_SENDER_FILE,
                   O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    rc = p->fd < 0 || flock(p->fd, LOCK_EX) < 0 ? -errno : begin_file(p, d);
    if (rc == 0 && flock(p->fd, LOCK_UN) < 0)
        rc = -errno;
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "read " PG_SENDER_FILE);
        pg_sender_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

void
pg_sender_close(struct pg_sender *p)
{
    if (p && p->fd >= 0)
        (void)close(p->fd);
    free(p);
}

int
pg_settle(struct store *store)
{
    struct pg_sender *p = pg_of(store)->sender;
    bool any = false;
    int rc;

    for (int i = 0; p && i < POSTGRESQL_LANES_MAX; i++)
        any = any || p->acked[i] > p->saved[i];
    if (!any)
        return 0;
    if (flock(p->fd, LOCK_EX) < 0)
        return -errno;
    rc = read_file(p);
    if (rc == 0)
        rc = write_file(p);
    if (flock(p->fd, LOCK_UN) < 0 && rc == 0)
        rc = -errno;
    return rc;
}

/* ---- the database ---------------------------------------------------------- */

static int
set_behind(struct pg *s, uint64_t has, uint64_t acked)
{
    pg_set_trouble(s,
                   "the database is behind: it has %" PRIu64
                   " transactions of this directory, which had acknowledged "
                   "ones up to %" PRIu64 "; nothing is merged: countd store "
                   "replay applies what was archived, countd store accept goes "
                   "on without the rest",
                   has, acked);
    pg_saw(s, STATUS_M_DB_BEHIND);
    return -EHOSTDOWN;
}

/* What the database has of each lane. */
static int
read_lanes(struct pg *s, uint64_t has[POSTGRESQL_LANES_MAX])
{
    const PGresult *r;
    const int rc =
        pg_ask(s, &r, PG_LANES, "b", s->sender->id, sizeof s->sender->id);

    if (rc < 0)
        return rc;
    memset(has, 0, POSTGRESQL_LANES_MAX * sizeof *has);
    for (int i = 0; i < PQntuples(r); i++) {
        const uint64_t lane = (uint64_t)pg_bigint(r, i, 0);

        if (lane < POSTGRESQL_LANES_MAX)
            has[lane] = (uint64_t)pg_bigint(r, i, 1);
    }
    return 0;
}

int
pg_sender_check(struct pg *s)
{
    struct pg_sender *p = s->sender;
    uint64_t has[POSTGRESQL_LANES_MAX];
    bool is_behind = false;
    int rc;

    s->is_repairing = false;
    if (!p)
        return 0;
    rc = read_file(p); /* acknowledged to other workers counts, too */
    if (rc == 0)
        rc = read_lanes(s, has);
    for (int i = 0; rc == 0 && i < POSTGRESQL_LANES_MAX; i++)
        if (has[i] < p->acked[i]) {
            is_behind = true;
            rc = set_behind(s, has[i], p->acked[i]);
        }
    s->is_repairing = is_behind && s->options.repairs;
    if (is_behind && !s->is_repairing) /* an older copy may say: it has ended */
        (void)pg_ask(s, NULL, PG_RESUME, "b", p->id, sizeof p->id);
    return s->is_repairing ? 0 : rc;
}

bool
pg_sender_call(struct pg *s, struct pg_call *c)
{
    if (!s->sender || s->is_repairing)
        return false;
    pg_call(c, PG_SEND, "bi", s->sender->id, sizeof s->sender->id,
            (int32_t)s->lane);
    return true;
}

int
pg_sender_sent(struct pg *s, const PGresult *r)
{
    s->sent = (uint64_t)pg_bigint(r, 0, 0);
    return s->sent > s->sender->acked[s->lane]
               ? 0
               : set_behind(s, s->sent - 1, s->sender->acked[s->lane]);
}

void
pg_sender_acked(struct pg *s)
{
    if (s->sender && s->sent > s->sender->acked[s->lane])
        s->sender->acked[s->lane] = s->sent;
}

int
postgresql_store_accept(struct store *store, uint64_t *has, uint64_t *acked)
{
    struct pg *s = pg_of(store);
    uint64_t lanes[POSTGRESQL_LANES_MAX];
    int rc = pg_connect(s);

    *has = *acked = 0;
    if (rc < 0 || !s->is_repairing)
        return rc;
    rc = read_lanes(s, lanes);
    for (int32_t i = 0; rc == 0 && i < POSTGRESQL_LANES_MAX; i++) {
        *has += lanes[i];
        *acked += s->sender->acked[i];
        if (lanes[i] < s->sender->acked[i])
            rc = pg_ask(s, NULL, PG_ACCEPT, "biq", s->sender->id,
                        sizeof s->sender->id, i, (int64_t)s->sender->acked[i]);
    }
    return rc;
}

/* ---- up to when ------------------------------------------------------------- */

void
pg_sender_compare_clocks(struct pg *s, int64_t server_ms)
{
    s->skew = (int64_t)clock_unix_ms() - server_ms;
}

/* The clock of another directory can be ahead: what it says is lowered by how
 * much, at most, as both compare themselves with the server's. */
int
pg_sender_tick(struct pg *s, uint64_t as_of_ms)
{
    char host[HOST_NAME_MAX + 1] = "";
    uint64_t since_ms;
    const PGresult *r;
    int rc;

    (void)gethostname(host, sizeof host - 1); /* only people read it */
    since_ms = clock_ms();
    rc = pg_ask(s, &r, PG_TICK, "btqq", s->sender->id, sizeof s->sender->id,
                host, (int64_t)as_of_ms, s->skew);
    s->health[STATUS_M_DB_COMMIT_MS - STATUS_M_DB_DOWN] =
        (int64_t)(clock_ms() - since_ms);
    if (rc == 0)
        pg_sender_compare_clocks(s, pg_bigint(r, 0, 0));
    return rc;
}

int
pg_sender_is_alone(struct pg *s)
{
    const PGresult *r;
    int rc;

    if (!s->sender)
        return 0;
    rc = pg_ask(s, &r, PG_ALONE, "b", s->sender->id, sizeof s->sender->id);
    return rc < 0 ? rc : pg_bool(r, 0, 0);
}

void
postgresql_store_end(struct store *store)
{
    struct pg *s = pg_of(store);

    if (store->engine != &pg_engine || !s->sender || pg_connect(s) < 0)
        return; /* it bounds claims on */
    (void)pg_ask(s, NULL, PG_END, "b", s->sender->id, sizeof s->sender->id);
    s->tick_at_ms = 0;
}

/* All of this directory's increments that are in no log are in the snapshot if
 * the database has all transactions that data/store has; a standby may not have
 * them yet, and then has what the directory's row says. */
int
pg_sender_begin_turn(struct pg *s)
{
    struct pg_sender p = {.fd = openat(s->options.sender->fd, PG_SENDER_FILE,
                                       O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
    struct pg_call c[2];
    int rc = p.fd < 0 ? -errno : read_file(&p);

    if (p.fd >= 0)
        (void)close(p.fd);
    if (rc < 0 && rc != -ENOENT) {
        pg_set_trouble(s, "read " PG_SENDER_FILE ": %s", diag_text(rc));
        return rc;
    }
    pg_arrays(s, "q");
    for (int i = 0; i < POSTGRESQL_LANES_MAX; i++)
        pg_array_add_bigint(&s->arrays[0], (int64_t)p.acked[i]);
    pg_call(&c[0], PG_BEGIN_READ, "");
    pg_call(&c[1], PG_AS_OF, "baq", p.id, sizeof p.id, &s->arrays[0],
            (int64_t)clock_unix_ms());
    s->in_turn = true; /* unless there is an error: pg_run() */
    rc = pg_run(s, c, 2);
    if (rc < 0)
        return rc;
    s->as_of.own_ms = pg_bool(c[1].result, 0, 2)
                          ? UINT64_MAX
                          : (uint64_t)pg_bigint(c[1].result, 0, 1);
    s->as_of.all_ms = pg_bool(c[1].result, 0, 3)
                          ? UINT64_MAX
                          : (uint64_t)pg_bigint(c[1].result, 0, 0);
    return 0;
}

int
pg_as_of(struct store *store, struct store_as_of *out)
{
    struct pg *s = pg_of(store);
    int rc;

    if (s->options.writable || !s->options.sender)
        return 0;
    rc = pg_begin_turn(s);
    if (rc == 0)
        *out = s->as_of;
    return rc;
}
