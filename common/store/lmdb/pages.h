/* common/store/lmdb/pages.h - LMDB's files, read without LMDB.  Internal to
 * this room.
 *
 * LMDB believes what is in a file: a damaged page makes it crash, read beyond
 * the file or show an older commit.  So whoever opens a file has it looked at
 * here first.  Only pages*.c know how LMDB lays out pages, nodes, meta pages
 * and the lock file; all else in this room uses LMDB's documented interface.
 *
 * Nothing that is read is believed: any bytes are survived, and so is a file
 * that others write to, cut or replace meanwhile (it is read into buffers,
 * never through a map).  Nothing is written.
 *
 * Errors: 0 or a negative errno.
 *   -EBADMSG  damaged   -ENOMEM
 */
#ifndef COUNTD_PAGES_H
#define COUNTD_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes of a page at most. */
#define PAGES_SIZE_MAX 65536

/* ---- salvage (pages_scan.c) -------------------------------------------- */

#define PAGES_VALUE_MAX ((size_t)64 << 20)

/* Calls `found` for whatever may be a value, in any bytes and in no order that
 * means something: those in leaf pages, of older commits as well, and those on
 * pages of their own.  The same value may come more than once.  One on pages of
 * its own comes with all bytes up to the end of its last page, PAGES_VALUE_MAX
 * at most: a record must know its size and prove that it is whole.
 *
 * `found` returns how many bytes from the start of the value are a record: the
 * pages they fill are then not looked into as pages; 0, when this is none; or a
 * negative errno, which ends the scan and is returned.  The value is the
 * scan's, until `found` returns. */
int pages_each_value(int fd,
                     int64_t (*found)(void *ctx, const uint8_t *value,
                                      size_t size),
                     void *ctx);

#endif
