/* common/base/boot_id.h - which boot of the machine this is.
 *
 * What a process wrote in this boot is in the page cache however the process
 * ended; only a loss of power takes back what was not synced. Thread-safe.
 */
#ifndef COUNTD_COMMON_BASE_BOOT_ID_H
#define COUNTD_COMMON_BASE_BOOT_ID_H

#include <stdbool.h>
#include <stdint.h>

#define BOOT_ID_SIZE 16

/* The id of this boot; all zero if /proc is not available. */
const uint8_t *boot_id_get(void);

/* Whether `id` is that of this boot. An unknown boot is another one. */
bool boot_id_is_this(const uint8_t id[BOOT_ID_SIZE]);

#endif
