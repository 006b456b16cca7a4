/* reader/user_metrics.c - see user_metrics.h.
 *
 * user_metrics_step() lists the keyspaces of each pattern (list_some), then
 * reads each of them (read_keyspace). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/user_metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/setup/figures.h"
#include "common/wire/name.h"

#define COUNT_MS 60000 /* keyspaces are counted so often, at most */

/* ---- the keyspaces of a pattern ------------------------------------------ */

/* Begins the list at the first name that the pattern may have; NULL: of all. */
static void
start_list(struct user_metrics *u, const struct name_pattern *p)
{
    uint8_t before[NAME_MAX_SIZE];

    if (!p || p->size == 0) {
        store_listing_start(u->listing, NULL, 0);
        return;
    }
    /* No name lies between this one and the first with the prefix. */
    memset(before, 0xff, sizeof before);
    memcpy(before, p->name, p->size);
    before[p->size - 1]--;
    store_listing_start(u->listing, before, sizeof before);
}

static bool
is_match(const struct name_pattern *p, const struct store_listed *found)
{
    return bytes_begin(found->name, found->name_size, p->name, p->size) &&
           (p->prefix || found->name_size == p->size);
}

static bool
has_keyspace(const struct user_metrics *u, const struct store_listed *found)
{
    for (size_t i = 0; i < u->count; i++)
        if (bytes_equal(u->rows[i].name, u->rows[i].size, found->name,
                        found->name_size))
            return true;
    return false;
}

static void
add_keyspace(struct user_metrics *u, const struct store_listed *found)
{
    struct user_keyspace *row = &u->rows[u->count];

    if (has_keyspace(u, found))
        return;
    if (u->count == USER_METRICS_KEYSPACES ||
        u->series + 2 > u->site->series_max) {
        u->left_out += 2;
        return;
    }
    memcpy(row->name, found->name, found->name_size);
    row->size = (uint16_t)found->name_size;
    row->has_value = false;
    u->series += 2;
    u->count++;
}

static void
close_list(struct user_metrics *u)
{
    if (!u->listing)
        return;
    store_listing_stop(u->listing);
    store_listing_close(u->listing);
    u->listing = NULL;
}

/* The list that comes after the one that has ended. */
static void
next_list(struct user_metrics *u, uint64_t now_ms)
{
    struct user_metrics_site *site = u->site;

    store_listing_stop(u->listing);
    if (u->is_counting) {
        u->is_counting = false;
        site->keyspaces = u->counting;
        site->counted_ms = u->counting < 0 ? 0 : now_ms;
    } else
        u->at++;
    if (u->at < site->patterns.count) {
        start_list(u, &site->patterns.at[u->at]);
        return;
    }
    u->at = 0;
    close_list(u);
}

/* False: it is time for others. */
static bool
list_some(struct user_metrics *u, uint64_t until_ns, uint64_t now_ms)
{
    static struct diag_repeat failures;
    struct store_listed found;
    const int rc = store_listing_next(u->listing, until_ns, &found);

    if (rc == -EAGAIN)
        return false;
    if (rc < 0) {
        u->counting = -1; /* the next scrape tries again */
        diag_repeating(&failures, DIAG_ERROR, "metrics: list keyspaces: %s",
                       diag_text(rc));
    }
    if (rc == 1 && u->is_counting) {
        u->counting++;
    } else if (rc == 1 && is_match(&u->site->patterns.at[u->at], &found)) {
        add_keyspace(u, &found);
    } else
        next_list(u, now_ms);
    return true;
}

/* ---- one keyspace -------------------------------------------------------- */

/* Asks about a keyspace; what cannot be read was reported. */
static int
query_keyspace(struct user_metrics *u, const struct user_keyspace *k,
               struct store_query *q)
{
    q->name = k->name;
    q->name_size = k->size;
    return answer_query(u->site->store, q, u->site->binary, ANSWER_SIZE_MAX);
}

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

/* False: they are not there yet. */
static bool
put_keys(struct user_metrics *u, const struct user_keyspace *k)
{
    struct store_query q = {.op = STORE_RANGE,
                            .length = (uint64_t)u->site->top};
    char keyspace[USER_METRICS_LABEL];
    struct query_row row;
    const uint8_t *at;

    if (query_keyspace(u, k, &q) == -EAGAIN)
        return false;
    at = q.bytes;
    (void)user_metrics_label(k->name, k->size, keyspace);
    for (uint64_t i = 0; i < q.rows; i++) {
        at = query_row_get(at, &row);
        put_key(u, keyspace, &row);
    }
    return true;
}

static int
read_value(struct user_metrics *u, struct user_keyspace *k)
{
    struct store_query q = {.op = STORE_TOTAL};
    const int rc = k->has_value ? 0 : query_keyspace(u, k, &q);

    if (rc < 0 || k->has_value)
        return rc;
    k->value = store_total(&q.totals);
    k->keys = (int64_t)q.totals.keys;
    k->has_value = true;
    return 0;
}

/* One that has gone meanwhile, or cannot be read, has no samples.  False: it is
 * not read yet. */
static bool
read_keyspace(struct user_metrics *u)
{
    struct user_keyspace *k = &u->rows[u->at];
    const int rc = read_value(u, k);

    if (rc == -EAGAIN || (rc == 0 && u->text && !put_keys(u, k)))
        return false;
    if (rc == 0) {
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
user_metrics_init(struct user_metrics_site *site, struct store *store,
                  uint8_t *binary, const struct config *config)
{
    const char *why;

    *site = (struct user_metrics_site){.store = store,
                                       .binary = binary,
                                       .top = (int64_t)config->metrics_top,
                                       .series_max = config->metrics_max_series,
                                       .keyspaces = -1};
    if (name_patterns_add_all(&site->patterns, config->metrics_keyspaces,
                              &why) < 0)
        diag(DIAG_WARNING, "metrics.keyspaces: %s; the rest is not shown", why);
}

int
user_metrics_open(struct user_metrics *u, struct user_metrics_site *site,
                  uint64_t now_ms)
{
    int rc;

    *u = (struct user_metrics){.site = site};
    u->is_counting =
        site->counted_ms == 0 || now_ms - site->counted_ms >= COUNT_MS;
    if (site->top > 0 && site->patterns.count > 0) {
        u->text = malloc(USER_METRICS_TEXT);
        if (!u->text)
            return -ENOMEM;
    }
    if (!u->is_counting && site->patterns.count == 0)
        return 0;
    rc = store_listing_open(site->store, &u->listing);
    if (rc < 0) {
        u->listing = NULL;
        user_metrics_close(u);
        return rc;
    }
    start_list(u, u->is_counting ? NULL : &site->patterns.at[0]);
    return 0;
}

void
user_metrics_close(struct user_metrics *u)
{
    close_list(u);
    free(u->text);
    u->text = NULL;
}

bool
user_metrics_step(struct user_metrics *u, uint64_t until_ns, uint64_t now_ms)
{
    bool goes_on = true;

    do {
        if (u->listing)
            goes_on = list_some(u, until_ns, now_ms);
        else if (u->at < u->count)
            goes_on = read_keyspace(u);
        else
            return true;
    } while (goes_on && clock_ns() < until_ns);
    return false;
}
