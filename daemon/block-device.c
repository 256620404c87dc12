/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "block-device.h"

enum {
        MINOR_BITS = 20,
        MINOR_MASK = (1 << MINOR_BITS) - 1,
        MAJOR_MAX = (1 << 12) - 1,
        DEVICES_LOOKED_AT_MAX = 4096, /* by name */
        DEVICE_NAME_MAX = 64,
};

static int parse_device(const char *s, uint32_t *ret) {
        unsigned major, minor;
        int n = 0;

        if (sscanf(s, "%u:%u%n", &major, &minor, &n) != 2 || (s[n] && s[n] != '\n') || major > MAJOR_MAX ||
            minor > MINOR_MASK)
                return -EBADMSG;
        *ret = (uint32_t) major << MINOR_BITS | minor;

        return 0;
}

/* Reads a file that contains "MAJOR:MINOR". */
static int read_device(int dir_fd, const char *path, uint32_t *ret) {
        _cleanup_close_ int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC);
        char text[32];
        ssize_t n;

        if (fd < 0)
                return -errno;
        n = read(fd, text, sizeof(text) - 1);
        if (n < 0)
                return -errno;
        text[n] = 0;

        return parse_device(text, ret);
}

static int read_slaves(int dir_fd, BlockDevice *b) {
        _cleanup_closedir_ DIR *d = NULL;
        struct dirent *e;
        int fd;

        fd = openat(dir_fd, "slaves", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT ? 0 : -errno; /* a partition */
        d = fdopendir(fd);
        if (!d) {
                close(fd);
                return -errno;
        }
        while (b->n_slaves < BLOCK_SLAVES_MAX && (e = readdir(d))) {
                char path[NAME_MAX + 8];

                if (e->d_name[0] == '.')
                        continue;
                (void) snprintf(path, sizeof(path), "%s/dev", e->d_name);
                if (read_device(fd, path, &b->slaves[b->n_slaves]) >= 0)
                        b->n_slaves++;
        }

        return 0;
}

static int open_device(const char *sysfs_dev_block, uint32_t dev) {
        char path[PATH_MAX];
        int fd;

        if (snprintf(path, sizeof(path), "%s/%u:%u", sysfs_dev_block, dev >> MINOR_BITS, dev & MINOR_MASK) >=
            (int) sizeof(path))
                return -ENAMETOOLONG;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        return fd < 0 ? -errno : fd;
}

int block_device_read(const char *sysfs_dev_block, uint32_t dev, BlockDevice *ret) {
        _cleanup_close_ int fd = open_device(sysfs_dev_block, dev);
        BlockDevice b = { .disk = dev };
        int r;

        if (fd < 0)
                return fd;
        if (faccessat(fd, "partition", F_OK, 0) >= 0) {
                r = read_device(fd, "../dev", &b.disk);
                if (r < 0)
                        return r;
        }
        r = read_slaves(fd, &b);
        if (r < 0)
                return r;
        *ret = b;

        return 0;
}

/* Kernel names, in which sysfs has '!' for '/'. */
static int find_name(const char *sysfs_dev_block, const char *name, uint32_t *ret) {
        _cleanup_closedir_ DIR *d = opendir(sysfs_dev_block);
        unsigned n = 0;
        struct dirent *e;

        if (!d)
                return -errno;
        while (n++ < DEVICES_LOOKED_AT_MAX && (e = readdir(d))) {
                char target[PATH_MAX], *last;
                ssize_t k;

                k = readlinkat(dirfd(d), e->d_name, target, sizeof(target) - 1);
                if (k < 0)
                        continue;
                target[k] = 0;
                last = strrchr(target, '/');
                if (streq(last ? last + 1 : target, name))
                        return parse_device(e->d_name, ret);
        }

        return -ENOENT;
}

/* Device mapper's own name of a device, which is in /dev/mapper. */
static int find_mapped(const char *sysfs_dev_block, const char *name, uint32_t *ret) {
        _cleanup_closedir_ DIR *d = opendir(sysfs_dev_block);
        unsigned n = 0;
        struct dirent *e;

        if (!d)
                return -errno;
        while (n++ < DEVICES_LOOKED_AT_MAX && (e = readdir(d))) {
                char path[NAME_MAX + 16], text[256];
                _cleanup_close_ int fd = -EBADF;
                ssize_t k;

                (void) snprintf(path, sizeof(path), "%s/dm/name", e->d_name);
                fd = openat(dirfd(d), path, O_RDONLY | O_CLOEXEC);
                k = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
                if (k <= 0)
                        continue;
                text[k] = 0;
                text[strcspn(text, "\n")] = 0;
                if (streq(text, name))
                        return parse_device(e->d_name, ret);
        }

        return -ENOENT;
}

int block_device_find(const char *sysfs_dev_block, const char *path, uint32_t *ret) {
        const char *name = startswith(path, "/dev/"), *mapped;
        char kernel_name[DEVICE_NAME_MAX];

        if (isempty(name))
                return -ENOENT;
        mapped = startswith(name, "mapper/");
        if (mapped)
                return find_mapped(sysfs_dev_block, mapped, ret);
        if (strlen(name) >= sizeof(kernel_name))
                return -ENOENT;
        strcpy(kernel_name, name);
        for (char *p = kernel_name; *p; p++)
                if (*p == '/')
                        *p = '!';

        return find_name(sysfs_dev_block, kernel_name, ret);
}
