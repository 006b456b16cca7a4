/* common/client/cmd/load_once.c - countd load --once: files whose increments
 * count once, however often they are loaded.
 *
 * A file is read twice: to see that all of it is good, and for the hash of its
 * increments, which is the name of a log that never was; then it is placed in
 * log/waiting/ in fills of that log, and a worker merges them.  Lines that were
 * added in between are left out, as they are not in the name.  The fills of the
 * same increments are the same ones, since they are cut by count alone, and the
 * marks of a keyspace say which it has: so a load that was killed goes on, and
 * one that came to its end adds nothing.
 *
 * Entry points: load_once(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/hash.h"
#include "common/client/cmd/cmd_data.h"

#define FILL_RECORDS                                                           \
    65536 /* of all fills but the last: part of what they are */
#define RECEIVED_MS UINT64_C(60000) /* of every fill, also part */
#define HEAD_SIZE   16              /* of a record in memory */

struct once {
    struct load *load;
    struct store_session in;
    struct place place;
    uint64_t hash[2];           /* of the increments that were read */
    uint64_t count;             /* of the file; then those not placed yet */
    struct archive_header fill; /* that is being collected */
    uint8_t *bytes;             /* its records */
    size_t size, capacity;
    uint64_t increments; /* of all files */
    int left_out;        /* the worst exit status of a file that is left out */
};

/* ---- reading ------------------------------------------------------------- */

/* Calls `take` with each increment of a file.  0, -EIO: it was reported, or what
 * `take` returns. */
static int
read_file(struct once *o, const char *path,
          int (*take)(struct once *o, const struct increment *i))
{
    struct load *l = o->load;
    struct lines lines;
    const char *text;
    size_t size;
    int filled, rc = 0;

    filled = load_begin_file(l, path, &lines);
    if (filled < 0)
        return -EIO;
    while (rc == 0 && !l->stopped && (filled = lines_fill(&lines)) > 0)
        while (rc == 0 && !l->stopped && lines_next(&lines, &text, &size)) {
            struct increment i;

            if (load_read_line(l, &lines, text, size, &i))
                rc = take(o, &i);
        }
    load_end_file(l, &lines, filled);
    return rc == 0 && l->file_status != 0 ? -EIO : rc;
}

/* The hash of an increment, on top of those before it. */
static void
hash_increment(struct once *o, const struct increment *i)
{
    static const struct hash_key keys[2] = {{1, 2}, {3, 4}};
    uint8_t bytes[HEAD_SIZE + 8 + 2 * NAME_MAX_SIZE], *at = bytes;

    put_le64s(at, i->count);
    put_le64s(at + 8, i->at);
    put_le64(at + 16, i->keyspace.size);
    at = bytes_append(at + 24, i->keyspace.bytes, i->keyspace.size);
    at = bytes_append(at, i->key.bytes, i->key.size);
    for (int k = 0; k < 2; k++)
        o->hash[k] =
            hash_name(&keys[k], o->hash[k], bytes, (size_t)(at - bytes));
}

static int
count_increment(struct once *o, const struct increment *i)
{
    hash_increment(o, i);
    o->count++;
    return 0;
}

/* ---- placing ------------------------------------------------------------- */

static int
read_fill(void *ctx, slot_visit *visit, void *visit_ctx)
{
    const struct slot_stamp stamp = {.received_ms = RECEIVED_MS};
    const struct once *o = ctx;
    int rc = 0;

    for (size_t at = 0; rc == 0 && at < o->size;) {
        const uint8_t *b = o->bytes + at;
        const struct message m = {.increment = get_le64s(b),
                                  .minute = get_le32(b + 8),
                                  .keyspace_size = get_le16(b + 12),
                                  .key_size = get_le16(b + 14),
                                  .keyspace = b + HEAD_SIZE,
                                  .key = b + HEAD_SIZE + get_le16(b + 12)};

        rc = visit(visit_ctx, 0, &m, &stamp); /* it needs no number */
        at += (size_t)HEAD_SIZE + m.keyspace_size + m.key_size;
    }
    return rc;
}

static int
place_collected(struct once *o)
{
    int rc = 0;

    if (o->fill.count > 0) {
        o->fill.epoch++;
        rc = place_fill(&o->place, &o->fill,
                        &(struct waiting_source){read_fill, o});
    }
    o->fill.count = 0;
    o->size = 0;
    return rc;
}

static int
collect_increment(struct once *o, const struct increment *i)
{
    const size_t size = HEAD_SIZE + i->keyspace.size + i->key.size;
    uint8_t *at;

    if (o->count == 0)
        return 0;
    o->count--;
    hash_increment(o, i);
    if (array_grow(&o->bytes, &o->capacity, o->size + size, 1) < 0)
        return -ENOMEM;
    at = o->bytes + o->size;
    put_le64s(at, i->count);
    put_le32(at + 8, (uint32_t)(i->at / 60));
    put_le16(at + 12, (uint16_t)i->keyspace.size);
    put_le16(at + 14, (uint16_t)i->key.size);
    at = bytes_append(at + HEAD_SIZE, i->keyspace.bytes, i->keyspace.size);
    (void)bytes_append(at, i->key.bytes, i->key.size);
    o->size += size;
    return ++o->fill.count == FILL_RECORDS ? place_collected(o) : 0;
}

/* A file that cannot be read or has bad lines is left out.  Returns an exit
 * status, of what no other file can be loaded after. */
static int
load_one(struct once *o, const char *path)
{
    const struct config *c = &o->load->line->config;
    const uint64_t bad = o->load->bad;
    uint64_t name[2];
    int rc;

    memset(o->hash, 0, sizeof o->hash);
    o->count = 0;
    o->load->file_status = 0;
    rc = read_file(o, path, count_increment);
    o->increments += o->count;
    if (rc == 0 && o->load->bad > bad)
        o->load->file_status =
            cmd_fail(CONFIG_EXIT_NEGATIVE,
                     "%s: nothing of it is loaded: it has bad lines", path);
    o->left_out = cmd_worse(o->left_out, o->load->file_status);
    if (o->load->file_status != 0)
        return 0;
    o->fill =
        (struct archive_header){.features = ARCHIVE_HAS_TIMES,
                                .first_ms = RECEIVED_MS,
                                .last_ms = RECEIVED_MS,
                                .slots = FILL_RECORDS,
                                .keyspace_size = (uint16_t)c->keyspace_size,
                                .key_size = (uint16_t)c->key_size};
    log_fill_name_import(o->fill.uuid, o->hash);
    memcpy(name, o->hash, sizeof name);
    memset(o->hash, 0, sizeof o->hash);
    rc = read_file(o, path, collect_increment);
    if (o->load->file_status != 0 ||
        (rc == 0 && (o->count > 0 || memcmp(name, o->hash, sizeof name) != 0)))
        return cmd_fail(CONFIG_EXIT_SYSTEM,
                        "%s changed while it was read, and may be loaded in "
                        "part: countd drop its keyspaces, and load it again",
                        path);
    if (rc == 0)
        rc = place_collected(o);
    return rc < 0 ? cmd_failed(rc, "place %s in log/waiting/", path) : 0;
}

/* ---- the whole ----------------------------------------------------------- */

static void
print_result(const struct once *o)
{
    const struct place *p = &o->place;
    struct output out;

    output_init(&out, o->load->line, NULL, 0);
    output_count(&out, "increments", o->increments);
    output_count(&out, "merged", p->wanted - p->waiting);
    output_count(&out, "already_merged", p->already + p->passed);
    output_count(&out, "waiting", p->waiting);
    output_text(
        &out,
        "%" PRIu64 " increment%s: %" PRIu64 " %s, %" PRIu64 " merged before",
        o->increments, output_plural(o->increments), p->wanted - p->waiting,
        p->dry_run ? "would be merged" : "merged", p->already + p->passed);
    if (p->waiting > 0)
        output_text(&out, ", %" PRIu64 " wait (countd held)", p->waiting);
    output_text(&out, "\n");
    output_fini(&out);
}

/* What was placed is merged in any case. */
static int
load_all(struct once *o)
{
    const struct cmd_line *line = o->load->line;
    int status = 0;

    o->place.in = &o->in;
    for (int i = 0; status == 0 && !o->load->stopped && i < line->arg_count;
         i++)
        status = load_one(o, line->args[i]);
    status = cmd_worse(status, place_merge(&o->place, line));
    /* After a failure it is not known what is merged. */
    if (status < CONFIG_EXIT_SYSTEM)
        print_result(o);
    return cmd_worse(status, o->left_out);
}

int
load_once(struct load *l)
{
    struct once o = {.load = l};
    bool is_input = l->line->arg_count == 0;
    int status;

    for (int i = 0; i < l->line->arg_count; i++)
        is_input |= strcmp(l->line->args[i], "-") == 0;
    if (is_input)
        return cmd_fail(CONFIG_EXIT_USAGE,
                        "--once: give files, which are read twice");
    if (l->line->host || l->peer == CMD_WRITER_SILENT)
        return cmd_misuse(l->line, l->line->host ? "-H" : "--silent",
                          "--once works in the data directory of this machine, "
                          "and asks no daemon");
    o.place.dry_run = cmd_value(l->line, "dry-run") != NULL;
    status = store_session_open(
        l->line, o.place.dry_run ? SESSION_READ : SESSION_MAKE, &o.in);
    if (status != 0)
        return status;
    status = load_all(&o);
    place_fini(&o.place);
    store_session_close(&o.in);
    free(o.bytes);
    return status;
}
