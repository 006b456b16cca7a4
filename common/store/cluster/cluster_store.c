/* common/store/cluster/cluster_store.c - the handle of the engine on a Redis
 * Cluster, and what changes counters; see cluster_store.h.
 *
 * Entry points: cluster_store_open(), cluster_apply(), cluster_drop(),
 * cluster_del(). */
#include "common/store/cluster/cluster_store_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "common/store/cluster/cluster_admin.h"

/* ---- what changes counters ---------------------------------------------- */

/* The outbox of a handle that only reads is opened when there is one. */
int
cluster_need_outbox(struct cluster_store *s)
{
    const struct outbox_options options = {
        .data_fd = s->options.dir->fd,
        .writable = s->options.writable,
        .max = s->options.config->store_outbox_size,
        .parts = (uint32_t)s->options.config->store_parts,
        .parts_of = &s->options.config->store_parts_of,
        .keyspace_max = s->options.config->keyspace_max,
        .history = &s->options.config->history};

    return s->outbox ? 0 : outbox_open(&s->outbox, &options);
}

static int
cluster_marks(struct store *store, const uint8_t *name, size_t name_size,
              const struct store_fill *marks, size_t count,
              struct store_mark_info *infos)
{
    struct cluster_store *s = cluster_store_of(store);
    int rc;

    rc = cluster_need_outbox(s);
    if (rc == 0)
        return outbox_marks(s->outbox, name, name_size, marks, count, infos);
    for (size_t i = 0; rc == -ENOENT && i < count; i++)
        infos[i] = (struct store_mark_info){.state = STORE_MARK_NONE};
    return rc == -ENOENT ? 0 : rc;
}

static int
cluster_apply(struct store *store, const struct store_batch *batch,
              struct store_applied *applied)
{
    struct cluster_store *s = cluster_store_of(store);
    int rc;

    rc = outbox_apply(s->outbox, batch, applied);
    sender_wake(s->sender);
    return rc;
}

/* Whether the keyspace is anywhere: here, or in the cluster. */
static int
find_keyspace(struct cluster_store *s, const uint8_t *name, size_t name_size)
{
    struct cluster_known known;
    int rc;

    rc = outbox_refresh(s->outbox);
    if (rc < 0 || outbox_find(s->outbox, name, name_size) != NULL)
        return rc;
    return cluster_find_parts(s, name, name_size, &known);
}

static int
cluster_drop(struct store *store, const uint8_t *name, size_t name_size)
{
    struct cluster_store *s = cluster_store_of(store);
    int rc = find_keyspace(s, name, name_size);

    if (rc == 0)
        rc = outbox_delete(s->outbox, name, name_size, NULL, 0);
    sender_wake(s->sender);
    return rc;
}

/* Counts the keys that are in the cluster now. */
static int
count_keys(struct store *store, const uint8_t *name, size_t name_size,
           const struct store_key *keys, size_t count, uint64_t *found)
{
    uint8_t bytes[2 * STORE_NAME_MAX];

    *found = 0;
    for (size_t i = 0; i < count; i++) {
        struct store_query q = {.op = STORE_GET,
                                .name = name,
                                .name_size = name_size,
                                .key = keys[i].key,
                                .key_size = keys[i].key_size};
        struct store_reads reads = {
            .queries = &q, .count = 1, .at = bytes, .capacity = sizeof bytes};

        (void)cluster_read(store, &reads);
        if (q.error < 0 && q.error != -ENOENT)
            return q.error;
        *found += q.error == 0;
    }
    return 0;
}

struct purge_name {
    const uint8_t *name;
    size_t name_size;
};

/* -EAGAIN: entries for the part are on their way, or its rows to another one.
 */
static int
check_sent(void *ctx, const struct cluster_part_info *p)
{
    const struct purge_name *n = ctx;

    if (bytes_compare(p->name, p->name_size, n->name, n->name_size) != 0)
        return 0;
    if (p->state == CLUSTER_PART_SILENT)
        return -EHOSTDOWN;
    if (p->state == CLUSTER_PART_MOVING)
        return -EAGAIN;
    if (p->state != CLUSTER_PART_GOOD)
        return -EIO;
    return p->have < p->last ? -EAGAIN : 0;
}

/* Servers free what they delete: the deletions need only be there. */
static int
cluster_purge(struct store *store, const uint8_t *name, size_t name_size)
{
    struct purge_name n = {name, name_size};
    const int rc = cluster_admin_parts(store, check_sent, &n);

    return rc == -ENOENT ? 0 : rc;
}

/* Counts the keys, and says whether any may be there to be deleted: an entry
 * that was on its way at the first count is in the cluster at the second. */
static int
find_keys(struct store *store, const uint8_t *name, size_t name_size,
          const struct store_key *keys, size_t count, uint64_t *found,
          bool *is_any)
{
    int rc = count_keys(store, name, name_size, keys, count, found);
    const bool is_sent =
        rc == 0 && *found == 0 && cluster_purge(store, name, name_size) == 0;

    if (is_sent)
        rc = count_keys(store, name, name_size, keys, count, found);
    *is_any = count > 0 && (*found > 0 || !is_sent);
    return rc;
}

static int
cluster_del(struct store *store, const uint8_t *name, size_t name_size,
            const struct store_key *keys, size_t count, uint64_t *deleted)
{
    struct cluster_store *s = cluster_store_of(store);
    bool is_any = false;
    int rc;

    rc = find_keyspace(s, name, name_size);
    if (rc == 0)
        rc = find_keys(store, name, name_size, keys, count, deleted, &is_any);
    /* Entries have the keys that they delete: when these are gone, another one
     * would only bring them back into the outbox. */
    if (rc == 0 && is_any)
        rc = outbox_delete(s->outbox, name, name_size, keys, count);
    sender_wake(s->sender);
    return rc;
}

static int
cluster_each_mark(struct store *store, const uint8_t *name, size_t name_size,
                  int (*mark)(void *ctx, const struct store_fill *m,
                              const struct store_mark_info *info),
                  void *ctx)
{
    struct cluster_store *s = cluster_store_of(store);
    const struct outbox_keyspace *k;
    int rc;

    rc = cluster_need_outbox(s);
    if (rc == 0)
        rc = outbox_refresh(s->outbox);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    /* Another directory may have made the keyspace. */
    k = outbox_find(s->outbox, name, name_size);
    for (size_t i = 0; k != NULL && rc == 0 && i < k->mark_count; i++) {
        struct store_mark_info info;

        rc = outbox_marks(s->outbox, name, name_size, &k->marks[i].fill, 1,
                          &info);
        if (rc == 0)
            rc = mark(ctx, &k->marks[i].fill, &info);
    }
    return rc;
}

static bool
cluster_pending(struct store *store)
{
    struct cluster_store *s = cluster_store_of(store);
    struct sender_stats stats;

    if (s->sender == NULL)
        return false;
    sender_stats(s->sender, &stats);
    return stats.last < outbox_last(s->outbox) || stats.outbox.waiting > 0;
}

static bool
cluster_outbox(struct store *store, struct store_outbox *out)
{
    struct cluster_store *s = cluster_store_of(store);
    struct sender_stats stats = {.is_sender = false};

    if (s->sender != NULL)
        sender_stats(s->sender, &stats);
    if (!stats.is_sender)
        return false;
    *out = stats.outbox;
    return true;
}

static const char *
cluster_trouble(const struct store *store)
{
    return cluster_text(
        ((const struct cluster_store *)(const void *)store)->cluster);
}

/* ---- the handle --------------------------------------------------------- */

static void
close_engine(struct store *store)
{
    struct cluster_store *s = cluster_store_of(store);

    sender_stop(s->sender);
    cluster_close(s->cluster);
    outbox_close(s->outbox);
    explicit_bzero(s->password, sizeof s->password);
    free(s->known);
    free(s);
}

static const struct store_engine engine = {
    .close = close_engine,
    .marks = cluster_marks,
    .apply = cluster_apply,
    .read = cluster_read,
    .history = cluster_history,
    .listing_open = cluster_listing_open,
    .listing_close = cluster_listing_close,
    .listing_start = cluster_listing_start,
    .listing_stop = cluster_listing_stop,
    .listing_next = cluster_listing_next,
    .check = cluster_verify,
    .each_mark = cluster_each_mark,
    .drop = cluster_drop,
    .purge = cluster_purge,
    .del = cluster_del,
    .as_of = cluster_as_of,
    .pending = cluster_pending,
    .outbox = cluster_outbox,
    .trouble = cluster_trouble,
};

/* The password is the first line of the file. */
static int
read_password(struct cluster_store *s)
{
    const char *path = s->options.config->store_password_file;
    ssize_t size;
    int fd, rc;

    if (path[0] == '\0')
        return 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    size = fd < 0 ? -1 : read(fd, s->password, sizeof s->password - 1);
    rc = size < 0 ? -errno : 0;
    if (fd >= 0)
        (void)close(fd);
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "read store.password_file=%s", path);
        return -EINVAL;
    }
    s->password[strcspn(s->password, "\r\n")] = '\0';
    return 0;
}

static int
start_sender(struct cluster_store *s, const struct cluster_options *cluster)
{
    const struct config *c = s->options.config;
    const struct sender_options options = {
        .outbox = {.data_fd = s->options.dir->fd,
                   .writable = true,
                   .parts = (uint32_t)c->store_parts,
                   .history = &c->history},
        .cluster = *cluster,
        .log_fd = s->options.layout ? s->options.dir->log_fd : -1,
        .layout = s->options.layout,
        .log_size = c->log_size,
        .replicas = c->store_replicas,
        .retain_ms = c->store_retain_ms,
        .keys_max = c->keyspace_max_keys,
        .key_order = c->store_key_order};

    return s->options.sends ? sender_start(&s->sender, &options) : 0;
}

static int
open_parts(struct cluster_store *s)
{
    const struct config *c = s->options.config;
    const struct cluster_options cluster = {.nodes = c->store_nodes,
                                            .user = c->store_user,
                                            .password = s->password,
                                            .timeout_ms = c->store_timeout_ms};
    int rc;

    s->known = calloc(CLUSTER_KNOWN, sizeof *s->known);
    if (s->known == NULL)
        return -ENOMEM;
    rc = read_password(s);
    if (rc == 0)
        rc = cluster_open(&s->cluster, &cluster);
    if (rc == -EINVAL)
        diag(DIAG_ERROR,
             "store.nodes=%s: give at least one address and port "
             "of a node, such as 10.0.0.1:6379",
             c->store_nodes);
    if (rc == 0 && s->options.writable)
        rc = cluster_need_outbox(s);
    return rc < 0 ? rc : start_sender(s, &cluster);
}

int
cluster_store_open(struct store **out,
                   const struct cluster_store_options *options)
{
    struct cluster_store *s = calloc(1, sizeof *s);
    int rc;

    if (s == NULL)
        return -ENOMEM;
    assert(options->writable || !options->sends);
    s->store.engine = &engine;
    s->options = *options;
    rc = open_parts(s);
    if (rc < 0)
        close_engine(&s->store);
    else
        *out = &s->store;
    return rc;
}
