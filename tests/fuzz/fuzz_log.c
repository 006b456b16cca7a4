/* tests/fuzz/fuzz_log.c - any bytes as a commit log: look, recover, claim.
 *
 * The input is a flag byte, the 128 used bytes of both headers, and slots; the
 * rest of the header blocks is zero.  Flags: 1 and 2 mend the checksum of
 * header A and B, 4 those of the slots (few inputs would get past them), 8 has
 * the headers written in this boot, bits 4 and 5 choose the mode, 64 the lock.
 *
 * Whatever the bytes: recovery ends, leaves a log at rest whose slots all
 * check, or sets it aside, and a second one finds nothing to do. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "common/base/boot_id.h"
#include "common/base/bytes.h"
#include "common/log/inspect.h"
#include "common/log/log.h"
#include "common/log/log_recover.h"
#include "common/log/slot.h"

#define SIZE_MAX_HERE (LOG_SLOTS_AT + 4096)
#define INDEX         0
#define BOOT_ID_AT    96
#define NAME          "0000000000"
#define LOCK          "lock-0000000000"

static char dir[] = "/dev/shm/countd-fuzz-XXXXXX";
static DIR *stream;
static int top_fd = -1; /* of `stream` */

/* Removes what the daemons would keep: logs set aside, newer versions. */
static void
clean_folder(void)
{
    const struct dirent *e;

    rewinddir(stream);
    while ((e = readdir(stream)))
        if (e->d_name[0] != '.')
            assert(unlinkat(top_fd, e->d_name, 0) == 0);
}

static void
remove_dir(void)
{
    (void)rmdir(dir); /* empty unless a test failed */
}

static void
make_dir(void)
{
    assert(mkdtemp(dir));
    stream = opendir(dir);
    assert(stream);
    top_fd = dirfd(stream);
    assert(atexit(remove_dir) == 0);
}

/* Gives every slot that is one the checksum it would have in this log. */
static void
mend_slots(uint8_t *file, size_t size)
{
    struct slot_stamp stamp;
    struct log_header h;
    struct message m;
    uint64_t number = 0;
    uint8_t *slot;

    if (log_header_get(file, &h) < 0 &&
        log_header_get(file + LOG_BLOCK_SIZE, &h) < 0)
        return;
    for (size_t at = LOG_SLOTS_AT; at + h.layout.slot_size <= size;
         at += h.layout.slot_size) {
        slot = file + at;
        stamp.received_ms = get_le64(slot + h.layout.received_at);
        stamp.synced = get_le32(slot + h.layout.synced_at);
        h.epoch = get_le32(slot + h.layout.message_size);
        if (message_parse(&h.layout, slot, &m) == 0)
            slot_put_run(&(struct slot_run){&h, number, 1}, slot, &m, &stamp);
        number++;
    }
}

static size_t
make_file(const uint8_t *bytes, size_t size, uint8_t flags, uint8_t *file)
{
    size_t slots = 0, n;

    memset(file, 0, SIZE_MAX_HERE);
    for (size_t i = 0; i < 2; i++) {
        n = size < LOG_HEADER_SIZE ? size : LOG_HEADER_SIZE;
        memcpy(file + i * LOG_BLOCK_SIZE, bytes, n);
        bytes += n;
        size -= n;
        if (flags & 8)
            memcpy(file + i * LOG_BLOCK_SIZE + BOOT_ID_AT, boot_id_get(),
                   BOOT_ID_SIZE);
        if (flags & (1u << i))
            put_le32(file + i * LOG_BLOCK_SIZE + 124,
                     (uint32_t)crc32(0, file + i * LOG_BLOCK_SIZE, 124));
    }
    slots = size < SIZE_MAX_HERE - LOG_SLOTS_AT ? size
                                                : SIZE_MAX_HERE - LOG_SLOTS_AT;
    memcpy(file + LOG_SLOTS_AT, bytes, slots);
    if (flags & 4)
        mend_slots(file, LOG_SLOTS_AT + slots);
    return LOG_SLOTS_AT + slots;
}

/* Returns a descriptor that reads whatever the mode. */
static int
put_file(const uint8_t *file, size_t size, uint8_t flags)
{
    static const mode_t modes[] = {0600, 0400, 0200, 0640};
    int fd;

    fd = openat(top_fd, NAME, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert(fd >= 0);
    assert(pwrite(fd, file, size, 0) == (ssize_t)size);
    assert(fchmod(fd, modes[flags >> 4 & 3]) == 0);
    if (flags & 64)
        assert(linkat(top_fd, NAME, top_fd, LOCK, 0) == 0);
    return fd;
}

/* A log at rest after recovery: at most what the look before said. */
static void
check_full(const struct log *log, const struct inspect *before)
{
    uint8_t slot[MESSAGE_SIZE_MAX + 24];
    struct slot_stamp stamp;
    struct message m;

    assert(log->header.state == LOG_SEALED);
    assert(log->header.count > 0 && log->header.count <= log->header.slots);
    if (before->headers_rc != 0 || before->header.state != LOG_OPEN)
        return;
    assert(before->damaged == 0);
    assert(log->header.count <= before->valid);
    /* Nothing that is whole is cut off in the boot it was written in. */
    if (boot_id_is_this(before->header.boot_id))
        assert(log->header.count == before->valid);
    assert(log->header.epoch == before->header.epoch);
    for (uint32_t i = 0; i < log->header.count; i++) {
        assert(inspect_slot(log->fd, &log->header.layout, i, slot) == 0);
        assert(slot_parse(&log->header, slot, i, &m, &stamp) == 0);
    }
}

/* What a claim may say of a log that shows no owner: its header was not looked
 * at before. */
static bool
is_expected(int rc)
{
    return rc == 0 || rc == -ESTALE || rc == -EBADMSG ||
           rc == -EPROTONOSUPPORT || rc == -ENOENT;
}

/* Takes the recovered log as a worker, then as a writer. */
static void
go_round(const struct inspect *before)
{
    struct log log;
    int rc;

    rc = log_claim(&log, top_fd, INDEX, LOG_MODE_FULL);
    assert(is_expected(rc));
    if (rc == 0) {
        check_full(&log, before);
        rc = log_empty(&log);
        assert(rc == 0);
        rc = log_release(&log);
        assert(rc == 0);
    }
    rc = log_claim(&log, top_fd, INDEX, LOG_MODE_EMPTY);
    assert(is_expected(rc));
    if (rc == 0) {
        rc = log_begin(&log);
        assert(rc == 0);
        rc = log_seal(&log);
        assert(rc == 0);
        rc = log_release(&log);
        assert(rc == 0);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static uint8_t file[SIZE_MAX_HERE];
    struct inspect before;
    int fd, rc;

    if (size < 1)
        return 0;
    if (top_fd < 0)
        make_dir();
    fd = put_file(file, make_file(bytes + 1, size - 1, bytes[0], file),
                  bytes[0]);
    rc = log_inspect(fd, INDEX, &before);
    assert(rc == 0);
    rc = close(fd);
    assert(rc == 0);

    /* Once for what shows no owner, and once for what a claim leaves. */
    for (int round = 0; round < 2; round++) {
        rc = log_recover(top_fd, INDEX, NULL);
        assert(rc >= 0 || rc == -EBADMSG || rc == -EPROTONOSUPPORT ||
               (rc == -ENOENT && round > 0));
        if (rc < 0)
            break;
        assert(rc == 0 || (uint32_t)rc <= before.header.slots);
        assert(faccessat(top_fd, LOCK, F_OK, 0) < 0);
        rc = log_recover(top_fd, INDEX, NULL);
        assert(rc == 0);
        go_round(&before);
    }
    clean_folder();
    return 0;
}
