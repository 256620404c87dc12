/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/libbpf.h>
#include <time.h>

#include "log.h"
#include "stall-log.h"

/* In a flood, after everybody else. */
#define FLOOD_PRIORITY (SD_EVENT_PRIORITY_NORMAL + 20)

/* The files of units lie on disks, which may hang. */
#define START_DELAY_MAX_US (USEC_PER_SEC / 2)

enum {
        TIMER_ACCURACY_US = 50 * 1000,
        RECORDS_AT_ONCE = 256,
};

struct StallLog {
        struct ring_buffer *ring;
        sd_event_source *source;
        sd_event_source *start_timer;
        stall_log_callback callback;
        void *userdata;
        StallEntry entries[STALLS_KEPT_MAX];
        uint64_t n_added;
        uint64_t last_id;
        unsigned n_at_once;
        bool flood; /* there was more than is taken at once */
};

static int on_record(void *userdata, void *data, size_t size) {
        StallLog *l = userdata;
        int r = 0;

        if (size >= sizeof(struct stall))
                r = l->callback(data, l->userdata);
        if (r >= 0 && ++l->n_at_once >= RECORDS_AT_ONCE)
                return -EINPROGRESS; /* this record is done all the same */

        return r;
}

static int consume(StallLog *l) {
        int r;

        l->n_at_once = 0;
        r = ring_buffer__consume(l->ring);

        return r == -EINPROGRESS ? 1 : r;
}

static int on_readable(sd_event_source *s, int fd, uint32_t revents, void *userdata) {
        StallLog *l = userdata;
        int r;

        r = consume(l);
        if (r < 0)
                log_warning_errno(r, "Cannot read stalls, ignoring: %m");
        if (l->flood != (l->n_at_once >= RECORDS_AT_ONCE)) {
                l->flood = !l->flood;
                (void) sd_event_source_set_priority(s, l->flood ? FLOOD_PRIORITY : SD_EVENT_PRIORITY_NORMAL);
        }

        return 0;
}

void stall_log_start(StallLog *l) {
        (void) sd_event_source_set_enabled(l->start_timer, SD_EVENT_OFF);
        (void) sd_event_source_set_enabled(l->source, SD_EVENT_ON);
}

static int on_start(sd_event_source *s, uint64_t usec, void *userdata) {
        stall_log_start(userdata);

        return 0;
}

int stall_log_new(StallLog **ret, sd_event *e, int map_fd, stall_log_callback callback, void *userdata) {
        _cleanup_(stall_log_freep) StallLog *l = calloc(1, sizeof(*l));
        struct timespec now;
        int r;

        if (!l)
                return -ENOMEM;
        clock_gettime(CLOCK_REALTIME, &now);
        /* Above those of earlier runs, which the history has. */
        l->last_id = (uint64_t) now.tv_sec * USEC_PER_SEC + (uint64_t) now.tv_nsec / NSEC_PER_USEC;
        l->callback = callback;
        l->userdata = userdata;
        l->ring = ring_buffer__new(map_fd, on_record, l, NULL);
        if (!l->ring)
                return -errno;
        r = sd_event_add_io(e, &l->source, ring_buffer__epoll_fd(l->ring), EPOLLIN, on_readable, l);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(l->source, "stalls");
        r = sd_event_source_set_enabled(l->source, SD_EVENT_OFF);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(e, &l->start_timer, CLOCK_MONOTONIC, START_DELAY_MAX_US, TIMER_ACCURACY_US,
                                       on_start, l);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);

        return 0;
}

StallLog *stall_log_free(StallLog *l) {
        if (!l)
                return NULL;
        sd_event_source_unref(l->source);
        sd_event_source_unref(l->start_timer);
        ring_buffer__free(l->ring);
        for (size_t i = 0; i < STALLS_KEPT_MAX; i++)
                stall_entry_done(&l->entries[i]);
        free(l);

        return NULL;
}

uint64_t stall_start_realtime_us(const struct stall *record) {
        uint64_t now = now_ns(), start = record->end_ns - record->total_ns, now_real;
        struct timespec real;

        clock_gettime(CLOCK_REALTIME, &real);
        now_real = real.tv_sec * NSEC_PER_SEC + real.tv_nsec;

        return (now_real - (now > start ? now - start : 0)) / NSEC_PER_USEC;
}

uint64_t stall_log_new_id(StallLog *l) {
        return ++l->last_id;
}

int stall_log_add(StallLog *l, uint64_t id, uint64_t start_realtime_us, const char *unit, const struct stall *record,
                  StallEntry **ret) {
        StallEntry *e = &l->entries[l->n_added % STALLS_KEPT_MAX];
        char *copy = strdup(unit);

        if (!copy)
                return -ENOMEM;
        stall_entry_done(e);
        e->id = id;
        e->start_realtime_us = start_realtime_us;
        e->unit = copy;
        stall_entry_set_record(e, record);
        l->n_added++;
        *ret = e;

        return 0;
}

const StallEntry *stall_log_get(StallLog *l, size_t i) {
        uint64_t first = l->n_added > STALLS_KEPT_MAX ? l->n_added - STALLS_KEPT_MAX : 0;

        return first + i < l->n_added ? &l->entries[(first + i) % STALLS_KEPT_MAX] : NULL;
}
