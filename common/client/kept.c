/* common/client/kept.c - see kept.h. */
#include "common/client/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/base/dirstream.h"
#include "common/client/output.h"
#include "common/store/lmdb/held_files.h"

static void
keep_text(const void *bytes, size_t size, char text[NAME_TEXT_SIZE])
{
    if (size > NAME_MAX_SIZE)
        size = NAME_MAX_SIZE;
    (void)name_escape(bytes, size, text); /* the NUL ends it */
}

static int
read_logs(const struct datadir *d, struct kept *out)
{
    struct logfile_list list;
    const int rc = logfile_list_read(&list, d->log_fd);

    if (rc < 0)
        return rc;
    for (size_t i = 0; i < list.count; i++) {
        if (list.files[i].kind != LOGFILE_BAD)
            continue;
        if (out->logs++ == 0)
            keep_text(list.files[i].name, strlen(list.files[i].name), out->log);
    }
    logfile_list_free(&list);
    return 0;
}

/* One of a newer version may be of any keyspace and of any age; one that is
 * damaged is renamed by the next worker that meets it. */
static int
note_held(void *ctx, const char *file, const struct heldfile *h)
{
    struct kept *out = ctx;

    if (out->held++ == 0 && h->name_size == 0)
        keep_text(file, strlen(file), out->keyspace);
    else if (out->held == 1)
        keep_text(h->name, h->name_size, out->keyspace);
    if (h->newer)
        out->oldest_ms = 0;
    else if ((h->name_size > 0 || h->keyspaces > 0) &&
             h->mark.first_ms < out->oldest_ms)
        out->oldest_ms = h->mark.first_ms;
    return 0;
}

int
kept_each_damaged(const struct datadir *d,
                  int (*file)(void *ctx, const char *file), void *ctx)
{
    const char *name;
    DIR *dir;
    int rc;

    rc = dirstream_open(d->held_fd, ".", &dir);
    if (rc < 0)
        return rc;
    while ((rc = dirstream_next(dir, &name)) > 0) {
        rc = strncmp(name, "bad-", 4) == 0 ? file(ctx, name) : 0;
        if (rc != 0)
            break;
    }
    (void)closedir(dir); /* only read */
    return rc;
}

static int
note_damaged(void *ctx, const char *file)
{
    struct kept *out = ctx;

    if (out->damaged++ == 0)
        keep_text(file, strlen(file), out->file);
    return 0;
}

int
kept_read(const struct datadir *d, struct kept *out)
{
    int rc;

    *out = (struct kept){.oldest_ms = UINT64_MAX};
    rc = read_logs(d, out);
    if (rc == 0)
        rc = heldfile_each(d->held_fd, note_held, out);
    if (rc == 0)
        rc = kept_each_damaged(d, note_damaged, out);
    return rc;
}

void
kept_warn(const struct kept *k, const char *what)
{
    if (k->logs > 0)
        diag(DIAG_WARNING,
             "%s: %zu damaged log%s set aside (log/%s%s); countd log salvage "
             "merges what is valid",
             what, k->logs, output_plural(k->logs), k->log,
             k->logs == 1 ? "" : " ...");
    if (k->held > 0)
        diag(DIAG_WARNING,
             "%s: %zu file%s of records that their keyspace cannot take now "
             "(%s%s), held in held/; countd check says more",
             what, k->held, output_plural(k->held), k->keyspace,
             k->held == 1 ? "" : " ...");
    if (k->damaged > 0)
        diag(DIAG_WARNING,
             "%s: %zu damaged file%s of records set aside (held/%s%s)", what,
             k->damaged, output_plural(k->damaged), k->file,
             k->damaged == 1 ? "" : " ...");
}
