/* reader/resp/resp_auth.c - who may do what: AUTH, and the right that a command
 * needs.
 *
 * With http.tokens a connection has no right until it gives a token; then it
 * has those of the token, as the file has them by now.  A connection through
 * the socket of the data directory has all: the mode of the socket says who may
 * connect.
 *
 *     resp_auth_begin(), resp_auth_refresh()   at each receive
 *     resp_auth_allows()                       at each command */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <string.h>
#include <sys/socket.h>

#include "common/base/bytes.h"
#include "common/net/net.h"

/* An address as a number.  Of IPv6 its first half: clients have a net. */
static uint64_t
client_of(const struct conn *c)
{
    struct net_address a = {.size = sizeof a.sa};

    if (getpeername(c->source.fd, (struct sockaddr *)&a.sa, &a.size) < 0)
        return 0; /* it has gone */
    if (a.sa.ss_family == AF_INET)
        return a.v4.sin_addr.s_addr;
    if (a.sa.ss_family != AF_INET6)
        return 0;
    return IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr)
               ? get_be32(a.v6.sin6_addr.s6_addr + 12)
               : get_be64(a.v6.sin6_addr.s6_addr);
}

void
resp_auth_begin(struct resp_call *call)
{
    struct resp_state *s = call->state;
    struct net_address a = {.size = sizeof a.sa};

    s->client = client_of(call->conn);
    s->has_token = false;
    s->is_trusted = !call->service->tokens ||
                    (getsockname(call->conn->source.fd,
                                 (struct sockaddr *)&a.sa, &a.size) == 0 &&
                     a.sa.ss_family == AF_UNIX);
    s->rights = s->is_trusted ? TOKENS_ALL : 0;
}

void
resp_auth_refresh(struct resp_call *call)
{
    struct resp_state *s = call->state;

    if (s->has_token)
        s->rights = (uint8_t)tokens_rights(call->service->tokens, s->token);
}

bool
resp_auth_allows(struct resp_call *call, const struct resp_command *command,
                 enum conn_next *answer)
{
    const struct resp_state *s = call->state;

    if (command->rights == 0 || (s->rights & command->rights) != 0)
        return true;
    if (s->rights == 0)
        *answer = resp_answer(call, "-NOAUTH Authentication required.\r\n");
    else if (command->rights == TOKENS_COUNT)
        *answer =
            resp_answer(call, "-NOPERM this token lacks the right count\r\n");
    else
        *answer =
            resp_answer(call, "-NOPERM this token lacks the right read\r\n");
    return false;
}

bool
resp_auth_take(struct resp_call *call, const struct resp_arg *name,
               const struct resp_arg *token, enum conn_next *answer)
{
    struct tokens *tokens = call->service->tokens;
    struct resp_state *s = call->state;
    unsigned rights;

    if (!tokens && name) {
        /* As in Redis: the default user has any password. */
        if (name->size == 7 && memcmp(name->at, "default", 7) == 0)
            return true;
        *answer = resp_answer(call, "-WRONGPASS invalid username-password pair "
                                    "or user is disabled.\r\n");
        return false;
    }
    if (!tokens) {
        *answer = resp_error(
            call, "AUTH <password> called without any password configured for "
                  "the default user. Are you sure your configuration is "
                  "correct?");
        return false;
    }
    rights = tokens_check(tokens, token->at, token->size);
    if (rights == 0) {
        *answer = resp_answer(call, "-WRONGPASS this token is not known; "
                                    "http.tokens has those that are\r\n");
        return false;
    }
    s->token = tokens_hash(tokens, token->at, token->size);
    s->has_token = true;
    s->rights = (uint8_t)rights;
    return true;
}

/* AUTH TOKEN, AUTH NAME TOKEN; of a token the name says nothing. */
enum conn_next
resp_do_auth(struct resp_call *call)
{
    enum conn_next answer;

    if (call->count > 3)
        return resp_syntax_error(call);
    if (!resp_auth_take(call, call->count == 3 ? &call->args[1] : NULL,
                        &call->args[call->count - 1], &answer))
        return answer;
    return resp_answer(call, "+OK\r\n");
}
