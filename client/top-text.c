/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <inttypes.h>

#include "term.h"
#include "text.h"
#include "top-text.h"

enum {
        GAP = 1,
        NAME_WIDTH = 20,
        NAME_WIDTH_NARROW = 12,
        NARROW = 60,
        LEVELS = 8,
};

/* Three digits, and never more than that many before the point is moved. */
static const char *three_digits(char buf[static FORMAT_MAX], double value, const char *suffix) {
        snprintf(buf, FORMAT_MAX, "%.*f%s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, suffix);
        return buf;
}

const char *top_format_nsec(char buf[static FORMAT_MAX], uint64_t ns) {
        static const struct {
                double unit, limit;
                const char *suffix;
        } units[] = {
                { 1e3, 999.5, "us" },
                { 1e6, 999.5, "ms" },
                { 1e9, 99.95, "s" },
                { 60e9, 99.95, "min" },
                { 3600e9, 99.95, "h" },
                { 86400e9, 1e9, "d" },
        };
        size_t i = 0;

        if (ns < NSEC_PER_USEC) {
                snprintf(buf, FORMAT_MAX, ns == 0 ? "0" : "%" PRIu64 "ns", ns);
                return buf;
        }
        while (i + 1 < ELEMENTSOF(units) && (double) ns / units[i].unit >= units[i].limit)
                i++;
        if (streq(units[i].suffix, "min")) /* is longer than the others */
                snprintf(buf, FORMAT_MAX, "%.0fmin", (double) ns / units[i].unit);
        else
                three_digits(buf, (double) ns / units[i].unit, units[i].suffix);

        return buf;
}

const char *top_format_rate(char buf[static FORMAT_MAX], double per_second) {
        if (per_second <= 0)
                strcpy(buf, "0");
        else if (per_second < 99999.5)
                three_digits(buf, per_second, "");
        else if (per_second < 99999.5e3)
                snprintf(buf, FORMAT_MAX, "%.0fk", per_second / 1e3);
        else
                snprintf(buf, FORMAT_MAX, "%.0fM", per_second / 1e6);

        return buf;
}

const char *top_format_share(char buf[static FORMAT_MAX], double share) {
        if (share <= 0) {
                strcpy(buf, "0");
                return buf;
        }

        return three_digits(buf, share * 100, "%");
}

void top_bar(const Share *shares, size_t n, size_t width, size_t *cells) {
        double sum = 0, seen = 0;
        size_t drawn = 0;

        for (size_t i = 0; i < n; i++)
                sum += (double) shares[i].value;
        for (size_t i = 0; i < n && sum > 0; i++) {
                size_t end;

                seen += (double) shares[i].value;
                end = (size_t) (seen / sum * (double) width + 0.5);
                for (; drawn < MIN(end, width); drawn++)
                        cells[drawn] = i;
        }
        for (; drawn < width; drawn++)
                cells[drawn] = n;
}

char *top_trend(const uint64_t *history, size_t n, size_t width) {
        static const char *const blocks[LEVELS] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
        static const char *const letters[LEVELS] = { ".", ",", "-", "~", "+", "=", "*", "#" };
        _cleanup_free_ char *s = NULL;
        uint64_t max = 0;

        s = strdup("");
        if (!s)
                return NULL;
        for (size_t i = 0; i < n; i++)
                max = MAX(max, history[i]);
        for (size_t i = width; i > 0; i--) {
                uint64_t value = i <= n ? history[i - 1] : 0;
                size_t level;

                level = max == 0 ? 0 : (size_t) ((double) value / (double) max * LEVELS);
                level = MIN(level, (size_t) LEVELS - 1);
                if (text_append(&s, value == 0 ? " " : (term_utf8() ? blocks : letters)[level]) < 0)
                        return NULL;
        }

        return TAKE_PTR(s);
}

static const struct {
        const char *header;
        size_t width; /* at least */
        bool number;
        bool in_list, in_detail;
        unsigned rank; /* the highest is left out first */
} columns[_TOP_COLUMN_MAX] = {
        [TOP_NAME] = { "UNIT", NAME_WIDTH, false, true, true, 0 },
        [TOP_OP] = { "OP", 10, false, true, false, 1 },
        [TOP_DEVICE] = { "DEVICE", 7, false, true, true, 9 },
        [TOP_RATE] = { "OPS/S", 6, true, true, true, 4 },
        [TOP_BYTES] = { "BYTES/S", 7, true, false, true, 10 },
        [TOP_WAIT] = { "WAIT/S", 6, true, true, true, 2 },
        [TOP_MEAN] = { "MEAN", 6, true, true, true, 3 },
        [TOP_P99] = { "P99", 6, true, true, true, 6 },
        [TOP_ERRORS] = { "ERR", 3, true, true, true, 7 },
        [TOP_PHASES] = { "PHASES", 8, false, true, true, 5 },
        [TOP_TREND] = { "TREND", 6, false, true, true, 8 },
};

const char *top_column_header(TopColumn c, bool detail) {
        return c == TOP_NAME && detail ? "OPERATION" : columns[c].header;
}

bool top_column_is_number(TopColumn c) {
        return columns[c].number;
}

static size_t used(const size_t widths[static _TOP_COLUMN_MAX]) {
        size_t sum = 0;

        for (size_t c = 0; c < _TOP_COLUMN_MAX; c++)
                if (widths[c] > 0)
                        sum += widths[c] + (sum > 0 ? GAP : 0);

        return sum;
}

static void grow(size_t *width, size_t max, size_t *room) {
        size_t by = *width == 0 ? 0 : MIN(*room, max - MIN(max, *width));

        *width += by;
        *room -= by;
}

void top_layout(bool detail, size_t width, size_t widths[static _TOP_COLUMN_MAX]) {
        /* Who gets how much of the room that is left, one after the other. */
        static const struct {
                TopColumn column;
                size_t width;
        } wishes[] = {
                { TOP_NAME, 28 }, { TOP_PHASES, 16 }, { TOP_TREND, 16 },   { TOP_NAME, 48 },
                { TOP_PHASES, 32 }, { TOP_TREND, 32 }, { TOP_NAME, SIZE_MAX },
        };
        size_t room;

        for (size_t c = 0; c < _TOP_COLUMN_MAX; c++)
                widths[c] = (detail ? columns[c].in_detail : columns[c].in_list) ? columns[c].width : 0;
        if (width < NARROW)
                widths[TOP_NAME] = NAME_WIDTH_NARROW;
        while (used(widths) > width) {
                size_t least = TOP_NAME;

                for (size_t c = 0; c < _TOP_COLUMN_MAX; c++)
                        if (widths[c] > 0 && columns[c].rank > columns[least].rank)
                                least = c;
                if (least == TOP_NAME) {
                        widths[TOP_NAME] = width;
                        return;
                }
                widths[least] = 0;
        }
        room = width - used(widths);
        for (size_t i = 0; i < ELEMENTSOF(wishes); i++)
                grow(&widths[wishes[i].column], wishes[i].width, &room);
}
