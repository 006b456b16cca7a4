/* common/store/lmdb/keyspace_cache.c - the open keyspaces: keyspace_get() finds
 * or opens one, closing the least recently used if all slots are in use.
 *
 * LMDB must not have a file open twice in a process: closing one drops the
 * locks of both.  So every keyspace is opened here. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_file.h"
#include "common/store/lmdb/keyspace_peek.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/dirstream.h"
#include "common/base/hash.h"
#include "common/base/sigbus.h"

#define FULL_MS       1000 /* a full directory is counted again after this time */
#define RECOUNT_EVERY 16
#define RECOUNT_NEAR                                                           \
    1024u /* keyspaces below the limit; more than all lanes                    \
             create between two counts */

int
keyspace_report(struct lmdb *s, const uint8_t *name, size_t name_size,
                const char *what, int rc)
{
    char text[NAME_TEXT_SIZE];

    if (rc >= 0 || rc == -ENOENT || rc == -EAGAIN)
        return rc;
    (void)name_escape(name, name_size, text);
    diag_repeating(&s->trouble, DIAG_ERROR, "keyspace=%s: %s: %s", text, what,
                   diag_text(rc));
    return rc;
}

/* ---- replaced files ---------------------------------------------------- */

/* Closes `k` if it was replaced. */
static bool
closed_replaced(const struct lmdb *s, struct keyspace *k)
{
    char text[NAME_TEXT_SIZE];

    if (k->reading || (!k->stale && !keyspace_replaced(s, k)))
        return false;
    (void)name_escape(k->name, k->name_size, text);
    if (faccessat(s->options.keyspace_fd, k->file, F_OK, 0) < 0)
        /* the file of an empty keyspace is removed eventually */
        diag(DIAG_INFO, "keyspace=%s: its file is no longer there", text);
    else
        diag(DIAG_WARNING,
             "keyspace=%s: its file was replaced while it was in use; going on "
             "with what has its name now",
             text);
    keyspace_close(k);
    return true;
}

/* The same for a keyspace that is needed now; a process that only reads checks
 * rarely. */
static bool
closed_when_needed(struct lmdb *s, struct keyspace *k)
{
    const uint64_t now = clock_ms();

    if (!s->options.writable && now - k->looked_ms < STORE_REPLACED_MS)
        return false;
    k->looked_ms = now;
    return closed_replaced(s, k);
}

void
keyspace_close_replaced(struct lmdb *s)
{
    for (unsigned i = 0; i < s->touched; i++)
        if (s->slots[i].hash != 0)
            (void)closed_replaced(s, &s->slots[i]);
}

/* ---- opening ----------------------------------------------------------- */

static uint64_t
name_hash(const uint8_t *name, size_t size)
{
    static const struct hash_key zeros;

    return hash_name(&zeros, 0, name, size) | 1; /* 0 marks a free slot */
}

static bool
is_keyspace(const struct keyspace *k, uint64_t hash, const uint8_t *name,
            size_t name_size)
{
    return k->hash == hash && k->name_size == name_size &&
           memcmp(k->name, name, name_size) == 0;
}

static struct keyspace *
table_find(struct lmdb *s, uint64_t hash, const uint8_t *name, size_t name_size)
{
    if (s->last != NULL && is_keyspace(s->last, hash, name, name_size))
        return s->last;
    for (unsigned i = 0; i < s->touched; i++)
        if (is_keyspace(&s->slots[i], hash, name, name_size))
            return &s->slots[i];
    return NULL;
}

bool
keyspace_needs_open(struct lmdb *s, const uint8_t *name, size_t name_size)
{
    const uint64_t hash = name_hash(name, name_size);

    return hash == s->failed || table_find(s, hash, name, name_size) != NULL;
}

/* Returns a free slot, if need be that of the least recently used keyspace that
 * no view needs. */
static struct keyspace *
table_slot(struct lmdb *s)
{
    struct keyspace *oldest = NULL;

    for (unsigned i = 0; i < s->touched; i++) {
        struct keyspace *k = &s->slots[i];

        if (k->hash == 0)
            return k;
        if (!k->reading && (oldest == NULL || k->used < oldest->used))
            oldest = k;
    }
    if (s->touched < s->options.open_max)
        return &s->slots[s->touched++];
    /* There is at most one view, and open_max is at least 2. */
    assert(oldest != NULL);
    keyspace_close(oldest);
    return oldest;
}

int
lmdb_count(struct store *s, uint64_t *count)
{
    char stem[NAME_FILE_SIZE];
    const char *name;
    DIR *d;
    int rc;

    rc = dirstream_open(lmdb_of(s)->options.keyspace_fd, ".", &d);
    if (rc < 0)
        return rc;
    *count = 0;
    while ((rc = dirstream_next(d, &name)) > 0)
        *count += keyspace_file_stem(name, stem);
    (void)closedir(d);
    return rc;
}

/* Refuses a new keyspace above the limit.  The directory is counted rarely
 * while the limit is far, and at most every FULL_MS when it is reached: names
 * come from the network, and each may be a new one. */
static int
check_limit(struct lmdb *s, bool is_near)
{
    int rc;

    if (clock_ms() < s->full_until_ms)
        return -EDQUOT;
    if (is_near || s->created_since >= RECOUNT_EVERY) {
        rc = lmdb_count(&s->store, &s->known);
        if (rc < 0)
            return rc;
        s->created_since = 0;
    }
    if (s->known + s->created_since < s->options.keyspace_max)
        return 0;
    s->full_until_ms = clock_ms() + FULL_MS;
    return -EDQUOT;
}

/* Lanes create keyspaces side by side, except the last ones below the limit:
 * before each of those all are counted. */
static int
create_keyspace(struct lmdb *s, const struct keyspace *k, const char **why)
{
    static pthread_mutex_t last_ones = PTHREAD_MUTEX_INITIALIZER;
    const uint64_t max = s->options.keyspace_max;
    const bool is_near =
        max > 0 &&
        (s->known == 0 || s->known + s->created_since + RECOUNT_NEAR >= max);
    int rc = 0;

    *why = NULL; /* the limit is not reported here */
    if (is_near)
        (void)pthread_mutex_lock(&last_ones); /* a plain mutex cannot fail */
    if (max > 0)
        rc = check_limit(s, is_near);
    if (rc == 0) {
        *why = "create";
        rc = keyspace_file_make_empty(s, k->name, k->name_size, k->file, false);
        s->created_since += rc == 0;
    }
    if (is_near)
        (void)pthread_mutex_unlock(&last_ones);
    if (rc == -EEXIST) /* another process created it first */
        return 0;
    return keyspace_disk_error(s, rc, KEYSPACE_MAP_FIRST);
}

/* Opens the keyspace, which has its name and file only.  *why: what failed;
 * NULL if that is not to be reported. */
static int
open_keyspace(struct lmdb *s, const struct keyspace *named,
              enum keyspace_need need, struct keyspace *opened,
              const char **why)
{
    int rc;

    *opened = *named;
    rc = keyspace_open(s, opened, why);
    if (rc == -ENOENT && need == KEYSPACE_CREATE) {
        rc = create_keyspace(s, named, why);
        *opened = *named;
        if (rc == 0)
            rc = keyspace_open(s, opened, why);
    } else if (rc == -ENOENT) {
        *why = NULL;
    }
    return rc;
}

int
keyspace_get(struct lmdb *s, const uint8_t *name, size_t name_size,
             enum keyspace_need need, struct keyspace **out)
{
    const uint64_t hash = name_hash(name, name_size);
    struct keyspace named = {.env = NULL}, opened;
    struct keyspace *k;
    const char *why;
    int rc;

    if (!store_name_ok(name, name_size))
        return -EINVAL;
    sigbus_note(name, name_size);
    k = table_find(s, hash, name, name_size);
    if (k != NULL && closed_when_needed(s, k))
        k = NULL;
    if (k == NULL) {
        keyspace_name(&named, name, name_size);
        named.hash = hash;
        rc = open_keyspace(s, &named, need, &opened, &why);
        if (rc < 0)
            return why == NULL ? rc
                               : keyspace_report(s, name, name_size, why, rc);
        k = table_slot(s);
        *k = opened;
        if (hash == s->failed) {
            rc = keyspace_resolve_commit(s, k);
            if (rc < 0) {
                keyspace_close(k); /* a lookup must not find it like this */
                return rc;
            }
            s->failed = 0;
        }
    }
    k->used = ++s->clock;
    s->last = k;
    *out = k;
    return 0;
}

void
keyspace_repair(struct lmdb *s, const uint8_t *name, size_t name_size)
{
    struct keyspace *k;

    /* If that fails, too, the next call repairs it. */
    if (name_hash(name, name_size) == s->failed)
        (void)keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
}

/* ---- memory ------------------------------------------------------------ */

void
keyspace_retain(struct lmdb *s, struct keyspace *k, uint64_t pages, bool done)
{
    const uint64_t most = s->options.retain_memory / KEYSPACE_PAGE_COST;

    if (pages > k->retained)
        k->retained = pages;
    for (;;) {
        struct keyspace *largest = NULL;
        uint64_t sum = 0;

        for (unsigned i = 0; i < s->touched; i++) {
            struct keyspace *other = &s->slots[i];

            sum += other->retained;
            if ((done || other != k) && !other->reading &&
                other->retained > 0 &&
                (largest == NULL || other->retained > largest->retained))
                largest = other;
        }
        if (sum <= most || largest == NULL)
            return;
        keyspace_close(largest);
    }
}
