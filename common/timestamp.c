/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <strings.h>

#include "timespan.h"
#include "timestamp.h"

enum {
        TEXT_MAX = 128, /* no point in time takes that many bytes to write */
        FRACTION_DIGITS = 6,
        OFFSET_LEN = STRLEN("+01:00"),
        MINUTES_PER_HOUR = 60,
        SECONDS_PER_MINUTE = 60,
        NOON = 12,
        YEAR_MIN = 1969, /* where 1970 begins in the evening */
};

static const char *const weekdays[] = {
        "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
};

/* What the time on the clock is relative to. */
typedef struct Zone {
        bool utc;     /* offset seconds from UTC, else local time */
        long offset;
        int is_dst;   /* -1: whatever the rules of the zone say */
} Zone;

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool skip_char(const char **p, char c) {
        if (**p != c)
                return false;
        (*p)++;

        return true;
}

/* A number of so many digits, neither more nor less. */
static bool read_number(const char **p, unsigned digits_min, unsigned digits_max, int max, int *ret) {
        unsigned digits = 0;
        int n = 0;

        for (; is_digit((*p)[digits]); digits++) {
                if (digits >= digits_max)
                        return false;
                n = n * 10 + ((*p)[digits] - '0');
        }
        if (digits < digits_min || n > max)
                return false;
        *p += digits;
        *ret = n;

        return true;
}

/* Cuts the zone off the end of the text. */
static Zone take_zone(char *s) {
        size_t n = strlen(s);
        int hours, minutes;

        if (n > STRLEN(" UTC") && endswith(s, " UTC")) {
                s[n - STRLEN(" UTC")] = 0;
                return (Zone){ .utc = true };
        }
        if (n > 1 && s[n - 1] == 'Z' && is_digit(s[n - 2])) {
                s[n - 1] = 0;
                return (Zone){ .utc = true };
        }
        if (n > OFFSET_LEN && is_digit(s[n - OFFSET_LEN - 1]) && strchr("+-", s[n - OFFSET_LEN])) {
                const char *p = s + n - OFFSET_LEN + 1;

                if (read_number(&p, 2, 2, 23, &hours) && skip_char(&p, ':') && read_number(&p, 2, 2, 59, &minutes)) {
                        long offset = (hours * MINUTES_PER_HOUR + minutes) * SECONDS_PER_MINUTE;

                        if (s[n - OFFSET_LEN] == '-')
                                offset = -offset;
                        s[n - OFFSET_LEN] = 0;
                        return (Zone){ .utc = true, .offset = offset };
                }
        }

        /* The abbreviations of the local zone, which timestamp_format() writes. */
        tzset();
        for (int i = 0; i < 2; i++) {
                size_t k = strlen(tzname[i]);

                if (k > 0 && n > k + 1 && s[n - k - 1] == ' ' && streq(s + n - k, tzname[i])) {
                        s[n - k - 1] = 0;
                        return (Zone){ .is_dst = i };
                }
        }

        return (Zone){ .is_dst = -1 };
}

/* Reads "Mon " or "Monday ". Returns the number of the day, -1 if there is none. */
static int take_weekday(const char **p) {
        enum { SHORT_LEN = STRLEN("Mon") };
        size_t n = strcspn(*p, " ");

        if ((*p)[n] != ' ')
                return -1;
        for (size_t i = 0; i < ELEMENTSOF(weekdays); i++)
                if ((n == SHORT_LEN || n == strlen(weekdays[i])) && strncasecmp(*p, weekdays[i], n) == 0) {
                        *p += n + strspn(*p + n, " ");
                        return (int) i;
                }

        return -1;
}

static bool read_date(const char **p, struct tm *tm) {
        const char *s = *p;
        struct tm check = { .tm_hour = NOON };
        int year, month, day;

        if (!read_number(&s, 4, 4, 9999, &year) || !skip_char(&s, '-') || !read_number(&s, 1, 2, 12, &month) ||
            !skip_char(&s, '-') || !read_number(&s, 1, 2, 31, &day) || year < YEAR_MIN || month == 0 || day == 0)
                return false;

        check.tm_year = tm->tm_year = year - 1900;
        check.tm_mon = tm->tm_mon = month - 1;
        check.tm_mday = tm->tm_mday = day;
        /* There is no 31st of April, which else would be taken for the 1st of May. */
        (void) timegm(&check);
        if (check.tm_mday != day)
                return false;
        *p = s;

        return true;
}

static bool read_fraction(const char **p, uint64_t *ret_us) {
        uint64_t us = 0, unit = USEC_PER_SEC / 10;

        if (!is_digit(**p))
                return false;
        for (unsigned i = 0; is_digit(**p); i++, (*p)++) {
                if (i >= FRACTION_DIGITS)
                        return false;
                us += (uint64_t) (**p - '0') * unit;
                unit /= 10;
        }
        *ret_us = us;

        return true;
}

static bool read_time(const char **p, struct tm *tm, uint64_t *ret_fraction_us) {
        if (!read_number(p, 1, 2, 23, &tm->tm_hour) || !skip_char(p, ':') || !read_number(p, 2, 2, 59, &tm->tm_min))
                return false;
        if (!skip_char(p, ':'))
                return true;
        if (!read_number(p, 2, 2, 60, &tm->tm_sec))
                return false;

        return !skip_char(p, '.') || read_fraction(p, ret_fraction_us);
}

/* Reads a day, a time of the day, or both. What is missing stays as it is in tm; a time that is missing is
 * midnight. */
static bool read_date_time(const char *s, struct tm *tm, uint64_t *ret_fraction_us) {
        static const struct {
                const char *word;
                int days;
        } days[] = { { "yesterday", -1 }, { "today", 0 }, { "tomorrow", 1 } };

        tm->tm_hour = tm->tm_min = tm->tm_sec = 0;
        for (size_t i = 0; i < ELEMENTSOF(days); i++)
                if (streq(s, days[i].word)) {
                        tm->tm_mday += days[i].days;
                        return true;
                }

        if (read_date(&s, tm)) {
                if (!*s)
                        return true;
                if (!skip_char(&s, 'T')) {
                        if (*s != ' ')
                                return false;
                        s += strspn(s, " ");
                }
        }

        return read_time(&s, tm, ret_fraction_us) && !*s;
}

static int parse_absolute(const char *text, uint64_t now_us, uint64_t *ret_us) {
        char buf[TEXT_MAX];
        const char *p = buf;
        uint64_t fraction_us = 0;
        struct tm tm;
        time_t t;
        Zone zone;
        int weekday;

        strcpy(buf, text);
        zone = take_zone(buf);
        t = (time_t) (now_us / USEC_PER_SEC) + zone.offset;
        if (!(zone.utc ? gmtime_r(&t, &tm) : localtime_r(&t, &tm)))
                return -ERANGE;
        tm.tm_isdst = zone.is_dst;

        weekday = take_weekday(&p);
        if (!read_date_time(p, &tm, &fraction_us))
                return -EINVAL;

        t = zone.utc ? timegm(&tm) : mktime(&tm);
        if (weekday >= 0 && tm.tm_wday != weekday)
                return -EINVAL;
        t -= zone.offset;
        if (t < 0)
                return -ERANGE;
        *ret_us = (uint64_t) t * USEC_PER_SEC + fraction_us;

        return 0;
}

static int parse_usec(const char *s, size_t n, uint64_t *ret_us) {
        char buf[TEXT_MAX];
        uint64_t ns;
        int r;

        *(char *) mempcpy(buf, s, n) = 0;
        r = timespan_parse(buf, &ns);
        if (r < 0)
                return r;
        if (ns == TIMESPAN_INFINITY)
                return -EINVAL;
        *ret_us = ns / NSEC_PER_USEC;

        return 0;
}

static int add_usec(uint64_t a, uint64_t b, uint64_t *ret_us) {
        uint64_t us;

        if (__builtin_add_overflow(a, b, &us) || us == UINT64_MAX)
                return -ERANGE;
        *ret_us = us;

        return 0;
}

int timestamp_parse(const char *s, uint64_t now_us, uint64_t *ret_us) {
        char buf[TEXT_MAX];
        const char *end;
        uint64_t us;
        size_t n;
        int r;

        s += strspn(s, " \t");
        n = strlen(s);
        while (n > 0 && strchr(" \t", s[n - 1]))
                n--;
        if (n == 0 || n >= sizeof(buf))
                return -EINVAL;
        *(char *) mempcpy(buf, s, n) = 0;

        if (streq(buf, "now")) {
                *ret_us = now_us;
                return 0;
        }
        if (buf[0] == '@') {
                if (strspn(buf + 1, "0123456789.") != n - 1)
                        return -EINVAL;
                return parse_usec(buf + 1, n - 1, ret_us);
        }
        if (buf[0] == '+' || (end = endswith(buf, " left"))) {
                r = buf[0] == '+' ? parse_usec(buf + 1, n - 1, &us) : parse_usec(buf, (size_t) (end - buf), &us);
                return r < 0 ? r : add_usec(now_us, us, ret_us);
        }
        if (buf[0] == '-' || (end = endswith(buf, " ago"))) {
                r = buf[0] == '-' ? parse_usec(buf + 1, n - 1, &us) : parse_usec(buf, (size_t) (end - buf), &us);
                if (r < 0)
                        return r;
                if (us > now_us)
                        return -ERANGE;
                *ret_us = now_us - us;
                return 0;
        }

        return parse_absolute(buf, now_us, ret_us);
}

static char *format(uint64_t us, bool is_short, char *buf, size_t size) {
        time_t t = (time_t) (us / USEC_PER_SEC);
        char date[TIMESTAMP_FORMAT_MAX];
        struct tm tm;

        if (us == 0 || us == UINT64_MAX || !localtime_r(&t, &tm) || tm.tm_year > 9999 - 1900 ||
            strftime(date, sizeof(date), is_short ? "%Y-%m-%d %H:%M:%S" : "%Y-%m-%d %H:%M:%S %Z", &tm) == 0)
                snprintf(buf, size, "-");
        else if (is_short)
                snprintf(buf, size, "%s", date);
        else
                snprintf(buf, size, "%.3s %s", weekdays[tm.tm_wday], date);

        return buf;
}

char *timestamp_format(uint64_t us, char *buf, size_t size) {
        return format(us, /* is_short= */ false, buf, size);
}

char *timestamp_format_short(uint64_t us, char *buf, size_t size) {
        return format(us, /* is_short= */ true, buf, size);
}

static uint64_t read_clock(clockid_t clock) {
        struct timespec ts;

        (void) clock_gettime(clock, &ts);

        return (uint64_t) ts.tv_sec * USEC_PER_SEC + (uint64_t) ts.tv_nsec / NSEC_PER_USEC;
}

uint64_t timestamp_now(void) {
        return read_clock(CLOCK_REALTIME);
}

uint64_t timestamp_boot(void) {
        uint64_t now = read_clock(CLOCK_REALTIME), up = read_clock(CLOCK_BOOTTIME);

        return now - MIN(now, up);
}
