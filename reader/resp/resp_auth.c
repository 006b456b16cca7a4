/* reader/resp/resp_auth.c - who may do what: AUTH, and the right that a command
 * needs.
 *
 * With http.tokens a connection has no right until it gives a token; then it
 * has those of the token, as the file has them by now.  A connection through
 * the socket of the data directory has all: the mode of the socket says who may
 * connect.
 *
 *     resp_auth_begin()                        at the beginning, and at RESET
 *     resp_auth_refresh()                      at each receive
 *     resp_auth_allows()                       at each command */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <string.h>

void
resp_auth_begin(const struct resp_service *r, struct conn *c)
{
    struct resp_state *s = conn_state(c);

    s->has_token = false;
    s->rights = r->tokens && !c->is_local ? 0 : TOKENS_ALL;
}

void
resp_auth_refresh(struct resp_call *call)
{
    struct resp_state *s = call->state;

    if (s->has_token)
        s->rights = (uint8_t)tokens_rights(call->service->tokens, s->token);
}

bool
resp_auth_allows(struct resp_call *call)
{
    const unsigned wanted = call->command->flags & TOKENS_ALL;
    const unsigned rights = call->state->rights;

    if (wanted == 0 || (rights & wanted) != 0)
        return true;
    return resp_stop(
        call,
        resp_answer(call, rights == 0 ? "-NOAUTH Authentication required.\r\n"
                          : wanted == TOKENS_COUNT
                              ? "-NOPERM this token lacks the right count\r\n"
                              : "-NOPERM this token lacks the right read\r\n"));
}

bool
resp_auth_take(struct resp_call *call, const struct resp_arg *name,
               const struct resp_arg *token)
{
    struct tokens *tokens = call->service->tokens;
    struct resp_state *s = call->state;
    unsigned rights;

    /* As in Redis, any password opens the default user, when it has none. */
    if (!tokens && name && name->size == 7 &&
        memcmp(name->at, "default", 7) == 0)
        return true;
    if (!tokens)
        return resp_stop(
            call,
            resp_error(call,
                       "AUTH <password> called without any password configured "
                       "for the default user. Are you sure your configuration "
                       "is correct?"));
    rights = tokens_check(tokens, token->at, token->size);
    if (rights == 0)
        return resp_stop(call, resp_answer(call, "-WRONGPASS this token is not "
                                                 "known; http.tokens has those "
                                                 "that are\r\n"));
    s->token = tokens_hash(tokens, token->at, token->size);
    s->has_token = true;
    s->rights = (uint8_t)rights;
    return true;
}

/* AUTH TOKEN, AUTH NAME TOKEN; of a token the name says nothing. */
enum conn_next
resp_do_auth(struct resp_call *call)
{
    if (call->count > 3)
        return resp_syntax_error(call);
    if (!resp_auth_take(call, call->count == 3 ? &call->args[1] : NULL,
                        &call->args[call->count - 1]))
        return call->next;
    return resp_answer(call, "+OK\r\n");
}
