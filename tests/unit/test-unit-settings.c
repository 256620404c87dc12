/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test.h"
#include "unit-settings.h"

#define MS NSEC_PER_MSEC
#define BIT(key) (1U << (key))

enum { PROBLEMS_MAX = 32 };
static struct {
        unsigned line;
        char text[4096];
} problems[PROBLEMS_MAX];
static size_t n_problems;

static void on_problem(unsigned line, const char *text, void *userdata) {
        assert_true(n_problems < PROBLEMS_MAX);
        problems[n_problems].line = line;
        snprintf(problems[n_problems++].text, sizeof(problems[0].text), "%s", text);
}

static UnitSettings parse_bytes(const char *text, size_t size, bool found) {
        UnitSettings s;

        n_problems = 0;
        memset(&s, 0xff, sizeof(s));
        assert_int_equal(unit_settings_parse(text, size, &s, on_problem, NULL), found);

        return s;
}

static UnitSettings parse(const char *text) {
        return parse_bytes(text, strlen(text), true);
}

static void expect_problem(size_t i, unsigned line, const char *text) {
        assert_true(i < n_problems);
        assert_int_equal(problems[i].line, line);
        if (!strstr(problems[i].text, text))
                fail_msg("\"%s\" is not in \"%s\"", text, problems[i].text);
}

static void test_all_keys(void **state) {
        UnitSettings s = parse("[Unit]\nDescription=x\n\n[X-Iolat]\nFsyncRecordSec=10ms\nFsyncAlertSec = 2s \n"
                               "WriteRecordSec=infinity\nWriteAlertSec=1min 30s\nAlert=no\n[Service]\nAlert=yes\n");

        assert_int_equal(n_problems, 0);
        assert_int_equal(s.set, BIT(_UNIT_KEY_MAX) - 1);
        assert_int_equal(s.said, s.set);
        assert_int_equal(s.ns[UNIT_FSYNC_RECORD], 10 * MS);
        assert_int_equal(s.ns[UNIT_FSYNC_ALERT], 2000 * MS);
        assert_int_equal(s.ns[UNIT_WRITE_RECORD], TIMESPAN_INFINITY);
        assert_int_equal(s.ns[UNIT_WRITE_ALERT], 90000 * MS);
        assert_false(s.alert);
}

static void test_nothing(void **state) {
        static const char *const texts[] = { "", "\n", "[Service]\nFsyncAlertSec=bad\n", "FsyncAlertSec=bad",
                                             "[x-iolat]\nx", "[X-Iolat\nx", "[X-Iolat] y\nx", "#[X-Iolat]\nx\n",
                                             ";[X-Iolat]\nx\n",
                                             "[A]\nExecStart=a \\\n[X-Iolat]\nb\n", "\\", "\\\n" };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                UnitSettings s = parse_bytes(texts[i], strlen(texts[i]), false);

                assert_int_equal(s.said, 0);
                assert_int_equal(n_problems, 0);
        }
}

static void test_syntax(void **state) {
        UnitSettings s;

        s = parse("\xef\xbb\xbf[X-Iolat]\r\n  FsyncAlertSec=5ms\r\n\t# comment\r\n  [X-Iolat]\nX-Other=1\nAlert=1");
        assert_int_equal(n_problems, 0);
        assert_int_equal(s.set, BIT(UNIT_FSYNC_ALERT) | BIT(UNIT_ALERT));
        assert_int_equal(s.ns[UNIT_FSYNC_ALERT], 5 * MS);

        /* Continued, with a comment in between; and at the end of the file. */
        s = parse("[X-Iolat]\nFsyncAlertSec=1s \\\n# no\n  500ms\nWriteAlertSec=\\\n7ms\\");
        assert_int_equal(n_problems, 0);
        assert_int_equal(s.ns[UNIT_FSYNC_ALERT], 1500 * MS);
        assert_int_equal(s.ns[UNIT_WRITE_ALERT], 7 * MS);

        /* The last one counts, an empty one takes back. */
        s = parse("[X-Iolat]\nFsyncAlertSec=1s\nFsyncAlertSec=2s\nWriteAlertSec=1s\nWriteAlertSec=\n");
        assert_int_equal(s.ns[UNIT_FSYNC_ALERT], 2000 * MS);
        assert_int_equal(s.set, BIT(UNIT_FSYNC_ALERT));
        assert_int_equal(s.said, BIT(UNIT_FSYNC_ALERT) | BIT(UNIT_WRITE_ALERT));
}

static void test_problems(void **state) {
        UnitSettings s = parse("[X-Iolat]\nFsyncAlertSec=soon\nNonsense\n=1\nColour=red\nAlert=maybe\n"
                               "FsyncRecordSec=1ns\nWriteRecordSec=2d\nWriteAlertSec=-1\nWriteAlertSec=3s\n"
                               "Alert\x1b[2J=no\n");

        assert_int_equal(s.set, BIT(UNIT_WRITE_ALERT));
        assert_int_equal(n_problems, 9);
        expect_problem(0, 2, "FsyncAlertSec=soon is not a valid time span");
        expect_problem(1, 3, "Neither");
        expect_problem(2, 4, "Neither");
        expect_problem(3, 5, "Unknown key Colour=");
        expect_problem(4, 6, "Alert=maybe is not a valid boolean");
        expect_problem(5, 7, "FsyncRecordSec=1ns is out of range");
        expect_problem(6, 8, "WriteRecordSec=2d is out of range");
        expect_problem(7, 9, "WriteAlertSec=-1 is out of range");
        expect_problem(8, 11, "\\x1b");
        assert_null(strchr(problems[8].text, '\x1b'));
}

static void test_long_lines(void **state) {
        static char text[8 * UNIT_LINE_MAX];
        UnitSettings s;
        int n;

        /* Of others: of no interest. Of ours, also by continuation: one problem, and the next line counts. */
        n = snprintf(text, sizeof(text), "[A]\nx=%0*d\n[X-Iolat]\nAlert=%0*d\nFsyncAlertSec=1s\nWriteAlertSec=%0*d\\\n"
                                         "%0*d\nWriteRecordSec=1s\n",
                     2 * UNIT_LINE_MAX, 0, UNIT_LINE_MAX, 0, UNIT_LINE_MAX / 2, 0, UNIT_LINE_MAX, 0);
        assert_true(n > 0 && n < (int) sizeof(text));
        s = parse(text);
        assert_int_equal(n_problems, 2);
        expect_problem(0, 4, "too long");
        expect_problem(1, 6, "too long");
        assert_int_equal(s.set, BIT(UNIT_FSYNC_ALERT) | BIT(UNIT_WRITE_RECORD));
}

static void test_nul(void **state) {
        static const char text[] = "[X-Iolat]\nAlert=no\0yes\nFsyncAlertSec=1s\n";
        UnitSettings s = parse_bytes(text, sizeof(text) - 1, true);

        assert_int_equal(n_problems, 1);
        expect_problem(0, 2, "NUL");
        assert_int_equal(s.set, BIT(UNIT_FSYNC_ALERT));
}

static void count_problem(unsigned line, const char *text, void *userdata) {
        assert_true(line > 0);
        for (const char *p = text; *p; p++)
                assert_true((unsigned char) *p >= 0x20);
}

static void test_garbage(void **state) {
        static const char *const words[] = { "[X-Iolat]", "\n", "Alert=", "FsyncAlertSec=", "1s", "\\\n", "[", "]", "=",
                                             " ", "infinity", "\xff", "no", "#" };
        uint64_t seed = 4711;

        for (unsigned i = 0; i < 20000; i++) {
                char text[256];
                size_t n = 0;
                UnitSettings s;

                while (n < sizeof(text) - 16) {
                        if (test_random(&seed) % 4) {
                                const char *w = words[test_random(&seed) % ELEMENTSOF(words)];

                                memcpy(text + n, w, strlen(w));
                                n += strlen(w);
                        } else
                                text[n++] = (char) test_random(&seed);
                }
                (void) unit_settings_parse(text, n, &s, count_problem, NULL);
                assert_int_equal(s.set & ~s.said, 0);
                for (int k = 0; k < _UNIT_TIME_MAX; k++)
                        if (s.set & BIT(k))
                                assert_true(s.ns[k] >= NSEC_PER_USEC);
        }
}

static void test_merge(void **state) {
        UnitSettings s = parse("[X-Iolat]\nFsyncAlertSec=1s\nWriteAlertSec=2s\nAlert=no\n");
        UnitSettings none = { .alert = true };
        UnitSettings over = parse("[X-Iolat]\nFsyncAlertSec=3s\nWriteAlertSec=\nFsyncRecordSec=1ms\n");

        unit_settings_merge(&s, &over);
        assert_int_equal(s.set, BIT(UNIT_FSYNC_ALERT) | BIT(UNIT_FSYNC_RECORD) | BIT(UNIT_ALERT));
        assert_int_equal(s.ns[UNIT_FSYNC_ALERT], 3000 * MS);
        assert_false(s.alert);
        over = s;
        unit_settings_merge(&s, &none);
        assert_true(unit_settings_equal(&s, &over));
        over.ns[UNIT_WRITE_ALERT] = 77; /* is not set */
        assert_true(unit_settings_equal(&s, &over));
        over.alert = true;
        assert_false(unit_settings_equal(&s, &over));
}

static void expect_limits(const UnitSettings *s, const Config *c, uint64_t sync_record, uint64_t sync_alert,
                          uint64_t write_record, uint64_t write_alert, bool alert) {
        UnitLimits l = unit_settings_limits(s, c);

        assert_int_equal(l.sync_record_ns, sync_record);
        assert_int_equal(l.sync_alert_ns, sync_alert);
        assert_int_equal(l.write_record_ns, write_record);
        assert_int_equal(l.write_alert_ns, write_alert);
        assert_int_equal(l.alert, alert);
}

static void test_limits(void **state) {
        UnitSettings s;
        Config c;

        config_init(&c);
        expect_limits(NULL, &c, 100 * MS, 1000 * MS, 100 * MS, 1000 * MS, true);
        s = parse("[X-Iolat]\nFsyncAlertSec=10ms\n"); /* what is alerted is recorded */
        expect_limits(&s, &c, 10 * MS, 10 * MS, 100 * MS, 1000 * MS, true);
        s = parse("[X-Iolat]\nFsyncRecordSec=5s\nWriteRecordSec=20ms\n");
        expect_limits(&s, &c, 1000 * MS, 1000 * MS, 20 * MS, 1000 * MS, true);
        s = parse("[X-Iolat]\nFsyncRecordSec=5s\nAlert=no\n");
        expect_limits(&s, &c, 5000 * MS, 1000 * MS, 100 * MS, 1000 * MS, false);
        s = parse("[X-Iolat]\nWriteAlertSec=infinity\nAlert=yes\n");
        expect_limits(&s, &c, 100 * MS, 1000 * MS, 100 * MS, TIMESPAN_INFINITY, true);
}

DEFINE_TEST_MAIN(cmocka_unit_test(test_all_keys), cmocka_unit_test(test_nothing), cmocka_unit_test(test_syntax),
                 cmocka_unit_test(test_problems), cmocka_unit_test(test_long_lines), cmocka_unit_test(test_nul),
                 cmocka_unit_test(test_garbage), cmocka_unit_test(test_merge), cmocka_unit_test(test_limits))
