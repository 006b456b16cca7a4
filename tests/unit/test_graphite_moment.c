/* tests/unit/test_graphite_moment.c - times of /render, and local time. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "reader/graphite/moment.h"

#define NOW   ((int64_t)1795302451) /* Saturday, 2026-11-21 23:07:31 UTC */
#define TODAY ((int64_t)1795219200)
#define HOUR  ((int64_t)3600)
#define DAY   (24 * HOUR)

/* ---- times --------------------------------------------------------------- */

struct row {
    const char *text;
    int64_t time; /* -1: it is none */
};

static void
check_rows(const struct row *rows, size_t count, const char *place)
{
    static struct zone zone;

    zone_begin();
    assert_rc(zone_open(&zone, place, strlen(place)), 0);
    for (size_t i = 0; i < count; i++) {
        int64_t got = -1;

        if (moment_parse(rows[i].text, strlen(rows[i].text), NOW, &zone, &got) <
            0)
            got = -1;
        if (got != rows[i].time)
            fail_msg("%s: %lld, not %lld", rows[i].text, (long long)got,
                     (long long)rows[i].time);
    }
}

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

TEST(times_are_read)
{
    static const struct row rows[] = {
        {"now", NOW},
        {"1795302000", 1795302000},
        {"0", 0},
        {"-6h", NOW - 6 * HOUR},
        {"now-5min", NOW - 300},
        {"-5m", NOW - 300},
        {"-1H", NOW - HOUR},
        {"NOW-2Days", NOW - 2 * DAY},
        {"+1h", NOW + HOUR},
        {"now+90s", NOW + 90},
        {"-1h30min", NOW - 5400},
        {"-0h", NOW},
        {"-1mon", NOW - 30 * DAY},
        {"-1Month", NOW - 30 * DAY},
        {"-1y", NOW - 365 * DAY},
        {"-2weeks", NOW - 14 * DAY},
        {"20261120", TODAY - DAY},
        {"14:30_20261121", TODAY + 14 * HOUR + 1800},
        {"14:3020261121", TODAY + 14 * HOUR + 1800},
        {"00:00 20261121", TODAY},
        {"11/21/26", TODAY},
        {"11/21/2026", TODAY},
        {"1/2/70", DAY},
        {"99999999", 99999999}, /* no month: seconds */
        {"midnight", TODAY},
        {"today", TODAY},
        {"noon", TODAY + 12 * HOUR},
        {"teatime", TODAY + 16 * HOUR},
        {"yesterday", TODAY - DAY},
        {"tomorrow", TODAY + DAY},
        {"noon_yesterday", TODAY - 12 * HOUR},
        {"Midnight, Today", TODAY},
        {"midnight-1d", TODAY - DAY},
        {"today+1h", TODAY + HOUR},
        {"08:15", TODAY + 8 * HOUR + 900},
        {"8:15pm", TODAY + 20 * HOUR + 900},
        {"5am", TODAY + 5 * HOUR},
        {"12am", TODAY},
        {"12pm_yesterday", TODAY - 12 * HOUR},
        {"saturday", TODAY},
        {"friday", TODAY - DAY},
        {"sunday", TODAY - 6 * DAY},
        {"mon", TODAY - 5 * DAY},
        {"6pm monday", TODAY - 5 * DAY + 18 * HOUR},
        {"nov21", TODAY},
        {"november 20", TODAY - DAY},
        {"20261131", -1},
        {"feb30", -1},
        {"nov", -1},
        {"2/30/26", -1},
        {"1/2/3", 1041465600}, /* as Graphite: 2003 */
        {"1/2/69", -1},
        {"13pm", -1},
        {"0am", -1},
        {"24:00", -1},
        {"8:5", TODAY + 8 * HOUR + 300},
        {"08:60", -1},
        {"", -1},
        {"_", -1},
        {"-", -1},
        {"now-", -1},
        {"nowish", -1},
        {"yesterday-ish", -1},
        {"todaytoday", -1},
        {"-6parsecs", -1},
        {"-1M", -1},
        {"-1h1M", -1},
        {"-1h-1h", -1},
        {"25:00_20261121", -1},
        {"12:00_20261131", -1},
        {"-90y", -1},
        {"-99999999999999999999s", -1},
        {"99999999999999999999", -1},
        {"1e9", -1},
        {"nownownownownownownownownownownownownownownownownownownownownownow",
         -1}};

    check_rows(rows, COUNT(rows), "");
}

/* A day begins when it begins there, also on the days on which clocks change. */
TEST(days_are_local)
{
    static const struct row berlin[] = {
        {"now", NOW},
        {"midnight", TODAY + 23 * HOUR}, /* the 22nd has begun there */
        {"yesterday", TODAY - HOUR},
        {"sunday", TODAY + 23 * HOUR},
        {"monday", TODAY + 23 * HOUR - 6 * DAY},
        {"20260329", 1774738800},
        {"20260330", 1774738800 + 23 * HOUR},
        {"20261025", 1792879200},
        {"20261026", 1792879200 + 25 * HOUR},
        {"12:00_20260701", 1782900000},
        {"20260329+1d", 1774738800 + DAY}};
    static const struct row los_angeles[] = {{"midnight", TODAY + 8 * HOUR},
                                             {"noon", TODAY + 20 * HOUR},
                                             {"5pmyesterday", TODAY + HOUR}};

    check_rows(berlin, COUNT(berlin), "Europe/Berlin");
    check_rows(los_angeles, COUNT(los_angeles), "America/Los_Angeles");
}

TEST(intervals_have_one_table_of_units)
{
    static const struct row rows[] = {{"1s", 1},
                                      {"90sec", 90},
                                      {"2min", 120},
                                      {"2m", 120},
                                      {"1H", HOUR},
                                      {"3hrs", 3 * HOUR},
                                      {"1Day", DAY},
                                      {"1w", 7 * DAY},
                                      {"1mon", 30 * DAY},
                                      {"1MON", 30 * DAY},
                                      {"2years", 730 * DAY},
                                      {"1h30m", 5400},
                                      {"1M", -1},
                                      {"0h", -1},
                                      {"h", -1},
                                      {"1", -1},
                                      {"1 h", -1},
                                      {"-1h", -1},
                                      {"1moon", -1},
                                      {"1mont", -1},
                                      {"", -1}};

    for (size_t i = 0; i < COUNT(rows); i++) {
        int64_t got = -1;

        if (moment_interval(rows[i].text, strlen(rows[i].text), &got) < 0)
            got = -1;
        if (got != rows[i].time)
            fail_msg("%s: %lld", rows[i].text, (long long)got);
    }
}

TEST(a_nul_byte_ends_neither_a_moment_nor_an_interval)
{
    static struct zone zone;
    int64_t got;

    assert_rc(zone_open(&zone, "", 0), 0);
    assert_rc(moment_interval("5min\0x", 6, &got), -EINVAL);
    assert_rc(moment_parse("2026112\0", 8, NOW, &zone, &got), -EINVAL);
}

/* ---- zones --------------------------------------------------------------- */

/* The rule behind the last transition of a file, too. */
TEST(local_time_is_that_of_the_place)
{
    static const struct {
        const char *place;
        int64_t time, ahead;
    } rows[] = {{"", NOW, 0},
                {"UTC", NOW, 0},
                {"Europe/Berlin", NOW, HOUR},
                {"Europe/Berlin", INT64_C(3991680000), 2 * HOUR},
                {"America/New_York", NOW, -5 * HOUR},
                {"Asia/Kathmandu", NOW, 20700},
                {"Etc/GMT+5", NOW, -5 * HOUR},
                {"Australia/Lord_Howe", NOW, 11 * HOUR},
                {"Europe/Berlin", 0, HOUR}};
    static struct zone zones[COUNT(rows)];

    zone_begin();
    for (size_t i = 0; i < COUNT(rows); i++)
        assert_rc(zone_open(&zones[i], rows[i].place, strlen(rows[i].place)),
                  0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        const int64_t ahead = zone_ahead(&zones[i], rows[i].time);

        if (ahead != rows[i].ahead)
            fail_msg("%s at %lld: %lld", rows[i].place, (long long)rows[i].time,
                     (long long)ahead);
        assert_int_equal(zone_to_unix(&zones[i], rows[i].time + ahead),
                         rows[i].time);
    }
}

TEST(what_is_no_place_is_refused)
{
    static const char *const places[] = {
        "Mars/Olympus",    "Europe",
        "/etc/passwd",     "../../../etc/passwd",
        "Europe/../Zulu",  "tzdata.zi",
        "zone.tab",        "Europe/Berlin/x",
        "Europe/Berlin\n", "europe berlin",
        "leapseconds",     "right/Europe/Berlin"};
    static struct zone zone;

    for (size_t i = 0; i < COUNT(places); i++)
        if (zone_open(&zone, places[i], strlen(places[i])) == 0)
            fail_msg("%s is a place", places[i]);
}
