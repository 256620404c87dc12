/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "conf-files.h"
#include "conf.h"
#include "log.h"
#include "test-dir.h"
#include "test.h"

/* Takes the place of the real one, and keeps what it is given. */
enum { MESSAGES_MAX = 64 };
static char messages[MESSAGES_MAX][512];
static size_t n_messages;

int log_internal(int level, int error, const char *format, ...) {
        va_list ap;

        assert_true(n_messages < MESSAGES_MAX);
        assert_int_equal(level, LOG_WARNING);
        errno = abs(error);
        va_start(ap, format);
        vsnprintf(messages[n_messages++], sizeof(messages[0]), format, ap);
        va_end(ap);

        return -abs(error);
}

/* Stand for /etc, /run, /usr/local/lib, /usr/lib. */
static char dir_names[4][PATH_MAX + 64];
static const char *const dirs[] = { dir_names[0], dir_names[1], dir_names[2], dir_names[3], NULL };

static int setup(void **state) {
        static const char *const names[] = { "etc", "run", "local", "lib" };

        n_messages = 0;
        if (test_dir_setup(state) < 0)
                return -1;
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                snprintf(dir_names[i], sizeof(dir_names[i]), "%s/%s", test_dir, names[i]);

        return 0;
}

static Config load(void) {
        Config c;

        memset(&c, 0xff, sizeof(c));
        assert_int_equal(config_load(&c, dirs, NULL), 0);

        return c;
}

/* Reads that text alone. */
static Config load_text(const char *text) {
        Config c;

        n_messages = 0;
        test_write("file.conf", text);
        memset(&c, 0xff, sizeof(c));
        assert_int_equal(config_load(&c, NULL, test_path("file.conf")), 0);

        return c;
}

static void check_warning(size_t i, const char *place, const char *text) {
        assert_true(i < n_messages);
        assert_non_null(strstr(messages[i], place));
        assert_non_null(strstr(messages[i], text));
}

static void check_defaults(const Config *c) {
        assert_int_equal(c->tier, CONFIG_TIER_AUTO);
        assert_int_equal(c->max_units, 4096);
        assert_int_equal(c->history_max_bytes, 8 * 1024 * 1024);
        assert_int_equal(c->fsync_record_ns, 100 * NSEC_PER_MSEC);
        assert_int_equal(c->fsync_alert_ns, NSEC_PER_SEC);
        assert_int_equal(c->write_record_ns, 100 * NSEC_PER_MSEC);
        assert_int_equal(c->write_alert_ns, NSEC_PER_SEC);
        assert_int_equal(c->alert_burst, 5);
        assert_int_equal(c->alert_interval_ns, 30 * NSEC_PER_SEC);
        assert_int_equal(c->max_series, 20000);
}

static void test_defaults(void **state) {
        Config c;

        memset(&c, 0xff, sizeof(c));
        config_init(&c);
        check_defaults(&c);

        c = load();
        check_defaults(&c);
        assert_int_equal(n_messages, 0);
}

static void test_all_keys(void **state) {
        Config c;

        c = load_text("# comment\n; comment\n  # comment\n\n[Daemon]\nTier=tracepoint\nMaxUnits=100\n\n"
                      "[Stall]\n  FsyncRecordSec=1ms\nFsyncAlertSec = 1min 30s \nWriteRecordSec=250ms\n"
                      "WriteAlertSec=infinity\nAlertBurst=7\r\nAlertIntervalSec=2min\n[Metrics]\nMaxSeries=1000");
        assert_int_equal(n_messages, 0);
        assert_int_equal(c.tier, CONFIG_TIER_TRACEPOINT);
        assert_int_equal(c.max_units, 100);
        assert_int_equal(c.fsync_record_ns, NSEC_PER_MSEC);
        assert_int_equal(c.fsync_alert_ns, 90 * NSEC_PER_SEC);
        assert_int_equal(c.write_record_ns, 250 * NSEC_PER_MSEC);
        assert_true(c.write_alert_ns == TIMESPAN_INFINITY);
        assert_int_equal(c.alert_burst, 7);
        assert_int_equal(c.alert_interval_ns, 120 * NSEC_PER_SEC);
        assert_int_equal(c.max_series, 1000);
}

static void test_sizes(void **state) {
        static const struct {
                const char *text;
                uint64_t bytes; /* 0: refused */
        } cases[] = {
                { "64K", 65536 },     { "65536", 65536 },   { "65536B", 65536 }, { "1M", 1048576 }, { "32M", 33554432 },
                { "65535", 0 },       { "63K", 0 },         { "33M", 0 },        { "1G", 0 },       { "8m", 0 },
                { "8 M", 0 },         { "8MB", 0 },         { "M", 0 },          { "-1M", 0 },      { "1.5M", 0 },
                { "99999999999999999999", 0 },              { "18446744073709551615G", 0 },
                { "123456789012345678901234567890M", 0 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                char text[128];
                Config c;

                snprintf(text, sizeof(text), "[Daemon]\nHistoryMaxBytes=%s\n", cases[i].text);
                c = load_text(text);
                assert_int_equal(n_messages, cases[i].bytes ? 0 : 1);
                assert_true(c.history_max_bytes == (cases[i].bytes ?: 8 * 1024 * 1024));
        }
        (void) load_text("[Daemon]\nHistoryMaxBytes=1K\n");
        check_warning(0, "file.conf:2:", "64K to 32M");
        (void) load_text("[Daemon]\nHistoryMaxBytes=big\n");
        check_warning(0, "file.conf:2:", "not a valid size");
}

static void test_main_file_precedence(void **state) {
        static const char *const names[] = { "lib", "local", "run", "etc" };

        /* Each hides the ones before as a whole. */
        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                char name[64], text[64];
                Config c;

                snprintf(name, sizeof(name), "%s/iolat/iolatd.conf", names[i]);
                snprintf(text, sizeof(text), "[Stall]\nAlertBurst=%zu\n%s", i + 10,
                         i == 0 ? "AlertIntervalSec=5s\n" : "");
                test_write(name, text);

                c = load();
                assert_int_equal(c.alert_burst, i + 10);
                assert_int_equal(c.alert_interval_ns, (i == 0 ? 5 : 30) * NSEC_PER_SEC);
        }

        /* A link to nothing is no file, one to /dev/null is an empty one. */
        assert_true(unlink(test_path("etc/iolat/iolatd.conf")) >= 0);
        assert_true(symlink("missing", test_path("etc/iolat/iolatd.conf")) >= 0);
        assert_int_equal(load().alert_burst, 12);
        assert_true(unlink(test_path("etc/iolat/iolatd.conf")) >= 0);
        assert_true(symlink("/dev/null", test_path("etc/iolat/iolatd.conf")) >= 0);
        assert_int_equal(load().alert_burst, 5);
        assert_int_equal(n_messages, 0);
}

static void test_dropins(void **state) {
        Config c;

        test_write("etc/iolat/iolatd.conf", "[Stall]\nAlertBurst=1\nAlertIntervalSec=1s\n[Daemon]\nMaxUnits=16\n");
        /* By file name, wherever they are. */
        test_write("lib/iolat/iolatd.conf.d/50-b.conf", "[Stall]\nAlertBurst=2\nAlertIntervalSec=2s\n");
        test_write("etc/iolat/iolatd.conf.d/40-a.conf", "[Stall]\nAlertBurst=3\nFsyncAlertSec=3s\n");
        c = load();
        assert_int_equal(c.alert_burst, 2);
        assert_int_equal(c.alert_interval_ns, 2 * NSEC_PER_SEC);
        assert_int_equal(c.fsync_alert_ns, 3 * NSEC_PER_SEC);
        assert_int_equal(c.max_units, 16);

        /* The same name in a higher directory replaces all of it. */
        test_write("run/iolat/iolatd.conf.d/50-b.conf", "[Stall]\nAlertBurst=4\n");
        c = load();
        assert_int_equal(c.alert_burst, 4);
        assert_int_equal(c.alert_interval_ns, 1 * NSEC_PER_SEC);

        /* A mask in a higher one hides both. */
        assert_true(symlink("/dev/null", test_path("etc/iolat/iolatd.conf.d/50-b.conf")) >= 0);
        c = load();
        assert_int_equal(c.alert_burst, 3);

        /* A mask in a lower one hides nothing. */
        test_mkdir("local/iolat/iolatd.conf.d");
        assert_true(symlink("/dev/null", test_path("local/iolat/iolatd.conf.d/40-a.conf")) >= 0);
        c = load();
        assert_int_equal(c.alert_burst, 3);

        /* Empty files hide as well. */
        test_write("etc/iolat/iolatd.conf.d/40-a.conf", "");
        c = load();
        assert_int_equal(c.alert_burst, 1);
        assert_int_equal(n_messages, 0);
}

static void test_dropins_without_main_file(void **state) {
        test_write("local/iolat/iolatd.conf.d/a.conf", "[Stall]\nAlertBurst=9\n");
        assert_int_equal(load().alert_burst, 9);
}

static void test_dropins_that_are_none(void **state) {
        test_write("etc/iolat/iolatd.conf.d/a.conf~", "[Stall]\nAlertBurst=9\n");
        test_write("etc/iolat/iolatd.conf.d/.a.conf", "[Stall]\nAlertBurst=9\n");
        test_write("etc/iolat/iolatd.conf.d/README", "[Stall]\nAlertBurst=9\n");
        test_write("etc/iolat/iolatd.conf.d/dir.conf/x.conf", "[Stall]\nAlertBurst=9\n");
        assert_true(mkfifo(test_path("etc/iolat/iolatd.conf.d/fifo.conf"), 0600) >= 0);
        assert_true(symlink("missing", test_path("etc/iolat/iolatd.conf.d/dangling.conf")) >= 0);
        assert_int_equal(load().alert_burst, 5);
        assert_int_equal(n_messages, 0);
}

static void test_empty_resets(void **state) {
        Config c;

        test_write("lib/iolat/iolatd.conf", "[Daemon]\nTier=kprobe\n[Stall]\nAlertBurst=9\nFsyncAlertSec=9s\n");
        test_write("etc/iolat/iolatd.conf.d/a.conf", "[Daemon]\nTier=\n[Stall]\nAlertBurst= \nFsyncAlertSec=\n");
        c = load();
        check_defaults(&c);
        assert_int_equal(n_messages, 0);
}

static void test_explicit_file(void **state) {
        Config c;

        test_write("etc/iolat/iolatd.conf", "[Stall]\nAlertBurst=9\n");
        test_write("etc/iolat/iolatd.conf.d/a.conf", "[Stall]\nAlertIntervalSec=9s\n");
        test_write("other", "[Stall]\nFsyncAlertSec=9s\n");
        assert_int_equal(config_load(&c, dirs, test_path("other")), 0);
        assert_int_equal(c.alert_burst, 5);
        assert_int_equal(c.alert_interval_ns, 30 * NSEC_PER_SEC);
        assert_int_equal(c.fsync_alert_ns, 9 * NSEC_PER_SEC);

        assert_int_equal(config_load(&c, dirs, "/dev/null"), 0);
        check_defaults(&c);

        /* Errors are the caller's to tell, and leave a complete configuration. */
        memset(&c, 0xff, sizeof(c));
        assert_int_equal(config_load(&c, dirs, test_path("missing")), -ENOENT);
        check_defaults(&c);
        assert_int_equal(config_load(&c, dirs, test_path("etc")), -EISDIR);
        assert_true(mkfifo(test_path("fifo"), 0600) >= 0);
        assert_int_equal(config_load(&c, dirs, test_path("fifo")), -EINVAL);
        assert_true(truncate(test_path("other"), 2 * 1024 * 1024) >= 0);
        assert_int_equal(config_load(&c, dirs, test_path("other")), -EFBIG);
        assert_int_equal(n_messages, 0);
}

static void test_bad_lines(void **state) {
        Config c;

        c = load_text("Early=1\n"                 /* 1 */
                      "[Stall]\n"                 /* 2 */
                      "AlertBurst=7\n"            /* 3 */
                      "FsyncAlertSec\n"           /* 4 */
                      "=5\n"                      /* 5 */
                      "Alert:Burst\n"             /* 6 */
                      "Nonsense=1\n"              /* 7 */
                      "fsyncalertsec=3s\n"        /* 8 */
                      "FsyncAlertSec=soon\n"      /* 9 */
                      "FsyncAlertSec=0\n"         /* 10 */
                      "FsyncAlertSec=-1s\n"       /* 11 */
                      "AlertBurst=infinity\n"     /* 12 */
                      "AlertBurst=0\n"            /* 13 */
                      "AlertBurst=+3\n"           /* 14 */
                      "AlertIntervalSec=infinity\n" /* 15 */
                      "WriteAlertSec=25h\n"       /* 16 */
                      "[Daemon\n"                 /* 17 */
                      "[Daemon]\n"                /* 18 */
                      "Tier=fast\n"               /* 19 */
                      "MaxUnits=99999999999999999999999\n" /* 20 */
                      "MaxUnits=15\n"             /* 21 */
                      "[Other]\n"                 /* 22 */
                      "A=1\n"                     /* 23 */
                      "B=1\n"                     /* 24 */
                      "[Daemon]\n"                /* 25 */
                      "MaxUnits=17\n");

        /* The good lines count all the same. */
        assert_int_equal(c.alert_burst, 7);
        assert_int_equal(c.max_units, 17);
        c.alert_burst = 5;
        c.max_units = 4096;
        check_defaults(&c);

        assert_int_equal(n_messages, 19);
        check_warning(0, "/file.conf:1: ", "outside of a section");
        check_warning(1, ":4: ", "Neither");
        check_warning(2, ":5: ", "Neither");
        check_warning(3, ":6: ", "Neither");
        check_warning(4, ":7: ", "Unknown key Nonsense= in section [Stall]");
        check_warning(5, ":8: ", "Unknown key fsyncalertsec=");
        check_warning(6, ":9: ", "FsyncAlertSec=soon is not a valid time span");
        check_warning(7, ":10: ", "FsyncAlertSec=0 is out of range, which is 1us to 1d or infinity");
        check_warning(8, ":11: ", "out of range");
        check_warning(9, ":12: ", "AlertBurst=infinity is not a valid number");
        check_warning(10, ":13: ", "AlertBurst=0 is out of range, which is 1 to 1000, ignoring");
        check_warning(11, ":14: ", "not a valid number");
        check_warning(12, ":15: ", "out of range, which is 1s to 1d, ignoring");
        check_warning(13, ":16: ", "out of range");
        check_warning(14, ":17: ", "without \"]\"");
        check_warning(15, ":19: ", "Tier=fast is not a valid tier");
        check_warning(16, ":20: ", "out of range");
        check_warning(17, ":21: ", "out of range");
        check_warning(18, ":23: ", "Unknown section [Other]");
        /* line 24 has been dealt with by that of line 23 */
}

static void test_ignored_silently(void **state) {
        Config c;

        c = load_text("[X-Other]\nA=1\n[Stall]\nX-B=2\nAlertBurst=3\n");
        assert_int_equal(c.alert_burst, 3);
        assert_int_equal(n_messages, 0);
}

static void test_odd_bytes(void **state) {
        static const char nul[] = "[Stall]\nAlertBurst=3\0x\nAlertBurst=4\n";
        char text[1024] = "[Stall]\nAlertBurst=";
        Config c;

        c = load_text("\xef\xbb\xbf[Stall]\nAlertBurst=3\n");
        assert_int_equal(c.alert_burst, 3);
        assert_int_equal(n_messages, 0);

        test_write_bytes("nul.conf", nul, sizeof(nul) - 1);
        assert_int_equal(config_load(&c, NULL, test_path("nul.conf")), 0);
        assert_int_equal(c.alert_burst, 4);
        assert_int_equal(n_messages, 1);
        check_warning(0, ":2: ", "NUL");

        /* Longer than what the parser takes at once: its rest must not become a line of its own. */
        memset(text + strlen(text), '1', 500);
        strcpy(text + strlen("[Stall]\nAlertBurst=") + 500, "\nAlertBurst=6\n");
        c = load_text(text);
        assert_int_equal(c.alert_burst, 6);
        assert_int_equal(n_messages, 1);
        check_warning(0, ":2: ", "too long");

        for (size_t n = 150; n < 250; n++) {
                snprintf(text, sizeof(text), "[Stall]\nAlertBurst=%0*d\nAlertIntervalSec=7s\n", (int) n, 8);
                c = load_text(text);
                assert_int_equal(c.alert_interval_ns, 7 * NSEC_PER_SEC);
                assert_int_equal(c.alert_burst, n_messages == 0 ? 8 : 5);
        }
        assert_int_equal(n_messages, 1);
}

static void test_warnings_are_bounded(void **state) {
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        assert_non_null(f);
        fprintf(f, "[Stall]\n");
        for (unsigned i = 0; i < 5000; i++)
                fprintf(f, "K%u=1\n", i);
        fprintf(f, "AlertBurst=9\n");
        assert_int_equal(fclose(f), 0);

        assert_int_equal(load_text(text).alert_burst, 9);
        assert_int_equal(n_messages, 32);
        check_warning(31, ":33: ", "Too many problems");
}

static void test_alert_below_record(void **state) {
        Config c;

        c = load_text("[Stall]\nFsyncAlertSec=20ms\nWriteRecordSec=5s\n");
        assert_int_equal(c.fsync_record_ns, 20 * NSEC_PER_MSEC);
        assert_int_equal(c.fsync_alert_ns, 20 * NSEC_PER_MSEC);
        assert_int_equal(c.write_record_ns, NSEC_PER_SEC);
        assert_int_equal(n_messages, 0);
}

static void test_unreadable(void **state) {
        test_write("etc/iolat/iolatd.conf", "[Stall]\nAlertBurst=9\n");
        assert_true(chmod(test_path("etc/iolat/iolatd.conf"), 0) >= 0);
        if (access(test_path("etc/iolat/iolatd.conf"), R_OK) >= 0) /* by a privilege */
                skip();
        assert_int_equal(load().alert_burst, 5);
        assert_int_equal(n_messages, 1);
        check_warning(0, "iolatd.conf: ", "Permission denied");
}

static void test_garbage(void **state) {
        static const char *const pieces[] = { "[", "]", "=", "\n", "\n", "Stall", "Daemon", "AlertBurst", "5", " ",
                                              ";", "#", ":", "\t", "\\", "\xff", "Tier", "auto", "infinity", "\r" };
        uint64_t seed = 17;

        for (size_t i = 0; i < 3000; i++) {
                char text[512] = "";
                Config c;

                for (size_t n = test_random(&seed) % 60; n > 0; n--)
                        strcat(text, pieces[test_random(&seed) % ELEMENTSOF(pieces)]);
                c = load_text(text);
                assert_non_null(config_tier_to_string((int) c.tier));
                assert_in_range(c.alert_burst, 1, 1000);
                assert_in_range(c.max_units, 16, 65536);
        }
}

static void test_operations(void **state) {
        Config c;

        c = load_text("[Daemon]\nOperations=write, read\nDirtyTracking=Yes\n");
        assert_true(c.op_write && c.op_read && c.dirty_tracking);
        c = load_text("[Daemon]\nOperations=read\n");
        assert_true(!c.op_write && c.op_read && !c.dirty_tracking);
        c = load_text("[Daemon]\nOperations=read\nOperations=\nDirtyTracking=1\nDirtyTracking=\n");
        assert_true(!c.op_write && !c.op_read && !c.dirty_tracking);
        assert_int_equal(n_messages, 0);

        c = load_text("[Daemon]\nOperations=write fsync\nDirtyTracking=maybe\n");
        assert_true(!c.op_write && !c.op_read && !c.dirty_tracking);
        assert_int_equal(n_messages, 2);
        check_warning(0, "file.conf:2:", "Operations=write fsync is not a valid list of operations");
        check_warning(1, "file.conf:3:", "DirtyTracking=maybe is not a valid boolean");
}

static void test_tiers(void **state) {
        for (int i = 0; i < _CONFIG_TIER_MAX; i++)
                assert_int_equal(config_tier_from_string(config_tier_to_string(i)), i);
        assert_null(config_tier_to_string(-1));
        assert_null(config_tier_to_string(_CONFIG_TIER_MAX));
        assert_int_equal(config_tier_from_string(""), -EINVAL);
}

#define WITH_DIR(f) cmocka_unit_test_setup_teardown(f, setup, test_dir_teardown)

DEFINE_TEST_MAIN(
        WITH_DIR(test_defaults),
        WITH_DIR(test_all_keys), WITH_DIR(test_sizes),
        WITH_DIR(test_main_file_precedence),
        WITH_DIR(test_dropins),
        WITH_DIR(test_dropins_without_main_file),
        WITH_DIR(test_dropins_that_are_none),
        WITH_DIR(test_empty_resets),
        WITH_DIR(test_explicit_file),
        WITH_DIR(test_bad_lines),
        WITH_DIR(test_ignored_silently),
        WITH_DIR(test_odd_bytes),
        WITH_DIR(test_warnings_are_bounded),
        WITH_DIR(test_alert_below_record),
        WITH_DIR(test_unreadable),
        WITH_DIR(test_garbage),
        WITH_DIR(test_operations),
        cmocka_unit_test(test_tiers),
)
