/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "test.h"
#include "unit-path.h"

typedef struct Vector {
        const char *path;
        const char *unit;
        const char *user_unit;
        const char *subgroup;
        const char *unit_path;
} Vector;

#define USER "/user.slice/user-1000.slice/user@1000.service"
#define SYSTEM "/system.slice"
#define POD                                         \
        "/kubepods.slice/kubepods-burstable.slice/" \
        "kubepods-burstable-pod12345678_9abc_def0_1234_56789abcdef0.slice"

static const Vector vectors[] = {
        /* plain services */
        { SYSTEM "/db.service", "db.service", NULL, NULL, SYSTEM "/db.service" },
        { SYSTEM "/db.service/", "db.service", NULL, NULL, SYSTEM "/db.service" },
        { SYSTEM "/db.service/a/b", "db.service", NULL, "a/b", SYSTEM "/db.service" },
        { SYSTEM "/db.service/a/b///", "db.service", NULL, "a/b", SYSTEM "/db.service" },
        { SYSTEM "/db.service/.control", "db.service", NULL, ".control", SYSTEM "/db.service" },
        { SYSTEM "/db.service/other.service", "db.service", NULL, "other.service", SYSTEM "/db.service" },
        { "/a.service", "a.service", NULL, NULL, "/a.service" },
        { "/init.scope", "init.scope", NULL, NULL, "/init.scope" },
        { SYSTEM "/tmp.mount", "tmp.mount", NULL, NULL, SYSTEM "/tmp.mount" },
        { SYSTEM "/-.mount", "-.mount", NULL, NULL, SYSTEM "/-.mount" },
        { SYSTEM "/dev-disk-by\\x2duuid-1.swap", "dev-disk-by\\x2duuid-1.swap", NULL, NULL,
          SYSTEM "/dev-disk-by\\x2duuid-1.swap" },
        { SYSTEM "/cups.socket", "cups.socket", NULL, NULL, SYSTEM "/cups.socket" },

        /* instances and templates */
        { SYSTEM "/system-getty.slice/getty@tty1.service", "getty@tty1.service", NULL, NULL,
          SYSTEM "/system-getty.slice/getty@tty1.service" },
        { SYSTEM "/getty@tty6.service/tty5", "getty@tty6.service", NULL, "tty5", SYSTEM "/getty@tty6.service" },
        { SYSTEM "/x@a@b.service", "x@a@b.service", NULL, NULL, SYSTEM "/x@a@b.service" },
        { SYSTEM "/getty@.service/x", "system.slice", NULL, "getty@.service/x", SYSTEM },
        { SYSTEM "/@x.service", "system.slice", NULL, "@x.service", SYSTEM },
        { SYSTEM "/getty####@tty6.service/x", "system.slice", NULL, "getty####@tty6.service/x", SYSTEM },

        /* slices */
        { "/", "-.slice", NULL, NULL, "/" },
        { "//", "-.slice", NULL, NULL, "/" },
        { SYSTEM, "system.slice", NULL, NULL, SYSTEM },
        { SYSTEM "/", "system.slice", NULL, NULL, SYSTEM },
        { "/a.slice/a-b.slice", "a-b.slice", NULL, NULL, "/a.slice/a-b.slice" },
        { "/a.slice/a-b.slice/a-b-c.slice/d.service/e", "d.service", NULL, "e",
          "/a.slice/a-b.slice/a-b-c.slice/d.service" },
        { "/-.slice/x.service", "x.service", NULL, NULL, "/-.slice/x.service" },
        { "/.slice", "-.slice", NULL, ".slice", "/" },
        { SYSTEM "/x@y.slice/z.service", "system.slice", NULL, "x@y.slice/z.service", SYSTEM },
        { SYSTEM "/db.service/a.slice/b.service", "db.service", NULL, "a.slice/b.service", SYSTEM "/db.service" },

        /* names that the kernel's own files have */
        { "/a.slice/_cpu.service/x", "cpu.service", NULL, "x", "/a.slice/_cpu.service" },
        { SYSTEM "/system-waldo.slice/_cpu.service/y", "cpu.service", NULL, "y",
          SYSTEM "/system-waldo.slice/_cpu.service" },
        { SYSTEM "/__x.service", "_x.service", NULL, NULL, SYSTEM "/__x.service" },
        { "/_cpu.slice/x.service", "x.service", NULL, NULL, "/_cpu.slice/x.service" },
        { "/_cpu.slice", "cpu.slice", NULL, NULL, "/_cpu.slice" },
        { SYSTEM "/_.service", "system.slice", NULL, "_.service", SYSTEM },
        { SYSTEM "/_", "system.slice", NULL, "_", SYSTEM },

        /* user managers */
        { USER, "user@1000.service", NULL, NULL, USER },
        { USER "/server.service", "user@1000.service", "server.service", NULL, USER },
        { USER "/app.slice/x.scope", "user@1000.service", "x.scope", NULL, USER },
        { USER "/app.slice/app-a@1.service/deep/er", "user@1000.service", "app-a@1.service", "deep/er", USER },
        { USER "/app.slice/app-gnome-x\\x2dy-12.scope", "user@1000.service", "app-gnome-x\\x2dy-12.scope", NULL,
          USER },
        { USER "/init.scope", "user@1000.service", "init.scope", NULL, USER },
        { USER "/app.slice", "user@1000.service", "app.slice", NULL, USER },
        { USER "/user.slice/libpod-0a.scope/container/system.slice/c.service", "user@1000.service",
          "libpod-0a.scope", "container/system.slice/c.service", USER },
        { USER "/_cpu.service", "user@1000.service", "cpu.service", NULL, USER },
        { USER "/nothing/x.service", "user@1000.service", NULL, "nothing/x.service", USER },
        { "/user.slice/user-1000.slice/user@.service/server.service", "user-1000.slice", NULL,
          "user@.service/server.service", "/user.slice/user-1000.slice" },
        { "/user.slice/user-0.slice/user@0.service/a.service", "user@0.service", "a.service", NULL,
          "/user.slice/user-0.slice/user@0.service" },
        { "/user@1000.service/a.service", "user@1000.service", "a.service", NULL, "/user@1000.service" },

        /* what only looks like one */
        { "/user@01.service/a.service", "user@01.service", NULL, "a.service", "/user@01.service" },
        { "/user@abc.service/a.service", "user@abc.service", NULL, "a.service", "/user@abc.service" },
        { "/user@-1.service/a.service", "user@-1.service", NULL, "a.service", "/user@-1.service" },
        { "/user@65535.service/a.service", "user@65535.service", NULL, "a.service", "/user@65535.service" },
        { "/user@4294967295.service/a.service", "user@4294967295.service", NULL, "a.service",
          "/user@4294967295.service" },
        { "/user@4294967294.service/a.service", "user@4294967294.service", "a.service", NULL,
          "/user@4294967294.service" },
        { "/user@99999999999.service/a.service", "user@99999999999.service", NULL, "a.service",
          "/user@99999999999.service" },
        { "/user@1000.socket/a.service", "user@1000.socket", NULL, "a.service", "/user@1000.socket" },
        { SYSTEM "/user-runtime-dir@1000.service", "user-runtime-dir@1000.service", NULL, NULL,
          SYSTEM "/user-runtime-dir@1000.service" },

        /* capsules */
        { "/capsule.slice/capsule@test.service/app.slice/a.service", "capsule@test.service", "a.service", NULL,
          "/capsule.slice/capsule@test.service" },
        { "/capsule.slice/capsule@test.service", "capsule@test.service", NULL, NULL,
          "/capsule.slice/capsule@test.service" },

        /* sessions */
        { "/user.slice/user-1000.slice/session-2.scope", "session-2.scope", NULL, NULL,
          "/user.slice/user-1000.slice/session-2.scope" },
        { "/user.slice/user-1000.slice/session-c2.scope/x.service/y", "session-c2.scope", "x.service", "y",
          "/user.slice/user-1000.slice/session-c2.scope" },
        { "/user.slice/session-.scope/x.service", "session-.scope", NULL, "x.service",
          "/user.slice/session-.scope" },
        { "/user.slice/session-a_b.scope/x.service", "session-a_b.scope", NULL, "x.service",
          "/user.slice/session-a_b.scope" },

        /* containers and machines: all belongs to the outermost unit */
        { "/machine.slice/machine-foo.scope/payload/system.slice/db.service", "machine-foo.scope", NULL,
          "payload/system.slice/db.service", "/machine.slice/machine-foo.scope" },
        { "/machine.slice/systemd-nspawn@foo.service/payload/init.scope", "systemd-nspawn@foo.service", NULL,
          "payload/init.scope", "/machine.slice/systemd-nspawn@foo.service" },
        { "/machine.slice/systemd-nspawn@foo.service/supervisor", "systemd-nspawn@foo.service", NULL, "supervisor",
          "/machine.slice/systemd-nspawn@foo.service" },
        { "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope/libvirt/vcpu0", "machine-qemu\\x2d1\\x2dvm.scope", NULL,
          "libvirt/vcpu0", "/machine.slice/machine-qemu\\x2d1\\x2dvm.scope" },
        { SYSTEM "/docker-4f3b.scope", "docker-4f3b.scope", NULL, NULL, SYSTEM "/docker-4f3b.scope" },
        { SYSTEM "/docker.service/nested" USER "/a.service", "docker.service", NULL,
          "nested" USER "/a.service", SYSTEM "/docker.service" },
        { POD "/"
          "cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope/x",
          "cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope", NULL, "x",
          POD "/"
          "cri-containerd-0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.scope" },

        /* cgroups that no systemd made */
        { "/docker/4f3b", "-.slice", NULL, "docker/4f3b", "/" },
        { "/kubepods/burstable/pod1", "-.slice", NULL, "kubepods/burstable/pod1", "/" },
        { "/sadfdsafsda", "-.slice", NULL, "sadfdsafsda", "/" },
        { "/x.service.d", "-.slice", NULL, "x.service.d", "/" },
        { "/.service", "-.slice", NULL, ".service", "/" },
        { "/service", "-.slice", NULL, "service", "/" },
        { "/a.unknown", "-.slice", NULL, "a.unknown", "/" },
        { SYSTEM "/sp ace.service", "system.slice", NULL, "sp ace.service", SYSTEM },
        { SYSTEM "/\xc3\xa4.service", "system.slice", NULL, "\xc3\xa4.service", SYSTEM },
        { SYSTEM "/\x01\xff", "system.slice", NULL, "\x01\xff", SYSTEM },
        { "/...", "-.slice", NULL, "...", "/" },
        { "/..a.service", "..a.service", NULL, NULL, "/..a.service" },

        /* not normalized, but clear */
        { "//system.slice//db.service//x//y", "db.service", NULL, "x//y", "//system.slice//db.service" },
};

static void assert_same(const char *a, const char *b) {
        if (!b)
                assert_null(a);
        else {
                assert_non_null(a);
                assert_string_equal(a, b);
        }
}

static void test_vectors(void **state) {
        for (size_t i = 0; i < ELEMENTSOF(vectors); i++) {
                _cleanup_free_ char *unit = NULL, *user_unit = NULL, *subgroup = NULL, *path = NULL;

                assert_int_equal(unit_path_decode(vectors[i].path, &unit, &user_unit, &subgroup), 0);
                assert_same(unit, vectors[i].unit);
                assert_same(user_unit, vectors[i].user_unit);
                assert_same(subgroup, vectors[i].subgroup);

                assert_int_equal(unit_path_of_unit(vectors[i].path, &path), 0);
                assert_same(path, vectors[i].unit_path);

                /* Nothing has to be asked for. */
                assert_int_equal(unit_path_decode(vectors[i].path, NULL, NULL, NULL), 0);
        }
}

static void test_refused(void **state) {
        static const char *const paths[] = {
                "",
                "system.slice/a.service",
                " /a.service",
                "/..",
                "/../a.service",
                "/../../system.slice/a.service",
                "/system.slice/../a.service",
                "/system.slice/a.service/..",
                "/system.slice/a.service/../",
                "/.",
                "/./a.service",
                "/system.slice/a.service/./x",
        };

        for (size_t i = 0; i < ELEMENTSOF(paths); i++) {
                char *unit = NULL, *user_unit = NULL, *subgroup = NULL;

                assert_int_equal(unit_path_decode(paths[i], &unit, &user_unit, &subgroup), -EINVAL);
                assert_null(unit);
                assert_null(user_unit);
                assert_null(subgroup);
                assert_int_equal(unit_path_of_unit(paths[i], &unit), -EINVAL);
                assert_null(unit);
        }
        assert_int_equal(unit_path_decode(NULL, NULL, NULL, NULL), -EINVAL);
}

static void fill(char *buf, size_t n, const char *suffix) {
        memset(buf, 'a', n);
        strcpy(buf + n - strlen(suffix), suffix);
}

static void test_lengths(void **state) {
        _cleanup_free_ char *unit = NULL, *other = NULL;
        char name[UNIT_NAME_MAX + 2], path[UNIT_PATH_MAX + 2], buf[UNIT_NAME_MAX + 8];

        fill(name, UNIT_NAME_MAX, ".service");
        assert_true(unit_name_is_valid(name));
        snprintf(buf, sizeof(buf), "/%s", name);
        assert_int_equal(unit_path_decode(buf, &unit, NULL, NULL), 0);
        assert_string_equal(unit, name);

        /* The prefix does not count. */
        free(unit);
        snprintf(buf, sizeof(buf), "/_%s", name);
        assert_int_equal(unit_path_decode(buf, &unit, NULL, NULL), 0);
        assert_string_equal(unit, name);

        fill(name, UNIT_NAME_MAX + 1, ".service");
        assert_false(unit_name_is_valid(name));
        snprintf(buf, sizeof(buf), "/%s", name);
        assert_int_equal(unit_path_decode(buf, &other, NULL, NULL), 0);
        assert_string_equal(other, "-.slice");

        fill(path, UNIT_PATH_MAX, "/x");
        path[0] = '/';
        assert_int_equal(unit_path_decode(path, NULL, NULL, NULL), 0);
        fill(path, UNIT_PATH_MAX + 1, "/x");
        path[0] = '/';
        assert_int_equal(unit_path_decode(path, NULL, NULL, NULL), -EINVAL);
}

static void test_many_levels(void **state) {
        _cleanup_free_ char *unit = NULL, *user_unit = NULL, *path = NULL;
        char buf[UNIT_PATH_MAX + 1] = "";

        while (strlen(buf) + strlen("/a.slice") < sizeof(buf) - 16)
                strcat(buf, "/a.slice");
        assert_int_equal(unit_path_decode(buf, &unit, NULL, NULL), 0);
        assert_string_equal(unit, "a.slice");
        assert_int_equal(unit_path_of_unit(buf, &path), 0);
        assert_string_equal(path, buf);

        free(unit);
        strcat(buf, "/z.service");
        assert_int_equal(unit_path_decode(buf, &unit, &user_unit, NULL), 0);
        assert_string_equal(unit, "z.service");
        assert_null(user_unit);
}

static void test_unit_names(void **state) {
        static const char *const good[] = {
                "a.service", "a-b.service", "a@b.service", "a:b.timer",    "a_b.path",      "a\\x2db.mount",
                "-.mount",   "-.slice",     "a.b.service", "A9.automount", "a@b@c.service", "a@.b.service",
                "a.target",  "a.device",    "a.swap",      "a.scope",      "a.socket",      ".a.service",
        };
        static const char *const bad[] = {
                "",          "a",         "a.",        ".service",   "a.Service", "a.servic",      "a.services",
                "a/b.mount", "a@.mount",  "@a.mount",  "@.mount",    "a b.mount", "a\tb.mount",    "a\n.mount",
                "(kernel)",  "(exited)",  "a.snapshot", "a*.service", "a?.mount", "\xc3\xa4.mount", "a.service ",
        };

        for (size_t i = 0; i < ELEMENTSOF(good); i++)
                assert_true(unit_name_is_valid(good[i]));
        for (size_t i = 0; i < ELEMENTSOF(bad); i++)
                assert_false(unit_name_is_valid(bad[i]));
        assert_false(unit_name_is_valid(NULL));
}

/* Whatever the bytes, the answer is an error or obeys the promises of the header. */
static void test_garbage(void **state) {
        static const char *const pieces[] = {
                "/", "//", ".", "..", "_", "@", ".service", ".slice", ".scope", "user@", "session-", "capsule@",
                "1000", "a", "\\x2d", "\xff", "\x01", " ", "-", "user@1000.service", "system.slice",
        };
        uint64_t seed = 42;

        for (size_t i = 0; i < 200000; i++) {
                _cleanup_free_ char *unit = NULL, *user_unit = NULL, *subgroup = NULL, *prefix = NULL;
                char path[512] = "/";
                int r;

                for (size_t n = test_random(&seed) % 12; n > 0; n--)
                        strcat(path, pieces[test_random(&seed) % ELEMENTSOF(pieces)]);

                r = unit_path_decode(path, &unit, &user_unit, &subgroup);
                assert_int_equal(unit_path_of_unit(path, &prefix), r);
                if (r < 0) {
                        assert_int_equal(r, -EINVAL);
                        continue;
                }

                assert_true(unit_name_is_valid(unit));
                assert_true(!user_unit || unit_name_is_valid(user_unit));
                assert_true(!subgroup || (*subgroup && *subgroup != '/' && !endswith(subgroup, "/")));
                assert_true(!subgroup || endswith(path, subgroup) || path[strlen(path) - 1] == '/');
                assert_non_null(startswith(path, prefix));

                /* The unit of its own cgroup is the same one. */
                {
                        _cleanup_free_ char *again = NULL, *inner = NULL, *rest = NULL;

                        assert_int_equal(unit_path_decode(prefix, &again, &inner, &rest), 0);
                        assert_string_equal(again, unit);
                        assert_null(inner);
                        assert_null(rest);
                }
        }
}

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_many_levels),
        cmocka_unit_test(test_unit_names),
        cmocka_unit_test(test_garbage),
)
