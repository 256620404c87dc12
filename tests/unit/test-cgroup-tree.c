/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <sys/xattr.h>

#include "cgroup-tree.h"
#include "mountinfo.h"
#include "test-dir.h"
#include "test.h"

static void check_root(const char *text, int error, const char *expected) {
        _cleanup_fclose_ FILE *f = file_from_string(text);
        _cleanup_free_ char *root = NULL;

        assert_int_equal(cgroup_root_parse(f, &root), error);
        if (error < 0)
                assert_null(root);
        else
                assert_string_equal(root, expected);
}

static void test_mountinfo_line(void **state) {
        char line[] = "36 35 98:1048575 /a\\040b /mnt\\011x\\134y\\012 rw,noatime master:1 propagate_from:2 - "
                      "fuse.x\\040y /dev/root rw\n";
        MountInfo m;

        assert_int_equal(mountinfo_parse_line(line, &m), 0);
        assert_int_equal(m.dev, 98U << 20 | 1048575);
        assert_string_equal(m.root, "/a b");
        assert_string_equal(m.mount_point, "/mnt\tx\\y\n");
        assert_string_equal(m.fs_type, "fuse.x y");
        assert_string_equal(m.source, "/dev/root");
}

static void test_mountinfo_escapes(void **state) {
        /* What only looks like one stays, and so does one that would end the string. */
        char line[] = "1 2 0:3 /\\04 /\\000\\400\\\\040\\18x\\ rw - t s o";
        MountInfo m;

        assert_int_equal(mountinfo_parse_line(line, &m), 0);
        assert_string_equal(m.root, "/\\04");
        assert_string_equal(m.mount_point, "/\\000\\400\\ \\18x\\");
        assert_string_equal(m.source, "s");
}

static void test_mountinfo_empty_source(void **state) {
        char line[] = "1 2 0:3 / / rw - tmpfs  rw", bare[] = "1 2 0:3 / / rw - tmpfs";
        MountInfo m;

        assert_int_equal(mountinfo_parse_line(line, &m), 0);
        assert_string_equal(m.fs_type, "tmpfs");
        assert_string_equal(m.source, "");
        assert_int_equal(mountinfo_parse_line(bare, &m), 0);
        assert_string_equal(m.source, "");
}

static void test_mountinfo_bad_lines(void **state) {
        static const char *const lines[] = {
                "",
                "\n",
                " ",
                "36",
                "36 35",
                "36 35 0:1",
                "36 35 0:1 /",
                "36 35 0:1 / /mnt",
                "36 35 0:1 / /mnt rw",
                "36 35 0:1 / /mnt rw -",
                "36 35 0:1 / /mnt rw - ",
                "36 35 0:1 / /mnt rw shared:1 ext4 x rw",
                "36 35 0 / /mnt rw - ext4 x rw",
                "36 35 :1 / /mnt rw - ext4 x rw",
                "36 35 1: / /mnt rw - ext4 x rw",
                "36 35 1:2:3 / /mnt rw - ext4 x rw",
                "36 35 -1:2 / /mnt rw - ext4 x rw",
                "36 35 4096:0 / /mnt rw - ext4 x rw",
                "36 35 0:1048576 / /mnt rw - ext4 x rw",
                "36 35 0:99999999999999999999 / /mnt rw - ext4 x rw",
                "36 35 0:1  /mnt rw - ext4 x rw",
        };

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                _cleanup_free_ char *line = strdup(lines[i]);
                MountInfo m;

                assert_non_null(line);
                assert_int_equal(mountinfo_parse_line(line, &m), -EBADMSG);
        }
}

static void test_root_of_layouts(void **state) {
        check_root("22 27 0:21 / /proc rw - proc proc rw\n"
                   "31 23 0:29 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n",
                   0, "/sys/fs/cgroup");
        check_root("31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
                   "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                   "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
                   0, "/sys/fs/cgroup/unified");
        /* the hierarchy itself before a part of it */
        check_root("31 23 0:29 /docker/1 /mnt rw - cgroup2 c rw\n"
                   "32 23 0:29 / /odd\\040place rw - cgroup2 c rw\n"
                   "33 23 0:29 / /later rw - cgroup2 c rw\n",
                   0, "/odd place");
        check_root("31 23 0:29 /docker/1 /mnt rw - cgroup2 c rw\n"
                   "32 23 0:29 /docker/2 /later rw - cgroup2 c rw\n",
                   0, "/mnt");
        /* bad lines are nothing to stumble over */
        check_root("cgroup2\n\n\n31 23 0:29 / /c rw - cgroup2 c rw\n", 0, "/c");
        check_root("31 23 0:29 / /cgroup2 rw - cgroup cgroup2 rw\n", -ENOENT, NULL);
        check_root("\n", -ENOENT, NULL);
}

typedef struct Seen {
        char paths[200][64];
        uint64_t ids[200];
        size_t n;
        size_t stop_at; /* 0: never */
} Seen;

static int on_cgroup(uint64_t id, const char *path, void *userdata) {
        Seen *s = userdata;

        assert_true(s->n < ELEMENTSOF(s->paths));
        snprintf(s->paths[s->n], sizeof(s->paths[0]), "%s", path);
        s->ids[s->n++] = id;

        return s->n == s->stop_at ? -ECANCELED : 0;
}

static const uint64_t *seen_find(const Seen *s, const char *path) {
        for (size_t i = 0; i < s->n; i++)
                if (streq(s->paths[i], path))
                        return s->ids + i;

        return NULL;
}

static uint64_t inode_of(const char *path) {
        struct stat st;

        assert_true(stat(path, &st) >= 0);
        return st.st_ino;
}

static void test_walk(void **state) {
        static const char *const dirs[] = { "system.slice", "system.slice/a.service", "system.slice/a.service/x",
                                            "system.slice/b.service", "init.scope" };
        Seen s = {};

        for (size_t i = 0; i < ELEMENTSOF(dirs); i++)
                test_mkdir(dirs[i]);
        test_write("system.slice/cgroup.procs", "1\n");
        assert_true(symlink("/", test_path("system.slice/link")) >= 0);
        assert_true(symlink("..", test_path("system.slice/a.service/loop")) >= 0);
        assert_true(mkfifo(test_path("fifo"), 0600) >= 0);

        assert_int_equal(cgroup_tree_walk(test_dir, on_cgroup, &s), 0);
        assert_int_equal(s.n, 1 + ELEMENTSOF(dirs));
        assert_string_equal(s.paths[0], "/");
        assert_true(s.ids[0] == inode_of(test_dir));
        for (size_t i = 0; i < ELEMENTSOF(dirs); i++) {
                char path[64];

                snprintf(path, sizeof(path), "/%s", dirs[i]);
                assert_non_null(seen_find(&s, path));
                assert_true(*seen_find(&s, path) == inode_of(test_path(dirs[i])));
        }
        /* parents first */
        assert_true(seen_find(&s, "/system.slice") < seen_find(&s, "/system.slice/a.service"));
        assert_true(seen_find(&s, "/system.slice/a.service") < seen_find(&s, "/system.slice/a.service/x"));
}

static void test_walk_stops(void **state) {
        for (size_t n = 1; n <= 4; n++) {
                Seen s = { .stop_at = n };

                test_mkdir("a/b/c");
                assert_int_equal(cgroup_tree_walk(test_dir, on_cgroup, &s), -ECANCELED);
                assert_int_equal(s.n, n);
        }
}

static void test_walk_is_bounded(void **state) {
        char path[2 * 100 + 1] = "";
        Seen s = {};

        for (size_t i = 0; i < 100; i++)
                strcat(path, i == 0 ? "d" : "/d");
        test_mkdir(path);

        assert_int_equal(cgroup_tree_walk(test_dir, on_cgroup, &s), 0);
        assert_int_equal(s.n, 1 + CGROUP_DEPTH_MAX);
}

static void test_walk_without_root(void **state) {
        Seen s = {};

        assert_int_equal(cgroup_tree_walk(test_path("missing"), on_cgroup, &s), -ENOENT);
        test_write("file", "");
        assert_int_equal(cgroup_tree_walk(test_path("file"), on_cgroup, &s), -ENOTDIR);
        assert_int_equal(s.n, 0);
}

/* Removes all that is left to be walked. */
static int on_cgroup_remove(uint64_t id, const char *path, void *userdata) {
        unsigned *n = userdata;
        char name[16];

        (*n)++;
        for (unsigned i = 0; streq(path, "/") == false && i < 50; i++) {
                snprintf(name, sizeof(name), "d%u/e", i);
                (void) rmdir(test_path(name));
                snprintf(name, sizeof(name), "d%u", i);
                (void) rmdir(test_path(name));
        }

        return 0;
}

static void test_walk_while_vanishing(void **state) {
        unsigned n = 0;
        char name[16];

        for (unsigned i = 0; i < 50; i++) {
                snprintf(name, sizeof(name), "d%u/e", i);
                test_mkdir(name);
        }
        assert_int_equal(cgroup_tree_walk(test_dir, on_cgroup_remove, &n), 0);
        assert_in_range(n, 2, 101);
}

static void test_walk_unreadable(void **state) {
        Seen s = {};

        test_mkdir("a/b");
        assert_true(chmod(test_path("a"), 0) >= 0);
        if (access(test_path("a"), R_OK) >= 0) /* by a privilege */
                skip();
        assert_int_equal(cgroup_tree_walk(test_dir, on_cgroup, &s), 0);
        assert_int_equal(s.n, 2);
        assert_true(chmod(test_path("a"), 0700) >= 0); /* for the cleaning up */
}

static void set_id(const char *name, const char *value) {
        assert_true(setxattr(test_path(name), "user.invocation_id", value, strlen(value), 0) >= 0);
}

static void test_invocation_id(void **state) {
        static const char id[] = "0123456789abcdef0123456789abcdef";
        char ret[INVOCATION_ID_LEN + 1] = "untouched";

        test_mkdir("a.service");
        if (setxattr(test_path("a.service"), "user.x", "", 0, 0) < 0 && errno == EOPNOTSUPP)
                skip();

        assert_int_equal(cgroup_invocation_id(test_dir, "/a.service", ret), -ENODATA);
        assert_int_equal(cgroup_invocation_id(test_dir, "/b.service", ret), -ENOENT);
        set_id("a.service", "");
        assert_int_equal(cgroup_invocation_id(test_dir, "/a.service", ret), -EBADMSG);
        set_id("a.service", "0123456789abcdef0123456789abcde");
        assert_int_equal(cgroup_invocation_id(test_dir, "/a.service", ret), -EBADMSG);
        set_id("a.service", "0123456789abcdef0123456789abcdef0");
        assert_int_equal(cgroup_invocation_id(test_dir, "/a.service", ret), -EBADMSG);
        set_id("a.service", "0123456789abcdef0123456789abcdeg");
        assert_int_equal(cgroup_invocation_id(test_dir, "/a.service", ret), -EBADMSG);
        assert_string_equal(ret, "untouched");

        set_id("a.service", id);
        assert_int_equal(cgroup_invocation_id(test_dir, "/a.service", ret), 0);
        assert_string_equal(ret, id);
}

static void test_invocation_id_stays_below(void **state) {
        char ret[INVOCATION_ID_LEN + 1], path[2 * PATH_MAX];

        assert_int_equal(cgroup_invocation_id(test_dir, "/..", ret), -EINVAL);
        assert_int_equal(cgroup_invocation_id(test_dir, "/a/../../b", ret), -EINVAL);
        assert_int_equal(cgroup_invocation_id(test_dir, "a", ret), -EINVAL);
        assert_int_equal(cgroup_invocation_id(test_dir, "", ret), -EINVAL);

        memset(path, '/', sizeof(path) - 1);
        path[sizeof(path) - 1] = 0;
        assert_int_equal(cgroup_invocation_id(test_dir, path, ret), -EINVAL);
}

static void check_path(const char *text, int error, const char *expected) {
        _cleanup_fclose_ FILE *f = file_from_string(text);
        _cleanup_free_ char *path = NULL;

        assert_int_equal(cgroup_path_parse(f, &path), error);
        if (error < 0)
                assert_null(path);
        else
                assert_string_equal(path, expected);
}

static void test_proc_cgroup(void **state) {
        check_path("0::/system.slice/a.service\n", 0, "/system.slice/a.service");
        check_path("0::/\n", 0, "/");
        check_path("9:memory:/m\n1:name=systemd:/x\n0::/u\n", 0, "/u");
        check_path("0::/with space:and/colon", 0, "/with space:and/colon");
        check_path("0::/system.slice/a.service (deleted)\n", 0, "/system.slice/a.service");
        check_path("0::/../outside\n", 0, "/../outside");
        check_path("10::/x\n9:memory:/m\n", -ENOENT, NULL);
        check_path("0::\n0:", -ENOENT, NULL);
        check_path("0::relative\n", -ENOENT, NULL);
        check_path("\n", -ENOENT, NULL);
}

static void test_of_pid(void **state) {
        _cleanup_free_ char *path = NULL;
        int r;

        assert_int_equal(cgroup_of_pid(UINT32_MAX, &path), -ESRCH);
        assert_int_equal(cgroup_of_pid(0, &path), -ESRCH);
        assert_null(path);

        r = cgroup_of_pid((uint32_t) getpid(), &path);
        if (r == -ENOENT)
                skip();
        assert_int_equal(r, 0);
        assert_int_equal(path[0], '/');
}

/* On the host's own hierarchy, if it has one. */
static int count(uint64_t id, const char *path, void *userdata) {
        assert_true(id != 0);
        assert_int_equal(path[0], '/');
        (*(unsigned *) userdata)++;

        return 0;
}

static void test_real_tree(void **state) {
        _cleanup_free_ char *root = NULL;
        unsigned n = 0;

        if (cgroup_root(&root) < 0)
                skip();
        assert_int_equal(cgroup_tree_walk(root, count, &n), 0);
        assert_true(n > 0);
}

#define WITH_DIR(f) cmocka_unit_test_setup_teardown(f, test_dir_setup, test_dir_teardown)

DEFINE_TEST_MAIN(
        cmocka_unit_test(test_mountinfo_line),
        cmocka_unit_test(test_mountinfo_escapes),
        cmocka_unit_test(test_mountinfo_empty_source),
        cmocka_unit_test(test_mountinfo_bad_lines),
        cmocka_unit_test(test_root_of_layouts),
        WITH_DIR(test_walk),
        WITH_DIR(test_walk_stops),
        WITH_DIR(test_walk_is_bounded),
        WITH_DIR(test_walk_without_root),
        WITH_DIR(test_walk_while_vanishing),
        WITH_DIR(test_walk_unreadable),
        WITH_DIR(test_invocation_id),
        WITH_DIR(test_invocation_id_stays_below),
        cmocka_unit_test(test_proc_cgroup),
        cmocka_unit_test(test_of_pid),
        cmocka_unit_test(test_real_tree),
)
