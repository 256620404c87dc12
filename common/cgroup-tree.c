/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>

#include "cgroup-tree.h"
#include "mountinfo.h"

#define XATTR_INVOCATION_ID "user.invocation_id"
#define SUFFIX_DEAD " (deleted)" /* that the kernel appends to the path of a removed cgroup */

static int root_found(const MountInfo *m, void *userdata) {
        char **found = userdata;

        if (!streq(m->fs_type, "cgroup2"))
                return 0;
        if (!streq(m->root, "/") && *found)
                return 0;

        free(*found);
        *found = strdup(m->mount_point);
        if (!*found)
                return -ENOMEM;

        return streq(m->root, "/"); /* positive: no better one will come */
}

int cgroup_root_parse(FILE *mountinfo, char **ret) {
        _cleanup_free_ char *found = NULL;
        int r;

        r = mountinfo_foreach(mountinfo, root_found, &found);
        if (r < 0)
                return r;
        if (!found)
                return -ENOENT;
        *ret = TAKE_PTR(found);

        return 0;
}

int cgroup_root(char **ret) {
        _cleanup_fclose_ FILE *f = NULL;

        f = fopen(MOUNTINFO_PATH, "re");
        if (!f)
                return -errno;

        return cgroup_root_parse(f, ret);
}

typedef struct Walk {
        cgroup_callback callback;
        void *userdata;
        dev_t dev;
        bool nlink_is_exact; /* 2 and the number of subdirectories, as in the kernel's cgroup2 */
        size_t len; /* of path; 0 for the root */
        char path[PATH_MAX];
} Walk;

static int walk_children(Walk *w, int dir_fd, unsigned depth);

/* Reports the directory of that name in dir_fd, and all below it. */
static int walk_child(Walk *w, int dir_fd, const char *name, unsigned depth) {
        _cleanup_close_ int fd = -EBADF;
        size_t n = strlen(name);
        struct stat st;
        int r;

        if (w->len + 1 + n >= sizeof(w->path))
                return 0;
        if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return 0;
        if (!S_ISDIR(st.st_mode) || st.st_dev != w->dev)
                return 0;

        w->path[w->len] = '/';
        memcpy(w->path + w->len + 1, name, n + 1);
        w->len += 1 + n;

        r = w->callback(st.st_ino, w->path, w->userdata);
        /* Most cgroups are leaves; opening them would be most of the work. */
        if (r == 0 && !(w->nlink_is_exact && st.st_nlink == 2)) {
                fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (fd >= 0)
                        r = walk_children(w, take_fd(&fd), depth);
        }

        w->len -= 1 + n;
        w->path[w->len] = 0;

        return r;
}

/* Takes the descriptor. Depth is that of the directory itself, which is 0 for the root. */
static int walk_children(Walk *w, int dir_fd, unsigned depth) {
        _cleanup_closedir_ DIR *d = NULL;
        const struct dirent *de;
        int r;

        if (depth >= CGROUP_DEPTH_MAX) {
                close(dir_fd);
                return 0;
        }

        d = fdopendir(dir_fd);
        if (!d) {
                close(dir_fd);
                return 0;
        }

        /* An error of readdir() means that the directory is going away. */
        while ((de = readdir(d))) {
                if (de->d_type != DT_DIR && de->d_type != DT_UNKNOWN)
                        continue;
                if (streq(de->d_name, ".") || streq(de->d_name, ".."))
                        continue;
                r = walk_child(w, dirfd(d), de->d_name, depth + 1);
                if (r != 0)
                        return r;
        }

        return 0;
}

int cgroup_tree_walk(const char *root, cgroup_callback callback, void *userdata) {
        _cleanup_close_ int fd = -EBADF;
        Walk w = { .callback = callback, .userdata = userdata };
        struct statfs fs;
        struct stat st;
        int r;

        fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0)
                return -errno;
        w.dev = st.st_dev;
        w.nlink_is_exact = fs.f_type == CGROUP2_SUPER_MAGIC;

        r = callback(st.st_ino, "/", userdata);
        if (r != 0)
                return r;

        return walk_children(&w, take_fd(&fd), 0);
}

static bool leads_out(const char *path) {
        for (const char *p = path; *p;) {
                size_t n;

                p += strspn(p, "/");
                n = strcspn(p, "/");
                if (n == 2 && p[0] == '.' && p[1] == '.')
                        return true;
                p += n;
        }

        return *path != '/';
}

int cgroup_invocation_id(const char *root, const char *path, char ret[static INVOCATION_ID_LEN + 1]) {
        char full[PATH_MAX], id[INVOCATION_ID_LEN + 1] = "";
        ssize_t n;
        int k;

        if (leads_out(path))
                return -EINVAL;
        k = snprintf(full, sizeof(full), "%s%s", root, path);
        if (k < 0 || (size_t) k >= sizeof(full))
                return -EINVAL;

        n = lgetxattr(full, XATTR_INVOCATION_ID, id, INVOCATION_ID_LEN);
        if (n < 0 && errno == ERANGE)
                return -EBADMSG;
        /* A filesystem or kernel without such attributes has none. */
        if (n < 0)
                return errno == EOPNOTSUPP ? -ENODATA : -errno;
        if (n != INVOCATION_ID_LEN || strspn(id, "0123456789abcdefABCDEF") != INVOCATION_ID_LEN)
                return -EBADMSG;
        memcpy(ret, id, sizeof(id));

        return 0;
}

int cgroup_path_parse(FILE *f, char **ret_path) {
        _cleanup_free_ char *line = NULL;
        size_t size = 0;

        for (;;) {
                const char *p, *dead;
                char *s;

                errno = 0;
                if (getline(&line, &size, f) < 0)
                        /* A process that ends after the file was opened. */
                        return errno == ESRCH ? -ESRCH : errno == ENOMEM ? -ENOMEM : -ENOENT;

                line[strcspn(line, "\n")] = 0;
                p = startswith(line, "0::");
                if (!p || *p != '/')
                        continue;
                dead = endswith(p, SUFFIX_DEAD);
                s = strndup(p, dead ? (size_t) (dead - p) : strlen(p));
                if (!s)
                        return -ENOMEM;
                *ret_path = s;

                return 0;
        }
}

int cgroup_of_pid(uint32_t pid, char **ret_path) {
        _cleanup_fclose_ FILE *f = NULL;
        char path[STRLEN("/proc/4294967295/cgroup") + 1];

        snprintf(path, sizeof(path), "/proc/%" PRIu32 "/cgroup", pid);
        f = fopen(path, "re");
        if (!f)
                return errno == ENOENT ? -ESRCH : -errno;

        return cgroup_path_parse(f, ret_path);
}
