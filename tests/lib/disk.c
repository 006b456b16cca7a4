/* tests/lib/disk.c - see disk.h.
 *
 * A node is one file or folder for its whole life: inode numbers are used
 * again, nodes are not.  Every noted call is bound to its nodes once, when
 * loaded; a state is then built by going over the calls in order.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <glob.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/crash/powerloss.h"
#include "tests/lib/file.h"
#include "tests/lib/random.h"
#include "tests/lib/test.h"

#define SECTOR    512
#define NODES_MAX 16384
#define NAMES_MAX 16384
#define NO_NODE   UINT32_MAX

struct call {
    struct powerloss_record r;
    uint32_t node;
    uint32_t dir;
    uint32_t dir2;
    const char *name; /* name_size bytes, then name2 */
    const uint8_t *bytes;
};

/* A file or folder as it is durable before the first call. */
struct node {
    uint64_t inode;
    bool folder;
    mode_t mode;
    int64_t mtime_ns;
    uint8_t *bytes;
    size_t size, capacity;
};

struct name {
    uint32_t dir;
    uint32_t node; /* NO_NODE: gone */
    uint16_t size;
    char text[256];
};

struct disk {
    struct node *nodes;
    uint32_t node_count;
    struct name *names;
    uint32_t name_count;
    struct call *calls;
    size_t count, capacity;
    char **logs; /* memory the calls point into */
    size_t log_count;
};

/* How a state treats what nothing made durable. */
enum names_kept { NAMES_NONE, NAMES_ALL, NAMES_TO, NAMES_TO_EACH, NAMES_ANY };
enum bytes_kept { BYTES_NONE, BYTES_ALL, BYTES_TO, BYTES_ANY, BYTES_TORN };

struct plan {
    uint64_t cut;
    enum names_kept names;
    enum bytes_kept bytes;
    unsigned percent; /* of what is kept, where chance decides */
    unsigned when;    /* percent of the way to the cut, for _TO */
    bool latest_attributes;
};

/* ---- what was there before ---------------------------------------------- */

static uint32_t
add_node(struct disk *d, uint64_t inode, bool folder, mode_t mode)
{
    if (d->node_count == NODES_MAX)
        fail_msg("more than %d files in one run", NODES_MAX);
    d->nodes[d->node_count] =
        (struct node){.inode = inode, .folder = folder, .mode = mode};
    return d->node_count++;
}

static uint32_t
find_node(const struct disk *d, uint64_t inode)
{
    /* The latest one with this number is the one that is meant. */
    for (uint32_t i = d->node_count; i-- > 0;)
        if (d->nodes[i].inode == inode)
            return i;
    return NO_NODE;
}

static void
put_name(struct name *names, uint32_t *count, uint32_t dir, const char *text,
         size_t size, uint32_t node)
{
    uint32_t i;

    for (i = 0; i < *count; i++)
        if (names[i].dir == dir && names[i].size == size &&
            memcmp(names[i].text, text, size) == 0)
            break;
    if (i == *count) {
        if (i == NAMES_MAX || size >= sizeof names[i].text)
            fail_msg("too many or too long names");
        names[i].dir = dir;
        names[i].size = (uint16_t)size;
        memcpy(names[i].text, text, size);
        names[i].text[size] = '\0';
        ++*count;
    }
    names[i].node = node;
}

static uint32_t
snapshot_file(struct disk *d, const char *path, const struct stat *st)
{
    struct node *n;
    uint32_t node = find_node(d, st->st_ino);

    if (node != NO_NODE && st->st_nlink > 1)
        return node;
    node = add_node(d, st->st_ino, S_ISDIR(st->st_mode), st->st_mode & 07777);
    n = &d->nodes[node];
    n->mtime_ns = st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
    if (!n->folder)
        n->bytes = file_bytes(path, &n->size);
    return node;
}

struct disk *
disk_snapshot(const char *path)
{
    struct disk *d = test_memory(calloc(1, sizeof *d));
    char *roots[] = {test_memory(strdup(path)), NULL};
    FTS *walk = test_memory(fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL));
    FTSENT *e;

    d->nodes = test_memory(calloc(NODES_MAX, sizeof *d->nodes));
    d->names = test_memory(calloc(NAMES_MAX, sizeof *d->names));
    while ((e = fts_read(walk)) != NULL) {
        if (e->fts_info == FTS_DP)
            continue;
        if (e->fts_info != FTS_D && e->fts_info != FTS_F)
            fail_msg("%s: %s", e->fts_path, strerror(e->fts_errno));
        e->fts_number = snapshot_file(d, e->fts_path, e->fts_statp);
        if (e->fts_level > 0) /* the other is node 0 */
            put_name(d->names, &d->name_count,
                     (uint32_t)e->fts_parent->fts_number, e->fts_name,
                     e->fts_namelen, (uint32_t)e->fts_number);
    }
    (void)fts_close(walk); /* read only */
    free(roots[0]);
    return d;
}

/* ---- what was noted ----------------------------------------------------- */

static void
add_call(struct disk *d, const struct call *c)
{
    if (d->count == d->capacity) {
        d->capacity = d->capacity ? 2 * d->capacity : 4096;
        d->calls =
            test_memory(realloc(d->calls, d->capacity * sizeof *d->calls));
    }
    d->calls[d->count++] = *c;
}

static void
load_log(struct disk *d, const char *path)
{
    size_t at = 0, size, left;
    char *bytes = (char *)file_bytes(path, &size);
    struct call c;

    d->logs =
        test_memory(realloc(d->logs, (d->log_count + 1) * sizeof *d->logs));
    d->logs[d->log_count++] = bytes;
    while (at < size) {
        memset(&c, 0, sizeof c);
        if (size - at < sizeof c.r)
            fail_msg("%s ends within a record", path);
        memcpy(&c.r, bytes + at, sizeof c.r);
        at += sizeof c.r;
        left = (size_t)c.r.name_size + c.r.name2_size;
        if (c.r.magic != POWERLOSS_MAGIC || size - at < left)
            fail_msg("%s is not a log of calls", path);
        c.name = bytes + at;
        at += left;
        if (c.r.kind == POWERLOSS_WRITE) {
            if (size - at < c.r.size)
                fail_msg("%s ends within bytes", path);
            c.bytes = (const uint8_t *)bytes + at;
            at += c.r.size;
        }
        add_call(d, &c);
    }
}

static int
by_seq(const void *a, const void *b)
{
    const struct call *x = a, *y = b;

    return (x->r.seq > y->r.seq) - (x->r.seq < y->r.seq);
}

static void
bind_call(struct disk *d, struct call *c)
{
    switch (c->r.kind) {
    case POWERLOSS_CREATE:
        c->node = add_node(d, c->r.inode, false, c->r.mode);
        break;
    case POWERLOSS_MKDIR:
        c->node = add_node(d, c->r.inode, true, 0700);
        break;
    default:
        c->node = find_node(d, c->r.inode);
        break;
    }
    c->dir = c->r.dir ? find_node(d, c->r.dir) : NO_NODE;
    c->dir2 = c->r.dir2 ? find_node(d, c->r.dir2) : NO_NODE;
    if (c->node == NO_NODE && c->r.kind != POWERLOSS_SYNC_ALL)
        fail_msg("a call (kind %u, name %.*s) on a file nobody made", c->r.kind,
                 (int)c->r.name_size, c->name);
    if ((c->r.dir && c->dir == NO_NODE) || (c->r.dir2 && c->dir2 == NO_NODE))
        fail_msg("a name in a folder nobody made");
}

void
disk_load(struct disk *d, const char *log)
{
    char pattern[1024];
    glob_t found = {0};

    if (snprintf(pattern, sizeof pattern, "%s.*", log) >= (int)sizeof pattern)
        fail_msg("a path is too long");
    if (glob(pattern, 0, NULL, &found) != 0)
        fail_msg("nothing was noted in %s", pattern);
    for (size_t i = 0; i < found.gl_pathc; i++)
        load_log(d, found.gl_pathv[i]);
    globfree(&found);
    qsort(d->calls, d->count, sizeof *d->calls, by_seq);
    for (size_t i = 0; i < d->count; i++)
        bind_call(d, &d->calls[i]);
}

uint64_t
disk_last(const struct disk *d)
{
    uint64_t last = 0;

    for (size_t i = 0; i < d->count; i++) {
        const struct powerloss_record *r = &d->calls[i].r;

        last = r->seq > last ? r->seq : last;
        last = r->end > last ? r->end : last;
    }
    return last;
}

uint64_t
disk_cut_in_sync(const struct disk *d, uint64_t pick)
{
    /* The rarer fsync, of new files and of folders, as often as fdatasync. */
    uint16_t kind = pick % 2 ? POWERLOSS_FSYNC : POWERLOSS_FDATASYNC;

    for (size_t i = 0; i < d->count; i++) {
        const struct call *c = &d->calls[(pick / 2 + i) % d->count];

        if (c->r.kind == kind)
            return c->r.seq + 1 + pick % (c->r.end - c->r.seq);
    }
    return disk_last(d);
}

size_t
disk_count(const struct disk *d)
{
    return d->count;
}

void
disk_free(struct disk *d)
{
    for (size_t i = 0; i < d->node_count; i++)
        free(d->nodes[i].bytes);
    for (size_t i = 0; i < d->log_count; i++)
        free(d->logs[i]);
    free(d->nodes);
    free(d->names);
    free(d->calls);
    free(d->logs);
    free(d);
}

/* ---- a state ------------------------------------------------------------ */

static void
make_plan(struct plan *p, uint64_t cut, uint64_t seed, struct random *r)
{
    static const unsigned percents[] = {10, 50, 90};

    r->state = seed;
    p->cut = cut;
    p->names = (enum names_kept)random_below(r, 5);
    p->bytes = (enum bytes_kept)random_below(r, 5);
    p->percent = percents[random_below(r, 3)];
    p->when = (unsigned)random_below(r, 101);
    p->latest_attributes = random_chance(r, 30);
}

void
disk_describe(uint64_t seed, char *text, size_t size)
{
    static const char *const names[] = {
        "no names", "all names", "names up to a moment",
        "names up to a moment per folder", "any names"};
    static const char *const bytes[] = {"no bytes", "all bytes",
                                        "bytes up to a moment", "any writes",
                                        "any sectors"};
    struct random r;
    struct plan p;

    make_plan(&p, 0, seed, &r);
    (void)snprintf(text, size, "%s, %s, %u%% kept, moment %u%%", names[p.names],
                   bytes[p.bytes], p.percent,
                   p.when); /* may be cut: for people */
}

struct state {
    const struct disk *disk;
    struct plan plan;
    struct random random;
    size_t count;      /* calls before the cut */
    uint64_t *covered; /* of each node: calls below are durable (bytes) */
    uint64_t *fsynced; /* the same of mode, mtime, or names in it */
    uint64_t *moment;  /* of each folder, for NAMES_TO_EACH */
    struct node *nodes;
    struct name *names;
    uint32_t name_count;
};

/* Which syncs were over before the cut. */
static void
take_syncs(struct state *s)
{
    const struct disk *d = s->disk;

    for (size_t i = 0; i < s->count; i++) {
        const struct call *c = &d->calls[i];
        bool full = c->r.kind == POWERLOSS_FSYNC;

        if (c->r.end == 0 || c->r.end >= s->plan.cut)
            continue;
        if (c->r.kind == POWERLOSS_SYNC_ALL) {
            for (uint32_t k = 0; k < d->node_count; k++)
                s->covered[k] = s->fsynced[k] = c->r.seq;
        } else {
            s->covered[c->node] = c->r.seq;
            if (full)
                s->fsynced[c->node] = c->r.seq;
        }
    }
}

static bool
keep_name(struct state *s, const struct call *c)
{
    const struct plan *p = &s->plan;

    if (c->r.seq < s->fsynced[c->dir])
        return true;
    switch (p->names) {
    case NAMES_NONE:
        return false;
    case NAMES_ALL:
        return true;
    case NAMES_TO:
        return c->r.seq < p->cut / 100 * p->when;
    case NAMES_TO_EACH:
        return c->r.seq < s->moment[c->dir];
    case NAMES_ANY:
        break;
    }
    return random_chance(&s->random, p->percent);
}

static void
drop_name(struct state *s, uint32_t dir, const char *text, size_t size,
          uint32_t node)
{
    for (uint32_t i = 0; i < s->name_count; i++)
        if (s->names[i].dir == dir && s->names[i].size == size &&
            memcmp(s->names[i].text, text, size) == 0 &&
            s->names[i].node == node)
            s->names[i].node = NO_NODE;
}

static void
apply_name(struct state *s, const struct call *c)
{
    const char *name2 = c->name + c->r.name_size;

    if (c->r.name_size == 0 || !keep_name(s, c))
        return;
    switch (c->r.kind) {
    case POWERLOSS_CREATE:
    case POWERLOSS_MKDIR:
    case POWERLOSS_LINK:
        put_name(s->names, &s->name_count, c->dir, c->name, c->r.name_size,
                 c->node);
        break;
    case POWERLOSS_UNLINK:
        drop_name(s, c->dir, c->name, c->r.name_size, c->node);
        break;
    case POWERLOSS_RENAME:
        drop_name(s, c->dir, c->name, c->r.name_size, c->node);
        put_name(s->names, &s->name_count, c->dir2, name2, c->r.name2_size,
                 c->node);
        break;
    default:
        break;
    }
}

static void
set_size(struct node *n, size_t size)
{
    if (size > n->capacity) {
        n->capacity = size < 4096 ? 4096 : 2 * size;
        n->bytes = test_memory(realloc(n->bytes, n->capacity));
    }
    if (size > n->size)
        memset(n->bytes + n->size, 0, size - n->size);
    n->size = size;
}

/* Puts the bytes of one write that lie in [from, to). */
static void
put_part(struct node *n, const struct call *c, size_t from, size_t to)
{
    size_t at = (size_t)c->r.at, end = at + c->r.size;

    from = from > at ? from : at;
    to = to < end ? to : end;
    if (from >= to)
        return;
    if (to > n->size)
        set_size(n, to);
    memcpy(n->bytes + from, c->bytes + (from - at), to - from);
}

static void
apply_write(struct state *s, const struct call *c)
{
    const struct plan *p = &s->plan;
    struct node *n = &s->nodes[c->node];
    size_t end = (size_t)c->r.at + c->r.size, at;
    bool keep = false;

    if (c->r.durable || c->r.seq < s->covered[c->node]) {
        put_part(n, c, 0, end);
        return;
    }
    if (p->bytes == BYTES_TORN) {
        for (at = (size_t)c->r.at / SECTOR * SECTOR; at < end; at += SECTOR)
            if (random_chance(&s->random, p->percent))
                put_part(n, c, at, at + SECTOR);
    } else {
        keep = p->bytes == BYTES_ALL ||
               (p->bytes == BYTES_TO && c->r.seq < p->cut / 100 * p->when) ||
               (p->bytes == BYTES_ANY && random_chance(&s->random, p->percent));
        if (keep)
            put_part(n, c, 0, end);
    }
    /* The size may arrive without the bytes. */
    if (end > n->size && p->bytes != BYTES_NONE &&
        random_chance(&s->random, 50))
        set_size(n, end);
}

static void
apply_attribute(struct state *s, const struct call *c)
{
    struct node *n = &s->nodes[c->node];
    bool size = c->r.kind == POWERLOSS_SIZE;
    uint64_t covered = size ? s->covered[c->node] : s->fsynced[c->node];

    if (c->r.seq >= covered && !s->plan.latest_attributes &&
        !random_chance(&s->random, s->plan.percent))
        return;
    if (size)
        set_size(n, (size_t)c->r.at);
    else if (c->r.kind == POWERLOSS_MODE)
        n->mode = c->r.mode;
    else
        n->mtime_ns = c->r.at;
}

static void
apply_calls(struct state *s)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct call *c = &s->disk->calls[i];

        switch (c->r.kind) {
        case POWERLOSS_WRITE:
            apply_write(s, c);
            break;
        case POWERLOSS_SIZE:
        case POWERLOSS_MODE:
        case POWERLOSS_TIME:
            apply_attribute(s, c);
            break;
        default:
            apply_name(s, c);
            break;
        }
    }
}

static void
set_attributes(const struct node *n, const char *path)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};

    times[1].tv_sec = n->mtime_ns / 1000000000;
    times[1].tv_nsec = n->mtime_ns % 1000000000;
    if (n->mtime_ns != 0 && utimensat(AT_FDCWD, path, times, 0) < 0)
        fail_msg("time of %s: %s", path, strerror(errno));
    if (chmod(path, n->mode) < 0)
        fail_msg("mode of %s: %s", path, strerror(errno));
}

/* The path of a name below `base`, through the names of its folders as they
 * are; false: these do not lead up to the root. */
static bool
path_of(const struct state *s, const char *base, const struct name *name,
        char *path, size_t size)
{
    char below[1024] = "", longer[1024];
    const struct name *n = name;
    uint32_t i;
    int used;

    for (int steps = 0; steps < 16; steps++) {
        used = snprintf(longer, sizeof longer, "/%s%s", n->text, below);
        if (used < 0 || (size_t)used >= sizeof longer)
            fail_msg("a path is too long");
        strcpy(below, longer);
        if (n->dir == 0) {
            used = snprintf(path, size, "%s%s", base, below);
            if (used < 0 || (size_t)used >= size)
                fail_msg("a path is too long");
            return true;
        }
        for (i = 0; i < s->name_count && s->names[i].node != n->dir; i++)
            ;
        if (i == s->name_count)
            return false;
        n = &s->names[i];
    }
    return false;
}

static void
write_state(struct state *s, const char *base)
{
    uint32_t *seen = test_memory(calloc(s->disk->node_count, sizeof *seen));
    char path[1024], first[1024];

    /* Folders come before what is in them: they were made first. */
    for (uint32_t i = 0; i < s->name_count; i++) {
        struct name *n = &s->names[i];

        if (n->node != NO_NODE && s->nodes[n->node].folder &&
            path_of(s, base, n, path, sizeof path) && mkdir(path, 0700) < 0)
            fail_msg("mkdir %s: %s", path, strerror(errno));
    }
    for (uint32_t i = 0; i < s->name_count; i++) {
        struct name *n = &s->names[i];

        if (n->node == NO_NODE || s->nodes[n->node].folder ||
            !path_of(s, base, n, path, sizeof path))
            continue;
        if (seen[n->node] == 0)
            file_put(path, s->nodes[n->node].bytes, s->nodes[n->node].size);
        else if (!path_of(s, base, &s->names[seen[n->node] - 1], first,
                          sizeof first) ||
                 link(first, path) < 0)
            fail_msg("link %s: %s", path, strerror(errno));
        set_attributes(&s->nodes[n->node], path);
        seen[n->node] = i + 1;
    }
    free(seen);
}

static void
begin_state(struct state *s, uint64_t cut, uint64_t seed)
{
    const struct disk *d = s->disk;

    make_plan(&s->plan, cut, seed, &s->random);
    while (s->count < d->count && d->calls[s->count].r.seq < cut)
        s->count++;
    s->covered = test_memory(calloc(d->node_count, sizeof *s->covered));
    s->fsynced = test_memory(calloc(d->node_count, sizeof *s->fsynced));
    s->moment = test_memory(calloc(d->node_count, sizeof *s->moment));
    s->nodes = test_memory(calloc(d->node_count, sizeof *s->nodes));
    s->names = test_memory(calloc(NAMES_MAX, sizeof *s->names));
    memcpy(s->names, d->names, d->name_count * sizeof *s->names);
    s->name_count = d->name_count;
    for (uint32_t i = 0; i < d->node_count; i++) {
        s->nodes[i] = d->nodes[i];
        s->nodes[i].bytes = NULL;
        s->nodes[i].size = s->nodes[i].capacity = 0;
        if (d->nodes[i].size > 0) {
            set_size(&s->nodes[i], d->nodes[i].size);
            memcpy(s->nodes[i].bytes, d->nodes[i].bytes, d->nodes[i].size);
        }
        s->moment[i] = random_below(&s->random, cut + 1);
    }
}

void
disk_build(const struct disk *d, uint64_t cut, uint64_t seed, const char *path)
{
    struct state s = {.disk = d};

    begin_state(&s, cut, seed);
    take_syncs(&s);
    apply_calls(&s);
    write_state(&s, path);
    for (uint32_t i = 0; i < d->node_count; i++)
        free(s.nodes[i].bytes);
    free(s.covered);
    free(s.fsynced);
    free(s.moment);
    free(s.nodes);
    free(s.names);
}
