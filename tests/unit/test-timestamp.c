/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <locale.h>

#include "test.h"
#include "timestamp.h"

#define MINUTE (60 * USEC_PER_SEC)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* Mon 2026-11-30 00:00:00 UTC, and the time that it is in these tests: 13:14:15.5. */
#define TODAY (UINT64_C(1795996800) * USEC_PER_SEC)
#define NOW (TODAY + 13 * HOUR + 14 * MINUTE + 15500 * USEC_PER_MSEC)

static void set_zone(const char *zone) {
        assert_int_equal(setenv("TZ", zone, 1), 0);
        tzset();
}

static void check(const char *s, uint64_t expected) {
        uint64_t us = 4711;
        int r = timestamp_parse(s, NOW, &us);

        if (r < 0 || us != expected)
                print_error("\"%s\": returned %d, %llu, expected %llu\n", s, r, (unsigned long long) us,
                            (unsigned long long) expected);
        assert_int_equal(r, 0);
        assert_true(us == expected);
}

static void check_bad(const char *s, int error) {
        uint64_t us = 4711;
        int r = timestamp_parse(s, NOW, &us);

        if (r != error)
                print_error("\"%s\": returned %d\n", s, r);
        assert_int_equal(r, error);
        assert_true(us == 4711);
}

static void test_good(void **state) {
        static const struct {
                const char *text;
                uint64_t us;
        } vectors[] = {
                { "now", NOW },
                { " now ", NOW },
                { "today", TODAY },
                { "yesterday", TODAY - DAY },
                { "tomorrow", TODAY + DAY },
                { "today UTC", TODAY },
                { "yesterday UTC", TODAY - DAY },
                { "-1h", NOW - HOUR },
                { "-1h 30min", NOW - HOUR - 30 * MINUTE },
                { "- 5 min", NOW - 5 * MINUTE },
                { "-5", NOW - 5 * USEC_PER_SEC },
                { "+5min", NOW + 5 * MINUTE },
                { "+0", NOW },
                { "2 hours ago", NOW - 2 * HOUR },
                { "1h 30min ago", NOW - HOUR - 30 * MINUTE },
                { "5s left", NOW + 5 * USEC_PER_SEC },
                { "@0", 0 },
                { "@1795996800", TODAY },
                { "@1795996800.25", TODAY + 250 * USEC_PER_MSEC },
                { "2026-11-30 12:00:01", TODAY + 12 * HOUR + USEC_PER_SEC },
                { "2026-11-30 12:00:01.5", TODAY + 12 * HOUR + 1500 * USEC_PER_MSEC },
                { "2026-11-30 12:00:01.000001", TODAY + 12 * HOUR + USEC_PER_SEC + 1 },
                { "2026-11-30 12:00", TODAY + 12 * HOUR },
                { "2026-11-30 2:00", TODAY + 2 * HOUR },
                { "2026-11-30   12:00", TODAY + 12 * HOUR },
                { "2026-11-30", TODAY },
                { "2026-11-30T12:00:01Z", TODAY + 12 * HOUR + USEC_PER_SEC },
                { "2026-11-30T12:00:01.5Z", TODAY + 12 * HOUR + 1500 * USEC_PER_MSEC },
                { "2026-11-30T12:00:01+01:00", TODAY + 11 * HOUR + USEC_PER_SEC },
                { "2026-11-30T12:00:01-09:30", TODAY + 21 * HOUR + 30 * MINUTE + USEC_PER_SEC },
                { "2026-11-30 12:00 UTC", TODAY + 12 * HOUR },
                { "2026-11-30 UTC", TODAY },
                { "Mon 2026-11-30 12:00:00 UTC", TODAY + 12 * HOUR },
                { "monday 2026-11-30", TODAY },
                { "MON 2026-11-30", TODAY },
                { "Sunday 2026-11-29", TODAY - DAY },
                { "Mon 12:00", TODAY + 12 * HOUR },
                { "12:00", TODAY + 12 * HOUR },
                { "12:00 UTC", TODAY + 12 * HOUR },
                { "12:00:01", TODAY + 12 * HOUR + USEC_PER_SEC },
                { "23:59:59.999999", TODAY + DAY - 1 },
                { "0:00", TODAY },
                { "23:59:60", TODAY + DAY }, /* a leap second */
                { "2024-02-29", UINT64_C(1709164800) * USEC_PER_SEC },
                { "1970-01-01", 0 },
                { "9999-12-31 23:59:59", UINT64_C(253402300799) * USEC_PER_SEC },
        };

        set_zone("UTC0");
        for (size_t i = 0; i < ELEMENTSOF(vectors); i++)
                check(vectors[i].text, vectors[i].us);
}

static void test_bad(void **state) {
        static const struct {
                const char *text;
                int error;
        } vectors[] = {
                { "", -EINVAL },
                { " ", -EINVAL },
                { "garbage", -EINVAL },
                { "Now", -EINVAL },
                { "nowhere", -EINVAL },
                { "now UTC", -EINVAL },
                { "UTC", -EINVAL },
                { " UTC", -EINVAL },
                { "Z", -EINVAL },
                { "Mon", -EINVAL },
                { "Mon ", -EINVAL },
                { "Tue 2026-11-30", -EINVAL },
                { "Mo 2026-11-30", -EINVAL },
                { "2026", -EINVAL },
                { "2026-11", -EINVAL },
                { "2026-11-", -EINVAL },
                { "2026-00-01", -EINVAL },
                { "2026-13-01", -EINVAL },
                { "2026-11-00", -EINVAL },
                { "2026-11-31", -EINVAL },
                { "2026-02-29", -EINVAL },
                { "2026-11-3012:00", -EINVAL },
                { "2026-11-30x12:00", -EINVAL },
                { "2026-11-30 ", 0 },
                { "2026-11-30T", -EINVAL },
                { "2026-11-30 12", -EINVAL },
                { "2026-11-30 12:", -EINVAL },
                { "2026-11-30 12:0", -EINVAL },
                { "2026-11-30 24:00", -EINVAL },
                { "2026-11-30 12:60", -EINVAL },
                { "2026-11-30 12:00:61", -EINVAL },
                { "2026-11-30 12:00:01.", -EINVAL },
                { "2026-11-30 12:00:01.1234567", -EINVAL },
                { "2026-11-30 12:00:01 x", -EINVAL },
                { "2026-11-30 12:00 CEST", -EINVAL },
                { "2026-11-30T12:00+24:00", -EINVAL },
                { "2026-11-30T12:00+01:60", -EINVAL },
                { "02026-11-30", -EINVAL },
                { "10000-01-01", -EINVAL },
                { "1969-12-31", -ERANGE },
                { "1968-12-31", -EINVAL },
                { "1970-01-01T00:00:00+01:00", -ERANGE },
                { "-2026-11-30", -EINVAL },
                { "12", -EINVAL },
                { ":", -EINVAL },
                { "12:00:", -EINVAL },
                { "+", -EINVAL },
                { "-", -EINVAL },
                { "+infinity", -EINVAL },
                { "-infinity", -EINVAL },
                { "+-1h", -ERANGE },
                { "-1x", -EINVAL },
                { "ago", -EINVAL },
                { " ago", -EINVAL },
                { "1h ago ago", -EINVAL },
                { "-600y", -ERANGE },
                { "-100y", -ERANGE },
                { "+584y", 0 },
                { "@", -EINVAL },
                { "@-1", -EINVAL },
                { "@1h", -EINVAL },
                { "@99999999999999999999", -ERANGE },
                { "\xff\xfe", -EINVAL },
                { "2026-11-30 12:00:01\n", -EINVAL },
        };
        char text[4096];

        set_zone("UTC0");
        for (size_t i = 0; i < ELEMENTSOF(vectors); i++)
                if (vectors[i].error < 0)
                        check_bad(vectors[i].text, vectors[i].error);
                else {
                        uint64_t us;

                        assert_int_equal(timestamp_parse(vectors[i].text, NOW, &us), 0);
                }

        memset(text, '1', sizeof(text));
        text[sizeof(text) - 1] = 0;
        check_bad(text, -EINVAL);
        text[0] = '@';
        check_bad(text, -EINVAL);
}

static void test_overflow(void **state) {
        uint64_t us = 4711;

        assert_int_equal(timestamp_parse("+1h", UINT64_MAX - 5, &us), -ERANGE);
        assert_int_equal(timestamp_parse("-1h", HOUR - 1, &us), -ERANGE);
        assert_int_equal(timestamp_parse("today", UINT64_MAX, &us), 0); /* the year 586524 is one, too */
}

static void test_zone(void **state) {
        set_zone("CET-1CEST,M3.5.0,M10.5.0/3");

        check("today", TODAY - HOUR);
        check("12:00", TODAY + 11 * HOUR);
        check("12:00 CET", TODAY + 11 * HOUR);
        check("12:00 UTC", TODAY + 12 * HOUR);
        check("2026-07-01 12:00", UINT64_C(1782900000) * USEC_PER_SEC);
        check("2026-07-01 12:00 CEST", UINT64_C(1782900000) * USEC_PER_SEC);
        /* The hour that there is twice. */
        check("2026-10-25 02:30 CEST", UINT64_C(1792888200) * USEC_PER_SEC);
        check("2026-10-25 02:30 CET", UINT64_C(1792888200) * USEC_PER_SEC + HOUR);
        /* 23:30 UTC is tomorrow here. */
        check("2026-11-30T23:30:00Z", TODAY + 23 * HOUR + 30 * MINUTE);
        check_bad("12:00 EST", -EINVAL);
}

static void check_format(uint64_t us, const char *expected, const char *expected_short) {
        char buf[TIMESTAMP_FORMAT_MAX];
        uint64_t again;

        assert_ptr_equal(timestamp_format(us, buf, sizeof(buf)), buf);
        assert_string_equal(buf, expected);
        assert_string_equal(FORMAT_TIMESTAMP_SHORT(us), expected_short);
        if (streq(expected, "-"))
                return;
        assert_int_equal(timestamp_parse(buf, NOW, &again), 0);
        assert_true(again == us - us % USEC_PER_SEC);
}

static void test_format(void **state) {
        uint64_t seed = 7;

        set_zone("UTC0");
        /* The words are the same in all of them. */
        (void) setlocale(LC_ALL, "de_DE.UTF-8");
        check_format(NOW, "Mon 2026-11-30 13:14:15 UTC", "2026-11-30 13:14:15");
        check_format(0, "-", "-");
        check_format(UINT64_MAX, "-", "-");
        check_format(UINT64_MAX - 1, "-", "-");
        check_format(UINT64_C(253402300800) * USEC_PER_SEC, "-", "-");
        set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
        check_format(UINT64_C(1792888200) * USEC_PER_SEC, "Sun 2026-10-25 02:30:00 CEST", "2026-10-25 02:30:00");
        check_format(UINT64_C(1792888200) * USEC_PER_SEC + HOUR, "Sun 2026-10-25 02:30:00 CET",
                     "2026-10-25 02:30:00");

        /* 1970 begins in the evening there. */
        set_zone("<-03>3");
        check_format(3 * USEC_PER_SEC, "Wed 1969-12-31 21:00:03 -03", "1969-12-31 21:00:03");
        check_bad("1969-12-31 20:59:59", -ERANGE);
        set_zone("CET-1CEST,M3.5.0,M10.5.0/3");

        for (size_t i = 0; i < 20000; i++) {
                uint64_t us = test_random(&seed) % (UINT64_C(253402290000) * USEC_PER_SEC) + 1, again;

                assert_int_equal(timestamp_parse(FORMAT_TIMESTAMP(us), NOW, &again), 0);
                assert_true(again == us - us % USEC_PER_SEC);
        }
}

/* Nothing that it is given makes it do anything but refuse. */
static void test_random_text(void **state) {
        static const char alphabet[] = "0123456789:-+.@ TZUCMonagowydinf\xff";
        uint64_t seed = 11;

        for (size_t i = 0; i < 200000; i++) {
                char s[40];
                size_t n = test_random(&seed) % sizeof(s);
                uint64_t us = 4711;
                int r;

                for (size_t k = 0; k < n; k++)
                        s[k] = alphabet[test_random(&seed) % (sizeof(alphabet) - 1)];
                s[n] = 0;
                r = timestamp_parse(s, NOW, &us);
                assert_true(r == 0 || ((r == -EINVAL || r == -ERANGE) && us == 4711));
        }
}

static void test_clocks(void **state) {
        uint64_t now = timestamp_now(), boot = timestamp_boot();

        assert_true(boot > 0);
        assert_true(boot < now);
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_zone),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_random_text),
        cmocka_unit_test(test_clocks),
)
