/* reader/user_metrics.c - see user_metrics.h.
 *
 * user_metrics_step() lists all keyspaces (list_some), then reads each of those
 * that fit a pattern (read_total), and their keys (put_keys). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/user_metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/setup/figures.h"
#include "common/wire/name.h"
#include "reader/read_commands.h"

/* Keyspaces are counted so often, if no pattern is set. */
#define COUNT_MS 60000

/* ---- the list of keyspaces ------------------------------------------------ */

/* The row of one more keyspace.  Of too many, those stay whose pattern comes first
 * in the setting; NULL: this one does not. */
static struct user_keyspace *
find_row(struct user_metrics *u, size_t pattern)
{
    struct user_keyspace *last = &u->rows[0];

    if (u->count < USER_METRICS_KEYSPACES &&
        u->series + 2 <= u->site->series_max) {
        u->series += 2;
        return &u->rows[u->count++];
    }
    u->left_out += 2;
    for (size_t i = 1; i < u->count; i++)
        if (u->rows[i].pattern >= last->pattern)
            last = &u->rows[i];
    return u->count > 0 && last->pattern > pattern ? last : NULL;
}

static void
add_keyspace(struct user_metrics *u, const struct store_listed *found)
{
    const int pattern =
        name_patterns_first(&u->site->patterns, found->name, found->name_size);
    struct user_keyspace *row =
        pattern >= 0 ? find_row(u, (size_t)pattern) : NULL;

    if (!row)
        return;
    memcpy(row->name, found->name, found->name_size);
    row->size = (uint16_t)found->name_size;
    row->pattern = (size_t)pattern;
}

/* False: it is time for others. */
static bool
list_some(struct read_request *a, uint64_t until_ns)
{
    static struct diag_repeat failures;
    struct read_job *w = a->job;
    struct user_metrics *u = &w->users;
    struct store_listed found;
    const int rc = store_listing_next(w->from, until_ns, &found);

    if (rc == -EAGAIN)
        return false;
    if (rc == 1) {
        u->keyspaces++;
        add_keyspace(u, &found);
        return true;
    }
    if (rc < 0) {
        u->keyspaces = -1;
        diag_repeating(&failures, DIAG_ERROR, "metrics: list keyspaces: %s",
                       diag_text(rc));
    } else {
        u->site->keyspaces = u->keyspaces;
        u->site->counted_ms = clock_ms();
    }
    store_listing_close(w->from);
    w->from = NULL;
    return true;
}

/* ---- one keyspace -------------------------------------------------------- */

const char *
user_metrics_label(const uint8_t *name, size_t size,
                   char text[USER_METRICS_LABEL])
{
    char plain[4 * NAME_MAX_SIZE + 1], *to = text;
    const size_t length = name_escape(name, size, plain);

    for (size_t i = 0; i < length; i++) {
        if (plain[i] == '\\' || plain[i] == '"')
            *to++ = '\\';
        *to++ = plain[i];
    }
    *to = '\0';
    return text;
}

static void
put_key(struct user_metrics *u, const char *keyspace,
        const struct query_row *row)
{
    char label[USER_METRICS_LABEL];
    const size_t left = USER_METRICS_TEXT - u->text_size;
    int n;

    if (u->series == u->site->series_max) {
        u->left_out++;
        return;
    }
    n = snprintf(u->text + u->text_size, left,
                 "%s{keyspace=\"%s\",key=\"%s\"} %" PRId64 "\n",
                 figures[STATUS_S_KEY].metric, keyspace,
                 user_metrics_label(row->key, row->key_size, label),
                 row->count);
    if (n < 0 || (size_t)n >= left) {
        u->left_out++;
        return;
    }
    u->text_size += (size_t)n;
    u->series++;
}

/* The keys of a keyspace.  False: they are not there yet. */
static bool
put_keys(struct read_request *a)
{
    struct user_metrics *u = &a->job->users;
    const struct user_keyspace *k = &u->rows[u->keys_at];
    struct store_query q = {.op = STORE_RANGE,
                            .name = k->name,
                            .name_size = k->size,
                            .length = (uint64_t)u->site->top};
    char keyspace[USER_METRICS_LABEL];
    struct query_row row;
    const uint8_t *at;

    if (!read_run_query(a, &q) && a->error == -EAGAIN)
        return false;
    at = q.bytes;
    (void)user_metrics_label(k->name, k->size, keyspace);
    for (uint64_t i = 0; i < q.rows; i++) {
        at = query_row_get(at, &row);
        put_key(u, keyspace, &row);
    }
    u->keys_at++;
    return true;
}

/* One that has gone meanwhile, or cannot be read, has no samples.  False: it is
 * not read yet. */
static bool
read_total(struct read_request *a)
{
    struct user_metrics *u = &a->job->users;
    struct user_keyspace *k = &u->rows[u->at];
    struct store_query q = {
        .op = STORE_TOTAL, .name = k->name, .name_size = k->size};

    if (!read_run_query(a, &q) && a->error == -EAGAIN)
        return false;
    if (q.error == 0) {
        k->value = store_total(&q.totals);
        k->keys = (int64_t)q.totals.keys;
        u->at++;
        return true;
    }
    u->count--;
    u->series -= 2;
    memmove(k, k + 1, (u->count - u->at) * sizeof *k);
    return true;
}

/* ---- scrapes ------------------------------------------------------------- */

void
user_metrics_init(struct user_metrics_site *site, const struct config *config)
{
    const char *why;

    *site =
        (struct user_metrics_site){.top = (int64_t)config->metrics_top,
                                   .series_max = config->metrics_max_series};
    if (name_patterns_add_all(&site->patterns, config->metrics_keyspaces,
                              &why) < 0)
        diag(DIAG_WARNING, "metrics.keyspaces: %s; the rest is not shown", why);
}

int
user_metrics_open(struct read_request *a)
{
    struct user_metrics_site *site = &a->http->users;
    struct read_job *w = a->job;
    struct user_metrics *u = &w->users;
    int rc;

    *u = (struct user_metrics){.site = site};
    if (site->patterns.count == 0 && site->counted_ms > 0 &&
        clock_ms() - site->counted_ms < COUNT_MS) {
        u->keyspaces = site->keyspaces;
        return 0;
    }
    if (site->top > 0 && site->patterns.count > 0) {
        u->text = scratch_take(&w->scratch, USER_METRICS_TEXT);
        if (!u->text)
            return -ENOMEM;
    }
    rc = store_listing_open(a->http->jobs->store, &w->from);
    if (rc < 0)
        return rc;
    w->from->names_only = true;
    store_listing_start(w->from, NULL, 0);
    return 0;
}

bool
user_metrics_step(struct read_request *a, uint64_t until_ns)
{
    struct user_metrics *u = &a->job->users;
    bool goes_on = true;

    do {
        if (a->job->from)
            goes_on = list_some(a, until_ns);
        else if (u->at < u->count)
            goes_on = read_total(a);
        else if (u->text && u->keys_at < u->count)
            goes_on = put_keys(a);
        else
            return true;
    } while (goes_on && clock_ns() < until_ns);
    return false;
}
