/* common/client/cmd/store_session.c - see cmd_data.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_data.h"

#include <errno.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "common/setup/privilege.h"
#include "common/store/lmdb/lmdb_store.h"
#include "common/store/postgresql/postgresql_store.h"

#define TXN_MEMORY ((size_t)64 << 20)
#define OPEN_MAX   16 /* keyspaces at once */

int
store_session_store(const struct cmd_line *line, int keyspace_fd, bool writable,
                    struct store **out)
{
    const struct lmdb_options options = {
        .keyspace_fd = keyspace_fd,
        .keyspace_size = (uint16_t)line->config.keyspace_size,
        .key_size = (uint16_t)line->config.key_size,
        .writable = writable,
        .open_max = OPEN_MAX,
        .txn_memory = writable ? TXN_MEMORY : 0,
        .keyspace_max = line->config.keyspace_max,
        .keys_max = line->config.keyspace_max_keys,
        .history = &line->config.history,
        .history_of_new = true, /* these settings may not be the workers' */
        .history_max = line->config.history_max,
    };
    const struct postgresql_options remote = {.writable = writable,
                                              .history_of_new = true};

    return line->config.store_postgresql
               ? postgresql_store_open_configured(out, &line->config, &remote)
               : lmdb_store_open(out, &options);
}

long
store_session_holder(const struct store_session *in)
{
    return store_traits(in->store) & STORE_FILES ? lmdb_store_holder(in->store)
                                                 : 0;
}

/* With the directory open. */
static int
open_rest(const struct cmd_line *line, bool writable, struct store_session *out)
{
    int rc, status;

    status = wait_sizes(line, &out->dir);
    if (status != 0)
        goto close_dir;
    rc = store_session_store(line, out->dir.keyspace_fd, writable, &out->store);
    status = CONFIG_EXIT_SYSTEM;
    if (rc < 0) {
        diag_errno(DIAG_ERROR, rc, "open %s/keyspace", line->config.data_dir);
        goto close_dir;
    }
    rc = waiting_open(&out->waiting, out->dir.log_fd, writable, true, 0);
    if (rc == 0)
        return 0;
    status =
        cmd_failed(rc, "open %s/log/" WAITING_FOLDER, line->config.data_dir);
    store_close(out->store);

close_dir:
    datadir_close(&out->dir);
    return status;
}

int
store_session_open(const struct cmd_line *line, bool writable,
                   struct store_session *out)
{
    const int status = wait_datadir(line, &out->dir);

    return status != 0 ? status : open_rest(line, writable, out);
}

int
store_session_make(const struct cmd_line *line, struct store_session *out)
{
    int rc;

    if (*line->status != 0)
        return *line->status;
    /* What root made would be in the daemons' way. */
    if (geteuid() == 0 && line->config.user[0] != '\0') {
        rc = privilege_become(&line->config, DATADIR_WRITE);
        if (rc != 0)
            return rc;
    }
    rc = datadir_open(&out->dir, line->config.data_dir, DATADIR_WRITE);
    if (rc < 0)
        return datadir_exit_status(rc, DATADIR_WRITE);
    return open_rest(line, true, out);
}

void
store_session_close(struct store_session *in)
{
    waiting_close(&in->waiting);
    store_close(in->store);
    datadir_close(&in->dir);
}
