/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/libbpf.h>
#include <time.h>

#include "log.h"
#include "stall-log.h"

struct StallLog {
        struct ring_buffer *ring;
        sd_event_source *source;
        stall_log_callback callback;
        void *userdata;
        StallEntry entries[STALLS_KEPT_MAX];
        uint64_t n_added;
        uint64_t first_id; /* above those of earlier runs */
};

static int on_record(void *userdata, void *data, size_t size) {
        StallLog *l = userdata;

        if (size < sizeof(struct stall))
                return 0;

        return l->callback(data, l->userdata);
}

static int on_readable(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        StallLog *l = userdata;
        int r;

        r = ring_buffer__consume(l->ring);
        if (r < 0)
                log_warning_errno(r, "Cannot read stalls, ignoring: %m");

        return 0;
}

/* Wall-clock time of a CLOCK_MONOTONIC time stamp. */
static uint64_t realtime_us(uint64_t monotonic_ns) {
        uint64_t now = now_ns(), now_real;
        struct timespec real;

        clock_gettime(CLOCK_REALTIME, &real);
        now_real = real.tv_sec * NSEC_PER_SEC + real.tv_nsec;

        return (now_real - (now > monotonic_ns ? now - monotonic_ns : 0)) / NSEC_PER_USEC;
}

int stall_log_new(StallLog **ret, sd_event *e, int map_fd, stall_log_callback callback, void *userdata) {
        _cleanup_(stall_log_freep) StallLog *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return -ENOMEM;
        l->first_id = realtime_us(now_ns());
        l->callback = callback;
        l->userdata = userdata;
        l->ring = ring_buffer__new(map_fd, on_record, l, NULL);
        if (!l->ring)
                return -errno;
        r = sd_event_add_io(e, &l->source, ring_buffer__epoll_fd(l->ring), EPOLLIN, on_readable, l);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(l->source, "stalls");
        /* What came while no daemon was there woke nobody up. */
        r = ring_buffer__consume(l->ring);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);

        return 0;
}

StallLog *stall_log_free(StallLog *l) {
        if (!l)
                return NULL;
        sd_event_source_unref(l->source);
        ring_buffer__free(l->ring);
        for (size_t i = 0; i < STALLS_KEPT_MAX; i++)
                free(l->entries[i].unit);
        free(l);

        return NULL;
}

int stall_log_add(StallLog *l, const char *unit, const struct stall *record, const StallEntry **ret) {
        StallEntry *e = &l->entries[l->n_added % STALLS_KEPT_MAX];
        char *copy = strdup(unit);

        if (!copy)
                return -ENOMEM;
        free(e->unit);
        *e = (StallEntry){
                .id = l->first_id + l->n_added++,
                .start_realtime_us = realtime_us(record->end_ns - record->total_ns),
                .unit = copy,
                .record = *record,
        };
        e->record.comm[COMM_LEN - 1] = 0;
        *ret = e;

        return 0;
}

const StallEntry *stall_log_get(StallLog *l, size_t i) {
        uint64_t first = l->n_added > STALLS_KEPT_MAX ? l->n_added - STALLS_KEPT_MAX : 0;

        return first + i < l->n_added ? &l->entries[(first + i) % STALLS_KEPT_MAX] : NULL;
}
