/* reader/http_params.h - the parameters of a command over HTTP: those of the
 * command of the same name, checked as that checks them.
 *
 * A parameter that is not known, missing or there twice is an error, so that
 * no client gets the answer to a query that it did not mean.
 *
 * A name is the bytes behind the percent-encoding; NAME_hex=c328 is another way
 * to give NAME.  With names=text it is in text form.
 *
 * Ownership: the caller's; nothing points into the request.  Pure.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_HTTP_PARAMS_H
#define COUNTD_READER_HTTP_PARAMS_H

#include "common/net/http_parse.h"
#include "common/wire/increment_line.h"
#include "common/wire/table_write.h"

#define HTTP_PARAMS_KEYS 256 /* of one request */

enum http_param {
    PARAM_KEYSPACE,
    PARAM_KEY,
    PARAM_PREFIX,
    PARAM_AFTER,
    PARAM_N,
    PARAM_OFFSET,
    PARAM_LENGTH,
    PARAM_FROM,
    PARAM_TO,
    PARAM_STEP,
    PARAM_AS_OF,
    PARAM_WAIT,
    PARAM_FORMAT,
    PARAM_NUMBERS,
    PARAM_NAMES,
    PARAM_VERSION,
    PARAM_SORT,
    PARAM_GROUP,
    HTTP_PARAMS
};

#define PARAM_BIT(p) (1u << (p))

enum http_params_sort { SORT_NAME, SORT_SIZE, SORT_KEYS, SORT_TOTAL };

struct http_params {
    unsigned given; /* PARAM_BIT, or-ed */
    struct increment_name keyspace, prefix, after;
    uint8_t group; /* 0: none */
    size_t key_count;
    int64_t n, offset, length, as_of_ms, wait_s;
    uint64_t from_ms, to_ms, step_ms;
    enum table_format format; /* if it is given */
    enum name_form names;
    uint64_t version[2]; /* nonce and change */
    enum http_params_sort sort;
    struct increment_name keys[HTTP_PARAMS_KEYS]; /* key_count of them */
};

struct http_params_spec {
    unsigned allowed, required; /* PARAM_BIT, or-ed */
    size_t keys_max;
    int64_t n_min, n_max;
};

/* Why a query is refused: a word for programs, a line for people. */
struct http_params_fault {
    const char *code;
    char detail[256];
};

/* Reads all of a query at `now_ms` (Unix); what is not given is as it was.
 * False: *fault. */
bool http_params_read(struct http_params *p,
                      const struct http_params_spec *spec,
                      struct http_text query, uint64_t now_ms,
                      struct http_params_fault *fault);

static inline bool
http_params_has(const struct http_params *p, enum http_param param)
{
    return (p->given & PARAM_BIT(param)) != 0;
}

/* The form that Accept gives the largest weight: of equal ones that which is
 * named the most exactly, then the first of ours.  False: none is wanted. */
bool http_params_choose_format(const struct http_request *r,
                               enum table_format *format);

#endif
