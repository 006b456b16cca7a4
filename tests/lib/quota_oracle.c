/* tests/lib/quota_oracle.c - see quota_oracle.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include "tests/lib/quota_oracle.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "writer/quota/checkpoint.h"
#include "writer/quota/journal.h"
#include "writer/quota/quotas.h"

void
quota_oracle_init(struct quota_oracle *t, uint64_t seed,
                  _Atomic uint64_t *moments)
{
    *t = (struct quota_oracle){.random = {seed}, .moments = moments};
    t->asks = test_memory(calloc(TILL_ASKS, sizeof *t->asks));
    for (size_t i = 0; i < TILL_PEERS; i++)
        t->peers[i].fd = -1;
}

/* ---- asking ------------------------------------------------------ */

static void
break_peer(struct quota_oracle *t, struct quota_oracle_peer *p)
{
    if (p->fd >= 0)
        client_close(p->fd);
    p->fd = -1;
    p->size = 0;
    for (size_t i = 0; i < p->count; i++)
        if (t->asks[p->waiting[i]].keyed)
            p->again[p->again_count++] = p->waiting[i];
    p->count = 0;
}

void
quota_oracle_break(struct quota_oracle *t)
{
    for (size_t i = 0; i < TILL_PEERS; i++)
        break_peer(t, &t->peers[i]);
}

static void
send_ask(struct quota_oracle *t, struct quota_oracle_peer *p, uint32_t index)
{
    const struct quota_oracle_ask *a = &t->asks[index];
    char text[256], key[64] = "";
    int size;

    if (a->keyed)
        (void)snprintf(key, sizeof key, "Idempotency-Key: ask-%u\r\n", index);
    size =
        snprintf(text, sizeof text, "POST /%s=%" PRId64 " HTTP/1.1\r\n%s\r\n",
                 a->cancels ? "cancel?jnlsno" : "apply?amt",
                 a->cancels ? (int64_t)a->target : a->amount, key);
    p->waiting[p->count++] = index;
    if (client_try_send(p->fd, text, (size_t)size) < 0)
        break_peer(t, p);
}

/* An application that was answered and is not cancelled; 0: none. */
static uint64_t
pick_target(struct quota_oracle *t)
{
    for (int i = 0; t->count > 0 && i < 10; i++) {
        struct quota_oracle_ask *a =
            &t->asks[random_below(&t->random, t->count)];

        if (!a->answered || a->cancels || a->taken)
            continue;
        a->taken = true;
        return a->number;
    }
    return 0;
}

static uint32_t
new_ask(struct quota_oracle *t)
{
    struct quota_oracle_ask *a = &t->asks[t->count];

    assert_true(t->count < TILL_ASKS);
    a->amount = t->count + 1;
    a->keyed = random_chance(&t->random, 30);
    if (random_chance(&t->random, 30)) {
        a->target = pick_target(t);
        a->cancels = a->target > 0;
    }
    return t->count++;
}

static void
ask_some(struct quota_oracle *t, struct quota_oracle_peer *p)
{
    if (p->fd < 0) {
        p->fd = client_try_connect(t->port);
        if (p->fd < 0) {
            p->fd = -1;
            return;
        }
    }
    while (p->fd >= 0 && p->again_count > 0 && p->count < TILL_WINDOW)
        send_ask(t, p, p->again[--p->again_count]);
    while (p->fd >= 0 && p->count + p->again_count < TILL_WINDOW &&
           t->count < TILL_ASKS)
        send_ask(t, p, new_ask(t));
}

/* One answer to the oldest ask of a peer. */
static void
take_answer(struct quota_oracle *t, struct quota_oracle_peer *p, int status,
            const char *body)
{
    struct quota_oracle_ask *a;
    uint64_t number;
    int64_t remaining;

    assert_true(p->count > 0);
    a = &t->asks[p->waiting[0]];
    memmove(p->waiting, p->waiting + 1, --p->count * sizeof *p->waiting);
    if (status == 503) {
        a->refused = !a->keyed; /* that one is asked again, perhaps */
        t->refused++;
        return;
    }
    if (status != 200)
        fail_msg("%s of %" PRId64 ": status %d: %s",
                 a->cancels ? "cancel" : "apply",
                 a->cancels ? (int64_t)a->target : a->amount, status, p->heard);
    if (sscanf(body, "%" SCNu64 " %" SCNd64, &number, &remaining) != 2)
        fail_msg("%s of %" PRId64 ": %s", a->cancels ? "cancel" : "apply",
                 a->cancels ? (int64_t)a->target : a->amount, body);
    a->answered = true;
    a->number = number;
    a->remaining = remaining;
    a->acked = atomic_fetch_add(t->moments, 1) + 1;
    t->answered++;
}

static void
hear_peer(struct quota_oracle *t, struct quota_oracle_peer *p)
{
    char *at = p->heard, *end, *length;
    long n;

    n = client_try_read(p->fd, p->heard + p->size,
                        sizeof p->heard - 1 - p->size, 0);
    if (n == -EAGAIN)
        return;
    if (n > 0)
        p->size += (size_t)n;
    p->heard[p->size] = '\0';
    while ((end = strstr(at, "\r\n\r\n")) != NULL) {
        int status, size;

        length = strstr(at, "Content-length: ");
        assert_true(length && length < end);
        assert_int_equal(sscanf(at, "HTTP/1.1 %d", &status), 1);
        assert_int_equal(sscanf(length, "Content-length: %d", &size), 1);
        if ((size_t)(end + 4 - p->heard) + (size_t)size > p->size)
            break;
        take_answer(t, p, status, end + 4);
        at = end + 4 + size;
    }
    p->size -= (size_t)(at - p->heard);
    memmove(p->heard, at, p->size);
    if (n <= 0)
        break_peer(t, p);
}

void
quota_oracle_turn(struct quota_oracle *t, bool asks)
{
    struct pollfd fds[TILL_PEERS];

    for (size_t i = 0; i < TILL_PEERS; i++) {
        if (asks)
            ask_some(t, &t->peers[i]);
        fds[i] = (struct pollfd){.fd = t->peers[i].fd, .events = POLLIN};
    }
    assert_true(poll(fds, TILL_PEERS, 5) >= 0);
    for (size_t i = 0; i < TILL_PEERS; i++)
        if (fds[i].revents != 0)
            hear_peer(t, &t->peers[i]);
}

void
quota_oracle_ask_for(struct quota_oracle *t, uint64_t ms)
{
    const uint64_t until = clock_ms() + ms * test_slow();

    do
        quota_oracle_turn(t, true);
    while (clock_ms() < until);
}

bool
quota_oracle_waits(const struct quota_oracle *t)
{
    for (size_t i = 0; i < TILL_PEERS; i++)
        if (t->peers[i].count > 0)
            return true;
    return false;
}

/* Keyed ones that are open are asked again; then all is heard. */
void
quota_oracle_settle(struct quota_oracle *t)
{
    const uint64_t until = test_deadline(10000);

    for (size_t i = 0; i < TILL_PEERS; i++)
        while (t->peers[i].again_count > 0)
            ask_some(t, &t->peers[i]);
    while (quota_oracle_waits(t) && clock_ms() < until)
        quota_oracle_turn(t, false);
    assert_false(quota_oracle_waits(t));
}

/* ---- the journal, compared --------------------------------------- */

struct line {
    uint8_t type;
    int64_t value, after;
};

struct ledger {
    struct quotas quotas;
    struct line *lines; /* by journal number */
    uint64_t count;
};

/* What remained after a number follows from those before it. */
static void
read_lines(struct ledger *l)
{
    const struct quota *quota = quotas_unnamed(&l->quotas);
    int64_t left = TILL_LIMIT;

    assert_true(quota->count <= TILL_ASKS);
    for (l->count = 0; l->count < quota->count;) {
        const struct quota_number n = quota->numbers[l->count];
        struct line *line = &l->lines[++l->count];

        *line = (struct line){.type = JOURNAL_RECORD_APPLY, .value = n.amount};
        left -= n.amount;
        if (n.amount == NUMBER_IS_CANCEL) {
            *line = (struct line){.type = JOURNAL_RECORD_CANCEL,
                                  .value = (int64_t)n.other};
            left += l->lines[n.other].value - 1;
        }
        line->after = left;
    }
}

/* False, with why: an answer from before the moment `cut` is not kept. */
static bool
keeps_answers(const struct quota_oracle *t, const struct ledger *l,
              uint64_t cut, char *why, size_t size)
{
    int64_t *seen = test_memory(calloc(TILL_ASKS + 1, sizeof *seen));
    int64_t left = TILL_LIMIT;
    bool good = true;

    (void)snprintf(why, size, "good");
    for (uint32_t i = 0; good && i < t->count; i++) {
        const struct quota_oracle_ask *a = &t->asks[i];
        const struct line *line = &l->lines[a->number];

        if (!a->answered || a->acked > cut)
            continue;
        good = a->number <= l->count &&
               line->type == (a->cancels ? JOURNAL_RECORD_CANCEL
                                         : JOURNAL_RECORD_APPLY) &&
               line->value == (a->cancels ? (int64_t)a->target : a->amount) &&
               line->after == a->remaining;
        if (!good)
            (void)snprintf(why, size, "number %" PRIu64 " of %" PRIu64,
                           a->number, l->count);
    }
    for (uint64_t n = 1; good && n <= l->count; n++) {
        const struct line *line = &l->lines[n];
        const bool cancels = line->type == JOURNAL_RECORD_CANCEL;

        left += cancels ? l->lines[line->value].value : -line->value;
        good = left == line->after && left >= 0 && left <= TILL_LIMIT;
        if (good && !cancels)
            good = ++seen[line->value] == 1 &&
                   (!t->asks[line->value - 1].refused || cut != UINT64_MAX);
        if (!good)
            (void)snprintf(why, size,
                           "line %" PRIu64 ": value %" PRId64 " after %" PRId64,
                           n, line->value, line->after);
    }
    free(seen);
    return good && left == quotas_unnamed(&l->quotas)->remaining;
}

/* What a directory has; as a start would find it. */
bool
quota_oracle_is_kept(const struct quota_oracle *t, const char *data,
                     uint64_t cut, char *why, size_t size)
{
    struct ledger l = {.count = 0};
    const struct journal_reader reader = {checkpoint_begin, quotas_take,
                                          &l.quotas};
    struct journal j = {.fd = -1, .note_fd = -1};
    char path[700];
    bool exists, good = true;
    int fd, rc;

    l.lines = test_memory(calloc(TILL_ASKS + 1, sizeof *l.lines));
    (void)snprintf(path, sizeof path, "%s/live", data);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    rc = fd < 0 ? 0 : journal_file_exists(fd, JOURNAL_NAME, &exists);
    assert_rc(rc, 0);
    if (fd >= 0 && exists) {
        rc = journal_open(&j, fd, &reader);
        good = rc == 0;
        if (good)
            read_lines(&l);
        (void)snprintf(why, size, "open: %s", strerror(-rc));
        if (good)
            good = keeps_answers(t, &l, cut, why, size);
        quotas_fini(&l.quotas);
        journal_close(&j);
    } else {
        for (uint32_t i = 0; i < t->count; i++)
            good &= !t->asks[i].answered || t->asks[i].acked > cut;
        (void)snprintf(why, size, "no journal");
    }
    if (fd >= 0)
        client_close(fd);
    free(l.lines);
    return good;
}
