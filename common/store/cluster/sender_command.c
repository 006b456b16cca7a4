/* common/store/cluster/sender_command.c - the commands of the sender: one of a
 * part's entries, or of several that are summed; see sender_internal.h.
 *
 * Entry points: sender_begin(), sender_begin_call(), sender_begin_entries(),
 * sender_end(). */
#include "common/store/cluster/sender_internal.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"

struct sender_slot *
sender_begin(struct cluster_sender *s, uint16_t slot)
{
    struct sender_slot *w;

    if (s->count == SENDER_COMMANDS)
        return NULL;
    w = &s->slots[s->count];
    w->part = NULL;
    w->number = 0;
    w->number_count = 0;
    w->command = &s->commands[s->count++];
    *w->command = (struct cluster_command){.slot = slot,
                                           .node = CLUSTER_NO_NODE,
                                           .argv = w->argv,
                                           .sizes = w->sizes,
                                           .words = w->words};
    return w;
}

void
sender_end(struct cluster_sender *s)
{
    for (size_t i = 0; i < s->count; i++)
        if (s->commands[i].error != 0)
            s->error = s->commands[i].error;
    cluster_free_replies(s->commands, s->count);
    s->count = 0;
}

void
sender_add_number(struct sender_slot *w, uint64_t number)
{
    char *text = w->numbers[w->number_count++];

    assert(w->number_count <= SENDER_NUMBERS);
    (void)snprintf(text, CLUSTER_NUMBER, "%" PRIu64, number);
    cluster_add_text(w->command, text);
}

struct sender_slot *
sender_begin_call(struct cluster_sender *s, struct sender_part *p,
                  const char *verb, const char *function, size_t sections)
{
    struct sender_slot *w = sender_begin(s, p->keys.slot);

    if (w == NULL)
        return NULL;
    w->part = p;
    cluster_add_text(w->command, verb);
    cluster_add_text(w->command, function);
    sender_add_number(w, 2 + sections);
    cluster_add_word(w->command, p->keys.counts, p->keys.size);
    cluster_add_word(w->command, p->keys.order, p->keys.size);
    return w;
}

/* ---- entries ------------------------------------------------------------ */

/* Makes space for the words of a command that is yet to be begun. */
static int
reserve_words(struct sender_slot *w, size_t words)
{
    size_t capacity = w->words;

    if (words <= capacity)
        return 0;
    if (array_grow(&w->argv, &capacity, words, sizeof *w->argv) < 0)
        return -ENOMEM;
    capacity = w->words;
    if (array_grow(&w->sizes, &capacity, words, sizeof *w->sizes) < 0)
        return -ENOMEM;
    w->words = words;
    return 0;
}

/* Adds what every change begins with: the sender, the entry that the change
 * follows, and the one that it brings the part to. */
static void
add_chain(struct cluster_sender *s, struct sender_slot *w,
          const struct outbox_entry *first, const struct outbox_entry *last)
{
    struct cluster_command *m = w->command;

    w->number = last->number;
    w->entries = last->number - first->number + 1;
    put_le64(w->digests[0], first->prev_digest);
    put_le64(w->digests[1], last->digest);
    put_le64(w->sender, outbox_sender(s->outbox));
    cluster_add_word(m, w->sender, sizeof w->sender);
    sender_add_number(w, first->number - 1);
    cluster_add_word(m, w->digests[0], CLUSTER_MARK_SIZE);
    sender_add_number(w, last->number);
    cluster_add_word(m, w->digests[1], CLUSTER_MARK_SIZE);
}

/* Makes the command of an entry that removes keys, or all of them.  Its keys
 * are copied into the batch's bytes: reading the next entry reuses those of the
 * outbox. */
static int
begin_removal(struct cluster_sender *s, struct sender_part *p,
              const struct outbox_entry *e, struct outbox_entry_head *head)
{
    struct sender_slot *w = &s->slots[s->count];
    struct sender_batch *b = &w->batch;
    struct outbox_row row;
    size_t at = 0;

    if (array_grow(&b->bytes, &b->byte_capacity, head->row_bytes_size + 1, 1) <
            0 ||
        reserve_words(w, head->rows + SENDER_WORDS) < 0)
        return -ENOMEM;
    if (head->row_bytes_size > 0)
        memcpy(b->bytes, head->row_bytes, head->row_bytes_size);
    head->row_bytes = b->bytes;
    w = sender_begin_call(
        s, p, "FCALL",
        head->type == OUTBOX_DELETE ? "countd1_delete" : "countd1_drop", 0);
    add_chain(s, w, e, e);
    while (w->command->argc < w->words && outbox_row_next(head, &at, &row))
        if (sender_batch_wants(b, &row))
            cluster_add_word(w->command, row.key, row.key_size);
    return 0;
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

    if (sender_batch_finish(b, &p->keys, tiers, now) < 0 ||
        reserve_words(w, 2 * b->row_count + 2 * b->section_count +
                             SENDER_WORDS) < 0)
        return -ENOMEM;
    w = sender_begin_call(s, p, "FCALL", "countd1_apply", b->section_count);
    m = w->command;
    for (size_t i = 0; i < b->section_count; i++)
        cluster_add_word(m, b->sections[i].key, b->sections[i].key_size);
    add_chain(s, w, first, last);
    sender_add_number(w, b->row_count);
    sender_add_number(w, (s->options.keys_max + parts - 1) / parts);
    cluster_add_word(m, b->tiers, b->tiers_size);
    sender_add_number(w, now);
    sender_add_number(w, b->is_untimed ? 0 : b->first < now ? b->first : now);
    for (size_t i = 0; i < b->row_count; i++) {
        cluster_add_word(m, b->rows[i].key, b->rows[i].key_size);
        cluster_add_word(m, b->rows[i].delta, CLUSTER_SUM_SIZE);
    }
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
        rc = begin_removal(s, p, first, &head);
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
