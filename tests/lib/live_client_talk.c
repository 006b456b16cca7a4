/* tests/lib/live_client_talk.c - what clients of the counter and semaphore
 * protocols say and hear; the words are in dialogue.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/dialogue.h"

#define ROWS(...)                                                              \
    (const struct dialogue_row[])                                              \
    {                                                                          \
        __VA_ARGS__,                                                           \
        {                                                                      \
            NULL, NULL, NULL                                                   \
        }                                                                      \
    }
#define MAX       "4294967295"
#define NOT_FOUND "4e6f7420666f756e64"
#define FULL      "5265736f75726365206e6f7420617661696c61626c65"
#define NOT_HELD  "4e6f74206163717569726564"
#define INVALID   "496e76616c696420617267756d656e7473"
#define UNKNOWN   "556e6b6e6f776e20636f6d6d616e64"
#define ONE_OF_TWO                                                             \
    "90 02 0000 00000010 00000000 00000001 00000002 0006 2f736c6f772f"
#define ONE_BACK "90 03 0000 0000000c 00000000 00000001 0006 2f736c6f772f"
#define GOT_ONE  "91 02 0000 00000004 00000000 00000001"
#define GIVEN    "91 03 0000 00000000 00000000"

/* A header with too large a body ends the connection, which gives back,
 * whatever its opcode. */
#define TOO_LONG(size)                                                         \
    TOO_LONG_IN("00", size), TOO_LONG_IN("02", size), TOO_LONG_IN("99", size)
#define TOO_LONG_IN(opcode, size)                                              \
    {"a", "ACQUIRE tide 1/9", "OK"},                                           \
        {"a", "90 " opcode " 0000 " size " 00000005", "END"},                  \
    {                                                                          \
        "b", "AWAIT tide", "0/9"                                               \
    }

/* clang-format off */
const struct dialogue live_talk[] = {
    /* ---- in digits: the ground the rest stands on ----------------------- */
    {"noop gives back the opaque whatever it is", BOTH, ROWS(
        {"a", "90 00 0000 00000000 00000001", "91 00 0000 00000000 00000001"},
        {"a", "90 00 0000 00000000 00000000", "91 00 0000 00000000 00000000"},
        {"a", "90 00 0000 00000000 ffffffff", "91 00 0000 00000000 ffffffff"},
        {"a", "90 00 0000 00000004 deadbeef 62756c6b",
         "91 00 0000 00000000 deadbeef"}), 0},
    {"flags and the reserved byte are ignored", BOTH, ROWS(
        {"a", "90 00 ffff 00000000 00000001", "91 00 0000 00000000 00000001"},
        {"a", "90 00 0100 00000000 00000002", "91 00 0000 00000000 00000002"},
        {"a", "90 01 8001 00000006 00000003 0004 6c616d70",
         "91 01 0100 00000009 00000003" NOT_FOUND}), 0},
    {"each request has its answer", COUNTERS, ROWS(
        {"a", "90 11 0000 00000000 12345678", "91 11 0000 00000000 12345678"},
        {"a", "90 01 0000 00000006 0000000a 0004 6c616d70",
         "91 01 0100 00000009 0000000a" NOT_FOUND},
        {"a", "90 02 0000 0000000e 0000000b 00000003 0000000a 0004 6c616d70",
         "91 02 0000 00000004 0000000b 00000003"},
        {"a", "90 01 0000 00000006 0000000c 0004 6c616d70",
         "91 01 0000 00000004 0000000c 00000003"},
        {"a", "90 02 0000 0000000e 0000000d 00000008 0000000a 0004 6c616d70",
         "91 02 2100 00000016 0000000d" FULL},
        {"a", "90 03 0000 0000000a 0000000e 00000004 0004 6c616d70",
         "91 03 2200 0000000c 0000000e" NOT_HELD},
        {"a", "90 03 0000 0000000a 0000000f 00000002 0004 6c616d70",
         "91 03 0000 00000000 0000000f"},
        {"a", "90 01 0000 00000006 00000010 0004 6c616d70",
         "91 01 0000 00000004 00000010 00000001"},
        {"a", "90 11 0000 00000000 00000011",
         "91 11 0000 0000000e 00000011 00000001 00000003 0004 6c616d70"
         "91 11 0000 00000000 00000011"}), 0},
    {"get tells what is available", SEMAPHORES, ROWS(
        {"a", "90 01 0000 00000005 00000001 0003 627573",
         "91 01 0100 00000009 00000001" NOT_FOUND},
        {"a", "90 02 0000 0000000d 00000002 00000003 0000000a 0003 627573",
         "91 02 0000 00000004 00000002 00000003"},
        {"a", "90 01 0000 00000005 00000003 0003 627573",
         "91 01 0000 00000004 00000003 00000007"},
        {"a", "90 02 0000 0000000d 00000004 00000007 0000000a 0003 627573",
         "91 02 0000 00000004 00000004 00000007"},
        {"a", "90 01 0000 00000005 00000005 0003 627573",
         "91 01 0000 00000004 00000005 00000000"},
        {"a", "90 02 0000 0000000d 00000006 00000001 0000000a 0003 627573",
         "91 02 2100 00000016 00000006" FULL},
        {"a", "90 03 0000 00000009 00000007 00000002 0003 627573",
         "91 03 0000 00000000 00000007"},
        {"a", "90 01 0000 00000005 00000008 0003 627573",
         "91 01 0000 00000004 00000008 00000002"},
        {"a", "90 03 0000 00000009 00000009 00000009 0003 627573",
         "91 03 2200 0000000c 00000009" NOT_HELD}), 0},
    {"a wrong magic is refused before the opcode is looked at", BOTH, ROWS(
        {"a", "91 00 0000 00000000 00000001",
         "91 00 0400 00000011 00000001" INVALID},
        {"a", "20 63 0000 00000000 00000002",
         "91 63 0400 00000011 00000002" INVALID},
        {"a", "00 fe 0000 00000002 00000003 abcd",
         "91 fe 0400 00000011 00000003" INVALID},
        {"a", "00 11 0000 00000000 00000004", "INVALID"},
        {"a", "8f 02 0000 0000000e 00000005 00000003 0000000a 0004 6c616d70",
         "INVALID"},
        {"a", "GET lamp", "NOT_FOUND"}), 0},
    {"an unknown opcode is given back with its refusal", BOTH, ROWS(
        {"a", "90 04 0000 00000000 00000001",
         "91 04 8100 0000000f 00000001" UNKNOWN},
        {"a", "OPCODES 04-0f", "UNKNOWN"},
        {"a", "OPCODES 12-56", "UNKNOWN"},
        {"a", "OPCODES 58-ff", "UNKNOWN"},
        {"a", "NOOP", "OK"}), 0},
    {"there is no dump of semaphores", SEMAPHORES, ROWS(
        {"a", "90 11 0000 00000000 00000001",
         "91 11 8100 0000000f 00000001" UNKNOWN},
        {"a", "NOOP", "OK"}), 0},

    /* ---- Acquire, Release, Get ------------------------------------------ */
    {"the maximum belongs to the request", COUNTERS, ROWS(
        {"a", "ACQUIRE doors 5/5", "OK"},
        {"a", "ACQUIRE doors 1/5", "FULL"},
        {"a", "ACQUIRE doors 1/6", "OK"},
        {"a", "ACQUIRE doors 1/2", "FULL"},
        {"a", "GET doors", "6"},
        {"a", "ACQUIRE doors 4/10", "OK"},
        {"a", "ACQUIRE doors 1/10", "FULL"},
        {"a", "GET doors", "10"}), 0},
    {"the initial value is that of the first request", SEMAPHORES, ROWS(
        {"a", "ACQUIRE mill 6/10", "OK"},
        /* A later one is only to be no smaller than what is asked for. */
        {"a", "ACQUIRE mill 5/1000", "FULL"},
        {"a", "ACQUIRE mill 2/2", "OK"},
        {"a", "ACQUIRE mill 2/1", "INVALID"},
        {"a", "ACQUIRE mill 2/" MAX, "OK"},
        {"a", "ACQUIRE mill 1/1000", "FULL"},
        {"a", "GET mill", "0"},
        {"a", "RELEASE mill 10", "OK"},
        {"a", "GET mill", "10"},
        /* All is back, and until a sweep it still has its initial value. */
        {"a", "ACQUIRE mill 11/1000", "FULL"}), 0},
    {"one of one is taken once", BOTH, ROWS(
        {"a", "ACQUIRE key 1/1", "OK"},
        {"a", "ACQUIRE key 1/1", "FULL"},
        {"a", "RELEASE key 1", "OK"},
        {"a", "ACQUIRE key 1/1", "OK"}), 0},
    {"what is given back stays, with nothing taken", BOTH, ROWS(
        {"a", "ACQUIRE seat 5/5", "OK"},
        {"a", "RELEASE seat 2", "OK"},
        {"a", "GET seat", "3/5"},
        {"a", "RELEASE seat 3", "OK"},
        {"a", "GET seat", "0/5"},
        {"a", "ACQUIRE seat 5/5", "OK"}), 0},
    {"nobody releases more than the connection holds", BOTH, ROWS(
        {"a", "ACQUIRE rope 3/100", "OK"},
        {"b", "ACQUIRE rope 40/100", "OK"},
        {"a", "RELEASE rope 4", "NOT_HELD"},
        {"a", "RELEASE rope " MAX, "NOT_HELD"},
        {"a", "GET rope", "43/100"},
        {"a", "RELEASE rope 2", "OK"},
        {"a", "RELEASE rope 2", "NOT_HELD"},
        {"b", "GET rope", "41/100"},
        {"a", "RELEASE rope 1", "OK"},
        {"a", "RELEASE rope 1", "NOT_HELD"},
        {"b", "GET rope", "40/100"}), 0},
    {"there is nothing to release of what does not exist", BOTH, ROWS(
        {"a", "RELEASE ghost 1", "NOT_FOUND"},
        {"a", "RELEASE ghost 0", "NOT_FOUND"},
        {"a", "GET ghost", "NOT_FOUND"}), 0},
    {"releasing zero succeeds whoever holds", BOTH, ROWS(
        {"a", "ACQUIRE bowl 2/10", "OK"},
        {"a", "RELEASE bowl 0", "OK"},
        {"b", "RELEASE bowl 0", "OK"},
        {"a", "GET bowl", "2/10"},
        {"a", "RELEASE bowl 2", "OK"},
        {"a", "RELEASE bowl 0", "OK"},
        {"a", "GET bowl", "0/10"}), 0},
    {"acquire refuses zero, more than the maximum, and no name", BOTH, ROWS(
        {"a", "ACQUIRE cup 0/10", "INVALID"},
        {"a", "ACQUIRE cup 5/4", "INVALID"},
        {"a", "ACQUIRE cup 0/0", "INVALID"},
        {"a", "ACQUIRE cup " MAX "/4294967294", "INVALID"},
        {"a", "ACQUIRE '' 1/1", "INVALID"},
        {"a", "RELEASE '' 1", "INVALID"},
        {"a", "GET ''", "INVALID"},
        {"a", "GET cup", "NOT_FOUND"},
        {"a", "STATS objects", "0"}), 0},
    {"sums above four bytes are refused and do not wrap", COUNTERS, ROWS(
        {"a", "ACQUIRE sand " MAX "/" MAX, "OK"},
        {"a", "ACQUIRE sand 1/1", "FULL"},
        {"a", "ACQUIRE sand " MAX "/" MAX, "FULL"},
        {"b", "ACQUIRE sand 1/1", "FULL"},
        {"b", "ACQUIRE sand 1/" MAX, "FULL"},
        {"b", "GET sand", MAX},
        /* Both go in either order, and nothing is left. */
        {"a", "CLOSE", NULL},
        {"b", "AWAIT sand", "0"},
        {"b", "ACQUIRE sand 7/7", "OK"},
        {"b", "CLOSE", NULL},
        {"a", "AWAIT sand", "0"}), 0},
    {"the largest semaphore has four bytes", SEMAPHORES, ROWS(
        {"a", "ACQUIRE sea 1/" MAX, "OK"},
        {"a", "GET sea", "4294967294"},
        {"b", "ACQUIRE sea 4294967294/" MAX, "OK"},
        {"b", "ACQUIRE sea " MAX "/" MAX, "FULL"},
        {"a", "GET sea", "0"},
        {"b", "RELEASE sea " MAX, "NOT_HELD"},
        {"b", "RELEASE sea 4294967294", "OK"},
        {"a", "CLOSE", NULL},
        {"b", "AWAIT sea", MAX},
        {"b", "ACQUIRE sea " MAX "/" MAX, "OK"}), 0},
    {"get needs no holding", BOTH, ROWS(
        {"a", "ACQUIRE shelf 6/9", "OK"},
        {"b", "GET shelf", "6/9"}), 0},
    {"several share what there is", BOTH, ROWS(
        {"a", "ACQUIRE tub 1/10", "OK"},
        {"b", "ACQUIRE tub 9/10", "OK"},
        {"a", "ACQUIRE tub 1/10", "FULL"},
        {"b", "RELEASE tub 1", "OK"},
        {"a", "ACQUIRE tub 1/10", "OK"},
        {"b", "ACQUIRE tub 1/10", "FULL"},
        {"b", "CLOSE", NULL},
        {"a", "AWAIT tub", "2/10"},
        {"a", "ACQUIRE tub 8/10", "OK"},
        {"a", "ACQUIRE tub 1/10", "FULL"}), 0},
    {"the last one is taken by exactly the first", BOTH, ROWS(
        {"a", "ACQUIRE last 1/1", NULL},
        {"a", NULL, "OK"},
        {"b", "ACQUIRE last 1/1", "FULL"},
        {"a", "RELEASE last 1", "OK"},
        {"b", "ACQUIRE last 1/1", "OK"}), 0},

    /* ---- names ---------------------------------------------------------- */
    {"names are bytes and every byte counts", BOTH, ROWS(
        {"a", "ACQUIRE n:%00a 1/1", "OK"},
        {"a", "ACQUIRE n:%00b 2/2", "OK"},
        {"a", "ACQUIRE n:%00 3/3", "OK"},
        {"a", "ACQUIRE n: 4/4", "OK"},
        {"a", "ACQUIRE n 5/5", "OK"},
        {"a", "ACQUIRE %00 6/6", "OK"},
        {"a", "ACQUIRE %ff%fe%80 7/7", "OK"},
        {"a", "ACQUIRE %ff 8/8", "OK"},
        {"a", "ACQUIRE %20%09%0d%0a 9/9", "OK"},
        {"a", "ACQUIRE ../../etc/x 10/10", "OK"},
        {"a", "ACQUIRE n:%c3%a9 11/11", "OK"},
        {"a", "GET n:%00a", "1/1"},
        {"a", "GET n:%00b", "2/2"},
        {"a", "GET n:%00", "3/3"},
        {"a", "GET n:", "4/4"},
        {"a", "GET n", "5/5"},
        {"a", "GET %00", "6/6"},
        {"a", "GET %ff%fe%80", "7/7"},
        {"a", "GET %ff", "8/8"},
        {"a", "GET %20%09%0d%0a", "9/9"},
        {"a", "GET ../../etc/x", "10/10"},
        {"a", "GET n:%c3%a9", "11/11"},
        {"a", "ACQUIRE n:%00a 1/1", "FULL"},
        {"a", "GET n:%00a%00", "NOT_FOUND"}), 0},

    /* ---- bodies --------------------------------------------------------- */
    /* The part that is there of an Acquire, 1 of 1, is well formed. */
    {"a body too short for its request is refused and consumed", BOTH, ROWS(
        {"a", "BODY 01", "INVALID"},
        {"a", "BODY 01 00", "INVALID"},
        {"a", "BODY 02", "INVALID"},
        {"a", "BODY 02 00", "INVALID"},
        {"a", "BODY 02 0000", "INVALID"},
        {"a", "BODY 02 000000", "INVALID"},
        {"a", "BODY 02 00000001", "INVALID"},
        {"a", "BODY 02 00000001 00", "INVALID"},
        {"a", "BODY 02 00000001 0000", "INVALID"},
        {"a", "BODY 02 00000001 000000", "INVALID"},
        {"a", "BODY 02 00000001 00000001", "INVALID"},
        {"a", "BODY 02 00000001 00000001 00", "INVALID"},
        {"a", "BODY 03", "INVALID"},
        {"a", "BODY 03 00", "INVALID"},
        {"a", "BODY 03 0000", "INVALID"},
        {"a", "BODY 03 000000", "INVALID"},
        {"a", "BODY 03 00000001", "INVALID"},
        {"a", "BODY 03 00000001 00", "INVALID"},
        {"a", "STATS command:acquire", "0"},
        {"a", "NOOP", "OK"}), 0},
    {"a name longer than the rest of the body is refused", BOTH, ROWS(
        {"a", "BODY 01 0005 61626364", "INVALID"},
        {"a", "BODY 01 ffff 61626364", "INVALID"},
        {"a", "BODY 02 00000001 00000002 0005 61626364", "INVALID"},
        {"a", "BODY 03 00000001 0005 61626364", "INVALID"},
        {"a", "BODY 01 ffff", "INVALID"},
        {"a", "NOOP", "OK"}), 0},
    {"bytes after the request are ignored", BOTH, ROWS(
        /* "n", NUL, 0xff and surplus. */
        {"a", "90 02 0000 00000011 00000001 00000002 0000000a 0003 6e00ff"
              "53555250", "91 02 0000 00000004 00000001 00000002"},
        {"a", "BODY 01 0003 6e00ff 5353", "2/10"},
        {"a", "BODY 03 00000001 0003 6e00ff 53", "OK"},
        {"a", "BODY 00 616263", "OK"},
        {"a", "GET n%00%ff", "1/10"},
        {"a", "GET n%00%ffS", "NOT_FOUND"},
        {"a", "GET n%00", "NOT_FOUND"}), 0},
    {"bytes after a Dump are ignored", COUNTERS, ROWS(
        {"a", "ACQUIRE fan 2/10", "OK"},
        {"a", "RELEASE fan 1", "OK"},
        {"a", "90 11 0000 00000001 00000005 ff",
         "91 11 0000 0000000d 00000005 00000001 00000002 0003 66616e"
         "91 11 0000 00000000 00000005"}), 0},
    {"a body above 30 MiB closes the connection at its header", BOTH, ROWS(
        TOO_LONG("01e00001"),
        TOO_LONG("02800000"),
        TOO_LONG("80000000"),
        TOO_LONG("ffffffff")), 0},
    {"another protocol gets no answer", BOTH, ROWS(
        {"a", "TEXT INFO all of it", "END"},
        {"a", "TEXT GET / HTTP/1.1", "END"}), 0},

    /* ---- streams -------------------------------------------------------- */
    {"a pipeline is answered in order, errors included", BOTH, ROWS(
        {"a", "GET gate", NULL},
        {"a", "ACQUIRE gate 2/2", NULL},
        {"a", "ACQUIRE gate 1/2", NULL},
        {"a", "GET gate", NULL},
        {"a", "RELEASE gate 5", NULL},
        {"a", "09 00 0000 00000007 00000005 737572706c7573", NULL},
        {"a", "ACQUIRE gate 0/1", NULL},
        {"a", "ACQUIRE gate 3/2", NULL},
        {"a", "BODY 3c 616263", NULL},
        {"a", "RELEASE gate 1", NULL},
        {"a", "GET gate", NULL},
        {"a", NULL, "NOT_FOUND"},
        {"a", NULL, "OK"},
        {"a", NULL, "FULL"},
        {"a", NULL, "2/2"},
        {"a", NULL, "NOT_HELD"},
        {"a", NULL, "INVALID"},
        {"a", NULL, "INVALID"},
        {"a", NULL, "INVALID"},
        {"a", NULL, "UNKNOWN"},
        {"a", NULL, "OK"},
        {"a", NULL, "1/2"}), 0},
    /* The command yc-cnt of libyrmcds as seen on the wire: a connection for
     * each request, with a serial number in the order of x86's bytes. */
    {"each command of yc-cnt has its answer", COUNTERS, ROWS(
        {"a", "90 02 0000 0000000e 01000000 00000003 0000000a 0004 79633a61",
         "91 02 0000 00000004 01000000 00000003"},
        {"a", "CLOSE", NULL},
        {"b", "AWAIT yc:a", "0"},
        {"a", "90 01 0000 00000006 01000000 0004 79633a61",
         "91 01 0000 00000004 01000000 00000000"},
        {"a", "CLOSE", NULL},
        {"a", "90 03 0000 0000000a 01000000 00000003 0004 79633a61",
         "91 03 2200 0000000c 01000000" NOT_HELD},
        {"a", "CLOSE", NULL},
        {"a", "90 11 0000 00000000 01000000",
         "91 11 0000 0000000e 01000000 00000000 00000003 0004 79633a61"
         "91 11 0000 00000000 01000000"}), 0},
    /* A module of nginx, from its source and its run: connections that are
     * kept, every opaque is 0, and a byte more than it reads is an error. */
    {"an nginx holds one for each request that it serves", COUNTERS, ROWS(
        {"a", ONE_OF_TWO, GOT_ONE},
        {"b", ONE_OF_TWO, GOT_ONE},
        {"c", ONE_OF_TWO, "91 02 2100 00000016 00000000" FULL},
        {"a", ONE_BACK, GIVEN},
        {"c", ONE_OF_TWO, GOT_ONE},
        {"a", "JOIN", "SILENCE"},
        {"b", "RESET", NULL},
        {"a", "AWAIT /slow/", "1"},
        {"a", ONE_OF_TWO, GOT_ONE},
        {"a", ONE_BACK, GIVEN},
        {"c", ONE_BACK, GIVEN},
        {"c", "GET /slow/", "0"}), 0},
    {"a Dump keeps its place in a pipeline", COUNTERS, ROWS(
        {"a", "ACQUIRE gate 2/2", NULL},
        {"a", "DUMP gate", NULL},
        {"a", "RELEASE gate 1", NULL},
        {"a", "GET gate", NULL},
        {"a", NULL, "OK"},
        {"a", NULL, "2/2"},
        {"a", NULL, "OK"},
        {"a", NULL, "1"}), 0},
    {"equal opaques are nothing special", BOTH, ROWS(
        {"a", "90 00 0000 00000000 74776963 90 00 0000 00000000 74776963"
              "90 01 0000 00000003 74776963 0001 71",
         "91 00 0000 00000000 74776963 91 00 0000 00000000 74776963"
         "91 01 0100 00000009 74776963" NOT_FOUND}), 0},

    /* ---- how connections end -------------------------------------------- */
    {"closing gives back what was held and nothing else", BOTH, ROWS(
        {"a", "ACQUIRE boat 4/10", "OK"},
        {"a", "ACQUIRE oar 7/10", "OK"},
        {"b", "ACQUIRE boat 3/10", "OK"},
        {"b", "GET boat", "7/10"},
        {"a", "CLOSE", NULL},
        {"b", "AWAIT boat", "3/10"},
        {"b", "AWAIT oar", "0/10"},
        {"b", "RELEASE boat 4", "NOT_HELD"},
        {"b", "RELEASE boat 3", "OK"}), 0},
    {"whichever way a connection ends all is given back", BOTH, ROWS(
        {"b", "ACQUIRE yard 2/9", "OK"},
        {"a", "ACQUIRE yard 7/9", "OK"},
        {"b", "GET yard", "9/9"},
        {"a", "CLOSE", NULL},
        {"b", "AWAIT yard", "2/9"},
        {"a", "ACQUIRE yard 7/9", "OK"},
        {"a", "RESET", NULL},
        {"b", "AWAIT yard", "2/9"},
        {"a", "ACQUIRE yard 7/9", "OK"},
        {"a", "HALF-CLOSE", "END"},
        {"b", "AWAIT yard", "2/9"}), 0},
    {"before a half-close ends all is answered", BOTH, ROWS(
        {"a", "ACQUIRE leaf 3/5", NULL},
        {"a", "GET leaf", NULL},
        {"a", "ACQUIRE leaf 3/5", NULL},
        {"a", "HALF-CLOSE", NULL},
        {"a", NULL, "OK"},
        {"a", NULL, "3/5"},
        {"a", NULL, "FULL"},
        {"a", NULL, "END"},
        {"b", "AWAIT leaf", "0/5"}), 0},
    {"who comes back holds nothing", BOTH, ROWS(
        {"a", "ACQUIRE coat 5/5", "OK"},
        {"a", "CLOSE", NULL},
        {"a", "AWAIT coat", "0/5"},
        {"a", "RELEASE coat 1", "NOT_HELD"},
        {"a", "GET coat", "0/5"},
        {"a", "ACQUIRE coat 5/5", "OK"}), 0},
    {"connections above the limit are closed without a byte", BOTH, ROWS(
        {"a", "NOOP", "OK"},
        {"b", "NOOP", "OK"},
        {"c", "JOIN", "END"},
        {"a", "NOOP", "OK"},
        {"a", "CLOSE", NULL},
        {"b", "AWAIT-STAT curr_connections", "1"},
        {"c", "NOOP", "OK"},
        {"c", "STATS total_connections", "3"},
        {"d", "JOIN", "END"},
        {"b", "NOOP", "OK"}), 2},
    {"a silent client is told nothing", BOTH, ROWS(
        {"a", "NOOP", "OK"},
        {"a", "JOIN", "SILENCE"}), 0},

    /* ---- Stats and Dump ------------------------------------------------- */
    {"stats of counters have these names in this order", COUNTERS, ROWS(
        {"a", "STATS",
         "objects total_objects used_memory conflicts gc_count "
         "last_gc_elapsed total_gc_elapsed curr_connections "
         "total_connections command:noop command:get command:acquire "
         "command:release command:stats command:dump"}), 0},
    {"stats of semaphores have no dump", SEMAPHORES, ROWS(
        {"a", "STATS",
         "objects total_objects used_memory conflicts gc_count "
         "last_gc_elapsed total_gc_elapsed curr_connections "
         "total_connections command:noop command:get command:acquire "
         "command:release command:stats"}), 0},
    {"stats count what is well formed, refused or not", BOTH, ROWS(
        {"a", "NOOP", "OK"},
        {"a", "NOOP", "OK"},
        {"a", "GET x", "NOT_FOUND"},
        {"a", "GET ''", "INVALID"},
        {"a", "ACQUIRE x 1/2", "OK"},
        {"a", "ACQUIRE x 2/2", "FULL"},
        {"a", "ACQUIRE x 3/2", "INVALID"},
        {"a", "ACQUIRE x 0/2", "INVALID"},
        {"a", "RELEASE x 2", "NOT_HELD"},
        {"a", "RELEASE y 2", "NOT_FOUND"},
        {"a", "BODY 09", "UNKNOWN"},
        {"a", "00 00 0000 00000000 00000001", "INVALID"},
        {"b", "STATS command:stats", "1"},
        {"b", "STATS command:noop", "2"},
        {"b", "STATS command:get", "1"},
        {"b", "STATS command:acquire", "2"},
        {"b", "STATS command:release", "2"},
        {"b", "STATS command:stats", "6"},
        {"b", "STATS objects", "1"},
        {"b", "STATS total_objects", "1"},
        {"b", "STATS conflicts", "0"},
        {"b", "STATS used_memory", "SOME"},
        {"b", "STATS curr_connections", "2"},
        {"b", "STATS total_connections", "2"},
        {"a", "CLOSE", NULL},
        {"b", "AWAIT-STAT curr_connections", "1"},
        {"b", "STATS total_connections", "2"}), 0},
    {"stats count dumps, and ignore a body", COUNTERS, ROWS(
        {"a", "DUMP", "0"},
        {"a", "BODY 10 797979", NULL},
        {"a", NULL,
         "objects total_objects used_memory conflicts gc_count "
         "last_gc_elapsed total_gc_elapsed curr_connections "
         "total_connections command:noop command:get command:acquire "
         "command:release command:stats command:dump"},
        {"a", "STATS command:dump", "1"}), 0},
    {"dump shows each counter with its peak", COUNTERS, ROWS(
        {"a", "ACQUIRE up 5/100", "OK"},
        {"a", "ACQUIRE up 3/100", "OK"},
        {"a", "RELEASE up 1", "OK"},
        {"a", "ACQUIRE idle 90/100", "OK"},
        {"a", "RELEASE idle 90", "OK"},
        {"a", "ACQUIRE one 1/1", "OK"},
        /* Neither a refusal nor what is below the peak raises it. */
        {"a", "ACQUIRE no 3/5", "OK"},
        {"a", "ACQUIRE no 9/10", "FULL"},
        {"a", "RELEASE no 3", "OK"},
        {"a", "ACQUIRE no 1/5", "OK"},
        {"a", "DUMP", "4"},
        {"a", "DUMP up", "7/8"},
        {"a", "DUMP idle", "0/90"},
        {"a", "DUMP one", "1/1"},
        {"a", "DUMP no", "1/3"},
        {"a", "DUMP none", "NONE"}), 0},
};
/* clang-format on */

const size_t live_talk_count = sizeof live_talk / sizeof *live_talk;
