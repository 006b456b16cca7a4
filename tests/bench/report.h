/* tests/bench/report.h - the rows of the table that `make bench` writes. */
#ifndef COUNTD_TESTS_BENCH_REPORT_H
#define COUNTD_TESTS_BENCH_REPORT_H

/* Adds a row to the file that the environment's BENCH_TABLE names, if it names
 * one: what countd did, and what `beside` did in the same rounds, in `unit`,
 * and the ratio of the two as the program prints it.  The goals of rows are a
 * table in report.c.  A ratio of nothing, which was not measured, is no row. */
void report_row(const char *row, const char *unit, double countd,
                const char *beside, double other, double ratio);

#endif
