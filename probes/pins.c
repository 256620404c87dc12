/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <ctype.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include "pins.h"

/* Not ".new": bpffs refuses names with dots (kernel/bpf/inode.c:bpf_lookup()). */
#define UNFINISHED "-new"

/* Links first: from then on nothing of the generation runs. */
static const char *const pin_kinds[] = { "links", "progs", "maps" };

enum { LOCK_POLL_MS = 50 };

int pins_open(const char *bpffs, bool create, int *ret_fd) {
        _cleanup_close_ int dir = -EBADF, fd = -EBADF;
        struct statfs fs;

        dir = open(bpffs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0)
                return errno == ENOENT || errno == ENOTDIR ? -EMEDIUMTYPE : -errno;
        if (fstatfs(dir, &fs) < 0)
                return -errno;
        if (fs.f_type != BPF_FS_MAGIC)
                return -EMEDIUMTYPE;

        if (create && mkdirat(dir, "iolat", 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = openat(dir, "iolat", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;
        *ret_fd = take_fd(&fd);

        return 0;
}

int pins_lock(int root_fd, unsigned timeout_ms, int *ret_fd) {
        _cleanup_close_ int fd = -EBADF;

        /* An open file description of its own, so that closing it releases the lock. */
        fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        for (unsigned waited = 0;; waited += LOCK_POLL_MS) {
                if (flock(fd, LOCK_EX | LOCK_NB) >= 0)
                        break;
                if (errno != EWOULDBLOCK)
                        return -errno;
                if (waited >= timeout_ms)
                        return -EBUSY;
                nanosleep(&(struct timespec){ .tv_nsec = LOCK_POLL_MS * NSEC_PER_MSEC }, NULL);
        }
        *ret_fd = take_fd(&fd);

        return 0;
}

/* 0 if the name is none of a generation. */
static unsigned parse_generation(const char *name, bool *ret_unfinished) {
        unsigned long n;
        char *end;

        if (!isdigit((unsigned char) name[0]) || name[0] == '0')
                return 0;
        errno = 0;
        n = strtoul(name, &end, 10);
        if (errno != 0 || n > INT32_MAX)
                return 0;
        *ret_unfinished = streq(end, UNFINISHED);

        return *end == 0 || *ret_unfinished ? n : 0;
}

static int open_list(int dir_fd, const char *name, DIR **ret) {
        _cleanup_close_ int fd = -EBADF;

        fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;
        *ret = fdopendir(fd);
        if (!*ret)
                return -errno;
        fd = -EBADF; /* the stream owns it now */

        return 0;
}

int pins_current(int root_fd, unsigned *ret_generation) {
        _cleanup_closedir_ DIR *d = NULL;
        unsigned best = 0;
        struct dirent *de;
        int r;

        r = open_list(root_fd, ".", &d);
        if (r < 0)
                return r;
        while ((de = readdir(d))) {
                bool unfinished;
                unsigned n = parse_generation(de->d_name, &unfinished);

                if (n > best && !unfinished)
                        best = n;
        }
        *ret_generation = best;

        return 0;
}

static int remove_kind(int generation_fd, const char *kind) {
        _cleanup_closedir_ DIR *d = NULL;
        struct dirent *de;
        int r;

        r = open_list(generation_fd, kind, &d);
        if (r == -ENOENT)
                return 0;
        if (r < 0)
                return r;
        while ((de = readdir(d))) {
                if (streq(de->d_name, ".") || streq(de->d_name, ".."))
                        continue;
                if (unlinkat(dirfd(d), de->d_name, 0) < 0 && errno != ENOENT)
                        return -errno;
        }

        return unlinkat(generation_fd, kind, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

static int remove_generation(int root_fd, const char *name) {
        _cleanup_close_ int fd = -EBADF;
        int r;

        fd = openat(root_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(pin_kinds); i++) {
                r = remove_kind(fd, pin_kinds[i]);
                if (r < 0)
                        return r;
        }

        return unlinkat(root_fd, name, AT_REMOVEDIR) < 0 && errno != ENOENT ? -errno : 0;
}

int pins_clean(int root_fd, unsigned keep) {
        _cleanup_closedir_ DIR *d = NULL;
        struct dirent *de;
        int r;

        r = open_list(root_fd, ".", &d);
        if (r < 0)
                return r;
        while ((de = readdir(d))) {
                bool unfinished;
                unsigned n = parse_generation(de->d_name, &unfinished);

                if (n == 0 || (n == keep && !unfinished))
                        continue;
                r = remove_generation(root_fd, de->d_name);
                if (r < 0)
                        return r;
                rewinddir(d); /* bpffs gives no promise about a directory that changes while it is read */
        }

        return 0;
}

int pins_begin(int root_fd, unsigned generation) {
        char name[64];

        snprintf(name, sizeof(name), "%u" UNFINISHED, generation);
        if (mkdirat(root_fd, name, 0700) < 0)
                return -errno;
        for (size_t i = 0; i < ELEMENTSOF(pin_kinds); i++) {
                snprintf(name, sizeof(name), "%u" UNFINISHED "/%s", generation, pin_kinds[i]);
                if (mkdirat(root_fd, name, 0700) < 0)
                        return -errno;
        }

        return 0;
}

int pins_finish(int root_fd, unsigned generation) {
        char from[32], to[32];

        snprintf(from, sizeof(from), "%u" UNFINISHED, generation);
        snprintf(to, sizeof(to), "%u", generation);

        return renameat(root_fd, from, root_fd, to) < 0 ? -errno : 0;
}

int pins_path(char ret[PIN_PATH_MAX], const char *bpffs, unsigned generation, bool unfinished, const char *kind,
              const char *name) {
        int n = snprintf(ret, PIN_PATH_MAX, "%s/iolat/%u%s/%s/%s", bpffs, generation, unfinished ? UNFINISHED : "",
                         kind, name);

        return n >= PIN_PATH_MAX ? -ENAMETOOLONG : 0;
}
