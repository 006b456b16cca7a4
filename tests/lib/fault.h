/* tests/lib/fault.h - make the nth call of a system function fail.
 *
 *     fault_inject("fsync", 1, EIO);
 *     assert_rc(log_release(&log), -EIO);
 *     fault_clear();
 *
 * Every call in the Makefile's WRAP list that the code under test makes goes
 * through here (ld --wrap); nothing in the shipped code knows.  Calls made by
 * shared libraries (LMDB, zlib, libc itself) are not seen.
 *
 * A call is named as in C ("pwrite"), or "disk" for any call that touches
 * files, "memory" for malloc, calloc and realloc, "net" for socket and epoll
 * calls.  Counting starts with each fault_inject(), fault_short(),
 * fault_kill() and fault_clear(): "1" is the next call from there on.
 *
 * The loop of house style:
 *
 *     for (n = 1;; n++) {
 *         fault_inject("disk", n, EIO);
 *         rc = the_function();
 *         hit = fault_hit();
 *         fault_clear();
 *         ... check that nothing leaked or stayed locked ...
 *         if (!hit)
 *             break;
 *     }
 *
 * Threads: calls may come from any; the functions here from one.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_FAULT_H
#define COUNTD_TESTS_LIB_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The nth `call` from now on fails with `error` and does nothing; those after
 * it work again. */
void fault_inject(const char *call, unsigned nth, int error);

/* As fault_inject, but the nth and all later ones fail. */
void fault_inject_from(const char *call, unsigned nth, int error);

/* The nth read or write of this name moves only `size` bytes, as a full disk
 * or a signal does.  At least one byte is asked for. */
void fault_short(const char *call, unsigned nth, size_t size);

/* Just before the nth call this process gets SIGKILL; for a forked child. */
void fault_kill(const char *call, unsigned nth);

/* Just before the nth call `hook` is called, once: what another process does
 * then.  The calls that it makes go through. */
void fault_hook(const char *call, unsigned nth, void (*hook)(void *ctx),
                void *ctx);

/* Everything works again. */
void fault_clear(void);

/* True once the armed fault has happened. */
bool fault_hit(void);

/* Calls of this name since the last of the functions above. */
unsigned fault_calls(const char *call);

/* Shifts clock_unix_ms() of common/base/clock.h; 0 is the true time.
 * fault_clear() undoes it. */
void fault_clock(int64_t offset_ms);

/* Lets time pass on clock_ns() and clock_ms(); from fault_stop_clock() on, only
 * that moves them, so that a busy machine cannot make anything late.
 * fault_clear() undoes both. */
void fault_pass_ns(uint64_t ns);
void fault_stop_clock(void);

/* Descriptors open in this process, to see that a failure leaks none. */
unsigned fault_open_fds(void);

#endif
