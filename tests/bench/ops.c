/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Does operations of one kind after the other for some time, as it is told on its input, and says how long one took:
 * the benchmark's workload, one process for all of a run, so that files, caches and addresses stay the same.
 *
 *     iolat-bench-ops [--cpu=N] DIRECTORY DEVICE
 *
 * A line "KIND MSEC" or "KIND MSEC COUNT" (whichever is reached first) is answered by one of JSON. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_SEC 1000000000ULL

enum {
        BLOCK = 4096,
        AREA = 4 << 20,        /* of files that are overwritten or read */
        APPEND_MAX = 64 << 20, /* then an appended file begins anew */
        SAMPLES_MAX = 1 << 20,
};

typedef struct Bench {
        int append_fd, clean_fd, over_fd, direct_fd, warm_fd, device_fd;
        uint64_t append_at, grow_at;
        unsigned n; /* operations so far */
        char *buffer;
        uint64_t *samples;
} Bench;

static off_t next_offset(Bench *b) {
        return (off_t) (b->n++ % (AREA / BLOCK)) * BLOCK;
}

static int whole(ssize_t n) {
        return n == BLOCK ? 0 : n < 0 ? -errno : -EIO;
}

static int append(Bench *b, int fd, uint64_t *at) {
        int r = whole(pwrite(fd, b->buffer, BLOCK, (off_t) *at));

        *at += BLOCK;
        return r;
}

static int append_fsync(Bench *b) {
        int r = append(b, b->append_fd, &b->append_at);

        return r < 0 ? r : fsync(b->append_fd) < 0 ? -errno : 0;
}

static int clean_fsync(Bench *b) {
        return fsync(b->clean_fd) < 0 ? -errno : 0;
}

static int overwrite_fdatasync(Bench *b) {
        int r = whole(pwrite(b->over_fd, b->buffer, BLOCK, next_offset(b)));

        return r < 0 ? r : fdatasync(b->over_fd) < 0 ? -errno : 0;
}

static int direct_read(Bench *b) {
        return whole(pread(b->direct_fd, b->buffer, BLOCK, next_offset(b)));
}

static int direct_write(Bench *b) {
        return whole(pwrite(b->direct_fd, b->buffer, BLOCK, next_offset(b)));
}

static int device_read(Bench *b) {
        return whole(pread(b->device_fd, b->buffer, BLOCK, next_offset(b)));
}

static int overwrite(Bench *b) {
        return whole(pwrite(b->warm_fd, b->buffer, BLOCK, next_offset(b)));
}

static int grow(Bench *b) {
        if (b->grow_at >= APPEND_MAX)
                b->grow_at = AREA;
        return append(b, b->warm_fd, &b->grow_at);
}

static int getpid_call(Bench *b) {
        return syscall(SYS_getpid) > 0 ? 0 : -EIO;
}

static const struct {
        const char *name;
        int (*call)(Bench *b);
        unsigned batch; /* calls between two looks at the clock */
} kinds[] = {
        { "append+fsync", append_fsync, 1 },
        { "clean-fsync", clean_fsync, 1 },
        { "overwrite+fdatasync", overwrite_fdatasync, 1 },
        { "dread", direct_read, 1 },
        { "dwrite", direct_write, 1 },
        { "device-read", device_read, 1 },
        { "write", overwrite, 16 },
        { "append", grow, 16 },
        { "getpid", getpid_call, 256 },
};

static uint64_t now_ns(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * NSEC_PER_SEC + (uint64_t) t.tv_nsec;
}

static int compare(const void *a, const void *b) {
        const uint64_t *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

/* What an earlier call has left to be done is not this one's. */
static int settle(Bench *b) {
        if (b->append_at >= APPEND_MAX) {
                if (ftruncate(b->append_fd, 0) < 0)
                        return -errno;
                b->append_at = 0;
        }
        if (ftruncate(b->warm_fd, AREA) < 0)
                return -errno;
        b->grow_at = AREA;

        return syncfs(b->append_fd) < 0 ? -errno : 0;
}

static int measure(Bench *b, size_t kind, uint64_t msec, uint64_t count) {
        unsigned batch = kinds[kind].batch;
        uint64_t start, before, now, n = 0;
        size_t n_samples = 0;
        int r;

        r = settle(b);
        if (r < 0)
                return r;
        start = before = now_ns();
        do {
                for (unsigned i = 0; i < batch; i++) {
                        r = kinds[kind].call(b);
                        if (r < 0)
                                return r;
                }
                n += batch;
                now = now_ns();
                b->samples[n_samples++] = now - before;
                before = now;
        } while (now - start < msec * NSEC_PER_MSEC && n < count && n_samples < SAMPLES_MAX &&
                 b->append_at < 2 * APPEND_MAX);

        qsort(b->samples, n_samples, sizeof(*b->samples), compare);
        printf("{\"op\":\"%s\",\"count\":%" PRIu64 ",\"meanNSec\":%.2f,\"p10NSec\":%.2f,\"p50NSec\":%.2f}\n",
               kinds[kind].name, n, (double) (now - start) / (double) n,
               (double) b->samples[n_samples / 10] / batch, (double) b->samples[n_samples / 2] / batch);

        return fflush(stdout) == 0 ? 0 : -errno;
}

static int fill(int fd) {
        char block[BLOCK];

        memset(block, 'b', sizeof(block));
        for (off_t at = 0; at < AREA; at += BLOCK)
                if (pwrite(fd, block, BLOCK, at) != BLOCK)
                        return -EIO;

        return fsync(fd) < 0 ? -errno : 0;
}

static int open_file(int directory, const char *name, int flags, bool filled) {
        int fd, r;

        fd = openat(directory, name, O_RDWR | O_CREAT | O_CLOEXEC | flags, 0644);
        if (fd < 0)
                return -errno;
        if (filled) {
                int plain = openat(directory, name, O_RDWR | O_CLOEXEC);

                r = plain < 0 ? -errno : fill(plain);
                if (plain >= 0)
                        close(plain);
                if (r < 0) {
                        close(fd);
                        return r;
                }
        }

        return fd;
}

static int bench_open(Bench *b, const char *path, const char *device) {
        const struct {
                const char *name;
                int flags;
                bool filled;
                int *fd;
        } files[] = {
                { "append", 0, false, &b->append_fd }, { "clean", 0, true, &b->clean_fd },
                { "over", 0, true, &b->over_fd },      { "direct", O_DIRECT, true, &b->direct_fd },
                { "warm", 0, true, &b->warm_fd },
        };
        int directory;

        directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory < 0)
                return -errno;
        for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
                *files[i].fd = open_file(directory, files[i].name, files[i].flags, files[i].filled);
                if (*files[i].fd < 0)
                        return *files[i].fd;
        }
        close(directory);
        b->device_fd = open(device, O_RDONLY | O_DIRECT | O_CLOEXEC);
        if (b->device_fd < 0)
                return -errno;
        b->samples = calloc(SAMPLES_MAX, sizeof(*b->samples));
        if (!b->samples || posix_memalign((void **) &b->buffer, BLOCK, BLOCK) != 0)
                return -ENOMEM;
        memset(b->buffer, 'b', BLOCK);
        memset(b->samples, 0xff, SAMPLES_MAX * sizeof(*b->samples)); /* no page fault while measuring */

        return 0;
}

static int serve(Bench *b) {
        char line[128], name[64];
        uint64_t msec, count;
        int r;

        while (fgets(line, sizeof(line), stdin)) {
                size_t kind = 0;

                count = UINT64_MAX;
                if (sscanf(line, "%63s %" SCNu64 " %" SCNu64, name, &msec, &count) < 2)
                        return -EINVAL;
                while (kind < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[kind].name, name) != 0)
                        kind++;
                if (kind == sizeof(kinds) / sizeof(kinds[0]))
                        return -EOPNOTSUPP;
                r = measure(b, kind, msec, count);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int bind_to_cpu(const char *text) {
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET((size_t) atoi(text), &set);
        return sched_setaffinity(0, sizeof(set), &set) < 0 ? -errno : 0;
}

int main(int argc, char **argv) {
        static const struct option options[] = { { "cpu", required_argument, NULL, 'c' }, {} };
        Bench b = {};
        int c, r = 0;

        while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
                r = c == 'c' ? bind_to_cpu(optarg) : -EINVAL;
                if (r < 0)
                        break;
        }
        if (r >= 0 && optind + 2 != argc)
                r = -EINVAL;
        if (r >= 0)
                r = bench_open(&b, argv[optind], argv[optind + 1]);
        if (r >= 0)
                r = printf("ready\n") < 0 || fflush(stdout) != 0 ? -EIO : serve(&b);
        if (r < 0)
                fprintf(stderr, "iolat-bench-ops: %s\n", strerror(-r));

        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
