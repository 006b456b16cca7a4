/* tests/fuzz/fuzz_journal.c - any bytes as a journal of quotas.  Records are
 * taken as long as their checksums are right; behind the first that is wrong no
 * group is good.  An opened journal holds that and zeros,
 * and opens again with the same; one that is refused is left as it was.
 *
 * The first byte: 'r', the rest is the file; else the rest are records of 24
 * bytes each behind a good header, and are given their checksums, but for the
 * one whose number the first byte is. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/diag.h"
#include "writer/quota/journal.h"
#include "writer/quota/quotas.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);

#define MASK     UINT64_C(0xa5a5a5a5a5a5a5a5)
#define FILE_MAX (RECORDS_AT + 2048u * JOURNAL_RECORD_SIZE)

static char folder[] = "/dev/shm/fuzz-journal-XXXXXX";
static int dirfd, errors, nothing;
static bool silent; /* many inputs, not one to look at */

static void
clean_up(void)
{
    (void)unlinkat(dirfd, JOURNAL_NAME, 0); /* there may be none */
    (void)unlinkat(dirfd, JOURNAL_NOTE_NAME, 0);
    (void)rmdir(folder); /* of this program */
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
    silent = *argc > 1 && (*argv)[1][0] == '-';
    diag_init("fuzz", DIAG_ERROR);
    assert(mkdtemp(folder) != NULL);
    dirfd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    errors = dup(STDERR_FILENO);
    nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert(dirfd >= 0 && errors >= 0 && nothing >= 0);
    assert(atexit(clean_up) == 0);
    return 0;
}

/* ---- the file ---------------------------------------------------------- */

struct file {
    uint8_t bytes[FILE_MAX + RECORDS_AT];
    size_t size;
};

static void
put_file(const struct file *f)
{
    const int fd = openat(dirfd, JOURNAL_NAME,
                          O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    (void)unlinkat(dirfd, JOURNAL_NOTE_NAME, 0); /* of the last input */
    assert(fd >= 0);
    assert(write(fd, f->bytes, f->size) == (ssize_t)f->size);
    assert(close(fd) == 0);
}

static void
get_file(struct file *f)
{
    const int fd = openat(dirfd, JOURNAL_NAME, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    assert(fd >= 0);
    n = read(fd, f->bytes, sizeof f->bytes);
    assert(n >= 0 && (size_t)n < sizeof f->bytes);
    f->size = (size_t)n;
    assert(close(fd) == 0);
}

static void
make_file(struct file *f, const uint8_t *bytes, size_t size)
{
    static const uint8_t uuid[16];
    const struct journal_header h = {.limit = 1000};

    if (bytes[0] == 'r') {
        f->size = size - 1 < FILE_MAX ? size - 1 : FILE_MAX;
        memcpy(f->bytes, bytes + 1, f->size);
        return;
    }
    journal_header_put(&h, f->bytes);
    f->size = RECORDS_AT + size - 1;
    if (f->size > FILE_MAX)
        f->size = FILE_MAX;
    memcpy(f->bytes + RECORDS_AT, bytes + 1, f->size - RECORDS_AT);
    for (uint64_t i = 0; RECORDS_AT + (i + 1) * JOURNAL_RECORD_SIZE <= f->size;
         i++) {
        uint8_t all[16 + 8 + JOURNAL_RECORD_SIZE - 4];
        uint8_t *at = f->bytes + RECORDS_AT + i * JOURNAL_RECORD_SIZE;

        memcpy(all, uuid, sizeof uuid);
        put_le64(all + 16, i);
        memcpy(all + 24, at + 4, JOURNAL_RECORD_SIZE - 4);
        if (i != bytes[0] && !journal_record_is_blank(at))
            put_le32(at, crc_of(all, sizeof all));
    }
}

/* ---- what its checksums vouch for -------------------------------------- */

/* A copy of the header; NULL: none is good. */
static const uint8_t *
good_header(const struct file *f)
{
    for (size_t at = 0;
         at < HEADER_COPIES * HEADER_AT(1) && f->size >= RECORDS_AT;
         at += HEADER_AT(1))
        if (memcmp(f->bytes + at, "COUNTDQ2", 8) == 0 &&
            get_le32(f->bytes + at + HEADER_SIZE - 4) ==
                crc_of(f->bytes + at, HEADER_SIZE - 4))
            return f->bytes + at;
    return NULL;
}

static bool
is_good(const struct file *f, uint64_t number)
{
    const uint8_t *header = good_header(f);
    const uint8_t *at = f->bytes + RECORDS_AT + number * JOURNAL_RECORD_SIZE;
    uint8_t all[16 + 8 + JOURNAL_RECORD_SIZE - 4];

    if (!header || at + JOURNAL_RECORD_SIZE > f->bytes + f->size)
        return false;
    memcpy(all, header + 8, 16);
    put_le64(all + 16, number);
    memcpy(all + 24, at + 4, JOURNAL_RECORD_SIZE - 4);
    return get_le32(at) == crc_of(all, sizeof all);
}

/* Whether a good GROUP stands behind a record that is not good. */
static bool
has_group_behind(const struct file *f)
{
    bool ended = false;

    for (uint64_t i = 0; RECORDS_AT + (i + 1) * JOURNAL_RECORD_SIZE <= f->size;
         i++) {
        const uint8_t *at = f->bytes + RECORDS_AT + i * JOURNAL_RECORD_SIZE;

        ended = ended || !is_good(f, i);
        if (ended && is_good(f, i) && at[4] == JOURNAL_RECORD_GROUP &&
            at[5] <= 1)
            return true;
    }
    return false;
}

/* ---- opening ----------------------------------------------------------- */

struct book {
    const struct file *file;
    uint64_t at; /* the next record that can be taken */
    struct journal journal;
    struct quotas quotas;
};

static int
begin_journal(void *ctx, int64_t limit, const uint8_t *checkpoint, size_t size)
{
    struct book *b = ctx;

    (void)checkpoint;
    assert(good_header(b->file) && size < FILE_MAX);
    return quotas_init(&b->quotas, limit);
}

static int
take_record(void *ctx, const struct journal_record *r, uint64_t ms)
{
    struct book *b = ctx;
    const uint8_t *at;

    do {
        assert(is_good(b->file, b->at));
        at = b->file->bytes + RECORDS_AT + b->at++ * JOURNAL_RECORD_SIZE;
    } while (at[4] == JOURNAL_RECORD_GROUP);
    assert(r->type == at[4] && r->part == (at[5] != 0) &&
           r->quota == get_le16(at + 6) &&
           (uint64_t)r->value == (get_le64(at + 8) ^ MASK) &&
           (uint64_t)r->after == (get_le64(at + 16) ^ MASK));
    return quotas_take(&b->quotas, r, ms);
}

static int
open_book(struct book *b, const struct file *f)
{
    const struct journal_reader reader = {begin_journal, take_record, b};
    int rc;

    memset(b, 0, sizeof *b);
    b->file = f;
    if (silent)
        assert(dup2(nothing, STDERR_FILENO) >= 0);
    rc = journal_open(&b->journal, dirfd, &reader);
    assert(dup2(errors, STDERR_FILENO) >= 0);
    if (rc == 0)
        quotas_taken(&b->quotas, QUOTA_MAX);
    return rc;
}

static void
close_book(struct book *b)
{
    quotas_fini(&b->quotas);
    journal_close(&b->journal);
}

static void
check_opened(struct book *b, const struct file *before)
{
    const size_t end = RECORDS_AT + b->journal.durable * JOURNAL_RECORD_SIZE;
    static struct file after, again;
    struct book second;

    assert(b->at <= b->journal.durable || b->journal.cut);
    for (uint64_t i = 0; i < b->journal.durable; i++)
        assert(is_good(before, i));
    assert(!has_group_behind(before));

    get_file(&after);
    assert(after.size == b->journal.size && after.size <= before->size);
    assert(memcmp(after.bytes, before->bytes, end) == 0);
    for (size_t i = end; i < after.size; i++)
        assert(after.bytes[i] == 0);

    assert(open_book(&second, &after) == 0);
    assert(!second.journal.cut);
    assert(second.journal.durable == b->journal.durable);
    assert(second.quotas.count == b->quotas.count &&
           quotas_unnamed(&second.quotas)->remaining ==
               quotas_unnamed(&b->quotas)->remaining);
    get_file(&again);
    assert(again.size == after.size &&
           memcmp(again.bytes, after.bytes, after.size) == 0);
    close_book(&second);
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct file before, after;
    struct book b;
    int rc;

    if (size < 1)
        return 0;
    make_file(&before, bytes, size);
    put_file(&before);
    rc = open_book(&b, &before);
    if (rc == 0) {
        check_opened(&b, &before);
    } else {
        assert(rc == -EBADMSG || rc == -EPROTO);
        get_file(&after);
        assert(after.size == before.size &&
               memcmp(after.bytes, before.bytes, before.size) == 0);
    }
    close_book(&b);
    return 0;
}
