/* common/store/lmdb/held_admin.c - lists, checks and copies what is held. */
#include "common/store/lmdb/held_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/store/lmdb/env.h"

/* The keyspace of a key of records; its size is 0 when the key is damaged. */
static size_t
key_name(const MDB_val *key)
{
    const uint8_t *bytes = key->mv_data, *end = memchr(bytes, 0, key->mv_size);
    const size_t size = end == NULL ? 0 : (size_t)(end - bytes);

    return size <= STORE_NAME_MAX && key->mv_size == size + 9 ? size : 0;
}

/* ---- listing ----------------------------------------------------------- */

struct each {
    struct held *held;
    int (*row)(void *ctx, const struct held_summary *s);
    void *ctx;
    struct held_summary summary; /* of the keyspace so far */
    uint8_t name[STORE_NAME_MAX];
};

/* Gives what is known of the keyspace, when there is one. */
static int
give_row(struct each *e)
{
    struct held_summary *s = &e->summary;
    uint64_t newest;
    int rc;

    if (s->records == 0)
        return 0;
    rc = held_span(e->held, s->name, s->name_size, &s->oldest_ms, &newest);
    return rc < 0 ? rc : e->row(e->ctx, s);
}

static int
add_record(void *ctx, const MDB_val *key, const MDB_val *value)
{
    struct each *e = ctx;
    struct held_summary *s = &e->summary;
    const size_t size = key_name(key);
    struct held_head head;
    int rc;

    if (size != s->name_size || memcmp(key->mv_data, e->name, size) != 0) {
        rc = give_row(e);
        if (rc != 0)
            return rc;
        memcpy(e->name, key->mv_data, size);
        *s = (struct held_summary){
            .name = e->name, .name_size = size, .since_ms = UINT64_MAX};
    }
    s->records++;
    rc = held_head_read(key, value, &head);
    if (rc < 0) {
        s->bytes += value->mv_size;
        s->error = -rc; /* nothing behind it can be applied */
        return 0;
    }
    s->bytes += head.size;
    s->fills += head.marks;
    if (head.held_ms < s->since_ms)
        s->since_ms = head.held_ms;
    if (s->error == 0) /* later ones wait behind it, whatever they say */
        s->error = head.error;
    return 0;
}

int
held_each(struct held *h, int (*row)(void *ctx, const struct held_summary *s),
          void *ctx)
{
    static const struct held_key all;
    struct each e = {.held = h, .row = row, .ctx = ctx};
    int rc;

    if (h->look == NULL)
        return 0;
    rc = held_each_key(h, h->look, h->file.records, &all, add_record, &e);
    return rc != 0 ? rc : give_row(&e);
}

/* ---- checking ---------------------------------------------------------- */

struct check {
    struct held *held;
    void (*fault)(void *ctx, const char *text);
    void *ctx;
    struct store_check_result *out;
    uint64_t bytes; /* of the records */
};

__attribute__((format(printf, 2, 3))) static void
tell(struct check *c, const char *format, ...)
{
    char text[160];
    va_list args;

    if (c->out->faults++ >= 100)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* or cut */
    va_end(args);
    c->fault(c->ctx, text);
}

static void
tell_page(void *ctx, const char *text)
{
    tell(ctx, "%s", text);
}

/* A record, and its fills. */
static int
check_record(void *ctx, const MDB_val *key, const MDB_val *value)
{
    struct check *c = ctx;
    struct held *h = c->held;
    struct held_record record;
    struct held_head head;
    const unsigned long long id = key_name(key) > 0 ? held_key_id(key) : 0;
    int rc;

    c->out->keys++;
    rc = held_head_read(key, value, &head);
    if (rc == 0)
        rc = held_record_read(&h->memory, &head, &record);
    if (rc == -EBADMSG) {
        tell(c, "record %llu is damaged", id);
        return 0;
    }
    if (rc < 0)
        return rc;
    c->out->blocks++;
    c->out->marks += head.marks;
    c->bytes += head.size;
    rc = held_index_find(h, &record.batch, head.id);
    if (rc == -EBADMSG) {
        tell(c, "record %llu: its fills are damaged", id);
        return 0;
    }
    return rc;
}

/* All records, then what must agree with all of them. */
static int
check_contents(struct check *c)
{
    static const struct held_key all;
    struct held *h = c->held;
    int rc;

    rc = held_each_key(h, h->look, h->file.records, &all, check_record, c);
    if (rc == 0 && c->out->faults == 0 && c->bytes != h->looked.bytes)
        tell(c, "the records have %llu bytes, the state says %llu",
             (unsigned long long)c->bytes, (unsigned long long)h->looked.bytes);
    if (rc == 0)
        rc = held_index_check(h, h->look, &h->looked);
    if (rc == -EBADMSG) {
        tell(c, "the keys are not those that the state says");
        rc = 0;
    }
    return rc;
}

int
held_check(struct held *h, void (*fault)(void *ctx, const char *text),
           void *ctx, struct store_check_result *out)
{
    struct check c = {.held = h, .fault = fault, .ctx = ctx, .out = out};
    struct pages_check pages = {.fault = tell_page, .ctx = &c};
    int rc;

    *out = (struct store_check_result){.keys = 0};
    rc = pages_check_named(h->options.data_fd, HELD_FILE, &held_change_counter,
                           &pages, &out->file_size);
    out->used_size = pages.used_size;
    if (rc != 0)
        return rc < 0 && rc != -ENOENT ? rc : 0;
    rc = held_snapshot_begin(h);
    if (rc == -EBADMSG || rc == -EPROTONOSUPPORT) {
        tell(&c, "not a file this program can open: %s", diag_text(rc));
        return 0;
    }
    if (rc == 0 && h->look != NULL)
        rc = check_contents(&c);
    held_snapshot_end(h);
    return rc;
}

/* ---- copying ----------------------------------------------------------- */

int
held_copy(struct held *h, int to_fd)
{
    int rc;

    held_snapshot_end(h);
    rc = held_file_get(h);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    return env_copy(h->file.env, h->file.fd, to_fd, HELD_FILE, &h->holder);
}
