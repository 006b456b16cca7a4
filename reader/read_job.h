/* reader/read_job.h - the job (jobs.h) of a request of GET /v1/COMMAND: a
 * command that is answered in steps, an answer that is packed, or a request
 * that waits.
 *
 * Ownership: it belongs to its request, and goes with it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_READ_JOB_H
#define COUNTD_READER_READ_JOB_H

#include "reader/chunks.h"
#include "reader/history_query.h"
#include "reader/jobs.h"
#include "reader/read_http.h"

/* The files of data/log, while a job lists them. */
struct read_logs {
    struct logfile_list list;
    struct log_row *rows; /* as many; NULL: none */
};

struct read_job {
    struct job job;
    struct read_request request;

    struct scratch scratch; /* of all that follows */

    /* For a command: */
    struct history_query history;
    int list_error;             /* of keyspaces or of files */
    struct store_listing *from; /* NULL: none, or no more */
    struct read_listed *listed; /* READ_LISTED_MAX */
    uint8_t *names;             /* theirs */
    bool has_more;              /* names, than are listed */
    struct read_logs logs;
    struct user_metrics users;

    /* For an answer that is packed: */
    struct chunks answer; /* its text; of size 0: none is packed */
    struct chunks_packer packer;

    int64_t as_of_ms; /* that it waits for; 0: for another version */
};

/* The job of a request; NULL: it has none. */
struct read_job *read_job_of(const struct http_call *x);

/* The same, made if there is none.  NULL: there is no memory. */
struct read_job *read_job_hold(struct http_call *x);

/* A job with a place begins with a request.  -ENOMEM */
int read_job_start(struct read_job *w, const struct read_request *request);

/* The same, with the answer to `request`, which is packed, and may be the job's
 * own.  -ENOMEM */
int read_job_pack(struct read_job *w, const struct read_request *request,
                  const uint8_t *text, size_t size);

/* The request waits for as_of_ms, or 0: for another version; its connection is
 * served again when that, or the end of its time, may have come. */
void read_job_wait(struct read_job *w, const struct read_request *request,
                   int64_t as_of_ms);

#endif
