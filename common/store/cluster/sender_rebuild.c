/* common/store/cluster/sender_rebuild.c - parts whose order does not fit their
 * counts: it is made again from them, a slice a turn, so that neither the
 * server nor entries of other parts wait long.  The part is closed meanwhile;
 * if this process dies, the function begins anew for the
 * process that finds it next. */
#include "common/store/cluster/sender_internal.h"

#include "common/base/clock.h"
#include "common/base/diag.h"

#define SLICE_ROWS 500
#define CLOSED_MS  1000 /* another process has closed the part */

enum rebuild_reply { REBUILD_MORE, REBUILD_DONE, REBUILD_CLOSED };

static void
take_reply(struct cluster_sender *s, size_t at)
{
    struct sender_part *p = s->slots[at].part;
    const redisReply *reply = s->commands[at].reply;
    char text[SENDER_PART_TEXT];

    if (s->commands[at].error != 0 || reply->type != REDIS_REPLY_ARRAY ||
        reply->elements < 1) {
        sender_back_off(s, p, "make its order again");
        return;
    }
    p->backoff_ms = 0;
    if (reply->element[0]->integer == REBUILD_CLOSED)
        p->retry_ms = clock_ms() + CLOSED_MS;
    if (reply->element[0]->integer != REBUILD_DONE)
        return;
    p->needs_rebuild = false;
    diag(DIAG_WARNING,
         "%s: its order did not fit its counts and was made again from them",
         sender_format_part(p, text));
}

static void
begin_slice(struct cluster_sender *s, struct sender_part *p)
{
    struct cluster_command *m;

    if (!p->needs_rebuild || p->retry_ms > s->turn_ms)
        return;
    m = sender_begin_call(s, p, "FCALL countd1_rebuild 2");
    if (m != NULL)
        cluster_add_number(m, SLICE_ROWS);
}

bool
sender_rebuild(struct cluster_sender *s)
{
    return sender_run_round(s, begin_slice, take_reply);
}
