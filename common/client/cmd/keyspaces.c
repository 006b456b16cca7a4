/* common/client/cmd/keyspaces.c - countd keyspaces: the keyspaces, the
 * number of their keys, their totals, and their files.
 *
 * Names and keys arrive page by page; totals are requested a page at a time.
 * Size and file are shown only with access to the data directory.  Read from
 * the end: cmd_keyspaces(), run_list(), print_page(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/client/cmd/cmd_data.h"

#define FILE_SIZE (NAME_FILE_SIZE + sizeof ".mdb")

static const struct table_column columns[] = {
    {"keys", "keys", true},  {"total", "total", true},
    {"size", "size", true},  {"keyspace", "keyspace", false},
    {"file", "file", false},
};

struct keyspaces_list {
    struct countd *c;
    struct datadir dir;
    bool has_dir;
    int64_t as_of_ms;
    bool answered; /* nothing is printed before that */
    struct output out;
};

/* Size on disk, below 0 if it is not known: of blocks, not the length, since a
 * file has space that was never written. */
static int64_t
find_file(const struct keyspaces_list *l, const struct countd_row *row,
          char file[FILE_SIZE])
{
    char base[NAME_FILE_SIZE];
    struct stat st;

    if (!l->has_dir)
        return -1;
    name_to_file((const uint8_t *)row->key, row->key_size, base);
    (void)snprintf(file, FILE_SIZE, "%s.mdb", base);
    if (fstatat(l->dir.keyspace_fd, file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -1;
    return (int64_t)st.st_blocks * 512;
}

/* `row->count` is the number of keys, below 0 if its file cannot be read. */
static void
print_keyspace(struct keyspaces_list *l, const struct countd_row *row,
               const struct countd_key *total)
{
    char file[FILE_SIZE];
    const int64_t size = find_file(l, row, file);
    const struct cell cells[] = {
        row->count < 0 ? cell_none() : cell_number(row->count),
        total->result == 0 ? cell_number(total->count) : cell_none(),
        size < 0 ? cell_none() : cell_number(size),
        cell_name(row->key, row->key_size),
        size < 0 ? cell_none() : cell_text(file),
    };

    output_row(&l->out, cells);
}

/* A keyspace that cannot be read, or that has gone, has no total. */
static int
print_page(void *ctx, const struct countd_rows *rows)
{
    struct countd_key *totals = calloc(rows->count + 1, sizeof *totals);
    struct keyspaces_list *l = ctx;
    int rc;

    if (!l->answered)
        l->as_of_ms = rows->as_of_ms;
    l->answered = true;
    if (totals == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < rows->count; i++) {
        totals[i].keyspace = rows->rows[i].key;
        totals[i].keyspace_size = rows->rows[i].key_size;
    }
    rc = countd_gets(l->c, totals, rows->count);
    if (rc == -EIO || rc == -EHOSTDOWN)
        rc = 0;
    for (size_t i = 0; rc == 0 && i < rows->count; i++)
        print_keyspace(l, &rows->rows[i], &totals[i]);
    free(totals);
    return rc;
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
    const int rc = lookup_keyspaces(l->c, print_page, l);

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
    output_init(&l.out, line, OUTPUT_COLUMNS(columns));
    rc = run_list(&l);
    if (l.answered)
        status = output_fini(&l.out);
    (void)countd_close(l.c); /* nothing was sent to be counted */
    if (l.has_dir)
        datadir_close(&l.dir);
    return rc < 0 ? cmd_peer_failed(line, CMD_READER, rc) : status;
}
