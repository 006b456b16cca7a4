/* writer/quota/journal_note.c - see journal_note.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/journal_note.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/diag.h"
#include "common/base/files.h"

#define CRC_AT (JOURNAL_NOTE_SIZE - 4)
#define ID_AT  48

static const uint8_t magic[8] = {'C', 'O', 'U', 'N', 'T', 'D', 'E', '1'};

int
journal_file_exists(int dirfd, const char *name, bool *exists)
{
    struct stat st;

    *exists = fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    return *exists || errno == ENOENT ? 0 : -errno;
}

static void
parse_note(struct journal_note *n, const uint8_t *bytes, ssize_t size)
{
    if (size == 0)
        return; /* a new one */
    if (size != JOURNAL_NOTE_SIZE || memcmp(bytes, magic, 8) != 0 ||
        get_le32(bytes + CRC_AT) != crc_of(bytes, CRC_AT)) {
        diag(
            DIAG_WARNING,
            "data_dir/live/%s is damaged and is written anew; an older copy of "
            "the quota journal may go undetected",
            n->name);
        return;
    }
    if (memcmp(bytes + 8, n->uuid, 16) != 0) {
        diag(DIAG_WARNING,
             "data_dir/live/%s belongs to another quota journal, which was "
             "replaced",
             n->name);
        return;
    }
    n->end = get_le64(bytes + 40);
    /* A crash may have come between a new generation and its note. */
    n->is_copy = memcmp(bytes + ID_AT, n->id, FILE_IDENTITY_SIZE) != 0 &&
                 get_le32(bytes + 64) == n->generation;
}

int
journal_note_follow(struct journal_note *n, int journal_fd, uint32_t generation)
{
    n->generation = generation;
    return file_identity(journal_fd, n->id);
}

int
journal_note_open(struct journal_note *n, int dirfd, const char *name,
                  int journal_fd, const uint8_t uuid[16], uint32_t generation)
{
    const int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    uint8_t bytes[JOURNAL_NOTE_SIZE + 1];
    ssize_t size;
    int rc;

    *n = (struct journal_note){.fd = -1, .name = name};
    memcpy(n->uuid, uuid, sizeof n->uuid);
    rc = journal_note_follow(n, journal_fd, generation);
    if (rc < 0)
        return rc;
    n->fd = openat(dirfd, name, flags, 0600);
    if (n->fd < 0)
        return -errno;
    size = read_at(n->fd, bytes, sizeof bytes, 0);
    if (size < 0)
        return (int)size;
    parse_note(n, bytes, size);
    return 0;
}

void
journal_note_close(struct journal_note *n)
{
    if (n->fd >= 0)
        (void)close(n->fd);
    n->fd = -1;
}

int
journal_note_write(struct journal_note *n, uint64_t end)
{
    uint8_t bytes[JOURNAL_NOTE_SIZE];

    memcpy(bytes, magic, 8);
    memcpy(bytes + 8, n->uuid, 16);
    memset(bytes + 24, 0, 16);
    put_le64(bytes + 40, end);
    memcpy(bytes + ID_AT, n->id, FILE_IDENTITY_SIZE);
    put_le32(bytes + 64, n->generation);
    put_le32(bytes + CRC_AT, crc_of(bytes, CRC_AT));
    n->is_synced = false;
    /* One sector: a loss of power leaves this note or the one before. */
    return write_at(n->fd, bytes, JOURNAL_NOTE_SIZE, 0);
}

void
journal_note_sync(struct journal_note *n)
{
    static struct diag_repeat warning;

    if (n->is_synced)
        return;
    n->is_synced = fdatasync(n->fd) == 0;
    if (!n->is_synced)
        diag_repeating(&warning, DIAG_WARNING,
                       "sync data_dir/live/%s: %s; after a loss of power an "
                       "older copy of the quota journal may go undetected",
                       n->name, diag_text(errno));
}
