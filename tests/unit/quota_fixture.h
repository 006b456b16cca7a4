/* tests/unit/quota_fixture.h - quotas and their journal without a server: what
 * the tests of both share. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_QUOTA_FIXTURE_H
#define COUNTD_TESTS_UNIT_QUOTA_FIXTURE_H

#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"
#include "writer/quota/checkpoint.h"
#include "writer/quota/journal.h"
#include "writer/quota/quotas.h"

#define LIMIT 1000

struct book {
    struct journal journal;
    struct quotas quotas;
};

static inline int
book_checkpoint(struct book *b)
{
    uint8_t *bytes;
    size_t size;
    int rc = checkpoint_write(&b->quotas, &bytes, &size);

    if (rc == 0)
        rc = journal_checkpoint(&b->journal, b->journal.durable, bytes, size);
    free(bytes);
    return rc;
}

static inline void
book_close(struct book *b)
{
    quotas_fini(&b->quotas);
    journal_close(&b->journal);
}

/* Opens what is there, or makes it; what journal_open() says. */
static inline int
book_try_open(struct book *b, int dirfd)
{
    const struct journal_reader reader = {checkpoint_begin, quotas_take,
                                          &b->quotas};
    bool exists;
    int rc;

    *b = (struct book){.journal.fd = -1, .journal.note_fd = -1};
    rc = journal_file_exists(dirfd, JOURNAL_NAME, &exists);
    if (rc == 0 && !exists)
        rc = journal_make(dirfd, LIMIT);
    if (rc == 0)
        rc = journal_open(&b->journal, dirfd, &reader);
    if (rc == 0)
        quotas_taken(&b->quotas, QUOTA_MAX);
    else
        book_close(b);
    return rc;
}

static inline void
book_open(struct book *b, int dirfd)
{
    assert_rc(book_try_open(b, dirfd), 0);
}

/* All that was put becomes durable, or does not. */
static inline int
book_sync(struct book *b)
{
    int rc;

    journal_begin(&b->journal, clock_unix_ms());
    rc = journal_sync(&b->journal);
    journal_end(&b->journal, rc);
    return rc;
}

static inline struct quota *
book_quota(struct book *b, const char *name)
{
    return name ? quotas_find(&b->quotas, name, strlen(name))
                : quotas_unnamed(&b->quotas);
}

/* A request, put into the journal if it changes something. */
static inline struct key_answer
book_put(struct book *b, const char *name, enum journal_record_type type,
         int64_t value)
{
    struct quota_request r = {
        .type = type, .quota = book_quota(b, name), .value = value};
    struct journal_record record;
    struct key_answer a;

    if (type == JOURNAL_RECORD_CREATE) {
        r.name = name;
        r.name_size = strlen(name);
    }
    if (!quotas_decide(&b->quotas, &r, &record, &a))
        return a;
    assert_rc(quotas_make(&b->quotas, &r, &record, &a), 0);
    for (size_t at = 0; at < r.name_size; at += 16) {
        uint8_t part[16] = {0};
        const size_t left = r.name_size - at;
        struct journal_record p = {.type = JOURNAL_RECORD_NAME, .part = true};

        memcpy(part, name + at, left < 16 ? left : 16);
        p.value = get_le64s(part);
        p.after = get_le64s(part + 8);
        journal_put(&b->journal, &p);
    }
    journal_put(&b->journal, &record);
    return a;
}

/* The same, and durable. */
static inline struct key_answer
book_do(struct book *b, const char *name, enum journal_record_type type,
        int64_t value)
{
    const struct key_answer a = book_put(b, name, type, value);

    assert_rc(book_sync(b), 0);
    return a;
}

#define assert_pair(got, n, left)                                              \
    do {                                                                       \
        const struct key_answer got_ = (got);                                  \
        assert_int_equal(got_.form, ANSWER_PAIR);                              \
        assert_int_equal(got_.number, n);                                      \
        assert_int_equal(got_.remaining, left);                                \
    } while (0)

#define assert_form(got, f, left)                                              \
    do {                                                                       \
        const struct key_answer got_ = (got);                                  \
        assert_int_equal(got_.form, f);                                        \
        assert_int_equal(got_.remaining, left);                                \
    } while (0)

#endif
