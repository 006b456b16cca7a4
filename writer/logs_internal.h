/* writer/logs_internal.h - what the files of logs.h share; for them only.
 *
 *     logs.c        the current log: rotation, sealing, start and end
 *     logs_fill.c   messages into it
 *     logs_early.c  when it is handed on before its time
 *     logs_sync.c   what was put becomes durable
 *     logs_spare.c  the log that comes next, and logs of dead owners */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_LOGS_INTERNAL_H
#define COUNTD_WRITER_LOGS_INTERNAL_H

#include "writer/logs.h"

#define LOGS_RECOVER_MS 10000 /* look for logs of dead owners */
#define LOGS_LOAD_MS    50    /* the same while keys wait for one of them */
#define LOGS_LOST_MS    1000  /* and while they wait for an operator */

/* ---- logs.c ---- */

/* An error of the disk on a log that holds messages, which ends the process. */
void logs_fail(struct logs *l, int error, const char *what, uint64_t index);

void logs_arm(struct logs *l, struct loop_timer *timer, uint64_t after_ms);

/* Where a log can be retired; NULL: too many wait to be sealed. */
struct retired *logs_free_place(struct logs *l);

/* A retired log that is durable is sealed and released. */
void logs_seal(struct logs *l, struct retired *r);

/* The first spare becomes the current log. */
void logs_use_spare(struct logs *l);

/* Retires the current log, if there is a place for it. */
void logs_rotate_now(struct logs *l);

/* While finishing: hands on what can be, and says when that is all. */
void logs_finish_some(struct logs *l);

/* Callers that found no free slot may try again. */
void logs_report_ready(struct logs *l);

/* ---- logs_early.c ---- */

void logs_set_up_early(struct logs *l);

/* The current log has its first message. */
void logs_arm_early(struct logs *l);

/* A log is retired; its sealing begins. */
void logs_early_retired(struct logs *l, uint64_t index);
void logs_early_sealing(struct logs *l, uint64_t index);

/* How long the current log stays, unless it is full or old before: 0, it is
 * handed on now, or milliseconds until this is to be asked again. */
uint64_t logs_early_wait(struct logs *l);

/* ---- logs_sync.c ---- */

void logs_set_up_sync(struct logs *l);

/* ---- logs_spare.c ---- */

void logs_set_up_spares(struct logs *l);

/* Sets the timer of the next look for logs of dead owners. */
void logs_arm_recovery(struct logs *l);

/* The first log; the spare comes from the file thread, which runs.  0 too when
 * there is no room for it yet; -errno from the disk. */
int logs_begin_first(struct logs *l);

/* Has the file thread make one, unless there are enough. */
void logs_want_spare(struct logs *l);

#endif
