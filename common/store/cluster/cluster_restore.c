/* common/store/cluster/cluster_restore.c - cluster_backup_check() and
 * cluster_backup_restore(): files of parts are read, and put back; see
 * cluster_backup.h.
 *
 * Counts and marks go into a key of their own, which becomes the part's in one
 * step at the end: a restore that dies leaves no part, and may be made again.
 * History is written before that; it belongs to nothing until then.  The order
 * is made by the function that makes torn ones again. */
#include "common/store/cluster/cluster_backup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/bytes.h"
#include "common/store/cluster/backup_file.h"
#include "common/store/cluster/cluster_backup_internal.h"
#include "common/store/cluster/outbox_record.h"

#define FIELDS_MAX 500 /* in one command */
#define ROWS_MAX   1000

struct restore {
    struct cluster_store *s;
    struct cluster_backup_info *info;
    struct cluster_part_keys keys;
    struct backup_file file;
    char counts[CLUSTER_KEY_SIZE]; /* the key that becomes the part's */
    char period[CLUSTER_PERIOD_KEY_SIZE];
    const char *argv[2 * FIELDS_MAX + 2];
    size_t sizes[2 * FIELDS_MAX + 2];
};

/* ---- reading ------------------------------------------------------------ */

static int
take_head(const struct backup_file *f, const uint8_t *head,
          struct cluster_backup_info *out)
{
    *out = (struct cluster_backup_info){.rows = 0};
    if (f->head_size < 1 + CLUSTER_FILE_HEAD)
        return -EBADMSG;
    out->name_size = get_le16(head);
    out->generation = get_le32(head + 4);
    out->part = get_le32(head + 8);
    out->parts = get_le32(head + 12);
    out->saved_ms = get_le64(head + 16);
    if (out->name_size < 1 || out->name_size > STORE_NAME_MAX ||
        f->head_size != 1 + CLUSTER_FILE_HEAD + out->name_size ||
        out->parts < 1 || out->parts > OUTBOX_PARTS_MAX ||
        out->part >= out->parts)
        return -EBADMSG;
    memcpy(out->name, head + CLUSTER_FILE_HEAD, out->name_size);
    return 0;
}

/* Opens a file and reads its first block. */
static int
open_file(struct backup_file *f, int dir_fd, const char *file,
          struct cluster_backup_info *out)
{
    enum backup_block kind;
    const uint8_t *head;
    int rc;

    rc = backup_file_open(f, dir_fd, file);
    if (rc == 0)
        rc = backup_file_next(f, &kind, &head);
    if (rc < 0)
        return rc;
    return kind == BACKUP_HEAD ? take_head(f, head, out) : -EBADMSG;
}

int
cluster_backup_check(int dir_fd, const char *file,
                     struct cluster_backup_info *out)
{
    struct backup_file f = {.stream = NULL};
    enum backup_block kind = BACKUP_HEAD;
    const uint8_t *head;
    int rc;

    rc = open_file(&f, dir_fd, file, out);
    while (rc == 0 && kind != BACKUP_END) {
        struct backup_field field;
        size_t at = 0;

        rc = backup_file_next(&f, &kind, &head);
        while (rc == 0 && kind == BACKUP_COUNTS &&
               backup_file_field(&f, &at, &field))
            out->rows += field.field_size > 0 && field.field[0] != '\0';
    }
    backup_file_close(&f);
    return rc;
}

/* ---- writing ------------------------------------------------------------ */

static int
run_command(struct restore *r, struct cluster_command *m, uint64_t *number)
{
    int rc;

    cluster_run(r->s->cluster, m, 1);
    rc = m->error;
    if (rc == 0 && number != NULL)
        *number = cluster_reply_number(m->reply->type == REDIS_REPLY_ARRAY &&
                                               m->reply->elements > 0
                                           ? m->reply->element[0]
                                           : m->reply);
    cluster_free_replies(m, 1);
    return rc;
}

static struct cluster_command
begin_command(struct restore *r, const char *verb)
{
    struct cluster_command m = {.slot = r->keys.slot,
                                .node = CLUSTER_NO_NODE,
                                .argv = r->argv,
                                .sizes = r->sizes,
                                .words = 2 * FIELDS_MAX + 2};

    cluster_add_text(&m, verb);
    return m;
}

/* Writes the fields of a block into a hash. */
static int
restore_fields(struct restore *r, const char *key, size_t key_size)
{
    struct backup_field f;
    size_t at = 0;
    bool is_more = true;
    int rc = 0;

    while (rc == 0 && is_more) {
        struct cluster_command m = begin_command(r, "HSET");
        size_t count = 0;

        cluster_add_word(&m, key, key_size);
        while (count < FIELDS_MAX &&
               (is_more = backup_file_field(&r->file, &at, &f))) {
            cluster_add_word(&m, f.field, f.field_size);
            cluster_add_word(&m, f.value, f.value_size);
            count++;
        }
        if (count > 0)
            rc = run_command(r, &m, NULL);
    }
    return rc;
}

static int
restore_period(struct restore *r, const uint8_t *head)
{
    const struct cluster_period period = {get_le32(head), get_le32(head + 4),
                                          get_le32(head + 8)};
    const size_t size = cluster_period_key(r->period, &r->keys, &period);
    struct cluster_command m;
    char expiry[CLUSTER_NUMBER];
    int rc;

    rc = restore_fields(r, r->period, size);
    m = begin_command(r, "EXPIREAT");
    cluster_add_word(&m, r->period, size);
    (void)snprintf(expiry, sizeof expiry, "%" PRIu32, get_le32(head + 12));
    cluster_add_text(&m, expiry);
    return rc == 0 ? run_command(r, &m, NULL) : rc;
}

static int
restore_blocks(struct restore *r)
{
    enum backup_block kind = BACKUP_HEAD;
    const uint8_t *head;
    int rc = 0;

    while (rc == 0 && kind != BACKUP_END) {
        rc = backup_file_next(&r->file, &kind, &head);
        if (rc == 0 && kind == BACKUP_COUNTS)
            rc = restore_fields(r, r->counts, r->keys.size);
        else if (rc == 0 && kind == BACKUP_PERIOD)
            rc = restore_period(r, head);
    }
    return rc;
}

static struct cluster_command
begin_function(struct restore *r, const char *function, const char *keys)
{
    struct cluster_command m = begin_command(r, "FCALL");

    cluster_add_text(&m, function);
    cluster_add_text(&m, keys);
    cluster_add_word(&m, r->keys.counts, r->keys.size);
    cluster_add_word(&m, r->keys.order, r->keys.size);
    return m;
}

/* Makes the order.  Where another process makes it, this one is done. */
static int
make_order(struct restore *r)
{
    uint8_t token[CLUSTER_MARK_SIZE];
    char rows[CLUSTER_NUMBER];
    uint64_t reply = 0;
    int rc = 0;

    if (getrandom(token, sizeof token, 0) != sizeof token)
        return -EIO;
    (void)snprintf(rows, sizeof rows, "%d", ROWS_MAX);
    while (rc == 0 && reply == 0) {
        struct cluster_command m = begin_function(r, "countd1_rebuild", "2");

        cluster_add_word(&m, token, sizeof token);
        cluster_add_text(&m, rows);
        rc = run_command(r, &m, &reply);
    }
    return rc;
}

/* Enters the keyspace into the lists of the cluster. */
static int
enter_name(struct restore *r)
{
    struct cluster_store *s = r->s;
    char parts[2 * CLUSTER_NUMBER];
    struct cluster_known known;
    size_t call;
    int rc;

    (void)snprintf(parts, sizeof parts, "%" PRIu32 " %" PRIu32,
                   r->info->generation, r->info->parts);
    call = cluster_call_plain(s, "ZADD", CLUSTER_NAMES);
    cluster_call_word(s, call, "0", 1);
    cluster_call_word(s, call, r->info->name, r->info->name_size);
    call = cluster_call_plain(s, "HSETNX", CLUSTER_PARTS);
    cluster_call_word(s, call, r->info->name, r->info->name_size);
    cluster_call_word(s, call, parts, strlen(parts));
    cluster_call_run(s);
    rc =
        s->commands[0].error != 0 ? s->commands[0].error : s->commands[1].error;
    cluster_call_end(s);
    if (rc == 0)
        rc = cluster_find_parts(s, r->info->name, r->info->name_size, &known);
    return rc == 0 && (known.parts != r->info->parts ||
                       known.generation != r->info->generation)
               ? -ESTALE
               : rc;
}

/* Whether the cluster has the part: -EEXIST. */
static int
refuse_part(struct restore *r)
{
    struct cluster_command m = begin_command(r, "EXISTS");
    uint64_t count = 0;
    int rc;

    cluster_add_word(&m, r->keys.counts, r->keys.size);
    rc = run_command(r, &m, &count);
    return rc == 0 && count > 0 ? -EEXIST : rc;
}

static int
restore_part(struct restore *r)
{
    struct cluster_command m;
    uint64_t reply = 0;
    int rc;

    rc = refuse_part(r);
    if (rc == 0)
        rc = enter_name(r);
    m = begin_command(r, "UNLINK");
    cluster_add_word(&m, r->counts, r->keys.size);
    if (rc == 0)
        rc = run_command(r, &m, NULL);
    if (rc == 0)
        rc = restore_blocks(r);
    if (rc < 0)
        return rc;
    m = begin_function(r, "countd1_restore", "3");
    cluster_add_word(&m, r->counts, r->keys.size);
    rc = run_command(r, &m, &reply);
    if (rc == 0 && reply != 0)
        rc = -EEXIST;
    return rc == 0 ? make_order(r) : rc;
}

int
cluster_backup_restore(struct store *store, int dir_fd, const char *file,
                       struct cluster_backup_info *out)
{
    struct restore *r;
    uint64_t rows;
    int rc;

    rc = cluster_backup_check(dir_fd, file, out);
    if (rc < 0)
        return rc;
    rows = out->rows;
    r = calloc(1, sizeof *r);
    if (r == NULL)
        return -ENOMEM;
    r->s = cluster_store_of(store);
    r->info = out;
    cluster_part_keys(&r->keys, out->name, out->name_size, out->generation,
                      out->part);
    memcpy(r->counts, r->keys.counts, r->keys.size);
    ((char *)memchr(r->counts, '}', r->keys.size))[1] = 'r';
    rc = open_file(&r->file, dir_fd, file, out);
    if (rc == 0)
        rc = restore_part(r);
    out->rows = rows;
    backup_file_close(&r->file);
    free(r);
    return rc;
}
