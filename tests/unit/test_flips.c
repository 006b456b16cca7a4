/* tests/unit/test_flips.c - any one bit of what is on disk flips, and a worker,
 * a reader and `countd check` come by: all counts are right, or a daemon says
 * that they are not and the check finds a fault.  Never wrong and silent; never
 * a crash, a hang, or memory without end.
 *
 * Every bit of what each kind of file has, where it means something; one bit of
 * each byte where nothing should; then random bits of all files together
 * (TEST_SEED repeats them).  All of it in this process, in children that are
 * forked for a run of bits; the one at hand is known when they die.  The logs'
 * own rules are in test_flips_log. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/log/log.h"
#include "common/store/history/runs.h"
#include "common/store/lmdb/pages_layout.h"
#include "common/store/tree/block.h"
#include "tests/lib/daemon.h"
#include "tests/lib/pagekind.h"
#include "tests/lib/random.h"
#include "tests/lib/specimen.h"
#include "tests/lib/stored.h"
#include "worker/merge.h"

#define SITES_MAX   200000
#define MEMORY_MAX  ((rlim_t)512 << 20)
#define CPU_SECONDS 60 /* of one child, which has seconds of work */
#define TEXT_MAX    4000
#define ROUNDS      6 /* of a worker, until it is idle */
#define FAILS_TOLD  20
#define RANDOM      1000
#define WHOLE       (-1)

/* One thing that can happen to a file. */
struct site {
    uint32_t at;
    uint32_t size; /* bytes */
    uint16_t file;
    uint8_t mask; /* of each of them */
};

/* What became of it. */
enum outcome {
    RIGHT,   /* all counts are what they should be */
    TOLD,    /* they are not, a daemon said so, and check exits 1 */
    UNTOLD,  /* they are not, and no daemon said a word */
    UNFOUND, /* they are not, and check finds no fault */
    SILENT,  /* they are not, and neither */
    OUTCOMES
};

/* Shared with the children. */
struct shared {
    size_t next; /* the site at hand */
    size_t counts[OUTCOMES];
    unsigned fails;
    bool again;          /* in a child that has said nothing yet */
    char text[TEXT_MAX]; /* that the daemons said */
};

static struct specimen specimen;
static struct site *sites;
static size_t site_count;
static struct shared *shared;
static size_t summed;  /* bits that a checksum alone was asked about */
static unsigned fails; /* of this test */
static int said_fd;    /* what is printed */
static struct config config;
static int64_t want[SPECIMEN_NAMES][SPECIMEN_KEYS];

/* ---- the three that come by -------------------------------------------- */

static uint64_t pass_ms;

static uint64_t
pass_now(void)
{
    return pass_ms;
}

/* A worker: merges what is full, and what waits. */
static void
work_all(void)
{
    struct store *store = specimen_store(&specimen, true);
    static struct merge merge;

    assert_rc(merge_open(&merge, &config, &specimen.data, store), 0);
    merge.batch.retry_most_ms = 0;
    merge.pass.now_ms = pass_now;
    for (int i = 0; i < ROUNDS; i++) {
        const enum merge_outcome did = merge_run(&merge);
        const uint64_t due = merge_waiting(&merge);

        pass_ms += PASS_RETRY_MOST_MS;
        if (did == MERGE_IDLE && due == UINT64_MAX)
            break;
    }
    merge_close(&merge);
    store_close(store);
}

/* What a worker asks of one keyspace: a little, then every key, which folds
 * buffers. */
static void
work_light(enum specimen_keyspace k)
{
    struct store *store = specimen_store(&specimen, true);

    if (specimen_add(store, k, 250, 5, 8, 5) == 0)
        (void)specimen_add(store, k, 251, 0, specimen_keys(k), 7); /* or says */
    store_close(store);
}

/* A reader: whether all it answers is right. */
static bool
read_all(unsigned parts)
{
    struct store *store = specimen_store(&specimen, false);
    struct waiting w;
    bool right = true;

    for (int i = 0; i < SPECIMEN_NAMES; i++)
        if ((parts & 1u << i) != 0 &&
            !specimen_is_right(store, (enum specimen_keyspace)i, want[i]))
            right = false;
    if ((parts & 1u << SPECIMEN_SICK) != 0) {
        assert_rc(waiting_open(&w, specimen.data.log_fd, false, true, 0), 0);
        (void)waiting_list(&w); /* or says it */
        waiting_close(&w);
    }
    store_close(store);
    return right;
}

/* `countd check`: whether it finds a fault. */
static bool
check_keyspace(const char *keyspace)
{
    static const struct cmd cmd = {.name = "check"};
    char name[257], *args[1] = {name};
    int status = 0;
    struct cmd_line line = {.status = &status,
                            .cmd = &cmd,
                            .config = config,
                            .args = args,
                            .arg_count = 0};

    if (keyspace != NULL) {
        (void)snprintf(name, sizeof name, "%s", keyspace);
        line.arg_count = 1;
    }
    return cmd_check(&line) != 0;
}

/* ---- one bit ----------------------------------------------------------- */

static void
said_clear(void)
{
    (void)fflush(stdout);        /* into the file, or it stays for later */
    (void)ftruncate(said_fd, 0); /* a file in memory */
    (void)lseek(said_fd, 0, SEEK_SET);
}

static bool
said_something(void)
{
    ssize_t size;

    (void)fflush(stdout);
    size = pread(said_fd, shared->text, sizeof shared->text - 1, 0);
    shared->text[size > 0 ? size : 0] = '\0';
    return strstr(shared->text, "error: ") != NULL ||
           strstr(shared->text, "warning: ") != NULL;
}

/* `light`: the file is this keyspace's, and nothing else can be touched by it;
 * or WHOLE. */
static enum outcome
try_site(const struct site *site, int light)
{
    bool right, said, found;

    if (light >= 0)
        specimen_restore_file(&specimen, site->file);
    else
        specimen_restore(&specimen);
    specimen_flip(&specimen, site->file, site->at, site->size, site->mask);
    said_clear();
    if (light >= 0)
        work_light((enum specimen_keyspace)light);
    else
        work_all();
    right = read_all(light >= 0 ? 1u << light : specimen.parts);
    said = said_something();
    if (right)
        return RIGHT;
    found = check_keyspace(
        light >= 0 ? specimen_name((enum specimen_keyspace)light) : NULL);
    return said ? (found ? TOLD : UNFOUND) : (found ? UNTOLD : SILENT);
}

/* ---- many bits --------------------------------------------------------- */

static const char *
site_text(const struct site *site)
{
    static char text[300];

    (void)snprintf(text, sizeof text, "%s byte %u (page %u + %u) mask %02x",
                   specimen.files[site->file].path, site->at, site->at / 4096,
                   site->at % 4096, site->mask);
    return text;
}

static void
complain_of(const struct site *site, const char *what)
{
    if (shared->fails++ < FAILS_TOLD)
        print_error("%s: %s\n%.600s", site_text(site), what, shared->text);
}

/* Not with a sanitizer, whose own memory counts, too, and is terabytes. */
static void
limit_memory(void)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    const struct rlimit memory = {MEMORY_MAX, MEMORY_MAX};

    assert_rc(setrlimit(RLIMIT_DATA, &memory), 0);
#endif
}

/* In a child.  Asserts that fail end it, too. */
static void
try_sites(int light)
{
    const struct rlimit cpu = {CPU_SECONDS * test_slow(),
                               CPU_SECONDS * test_slow()};

    /* An assertion of ours that fails must not go on with the next test. */
    assert_rc(setenv("CMOCKA_TEST_ABORT", "1", 1), 0);
    assert_rc(prctl(PR_SET_PDEATHSIG, SIGKILL), 0);
    limit_memory();
    assert_rc(setrlimit(RLIMIT_CPU, &cpu), 0);
    assert_true(dup2(said_fd, 1) == 1 && dup2(said_fd, 2) == 2);
    for (; shared->next < site_count; shared->next++) {
        const struct site *site = &sites[shared->next];
        const enum outcome o = try_site(site, light);

        if (o > TOLD)
            _exit(100 + (int)o);
        shared->counts[o]++;
        shared->again = false;
    }
    _exit(0);
}

/* Tries all sites.  `light`: the keyspace that they are of, or WHOLE. */
static void
try_all(const char *what, int light)
{
    static const char *const words[OUTCOMES] = {
        [UNTOLD] = "wrong, found by check, but no daemon says it",
        [UNFOUND] = "wrong, said by a daemon, but check finds no fault",
        [SILENT] = "wrong and silent"};
    const uint64_t start = clock_ms();
    char died[40];
    int status;
    pid_t pid;

    assert_true(site_count > 0);
    memset(shared, 0, sizeof *shared);
    while (shared->next < site_count) {
        fflush(NULL);
        pid = test_fork();
        if (pid == 0)
            try_sites(light);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            break;

        /* A line of the last minute may not be printed again. */
        shared->again = WIFEXITED(status) &&
                        WEXITSTATUS(status) == 100 + UNTOLD && !shared->again;
        if (shared->again)
            continue;
        (void)said_something(); /* shows what it did */
        (void)snprintf(died, sizeof died, "died with status %x",
                       (unsigned)status);
        complain_of(&sites[shared->next],
                    WIFEXITED(status) && WEXITSTATUS(status) > 100 &&
                            WEXITSTATUS(status) < 100 + OUTCOMES
                        ? words[WEXITSTATUS(status) - 100]
                        : died);
        shared->next++;
    }
    print_message("%s: %zu bits: %zu right, %zu told, %zu summed; %llu ms\n",
                  what, site_count + summed, shared->counts[RIGHT],
                  shared->counts[TOLD], summed,
                  (unsigned long long)(clock_ms() - start));
    summed = 0;
    site_count = 0;
    fails += shared->fails;
}

/* ---- which bits -------------------------------------------------------- */

static void
add_site(int file, size_t at, uint8_t mask)
{
    assert_true(site_count < SITES_MAX && file >= 0);
    sites[site_count++] = (struct site){
        .file = (uint16_t)file, .at = (uint32_t)at, .size = 1, .mask = mask};
}

/* Every bit. */
static void
add_bits(int file, size_t at, size_t size)
{
    for (size_t i = at; i < at + size; i++)
        for (int bit = 0; bit < 8; bit++)
            add_site(file, i, (uint8_t)(1u << bit));
}

/* Bytes that no program should read: all of them together. */
static void
add_rest(int file, size_t at, size_t end)
{
    if (at == end)
        return;
    add_site(file, at, 0xff);
    sites[site_count - 1].size = (uint32_t)(end - at);
}

/* One bit of each byte. */
static void
add_bytes(int file, size_t at, size_t size)
{
    for (size_t i = at; i < at + size; i++)
        add_site(file, i, (uint8_t)(1u << i % 8));
}

/* Whether the page matters: with other bytes in it, check finds a fault. */
static bool
page_lives(int file, size_t at, const char *keyspace)
{
    struct specimen_file *f = &specimen.files[file];
    uint8_t was[4096];
    bool found;

    memcpy(was, f->bytes + at, sizeof was);
    for (size_t i = 16; i < sizeof was; i++)
        f->bytes[at + i] ^= 0x55;
    specimen_restore(&specimen);
    memcpy(f->bytes + at, was, sizeof was);
    found = check_keyspace(keyspace);
    specimen_restore(&specimen);
    return found;
}

/* Bytes that checksums cover: one bit of every fourth goes all the way.  Of the
 * others those do that the one look that the store takes does not see. */
static void
add_dense(int file, size_t at, size_t size)
{
    for (size_t i = at; i < at + size; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            const uint8_t mask = (uint8_t)(1u << bit);

            if ((i % 4 != 0 || bit != i / 4 % 8) &&
                page_sum_sees(specimen.files[file].bytes + i / 4096 * 4096,
                              i % 4096, mask))
                summed++;
            else
                add_site(file, i, mask);
        }
}

/* The live page of this kind with the fewest bytes in use. */
static size_t
find_page(int file, enum page_kind kind, const char *keyspace)
{
    const struct specimen_file *f = &specimen.files[file];
    size_t best = 0, least = 4097, start, end;

    for (size_t at = 2 * 4096; at + 4096 <= f->size; at += 4096) {
        if (page_kind(f->bytes + at) != kind)
            continue;
        page_used(f->bytes + at, &start, &end);
        if (start + 4096 - end >= least || !page_lives(file, at, keyspace))
            continue;
        least = start + 4096 - end;
        best = at;
    }
    assert_true(best > 0);
    return best;
}

static void
add_page(int file, enum page_kind kind, const char *keyspace)
{
    const size_t at = find_page(file, kind, keyspace);
    size_t start, end;

    page_used(specimen.files[file].bytes + at, &start, &end);
    add_dense(file, at, start);
    add_rest(file, at + start, at + end);
    add_dense(file, at + end, 4096 - end);
}

/* What a node has in common with others of its kind. */
struct node_kind {
    const char *what;
    const char *key; /* how its key begins */
    size_t key_size; /* 0: any */
    int byte4;       /* of its value: a block's type, or done; -1: any */
};

static bool
is_of_kind(const struct page_node *n, const struct node_kind *kind)
{
    return n->flags == 0 && n->key_size >= strlen(kind->key) &&
           (kind->key_size == 0 || n->key_size == kind->key_size) &&
           memcmp(n->key, kind->key, strlen(kind->key)) == 0 &&
           (kind->byte4 < 0 || (n->size > 4 && n->data[4] == kind->byte4));
}

/* Adds the smallest node of the kind in a live leaf page. */
static void
add_node(int file, const char *keyspace, const struct node_kind *kind)
{
    const struct specimen_file *f = &specimen.files[file];
    size_t best = 0, least = 4097;
    struct page_node node;

    for (size_t at = 2 * 4096; at + 4096 <= f->size; at += 4096) {
        const uint8_t *page = f->bytes + at;
        const unsigned count = page_count(page, 4096, at / 4096, true);

        for (unsigned i = 0; i < count; i++) {
            if (!page_node(page, 4096, true, i, &node) ||
                !is_of_kind(&node, kind) || node.end - node.at >= least ||
                !page_lives(file, at, keyspace))
                continue;
            least = node.end - node.at;
            best = at + node.at;
        }
    }
    assert_true(best > 0);
    add_dense(file, best, least);
}

/* Both meta pages of a file of LMDB's. */
static void
add_metas(int file)
{
    for (size_t at = 0; at < 2 * 4096; at += 4096) {
        add_bits(file, at, 160);
        add_rest(file, at + 160, at + 4096);
    }
}

/* ---- fixture ----------------------------------------------------------- */

/* Counts when the worker has done all.  `light`: when it has done work_light()
 * of this keyspace. */
static void
expect_counts(int light)
{
    for (int k = 0; k < SPECIMEN_NAMES; k++)
        for (size_t i = 0; i < SPECIMEN_KEYS; i++)
            want[k][i] = specimen.base[k][i] + (light < 0 ? specimen.rest[k][i]
                                                : i >= 5 && i < 8 ? 12
                                                                  : 7);
}

static void
make_specimen(unsigned parts, int light)
{
    specimen_make(&specimen, parts);
    config_defaults(&config);
    (void)snprintf(config.data_dir, sizeof config.data_dir, "%s",
                   specimen.dir.path);
    config.log_size = 64 << 10;
    config.worker_memory = 4 << 20;
    config.worker_batch = 8;
    site_count = 0;
    fails = 0;
    expect_counts(light);
}

/* Without a flip, all is right: else no test here means anything. */
static void
assert_sound(int light, int file)
{
    const struct site none = {.file = (uint16_t)file};

    site_count = 1;
    sites[0] = none;
    assert_int_equal(try_site(&none, light), RIGHT);
    specimen_restore(&specimen);
    site_count = 0;
}

static int
setup(void **state)
{
    *state = NULL;
    diag_init("flips", DIAG_WARNING);
    sites = calloc(SITES_MAX, sizeof *sites);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    said_fd = memfd_create("said", MFD_CLOEXEC);
    return sites == NULL || shared == MAP_FAILED || said_fd < 0 ? -1 : 0;
}

static int
teardown(void **state)
{
    (void)state; /* none */
    free(sites);
    return close(said_fd);
}

static int
tear_down(void **state)
{
    (void)state; /* none */
    specimen_fini(&specimen);
    assert_int_equal(fails, 0);
    return 0;
}

#define FLIPS(name) TEST_IN(name, void *unused, NULL, tear_down)

/* ---- keyspaces --------------------------------------------------------- */

FLIPS(no_bit_of_a_keyspace_is_wrong_and_silent)
{
    static const struct {
        const char *what;
        enum page_kind kind;
    } pages[] = {{"branch page", KIND_BRANCH},  {"leaf of names", KIND_NAMES},
                 {"leaf of marks", KIND_MARKS}, {"leaf of values", KIND_VALUES},
                 {"leaf of free", KIND_FREE},   {"base block", KIND_BASE},
                 {"buffer", KIND_BUFFER}};
    /* The period and the run are of a tier that has few. */
    static const struct node_kind nodes[] = {
        {"name", "name", 4, -1},         {"state", "state", 5, -1},
        {"done mark", "m", 17, 1},       {"partial mark", "m", 17, 0},
        {"history", "history", 7, -1},   {"period", "\1", 5, -1},
        {"run", "\1", RUN_KEY_HEAD, -1}, {"group", "", 0, BLOCK_GROUP}};
    int file;

    make_specimen(1u << SPECIMEN_SMALL, SPECIMEN_SMALL);
    file = specimen_find(&specimen, "keyspace/small.mdb");
    assert_sound(SPECIMEN_SMALL, file);
    add_metas(file);
    try_all("meta pages", SPECIMEN_SMALL);
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        add_page(file, pages[i].kind, "small");
        try_all(pages[i].what, SPECIMEN_SMALL);
    }
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++) {
        add_node(file, "small", &nodes[i]);
        try_all(nodes[i].what, SPECIMEN_SMALL);
    }
}

FLIPS(no_bit_of_a_node_is_wrong_and_silent)
{
    int file;

    make_specimen(1u << SPECIMEN_NODES, SPECIMEN_NODES);
    file = specimen_find(&specimen, "keyspace/nodes.mdb");
    assert_sound(SPECIMEN_NODES, file);
    add_node(file, "nodes", &(struct node_kind){"node", "", 8, BLOCK_NODE});
    try_all("node", SPECIMEN_NODES);
}

FLIPS(no_bit_of_a_hashed_name_is_wrong_and_silent)
{
    static const struct node_kind kinds[] = {{"hashed name", "name", 4, -1},
                                             {"its state", "state", 5, -1}};
    int file = 0;

    make_specimen(1u << SPECIMEN_LONG, WHOLE);
    assert_sound(WHOLE, 0);
    while (strncmp(specimen.files[file].path, "keyspace/%h", 11) != 0)
        file++;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        add_node(file, specimen_name(SPECIMEN_LONG), &kinds[i]);
        try_all(kinds[i].what, WHOLE);
    }
}

/* ---- what waits --------------------------------------------------------- */

FLIPS(no_bit_of_what_waits_is_wrong_and_silent)
{
    int waits = -1;

    make_specimen(1u << SPECIMEN_SICK, WHOLE);
    for (int i = 0; i < (int)specimen.file_count && waits < 0; i++)
        if (strstr(specimen.files[i].path, "log/waiting/held-") != NULL)
            waits = i;
    assert_true(waits >= 0);
    assert_sound(WHOLE, waits);
    add_bytes(waits, 10, specimen.files[waits].size - 10);
    try_all("fill that waits", WHOLE);
}

/* ---- logs --------------------------------------------------------------- */

/* What the worker makes of test_flips_log's bits. */
FLIPS(no_bit_of_a_log_is_wrong_and_silent)
{
    static const char *const logs[] = {"log/0000000000", "log/0000000001",
                                       "log/0000000002"};

    make_specimen(1u << SPECIMEN_LONG | SPECIMEN_LOGS, WHOLE);
    assert_sound(WHOLE, 0);
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        const int file = specimen_find(&specimen, logs[i]);

        add_bytes(file, 0, LOG_HEADER_SIZE);
        add_bytes(file, LOG_BLOCK_SIZE, LOG_HEADER_SIZE);
        add_bytes(file, LOG_SLOTS_AT, 20);
        add_bytes(file, LOG_SLOTS_AT + 544 - 30, 544);
        try_all(logs[i], WHOLE);
    }
}

/* ---- all of it ---------------------------------------------------------- */

FLIPS(random_bits_are_not_wrong_and_silent)
{
    struct random r = {.state = random_seed("test_flips")};
    size_t total = 0;

    make_specimen(SPECIMEN_ALL, WHOLE);
    assert_sound(WHOLE, 0);
    for (int i = 0; i < specimen.file_count; i++)
        if (specimen.files[i].link_of < 0)
            total += specimen.files[i].size;
    for (int n = 0; n < RANDOM; n++) {
        size_t at = random_below(&r, total);
        int i = 0;

        while (specimen.files[i].link_of >= 0 || at >= specimen.files[i].size) {
            if (specimen.files[i].link_of < 0)
                at -= specimen.files[i].size;
            i++;
        }
        add_site(i, at, (uint8_t)(1u << random_below(&r, 8)));
    }
    try_all("random bits", WHOLE);
}

int
main(int argc, char **argv)
{
    void *state;
    int rc;

    if (setup(&state) < 0)
        return 1;
    rc = test_main(argc, argv);
    return teardown(&state) < 0 ? 1 : rc;
}
