/* common/base/boot_id.c - see boot_id.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/boot_id.h"

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "common/base/hex.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint8_t boot_id[BOOT_ID_SIZE];

static void
read_boot_id(void)
{
    uint8_t id[BOOT_ID_SIZE] = {0};
    char text[64];
    ssize_t size, i;
    int fd, digit, n = 0;

    fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    size = read(fd, text, sizeof text);
    (void)close(fd);
    for (i = 0; i < size && n < 2 * BOOT_ID_SIZE; i++) {
        digit = hex_value((uint8_t)text[i]);
        if (digit < 0)
            continue; /* a dash */
        id[n / 2] = (uint8_t)(id[n / 2] << 4 | digit);
        n++;
    }
    if (n == 2 * BOOT_ID_SIZE)
        memcpy(boot_id, id, sizeof boot_id);
}

const uint8_t *
boot_id_get(void)
{
    (void)pthread_once(&once, read_boot_id);
    return boot_id;
}

bool
boot_id_is_this(const uint8_t id[BOOT_ID_SIZE])
{
    static const uint8_t unknown[BOOT_ID_SIZE];

    return memcmp(id, unknown, BOOT_ID_SIZE) != 0 &&
           memcmp(id, boot_id_get(), BOOT_ID_SIZE) == 0;
}
