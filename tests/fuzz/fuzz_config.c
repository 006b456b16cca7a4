/* tests/fuzz/fuzz_config.c - any bytes as a settings file.  Settings that are
 * taken are within their limits; a refusal is one printable line. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include "common/setup/config.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct config c;
    char why[CONFIG_WHY_SIZE] = "";
    int rc;

    config_defaults(&c);
    rc = config_text(&c, (const char *)bytes, size, "fuzz.conf", why);
    assert(rc <= 0);
    assert((rc < 0) == (why[0] != '\0'));
    assert(strnlen(why, sizeof why) < sizeof why);
    for (const char *at = why; *at != '\0'; at++)
        assert((unsigned char)*at >= 0x20 && *at != 0x7f);

    assert(c.log_size >= 16384 && c.log_size <= 1 << 30);
    assert(c.keyspace_size >= 1 && c.keyspace_size <= 256);
    assert(c.key_size >= 1 && c.key_size <= 256);
    assert(c.worker_batch >= 1 && c.worker_batch <= 1024);
    assert(memchr(c.data_dir, '\0', sizeof c.data_dir) != NULL);
    assert(memchr(c.write_listen, '\0', sizeof c.write_listen) != NULL);
    rc = config_check(&c, why);
    assert(rc <= 0);
    return 0;
}
