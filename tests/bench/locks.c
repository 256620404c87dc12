/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* A program that waits for locks and does no storage I/O: what iolat costs others. Lines "KIND MSEC" on its input, each
 * answered by one of JSON. All threads do the same until the time is over.
 *
 *     iolat-bench-locks THREADS DIRECTORY
 *
 * mutex   one mutex of user space, held for a moment (futex)
 * pipe    writes to and reads from one pipe (a mutex of the kernel)
 * rename  renames a file of its own in one directory (rw_semaphore of the directory, mutex of the file system)
 * mmap    maps and unmaps a page of one address space (rw_semaphore, taken by page faults, too) */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define NSEC_PER_MSEC 1000000ULL
#define NSEC_PER_SEC 1000000000ULL

enum {
        THREADS_MAX = 256,
        BATCH = 16, /* operations between two looks at the clock */
        HELD = 200, /* turns of an empty loop */
        PAGE = 4096,
};

typedef struct Locks {
        const char *directory;
        pthread_mutex_t mutex;
        int pipe_fds[2];
        uint64_t end_ns;
        int (*call)(struct Locks *l, unsigned thread);
        atomic_uint_fast64_t n;
        atomic_int error;
} Locks;

typedef struct Thread {
        pthread_t thread;
        Locks *locks;
        unsigned index;
} Thread;

static uint64_t now_ns(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * NSEC_PER_SEC + (uint64_t) t.tv_nsec;
}

static int lock_mutex(Locks *l, unsigned thread) {
        pthread_mutex_lock(&l->mutex);
        for (volatile int i = 0; i < HELD; i++)
                ;
        pthread_mutex_unlock(&l->mutex);

        return 0;
}

/* One byte in, one out: there is always as much in it as threads are between the two. */
static int use_pipe(Locks *l, unsigned thread) {
        char c = 'p';

        if (write(l->pipe_fds[1], &c, 1) != 1 || read(l->pipe_fds[0], &c, 1) != 1)
                return -errno;

        return 0;
}

static int rename_file(Locks *l, unsigned thread) {
        char a[512], b[512];

        snprintf(a, sizeof(a), "%s/a%u", l->directory, thread);
        snprintf(b, sizeof(b), "%s/b%u", l->directory, thread);
        if (rename(a, b) < 0 || rename(b, a) < 0)
                return -errno;

        return 0;
}

static int map_page(Locks *l, unsigned thread) {
        char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (p == MAP_FAILED)
                return -errno;
        *p = 'm';

        return munmap(p, PAGE) < 0 ? -errno : 0;
}

static const struct {
        const char *name;
        int (*call)(Locks *l, unsigned thread);
} kinds[] = {
        { "mutex", lock_mutex },
        { "pipe", use_pipe },
        { "rename", rename_file },
        { "mmap", map_page },
};

static void *work(void *userdata) {
        Thread *t = userdata;
        Locks *l = t->locks;
        uint64_t n = 0;
        int r = 0;

        while (r >= 0 && now_ns() < l->end_ns)
                for (unsigned i = 0; i < BATCH && r >= 0; i++, n++)
                        r = l->call(l, t->index);
        atomic_fetch_add(&l->n, n);
        if (r < 0)
                atomic_store(&l->error, r);

        return NULL;
}

static uint64_t cpu_ns(void) {
        struct rusage u;

        getrusage(RUSAGE_SELF, &u);
        return (uint64_t) (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * NSEC_PER_SEC +
                (uint64_t) (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

static int measure(Locks *l, Thread *threads, unsigned n_threads, const char *name, uint64_t msec) {
        uint64_t start, took, cpu;
        unsigned started = 0;
        int r = 0;

        l->call = NULL;
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (strcmp(kinds[i].name, name) == 0)
                        l->call = kinds[i].call;
        if (!l->call)
                return -EOPNOTSUPP;
        atomic_store(&l->n, 0);
        cpu = cpu_ns();
        start = now_ns();
        l->end_ns = start + msec * NSEC_PER_MSEC;
        for (; started < n_threads && r >= 0; started += r >= 0) {
                threads[started] = (Thread) { .locks = l, .index = started };
                r = -pthread_create(&threads[started].thread, NULL, work, &threads[started]);
        }
        for (unsigned i = 0; i < started; i++)
                pthread_join(threads[i].thread, NULL);
        took = now_ns() - start;
        if (r >= 0)
                r = atomic_load(&l->error);
        if (r < 0)
                return r;
        printf("{\"kind\":\"%s\",\"count\":%" PRIu64 ",\"nsec\":%" PRIu64 ",\"cpuNSec\":%" PRIu64 "}\n", name,
               (uint64_t) atomic_load(&l->n), took, cpu_ns() - cpu);

        return fflush(stdout) == 0 ? 0 : -EIO;
}

static int make_files(const Locks *l, unsigned n) {
        char path[512];

        for (unsigned i = 0; i < n; i++) {
                int fd;

                snprintf(path, sizeof(path), "%s/a%u", l->directory, i);
                fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
                if (fd < 0)
                        return -errno;
                close(fd);
        }

        return 0;
}

static int serve(Locks *l, unsigned n_threads) {
        static Thread threads[THREADS_MAX];
        char line[128], name[32];
        uint64_t msec;
        int r;

        if (printf("ready\n") < 0 || fflush(stdout) != 0)
                return -EIO;
        while (fgets(line, sizeof(line), stdin)) {
                if (sscanf(line, "%31s %" SCNu64, name, &msec) != 2)
                        return -EINVAL;
                r = measure(l, threads, n_threads, name, msec);
                if (r < 0)
                        return r;
        }

        return 0;
}

int main(int argc, char **argv) {
        Locks l = { .mutex = PTHREAD_MUTEX_INITIALIZER };
        int n = argc == 3 ? atoi(argv[1]) : 0, r;

        if (n < 1 || n > THREADS_MAX) {
                fprintf(stderr, "usage: iolat-bench-locks THREADS DIRECTORY\n");
                return EXIT_FAILURE;
        }
        l.directory = argv[2];
        r = make_files(&l, (unsigned) n);
        if (r >= 0 && pipe2(l.pipe_fds, O_CLOEXEC) < 0)
                r = -errno;
        if (r >= 0)
                r = serve(&l, (unsigned) n);
        if (r < 0)
                fprintf(stderr, "iolat-bench-locks: %s\n", strerror(-r));

        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
