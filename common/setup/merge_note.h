/* common/setup/merge_note.h - the merge notes: is keyspace/ older than log/?
 *
 * A keyspace knows only the last fill of each log that is merged into it.  If
 * an older copy of keyspace/ is put beside logs that were used on, the fills
 * that were merged in between are neither in the keyspaces nor in the logs, and
 * the next fill to be merged would hide for ever that they are missing.
 *
 * Two files with one number each, a Unix time in ms, show it: keyspace/merged
 * and log/merged.  Each worker writes a new number into both before it merges
 * or drains for the first time, and again before a later batch when
 * MERGE_NOTE_EVERY_MS have passed:
 *
 *     keyspace/merged <- T, durable; then log/merged <- T; then the merge
 *
 * The invariant: keyspace/ holds every merge that was made before the number
 * that log/merged has was written.  So keyspace/merged >= log/merged, and if
 * not, then keyspace/ is an older copy, or another folder altogether (a disk
 * that is not mounted), and lacks merges made since the number it has.
 *
 *   - A kill or a loss of power between the two writes leaves keyspace/ ahead,
 *     which is what a sound directory may have.  So there is no false alarm,
 *     also if the folders are on different disks.
 *   - A backup, or a whole directory that was copied while no daemon ran, has
 *     both notes of one time, or no log/merged: no alarm.
 *   - An older log/ beside newer keyspaces is found by their marks.
 *   - Not seen: one file of the folder that was replaced by an older copy, and
 *     a copy made under a running worker that lacks only what this worker
 *     merged until it wrote its next number.
 *
 * A number that is damaged or missing counts as 0.  Writers hold a flock on
 * log/merged.  Errors: 0 or a negative errno; nothing is printed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_MERGE_NOTE_H
#define COUNTD_COMMON_SETUP_MERGE_NOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/setup/datadir.h"

#define MERGE_NOTE_FILE     "merged" /* in keyspace/ and in log/ */
#define MERGE_NOTE_EVERY_MS 10000
#define MERGE_NOTE_TEXT     400

struct merge_note {
    uint64_t keyspace_ms, log_ms; /* 0: none */
};

int merge_note_read(const struct datadir *d, struct merge_note *out);

/* False if keyspace/ is not the folder that this process has open: it was moved
 * away, and what is merged into it would be missing from the one in its place.
 */
bool merge_note_is_in_place(const struct datadir *d);

/* True if keyspace/ lacks merges that the logs have gone through. */
static inline bool
merge_note_is_older(const struct merge_note *n)
{
    return n->keyspace_ms < n->log_ms;
}

/* Writes a new number into both folders.
 *   -ESTALE  keyspace/ is older, and `accept` does not say that what is missing
 *            stays missing: nothing was written
 *   -EAGAIN  another process is writing them
 * After any other error the caller may merge: an older copy may then go
 * undetected, and nothing else is lost. */
int merge_note_write(const struct datadir *d, uint64_t now_ms, bool accept);

/* Gives a copy of keyspace/ the number that keyspace/ had before it was copied.
 * 0 leaves the copy without one. */
int merge_note_put(int keyspace_fd, uint64_t ms);

/* What a keyspace/ that is older lacks; and that with what to do. */
void merge_note_lacks(const struct merge_note *n, char text[MERGE_NOTE_TEXT]);
void merge_note_explain(const struct merge_note *n, char text[MERGE_NOTE_TEXT]);

#endif
