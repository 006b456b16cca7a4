/* common/client/cmd/keyspaces.c - countd keyspaces: the keyspaces, the
 * number of their keys, their totals, and their files.
 *
 * Names and keys arrive page by page; totals are requested a page at a time.
 * Size and file are shown only with access to the data directory.  Read from
 * the end: cmd_keyspaces(), run_list(), take_pages(). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/client/cmd/output.h"
#include "common/client/cmd/wait_merged.h"

#define FILE_SIZE (NAME_FILE_SIZE + sizeof ".mdb")

static const struct table_column columns[] = {
    {"keys", "keys", true},  {"total", "total", true},
    {"size", "size", true},  {"keyspace", "keyspace", false},
    {"file", "file", false},
};

struct entry {
    struct cmd_name name;
    int64_t keys;  /* below 0: its file cannot be read */
    int64_t total; /* if `has_total` */
    int64_t size;  /* bytes on disk; below 0: not known */
    bool has_total;
    char file[FILE_SIZE]; /* "": not known */
};

struct keyspaces_list {
    struct countd *c;
    struct datadir dir;
    bool has_dir;
    struct entry *entries; /* of one page */
    size_t count, capacity;
    int64_t as_of_ms;
    bool answered; /* nothing is printed before that */
    struct output out;
};

/* ---- one entry --------------------------------------------------------- */

/* Blocks, not length: a file has room that was never written. */
static void
find_file(const struct keyspaces_list *l, struct entry *e)
{
    char base[NAME_FILE_SIZE];
    struct stat st;

    e->size = -1;
    if (!l->has_dir)
        return;
    name_to_file(e->name.bytes, e->name.size, base);
    (void)snprintf(e->file, sizeof e->file, "%s.mdb", base);
    if (fstatat(l->dir.keyspace_fd, e->file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        e->file[0] = '\0';
    else
        e->size = (int64_t)st.st_blocks * 512;
}

static void
print_entry(struct keyspaces_list *l, const struct entry *e)
{
    const struct cell cells[] = {
        e->keys < 0 ? cell_none() : cell_number(e->keys),
        e->has_total ? cell_number(e->total) : cell_none(),
        e->size < 0 ? cell_none() : cell_number(e->size),
        cell_name(e->name.bytes, e->name.size),
        e->file[0] != '\0' ? cell_text(e->file) : cell_none(),
    };

    output_row(&l->out, cells);
}

/* ---- a page ------------------------------------------------------------ */

static int
grow_list(struct keyspaces_list *l, size_t count)
{
    const size_t capacity = 2 * (l->count + count);
    struct entry *larger;

    if (l->count + count <= l->capacity)
        return 0;
    larger = realloc(l->entries, capacity * sizeof *larger);
    if (larger == NULL)
        return -ENOMEM;
    l->entries = larger;
    l->capacity = capacity;
    return 0;
}

/* The totals of the entries.  One that cannot be read, or that has gone, has
 * none. */
static int
request_totals(struct keyspaces_list *l)
{
    const size_t count = l->count;
    struct countd_key *keys = calloc(count, sizeof *keys);
    int rc;

    if (keys == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        keys[i].keyspace = l->entries[i].name.bytes;
        keys[i].keyspace_size = l->entries[i].name.size;
    }
    rc = countd_gets(l->c, keys, count);
    for (size_t i = 0; i < count; i++) {
        l->entries[i].has_total = keys[i].result == 0;
        l->entries[i].total = keys[i].count;
    }
    free(keys);
    return rc == -EIO ? 0 : rc;
}

static int
take_page(struct keyspaces_list *l, const struct countd_rows *rows)
{
    int rc;

    rc = rows->count > 0 ? grow_list(l, rows->count) : 0;
    if (rc < 0 || rows->count == 0)
        return rc;
    for (size_t i = 0; i < rows->count; i++) {
        struct entry *e = &l->entries[l->count++];

        *e = (struct entry){.keys = rows->rows[i].count};
        e->name.size = rows->rows[i].key_size;
        memcpy(e->name.bytes, rows->rows[i].key, e->name.size);
        find_file(l, e);
    }
    rc = request_totals(l);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < l->count; i++)
        print_entry(l, &l->entries[i]);
    l->count = 0;
    return 0;
}

/* Asks for those after the last one until none is left. */
static int
take_pages(struct keyspaces_list *l)
{
    struct cmd_name after = {0};
    size_t got;

    do {
        struct countd_rows *rows;
        int rc = countd_keyspaces(l->c, after.bytes, after.size, &rows);

        if (rc < 0)
            return rc;
        if (!l->answered)
            l->as_of_ms = rows->as_of_ms;
        l->answered = true;
        got = rows->count;
        if (got > 0) {
            after.size = rows->rows[got - 1].key_size;
            memcpy(after.bytes, rows->rows[got - 1].key, after.size);
        }
        rc = take_page(l, rows);
        countd_rows_free(rows);
        if (rc < 0)
            return rc;
    } while (got > 0);
    return 0;
}

/* ---- the subcommand ---------------------------------------------------- */

/* Says nothing of a directory that is not there or not for this user. */
static int
open_dir(const struct cmd_line *line, struct keyspaces_list *l)
{
    int status;

    if (!wait_has_datadir(line))
        return 0;
    status = wait_datadir(line, &l->dir);
    l->has_dir = status == 0;
    return status;
}

static int
run_list(struct keyspaces_list *l)
{
    const int rc = take_pages(l);

    free(l->entries);
    if (l->answered)
        output_rows_end(&l->out);
    if (rc == 0)
        output_as_of(&l->out, l->as_of_ms);
    return rc;
}

int
cmd_keyspaces(struct cmd_line *line)
{
    struct keyspaces_list l = {0};
    int rc, status;

    status = cmd_connect(line, CMD_READER, 0, &l.c);
    if (status != 0)
        return status;
    status = open_dir(line, &l);
    if (status != 0) {
        (void)countd_close(l.c); /* nothing was sent to be counted */
        return status;
    }
    output_init(&l.out, line, columns, sizeof columns / sizeof columns[0]);
    rc = run_list(&l);
    if (l.answered)
        status = output_fini(&l.out);
    (void)countd_close(l.c); /* nothing was sent to be counted */
    if (l.has_dir)
        datadir_close(&l.dir);
    return rc < 0 ? cmd_peer_failed(line, CMD_READER, rc) : status;
}
