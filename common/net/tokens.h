/* common/net/tokens.h - who may do what: the file of http.tokens.
 *
 *     # NAME  RIGHTS      TOKEN
 *     shop    count       6f1c0b7e2d9a4c53
 *     boss    read,admin  a8d20c8b5f3e41f7
 *
 * A line gives one token its rights; its name is for people.  Empty lines and
 * those that begin with # are passed over.  The file must be a regular one of
 * the daemon's user or of root that no other user may read, mode 0600 or 0400.
 *
 * tokens_check() reads the file again, at most once a second.  While a changed
 * file is wrong or missing, the tokens that were read before stay good, and the
 * fault is reported once a minute: so an error in one line never shuts out all
 * clients.
 *
 * A token is held only as SipHash-128 under a secret of the process and found
 * by that hash: the time of a check does not depend on how much of a guess is
 * right, and a core file has no tokens.  No message contains one.
 *
 * Ownership: the caller's between tokens_open() and tokens_close().  One
 * thread.  Errors: 0 or a negative errno, reported through diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_TOKENS_H
#define COUNTD_COMMON_NET_TOKENS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/hash.h"

enum tokens_right {
    TOKENS_READ = 1,
    TOKENS_COUNT = 2,
    TOKENS_QUOTA = 4, /* quotas and sequence numbers */
    TOKENS_ADMIN = 8, /* all others, too */
    TOKENS_ALL = 15
};

#define TOKENS_MAX       256 /* lines with a token */
#define TOKENS_SIZE_MIN  16  /* bytes of a token */
#define TOKENS_SIZE_MAX  128
#define TOKENS_NAME_MAX  64    /* bytes of a name */
#define TOKENS_FILE_SIZE 65536 /* bytes of the file, at most */

struct tokens;

/* Reads the file.  An empty path is none: *out is then NULL, and no client
 * needs a token.  With `any_user` the daemon's user is not known: the file may
 * then be unreadable for this one, and belong to any.
 *   -EINVAL  the file cannot be used
 *   -ENOMEM, -EIO, -EMFILE, -ENFILE  the system failed */
int tokens_open(struct tokens **out, const char *path, bool any_user);

/* Frees it; NULL does nothing. */
void tokens_close(struct tokens *t);

/* Returns the rights of a token, or-ed; 0: it is not known. */
unsigned tokens_check(struct tokens *t, const void *token, size_t size);

/* The hash by which a token is known, for a connection that shows its token
 * once: its rights are then asked for by the hash, again and again, as the file
 * may change. */
struct hash_wide tokens_hash(const struct tokens *t, const void *token,
                             size_t size);
unsigned tokens_rights(struct tokens *t, struct hash_wide hash);

#endif
