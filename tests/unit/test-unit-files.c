/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test-dir.h"
#include "test.h"
#include "unit-files.h"

#define MS NSEC_PER_MSEC
#define FSYNC(ms) "[X-Iolat]\nFsyncRecordSec=" #ms "ms\n"
#define WRITE(ms) "[X-Iolat]\nWriteRecordSec=" #ms "ms\n"

static char dir_names[3][PATH_MAX + 64];
static const char *const dirs[] = { dir_names[0], dir_names[1], dir_names[2], NULL };

static char problems[UNIT_PROBLEMS_MAX + 1][8192];
static size_t n_problems;
static UnitRules rules;

static void on_problem(const char *text, void *userdata) {
        assert_true(n_problems < ELEMENTSOF(problems));
        snprintf(problems[n_problems++], sizeof(problems[0]), "%s", text);
}

static int setup(void **state) {
        static const char *const names[] = { "etc", "run", "usr" };

        if (test_dir_setup(state) < 0)
                return -1;
        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                snprintf(dir_names[i], sizeof(dir_names[i]), "%s/%s", test_dir, names[i]);

        return 0;
}

static int teardown(void **state) {
        unit_rules_done(&rules);

        return test_dir_teardown(state);
}

static void load(void) {
        unit_rules_done(&rules);
        n_problems = 0;
        assert_int_equal(unit_files_read(dirs, &rules, on_problem, NULL), 0);
}

static void put_link(const char *target, const char *name) {
        assert_true(symlink(target, test_path(name)) >= 0);
}

/* 0: not set */
static void expect(const char *unit, uint64_t fsync_ms, uint64_t write_ms) {
        const UnitSettings *s = unit_rules_get(&rules, unit);
        uint64_t fsync_ns = s && s->set & 1U << UNIT_FSYNC_RECORD ? s->ns[UNIT_FSYNC_RECORD] : 0;
        uint64_t write_ns = s && s->set & 1U << UNIT_WRITE_RECORD ? s->ns[UNIT_WRITE_RECORD] : 0;

        if (fsync_ns != fsync_ms * MS || write_ns != write_ms * MS)
                fail_msg("%s: %zu and %zu ns", unit, (size_t) fsync_ns, (size_t) write_ns);
}

static void test_nothing(void **state) {
        load();
        assert_int_equal(rules.n_units + rules.n_patterns + n_problems, 0);
        test_write("usr/a.service", "[Service]\nExecStart=/bin/true\n");
        test_write("usr/a.timer", FSYNC(1));
        test_write("usr/a.service.bak", FSYNC(1));
        test_write("usr/a.service.d/10.conf~", FSYNC(1));
        test_write("usr/a.service.d/.10.conf", FSYNC(1));
        test_write("usr/a.service.wants/b.service", FSYNC(1));
        test_mkdir("usr/b.service"); /* a directory */
        test_mkdir("usr/a.service.d/20.conf");
        test_write("usr/c.service.d", FSYNC(1));
        load();
        assert_int_equal(rules.n_units + rules.n_patterns + n_problems, 0);
}

static void test_main_file(void **state) {
        test_write("usr/a.service", FSYNC(1));
        test_write("run/a.service", FSYNC(2));
        test_write("usr/b.service", FSYNC(3));
        test_write("etc/b.service", "[Service]\n"); /* has no section, and is the one that counts */
        test_write("usr/c.service", FSYNC(4));
        test_mkdir("etc");
        put_link("/dev/null", "etc/c.service");
        test_write("usr/d.service", FSYNC(5));
        test_write("etc/d.service", "");
        put_link("/nowhere/e.service", "etc/e.service");
        test_write("usr/e.service", FSYNC(6));
        load();
        expect("a.service", 2, 0);
        expect("b.service", 0, 0);
        expect("c.service", 0, 0);
        expect("d.service", 0, 0);
        expect("e.service", 0, 0);
        assert_int_equal(n_problems, 0);
        assert_int_equal(rules.n_units, 1);
}

static void test_dropins(void **state) {
        /* Over the main file, by file name over all directories; the same name in an earlier directory replaces. */
        test_write("etc/a.service", FSYNC(1));
        test_write("usr/a.service.d/50-x.conf", FSYNC(2) WRITE(20));
        test_write("etc/a.service.d/40-x.conf", FSYNC(3));
        load();
        expect("a.service", 2, 20);
        test_write("run/a.service.d/50-x.conf", FSYNC(4));
        load();
        expect("a.service", 4, 0);
        put_link("/dev/null", "etc/a.service.d/50-x.conf");
        load();
        expect("a.service", 3, 0);
        /* Takes back what the main file said. */
        test_write("etc/a.service.d/90.conf", "[X-Iolat]\nFsyncRecordSec=\n");
        load();
        expect("a.service", 0, 0);
        /* Without a unit file: transient, or from a generator. */
        test_write("run/b.scope.d/1.conf", FSYNC(7));
        load();
        expect("b.scope", 7, 0);
}

static void test_templates(void **state) {
        test_write("usr/a@.service", FSYNC(1));
        load();
        expect("a@x.service", 1, 0);
        expect("a@y.z.service", 1, 0);
        expect("a.service", 0, 0);
        test_write("usr/a@.service.d/10.conf", WRITE(2));
        test_write("etc/a@y.service.d/20.conf", FSYNC(3));
        load();
        expect("a@x.service", 1, 2);
        expect("a@y.service", 3, 2);
        /* An instance's file replaces the template's; its drop-in that of the same name. */
        test_write("etc/a@z.service", FSYNC(5));
        test_write("usr/a@z.service.d/10.conf", "");
        load();
        expect("a@z.service", 5, 0);
        put_link("../usr/a@.service", "etc/a@w.service");
        load();
        expect("a@w.service", 1, 2);
}

static void test_prefixes_and_types(void **state) {
        test_write("etc/a-.service.d/50.conf", FSYNC(1));
        test_write("etc/a-b-.service.d/60.conf", WRITE(2));
        test_write("etc/service.d/55.conf", FSYNC(3) WRITE(4));
        test_write("etc/scope.d/50.conf", FSYNC(8));
        load();
        expect("x.service", 3, 4);
        expect("a.service", 3, 4);
        expect("a-x.service", 3, 4);   /* 50 before 55 */
        expect("a-b-c.service", 3, 2); /* 60 after it */
        expect("x.scope", 8, 0);
        expect("x.slice", 0, 0);
        /* A special one of the same name hides a general one, even from a directory further down. */
        test_write("usr/a-.service.d/55.conf", WRITE(5));
        test_write("usr/y.service.d/55.conf", "");
        test_write("usr/a-z.service", FSYNC(9)); /* main file first */
        load();
        expect("a-x.service", 1, 5);
        expect("a-b-c.service", 1, 2);
        expect("y.service", 0, 0);
        expect("x.service", 3, 4);
        expect("a-z.service", 1, 5);
        /* What differs from the patterns only. */
        assert_non_null(unit_rules_get(&rules, "y.service"));
        test_write("usr/nothing.service", "[Service]\n");
        load();
        assert_null(unit_rules_name(&rules, "nothing.service"));
}

static void test_prefixes_of_templates(void **state) {
        test_write("usr/a-b@.service", "[Service]\n");
        test_write("etc/a-.service.d/50.conf", FSYNC(1));
        load();
        expect("a-b@x.service", 1, 0);
        test_write("etc/a-b@.service.d/50.conf", FSYNC(2));
        test_write("etc/a-@x.service.d/60.conf", WRITE(3));
        test_write("etc/a-b@x.service.d/1.conf", "");
        load();
        expect("a-b@y.service", 2, 0);
        expect("a-b@x.service", 2, 3);
}

static void test_aliases(void **state) {
        test_write("usr/a.service", FSYNC(1));
        test_mkdir("etc");
        put_link("../usr/a.service", "etc/dbus-x.service");
        put_link("dbus-x.service", "etc/other.service");
        test_write("etc/dbus-x.service.d/1.conf", WRITE(2));
        test_write("etc/other.service.d/2.conf", WRITE(3));
        load();
        expect("a.service", 1, 3);
        /* One that links to itself, in a circle, and to a file of another name outside of the load path. */
        put_link("self.service", "etc/self.service");
        put_link("two.service", "etc/one.service");
        put_link("one.service", "etc/two.service");
        test_write("elsewhere/far.service", FSYNC(4));
        put_link(test_path("elsewhere/far.service"), "etc/near.service");
        put_link(test_path("elsewhere/far.service"), "etc/far.service.tmp");
        load();
        expect("near.service", 4, 0);
        assert_int_equal(n_problems, 0);
}

static void test_problems(void **state) {
        char *big = calloc(1, UNIT_FILE_SIZE_MAX + 1);

        assert_non_null(big);
        memset(big, '#', UNIT_FILE_SIZE_MAX + 1);
        test_write("usr/a.service", "[Service]\nNonsense\n[X-Iolat]\nFsyncRecordSec=1ms\nbad\n");
        test_write("usr/a.service.d/1.conf", "[X-Iolat]\nWriteRecordSec=bad\nFsyncAlertSec=1s\n");
        test_write("usr/a.service.d/2.conf", "[X-Iolat]\nnot read\n");
        test_write("etc/a.service.d/2.conf", "");
        test_write_bytes("usr/big.service", big, UNIT_FILE_SIZE_MAX + 1);
        free(big);
        assert_true(mkdir(test_path("run"), 0755) >= 0 && mkfifo(test_path("run/fifo.service"), 0600) >= 0);
        load();
        expect("a.service", 1, 0);
        assert_int_equal(n_problems, 3);
        assert_non_null(strstr(problems[0], "usr/a.service:5: Neither"));
        assert_non_null(strstr(problems[1], "usr/a.service.d/1.conf:2: WriteRecordSec=bad"));
        assert_non_null(strstr(problems[2], "usr/big.service: Cannot be read"));
}

/* However much is wrong, and however much there is. */
static void test_bounds(void **state) {
        char text[4096] = "[X-Iolat]\n", name[64];

        for (unsigned i = 0; i < 200; i++)
                strcat(text, "bad\n");
        for (unsigned i = 0; i < 100; i++) {
                snprintf(name, sizeof(name), "usr/b%u.service", i);
                test_write(name, text);
                snprintf(name, sizeof(name), "usr/t%u@.service", i);
                test_write(name, FSYNC(1));
        }
        for (unsigned i = 0; i < UNIT_DROPINS_MAX + 50; i++) {
                snprintf(name, sizeof(name), "usr/a.service.d/%03u.conf", i);
                test_write(name, FSYNC(1));
        }
        load();
        assert_int_equal(n_problems, UNIT_PROBLEMS_MAX);
        assert_non_null(strstr(problems[UNIT_PROBLEMS_MAX - 1], "Too many"));
        assert_int_equal(rules.n_patterns, UNIT_RULE_PATTERNS_MAX);
        expect("a.service", 1, 0);
}

static void test_dashes(void **state) {
        char name[512] = "usr/";

        memset(name + 4, '-', 240);
        name[4] = 'a';
        strcpy(name + 244, "@x.service");
        test_write(name, FSYNC(1));
        test_write("usr/-.slice.d/1.conf", FSYNC(2));
        test_write("usr/-.mount", FSYNC(3));
        test_write("usr/a--b.service.d/1.conf", FSYNC(4));
        test_write("usr/a--.service.d/2.conf", WRITE(5));
        test_write("usr/a-.service.d/2.conf", WRITE(6));
        load();
        expect(name + 4, 1, 5);
        expect("-.slice", 2, 0);
        expect("a.slice", 0, 0);
        expect("-.mount", 3, 0);
        expect("a--b.service", 4, 5);
        expect("a-b.service", 0, 6);
}

#define WITH_DIR(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

DEFINE_TEST_MAIN(WITH_DIR(test_nothing), WITH_DIR(test_main_file), WITH_DIR(test_dropins), WITH_DIR(test_templates),
                 WITH_DIR(test_prefixes_and_types), WITH_DIR(test_prefixes_of_templates), WITH_DIR(test_aliases),
                 WITH_DIR(test_problems), WITH_DIR(test_bounds), WITH_DIR(test_dashes))
