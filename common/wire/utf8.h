/* common/wire/utf8.h - which bytes are characters of UTF-8.  Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_UTF8_H
#define COUNTD_COMMON_WIRE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of the valid character of UTF-8 that begins here, 0x80 and above; 0:
 * there is none.  Neither longer than needed, nor a surrogate, nor above
 * U+10FFFF. */
size_t utf8_size(const uint8_t *at, const uint8_t *end);

bool utf8_is_valid(const uint8_t *at, size_t size);

#endif
