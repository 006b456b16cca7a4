/* common/store/cluster/sender_command.c - the commands of the sender: one of a
 * part's entries, or of several that are summed; see sender_internal.h.
 *
 * Entry points: sender_next(), sender_begin_call(), sender_begin_entries(),
 * sender_end(). */
#include "common/store/cluster/sender_internal.h"

#include <errno.h>

#include "common/base/clock.h"
#include "common/base/diag.h"

struct cluster_command *
sender_next(struct cluster_sender *s)
{
    if (s->count == SENDER_COMMANDS)
        return NULL;
    s->slots[s->count].part = NULL;
    return &s->commands[s->count++];
}

void
sender_end(struct cluster_sender *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->commands[i].error != 0)
            s->counted.outbox.error = s->commands[i].error;
    cluster_end(s->commands, s->count);
    s->count = 0;
}

struct cluster_command *
sender_begin_call(struct cluster_sender *s, struct sender_part *p,
                  const char *words)
{
    struct cluster_command *m = sender_next(s);

    if (m == NULL)
        return NULL;
    s->slots[s->count - 1].part = p;
    cluster_begin_part(m, &p->keys, words);
    cluster_add_mark(m, outbox_sender(s->outbox));
    return m;
}

bool
sender_run_round(struct cluster_sender *s,
                 void (*begin)(struct cluster_sender *s, struct sender_part *p),
                 void (*take)(struct cluster_sender *s, size_t at))
{
    const size_t keyspaces = outbox_keyspace_count(s->outbox);
    size_t i;

    for (i = 0; i < keyspaces && s->count < SENDER_COMMANDS; i++) {
        struct sender_keyspace *k =
            outbox_keyspace_at(s->outbox, (s->next + i) % keyspaces)->sender;

        for (uint32_t j = 0; k && k->is_named && j < k->place.parts; j++)
            begin(s, &k->parts[j]);
    }
    s->next += i;
    if (s->count == 0)
        return false;
    cluster_run(s->cluster, s->commands, s->count);
    for (i = 0; i < s->count; i++)
        take(s, i);
    sender_end(s);
    return true;
}

/* ---- entries ------------------------------------------------------------ */

/* Adds what every change begins with after the sender: the entry that the
 * change follows, and the one that it brings the part to. */
static void
add_chain(struct sender_slot *w, struct cluster_command *m,
          const struct outbox_entry *first, const struct outbox_entry *last)
{
    w->entries = last->number - first->number + 1;
    cluster_add_number(m, (int64_t)first->number - 1);
    cluster_add_mark(m, first->prev_digest);
    cluster_add_number(m, (int64_t)last->number);
    cluster_add_mark(m, last->digest);
}

/* Makes the command of an entry that removes keys, or all of them. */
static void
begin_removal(struct cluster_sender *s, struct sender_part *p,
              const struct outbox_entry *e,
              const struct outbox_entry_head *head)
{
    struct sender_slot *w = &s->slots[s->count];
    struct cluster_command *m =
        sender_begin_call(s, p,
                          head->type == OUTBOX_DELETE ? "FCALL countd1_delete 2"
                                                      : "FCALL countd1_drop 2");
    struct outbox_row row;
    size_t at = 0;

    add_chain(w, m, e, e);
    while (outbox_row_next(head, &at, &row))
        if (sender_batch_wants(&w->batch, &row))
            cluster_add_word(m, row.key, row.key_size);
}

/* Makes the command of entries whose rows are in the batch of its slot. */
static int
begin_addition(struct cluster_sender *s, struct sender_part *p,
               const struct outbox_entry *first,
               const struct outbox_entry *last)
{
    const struct outbox_keyspace *k = p->chain->keyspace;
    const uint32_t parts =
        ((const struct sender_keyspace *)k->sender)->place.parts;
    const struct tiers *tiers =
        tiers_of(s->options.outbox.history, k->name, k->name_size);
    const uint32_t now = (uint32_t)(clock_unix_ms() / 60000);
    struct sender_slot *w = &s->slots[s->count];
    struct sender_batch *b = &w->batch;
    struct cluster_command *m;

    if (sender_batch_finish(b, &p->keys, tiers, now) < 0)
        return -ENOMEM;
    m = sender_next(s);
    w->part = p;
    cluster_begin(m, p->keys.slot, "FCALL countd1_apply");
    cluster_add_number(m, 2 + (int64_t)b->section_count);
    cluster_add_word(m, p->keys.counts, p->keys.size);
    cluster_add_word(m, p->keys.order, p->keys.size);
    for (size_t i = 0; i < b->section_count; i++)
        cluster_add_word(m, b->sections[i].key, b->sections[i].key_size);
    cluster_add_mark(m, outbox_sender(s->outbox));
    add_chain(w, m, first, last);
    cluster_add_number(m, (int64_t)b->row_count);
    cluster_add_number(m, (int64_t)((s->options.keys_max + parts - 1) / parts));
    cluster_add_word(m, b->tiers, b->tiers_size);
    cluster_add_number(m, now);
    cluster_add_number(m, b->is_untimed ? 0 : b->first < now ? b->first : now);
    sender_batch_put_rows(b, m);
    for (size_t i = 0; i < b->section_count; i++)
        cluster_add_word(m, b->sections[i].bytes, b->sections[i].size);
    cluster_add_text(m, s->options.key_order ? "1" : "0");
    return 0;
}

uint64_t
sender_begin_entries(struct cluster_sender *s, struct sender_part *p,
                     uint64_t number)
{
    const struct outbox_entry *first = outbox_find_entry(p->chain, number);
    const struct outbox_entry *last = first, *e;
    const struct sender_keyspace *sk = p->chain->keyspace->sender;
    struct sender_batch *b;
    struct outbox_entry_head head;
    int rc;

    if (s->count == SENDER_COMMANDS || first == NULL)
        return 0;
    b = &s->slots[s->count].batch;
    sender_batch_begin(b);
    b->parts = sk->fan > 1 ? sk->place.parts : 0;
    b->part = p->number;
    rc = outbox_read(s->outbox, first, &head);
    if (rc == 0 && head.type != OUTBOX_ADD)
        begin_removal(s, p, first, &head);
    else if (rc == 0) {
        rc = sender_batch_add(b, &head);
        for (uint64_t i = 1; rc == 0 && !p->is_full && i < SENDER_ENTRIES;
             i++) {
            e = outbox_find_entry(p->chain, number + i);
            if (e == NULL || outbox_read(s->outbox, e, &head) < 0 ||
                head.type != OUTBOX_ADD || sender_batch_add(b, &head) != 0)
                break;
            last = e;
        }
        if (rc == 0)
            rc = begin_addition(s, p, first, last);
    }
    if (rc < 0)
        sender_back_off(s, p, diag_text(rc));
    return rc < 0 ? 0 : last->number;
}
