/* common/log/waiting_internal.h - what the files of waiting.h share: waiting.c
 * (the folder), waiting_index.c, waiting_write.c, waiting_replace.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_WAITING_INTERNAL_H
#define COUNTD_COMMON_LOG_WAITING_INTERNAL_H

#include "common/log/waiting.h"

#define WAITING_BLOCK UINT64_C(4096) /* a file takes a multiple of it */

/* ---- waiting.c ------------------------------------------------------------- */

/* Opens the folder, if that was not done.  -ENOENT: there is none */
int waiting_open_folder(struct waiting *w);

/* ---- waiting_index.c ------------------------------------------------------- */

/* Sorts the index, and removes the fills of files that are not listed. */
void waiting_index_sort(struct waiting *w);

/* ---- waiting_replace.c ----------------------------------------------------- */

/* Takes the folder, shared (LOCK_SH) or not (LOCK_EX), and lists it.
 *   -EAGAIN  it is in use   -ENOENT  there is none */
int waiting_lock(struct waiting *w, int how);
void waiting_unlock(struct waiting *w);

#endif
