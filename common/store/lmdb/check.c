/* common/store/lmdb/check.c - lmdb_check(): everything in a keyspace against
 * its checksums, and its parts against each other. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_history.h"
#include "common/store/lmdb/keyspace_peek.h"

#include <errno.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sums over rows that are equal for two trees with the same rows. */
struct row_sums {
    uint64_t rows;
    uint64_t hash[2];
    int128 sum;
    uint64_t saturated;
};

struct check {
    struct lmdb *store;
    struct keyspace *keyspace;
    struct store_check *result;
    bool has_state;
    struct keyspace_state state;
    uint64_t marks_hash;
    struct row_sums tally; /* of the tree that is being walked */
    /* Random, for the proof that history explains the counts. */
    uint8_t hash[16];
    uint128 proof;
    bool proving;
};

static void
report_fault(void *ctx, const char *text)
{
    struct check *c = ctx;

    c->result->faults++;
    c->result->fault(c->result->ctx, text);
}

static void
tally_row(void *ctx, const struct row *r)
{
    static const uint8_t no_key[16];
    struct check *c = ctx;
    struct row_sums *t = &c->tally;
    uint8_t bytes[8 + BLOCK_KEY_MAX], hash[16];

    put_le64s(bytes, r->count);
    memcpy(bytes + 8, r->key, r->key_size);
    name_siphash128(no_key, bytes, 8u + r->key_size, hash);
    t->hash[0] += get_le64(hash);
    t->hash[1] += get_le64(hash + 8);
    if (c->proving)
        c->proof += history_proof(c->hash, r->key, r->key_size, r->count);
    t->rows++;
    t->sum += r->count;
    t->saturated += (r->flags & BLOCK_SATURATED) != 0 ? 1 : 0;
}

static int
check_tree(struct check *c, int i)
{
    struct tree_check tc = {.fault = report_fault, .row = tally_row, .ctx = c};
    int rc;

    c->tally = (struct row_sums){.rows = 0};
    rc = keyspace_each_row(c->keyspace->reader, c->keyspace, i,
                           &c->state.roots[i], &tc);
    c->result->blocks += tc.blocks;
    return rc;
}

/* Checks both trees against each other and against the totals. */
static int
check_trees(struct check *c)
{
    struct row_sums keys;
    int rc;

    c->proving = c->state.has_history;
    rc = check_tree(c, TREE_KEYS);
    c->proving = false;
    keys = c->tally;
    if (rc == 0)
        rc = check_tree(c, TREE_RANKS);
    if (rc < 0)
        return rc;
    c->result->keys = keys.rows;
    c->result->saturated = keys.saturated;
    if (keys.rows != c->tally.rows || keys.hash[0] != c->tally.hash[0] ||
        keys.hash[1] != c->tally.hash[1])
        report_fault(c, "keys and ranks do not hold the same rows");
    if (keys.rows != c->state.roots[TREE_KEYS].count)
        report_fault(c, "the number of keys is not what the totals say");
    if (keys.sum != c->state.sum)
        report_fault(c, "the sum is not what the totals say");
    if (keys.saturated != c->state.saturated)
        report_fault(c, "the saturated keys are not what the totals say");
    return 0;
}

/* Checks every run of history, and that the runs explain the counts. */
static int
check_history(struct check *c)
{
    struct history_check hc = {.fault = report_fault, .ctx = c};
    struct keyspace *k = c->keyspace;
    struct lmdb_kv database = keyspace_kv(k, KEYSPACE_HISTORY);
    const struct kv kv = lmdb_kv(&database);
    struct history_whole whole;
    struct history h;
    MDB_stat st;
    int rc;

    rc = lmdb_error(mdb_stat(k->reader, k->dbis[KEYSPACE_HISTORY], &st));
    if (rc < 0 || (!c->state.has_history && st.ms_entries == 0))
        return rc;
    rc = keyspace_history_get(k->reader, k->dbis[KEYSPACE_META], &h);
    if (!c->state.has_history || rc == -EBADMSG) {
        report_fault(c, "meta: the history record is damaged or missing");
        return 0;
    }
    memcpy(hc.hash, c->hash, sizeof hc.hash);
    whole = (struct history_whole){.entries = st.ms_entries,
                                   .saturated = c->state.saturated,
                                   .sum = c->state.sum,
                                   .proof = c->proof};
    if (rc == 0)
        rc = history_check(&h, &kv, &whole, &hc);
    c->result->blocks += hc.blocks;
    return rc;
}

static int
check_record(void *ctx, const MDB_val *key, const MDB_val *value)
{
    struct check *c = ctx;
    struct keyspace_mark m;

    if (keyspace_is_mark(key)) {
        c->result->marks++;
        if (keyspace_mark_parse(key, value, &m) < 0)
            report_fault(c, "meta: a mark is damaged");
        else
            c->marks_hash += m.hash;
    } else if (!keyspace_is_record(key, KEYSPACE_NAME_KEY) &&
               !keyspace_is_record(key, KEYSPACE_STATE_KEY) &&
               !keyspace_is_record(key, KEYSPACE_HISTORY_KEY)) {
        report_fault(c, "meta: a record of unknown kind");
    }
    return 0;
}

/* Checks every record of the meta database. */
static int
check_records(struct check *c)
{
    int rc;

    rc = lmdb_each(c->keyspace->reader, c->keyspace->dbis[KEYSPACE_META], NULL,
                   check_record, c);
    if (rc == -EBADMSG) {
        report_fault(c, "meta: its records cannot be read");
        return 0;
    }
    if (rc == 0 && c->has_state &&
        (c->result->marks != c->state.marks ||
         c->marks_hash != c->state.marks_hash))
        report_fault(c, "meta: the marks are not those that the state says");
    return rc;
}

static int
check_contents(struct check *c)
{
    int rc;

    rc = keyspace_read(c->keyspace);
    if (rc < 0)
        return rc;
    rc = keyspace_state_get(c->keyspace->reader,
                            c->keyspace->dbis[KEYSPACE_META], &c->state);
    c->has_state = rc == 0;
    if (rc == -EBADMSG) {
        report_fault(c, "meta: the state record is damaged");
        rc = 0;
    } else if (rc == 0) {
        rc = check_trees(c);
        if (rc == 0)
            rc = check_history(c);
    }
    if (rc == 0)
        rc = check_records(c);
    keyspace_read_end(c->keyspace);
    return rc;
}

/* Checks the file: that it is a regular one and that LMDB would use its newest
 * commit, then its pages.  1: there are faults. */
static int
check_file(struct check *c, const char *file)
{
    struct pages_check pages = {.fault = report_fault, .ctx = c};
    struct stat st = {.st_size = 0};
    const char *why;
    int fd, rc;

    fd = rc =
        keyspace_file_open(c->store->options.keyspace_fd, file, &st, &why);
    if (fd >= 0) {
        rc = pages_check_newest(fd, keyspace_change_read, &why);
        if (rc == 0)
            rc = pages_check(fd, &pages);
        if (rc == 0 && fstat(fd, &st) < 0) /* it may have grown */
            rc = -errno;
        (void)close(fd);
    }
    if (rc == -EBADMSG)
        report_fault(c, why);
    else if (rc < 0)
        return rc;
    c->result->file_size = (uint64_t)st.st_size;
    c->result->used_size = pages.used_size;
    return c->result->faults > 0;
}

int
lmdb_check(struct store *store, const uint8_t *name, size_t name_size,
           struct store_check *asked)
{
    struct lmdb *s = lmdb_of(store);
    struct check c = {.store = s, .result = asked};
    struct keyspace named = {.env = NULL};
    int rc;

    if (!store_name_ok(name, name_size))
        return -EINVAL;
    *asked = (struct store_check){.fault = asked->fault, .ctx = asked->ctx};

    /* A random key makes the proof safe against crafted damage; without it
     * (getrandom fails) it still finds accidental damage. */
    (void)!getrandom(c.hash, sizeof c.hash, 0);
    keyspace_name(&named, name, name_size);
    rc = check_file(&c, named.file);
    if (rc != 0)
        return rc < 0 ? rc : 0;
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &c.keyspace);
    if (rc == -EBADMSG || rc == -EPROTONOSUPPORT) {
        report_fault(&c, "not a keyspace this program can open");
        return 0;
    }
    if (rc < 0)
        return rc;
    return check_contents(&c);
}
