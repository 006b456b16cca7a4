/* reader/resp/resp_connect.c - what client libraries send when they connect,
 * and what operators ask.
 *
 *     resp_do_hello()    protocol, name; answer_hello()
 *     resp_do_client()   SETNAME, SETINFO, ID */
#include "reader/resp/resp_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/base/version.h"
#include "common/wire/name.h"

#define REDIS_VERSION "7.0.0"
#define INFO_SIZE     1024

enum conn_next
resp_do_ping(struct resp_call *call)
{
    if (call->count > 2)
        return resp_wrong_arity(call, "ping");
    if (call->count == 2)
        return resp_answer_bulk(call, call->args[1].at, call->args[1].size);
    return resp_answer(call, "+PONG\r\n");
}

enum conn_next
resp_do_echo(struct resp_call *call)
{
    return resp_answer_bulk(call, call->args[1].at, call->args[1].size);
}

enum conn_next
resp_do_select(struct resp_call *call)
{
    int64_t number;

    if (!resp_integer(&call->args[1], &number))
        return resp_not_integer(call);
    if (number != 0)
        return resp_error(call, "DB index is out of range");
    return resp_answer(call, "+OK\r\n");
}

/* ---- names of clients ---------------------------------------------------- */

/* Sets the name of the connection; false: *answer has the error. */
static bool
set_name(struct resp_call *call, const struct resp_arg *name,
         enum conn_next *answer)
{
    struct resp_state *s = call->state;

    if (name->size > RESP_CLIENT_NAME_MAX) {
        *answer = resp_error(call, "Client names are at most %d bytes",
                             RESP_CLIENT_NAME_MAX);
        return false;
    }
    for (size_t i = 0; i < name->size; i++)
        if (name->at[i] < '!' || name->at[i] > '~') {
            *answer = resp_error(call, "Client names cannot contain spaces, "
                                       "newlines or special characters.");
            return false;
        }
    if (name->size > 0)
        memcpy(s->name, name->at, name->size);
    s->name_size = (uint8_t)name->size;
    return true;
}

static enum conn_next
set_info(struct resp_call *call)
{
    const struct resp_arg *option = &call->args[2];
    char text[NAME_SHOWN_SIZE];

    if (!resp_is_word(option, "lib-name") && !resp_is_word(option, "lib-ver"))
        return resp_error(call, "Unrecognized option '%s'",
                          name_show(option->at, option->size, text));
    return resp_answer(call, "+OK\r\n");
}

static enum conn_next
unknown_subcommand(struct resp_call *call, const char *command)
{
    char text[NAME_SHOWN_SIZE];

    return resp_error(call, "unknown subcommand '%s'. Try %s HELP.",
                      name_show(call->args[1].at, call->args[1].size, text),
                      command);
}

enum conn_next
resp_do_client(struct resp_call *call)
{
    const struct resp_arg *sub = &call->args[1];
    struct resp_state *s = call->state;
    enum conn_next next;

    if (resp_is_word(sub, "id"))
        return call->count == 2 ? resp_answer_number(call, (int64_t)s->id)
                                : resp_wrong_arity(call, "client|id");
    if (resp_is_word(sub, "getname")) {
        if (call->count != 2)
            return resp_wrong_arity(call, "client|getname");
        return s->name_size == 0
                   ? resp_answer_nil(call)
                   : resp_answer_bulk(call, s->name, s->name_size);
    }
    if (resp_is_word(sub, "setname")) {
        if (call->count != 3)
            return resp_wrong_arity(call, "client|setname");
        return set_name(call, &call->args[2], &next)
                   ? resp_answer(call, "+OK\r\n")
                   : next;
    }
    if (resp_is_word(sub, "setinfo"))
        return call->count == 4 ? set_info(call)
                                : resp_wrong_arity(call, "client|setinfo");
    return unknown_subcommand(call, "CLIENT");
}

/* ---- HELLO --------------------------------------------------------------- */

static size_t
put_pair(uint8_t *out, const char *name, const char *value)
{
    const size_t size = resp_put_bulk(out, name, strlen(name));

    return size + resp_put_bulk(out + size, value, strlen(value));
}

static enum conn_next
answer_hello(struct resp_call *call)
{
    uint8_t *out = resp_space(call, 16 * RESP_NUMBER_SIZE);
    size_t size;

    if (!out)
        return CONN_FULL;
    size = resp_put_map(call, out, 7);
    size += put_pair(out + size, "server", "redis");
    size += put_pair(out + size, "version", REDIS_VERSION);
    size += resp_put_bulk(out + size, "proto", 5);
    size += resp_put_number(out + size, ':', call->state->protocol);
    size += resp_put_bulk(out + size, "id", 2);
    size += resp_put_number(out + size, ':', (int64_t)call->state->id);
    size += put_pair(out + size, "mode", "standalone");
    size += put_pair(out + size, "role", "master");
    size += resp_put_bulk(out + size, "modules", 7);
    size += resp_put_number(out + size, '*', 0);
    resp_put(call, size);
    return CONN_MORE;
}

enum conn_next
resp_do_hello(struct resp_call *call)
{
    int64_t version = call->state->protocol;
    const struct resp_arg *name = NULL, *token = NULL;
    char text[NAME_SHOWN_SIZE];
    enum conn_next next;

    if (call->count > 1 && !resp_integer(&call->args[1], &version))
        return resp_error(call,
                          "Protocol version is not an integer or out of range");
    if (version != 2 && version != 3)
        return resp_answer(call, "-NOPROTO unsupported protocol version\r\n");
    for (size_t i = 2; i < call->count; i++) {
        const size_t left = call->count - i - 1;

        if (resp_is_word(&call->args[i], "auth") && left >= 2) {
            token = &call->args[i += 2];
            continue;
        }
        if (!resp_is_word(&call->args[i], "setname") || left < 1)
            return resp_error(
                call, "Syntax error in HELLO option '%s'",
                name_show(call->args[i].at, call->args[i].size, text));
        name = &call->args[++i];
    }
    if (token && !resp_auth_take(call, token, &next))
        return next;
    if (name && !set_name(call, name, &next))
        return next;
    call->state->protocol = (uint8_t)version;
    return answer_hello(call);
}

/* ---- the server ---------------------------------------------------------- */

enum conn_next
resp_do_config(struct resp_call *call)
{
    static const struct {
        const char *name, *value;
    } known[] = {{"save", ""}, {"appendonly", "yes"}};
    size_t found = 0, size;
    uint8_t *out;

    if (!resp_is_word(&call->args[1], "get"))
        return unknown_subcommand(call, "CONFIG");
    if (call->count < 3)
        return resp_wrong_arity(call, "config|get");
    out = resp_space(call, 8 * RESP_NUMBER_SIZE);
    if (!out)
        return CONN_FULL;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 2; i < call->count; i++)
            if (resp_is_word(&call->args[i], known[k].name)) {
                found |= (size_t)1 << k;
                break;
            }
    size = resp_put_map(call, out, (found & 1) + (found >> 1));
    for (size_t k = 0; k < 2; k++)
        if ((found >> k & 1) != 0)
            size += put_pair(out + size, known[k].name, known[k].value);
    resp_put(call, size);
    return CONN_MORE;
}

enum conn_next
resp_do_command(struct resp_call *call)
{
    if (call->count > 1 && resp_is_word(&call->args[1], "count"))
        return resp_answer_number(call, (int64_t)resp_command_count());
    return resp_answer(call, "*0\r\n");
}

enum conn_next
resp_do_cluster(struct resp_call *call)
{
    return resp_error(call, "This instance has cluster support disabled");
}

enum conn_next
resp_do_info(struct resp_call *call)
{
    const struct resp_service *r = call->service;
    const struct forward *f = &r->forward;
    char text[INFO_SIZE];
    int size;

    size =
        snprintf(text, sizeof text,
                 "# Server\r\nredis_version:" REDIS_VERSION
                 "\r\nredis_mode:standalone\r\ncountd_version:" VERSION "\r\n"
                 "\r\n# Clients\r\nconnected_clients:%zu\r\n"
                 "\r\n# Persistence\r\nloading:0\r\n"
                 "\r\n# Stats\r\ntotal_commands_processed:%" PRIu64 "\r\n"
                 "countd_forwarded:%" PRIu64 "\r\ncountd_unsure:%" PRIu64 "\r\n"
                 "countd_as_of_ms:%" PRIi64 "\r\n"
                 "\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
                 call->conn->listener->open, r->commands, f->stats.forwarded,
                 f->stats.unsure, as_of_get(r->as_of, NULL, 0));
    assert(size > 0 && (size_t)size < sizeof text);
    return resp_answer_bulk(call, text, (size_t)size);
}

enum conn_next
resp_do_quit(struct resp_call *call)
{
    if (resp_answer(call, "+OK\r\n") != CONN_MORE)
        return CONN_FULL;
    return conn_last(call->conn);
}

enum conn_next
resp_do_reset(struct resp_call *call)
{
    if (resp_answer(call, "+RESET\r\n") != CONN_MORE)
        return CONN_FULL;
    resp_drop_transaction(call->service, call->state);
    call->state->protocol = 2;
    call->state->name_size = 0;
    resp_auth_begin(call);
    return CONN_MORE;
}
