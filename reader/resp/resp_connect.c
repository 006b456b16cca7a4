/* reader/resp/resp_connect.c - what client libraries send when they connect.
 *
 *     resp_do_hello()    protocol, name; answer_hello()
 *     resp_do_client_*() */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <string.h>

#include "common/wire/name.h"

enum conn_next
resp_do_ping(struct resp_call *call)
{
    if (call->count > 2)
        return resp_wrong_arity(call);
    return call->count == 2 ? resp_do_echo(call)
                            : resp_answer(call, "+PONG\r\n");
}

enum conn_next
resp_do_echo(struct resp_call *call)
{
    return resp_answer_bulk(call, call->args[1].at, call->args[1].size);
}

enum conn_next
resp_do_select(struct resp_call *call)
{
    enum conn_next next;
    int64_t number;

    if (!resp_integer(&call->args[1], &number))
        return resp_not_integer(call);
    next = number == 0 ? resp_answer(call, "+OK\r\n")
                       : resp_error(call, "DB index is out of range");
    if (next == CONN_ANSWERED)
        call->state->has_no_database = number != 0;
    return next;
}

/* What libraries send, and do without. */
enum conn_next
resp_do_fixed(struct resp_call *call)
{
    static const char *const answers[] = {
        [RESP_NO_DOCS] = "*0\r\n",
        [RESP_NO_CLUSTER] =
            "-ERR This instance has cluster support disabled\r\n"};

    return resp_answer(call, answers[call->command->option]);
}

/* ---- names of clients ---------------------------------------------------- */

/* Sets the name of the connection; false: call->next. */
static bool
set_name(struct resp_call *call, const struct resp_arg *name)
{
    struct resp_state *s = call->state;

    if (name->size > RESP_CLIENT_NAME_MAX)
        return resp_stop(call,
                         resp_error(call, "Client names are at most %d bytes",
                                    RESP_CLIENT_NAME_MAX));
    for (size_t i = 0; i < name->size; i++)
        if (name->at[i] < '!' || name->at[i] > '~')
            return resp_stop(
                call, resp_error(call, "Client names cannot contain spaces, "
                                       "newlines or special characters."));
    if (name->size > 0)
        memcpy(s->name, name->at, name->size);
    s->name_size = (uint8_t)name->size;
    return true;
}

enum conn_next
resp_do_client_id(struct resp_call *call)
{
    return resp_answer_number(call, (int64_t)call->state->id);
}

enum conn_next
resp_do_client_getname(struct resp_call *call)
{
    const struct resp_state *s = call->state;

    return s->name_size == 0 ? resp_answer_nil(call)
                             : resp_answer_bulk(call, s->name, s->name_size);
}

enum conn_next
resp_do_client_setname(struct resp_call *call)
{
    return set_name(call, &call->args[2]) ? resp_answer(call, "+OK\r\n")
                                          : call->next;
}

/* Nothing reads what a library says of itself. */
enum conn_next
resp_do_client_setinfo(struct resp_call *call)
{
    const struct resp_arg *option = &call->args[2];
    char text[NAME_SHOWN_SIZE];

    if (!resp_is_word(option, "lib-name") && !resp_is_word(option, "lib-ver"))
        return resp_error(call, "Unrecognized option '%s'",
                          name_show(option->at, option->size, text));
    return resp_answer(call, "+OK\r\n");
}

/* ---- HELLO --------------------------------------------------------------- */

size_t
resp_put_pair(uint8_t *out, const char *name, const char *value)
{
    const size_t size = resp_put_bulk(out, name, strlen(name));

    return size + resp_put_bulk(out + size, value, strlen(value));
}

static enum conn_next
answer_hello(struct resp_call *call)
{
    uint8_t out[16 * RESP_NUMBER_SIZE];
    size_t size = resp_put_map(call, out, 7);

    size += resp_put_pair(out + size, "server", "redis");
    size += resp_put_pair(out + size, "version", RESP_REDIS_VERSION);
    size += resp_put_bulk(out + size, "proto", 5);
    size += resp_put_number(out + size, ':', call->state->protocol);
    size += resp_put_bulk(out + size, "id", 2);
    size += resp_put_number(out + size, ':', (int64_t)call->state->id);
    size += resp_put_pair(out + size, "mode", "standalone");
    size += resp_put_pair(out + size, "role", "master");
    size += resp_put_bulk(out + size, "modules", 7);
    size += resp_put_number(out + size, '*', 0);
    return resp_answer_bytes(call, out, size);
}

enum conn_next
resp_do_hello(struct resp_call *call)
{
    int64_t version = call->state->protocol;
    const struct resp_arg *name = NULL, *user = NULL, *token = NULL;
    char text[NAME_SHOWN_SIZE];

    if (call->count > 1 && !resp_integer(&call->args[1], &version))
        return resp_error(call,
                          "Protocol version is not an integer or out of range");
    if (version != 2 && version != 3)
        return resp_answer(call, "-NOPROTO unsupported protocol version\r\n");
    for (size_t i = 2; i < call->count; i++) {
        const size_t left = call->count - i - 1;

        if (resp_is_word(&call->args[i], "auth") && left >= 2) {
            user = &call->args[i + 1];
            token = &call->args[i += 2];
            continue;
        }
        if (!resp_is_word(&call->args[i], "setname") || left < 1)
            return resp_error(
                call, "Syntax error in HELLO option '%s'",
                name_show(call->args[i].at, call->args[i].size, text));
        name = &call->args[++i];
    }
    if ((token && !resp_auth_take(call, user, token)) ||
        (name && !set_name(call, name)))
        return call->next;
    call->state->protocol = (uint8_t)version;
    return answer_hello(call);
}

/* ---- the end ------------------------------------------------------------ */

enum conn_next
resp_do_quit(struct resp_call *call)
{
    if (resp_answer(call, "+OK\r\n") != CONN_ANSWERED)
        return CONN_FULL;
    return conn_last(call->conn);
}

enum conn_next
resp_do_reset(struct resp_call *call)
{
    if (resp_answer(call, "+RESET\r\n") != CONN_ANSWERED)
        return CONN_FULL;
    resp_drop_transaction(call->service, call->state);
    call->state->protocol = 2;
    call->state->name_size = 0;
    call->state->has_no_database = false;
    resp_auth_begin(call->service, call->conn);
    return CONN_ANSWERED;
}
