/* writer/logs.c - see logs.h.
 *
 * The life of a log here: the file thread claims an empty one (or creates
 * it) and makes it OPEN, durably: the spare.  The loop makes it current and
 * appends.  Full or old, it is retired: DIRTY until a sync starts that covers
 * it, SYNCING until that is done, SEALING while the file thread seals and
 * releases it.  Any error of the disk on a log that holds messages ends the
 * process: `failed`, no reply, and recovery decides from what the disk says.
 */
#include "writer/logs.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/log/slot.h"

#define RETRY_MS      250   /* look again for a log when there is none */
#define RACED_MS      2     /* somebody held the log we wanted for a moment */
#define RECOVER_MS    10000 /* look for logs of dead owners */
#define SYNC_STEP     (UINT64_C(2) << 20) /* bytes */
#define SPARE_WAIT_MS 1000 /* rotate without a spare after this long */
#define BRIEF_NS      UINT64_C(1000000)
#define QUICK_RUNS    8 /* quick syncs in a row before one in the loop */

static void want_spare(struct logs *l);
static void flush(struct logs *l);

static void
fail(struct logs *l, int error, const char *what, uint64_t index)
{
    if (l->failed)
        return;
    l->failed = true;
    diag_errno(DIAG_ERROR, error, "%s log=%llu", what,
               (unsigned long long)index);
    l->events.failed(l->events.ctx);
}

/* Arming fails only above the loop's limit, which our few never reach. */
static void
arm(struct logs *l, struct loop_timer *timer, uint64_t after_ms)
{
    int rc = loop_arm(l->loop, timer, loop_now_ms(l->loop) + after_ms + 1);

    assert(rc == 0);
}

static bool
is_idle(const struct logs *l)
{
    size_t i;

    for (i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state != RETIRED_FREE)
            return false;
    return !l->has_current && l->spare_count == 0 && !l->making &&
           !l->syncing && !l->recovering;
}

/* ---- retiring and sealing ---------------------------------------------- */

static struct retired *
free_place(struct logs *l)
{
    size_t i;

    for (i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state == RETIRED_FREE)
            return &l->retired[i];
    return NULL;
}

static void
seal_run(struct io_job *job)
{
    struct retired *r = LOOP_OWNER(job, struct retired, job);

    r->rc = log_seal(&r->log);
    if (r->rc < 0)
        log_abandon(&r->log);
    else
        r->rc = log_release(&r->log);
}

static void
seal(struct logs *l, struct retired *r)
{
    r->state = RETIRED_SEALING;
    io_push(&l->file_io, &r->job);
}

/* Seals a log that no sync needs to cover: nothing is in it. */
static void
retire_unused(struct logs *l, const struct log *log)
{
    struct retired *r = free_place(l);

    assert(r);
    assert(log->count == 0);
    r->log = *log;
    seal(l, r);
}

/* Takes the current log out of use; the next sync covers it. */
static void
retire(struct logs *l)
{
    struct retired *r = free_place(l);

    assert(r);
    assert(l->has_current);
    assert(l->staged == 0);
    assert(l->current.count > 0);
    r->log = l->current;
    r->synced_slots = l->synced_slots;
    r->state = RETIRED_DIRTY;
    l->has_current = false;
    l->dirty = false;
    l->rotating = false;
    loop_disarm(l->loop, &l->rotate_timer);
    loop_disarm(l->loop, &l->overdue_timer);
}

static void
use_spare(struct logs *l)
{
    assert(l->spare_count > 0);
    assert(!l->has_current);
    l->current = l->spares[0];
    l->has_current = true;
    l->spare_count--;
    memmove(l->spares, l->spares + 1, l->spare_count * sizeof l->spares[0]);
    l->fill++;
    l->synced_slots = 0;
    l->dirty = false;
    want_spare(l);
}

static void
rotate_now(struct logs *l)
{
    flush(l);
    if (l->failed || !free_place(l))
        return;
    retire(l);
    if (l->spare_count > 0)
        use_spare(l);
    else
        want_spare(l);
}

void
logs_rotate(struct logs *l)
{
    if (l->failed || !l->has_current || l->current.count + l->staged == 0)
        return;
    if (l->spare_count > 0 && free_place(l)) {
        rotate_now(l);
        return;
    }
    /* A spare is usually milliseconds away, and without one readers of
     * sockets have nowhere to put what comes. */
    l->rotating = true;
    if (!l->overdue_timer.deadline_ms)
        arm(l, &l->overdue_timer, SPARE_WAIT_MS);
}

static void
rotate_due(struct loop_timer *timer)
{
    logs_rotate(LOOP_OWNER(timer, struct logs, rotate_timer));
}

static void
overdue_due(struct loop_timer *timer)
{
    struct logs *l = LOOP_OWNER(timer, struct logs, overdue_timer);

    if (l->rotating && l->has_current)
        rotate_now(l);
}

static void
finish_some(struct logs *l)
{
    if (!l->finishing || l->failed)
        return;
    while (l->spare_count > 0 && free_place(l))
        retire_unused(l, &l->spares[--l->spare_count]);
    if (l->has_current && free_place(l)) {
        if (l->current.count > 0) {
            retire(l);
        } else {
            retire_unused(l, &l->current);
            l->has_current = false;
        }
    }
    if (is_idle(l) && !l->finished) {
        l->finished = true;
        l->events.finished(l->events.ctx);
    }
}

void
logs_finish(struct logs *l)
{
    flush(l);
    l->finishing = true;
    loop_disarm(l->loop, &l->rotate_timer);
    loop_disarm(l->loop, &l->overdue_timer);
    loop_disarm(l->loop, &l->retry_timer);
    loop_disarm(l->loop, &l->recover_timer);
    finish_some(l);
}

static void
tell_ready(struct logs *l)
{
    if (!l->blocked)
        return;
    l->blocked = false;
    l->events.ready(l->events.ctx);
}

/* The job's index says where it sits, and so which logs it belongs to. */
static struct logs *
owner_of(struct retired *r)
{
    return LOOP_OWNER(r - r->place, struct logs, retired);
}

static void
seal_done(struct io_job *job)
{
    struct retired *r = LOOP_OWNER(job, struct retired, job);
    struct logs *l = owner_of(r);

    r->state = RETIRED_FREE;
    if (r->rc < 0) {
        fail(l, r->rc, "seal", r->log.header.index);
        return;
    }
    if (r->log.count > 0) {
        l->figures.sealed++;
        if (l->handed)
            l->handed(l->events.ctx, &r->log);
    }
    if (l->rotating)
        logs_rotate(l);
    tell_ready(l);
    finish_some(l);
}

/* ---- syncing ----------------------------------------------------------- */

/* Much at once would keep the disk busy for so long that the headers of other
 * logs wait for it, and with them those who write to the next one. */
static int
sync_item(const struct sync_item *item)
{
    const unsigned how = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                         SYNC_FILE_RANGE_WAIT_AFTER;
    uint64_t at;

    for (at = item->at; item->end - at > SYNC_STEP; at += SYNC_STEP)
        if (sync_file_range(item->fd, (off_t)at, SYNC_STEP, how) < 0)
            return -errno;
    return fdatasync(item->fd) < 0 ? -errno : 0;
}

/* In the I/O thread. */
static int
sync_logs(void *ctx)
{
    struct log_sync *s = &((struct logs *)ctx)->sync;
    const uint64_t begin_ns = clock_ns();
    size_t i;

    s->rc = 0;
    for (i = 0; i < s->count && s->rc == 0; i++) {
        s->rc = sync_item(&s->items[i]);
        s->failed = s->items[i].index;
    }
    s->took_ns = clock_ns() - begin_ns;
    return s->rc;
}

static bool
is_due(const void *ctx)
{
    const struct logs *l = ctx;
    size_t i;

    if (l->syncing || l->failed)
        return false;
    if (l->dirty &&
        (l->sync_due || l->config->log_sync_ms == CONFIG_SYNC_ALWAYS))
        return true;
    for (i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state == RETIRED_DIRTY)
            return true;
    return false;
}

static void
add_to_sync(struct log_sync *s, const struct log *log, uint32_t synced_slots)
{
    s->items[s->count++] = (struct sync_item){
        .fd = log->fd,
        .index = log->header.index,
        .at = LOG_SLOTS_AT + (uint64_t)synced_slots * log->header.slot_size,
        .end = LOG_SLOTS_AT + (uint64_t)log->count * log->header.slot_size};
}

/* Fills in what is to be synced.  False when that is nothing, or one is in
 * flight. */
static bool
begin_sync(void *ctx)
{
    struct logs *l = ctx;
    struct log_sync *s = &l->sync;
    size_t i;

    flush(l);
    if (l->syncing || l->failed)
        return false;
    s->count = 0;
    for (i = 0; i < LOGS_RETIRED; i++) {
        if (l->retired[i].state != RETIRED_DIRTY)
            continue;
        l->retired[i].state = RETIRED_SYNCING;
        add_to_sync(s, &l->retired[i].log, l->retired[i].synced_slots);
    }
    if (l->has_current && l->dirty) {
        s->fill = l->fill;
        s->slots = l->current.count;
        add_to_sync(s, &l->current, l->synced_slots);
    }
    l->dirty = false;
    l->sync_due = false;
    loop_disarm(l->loop, &l->sync_timer);
    if (s->count == 0)
        return false;
    l->syncing = true;
    return true;
}

/* False when it failed. */
static bool
end_sync(void *ctx, int rc)
{
    struct logs *l = ctx;
    size_t i;

    l->syncing = false;
    if (l->failed)
        return false;
    if (rc < 0) {
        fail(l, rc, "sync", l->sync.failed);
        return false;
    }
    l->figures.sync_ns += l->sync.took_ns;
    if (l->sync.took_ns > l->brief_ns)
        l->quick_runs = 0;
    else if (l->quick_runs < QUICK_RUNS)
        l->quick_runs++;
    if (l->has_current && l->sync.fill == l->fill)
        l->synced_slots = l->sync.slots;
    for (i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state == RETIRED_SYNCING)
            seal(l, &l->retired[i]);
    finish_some(l);
    return true;
}

static bool
is_brief(const void *ctx)
{
    const struct logs *l = ctx;
    size_t i;

    if (!l->has_current || l->syncing || l->failed || l->finishing ||
        l->making || l->recovering || l->quick_runs < QUICK_RUNS ||
        l->current.count + l->staged - l->synced_slots > LOGS_BRIEF)
        return false;
    for (i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state != RETIRED_FREE)
            return false;
    return true;
}

static void
sync_due(struct loop_timer *timer)
{
    LOOP_OWNER(timer, struct logs, sync_timer)->sync_due = true;
}

/* ---- the spare --------------------------------------------------------- */

/* Whether one more log may be made.  Logs are never removed and hold what the
 * workers have still to write, so above log.count each leaves room for its
 * merge: else a writer that is ahead of the workers could fill the disk for
 * good, with every log full and no room to merge one.  Long names take as much
 * in a keyspace file, which has them in two orders, as in a log, and LMDB
 * writes what changes to new pages before it gives the old ones back: twice
 * what is in the logs. */
static bool
has_disk_space(const struct spare_job *s)
{
    const struct logdir *dir = s->dir;
    uint64_t need = LOG_SLOTS_AT + (uint64_t)dir->slots * dir->layout.slot_size;
    struct statvfs fs;

    if (fstatvfs(dir->fd, &fs) < 0)
        return true; /* creating will say what is wrong */
    if (dir->count >= s->log_count)
        need *= 2 * (dir->count + 1);
    return (uint64_t)fs.f_bavail * fs.f_frsize >= need;
}

/* Claims the lowest empty log: the fewer are used, the more of them stay in
 * the caches. */
static int
claim(struct spare_job *s)
{
    uint64_t hint = 0;

    return logdir_claim(s->dir, LOG_MODE_EMPTY, &hint, &s->log);
}

/* Claims an empty log; recovers, then creates, when there is none. */
static int
claim_or_create(struct spare_job *s)
{
    uint64_t index;
    int rc;

    rc = claim(s);
    if (rc != -EAGAIN || !s->may_create)
        return rc;
    if (logdir_recover(s->dir) > 0) {
        rc = claim(s);
        if (rc != -EAGAIN)
            return rc;
    }
    if (s->dir->count < s->log_max && !has_disk_space(s))
        return -ENOSPC;
    rc = logdir_create(s->dir, s->log_max, &index);
    if (rc < 0)
        return rc;
    return claim(s);
}

static void
make_run(struct io_job *job)
{
    struct spare_job *s = LOOP_OWNER(job, struct spare_job, job);

    s->began = false;
    s->rc = claim_or_create(s);
    if (s->rc < 0)
        return;
    if (s->log.layout.slot_size != s->dir->layout.slot_size ||
        s->log.layout.key_at != s->dir->layout.key_at) {
        /* Somebody put it there while we run; the next start refuses it. */
        (void)log_release(&s->log); /* recovery tidies what this leaves */
        s->rc = -EPROTO;
        return;
    }
    s->began = true;
    s->rc = log_begin(&s->log);
    if (s->rc < 0)
        log_abandon(&s->log);
}

static void
want_spare(struct logs *l)
{
    if (l->spare_count == LOGS_SPARES || l->making || l->finishing || l->failed)
        return;
    loop_disarm(l->loop, &l->retry_timer);
    l->making = true;
    l->make.may_create = l->spare_count == 0;
    io_push(&l->file_io, &l->make.job);
}

static void
make_failed(struct logs *l)
{
    static struct diag_repeat repeat;
    const char *what = "cannot get an empty log";

    if (l->make.began) {
        fail(l, l->make.rc, "begin", l->make.log.header.index);
        return;
    }
    /* One more was only wanted if there happened to be one. */
    if (l->make.rc == -EAGAIN && !l->make.may_create) {
        if (l->spare_count == 0)
            want_spare(l); /* but then the others were used up */
        return;
    }
    if (!l->finishing)
        arm(l, &l->retry_timer, l->make.rc == -EAGAIN ? RACED_MS : RETRY_MS);
    /* A worker that looked at the very log was faster; nothing is wrong. */
    if (l->make.rc == -EAGAIN)
        return;
    /* At log.max nothing is wrong until the log in use is full. */
    if (l->make.rc == -EMFILE && !l->blocked)
        return;
    l->warned = true;
    if (l->make.rc == -EMFILE)
        diag_repeating(&repeat, DIAG_WARNING,
                       "%s: all log.max=%llu are full or in use; not reading "
                       "from clients until a worker empties one",
                       what, (unsigned long long)l->config->log_max);
    else
        diag_repeating(&repeat, DIAG_WARNING, "%s: %s; %s", what,
                       strerror(-l->make.rc),
                       l->blocked ? "not reading from clients until there is"
                                  : "trying again");
}

static void
make_done(struct io_job *job)
{
    struct logs *l = LOOP_OWNER(job, struct logs, make.job);

    l->making = false;
    if (l->failed)
        return;
    if (l->make.rc < 0) {
        make_failed(l);
        finish_some(l);
        return;
    }
    l->spares[l->spare_count++] = l->make.log;
    if (l->warned) {
        l->warned = false;
        diag(DIAG_INFO, "there is an empty log again log=%llu",
             (unsigned long long)l->make.log.header.index);
    }
    if (l->finishing) {
        finish_some(l);
        return;
    }
    if (!l->has_current)
        use_spare(l);
    else if (l->rotating)
        logs_rotate(l);
    want_spare(l);
    tell_ready(l);
}

static void
retry_due(struct loop_timer *timer)
{
    want_spare(LOOP_OWNER(timer, struct logs, retry_timer));
}

/* ---- dead owners ------------------------------------------------------- */

static void
recover_run(struct io_job *job)
{
    /* What it meets goes to diag; the next round looks again. */
    (void)logdir_recover(LOOP_OWNER(job, struct recover_job, job)->dir);
}

static void
recover_done(struct io_job *job)
{
    struct logs *l = LOOP_OWNER(job, struct logs, recover.job);

    l->recovering = false;
    if (!l->finishing && !l->failed)
        arm(l, &l->recover_timer, RECOVER_MS);
    finish_some(l);
}

static void
recover_due(struct loop_timer *timer)
{
    struct logs *l = LOOP_OWNER(timer, struct logs, recover_timer);

    l->recovering = true;
    io_push(&l->file_io, &l->recover.job);
}

/* ---- filling ----------------------------------------------------------- */

/* Within a log received_ms never goes back: slot 0 tells the oldest.  Stamping
 * on with the time reached would make increments look as if they came later
 * than they did, and for as long as the clock was set back; so the log is
 * handed on, and the next one begins with the time there is now.  Without a
 * spare it goes on with the time reached, and is in the future for readers. */
static void
heed_clock(struct logs *l)
{
    if (l->has_current && l->current.count + l->staged > 0 &&
        loop_unix_ms(l->loop) < l->last_ms)
        logs_rotate(l);
}

/* Makes sure that there is a log with a free slot. */
static bool
make_room(struct logs *l)
{
    if (l->failed || l->finishing)
        return false;
    heed_clock(l);
    if (l->has_current &&
        l->current.count + l->staged == l->current.header.slots)
        rotate_now(l);
    if (l->failed || !l->has_current)
        return false;
    return l->current.count + l->staged < l->current.header.slots;
}

uint32_t
logs_room(struct logs *l)
{
    if (!make_room(l)) {
        if (!l->blocked)
            l->figures.pushed_back++;
        l->blocked = true;
        if (!l->retry_timer.deadline_ms)
            want_spare(l);
        return 0;
    }
    return l->current.header.slots - l->current.count - l->staged;
}

/* What happens once per log and once per flush. */
static void
first_put(struct logs *l)
{
    const uint64_t now_ms = loop_unix_ms(l->loop);

    if (now_ms > l->last_ms || l->current.count == 0)
        l->last_ms = now_ms;
    l->staged_first_ms = l->last_ms;
    if (l->current.count == 0)
        arm(l, &l->rotate_timer, l->config->log_rotate_after_ms);
    if (!l->dirty && !l->sync_due && !l->sync_timer.deadline_ms &&
        l->config->log_sync_ms != CONFIG_SYNC_NEVER &&
        l->config->log_sync_ms != CONFIG_SYNC_ALWAYS)
        arm(l, &l->sync_timer, l->config->log_sync_ms);
}

/* What of a name is behind its first word, and clears what an earlier one left
 * behind it. */
static void
put_rest(uint8_t *field, const uint8_t *name, size_t size, size_t had)
{
    size_t i;

    for (i = LOGS_WORD; i < size; i += LOGS_WORD)
        memcpy(field + i, name + i, LOGS_WORD);
    for (; i < had; i += LOGS_WORD)
        memset(field + i, 0, LOGS_WORD);
}

/* Copies a name by whole words; most are one.  What is read behind the name is
 * zero, or lies behind the slot's field in the slot as well, or behind the
 * slot, where it is put right next. */
static inline void
put_name(uint8_t *field, const uint8_t *name, size_t size, size_t had)
{
    memcpy(field, name, LOGS_WORD);
    if (size > LOGS_WORD || had > LOGS_WORD)
        put_rest(field, name, size, had);
}

/* Nearly all of a message is zero, and so is that part of the slot already:
 * only its names are copied. */
static void
put_message(struct logs *l, uint8_t *slot, const uint8_t *bytes,
            const struct message *m)
{
    struct staged *names = &l->names[l->staged];

    memcpy(slot, bytes, 8);
    put_name(slot + 8, m->keyspace, m->keyspace_size, names->keyspace_size);
    put_name(slot + l->layout.key_at, m->key, m->key_size, names->key_size);
    names->keyspace_size = m->keyspace_size;
    names->key_size = m->key_size;
}

void
logs_put(struct logs *l, const uint8_t *bytes, const struct message *m)
{
    if (l->staged == LOGS_STAGE)
        flush(l);
    if (l->failed)
        return; /* nothing of this turn will be acknowledged */
    if (l->staged == 0)
        first_put(l);
    assert(l->current.count + l->staged < l->current.header.slots);
    put_message(l, l->slots + (size_t)l->staged * l->layout.slot_size, bytes,
                m);
    l->staged++;
}

/* Stamps the slots of the stage, from `first` on, up to SLOT_RUN of them. */
static uint32_t
stamp_run(struct logs *l, uint32_t first, const struct slot_stamp *stamp)
{
    const uint32_t left = l->staged - first;
    const uint32_t count = left < SLOT_RUN ? left : SLOT_RUN;
    uint8_t *slots = l->slots + (size_t)first * l->layout.slot_size;
    const uint8_t *slot = slots;
    struct message m[SLOT_RUN];
    uint32_t i;

    for (i = 0; i < count; i++, slot += l->layout.slot_size)
        m[i] =
            (struct message){.keyspace = slot + 8,
                             .key = slot + l->layout.key_at,
                             .keyspace_size = l->names[first + i].keyspace_size,
                             .key_size = l->names[first + i].key_size};
    slot_put_run(&l->layout, slots, m, count, l->current.header.uuid,
                 l->current.count + first, stamp);
    return count;
}

static void
stamp(struct logs *l)
{
    const struct slot_stamp s = {.epoch = l->current.header.epoch,
                                 .received_ms = l->last_ms,
                                 .synced = l->synced_slots};
    uint32_t at = 0;

    while (at < l->staged)
        at += stamp_run(l, at, &s);
}

static void
flush(struct logs *l)
{
    int rc;

    if (l->staged == 0 || l->failed)
        return;
    assert(l->has_current);
    stamp(l);
    rc = log_append(&l->current, l->slots, l->staged, l->staged_first_ms,
                    l->last_ms);
    if (rc < 0) {
        fail(l, rc, "append", l->current.header.index);
        return;
    }
    l->figures.appended += l->staged;
    l->figures.flushes++;
    l->staged = 0;
    l->dirty = true;
}

static void
flush_logs(void *ctx)
{
    flush(ctx);
}

const struct commit_file logs_file = {.flush = flush_logs,
                                      .is_due = is_due,
                                      .is_brief = is_brief,
                                      .begin = begin_sync,
                                      .sync = sync_logs,
                                      .end = end_sync};

/* ---- open and close ---------------------------------------------------- */

static int
take_memory(struct logs *l)
{
    l->slots = calloc(1, (size_t)LOGS_STAGE * l->layout.slot_size + LOGS_WORD);
    l->names = calloc(LOGS_STAGE, sizeof *l->names);
    return l->slots && l->names ? 0 : -ENOMEM;
}

static void
set_up_jobs(struct logs *l)
{
    size_t i;

    for (i = 0; i < LOGS_RETIRED; i++) {
        l->retired[i].job = (struct io_job){seal_run, seal_done, NULL};
        l->retired[i].state = RETIRED_FREE;
        l->retired[i].place = i;
    }
    l->make.job = (struct io_job){make_run, make_done, NULL};
    l->make.dir = &l->dir;
    l->make.log_count = l->config->log_count;
    l->make.log_max = l->config->log_max;
    l->recover.job = (struct io_job){recover_run, recover_done, NULL};
    l->recover.dir = &l->dir;
    l->rotate_timer = (struct loop_timer){.slot = -1, .due = rotate_due};
    l->overdue_timer = (struct loop_timer){.slot = -1, .due = overdue_due};
    l->sync_timer = (struct loop_timer){.slot = -1, .due = sync_due};
    l->retry_timer = (struct loop_timer){.slot = -1, .due = retry_due};
    l->recover_timer = (struct loop_timer){.slot = -1, .due = recover_due};
}

static int
check_sizes(struct logs *l)
{
    struct layout found;
    int rc;

    rc = logdir_check_sizes(&l->dir, &found);
    if (rc == -EPROTO)
        diag(DIAG_ERROR,
             "the logs in data_dir=%s are of other message sizes: set "
             "message.keyspace_size=%u and message.key_size=%u, or use "
             "another data_dir",
             l->config->data_dir, (unsigned)found.keyspace_size,
             (unsigned)found.key_size);
    else if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "read the logs in data_dir=%s",
                   l->config->data_dir);
    return rc;
}

static int
open_directory(struct logs *l, const struct datadir *d)
{
    int rc;

    rc = logdir_open(&l->dir, d->log_fd, &l->layout, l->config->log_size);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "open the logs in data_dir=%s",
                   l->config->data_dir);
        return rc;
    }
    rc = logdir_recover(&l->dir);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "recover the logs in data_dir=%s",
                   l->config->data_dir);
        logdir_close(&l->dir);
        return rc;
    }
    return 0;
}

/* Creates what is missing up to log.count. */
static void
create_logs(struct logs *l)
{
    uint64_t index;
    int rc = 0;

    while (rc == 0 && l->dir.count < l->config->log_count) {
        rc = logdir_create(&l->dir, l->config->log_max, &index);
        if (rc == 0)
            rc = logdir_scan(&l->dir);
    }
    if (rc < 0 && rc != -EMFILE)
        diag_errno(DIAG_WARNING, rc,
                   "cannot create log.count=%llu logs; serving with %zu",
                   (unsigned long long)l->config->log_count, l->dir.count);
}

/* The first log; the spare comes from the thread. */
static int
begin_first(struct logs *l)
{
    l->make.may_create = true;
    make_run(&l->make.job);
    if (l->make.rc == 0) {
        l->current = l->make.log;
        l->has_current = true;
        l->fill = 1;
        return 0;
    }
    if (l->make.began) {
        diag_errno(DIAG_ERROR, l->make.rc, "begin log=%llu",
                   (unsigned long long)l->make.log.header.index);
        return l->make.rc;
    }
    l->blocked = true; /* so that it is warned about at once */
    make_failed(l);
    return 0;
}

/* An unused log is made EMPTY again; one with messages is left to recovery,
 * as if we had died. */
static void
give_back(struct logs *l, struct log *log)
{
    if (l->failed || log->count > 0 || log_seal(log) < 0)
        log_abandon(log);
    else
        (void)log_release(log); /* recovery tidies what this leaves */
}

static int
start_threads(struct logs *l)
{
    int rc;

    rc = io_start(&l->sync_io, l->loop);
    if (rc < 0)
        return rc;
    rc = io_start(&l->file_io, l->loop);
    if (rc < 0)
        io_stop(&l->sync_io);
    return rc;
}

int
logs_open(struct logs *l, struct loop *loop, const struct datadir *d,
          const struct config *config, const struct logs_events *events)
{
    int rc;

    *l = (struct logs){.loop = loop,
                       .config = config,
                       .events = *events,
                       .brief_ns = BRIEF_NS};
    rc = layout_init(&l->layout, (unsigned)config->keyspace_size,
                     (unsigned)config->key_size);
    if (rc < 0)
        return rc;
    set_up_jobs(l);
    rc = take_memory(l);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "memory for logs");
    else
        rc = open_directory(l, d);
    if (rc < 0)
        goto free_memory;
    rc = check_sizes(l);
    if (rc < 0)
        goto close_dir;
    create_logs(l);
    rc = begin_first(l);
    if (rc < 0)
        goto close_dir;
    rc = start_threads(l);
    if (rc < 0)
        goto abandon;
    want_spare(l);
    arm(l, &l->recover_timer, RECOVER_MS);
    return 0;

abandon:
    if (l->has_current)
        give_back(l, &l->current);
close_dir:
    logdir_close(&l->dir);
free_memory:
    free(l->slots);
    free(l->names);
    return rc;
}

void
logs_close(struct logs *l)
{
    size_t i;

    io_stop(&l->sync_io);
    io_stop(&l->file_io);
    if (l->making && l->make.rc == 0)
        give_back(l, &l->make.log);
    while (l->spare_count > 0)
        give_back(l, &l->spares[--l->spare_count]);
    if (l->has_current)
        give_back(l, &l->current);
    for (i = 0; i < LOGS_RETIRED; i++)
        if (l->retired[i].state == RETIRED_DIRTY ||
            l->retired[i].state == RETIRED_SYNCING)
            log_abandon(&l->retired[i].log);
    loop_disarm(l->loop, &l->rotate_timer);
    loop_disarm(l->loop, &l->overdue_timer);
    loop_disarm(l->loop, &l->sync_timer);
    loop_disarm(l->loop, &l->retry_timer);
    loop_disarm(l->loop, &l->recover_timer);
    logdir_close(&l->dir);
    free(l->slots);
    free(l->names);
}
