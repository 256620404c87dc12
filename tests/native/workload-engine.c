/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#if HAVE_LIBAIO
#include <libaio.h>
#endif
#if HAVE_LIBURING
#include <liburing.h>
#endif

#include "workload.h"

static int64_t sync_operation(Worker *w) {
        const Options *o = w->options;
        struct iovec iov = { w->buffer, o->block };
        ssize_t r;

        switch (o->kind) {
        case KIND_FSYNC:
        case KIND_FSYNC_DIR:
                r = fsync(w->fd);
                break;
        case KIND_FDATASYNC:
                r = fdatasync(w->fd);
                break;
        case KIND_MSYNC:
                r = msync(w->map, o->block, MS_SYNC);
                break;
        case KIND_OSYNC:
        case KIND_ODSYNC:
        case KIND_DWRITE:
        case KIND_WRITE:
                r = pwrite(w->fd, w->buffer, o->block, (off_t) next_offset(w, o->block));
                break;
        case KIND_RWF_DSYNC:
                r = pwritev2(w->fd, &iov, 1, (off_t) next_offset(w, o->block), RWF_DSYNC);
                break;
        case KIND_DREAD:
                r = pread(w->fd, w->buffer, o->block, (off_t) next_offset(w, o->block));
                break;
        case KIND_SYNCRANGE:
                r = sync_file_range(w->fd, 0, 0,
                                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
                break;
        case KIND_SYNC:
                sync();
                r = 0;
                break;
        case KIND_SYNCFS:
                r = syncfs(w->fd);
                break;
        default:
                return -EOPNOTSUPP;
        }

        return r < 0 ? -errno : r;
}

static int sync_step(Worker *w) {
        uint64_t start = now_nsec();
        int64_t result = sync_operation(w);
        int r;

        r = record(w, start, now_nsec(), result);
        return r < 0 ? r : 1;
}

#if HAVE_LIBURING
static int uring_open(Worker *w) {
        struct io_uring *ring;
        int r;

        ring = calloc(1, sizeof(*ring));
        if (!ring)
                return -ENOMEM;
        r = io_uring_queue_init(w->options->depth, ring, 0);
        if (r < 0) {
                free(ring);
                return r;
        }
        w->engine = ring;
        return 0;
}

static void uring_close(Worker *w) {
        io_uring_queue_exit(w->engine);
        free(w->engine);
}

static int uring_prepare(Worker *w, struct io_uring_sqe *sqe) {
        const Options *o = w->options;

        switch (o->kind) {
        case KIND_FSYNC:
        case KIND_FSYNC_DIR:
                io_uring_prep_fsync(sqe, w->fd, 0);
                return 0;
        case KIND_FDATASYNC:
                io_uring_prep_fsync(sqe, w->fd, IORING_FSYNC_DATASYNC);
                return 0;
        case KIND_OSYNC:
        case KIND_ODSYNC:
        case KIND_DWRITE:
        case KIND_WRITE:
        case KIND_RWF_DSYNC:
                io_uring_prep_write(sqe, w->fd, w->buffer, (unsigned) o->block, next_offset(w, o->block));
                if (o->kind == KIND_RWF_DSYNC)
                        sqe->rw_flags = RWF_DSYNC;
                return 0;
        case KIND_DREAD:
                io_uring_prep_read(sqe, w->fd, w->buffer, (unsigned) o->block, next_offset(w, o->block));
                return 0;
        case KIND_SYNCRANGE:
                io_uring_prep_sync_file_range(sqe, w->fd, 0, 0,
                                              SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                                      SYNC_FILE_RANGE_WAIT_AFTER);
                return 0;
        default:
                return -EOPNOTSUPP;
        }
}

static int uring_step(Worker *w, unsigned n) {
        struct io_uring *ring = w->engine;
        uint64_t start = now_nsec();
        int r;

        for (unsigned i = 0; i < n; i++) {
                struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

                if (!sqe)
                        return -EBUSY;
                r = uring_prepare(w, sqe);
                if (r < 0)
                        return r;
        }

        r = io_uring_submit(ring);
        if (r < 0)
                return r;
        if ((unsigned) r != n)
                return -EIO;

        for (unsigned i = 0; i < n; i++) {
                struct io_uring_cqe *cqe;

                do
                        r = io_uring_wait_cqe(ring, &cqe);
                while (r == -EINTR);
                if (r < 0)
                        return r;
                r = record(w, start, now_nsec(), cqe->res);
                io_uring_cqe_seen(ring, cqe);
                if (r < 0)
                        return r;
        }
        return (int) n;
}
#endif

#if HAVE_LIBAIO
typedef struct Aio {
        io_context_t context;
        struct iocb *control;
        struct iocb **pointers;
        struct io_event *events;
} Aio;

static void aio_free(Aio *a) {
        free(a->control);
        free(a->pointers);
        free(a->events);
        free(a);
}

static int aio_open(Worker *w) {
        size_t depth = w->options->depth;
        Aio *a;
        int r;

        a = calloc(1, sizeof(*a));
        if (!a)
                return -ENOMEM;
        a->control = calloc(depth, sizeof(*a->control));
        a->pointers = calloc(depth, sizeof(*a->pointers));
        a->events = calloc(depth, sizeof(*a->events));
        r = a->control && a->pointers && a->events ? io_setup((int) depth, &a->context) : -ENOMEM;
        if (r < 0) {
                aio_free(a);
                return r;
        }
        w->engine = a;
        return 0;
}

static void aio_close(Worker *w) {
        Aio *a = w->engine;

        io_destroy(a->context);
        aio_free(a);
}

static int aio_prepare(Worker *w, struct iocb *c) {
        const Options *o = w->options;

        switch (o->kind) {
        case KIND_FSYNC:
        case KIND_FSYNC_DIR:
                io_prep_fsync(c, w->fd);
                return 0;
        case KIND_FDATASYNC:
                io_prep_fdsync(c, w->fd);
                return 0;
        case KIND_OSYNC:
        case KIND_ODSYNC:
        case KIND_DWRITE:
        case KIND_WRITE:
        case KIND_RWF_DSYNC:
                io_prep_pwrite(c, w->fd, w->buffer, o->block, (long long) next_offset(w, o->block));
                if (o->kind == KIND_RWF_DSYNC)
                        c->aio_rw_flags = RWF_DSYNC;
                return 0;
        case KIND_DREAD:
                io_prep_pread(c, w->fd, w->buffer, o->block, (long long) next_offset(w, o->block));
                return 0;
        default:
                return -EOPNOTSUPP;
        }
}

static int aio_step(Worker *w, unsigned n) {
        Aio *a = w->engine;
        uint64_t start = now_nsec();
        int r;

        for (unsigned i = 0; i < n; i++) {
                r = aio_prepare(w, &a->control[i]);
                if (r < 0)
                        return r;
                a->pointers[i] = &a->control[i];
        }

        for (unsigned submitted = 0; submitted < n; submitted += (unsigned) r) {
                r = io_submit(a->context, (long) (n - submitted), a->pointers + submitted);
                if (r <= 0)
                        return r ?: -EIO;
        }

        for (unsigned done = 0; done < n;) {
                int m;

                m = io_getevents(a->context, 1, (long) (n - done), a->events, NULL);
                if (m == -EINTR)
                        continue;
                if (m < 0)
                        return m;
                for (int i = 0; i < m; i++) {
                        r = record(w, start, now_nsec(), (long) a->events[i].res);
                        if (r < 0)
                                return r;
                }
                done += (unsigned) m;
        }
        return (int) n;
}
#endif

int engine_open(Worker *w) {
        switch (w->options->engine) {
        case ENGINE_SYNC:
                return 0;
#if HAVE_LIBURING
        case ENGINE_URING:
                return uring_open(w);
#endif
#if HAVE_LIBAIO
        case ENGINE_AIO:
                return aio_open(w);
#endif
        default:
                return -ENOSYS;
        }
}

int engine_step(Worker *w, unsigned n) {
        switch (w->options->engine) {
        case ENGINE_SYNC:
                return sync_step(w);
#if HAVE_LIBURING
        case ENGINE_URING:
                return uring_step(w, n);
#endif
#if HAVE_LIBAIO
        case ENGINE_AIO:
                return aio_step(w, n);
#endif
        default:
                return -ENOSYS;
        }
}

void engine_close(Worker *w) {
        if (!w->engine)
                return;
#if HAVE_LIBURING
        if (w->options->engine == ENGINE_URING)
                uring_close(w);
#endif
#if HAVE_LIBAIO
        if (w->options->engine == ENGINE_AIO)
                aio_close(w);
#endif
        w->engine = NULL;
}
