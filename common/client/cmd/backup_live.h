/* common/client/cmd/backup_live.h - the copy of live/ in a backup: quotas,
 * sequence marks and requests with an Idempotency-Key.
 *
 * The daemons change these files meanwhile.  A sequence mark is valid at any
 * moment.  The quota journal is cut where its note ends that was read before:
 * what the copy has is the state of that moment.  live/requests is copied
 * while no process stores.
 *
 * Errors: 0 or a negative errno. */
#ifndef COUNTD_COMMON_CLIENT_CMD_BACKUP_LIVE_H
#define COUNTD_COMMON_CLIENT_CMD_BACKUP_LIVE_H

/* Copies live/ of the data directory `from_fd` into that of `to_fd`, durably.
 * There may be none. */
int backup_live(int from_fd, int to_fd);

#endif
