/* reader/resp/resp_commands.c - the commands of the RESP port.
 *
 * A command is found by its name, which has at most 16 letters: as two words,
 * in a table of twice as many places as there are commands. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <assert.h>
#include <string.h>

#include "common/base/bytes.h"

#define COMMAND_NAME_MAX 16
#define READ_ALL         (TOKENS_READ | RESP_OWN_WAIT)

static const struct resp_command resp_commands[] = {
    {"zincrby", 4, resp_do_zincrby, 0, TOKENS_COUNT},
    {"incr", 2, resp_do_incr, 1, TOKENS_COUNT},
    {"get", 2, resp_do_get, 0, TOKENS_READ},
    {"zscore", 3, resp_do_member, RESP_MEMBER_SCORE, TOKENS_READ},
    {"zrevrange", -4, resp_do_range, 1, READ_ALL},
    {"hincrby", 4, resp_do_hincrby, 0, TOKENS_COUNT},
    {"incrby", 3, resp_do_incr, 1, TOKENS_COUNT},
    {"hget", 3, resp_do_member, RESP_MEMBER_TEXT, TOKENS_READ},
    {"zrange", -4, resp_do_range, 0, READ_ALL},
    {"zrevrank", -3, resp_do_rank, 1, READ_ALL},
    {"zrank", -3, resp_do_rank, 0, READ_ALL},
    {"mget", -2, resp_do_mget, 0, TOKENS_READ},
    {"zmscore", -3, resp_do_members, RESP_MEMBER_SCORE, TOKENS_READ},
    {"hmget", -3, resp_do_members, RESP_MEMBER_TEXT, TOKENS_READ},
    {"hexists", 3, resp_do_member, RESP_MEMBER_EXISTS, TOKENS_READ},
    {"hlen", 2, resp_do_card, 0, READ_ALL},
    {"zcard", 2, resp_do_card, 0, READ_ALL},
    {"hgetall", 2, resp_do_getall, RESP_MAP_BOTH, READ_ALL},
    {"hkeys", 2, resp_do_getall, RESP_MAP_KEYS, READ_ALL},
    {"hvals", 2, resp_do_getall, RESP_MAP_VALUES, READ_ALL},
    {"decr", 2, resp_do_incr, -1, TOKENS_COUNT},
    {"decrby", 3, resp_do_incr, -1, TOKENS_COUNT},
    {"zadd", -4, resp_do_zadd, 0, TOKENS_COUNT},
    {"zcount", 4, resp_do_count, 0, READ_ALL},
    {"zrangebyscore", -4, resp_do_score_range, 0, READ_ALL},
    {"zrevrangebyscore", -4, resp_do_score_range, 1, READ_ALL},
    {"multi", 1, resp_do_multi, RESP_IMMEDIATE, TOKENS_ALL},
    {"exec", -1, resp_do_exec, RESP_IMMEDIATE, TOKENS_ALL},
    {"discard", 1, resp_do_discard, RESP_IMMEDIATE, TOKENS_ALL},
    {"wait", 3, resp_do_wait, 0, TOKENS_ALL},
    {"ping", -1, resp_do_ping, 0, 0},
    {"echo", 2, resp_do_echo, 0, TOKENS_ALL},
    {"exists", -2, resp_do_exists, 0, READ_ALL},
    {"type", 2, resp_do_type, 0, READ_ALL},
    {"ttl", 2, resp_do_ttl, 0, READ_ALL},
    {"pttl", 2, resp_do_ttl, 0, READ_ALL},
    {"keys", 2, resp_do_keys, 0, READ_ALL},
    {"scan", -2, resp_do_scan, 0, READ_ALL},
    {"zscan", -3, resp_do_scan_keys, 0, READ_ALL},
    {"hscan", -3, resp_do_scan_keys, 0, READ_ALL},
    {"dbsize", 1, resp_do_dbsize, 0, READ_ALL},
    {"hello", -1, resp_do_hello, 0, 0},
    {"auth", -2, resp_do_auth, 0, 0},
    {"select", 2, resp_do_select, 0, TOKENS_ALL},
    {"client", -2, resp_do_client, 0, TOKENS_ALL},
    {"config", -2, resp_do_config, 0, TOKENS_ALL},
    {"command", -1, resp_do_command, 0, TOKENS_ALL},
    {"cluster", -2, resp_do_cluster, 0, TOKENS_ALL},
    {"info", -1, resp_do_info, RESP_SERVER, TOKENS_READ},
    {"quit", -1, resp_do_quit, RESP_IMMEDIATE, 0},
    {"reset", 1, resp_do_reset, RESP_IMMEDIATE, 0},
};

#define COMMANDS (sizeof resp_commands / sizeof resp_commands[0])

static_assert(2 * COMMANDS <= RESP_COMMAND_PLACES, "most places are free");

/* ---- by name ------------------------------------------------------------- */

/* Reads a name of 1 to 16 bytes as words that are equal for equal names of one
 * size, where letters are the same in both cases: the bit that distinguishes
 * them is set in every byte. */
static struct resp_command_place
read_name(const uint8_t *at, size_t size)
{
    const uint64_t lower = UINT64_C(0x2020202020202020);
    struct resp_command_place out = {.size = (uint8_t)size};

    if (size >= 8) { /* the two words of a name may overlap */
        out.first = get_le64(at);
        out.last = get_le64(at + size - 8);
    } else if (size >= 4) {
        out.first = get_le32(at);
        out.last = get_le32(at + size - 4);
    } else {
        out.first =
            (uint64_t)at[0] << 16 | (uint64_t)at[size / 2] << 8 | at[size - 1];
    }
    out.first |= lower;
    out.last |= lower;
    return out;
}

/* The place of a name, or the free one where it would be. */
static size_t
find_place(const struct resp_command_place *places,
           const struct resp_command_place *name)
{
    const uint64_t hash =
        (name->first ^ name->last << 7) * UINT64_C(0x9e3779b97f4a7c15);
    size_t i = hash >> 40;

    for (;; i++) {
        const struct resp_command_place *p = &places[i % RESP_COMMAND_PLACES];

        if (!p->command || (p->size == name->size && p->first == name->first &&
                            p->last == name->last))
            return i % RESP_COMMAND_PLACES;
    }
}

void
resp_commands_index(struct resp_command_place places[RESP_COMMAND_PLACES])
{
    memset(places, 0, RESP_COMMAND_PLACES * sizeof *places);
    for (size_t i = 0; i < COMMANDS; i++) {
        const char *name = resp_commands[i].name;
        struct resp_command_place place;
        size_t at;

        /* The bit that is ignored makes no difference between letters only. */
        assert(strlen(name) <= COMMAND_NAME_MAX &&
               strspn(name, "abcdefghijklmnopqrstuvwxyz") == strlen(name));
        place = read_name((const uint8_t *)name, strlen(name));
        at = find_place(places, &place);
        assert(!places[at].command);
        place.command = &resp_commands[i];
        places[at] = place;
    }
}

const struct resp_command *
resp_command_by_name(const struct resp_command_place *places,
                     const struct resp_arg *name)
{
    struct resp_command_place wanted;

    if (name->size == 0 || name->size > COMMAND_NAME_MAX)
        return NULL;
    wanted = read_name(name->at, name->size);
    return places[find_place(places, &wanted)].command;
}

size_t
resp_command_count(void)
{
    return COMMANDS;
}
