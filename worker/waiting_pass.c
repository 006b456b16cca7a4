/* worker/waiting_pass.c - see waiting_pass.h: waiting_pass_end_batch(),
 * waiting_pass_ended(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/waiting_pass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "worker/log_select.h"

void
waiting_pass_init(struct waiting_pass *p, struct waiting *folder)
{
    *p = (struct waiting_pass){
        .folder = folder, .now_ms = clock_ms, .due_ms = UINT64_MAX};
}

/* ---- files ---------------------------------------------------------------- */

/* Lists the folder, without damaged files if that can be. */
static int
list_sound(struct waiting_pass *p)
{
    static struct diag_repeat repeat;
    bool damaged = false;
    int rc;

    rc = waiting_list(p->folder);
    for (size_t i = 0; rc == 0 && i < p->folder->file_count; i++)
        damaged = damaged || p->folder->files[i]->damaged;
    if (!damaged)
        return rc;
    rc = waiting_repair(p->folder);
    if (rc < 0 && rc != -EAGAIN)
        diag_repeating(&repeat, DIAG_WARNING,
                       "repair files of log/" WAITING_FOLDER ": %s",
                       diag_text(rc));
    return waiting_list(p->folder);
}

static bool
claim_file(struct waiting_pass *p, struct waiting_file *f)
{
    const int rc = waiting_claim(p->folder, f);

    p->busy = p->busy || rc == -EAGAIN;
    return rc == 0;
}

/* Removes the files of which nothing is left (R5). */
static void
remove_done(struct waiting_pass *p)
{
    static struct diag_repeat repeat;

    waiting_sweep(p->folder, p->number);
    for (size_t i = 0; i < p->folder->file_count; i++) {
        struct waiting_file *f = p->folder->files[i];
        int rc;

        if (f->left > 0 || f->damaged)
            continue;
        if (!claim_file(p, f))
            continue; /* another process removes it, or has */
        rc = waiting_remove(p->folder, f);
        if (rc == 0)
            p->fills += f->fills;
        else
            diag_repeating(&repeat, DIAG_WARNING,
                           "remove log/" WAITING_FOLDER "/%s: %s", f->name,
                           diag_text(rc));
    }
}

/* ---- choosing --------------------------------------------------------------- */

static bool
is_wanted(const struct waiting_pass *p, const struct waiting_fill *f)
{
    return f->wanted && f->tried != p->number &&
           (f->file->placed || !p->placed_only);
}

static int
by_age(const void *a, const void *b)
{
    const struct waiting_fill *x = *(struct waiting_fill *const *)a,
                              *y = *(struct waiting_fill *const *)b;

    if (x->id.first_ms != y->id.first_ms)
        return x->id.first_ms < y->id.first_ms ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* The first wanted fill of each log, oldest first; returns how many. */
static size_t
choose_fills(const struct waiting_pass *p, struct waiting_fill **out)
{
    const struct waiting_index *x = &p->folder->index;
    size_t count = 0;

    for (size_t i = 0; i < x->fill_count; i++) {
        struct waiting_fill *f = x->fills[i];

        if (is_wanted(p, f) &&
            (count == 0 ||
             !log_fill_is_of_log(&f->id, out[count - 1]->id.uuid)))
            out[count++] = f;
    }
    if (count > 1)
        qsort(out, count, sizeof(struct waiting_fill *), by_age);
    return count;
}

/* Adds the chosen fills to the batch until it has no room.  Those that another
 * process merges are left to it in this pass. */
static int
add_chosen(struct waiting_pass *p, struct log_batch *b,
           struct waiting_fill **chosen, size_t count)
{
    int more = 1;

    for (size_t i = 0; more > 0 && i < count; i++) {
        struct waiting_fill *f = chosen[i];

        if (f->file->lock_fd < 0 && !claim_file(p, f->file)) {
            f->tried = p->number;
            continue;
        }
        more = batch_add_waiting(b, f);
        if (b->count == 0)
            f->tried = p->number; /* it is damaged, or cannot be folded */
    }
    return more < 0 ? more : (int)b->count;
}

static int
take_fills(struct waiting_pass *p, struct log_batch *b)
{
    struct waiting_fill **chosen;
    size_t count;
    int rc;

    chosen =
        calloc(p->folder->index.fill_count + 1, sizeof(struct waiting_fill *));
    if (!chosen)
        return -ENOMEM;
    do {
        rc = fold_clear(&b->fold);
        count = choose_fills(p, chosen);
        if (rc == 0 && count > 0)
            rc = add_chosen(p, b, chosen, count);
    } while (rc == 0 && count > 0);
    free(chosen);
    return rc;
}

int
waiting_pass_take(struct waiting_pass *p, struct log_batch *b)
{
    int rc;

    p->batch_ms = p->now_ms();
    rc = list_sound(p);
    if (rc < 0)
        return rc;
    if (!p->passing) {
        p->number++;
        p->passing = true;
        p->merged = p->busy = false;
        p->took_ms = 0;
    }
    remove_done(p);
    return take_fills(p, b);
}

/* ---- after a batch ---------------------------------------------------------- */

/* Notes what a keyspace has, or that it refused. */
static void
note_keyspace(struct waiting_pass *p, const struct log_batch *b,
              const struct fold_keyspace *k)
{
    const uint32_t name = waiting_find(p->folder, k->name, k->name_size);

    if (k->state != KEYSPACE_APPLIED) {
        if (name != WAITING_NONE)
            p->folder->names.entries[name].note = p->number;
        return;
    }
    for (unsigned i = 0; i < b->count; i++)
        if (fold_bit(k->touched, i) &&
            waiting_set_in(p->folder, b->logs[i].fill, k->name, k->name_size))
            p->merged = true;
}

static void
let_go(struct waiting_pass *p)
{
    for (size_t i = 0; i < p->folder->file_count; i++)
        waiting_let_go(p->folder->files[i]);
}

void
waiting_pass_end_batch(struct waiting_pass *p, const struct log_batch *b)
{
    const struct fold_keyspace *k;

    for (unsigned i = 0; i < b->count; i++)
        b->logs[i].fill->tried = p->number;
    for (k = b->fold.first; k; k = k->next)
        note_keyspace(p, b, k);
    let_go(p);
}

void
waiting_pass_ended(struct waiting_pass *p, int taken)
{
    static struct diag_repeat repeat;

    p->due_ms = p->now_ms();
    p->took_ms += p->due_ms - p->batch_ms;
    if (taken > 0)
        return;
    let_go(p);
    if (taken == -EAGAIN) {
        p->due_ms += PASS_AGAIN_MS;
        return;
    }
    if (taken < 0)
        diag_repeating(&repeat, DIAG_ERROR, "read log/" WAITING_FOLDER ": %s",
                       diag_text(taken));
    p->passing = false;
    if (taken == 0 && (p->merged || p->folder->file_count == 0)) {
        retry_succeeded(&p->retry);
        if (p->folder->file_count == 0)
            p->due_ms = UINT64_MAX;
        return;
    }
    retry_failed(&p->retry, p->due_ms, PASS_RETRY_FIRST_MS, PASS_RETRY_MOST_MS);
    p->due_ms +=
        p->retry.wait_ms > 4 * p->took_ms ? p->retry.wait_ms : 4 * p->took_ms;
}
