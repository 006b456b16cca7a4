/* common/store/cluster/cluster_backup.c - cluster_backup_save(): parts of a
 * keyspace into files; see cluster_backup.h.  Read from the end. */
#include "common/store/cluster/cluster_backup.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/store/cluster/backup_file.h"
#include "common/store/cluster/cluster_scan.h"
#include "common/store/cluster/cluster_store_internal.h"

#define CLOSE_TRIES 600 /* of 50 ms: another backup may be at the part */

/* Replies of countd1_close. */
enum close_reply { CLOSE_DONE, CLOSE_BUSY, CLOSE_MISSING };

struct save {
    struct cluster_store *s;
    struct cluster_known known;
    uint32_t part;
    struct cluster_part_keys keys;
    struct backup_file file;
    uint8_t token[CLUSTER_MARK_SIZE];
    bool is_counts; /* what is being read */
    uint64_t rows;
    int error; /* of what is done with what is read */
};

/* ---- closing ------------------------------------------------------------ */

/* Calls a function of closing, with a further word unless it is empty. */
static int
call_close(struct save *v, const char *words, const char *word, uint64_t *reply)
{
    struct cluster_command m;
    int rc;

    cluster_begin_part(&m, &v->keys, words);
    cluster_add_word(&m, v->token, sizeof v->token);
    cluster_add_text(&m, word);
    cluster_run(v->s->cluster, &m, 1);
    rc = m.error;
    if (rc == 0)
        *reply = cluster_reply_number(m.reply);
    cluster_end(&m, 1);
    return rc;
}

/* Closes the part; 1: there is none. */
static int
close_part(struct save *v)
{
    const struct timespec pace = {.tv_nsec = 50000000};
    int rc = -EAGAIN;

    for (int i = 0; rc == -EAGAIN && i < CLOSE_TRIES; i++) {
        uint64_t reply;

        if (i > 0)
            (void)nanosleep(&pace, NULL);
        rc = call_close(v, "FCALL countd1_close 2", "0", &reply);
        if (rc == 0)
            rc = reply == CLOSE_BUSY ? -EAGAIN : reply == CLOSE_MISSING;
    }
    return rc;
}

/* ---- a part ------------------------------------------------------------- */

/* Begins the block of the counts, or of a period. */
static int
begin_block(void *ctx, const struct cluster_period *period, uint64_t expiry_s)
{
    uint8_t head[CLUSTER_PERIOD_HEAD];
    struct save *v = ctx;

    v->is_counts = period == NULL;
    if (period == NULL)
        return v->error = backup_file_begin(&v->file, BACKUP_COUNTS, NULL, 0);
    put_le32(head, period->step);
    put_le32(head + 4, period->length);
    put_le32(head + 8, period->begin);
    put_le32(head + 12, (uint32_t)expiry_s);
    return v->error =
               backup_file_begin(&v->file, BACKUP_PERIOD, head, sizeof head);
}

/* Fields of a part that say how it is, and not what it has. */
static bool
is_passing(const redisReply *field)
{
    return field->len == 2 && field->str[0] == '\0' &&
           (field->str[1] == 'w' || field->str[1] == 'r');
}

static int
add_fields(struct save *v, const redisReply *list)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < list->elements; i += 2) {
        const redisReply *field = list->element[i],
                         *value = list->element[i + 1];
        const struct backup_field f = {(const uint8_t *)field->str,
                                       (const uint8_t *)value->str,
                                       (size_t)field->len, (size_t)value->len};

        if (v->is_counts && is_passing(field))
            continue;
        v->rows += v->is_counts && field->len > 0 && field->str[0] != '\0';
        rc = backup_file_add(&v->file, &f);
    }
    return rc;
}

/* Saves a slice, and keeps the part closed: it was until then. */
static int
save_slice(void *ctx, const redisReply *list)
{
    struct save *v = ctx;
    uint64_t reply = CLOSE_DONE;

    v->error = add_fields(v, list);
    if (v->error == 0)
        v->error = call_close(v, "FCALL countd1_close 2", "1", &reply);
    if (v->error == 0 && reply != CLOSE_DONE)
        v->error = -EAGAIN;
    return v->error;
}

static int
save_hashes(struct save *v)
{
    const struct cluster_scan scan = {.cluster = v->s->cluster,
                                      .keys = v->keys,
                                      .begin = begin_block,
                                      .take = save_slice,
                                      .ctx = v};
    const int rc = cluster_scan_part(&scan);

    return rc < 0 && v->error == 0 ? cluster_read_error(v->s, rc) : rc;
}

static int
begin_file(struct save *v)
{
    uint8_t head[CLUSTER_FILE_HEAD + STORE_NAME_MAX];

    put_le16(head, v->known.size);
    put_le16(head + 2, 0);
    put_le32(head + 4, v->known.generation);
    put_le32(head + 8, v->part);
    put_le32(head + 12, v->known.parts);
    put_le64(head + 16, clock_unix_ms());
    memcpy(head + CLUSTER_FILE_HEAD, v->known.name, v->known.size);
    return backup_file_begin(&v->file, BACKUP_HEAD, head,
                             CLUSTER_FILE_HEAD + (size_t)v->known.size);
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
        rc = save_hashes(v);
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
    uint64_t reply;
    int rc;

    rc = cluster_find_parts(v.s, name, name_size, &v.known);
    if (rc == 0 && getrandom(v.token, sizeof v.token, 0) != sizeof v.token)
        rc = -EIO;
    for (v.part = 0; rc == 0 && v.part < v.known.parts; v.part++) {
        v.keys = cluster_part_keys(name, name_size, v.known.generation, v.part);
        rc = close_part(&v);
        if (rc == 0) {
            rc = save_closed(&v, to_fd);
            /* Where that fails it opens by itself. */
            (void)call_close(&v, "FCALL countd1_open 2", "", &reply);
        } else if (rc == 1)
            rc = 0; /* nothing was ever counted into it */
    }
    *rows += v.rows;
    return rc;
}
