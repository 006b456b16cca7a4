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
#include <string.h>
#include <sys/random.h>

#include "common/base/bytes.h"
#include "common/store/cluster/backup_file.h"
#include "common/store/cluster/cluster_store_internal.h"
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

/* Runs and ends a command; *number is its reply, or the first of it. */
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
    cluster_end(m, 1);
    return rc;
}

/* Begins a command about a key of the part. */
static void
begin_command(struct restore *r, struct cluster_command *m, const char *verb,
              const char *key, size_t key_size)
{
    cluster_begin(m, r->keys.slot, verb);
    cluster_add_word(m, key, key_size);
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
        struct cluster_command m;
        size_t count = 0;

        begin_command(r, &m, "HSET", key, key_size);
        while (count < FIELDS_MAX &&
               (is_more = backup_file_field(&r->file, &at, &f))) {
            cluster_add_word(&m, f.field, f.field_size);
            cluster_add_word(&m, f.value, f.value_size);
            count++;
        }
        if (count > 0)
            rc = run_command(r, &m, NULL);
        else
            cluster_end(&m, 1);
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
    int rc;

    rc = restore_fields(r, r->period, size);
    if (rc < 0)
        return rc;
    begin_command(r, &m, "EXPIREAT", r->period, size);
    cluster_add_number(&m, get_le32(head + 12));
    return run_command(r, &m, NULL);
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

/* Makes the order.  Where another process makes it, this one is done. */
static int
make_order(struct restore *r)
{
    uint8_t token[CLUSTER_MARK_SIZE];
    uint64_t reply = 0;
    int rc = 0;

    if (getrandom(token, sizeof token, 0) != sizeof token)
        return -EIO;
    while (rc == 0 && reply == 0) {
        struct cluster_command m;

        cluster_begin_part(&m, &r->keys, "FCALL countd1_rebuild 2");
        cluster_add_word(&m, token, sizeof token);
        cluster_add_number(&m, ROWS_MAX);
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
    struct cluster_command *m;
    int rc;

    (void)snprintf(parts, sizeof parts, "%" PRIu32 " %" PRIu32,
                   r->info->generation, r->info->parts);
    m = cluster_call_lists(s, "ZADD " CLUSTER_NAMES " 0");
    cluster_add_word(m, r->info->name, r->info->name_size);
    m = cluster_call_lists(s, "HSETNX " CLUSTER_PARTS);
    cluster_add_word(m, r->info->name, r->info->name_size);
    cluster_add_text(m, parts);
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
    struct cluster_command m;
    uint64_t count = 0;
    int rc;

    begin_command(r, &m, "EXISTS", r->keys.counts, r->keys.size);
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
    if (rc < 0)
        return rc;
    begin_command(r, &m, "UNLINK", r->counts, r->keys.size);
    rc = run_command(r, &m, NULL);
    if (rc == 0)
        rc = restore_blocks(r);
    if (rc < 0)
        return rc;
    cluster_begin_part(&m, &r->keys, "FCALL countd1_restore 3");
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
    r->keys = cluster_part_keys(out->name, out->name_size, out->generation,
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
