/* reader/scrape.c - see scrape.h. */
#include "reader/scrape.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/net/http_query.h"
#include "reader/metrics.h"
#include "reader/read_commands.h"

#define STEP_NS 1000000 /* of a turn, about */

static_assert(METRICS_MAX <= READ_HTTP_TEXT_MAX, "the buffer is that of texts");

static bool
wants_openmetrics(const struct http_request *r)
{
    return http_weight(r, "application/openmetrics-text") > 0;
}

bool
scrape_check(struct http_call *x, enum conn_next *next)
{
    char shown[HTTP_QUERY_SHOWN], detail[HTTP_DETAIL_SIZE];
    const struct http_problem problem = {"unknown-parameter", detail, 0};

    if (!http_query_shows(x->request->query, shown))
        return true;
    (void)snprintf(detail, sizeof detail, "unknown parameter: %s", shown);
    *next = http_refuse(x, HTTP_BAD_REQUEST, &problem);
    return false;
}

enum conn_next
scrape_answer(struct http_call *x)
{
    struct read_http *h = x->ctx;
    const uint64_t now_ms = loop_now_ms(h->loop);
    const bool is_open = wants_openmetrics(x->request);
    size_t size;
    uint8_t *body;

    if (!user_metrics_is_fresh(&h->users, now_ms)) {
        user_metrics_start(&h->users, now_ms);
        return http_hold(x, &h->scrapes);
    }
    x->type = is_open ? "application/openmetrics-text; version=1.0.0; "
                        "charset=utf-8"
                      : "text/plain; version=0.0.4; charset=utf-8";
    size = metrics_put(read_board(h) ? &h->overview : NULL, &h->users, is_open,
                       (char *)h->text);
    body = http_body(x, size);
    if (!body)
        return CONN_FULL;
    memcpy(body, h->text, size);
    return http_end(x, HTTP_OK, size);
}

/* A step, if a scrape still waits for it. */
static void
step_users(struct read_http *h)
{
    const uint64_t now_ms = loop_now_ms(h->loop);

    if (list_alone(&h->scrapes.link)) {
        user_metrics_stop(&h->users);
        return;
    }
    answer_start_turn(h->answer, now_ms);
    if (user_metrics_step(&h->users, STEP_NS, now_ms))
        http_wake(&h->scrapes);
}

bool
scrape_end_turn(struct read_http *h)
{
    if (h->users.state != USER_METRICS_IDLE)
        step_users(h);
    return h->users.state != USER_METRICS_IDLE;
}
