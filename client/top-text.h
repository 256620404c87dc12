/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "bar.h"
#include "format.h"

/* What fits into the narrow columns of the screen of "top", and how wide they are. Pure. */

/* At most six columns: "1.23ms", "45.6us", "12min", "3.1h". */
const char *top_format_nsec(char buf[static FORMAT_MAX], uint64_t ns);
/* "0.12", "45.6", "12345", "1234k" */
const char *top_format_rate(char buf[static FORMAT_MAX], double per_second);
/* Of the time that has passed: "0.12%", "45.6%", "1234%". Many can wait at once. */
const char *top_format_share(char buf[static FORMAT_MAX], double share);

/* For each of the cells of a bar which of the shares it belongs to, n for none. The whole width is the sum. */
void top_bar(const Share *shares, size_t n, size_t width, size_t *cells);

/* The last intervals, the newest at the right end, relative to the largest of all. NULL if out of memory. */
char *top_trend(const uint64_t *history, size_t n, size_t width);

typedef enum TopColumn {
        TOP_NAME,
        TOP_OP,
        TOP_DEVICE,
        TOP_RATE,
        TOP_BYTES,
        TOP_WAIT,
        TOP_MEAN,
        TOP_P99,
        TOP_ERRORS,
        TOP_PHASES,
        TOP_TREND,
        _TOP_COLUMN_MAX,
} TopColumn;

const char *top_column_header(TopColumn c, bool detail);
bool top_column_is_number(TopColumn c);

/* Widths of the columns on a screen of so many columns, one blank between two of them; 0: there is no room for it. */
void top_layout(bool detail, size_t width, size_t widths[static _TOP_COLUMN_MAX]);
