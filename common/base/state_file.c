/* common/base/state_file.c - see state_file.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/state_file.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"
#include "common/base/files.h"

#define MAGIC_SIZE 8
#define CRC_SIZE   4

bool
state_is_good(const uint8_t *bytes, size_t size, const char *magic)
{
    return (!magic || memcmp(bytes, magic, MAGIC_SIZE) == 0) &&
           get_le32(bytes + size - CRC_SIZE) == crc_of(bytes, size - CRC_SIZE);
}

void
state_seal(uint8_t *bytes, size_t size, const char *magic)
{
    if (magic)
        memcpy(bytes, magic, MAGIC_SIZE);
    put_le32(bytes + size - CRC_SIZE, crc_of(bytes, size - CRC_SIZE));
}

int
state_read(int fd, uint8_t *bytes, size_t size, const char *magic)
{
    struct stat st;
    ssize_t got;

    if (fstat(fd, &st) < 0)
        return -errno;
    if (st.st_size == 0)
        return -ENOENT;
    if (st.st_size != (off_t)size)
        return -EBADMSG;
    for (int i = 0; i < 2; i++) {
        got = read_at(fd, bytes, size, 0);
        if (got < 0)
            return (int)got;
        if (got == (ssize_t)size && state_is_good(bytes, size, magic))
            return 0;
    }
    return -EBADMSG;
}

int
state_write(int fd, uint8_t *bytes, size_t size, const char *magic)
{
    state_seal(bytes, size, magic);
    return write_at(fd, bytes, size, 0);
}
