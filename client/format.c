/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>

#include "format.h"
#include "timestamp.h"

#define NSEC_PER_MINUTE (60 * NSEC_PER_SEC)
#define NSEC_PER_HOUR (60 * NSEC_PER_MINUTE)
#define NSEC_PER_DAY (24 * NSEC_PER_HOUR)

enum {
        DEVICE_NUMBER_DIGITS = 10,
        FRACTION_DIGITS = 9,
};

/* Prints value / unit with four significant digits and no zeros at the end. False if that rounds up to limit
 * units: then the next larger unit is the right one. */
static bool print_scaled(char *buf, uint64_t value, uint64_t unit, uint64_t limit, const char *suffix) {
        unsigned decimals = value / unit >= 100 ? 1 : value / unit >= 10 ? 2 : 3;
        uint64_t scale = 1, scaled;

        for (unsigned i = 0; i < decimals; i++)
                scale *= 10;
        scaled = (value * scale + unit / 2) / unit;
        if (scaled >= limit * scale)
                return false;
        while (decimals > 0 && scaled % 10 == 0) {
                scaled /= 10;
                scale /= 10;
                decimals--;
        }
        if (decimals == 0)
                snprintf(buf, FORMAT_MAX, "%" PRIu64 "%s", scaled, suffix);
        else
                snprintf(buf, FORMAT_MAX, "%" PRIu64 ".%0*" PRIu64 "%s", scaled / scale, (int) decimals,
                         scaled % scale, suffix);

        return true;
}

const char *format_nsec(char buf[static FORMAT_MAX], uint64_t ns) {
        static const struct {
                uint64_t unit, limit;
                const char *suffix;
        } small[] = {
                { NSEC_PER_USEC, 1000, "us" },
                { NSEC_PER_MSEC, 1000, "ms" },
                { NSEC_PER_SEC, 60, "s" },
        };
        static const struct {
                uint64_t unit, part;
                const char *suffix, *part_suffix;
        } large[] = {
                { NSEC_PER_DAY, NSEC_PER_HOUR, "d", "h" },
                { NSEC_PER_HOUR, NSEC_PER_MINUTE, "h", "min" },
                { NSEC_PER_MINUTE, NSEC_PER_SEC, "min", "s" },
        };

        if (ns < NSEC_PER_USEC) {
                snprintf(buf, FORMAT_MAX, ns == 0 ? "0" : "%" PRIu64 "ns", ns);
                return buf;
        }
        for (size_t i = 0; i < ELEMENTSOF(small); i++)
                if (ns < small[i].limit * small[i].unit &&
                    print_scaled(buf, ns, small[i].unit, small[i].limit, small[i].suffix))
                        return buf;

        ns = MAX(ns, NSEC_PER_MINUTE); /* 59.9999s were rounded up */
        for (size_t i = 0; i < ELEMENTSOF(large); i++) {
                uint64_t n = ns / large[i].unit, part = ns % large[i].unit / large[i].part;

                if (n == 0)
                        continue;
                if (part == 0)
                        snprintf(buf, FORMAT_MAX, "%" PRIu64 "%s", n, large[i].suffix);
                else
                        snprintf(buf, FORMAT_MAX, "%" PRIu64 "%s %" PRIu64 "%s", n, large[i].suffix, part,
                                 large[i].part_suffix);
                break;
        }

        return buf;
}

const char *format_bytes(char buf[static FORMAT_MAX], uint64_t bytes) {
        static const char suffixes[] = "KMGTPE";
        uint64_t unit = 1024, tenths;
        size_t i = 0;

        if (bytes < 1024) {
                snprintf(buf, FORMAT_MAX, "%" PRIu64 "B", bytes);
                return buf;
        }
        while (suffixes[i + 1] && bytes / unit >= 1024) {
                unit *= 1024;
                i++;
        }
        tenths = bytes % unit / (unit / 1024) * 10 / 1024;
        if (tenths == 0)
                snprintf(buf, FORMAT_MAX, "%" PRIu64 "%c", bytes / unit, suffixes[i]);
        else
                snprintf(buf, FORMAT_MAX, "%" PRIu64 ".%u%c", bytes / unit, (unsigned) tenths, suffixes[i]);

        return buf;
}

const char *format_since(char buf[static FORMAT_MAX], uint64_t realtime_us) {
        uint64_t now = timestamp_now();
        size_t n;

        (void) timestamp_format(realtime_us, buf, FORMAT_MAX);
        n = strlen(buf);
        if (!streq(buf, "-") && now >= realtime_us)
                snprintf(buf + n, FORMAT_MAX - n, "; %s ago",
                         FORMAT_NSEC((now - realtime_us) / USEC_PER_SEC * NSEC_PER_SEC));

        return buf;
}

unsigned percent(uint64_t part, uint64_t whole) {
        return whole == 0 ? 0 : (unsigned) ((double) part * 100 / (double) whole + 0.5);
}

/* Reads digits up to the first other character. */
static int read_digits(const char **s, uint64_t max, uint64_t *ret) {
        const char *p = *s;
        uint64_t n = 0;

        if (*p < '0' || *p > '9')
                return -EINVAL;
        for (; *p >= '0' && *p <= '9'; p++) {
                unsigned digit = (unsigned) (*p - '0');

                if (n > (max - MIN(max, (uint64_t) digit)) / 10)
                        return -ERANGE;
                n = n * 10 + digit;
        }
        if (n > max)
                return -ERANGE;
        *s = p;
        *ret = n;

        return 0;
}

int parse_count(const char *s, uint64_t max, uint64_t *ret) {
        uint64_t n;
        int r;

        r = read_digits(&s, max, &n);
        if (r < 0)
                return r;
        if (*s)
                return -EINVAL;
        *ret = n;

        return 0;
}

int parse_nsec(const char *s, uint64_t *ret) {
        static const struct {
                const char *suffix;
                uint64_t unit;
        } units[] = {
                { "", NSEC_PER_SEC },      { "s", NSEC_PER_SEC },       { "sec", NSEC_PER_SEC },
                { "ms", NSEC_PER_MSEC },   { "us", NSEC_PER_USEC },     { "ns", 1 },
                { "m", NSEC_PER_MINUTE },  { "min", NSEC_PER_MINUTE },  { "h", NSEC_PER_HOUR },
        };
        uint64_t whole, fraction = 0, scale = 1;
        int r;

        r = read_digits(&s, UINT64_MAX, &whole);
        if (r < 0)
                return r;
        if (*s == '.') {
                unsigned n = 0;

                for (s++; *s >= '0' && *s <= '9'; s++, n++)
                        if (n < FRACTION_DIGITS) {
                                fraction = fraction * 10 + (unsigned) (*s - '0');
                                scale *= 10;
                        }
                if (n == 0)
                        return -EINVAL;
        }
        while (*s == ' ')
                s++;

        for (size_t i = 0; i < ELEMENTSOF(units); i++) {
                if (!streq(s, units[i].suffix))
                        continue;
                if (whole >= UINT64_MAX / units[i].unit)
                        return -ERANGE;
                *ret = whole * units[i].unit +
                        (uint64_t) ((double) fraction / (double) scale * (double) units[i].unit);
                return 0;
        }

        return -EINVAL;
}

int parse_device(const char *s) {
        uint64_t n;
        int r;

        if (strlen(s) > 2 * DEVICE_NUMBER_DIGITS + 1)
                return -EINVAL;
        r = read_digits(&s, UINT32_MAX, &n);
        if (r < 0)
                return r;
        if (*s != ':')
                return -EINVAL;

        return parse_count(s + 1, UINT32_MAX, &n);
}
