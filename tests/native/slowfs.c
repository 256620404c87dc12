/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A file system that passes everything through to a directory, but takes as long as it is told, or fails: a backing
 * store for loop devices whose delay the tests know. The control file is read at each operation and holds words like
 *     read=0 write=200 fsync=200 error=0
 * where the first three are milliseconds and error is the errno with which writes and fsyncs fail. */

#define FUSE_USE_VERSION 31

#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int backing_fd = -1;
static int control_fd = -1;

static unsigned control(const char *word) {
        char text[256];
        const char *p;
        ssize_t n;

        n = pread(control_fd, text, sizeof(text) - 1, 0);
        if (n <= 0)
                return 0;
        text[n] = 0;
        p = strstr(text, word);
        return p ? (unsigned) strtoul(p + strlen(word), NULL, 10) : 0;
}

static void delay(const char *word) {
        unsigned ms = control(word);
        struct timespec t = { ms / 1000, (long) (ms % 1000) * 1000000 };

        while (ms > 0 && nanosleep(&t, &t) < 0 && errno == EINTR)
                ;
}

/* Paths of the kernel begin with a slash. */
static const char *relative(const char *path) {
        return path[1] ? path + 1 : ".";
}

static int slow_getattr(const char *path, struct stat *st, struct fuse_file_info *fi) {
        int r;

        r = fi ? fstat((int) fi->fh, st) : fstatat(backing_fd, relative(path), st, AT_SYMLINK_NOFOLLOW);
        return r < 0 ? -errno : 0;
}

static int slow_readdir(const char *path, void *buffer, fuse_fill_dir_t filler, off_t offset,
                        struct fuse_file_info *fi, enum fuse_readdir_flags flags) {
        filler(buffer, ".", NULL, 0, 0);
        filler(buffer, "..", NULL, 0, 0);
        return 0;
}

static int slow_open(const char *path, struct fuse_file_info *fi) {
        int fd;

        fd = openat(backing_fd, relative(path), (fi->flags & O_ACCMODE) | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        fi->fh = (uint64_t) fd;
        return 0;
}

static int slow_release(const char *path, struct fuse_file_info *fi) {
        close((int) fi->fh);
        return 0;
}

static int slow_read(const char *path, char *buffer, size_t size, off_t offset, struct fuse_file_info *fi) {
        ssize_t n;

        delay("read=");
        n = pread((int) fi->fh, buffer, size, offset);
        return n < 0 ? -errno : (int) n;
}

static int slow_write(const char *path, const char *buffer, size_t size, off_t offset, struct fuse_file_info *fi) {
        unsigned error = control("error=");
        ssize_t n;

        delay("write=");
        if (error > 0)
                return -(int) error;
        n = pwrite((int) fi->fh, buffer, size, offset);
        return n < 0 ? -errno : (int) n;
}

static int slow_fsync(const char *path, int datasync, struct fuse_file_info *fi) {
        unsigned error = control("error=");

        delay("fsync=");
        if (error > 0)
                return -(int) error;
        return fsync((int) fi->fh) < 0 ? -errno : 0;
}

static int slow_fallocate(const char *path, int mode, off_t offset, off_t length, struct fuse_file_info *fi) {
        return fallocate((int) fi->fh, mode, offset, length) < 0 ? -errno : 0;
}

static const struct fuse_operations operations = {
        .getattr = slow_getattr,
        .readdir = slow_readdir,
        .open = slow_open,
        .release = slow_release,
        .read = slow_read,
        .write = slow_write,
        .fsync = slow_fsync,
        .fallocate = slow_fallocate,
};

int main(int argc, char **argv) {
        char *fuse_argv[] = { argv[0], (char *) "-f", (char *) "-ofsname=iolat-slowfs,subtype=slowfs", NULL, NULL };

        if (argc != 4) {
                fprintf(stderr, "usage: %s BACKING-DIRECTORY CONTROL-FILE MOUNT-POINT\n", argv[0]);
                return EXIT_FAILURE;
        }
        backing_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (backing_fd < 0) {
                fprintf(stderr, "iolat-slowfs: cannot open %s: %s\n", argv[1], strerror(errno));
                return EXIT_FAILURE;
        }
        control_fd = open(argv[2], O_RDONLY | O_CLOEXEC);
        if (control_fd < 0) {
                fprintf(stderr, "iolat-slowfs: cannot open %s: %s\n", argv[2], strerror(errno));
                return EXIT_FAILURE;
        }

        fuse_argv[3] = argv[3];
        return fuse_main(4, fuse_argv, &operations, NULL);
}
