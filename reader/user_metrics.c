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

/* ---- settings ------------------------------------------------------------ */

static void
add_pattern(struct user_metrics *u, const char *text, size_t size)
{
    struct user_pattern *p = &u->patterns[u->pattern_count];
    int rc;

    if (u->pattern_count == USER_METRICS_PATTERNS) {
        diag(DIAG_WARNING,
             "metrics.keyspaces: more than %d names; the rest is not shown",
             USER_METRICS_PATTERNS);
        return;
    }
    p->is_prefix = text[size - 1] == '*';
    size -= p->is_prefix;
    rc = name_unescape(text, size, p->name, sizeof p->name);
    if (rc < 0)
        diag(DIAG_WARNING,
             "metrics.keyspaces: %.*s is not a name of a keyspace; it is not "
             "shown",
             (int)size, text);
    else {
        p->size = (uint16_t)rc;
        u->pattern_count++;
    }
}

static void
read_patterns(struct user_metrics *u, const char *text)
{
    size_t size;

    for (text += strspn(text, " "); *text != '\0';
         text += size + strspn(text + size, " ")) {
        size = strcspn(text, " ");
        add_pattern(u, text, size);
    }
}

int
user_metrics_open(struct user_metrics *u, struct store *store, uint8_t *binary,
                  const struct config *config)
{
    int rc;

    *u = (struct user_metrics){.store = store,
                               .binary = binary,
                               .top = (int64_t)config->metrics_top,
                               .series_max = config->metrics_max_series,
                               .keyspaces = -1};
    read_patterns(u, config->metrics_keyspaces);
    rc = store_listing_open(store, &u->listing);
    if (rc < 0) {
        u->listing = NULL;
        return rc;
    }
    if (u->top > 0 && u->pattern_count > 0) {
        u->text = malloc(USER_METRICS_TEXT);
        if (!u->text) {
            user_metrics_close(u);
            return -ENOMEM;
        }
    }
    return 0;
}

void
user_metrics_close(struct user_metrics *u)
{
    if (u->listing)
        store_listing_close(u->listing);
    u->listing = NULL;
    free(u->text);
    u->text = NULL;
}

/* ---- the keyspaces of a pattern ------------------------------------------ */

/* Begins the list at the first name that the pattern may have. */
static void
start_list(struct user_metrics *u, const struct user_pattern *p)
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
is_match(const struct user_pattern *p, const struct store_listed *found)
{
    return found->name_size >= p->size &&
           memcmp(found->name, p->name, p->size) == 0 &&
           (p->is_prefix || found->name_size == p->size);
}

static bool
has_keyspace(const struct user_metrics *u, const struct store_listed *found)
{
    for (size_t i = 0; i < u->count; i++)
        if (u->rows[i].size == found->name_size &&
            memcmp(u->rows[i].name, found->name, found->name_size) == 0)
            return true;
    return false;
}

static void
add_keyspace(struct user_metrics *u, const struct store_listed *found)
{
    struct user_keyspace *row = &u->rows[u->count];

    if (has_keyspace(u, found))
        return;
    if (u->count == USER_METRICS_KEYSPACES || u->series + 2 > u->series_max) {
        u->left_out += 2;
        return;
    }
    memcpy(row->name, found->name, found->name_size);
    row->size = (uint16_t)found->name_size;
    row->has_value = false;
    u->series += 2;
    u->count++;
}

/* The list that comes after the one that has ended. */
static void
next_list(struct user_metrics *u, uint64_t now_ms)
{
    store_listing_stop(u->listing);
    if (u->is_counting) {
        u->is_counting = false;
        u->keyspaces = u->counting;
        u->counted_ms = now_ms;
    } else
        u->at++;
    if (u->at < u->pattern_count)
        start_list(u, &u->patterns[u->at]);
    else {
        u->at = 0;
        u->state = USER_METRICS_READ;
    }
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
    if (rc < 0)
        diag_repeating(&failures, DIAG_ERROR, "metrics: list keyspaces: %s",
                       diag_text(rc));
    if (rc == 1 && u->is_counting) {
        u->counting++;
    } else if (rc == 1 && is_match(&u->patterns[u->at], &found)) {
        add_keyspace(u, &found);
    } else
        next_list(u, now_ms);
    return true;
}

/* ---- one keyspace -------------------------------------------------------- */

/* Asks about a keyspace; what cannot be read was reported. */
static int
ask(struct user_metrics *u, const struct user_keyspace *k,
    struct store_query *q)
{
    q->name = k->name;
    q->name_size = k->size;
    return answer_query(u->store, q, u->binary, ANSWER_SIZE_MAX);
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

    if (u->series == u->series_max) {
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
    struct store_query q = {.op = STORE_RANGE, .length = (uint64_t)u->top};
    char keyspace[USER_METRICS_LABEL];
    struct query_row row;
    const uint8_t *at;

    if (ask(u, k, &q) == -EAGAIN)
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
    const int rc = k->has_value ? 0 : ask(u, k, &q);

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
    memmove(k, k + 1, (u->count - u->at) * sizeof *k);
    return true;
}

/* ---- rounds -------------------------------------------------------------- */

void
user_metrics_start(struct user_metrics *u, uint64_t now_ms)
{
    if (u->state != USER_METRICS_IDLE)
        return;
    u->at = u->count = u->text_size = 0;
    u->series = u->left_out = 0;
    u->counting = 0;
    u->is_counting = u->counted_ms == 0 || now_ms - u->counted_ms >= COUNT_MS;
    u->state = USER_METRICS_LIST;
    if (u->is_counting)
        start_list(u, NULL);
    else if (u->pattern_count > 0)
        start_list(u, &u->patterns[0]);
    else
        u->state = USER_METRICS_READ;
}

bool
user_metrics_step(struct user_metrics *u, uint64_t until_ns, uint64_t now_ms)
{
    bool goes_on = true;

    do {
        if (u->state == USER_METRICS_LIST)
            goes_on = list_some(u, until_ns, now_ms);
        else if (u->at < u->count)
            goes_on = read_keyspace(u);
        else {
            u->state = USER_METRICS_IDLE;
            return true;
        }
    } while (goes_on && clock_ns() < until_ns);
    return false;
}

void
user_metrics_stop(struct user_metrics *u)
{
    if (u->state == USER_METRICS_LIST)
        store_listing_stop(u->listing);
    u->state = USER_METRICS_IDLE;
}
