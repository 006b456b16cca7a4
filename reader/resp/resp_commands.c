/* reader/resp/resp_commands.c - the commands of the RESP port, and how one is
 * found by its name. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <string.h>

#define READ_ALL    (TOKENS_READ | RESP_OWN_WAIT)
#define READ_KEYS   (READ_ALL | RESP_KEYSPACE)
#define READ_MEMBER (TOKENS_READ | RESP_KEYSPACE)
#define COUNT       (TOKENS_COUNT | RESP_KEYSPACE)
#define NOW         RESP_IMMEDIATE

/* {name, arity, function, flags, key, option}: see struct resp_command.  The
 * commands that are used most come first, since they are found fastest. */
const struct resp_command resp_commands[] = {
    {"zincrby", 4, resp_do_zincrby, COUNT, 3, RESP_ADD_SCORE},
    {"incr", 2, resp_do_incr, TOKENS_COUNT, 1, RESP_ADD},
    {"get", 2, resp_do_members, TOKENS_READ, 1, RESP_MEMBER_TEXT},
    {"zscore", 3, resp_do_members, READ_MEMBER, 2, RESP_MEMBER_SCORE},
    {"zrevrange", -4, resp_do_range, READ_KEYS | RESP_PERIOD, 0, RESP_BY_RANK},
    {"hincrby", 4, resp_do_incr, COUNT, 2, RESP_ADD},
    {"incrby", 3, resp_do_incr, TOKENS_COUNT, 1, RESP_ADD},
    {"hget", 3, resp_do_members, READ_MEMBER, 2, RESP_MEMBER_TEXT},
    {"zrange", -4, resp_do_range, READ_KEYS | RESP_PERIOD, 0, RESP_ANY_RANGE},
    {"zrevrank", -3, resp_do_rank, READ_KEYS, 2, RESP_LARGEST_FIRST},
    {"zrank", -3, resp_do_rank, READ_KEYS, 2, RESP_SMALLEST_FIRST},
    {"mget", -2, resp_do_members, TOKENS_READ, -1, RESP_MEMBER_TEXT},
    {"zmscore", -3, resp_do_members, READ_MEMBER, -2, RESP_MEMBER_SCORE},
    {"hmget", -3, resp_do_members, READ_MEMBER, -2, RESP_MEMBER_TEXT},
    {"hexists", 3, resp_do_members, READ_MEMBER, 2, RESP_MEMBER_EXISTS},
    {"hlen", 2, resp_do_card, READ_KEYS, 0, 0},
    {"zcard", 2, resp_do_card, READ_KEYS, 0, 0},
    {"hgetall", 2, resp_do_getall, READ_KEYS, 0, RESP_MAP},
    {"hkeys", 2, resp_do_getall, READ_KEYS, 0, RESP_MEMBERS},
    {"hvals", 2, resp_do_getall, READ_KEYS, 0, RESP_VALUES},
    {"decr", 2, resp_do_incr, TOKENS_COUNT, 1, RESP_SUBTRACT},
    {"decrby", 3, resp_do_incr, TOKENS_COUNT, 1, RESP_SUBTRACT},
    {"zadd", -4, resp_do_zadd, COUNT, 4, RESP_ADD_SCORE},
    {"zcount", 4, resp_do_count, READ_KEYS, 0, 0},
    {"zrangebyscore", -4, resp_do_range, READ_KEYS, 0, RESP_BY_SCORE},
    {"zrevrangebyscore", -4, resp_do_range, READ_KEYS, 0,
     RESP_BY_SCORE_REVERSED},
    {"multi", 1, resp_do_multi, TOKENS_ALL | NOW, 0, 0},
    {"exec", -1, resp_do_exec, TOKENS_ALL | NOW, 0, 0},
    {"discard", 1, resp_do_discard, TOKENS_ALL | NOW, 0, 0},
    {"wait", 3, resp_do_wait, TOKENS_ALL, 0, 0},
    {"ping", -1, resp_do_ping, 0, 0, 0},
    {"echo", 2, resp_do_echo, TOKENS_ALL, 0, 0},
    {"exists", -2, resp_do_exists, READ_ALL, 0, 0},
    {"type", 2, resp_do_type, READ_ALL, 0, 0},
    {"ttl", 2, resp_do_ttl, READ_ALL, 0, 0},
    {"pttl", 2, resp_do_ttl, READ_ALL, 0, 0},
    {"keys", 2, resp_do_keys, READ_ALL, 0, 0},
    {"scan", -2, resp_do_scan, READ_ALL, 0, 0},
    {"zscan", -3, resp_do_scan_keys, READ_KEYS, 0, 0},
    {"hscan", -3, resp_do_scan_keys, READ_KEYS, 0, 0},
    {"dbsize", 1, resp_do_dbsize, READ_ALL, 0, 0},
    {"hello", -1, resp_do_hello, 0, 0, 0},
    {"auth", -2, resp_do_auth, 0, 0, 0},
    {"select", 2, resp_do_select, TOKENS_ALL, 0, 0},
    {"client", -2, NULL, TOKENS_ALL, 0, 0},
    {"client|id", 2, resp_do_client_id, TOKENS_ALL, 0, 0},
    {"client|getname", 2, resp_do_client_getname, TOKENS_ALL, 0, 0},
    {"client|setname", 3, resp_do_client_setname, TOKENS_ALL, 0, 0},
    {"client|setinfo", 4, resp_do_client_setinfo, TOKENS_ALL, 0, 0},
    {"client|info", 2, resp_do_client_info, TOKENS_ALL, 0, 0},
    {"client|list", -2, resp_do_client_list, TOKENS_ALL, 0, 0},
    {"client|help", 2, resp_do_help, TOKENS_ALL, 0, 0},
    {"config", -2, NULL, TOKENS_ALL, 0, 0},
    {"config|get", -3, resp_do_config_get, TOKENS_ALL, 0, 0},
    {"config|help", 2, resp_do_help, TOKENS_ALL, 0, 0},
    {"command", -1, NULL, TOKENS_ALL, 0, 0},
    {"command|", -1, resp_do_fixed, TOKENS_ALL, 0, RESP_NO_DOCS},
    {"command|docs", -2, resp_do_fixed, TOKENS_ALL, 0, RESP_NO_DOCS},
    {"command|info", -2, resp_do_fixed, TOKENS_ALL, 0, RESP_NO_DOCS},
    {"command|count", -2, resp_do_command_count, TOKENS_ALL, 0, 0},
    {"command|help", 2, resp_do_help, TOKENS_ALL, 0, 0},
    {"cluster", -2, resp_do_fixed, TOKENS_ALL, 0, RESP_NO_CLUSTER},
    {"info", -1, resp_do_info, TOKENS_READ | RESP_SERVER, 0, 0},
    {"quit", -1, resp_do_quit, NOW, 0, 0},
    {"reset", 1, resp_do_reset, NOW, 0, 0},
    {NULL, 0, NULL, 0, 0, 0}};

enum conn_next
resp_do_command_count(struct resp_call *call)
{
    int64_t count = 0;

    for (const struct resp_command *c = resp_commands; c->name; c++)
        count += strchr(c->name, '|') ? 0 : 1;
    return resp_answer_number(call, count);
}

/* The subcommand of a command that has them; if it has not that one, itself. */
static const struct resp_command *
find_subcommand(const struct resp_call *call, const struct resp_command *c)
{
    const struct resp_arg none = {.at = call->args[0].at};
    const struct resp_arg *sub = call->count > 1 ? &call->args[1] : &none;

    for (const struct resp_command *s = c + 1; strchr(s->name, '|'); s++)
        if (resp_is_word(sub, strchr(s->name, '|') + 1))
            return s;
    return c;
}

const struct resp_command *
resp_command_find(const struct resp_call *call)
{
    const uint8_t *name = call->args[0].at;
    const size_t size = call->args[0].size;

    for (const struct resp_command *c = resp_commands; c->name; c++) {
        size_t n = 0;

        /* The bit that is set distinguishes upper case from lower. */
        while (n < size && (name[n] | 0x20) == c->name[n])
            n++;
        if (n == size && c->name[n] == '\0' && !strchr(c->name, '|'))
            return c->run ? c : find_subcommand(call, c);
    }
    return NULL;
}
