/* common/log/log_unsealed.c - see log_unsealed.h. */
#include "common/log/log_unsealed.h"

#include <errno.h>

#include "common/log/inspect.h"
#include "common/log/log.h"
#include "common/log/log_owner.h"
#include "common/log/log_recover.h"

/* 1: the header does not say SEALED or EMPTY; 0: it does, or the log is gone;
 * -EACCES: it has the mode of a full log, which only root reads. */
static int
read_header(int dirfd, uint64_t index, struct log_unsealed *out)
{
    struct inspect look;
    const int rc = inspect_log(dirfd, index, &look);

    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    if (look.headers_rc < 0)
        return 1;
    out->epoch = look.header.epoch;
    out->has_marks = (look.header.features & LOG_HAS_MARKS) != 0;
    return log_owner_is_doubtful(&look);
}

/* A claim reads the header of a full log, and leaves one that is OPEN to
 * recovery. */
static int
claim_full(int dirfd, uint64_t index, struct mark_store *marks,
           struct log_unsealed *out)
{
    struct log log;
    int rc;

    rc = log_claim(&log, dirfd, index, LOG_MODE_FULL);
    if (rc == 0) {
        out->epoch = log.header.epoch;
        out->has_marks = (log.header.features & LOG_HAS_MARKS) != 0;
        (void)log_release(&log); /* recovery repairs what this leaves */
        return 0;
    }
    if (rc == -ESTALE)
        rc = log_recover(dirfd, index, marks);
    out->has_marks = out->has_marks || rc == -ENOKEY;
    return rc >= 0 || rc == -ENOENT || rc == -EBADMSG ? 0 : 1;
}

int
log_unsealed(int dirfd, uint64_t index, struct mark_store *marks,
             struct log_unsealed *out)
{
    int rc;

    *out = (struct log_unsealed){.epoch = 0};
    rc = read_header(dirfd, index, out);
    return rc == 0 ? 0 : claim_full(dirfd, index, marks, out);
}
