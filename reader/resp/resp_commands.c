/* reader/resp/resp_commands.c - the commands of the RESP port.
 *
 * Those used most stand first, as the table is searched in order. */
#include "reader/resp/resp_internal.h"

const struct resp_command resp_commands[] = {
    {"zincrby", 4, resp_do_zincrby, 0},
    {"incr", 2, resp_do_incr, 1},
    {"get", 2, resp_do_get, 0},
    {"zscore", 3, resp_do_member, RESP_MEMBER_SCORE},
    {"zrevrange", -4, resp_do_range, 1},
    {"hincrby", 4, resp_do_hincrby, 0},
    {"incrby", 3, resp_do_incr, 1},
    {"hget", 3, resp_do_member, RESP_MEMBER_TEXT},
    {"zrange", -4, resp_do_range, 0},
    {"zrevrank", 3, resp_do_rank, 1},
    {"zrank", 3, resp_do_rank, 0},
    {"mget", -2, resp_do_mget, 0},
    {"zmscore", -3, resp_do_members, RESP_MEMBER_SCORE},
    {"hmget", -3, resp_do_members, RESP_MEMBER_TEXT},
    {"hexists", 3, resp_do_member, RESP_MEMBER_EXISTS},
    {"hlen", 2, resp_do_card, 0},
    {"zcard", 2, resp_do_card, 0},
    {"hgetall", 2, resp_do_getall, 0},
    {"decr", 2, resp_do_incr, -1},
    {"decrby", 3, resp_do_incr, -1},
    {"zadd", -4, resp_do_zadd, 0},
    {"zcount", 4, resp_do_count, 0},
    {"zrangebyscore", -4, resp_do_score_range, 0},
    {"zrevrangebyscore", -4, resp_do_score_range, 1},
    {"multi", 1, resp_do_multi, RESP_IMMEDIATE},
    {"exec", 1, resp_do_exec, RESP_IMMEDIATE},
    {"discard", 1, resp_do_discard, RESP_IMMEDIATE},
    {"wait", 3, resp_do_wait, 0},
    {"ping", -1, resp_do_ping, 0},
    {"echo", 2, resp_do_echo, 0},
    {"exists", -2, resp_do_exists, 0},
    {"type", 2, resp_do_type, 0},
    {"scan", -2, resp_do_scan, 0},
    {"dbsize", 1, resp_do_dbsize, 0},
    {"hello", -1, resp_do_hello, 0},
    {"auth", -2, resp_do_auth, 0},
    {"select", 2, resp_do_select, 0},
    {"client", -2, resp_do_client, 0},
    {"config", -2, resp_do_config, 0},
    {"command", -1, resp_do_command, 0},
    {"cluster", -2, resp_do_cluster, 0},
    {"info", -1, resp_do_info, 0},
    {"quit", -1, resp_do_quit, RESP_IMMEDIATE},
    {"reset", 1, resp_do_reset, RESP_IMMEDIATE},
};

const size_t resp_command_count =
    sizeof resp_commands / sizeof resp_commands[0];
