/* reader/read_keyspaces.c - the list of keyspaces: see read_commands.h;
 * read_keyspaces_step(), then read_keyspaces().
 *
 * It is made in steps: first the names with their numbers of keys, as the range
 * port lists them, then total and size of each, for as long as a step may take.
 * No turn of the loop opens many keyspaces. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_commands.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/clock.h"

static const struct table_column columns[] = {
    {"keys", "keys", true},  {"total", "total", true},
    {"size", "size", true},  {"keyspace", "keyspace", false},
    {"file", "file", false},
};

static const char *
file_name(const struct query_row *row, char file[READ_FILE_SIZE])
{
    char base[NAME_FILE_SIZE];

    name_to_file(row->key, row->key_size, base);
    (void)snprintf(file, READ_FILE_SIZE, "%s.mdb", base);
    return file;
}

/* ---- what is read of each ------------------------------------------------ */

/* The total, unless the keyspace cannot be read or has gone. */
static void
read_total(struct read_request *a, struct read_listed *l)
{
    struct store_query q = {
        .op = STORE_TOTAL, .name = l->row.key, .name_size = l->row.key_size};

    l->has_total = read_run_query(a, &q) && q.error == 0;
    l->total = l->has_total ? store_total(&q.totals) : 0;
}

/* Blocks, not length: a file may have holes. */
static void
read_size(const struct read_request *a, struct read_listed *l)
{
    char file[READ_FILE_SIZE];
    struct stat st;

    l->has_file = fstatat(a->http->dir->keyspace_fd, file_name(&l->row, file),
                          &st, AT_SYMLINK_NOFOLLOW) == 0;
    l->size = l->has_file ? (int64_t)st.st_blocks * 512 : 0;
}

/* Goes on where the last step ended; true when all have been read. */
static bool
read_some(struct read_request *a, uint64_t until_ns)
{
    while (a->done < a->count) {
        struct read_listed *l = &a->job->listed[a->done];

        read_total(a, l);
        if (!l->has_total && a->error == -EAGAIN)
            return false;
        read_size(a, l);
        a->done++;
        if (clock_ns() >= until_ns)
            break;
    }
    return a->done == a->count;
}

/* ---- names --------------------------------------------------------------- */

static bool
is_by_name(const struct read_request *a)
{
    return a->params.sort == SORT_NAME;
}

static void
begin_names(struct read_request *a)
{
    const struct http_params *p = &a->params;

    a->as_of_ms = as_of_get(a->http->jobs->as_of, NULL, 0);
    a->done = a->count = 0;
    a->job->has_more = false;
    store_listing_start(a->job->from, p->after.bytes, p->after.size);
}

static void
add_name(struct read_request *a, const struct store_listed *found)
{
    uint8_t *name = a->job->names + a->count * QUERY_NAME_SIZE;
    struct read_listed *l = &a->job->listed[a->count];

    assert(found->name_size <= QUERY_NAME_SIZE);
    memcpy(name, found->name, found->name_size);
    l->row = (struct query_row){found->keys, name, (uint16_t)found->name_size};
    a->count++;
}

/* True: the list is as long as it has to be, or cannot be made. */
static bool
list_some(struct read_request *a, uint64_t until_ns)
{
    const size_t max = is_by_name(a) ? (size_t)a->params.n : READ_LISTED_MAX;
    struct read_job *w = a->job;
    struct store_listed found;
    int rc;

    do {
        rc = store_listing_next(w->from, until_ns, &found);
        if (rc == 1 && a->count == max)
            w->has_more = true;
        else if (rc == 1)
            add_name(a, &found);
    } while (rc == 1 && !w->has_more && clock_ns() < until_ns);
    if (rc == -EAGAIN || (rc == 1 && !w->has_more))
        return false;
    w->list_error = rc < 0 ? rc : 0;
    if (rc < 0)
        answer_report(NULL, 0, rc);
    return true;
}

/* Whether the list is longer than one that is sorted may be. */
static bool
is_too_long(const struct read_request *a)
{
    return !is_by_name(a) && a->job->has_more;
}

bool
read_keyspaces_step(struct read_request *a, uint64_t until_ns)
{
    if (a->phase == 0)
        begin_names(a);
    if (a->phase < 2)
        a->phase = list_some(a, until_ns) ? 2 : 1;
    if (a->phase == 1)
        return false;
    if (a->job->list_error == 0 && !is_too_long(a) && !read_some(a, until_ns))
        return false;
    a->as_of_ms = as_of_bound(a->http->jobs->as_of, a->as_of_ms);
    return true;
}

/* ---- the answer ---------------------------------------------------------- */

/* The largest first, what is not known last, ties by name. */
static int
compare_listed(const void *x, const void *y)
{
    const struct read_listed *a = x, *b = y;

    if (a->rank != b->rank)
        return a->rank > b->rank ? -1 : 1;
    return a->row.key < b->row.key ? -1 : 1; /* they lie in that order */
}

static void
sort_listed(struct read_request *a)
{
    if (is_by_name(a))
        return;
    for (size_t i = 0; i < a->count; i++) {
        struct read_listed *l = &a->job->listed[i];

        l->rank = a->params.sort == SORT_KEYS ? l->row.count
                  : a->params.sort == SORT_TOTAL
                      ? l->has_total ? l->total : INT64_MIN
                  : l->has_file ? l->size
                                : -1;
    }
    qsort(a->job->listed, a->count, sizeof *a->job->listed, compare_listed);
}

static void
put_listed(struct read_request *a, const struct read_listed *l)
{
    char file[READ_FILE_SIZE];
    const struct cell cells[] = {
        l->row.count < 0 ? cell_none() : cell_number(l->row.count),
        l->has_total ? cell_number(l->total) : cell_none(),
        l->has_file ? cell_number(l->size) : cell_none(),
        cell_name(l->row.key, l->row.key_size),
        l->has_file ? cell_text(file_name(&l->row, file)) : cell_none(),
    };

    table_row(&a->table, cells);
}

const struct read_problem *
read_keyspaces(struct read_request *a)
{
    static const struct read_problem too_long = {
        HTTP_BAD_REQUEST, "too-many-keyspaces",
        "more than 4096 keyspaces are listed by name only; leave out sort"};

    a->error = a->job->list_error;
    if (a->error < 0)
        return read_failure(a);
    if (is_too_long(a))
        return &too_long;
    sort_listed(a);
    table_next_rows(&a->table, "rows", columns, 5);
    for (size_t i = 0; i < a->count && (int64_t)i < a->params.n; i++)
        put_listed(a, &a->job->listed[i]);
    table_rows_end(&a->table);
    read_end_facts(a);
    if (is_by_name(a) && a->job->has_more && a->count > 0)
        read_set_next(a, &a->job->listed[a->count - 1].row);
    return NULL;
}
