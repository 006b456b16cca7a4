/* common/store/lmdb/list.c - lmdb_listing_next(): the list of keyspaces, by
 * name.
 *
 * A directory has no order, and may have more names than memory should hold.
 * So a pass over it collects the smallest names above the last one returned, as
 * many as a batch holds, in order; then their rows are returned.  Another pass
 * follows only if names were left out.
 *
 * All of this happens in small steps; a listing can be interrupted after each.
 *
 * Uses about 1.2 MB, and beside them a directory stream and, for a moment each
 * time, what a peek at a file takes. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace.h"
#include "common/store/lmdb/keyspace_peek.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/dirstream.h"

struct listed {
    size_t size;
    uint8_t name[NAME_MAX_SIZE];
};

enum stage { LISTING_SCAN, LISTING_GIVE, LISTING_END };

struct lmdb_listing {
    struct store_listing listing; /* first: the handle */
    struct lmdb *store;
    enum stage stage;
    DIR *dir;            /* NULL: no pass is running */
    struct listed after; /* the last name returned */
    bool full;           /* there are more names than a batch holds */
    size_t count;        /* names in the batch */
    size_t at;           /* index of the next to return */
    struct listed *sorted[LISTING_BATCH];
    struct listed names[LISTING_BATCH];
};

static int
listed_compare(const struct listed *a, const struct listed *b)
{
    return bytes_compare(a->name, a->size, b->name, b->size);
}

static struct lmdb_listing *
listing_of(struct store_listing *l)
{
    return (struct lmdb_listing *)(void *)l;
}

/* ---- the names of the batch ---------------------------------------------- */

/* The index in the batch at which a name belongs. */
static size_t
place_of(const struct lmdb_listing *l, const struct listed *name)
{
    size_t from = 0, to = l->count;

    while (from < to) {
        const size_t middle = from + (to - from) / 2;

        if (listed_compare(l->sorted[middle], name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* Adds the name if it is among the smallest. */
static void
keep_name(struct lmdb_listing *l, const struct listed *name)
{
    struct listed *slot;
    size_t at;

    if (listed_compare(name, &l->after) <= 0)
        return;
    at = place_of(l, name);
    if (l->count < LISTING_BATCH) {
        slot = &l->names[l->count++];
    } else {
        l->full = true;
        if (at == LISTING_BATCH)
            return;
        slot = l->sorted[LISTING_BATCH - 1];
    }
    for (size_t i = l->count - 1; i > at; i--)
        l->sorted[i] = l->sorted[i - 1];
    *slot = *name;
    l->sorted[at] = slot;
}

/* ---- the pass over the directory --------------------------------------- */

bool
keyspace_file_stem(const char *entry, char stem[NAME_FILE_SIZE])
{
    const size_t suffix = strlen(KEYSPACE_SUFFIX), size = strlen(entry);

    if (size <= suffix || size - suffix >= NAME_FILE_SIZE ||
        strcmp(entry + size - suffix, KEYSPACE_SUFFIX) != 0 ||
        strncmp(entry, "%t", 2) == 0)
        return false;
    memcpy(stem, entry, size - suffix);
    stem[size - suffix] = '\0';
    return true;
}

/* Lists a damaged file by its file name, which is not a keyspace's name: an
 * attempt to read or check that name reports the damage. */
static void
name_after_file(const char *stem, struct listed *out)
{
    out->size = strlen(stem);
    memcpy(out->name, stem, out->size);
}

/* Reports a file that contains a keyspace of another name: a lookup by that
 * name does not find it. */
static void
report_misplaced(const char *stem, struct listed *name)
{
    static struct diag_repeat repeat;
    char text[NAME_TEXT_SIZE], file[NAME_FILE_SIZE];

    name_to_file(name->name, name->size, file);
    if (strcmp(file, stem) == 0)
        return;
    (void)name_escape(name->name, name->size, text);
    diag_repeating(&repeat, DIAG_ERROR,
                   "keyspace/%s" KEYSPACE_SUFFIX " contains keyspace %s, which "
                   "belongs in keyspace/%s" KEYSPACE_SUFFIX ": it was "
                   "renamed or copied",
                   stem, text, file);
    name_after_file(stem, name);
}

/* Reads the name from a %h file. */
static int
hashed_name(struct lmdb_listing *l, const char *stem, struct listed *out)
{
    struct lmdb *s = l->store;
    struct keyspace k = {.env = NULL};
    struct keyspace_state state;
    const char *why;
    int rc;

    (void)snprintf(k.file, sizeof k.file, "%s" KEYSPACE_SUFFIX, stem);
    rc = keyspace_peek(&s->options, &k, &state, NULL, &why);
    if (rc == -ENOENT)
        return rc;
    if (rc < 0) {
        (void)keyspace_report(s, (const uint8_t *)k.file, strlen(k.file), why,
                              rc);
        if (rc == -EBADMSG)
            name_after_file(stem, out);
        return rc == -EBADMSG ? 0 : rc;
    }
    out->size = k.name_size;
    memcpy(out->name, k.name, k.name_size);
    report_misplaced(stem, out);
    return 0;
}

/* The name that an entry of the directory stands for. */
static int
entry_name(struct lmdb_listing *l, const char *entry, struct listed *out)
{
    char stem[NAME_FILE_SIZE];
    int rc;

    if (!keyspace_file_stem(entry, stem))
        return -EINVAL;
    rc = name_from_file(stem, out->name);
    if (rc == -ENOKEY)
        return hashed_name(l, stem, out);
    if (rc < 0)
        return rc;
    out->size = (size_t)rc;
    return 0;
}

static void
close_dir(struct lmdb_listing *l)
{
    if (l->dir != NULL)
        (void)closedir(l->dir);
    l->dir = NULL;
}

/* Reads one entry of the directory. */
static int
scan_entry(struct lmdb_listing *l)
{
    struct listed name;
    const char *entry;
    int rc;

    if (l->dir == NULL) {
        l->full = false;
        l->count = 0;
        rc = dirstream_open(l->store->options.keyspace_fd, ".", &l->dir);
        if (rc < 0) {
            l->dir = NULL;
            return rc;
        }
    }
    rc = dirstream_next(l->dir, &entry);
    if (rc < 0)
        return rc;
    if (rc == 0) {
        close_dir(l);
        l->at = 0;
        l->stage = LISTING_GIVE;
    } else if (entry_name(l, entry, &name) == 0) {
        /* A file whose name cannot be read has been reported. */
        keep_name(l, &name);
    }
    return 0;
}

/* ---- rows -------------------------------------------------------------- */

static int64_t
count_keys(struct lmdb_listing *l, const struct listed *name)
{
    struct lmdb *s = l->store;
    struct keyspace k = {.env = NULL};
    struct keyspace_state state;
    const char *why;
    int rc;

    keyspace_name(&k, name->name, name->size);
    rc = keyspace_peek(&s->options, &k, &state, NULL, &why);
    if (rc == 0)
        return (int64_t)state.roots[TREE_KEYS].count;
    (void)keyspace_report(s, name->name, name->size, why, rc);
    return -1;
}

/* Returns the next row; false after the last one of the batch. */
static bool
next_row(struct lmdb_listing *l, struct store_listed *out)
{
    const struct listed *name;

    if (l->at == l->count) {
        l->stage = l->full ? LISTING_SCAN : LISTING_END;
        return false;
    }
    name = l->sorted[l->at++];
    if (listed_compare(name, &l->after) == 0)
        return false; /* two files contain this name */
    l->after = *name;
    *out = (struct store_listed){
        .name = l->after.name,
        .name_size = l->after.size,
        .keys = l->listing.names_only ? 0 : count_keys(l, name)};
    return true;
}

int
lmdb_listing_next(struct store_listing *listing, uint64_t until_ns,
                  struct store_listed *out)
{
    struct lmdb_listing *l = listing_of(listing);

    while (l->stage != LISTING_END) {
        int rc = 0;

        if (l->stage == LISTING_SCAN)
            rc = scan_entry(l);
        else if (next_row(l, out))
            return 1;
        if (rc < 0) {
            close_dir(l);
            l->stage = LISTING_END;
            return rc;
        }
        if (until_ns != UINT64_MAX && clock_ns() >= until_ns)
            return -EAGAIN;
    }
    return 0;
}

/* ---- start and end ----------------------------------------------------- */

int
lmdb_listing_open(struct store *store, struct store_listing **out)
{
    struct lmdb_listing *l = malloc(sizeof *l);

    if (l == NULL)
        return -ENOMEM;
    l->listing = (struct store_listing){.engine = store->engine};
    l->store = lmdb_of(store);
    l->dir = NULL;
    l->stage = LISTING_END;
    *out = &l->listing;
    return 0;
}

void
lmdb_listing_close(struct store_listing *listing)
{
    close_dir(listing_of(listing));
    free(listing_of(listing));
}

void
lmdb_listing_start(struct store_listing *listing, const uint8_t *after,
                   size_t after_size)
{
    struct lmdb_listing *l = listing_of(listing);

    assert(after_size <= NAME_MAX_SIZE);
    close_dir(l);
    l->after.size = after_size;
    if (after_size > 0)
        memcpy(l->after.name, after, after_size);
    l->stage = LISTING_SCAN;
}
