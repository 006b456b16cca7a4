/* common/store/cluster/cluster_backup.c - cluster_backup_save(): parts of a
 * keyspace into files; see cluster_backup.h.  Read from the end. */
#include "common/store/cluster/cluster_backup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/store/cluster/backup_file.h"
#include "common/store/cluster/cluster_backup_internal.h"

#define SLICE_FIELDS 1000
#define CLOSE_TRIES  600 /* of 50 ms: another backup may be at the part */

/* Replies of countd1_close. */
enum close_reply { CLOSE_DONE, CLOSE_BUSY, CLOSE_MISSING };

struct save {
    struct cluster_store *s;
    struct cluster_known known;
    uint32_t part;
    struct cluster_part_keys keys;
    struct backup_file file;
    uint8_t token[CLUSTER_MARK_SIZE];
    uint64_t rows;
};

/* ---- closing ------------------------------------------------------------ */

static size_t
begin_close(struct save *v, const char *function)
{
    const size_t call =
        cluster_call_begin(v->s, function, v->known.name, v->known.size,
                           v->known.generation, v->part);

    cluster_call_change(v->s, call);
    cluster_call_word(v->s, call, v->token, sizeof v->token);
    return call;
}

/* Closes the part; 1: there is none. */
static int
close_part(struct save *v)
{
    const struct timespec pace = {.tv_nsec = 50000000};
    int rc = -EAGAIN;

    for (int i = 0; rc == -EAGAIN && i < CLOSE_TRIES; i++) {
        const size_t call = begin_close(v, "countd1_close");

        if (i > 0)
            (void)nanosleep(&pace, NULL);
        cluster_call_word(v->s, call, "0", 1);
        cluster_call_run(v->s);
        rc = v->s->commands[call].error;
        if (rc == 0) {
            const uint64_t reply =
                cluster_reply_number(v->s->commands[call].reply);

            rc = reply == CLOSE_BUSY ? -EAGAIN : reply == CLOSE_MISSING;
        }
        cluster_call_end(v->s);
    }
    return rc;
}

/* Opens the part; where that fails it opens by itself. */
static void
open_part(struct save *v)
{
    (void)begin_close(v, "countd1_open");
    cluster_call_run(v->s);
    cluster_call_end(v->s);
}

/* ---- fields ------------------------------------------------------------- */

/* Fields of a part that say how it is, and not what it has. */
static bool
is_passing(const uint8_t *field, size_t size)
{
    return size == 2 && field[0] == '\0' &&
           (field[1] == 'w' || field[1] == 'r');
}

static int
add_fields(struct save *v, const redisReply *list, bool is_counts)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i + 1 < list->elements; i += 2) {
        const redisReply *field = list->element[i],
                         *value = list->element[i + 1];
        const struct backup_field f = {(const uint8_t *)field->str,
                                       (const uint8_t *)value->str,
                                       (size_t)field->len, (size_t)value->len};

        if (field->type != REDIS_REPLY_STRING ||
            value->type != REDIS_REPLY_STRING)
            return -EBADMSG;
        if (is_counts && is_passing(f.field, f.field_size))
            continue;
        v->rows += is_counts && f.field_size > 0 && f.field[0] != '\0';
        rc = backup_file_add(&v->file, &f);
    }
    return rc;
}

/* Adds a slice of a hash, and keeps the part closed; *cursor moves. */
static int
save_slice(struct save *v, const char *key, size_t key_size, bool is_counts,
           char cursor[CLUSTER_NUMBER])
{
    struct cluster_store *s = v->s;
    const size_t close = begin_close(v, "countd1_close");
    const size_t scan = cluster_call_counts(
        s, "HSCAN", v->known.name, v->known.size, v->known.generation, v->part);
    const redisReply *reply;
    int rc;

    cluster_call_word(s, close, "1", 1);
    s->slots[scan].argv[1] = key;
    s->slots[scan].sizes[1] = key_size;
    cluster_call_word(s, scan, cursor, strlen(cursor));
    cluster_call_word(s, scan, "COUNT", 5);
    cluster_call_number(s, scan, 0, SLICE_FIELDS);
    cluster_call_run(s);
    reply = cluster_call_reply(s, scan, 2, &rc);
    if (reply != NULL && (reply->element[0]->type != REDIS_REPLY_STRING ||
                          reply->element[0]->len >= CLUSTER_NUMBER ||
                          reply->element[1]->type != REDIS_REPLY_ARRAY))
        rc = -EBADMSG;
    else if (reply != NULL) {
        (void)snprintf(cursor, CLUSTER_NUMBER, "%s", reply->element[0]->str);
        rc = add_fields(v, reply->element[1], is_counts);
    }
    if (rc == 0 && s->commands[close].error != 0)
        rc = -EIO;
    if (rc == 0 && cluster_reply_number(s->commands[close].reply) != CLOSE_DONE)
        rc = -EAGAIN;
    cluster_call_end(s);
    return rc;
}

static int
save_hash(struct save *v, const char *key, size_t key_size, bool is_counts)
{
    char cursor[CLUSTER_NUMBER] = "0";
    int rc;

    do
        rc = save_slice(v, key, key_size, is_counts, cursor);
    while (rc == 0 && strcmp(cursor, "0") != 0);
    return rc;
}

/* ---- history ------------------------------------------------------------ */

/* The head of the block of a period, and when it expires. */
static bool
put_period(const redisReply *key, const redisReply *expiry,
           uint8_t head[CLUSTER_PERIOD_HEAD])
{
    struct cluster_period period;

    if (key->type != REDIS_REPLY_STRING ||
        !cluster_period_parse(key->str, &period))
        return false;
    put_le32(head, period.step);
    put_le32(head + 4, period.length);
    put_le32(head + 8, period.begin);
    put_le32(head + 12, (uint32_t)cluster_reply_number(expiry));
    return true;
}

static int
save_history(struct save *v)
{
    struct cluster_store *s = v->s;
    const size_t call =
        cluster_call_begin(s, "countd1_periods", v->known.name, v->known.size,
                           v->known.generation, v->part);
    uint8_t head[CLUSTER_PERIOD_HEAD];
    redisReply *list;
    int rc;

    cluster_call_run(s);
    (void)cluster_call_reply(s, call, 0, &rc);
    list = s->commands[call].reply;
    s->commands[call].reply = NULL; /* further calls follow */
    cluster_call_end(s);
    for (size_t i = 0; rc == 0 && i + 1 < list->elements; i += 2) {
        const redisReply *key = list->element[i];

        if (!put_period(key, list->element[i + 1], head))
            rc = -EBADMSG;
        if (rc == 0)
            rc = backup_file_begin(&v->file, BACKUP_PERIOD, head, sizeof head);
        if (rc == 0)
            rc = save_hash(v, key->str, (size_t)key->len, false);
    }
    if (list != NULL)
        freeReplyObject(list);
    return rc;
}

/* ---- a part ------------------------------------------------------------- */

static int
begin_file(struct save *v)
{
    uint8_t head[CLUSTER_FILE_HEAD + STORE_NAME_MAX];
    int rc;

    put_le16(head, v->known.size);
    put_le16(head + 2, 0);
    put_le32(head + 4, v->known.generation);
    put_le32(head + 8, v->part);
    put_le32(head + 12, v->known.parts);
    put_le64(head + 16, clock_unix_ms());
    memcpy(head + CLUSTER_FILE_HEAD, v->known.name, v->known.size);
    rc = backup_file_begin(&v->file, BACKUP_HEAD, head,
                           CLUSTER_FILE_HEAD + (size_t)v->known.size);
    return rc == 0 ? backup_file_begin(&v->file, BACKUP_COUNTS, NULL, 0) : rc;
}

/* Writes a part that is closed. */
static int
save_closed(struct save *v, int to_fd)
{
    char file[CLUSTER_BACKUP_NAME_SIZE];
    int rc;

    /* The tag, "{H.g.p}", names the file, too. */
    (void)snprintf(file, sizeof file, "%.*s",
                   (int)strcspn(v->keys.counts + 1, "}"), v->keys.counts + 1);
    rc = backup_file_create(&v->file, to_fd, file);
    if (rc < 0) {
        backup_file_close(&v->file);
        return rc;
    }
    rc = begin_file(v);
    if (rc == 0)
        rc = save_hash(v, v->keys.counts, v->keys.size, true);
    if (rc == 0)
        rc = save_history(v);
    if (rc == 0)
        rc = backup_file_finish(&v->file);
    backup_file_close(&v->file);
    if (rc < 0)
        (void)unlinkat(to_fd, file, 0); /* one that stays is not whole */
    return rc;
}

int
cluster_backup_save(struct store *store, const uint8_t *name, size_t name_size,
                    int to_fd, uint64_t *rows)
{
    struct save v = {.s = cluster_store_of(store)};
    int rc;

    rc = cluster_find_parts(v.s, name, name_size, &v.known);
    if (rc == 0 && getrandom(v.token, sizeof v.token, 0) != sizeof v.token)
        rc = -EIO;
    for (v.part = 0; rc == 0 && v.part < v.known.parts; v.part++) {
        cluster_part_keys(&v.keys, name, name_size, v.known.generation, v.part);
        rc = close_part(&v);
        if (rc == 0) {
            rc = save_closed(&v, to_fd);
            open_part(&v);
        } else if (rc == 1)
            rc = 0; /* nothing was ever counted into it */
    }
    *rows += v.rows;
    return rc;
}
