/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Plays the part of a system manager with many services: makes cgroups, has a process in each of them do some storage
 * operations, removes them. What is done is counted, to be compared with what iolat has seen.
 *
 *     iolat-bench-units PARENT BASE FILE
 *
 * works on cgroups PARENT/BASE-N.service and syncs and reads FILE. Lines on its input, each answered by one of JSON:
 *
 *     make N          there are N of them from now on (N is more than before)
 *     touch N RATE    N operations, in one cgroup after the other, so many a second (0: as fast as possible)
 *     live N OPS RATE N services that live for OPS operations, so many services a second (0: as fast as possible)
 *     remove          all that have been made */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_SEC 1000000000ULL

enum {
        BLOCK = 4096,
        AREA = 1 << 20,
        REMOVE_TRIES = 1000, /* of a millisecond: a process that has ended may still be in there */
};

typedef struct Units {
        int parent_fd;
        const char *base;
        int sync_fd, direct_fd;
        char *buffer;
        unsigned n;       /* cgroups that exist */
        unsigned touched; /* the next one */
        unsigned lived;   /* number of the next one that is born to die */
        unsigned n_ops;
} Units;

static uint64_t now_ns(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * NSEC_PER_SEC + (uint64_t) t.tv_nsec;
}

/* For as long as the caller is ahead of its rate. */
static void pace(uint64_t start, uint64_t done, uint64_t rate) {
        uint64_t due;
        struct timespec t;

        if (rate == 0)
                return;
        due = start + done * NSEC_PER_SEC / rate;
        t = (struct timespec) { (time_t) (due / NSEC_PER_SEC), (long) (due % NSEC_PER_SEC) };
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
                ;
}

/* Syncs and direct reads in turn, from an even number on. */
static int operate(Units *u, unsigned number) {
        off_t at = (off_t) (number / 2 % (AREA / BLOCK)) * BLOCK;

        if (number % 2 == 1)
                return pread(u->direct_fd, u->buffer, BLOCK, at) == BLOCK ? 0 : -EIO;
        if (pwrite(u->sync_fd, u->buffer, BLOCK, at) != BLOCK)
                return -EIO;

        return fdatasync(u->sync_fd) < 0 ? -errno : 0;
}

/* Has a process that is born in that cgroup do the operations and end. */
static int operate_in(Units *u, const char *name, unsigned first, unsigned n) {
        struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
        int fd, status, r = 0;
        pid_t pid;

        fd = openat(u->parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        args.cgroup = (uint64_t) fd;
        pid = (pid_t) syscall(SYS_clone3, &args, sizeof(args));
        if (pid < 0)
                r = -errno;
        close(fd);
        if (r < 0)
                return r;
        if (pid == 0) {
                for (unsigned i = 0; i < n && r >= 0; i++)
                        r = operate(u, first + i);
                _exit(r < 0);
        }
        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;

        return status == 0 ? 0 : -EIO;
}

static void unit_name(const Units *u, const char *kind, unsigned number, char ret[NAME_MAX + 1]) {
        snprintf(ret, NAME_MAX + 1, "%s-%s%u.service", u->base, kind, number);
}

static int remove_unit(Units *u, const char *name) {
        for (unsigned i = 0; unlinkat(u->parent_fd, name, AT_REMOVEDIR) < 0; i++) {
                if (errno != EBUSY || i == REMOVE_TRIES)
                        return errno == ENOENT ? 0 : -errno;
                usleep(1000);
        }

        return 0;
}

static int make(Units *u, unsigned n) {
        char name[NAME_MAX + 1];

        for (; u->n < n; u->n++) {
                unit_name(u, "", u->n, name);
                if (mkdirat(u->parent_fd, name, 0755) < 0)
                        return -errno;
        }

        return 0;
}

static int touch(Units *u, unsigned n, unsigned rate) {
        char name[NAME_MAX + 1];
        uint64_t start = now_ns();
        int r;

        if (u->n == 0)
                return -ENOENT;
        for (unsigned i = 0; i < n; i++) {
                pace(start, i, rate);
                unit_name(u, "", u->touched % u->n, name);
                r = operate_in(u, name, u->touched / u->n, 1); /* each has its turn of either kind */
                if (r < 0)
                        return r;
                u->touched++;
                u->n_ops++;
        }

        return 0;
}

static int live(Units *u, unsigned n, unsigned n_ops, unsigned rate) {
        char name[NAME_MAX + 1];
        uint64_t start = now_ns();
        int r;

        for (unsigned i = 0; i < n; i++) {
                pace(start, i, rate);
                unit_name(u, "short", u->lived++, name);
                if (mkdirat(u->parent_fd, name, 0755) < 0)
                        return -errno;
                r = operate_in(u, name, 0, n_ops);
                if (r < 0) {
                        (void) remove_unit(u, name);
                        return r;
                }
                u->n_ops += n_ops;
                r = remove_unit(u, name);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int remove_all(Units *u) {
        char name[NAME_MAX + 1];
        int r;

        for (; u->n > 0; u->n--) {
                unit_name(u, "", u->n - 1, name);
                r = remove_unit(u, name);
                if (r < 0)
                        return r;
        }
        u->touched = 0;

        return 0;
}

static int serve(Units *u) {
        char line[128];

        while (fgets(line, sizeof(line), stdin)) {
                unsigned a, b, c, before = u->n_ops;
                uint64_t start = now_ns();
                int r;

                if (sscanf(line, "make %u", &a) == 1)
                        r = make(u, a);
                else if (sscanf(line, "touch %u %u", &a, &b) == 2)
                        r = touch(u, a, b);
                else if (sscanf(line, "live %u %u %u", &a, &b, &c) == 3)
                        r = live(u, a, b, c);
                else if (strcmp(line, "remove\n") == 0)
                        r = remove_all(u);
                else
                        r = -EINVAL;
                if (r < 0)
                        return r;
                printf("{\"units\":%u,\"lived\":%u,\"operations\":%u,\"nsec\":%" PRIu64 "}\n", u->n, u->lived,
                       u->n_ops - before, now_ns() - start);
                if (fflush(stdout) != 0)
                        return -EIO;
        }

        return 0;
}

static int units_open(Units *u, char **argv) {
        u->parent_fd = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        u->base = argv[2];
        u->sync_fd = open(argv[3], O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        u->direct_fd = open(argv[3], O_RDONLY | O_DIRECT | O_CLOEXEC);
        if (u->parent_fd < 0 || u->sync_fd < 0 || u->direct_fd < 0)
                return -errno;
        if (posix_memalign((void **) &u->buffer, BLOCK, BLOCK) != 0)
                return -ENOMEM;
        memset(u->buffer, 'u', BLOCK);
        for (off_t at = 0; at < AREA; at += BLOCK)
                if (pwrite(u->sync_fd, u->buffer, BLOCK, at) != BLOCK)
                        return -EIO;

        return fsync(u->sync_fd) < 0 ? -errno : 0;
}

int main(int argc, char **argv) {
        Units u = {};
        int r, q;

        r = argc == 4 ? units_open(&u, argv) : -EINVAL;
        if (r >= 0)
                r = printf("ready\n") < 0 || fflush(stdout) != 0 ? -EIO : serve(&u);
        q = remove_all(&u);
        if (r >= 0)
                r = q;
        if (r < 0)
                fprintf(stderr, "iolat-bench-units: %s\n", strerror(-r));

        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
