/* tests/lib/transcript.h - commands of a user and what they print, as a text.
 *
 *     == drop empties a keyspace, and what comes after counts
 *     $ start
 *     $ countd incr words the 3
 *     $ countd drop words
 *     dropped keyspace=words keys=1 total=3 held=0
 *     $ countd get words the
 *     countd: info: no such ...
 *     [1]
 *
 * A case begins with ==; its sentence, with _ for what is no letter, names the
 * test.  A command is a line of /bin/sh after "$ ", continued by "> ".  Below
 * it stands what it prints on stdout and stderr: `...` is any text within a
 * line and, alone, any lines; a failure shows control bytes as \x1b.  [N] is
 * its exit status, else 0.  Lines that begin with "# " and empty ones are for
 * readers.
 *
 * Each case has a directory of its own, where its commands run, after those
 * that stand before the first case.  bin/ in it is first in $PATH.  The data
 * directory is data/ in it.  countd is given it, the options and the ports of
 * the daemons; $write, $worker and $read are the pids of those that run.  The
 * runner itself does these:
 *
 *     option KEY=VALUE    a setting of daemons that start from now on
 *     start [ROLE ...]    write, worker, worker2, read; or the three, with one
 *                         worker
 *     stop [ROLE ...]     SIGTERM, and 0 is its status
 *     crash ROLE          SIGKILL
 *     drained             waits until all is merged and nothing is held
 *     needs COMMAND       skips the case, and says so, unless it succeeds
 *     begin NAME COMMAND  runs it beside: $NAME is its pid
 *     end NAME            its end: what it printed, and its status
 *     await COMMAND       until it prints what stands there, with a deadline
 *
 * With TRANSCRIPT_UPDATE=FILE a whole run leaves the text there as it was
 * heard: for a reader to compare, when messages have changed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_TRANSCRIPT_H
#define COUNTD_TESTS_LIB_TRANSCRIPT_H

/* As test_main(), with a test more for each case of the file. */
int transcript_main(const char *path, int argc, char **argv);

#endif
