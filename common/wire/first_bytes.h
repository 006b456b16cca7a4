/* common/wire/first_bytes.h - the first bytes of a connection to a raw port,
 * which show whether a browser sends them.
 *
 * A web page can have its visitor's browser connect to any port.  The page
 * chooses the method, the path and the body of an HTTP request, so it could
 * place whole messages in a body.  A raw port (increments, ranges, counters,
 * semaphores) therefore looks at FIRST_BYTES_SIZE bytes before its protocol
 * gets any, and refuses these:
 *
 *   text  8 bytes 0x20 to 0x7e, tabs or ends of lines.  An HTTP request line is
 *         a token, a space, a target, a space and "HTTP/1.1": at least 12
 *         printable bytes, whatever the token is.  It is called HTTP where it
 *         begins as usual ones do; else a client has the wrong port.
 *   TLS   16 03 vv ss ss 01 00 nn, vv at most 4, nn 01 to 7f: a ClientHello of
 *         256 bytes or more.
 *   STUN  tt tt ss ss 21 12 a4 42 with tt below 0x40, or behind the length
 *         that RFC 4571 puts before it, ll ll 00 01 ss ss 21 12: WebRTC.
 *
 * As the increment or the offset of a first message all of these are above
 * 7 * 10^16, and all text above 6 * 10^17.  No request of the
 * counter and semaphore protocols is among them.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_FIRST_BYTES_H
#define COUNTD_COMMON_WIRE_FIRST_BYTES_H

#include <stdint.h>

#define FIRST_BYTES_SIZE 8

/* Text of an unknown sender. */
extern const char first_bytes_text[];

/* Returns the protocol of a browser that a connection begins with, as a word
 * for messages, or first_bytes_text; NULL: the port's own protocol decides. */
const char *first_bytes_browser(const uint8_t bytes[FIRST_BYTES_SIZE]);

/* An increment that first_bytes_browser() refuses can be sent in two parts, the
 * bits of this mask and the other ones: it refuses neither part. */
#define FIRST_BYTES_HIGH_PART INT64_C(0x7f00000000000000)

#endif
