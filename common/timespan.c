/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <inttypes.h>

#include "timespan.h"

#define NSEC_PER_MINUTE (60 * NSEC_PER_SEC)
#define NSEC_PER_HOUR (60 * NSEC_PER_MINUTE)
#define NSEC_PER_DAY (24 * NSEC_PER_HOUR)
#define NSEC_PER_WEEK (7 * NSEC_PER_DAY)
#define NSEC_PER_MONTH (UINT64_C(2629800) * NSEC_PER_SEC) /* a twelfth of a year */
#define NSEC_PER_YEAR (UINT64_C(31557600) * NSEC_PER_SEC) /* 365.25 days */

typedef struct TimeUnit {
        const char *name;
        uint64_t ns;
} TimeUnit;

static const TimeUnit units[] = {
        { "seconds", NSEC_PER_SEC },
        { "second", NSEC_PER_SEC },
        { "sec", NSEC_PER_SEC },
        { "s", NSEC_PER_SEC },
        { "minutes", NSEC_PER_MINUTE },
        { "minute", NSEC_PER_MINUTE },
        { "min", NSEC_PER_MINUTE },
        { "m", NSEC_PER_MINUTE },
        { "months", NSEC_PER_MONTH },
        { "month", NSEC_PER_MONTH },
        { "M", NSEC_PER_MONTH },
        { "msec", NSEC_PER_MSEC },
        { "ms", NSEC_PER_MSEC },
        { "hours", NSEC_PER_HOUR },
        { "hour", NSEC_PER_HOUR },
        { "hr", NSEC_PER_HOUR },
        { "h", NSEC_PER_HOUR },
        { "days", NSEC_PER_DAY },
        { "day", NSEC_PER_DAY },
        { "d", NSEC_PER_DAY },
        { "weeks", NSEC_PER_WEEK },
        { "week", NSEC_PER_WEEK },
        { "w", NSEC_PER_WEEK },
        { "years", NSEC_PER_YEAR },
        { "year", NSEC_PER_YEAR },
        { "y", NSEC_PER_YEAR },
        { "usec", NSEC_PER_USEC },
        { "us", NSEC_PER_USEC },
        { "\xc2\xb5s", NSEC_PER_USEC }, /* micro sign */
        { "\xce\xbcs", NSEC_PER_USEC }, /* small letter mu */
        { "nsec", 1 },
        { "ns", 1 },
};

static const char *skip_blanks(const char *p) {
        return p + strspn(p, " \t\n\r");
}

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

/* The unit at p, which ends where the next number, a blank or the string does; NULL if there is none of that
 * name. */
static const TimeUnit *find_unit(const char *p, size_t *ret_len) {
        static const TimeUnit seconds = { "", NSEC_PER_SEC };
        size_t n = strcspn(p, " \t\n\r0123456789.+-");

        *ret_len = n;
        if (n == 0)
                return &seconds;
        for (size_t i = 0; i < ELEMENTSOF(units); i++)
                if (strlen(units[i].name) == n && memcmp(units[i].name, p, n) == 0)
                        return units + i;

        return NULL;
}

/* Parses "digits[.digits]" up to its end. The fraction is kept as a pointer for want of a unit. */
static int parse_number(const char **p, uint64_t *ret_whole, const char **ret_fraction) {
        const char *s = *p;
        uint64_t whole = 0;
        bool any = false;

        for (; is_digit(*s); s++, any = true)
                if (__builtin_mul_overflow(whole, 10, &whole) ||
                    __builtin_add_overflow(whole, (uint64_t) (*s - '0'), &whole))
                        return -ERANGE;

        *ret_fraction = NULL;
        if (*s == '.') {
                *ret_fraction = ++s;
                for (; is_digit(*s); s++)
                        any = true;
        }
        if (!any)
                return -EINVAL;
        *ret_whole = whole;
        *p = s;

        return 0;
}

/* The part of the unit that "0.digits" of it is, in ns. */
static uint64_t fraction_of(const char *digits, uint64_t unit) {
        enum { DIGITS_MAX = 18 }; /* more cannot make a whole ns, even of a year */
        uint64_t numerator = 0, denominator = 1;

        if (!digits)
                return 0;
        for (unsigned i = 0; i < DIGITS_MAX && is_digit(digits[i]); i++) {
                numerator = numerator * 10 + (uint64_t) (digits[i] - '0');
                denominator *= 10;
        }

        return (uint64_t) ((unsigned __int128) unit * numerator / denominator);
}

/* Reads one "number [unit]" and adds it. */
static int parse_part(const char **p, uint64_t *ns) {
        const char *fraction, *s;
        const TimeUnit *unit;
        uint64_t part;
        size_t n;
        int r;

        r = parse_number(p, &part, &fraction);
        if (r < 0)
                return r;

        s = skip_blanks(*p);
        unit = find_unit(s, &n);
        if (!unit)
                return -EINVAL;
        /* "1.5.5" and "1-2" are no two numbers. */
        if (n == 0 && s == *p && *s)
                return -EINVAL;

        if (__builtin_mul_overflow(part, unit->ns, &part) ||
            __builtin_add_overflow(part, fraction_of(fraction, unit->ns), &part) ||
            __builtin_add_overflow(*ns, part, ns))
                return -ERANGE;
        *p = skip_blanks(s + n);

        return 0;
}

int timespan_parse(const char *s, uint64_t *ret_ns) {
        const char *p = skip_blanks(s), *e;
        uint64_t ns = 0;
        int r;

        e = startswith(p, "infinity");
        if (e && *skip_blanks(e) == 0) {
                *ret_ns = TIMESPAN_INFINITY;
                return 0;
        }
        if (*p == '-' && is_digit(p[1]))
                return -ERANGE;

        do {
                r = parse_part(&p, &ns);
                if (r < 0)
                        return r;
        } while (*p);
        if (ns == TIMESPAN_INFINITY)
                return -ERANGE;
        *ret_ns = ns;

        return 0;
}

char *timespan_format(uint64_t ns, char *buf, size_t size) {
        static const TimeUnit parts[] = {
                { "y", NSEC_PER_YEAR },
                { "month", NSEC_PER_MONTH },
                { "w", NSEC_PER_WEEK },
                { "d", NSEC_PER_DAY },
                { "h", NSEC_PER_HOUR },
                { "min", NSEC_PER_MINUTE },
                { "s", NSEC_PER_SEC },
                { "ms", NSEC_PER_MSEC },
                { "us", NSEC_PER_USEC },
                { "ns", 1 },
        };
        size_t used = 0;

        if (size == 0)
                return buf;
        if (ns == 0 || ns == TIMESPAN_INFINITY) {
                snprintf(buf, size, "%s", ns == 0 ? "0" : "infinity");
                return buf;
        }

        buf[0] = 0;
        for (size_t i = 0; i < ELEMENTSOF(parts) && used < size; i++) {
                uint64_t n = ns / parts[i].ns;
                int k;

                if (n == 0)
                        continue;
                ns %= parts[i].ns;
                k = snprintf(buf + used, size - used, "%s%" PRIu64 "%s", used > 0 ? " " : "", n, parts[i].name);
                if (k < 0)
                        break;
                used += (size_t) k;
        }

        return buf;
}
