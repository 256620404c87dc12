/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Does exactly as many storage operations of one kind as it is told and says how long they took, as seen by the
 * caller: what the tests compare iolat with. */

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

enum {
        EXIT_NOT_AVAILABLE = 77, /* the kernel or the build lacks the engine */
        ALIGNMENT = 4096,
};

static pthread_barrier_t start_line;

uint64_t now_nsec(void) {
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

uint64_t next_offset(Worker *w, size_t size) {
        uint64_t at = w->position;

        if (!w->options->append && at + size > w->file_size)
                at = 0;
        w->position = at + size;
        return at;
}

static int complain(const char *what, const char *path, int error) {
        fprintf(stderr, "iolat-workload: %s %s: %s\n", what, path, strerror(-error));
        return error;
}

int record(Worker *w, uint64_t start, uint64_t end, int64_t result) {
        const Options *o = w->options;

        w->samples[w->n_samples++] = end - start;
        if (result >= 0)
                return 0;
        w->errors++;
        return o->ignore_errors ? 0 : complain(kind_to_string(o->kind), o->path, (int) result);
}

static int fill(const char *path, size_t size) {
        char block[65536];
        int fd, r = 0;

        memset(block, 'p', sizeof(block));
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0)
                return complain("cannot create", path, -errno);
        for (size_t done = 0; done < size;) {
                size_t n = size - done < sizeof(block) ? size - done : sizeof(block);
                ssize_t k = write(fd, block, n);

                if (k < 0) {
                        r = complain("cannot fill", path, -errno);
                        break;
                }
                done += (size_t) k;
        }
        if (r == 0 && fsync(fd) < 0)
                r = complain("cannot sync", path, -errno);
        close(fd);
        return r;
}

/* Each thread has a file of its own, but for what concerns a directory or everything. */
static bool kind_is_shared(Kind k) {
        return k == KIND_FSYNC_DIR || k == KIND_SYNC || k == KIND_SYNCFS;
}

static char *worker_path(const Options *o, unsigned index) {
        char *p;

        if (o->threads == 1 && !kind_is_shared(o->kind))
                return strdup(o->path);
        if (asprintf(&p, kind_is_shared(o->kind) ? "%s/iolat-workload.%u" : "%s.%u", o->path, index) < 0)
                return NULL;
        return p;
}

static int open_flags(const Options *o) {
        int flags = O_RDWR | O_CREAT | O_CLOEXEC;

        if (o->kind == KIND_OSYNC)
                flags |= O_SYNC;
        if (o->kind == KIND_ODSYNC)
                flags |= O_DSYNC;
        if (o->direct || o->kind == KIND_DREAD || o->kind == KIND_DWRITE)
                flags |= O_DIRECT;
        return flags;
}

static int worker_open(Worker *w) {
        const Options *o = w->options;
        size_t size = o->block > o->write ? o->block : o->write;
        char *path;
        struct stat st;
        int r = 0;

        path = worker_path(o, w->index);
        w->samples = calloc(o->count ?: 1, sizeof(*w->samples));
        if (!path || !w->samples || posix_memalign((void **) &w->buffer, ALIGNMENT, size) != 0) {
                free(path);
                return complain("cannot prepare", o->path, -ENOMEM);
        }
        memset(w->buffer, 'w', size);

        if (kind_is_shared(o->kind)) {
                w->fd = open(o->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
                if (w->fd < 0)
                        r = complain("cannot open directory", o->path, -errno);
                if (r == 0 && o->write > 0) {
                        w->write_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
                        if (w->write_fd < 0)
                                r = complain("cannot open", path, -errno);
                }
        } else {
                w->fd = w->write_fd = open(path, open_flags(o), 0644);
                if (w->fd < 0)
                        r = complain("cannot open", path, -errno);
                else if (fstat(w->fd, &st) < 0)
                        r = complain("cannot stat", path, -errno);
                else {
                        w->file_size = (uint64_t) st.st_size;
                        if (o->append)
                                w->position = w->file_size;
                }
        }
        if (r == 0 && o->kind == KIND_MSYNC) {
                if (w->file_size < o->block && ftruncate(w->fd, (off_t) o->block) < 0)
                        r = complain("cannot extend", path, -errno);
                w->map = mmap(NULL, o->block, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);
                if (r == 0 && w->map == MAP_FAILED)
                        r = complain("cannot map", path, -errno);
        }
        free(path);
        return r;
}

/* What makes the next operation have something to do. */
static int dirty(Worker *w) {
        const Options *o = w->options;
        char path[4096];
        ssize_t n;
        int fd;

        if (o->write == 0)
                return 0;
        if (o->kind == KIND_MSYNC) {
                memset(w->map, (int) w->n_samples, o->block);
                return 0;
        }
        if (o->kind == KIND_FSYNC_DIR) {
                snprintf(path, sizeof(path), "%s/entry.%u.%u", o->path, w->index, w->n_samples);
                fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
                if (fd < 0)
                        return complain("cannot create", path, -errno);
                close(fd);
                return 0;
        }
        n = pwrite(w->write_fd, w->buffer, o->write, (off_t) next_offset(w, o->write));
        if (n != (ssize_t) o->write)
                return complain("cannot write", o->path, n < 0 ? -errno : -EIO);
        return 0;
}

static void pace(const Options *o, uint64_t start, unsigned done) {
        uint64_t due;
        struct timespec t;

        if (o->rate == 0)
                return;
        due = start + (uint64_t) done * 1000000000 / o->rate;
        t = (struct timespec) { (time_t) (due / 1000000000), (long) (due % 1000000000) };
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
                ;
}

static void *worker_run(void *userdata) {
        Worker *w = userdata;
        const Options *o = w->options;
        uint64_t start;
        int r;

        r = engine_open(w);
        if (r < 0)
                complain("cannot start engine", engine_to_string(o->engine), r);
        pthread_barrier_wait(&start_line);

        start = now_nsec();
        for (unsigned done = 0; r >= 0 && done < o->count; done += (unsigned) r) {
                unsigned n = o->engine == ENGINE_SYNC ? 1 : o->depth;

                pace(o, start, done);
                r = dirty(w);
                if (r >= 0)
                        r = engine_step(w, n < o->count - done ? n : o->count - done);
        }
        engine_close(w);
        return (void *) (intptr_t) r;
}

static int compare(const void *a, const void *b) {
        uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return (x > y) - (x < y);
}

static uint64_t percentile(const uint64_t *sorted, unsigned n, unsigned percent) {
        unsigned rank = (unsigned) (((uint64_t) n * percent + 99) / 100);

        return n == 0 ? 0 : sorted[rank > 0 ? rank - 1 : 0];
}

static int report(const Options *o, const Worker *workers, uint64_t start, uint64_t end) {
        uint64_t *all, sum = 0;
        unsigned n = 0, errors = 0;

        for (unsigned i = 0; i < o->threads; i++)
                n += workers[i].n_samples;
        all = calloc(n ?: 1, sizeof(*all));
        if (!all)
                return complain("cannot report on", o->path, -ENOMEM);
        n = 0;
        for (unsigned i = 0; i < o->threads; i++) {
                memcpy(all + n, workers[i].samples, workers[i].n_samples * sizeof(*all));
                n += workers[i].n_samples;
                errors += workers[i].errors;
        }
        for (unsigned i = 0; i < n; i++)
                sum += all[i];
        qsort(all, n, sizeof(*all), compare);
        printf("{\"op\":\"%s\",\"engine\":\"%s\",\"threads\":%u,\"count\":%u,\"errors\":%u,\"minNSec\":%" PRIu64
               ",\"p50NSec\":%" PRIu64 ",\"p99NSec\":%" PRIu64 ",\"maxNSec\":%" PRIu64 ",\"sumNSec\":%" PRIu64
               ",\"startMonotonicNSec\":%" PRIu64 ",\"endMonotonicNSec\":%" PRIu64 "}\n",
               kind_to_string(o->kind), engine_to_string(o->engine), o->threads, n, errors, n > 0 ? all[0] : 0,
               percentile(all, n, 50), percentile(all, n, 99), n > 0 ? all[n - 1] : 0, sum, start, end);
        free(all);
        return fflush(stdout) == 0 ? 0 : complain("cannot write to", "stdout", -errno);
}

static int join_cgroup(const char *dir) {
        char path[4096];
        int fd, r = 0;

        snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return complain("cannot open", path, -errno);
        if (write(fd, "0", 1) < 0)
                r = complain("cannot move to", dir, -errno);
        close(fd);
        return r;
}

static int run(const Options *o) {
        Worker *workers;
        pthread_t *threads;
        uint64_t start;
        int r = 0;

        workers = calloc(o->threads, sizeof(*workers));
        threads = calloc(o->threads, sizeof(*threads));
        if (!workers || !threads)
                return complain("cannot start on", o->path, -ENOMEM);

        for (unsigned i = 0; o->prepare > 0 && i < o->threads; i++) {
                char *path = worker_path(o, i);

                r = path ? fill(path, o->prepare) : -ENOMEM;
                free(path);
                if (r < 0)
                        return r;
        }
        if (o->cgroup) {
                r = join_cgroup(o->cgroup);
                if (r < 0)
                        return r;
        }
        for (unsigned i = 0; i < o->threads; i++) {
                workers[i] = (Worker) { .options = o, .index = i, .fd = -1, .write_fd = -1 };
                r = worker_open(&workers[i]);
                if (r < 0)
                        return r;
        }
        if (o->barrier) {
                if (printf("ready\n") < 0 || fflush(stdout) != 0)
                        return complain("cannot write to", "stdout", -errno);
                for (char c = 0; c != '\n';)
                        if (read(STDIN_FILENO, &c, 1) != 1)
                                return complain("no line on", "stdin", -EPIPE);
        }

        pthread_barrier_init(&start_line, NULL, o->threads);
        start = now_nsec();
        for (unsigned i = 0; i < o->threads; i++) {
                r = -pthread_create(&threads[i], NULL, worker_run, &workers[i]);
                if (r < 0)
                        return complain("cannot start thread on", o->path, r);
        }
        for (unsigned i = 0; i < o->threads; i++) {
                void *result;

                pthread_join(threads[i], &result);
                if ((intptr_t) result < 0)
                        r = (int) (intptr_t) result;
        }
        if (r >= 0)
                r = report(o, workers, start, now_nsec());

        for (unsigned i = 0; i < o->threads; i++) {
                free(workers[i].buffer);
                free(workers[i].samples);
        }
        free(workers);
        free(threads);
        return r;
}

int main(int argc, char **argv) {
        Options o = {};
        int r;

        r = parse_options(argc, argv, &o);
        if (r < 0)
                return EXIT_FAILURE;
        r = run(&o);
        if (r == -ENOSYS || r == -EOPNOTSUPP)
                return EXIT_NOT_AVAILABLE;
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
