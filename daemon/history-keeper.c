/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "history-file.h"
#include "history-keeper.h"
#include "log.h"
#include "manager.h"
#include "names.h"
#include "state-child.h"
#include "state-io.h"

#define CHILD_LIMIT_US (30 * USEC_PER_SEC)
#define RETRY_INTERVAL_NS (60 * NSEC_PER_SEC) /* after the file could not be written */
#define FINISH_NS NSEC_PER_SEC
#define RECENT_US (60 * USEC_PER_SEC)
#define CLOCK_STEP_US (100 * USEC_PER_MSEC) /* differences of clocks below that are none */

enum {
        TIMER_ACCURACY_US = 100 * 1000,
        FILE_SLACK = 64 * 1024, /* bytes that a file may grow beyond twice of what is in it */
        LOADS_MAX = 3,          /* attempts to read the file, when the disk hangs */
};

struct HistoryKeeper {
        Manager *manager;
        History *history;
        const char *dir;
        StateChild *child;
        sd_event_source *timer;
        uint64_t interval_us;
        uint64_t retry_ns;
        bool hurry;

        /* Reading. */
        bool loaded;        /* the file was read, or there is none that could be */
        bool waiting;       /* ticks wait for that */
        unsigned n_loads;
        bool importing;
        bool import_failed; /* with what follows nothing can be done */
        HistoryImport import;
        Buffer input;

        /* Ticks. */
        uint64_t epoch;        /* of the counters */
        bool numbers_known;    /* those of all series at the last tick, although that was before our time */
        uint64_t last_serial;  /* series with higher ones are new */
        uint64_t last_ns;      /* CLOCK_MONOTONIC of the last tick, 0: none */
        uint64_t last_us;      /* and CLOCK_REALTIME */

        /* Writing. */
        int64_t file_size; /* -1: not known */
        int64_t new_size;  /* as the child says */
        bool rewriting;
        bool set_aside;    /* the file that is there is damaged */
        bool save_anyway;  /* although nothing is new */
        uint64_t pending_seq;
        uint64_t retry_after_ns;
        bool warned;
};

static uint64_t now_realtime_us(void) {
        struct timespec ts;

        (void) clock_gettime(CLOCK_REALTIME, &ts);
        return (uint64_t) ts.tv_sec * USEC_PER_SEC + (uint64_t) ts.tv_nsec / NSEC_PER_USEC;
}

static int note_series(HistoryKeeper *k, const Series *s) {
        const SeriesKey key = {
                .unit = s->unit,
                .user_unit = s->user_unit,
                .is_request = s->is_request,
                .async = s->async,
                .op = s->op,
                .origin = s->origin,
                .dev = s->dev,
        };
        bool fresh = k->last_ns ? s->serial > k->last_serial : k->numbers_known;
        struct op_value op;
        struct rq_value rq;
        int r;

        if (s->is_request) {
                r = series_read_rq(k->manager->series, s, false, &rq);
                return r < 0 ? r : history_note_rq(k->history, &key, fresh, &rq);
        }
        r = series_read_op(k->manager->series, s, false, &op);

        return r < 0 ? r : history_note_op(k->history, &key, fresh, &op);
}

static int feed(History *h, void *userdata) {
        HistoryKeeper *k = userdata;
        Series *const *all;
        uint64_t last = 0;
        size_t n;
        int r;

        all = series_table_all(k->manager->series, &n);
        for (size_t i = 0; i < n; i++) {
                /* Numbers come to this one from others that had them before; how old dirty data was is not kept. */
                if (streq(all[i]->unit, UNIT_EXITED) || all[i]->is_age)
                        continue;
                r = note_series(k, all[i]);
                if (r < 0)
                        return r;
                last = all[i]->serial;
        }
        k->last_serial = MAX(k->last_serial, last);

        return 0;
}

/* Where the window begins that ends now. */
static uint64_t window_start(HistoryKeeper *k, uint64_t mono_ns, uint64_t now_us) {
        uint64_t start;

        if (!k->last_ns) {
                if (k->numbers_known && k->history->last_tick_us > 0)
                        return MIN(k->history->last_tick_us, now_us);
                return k->numbers_known ? MIN(k->epoch, now_us) : now_us;
        }
        start = now_us - MIN(now_us, (mono_ns - k->last_ns) / NSEC_PER_USEC);

        return MAX(start, k->last_us) - MIN(start, k->last_us) < CLOCK_STEP_US ? k->last_us : start;
}

static void tick(HistoryKeeper *k) {
        bool was_incomplete = k->history->incomplete;
        uint64_t now_us, mono_ns;
        int r;

        r = manager_refresh(k->manager);
        if (r >= 0) {
                now_us = now_realtime_us();
                mono_ns = now_ns();
                r = history_tick(k->history, window_start(k, mono_ns, now_us), now_us, feed, k);
                if (r >= 0) {
                        history_drop_absent(k->history);
                        k->last_ns = mono_ns;
                        k->last_us = now_us;
                }
        }
        if (r < 0)
                log_warning_errno(r, "Cannot take a window of the history, trying again later: %m");
        if (k->history->incomplete && !was_incomplete)
                log_warning("HistoryMaxBytes= is too small for what is counted here: the history will not have all "
                            "of it.");
}

static int save_work(int fd, void *userdata);
static void save_data(const void *data, size_t size, void *userdata);
static void save_done(int result, void *userdata);
static void save_late(void *userdata);

static void warn_unsaved(HistoryKeeper *k, int error) {
        if (!k->warned)
                log_warning_errno(error, "Cannot write to %s, the history is kept in memory only: %m", k->dir);
        k->warned = true;
        k->retry_after_ns = now_ns() + k->retry_ns;
}

static bool is_grown(const HistoryKeeper *k) {
        return k->file_size > 2 * (int64_t) history_bytes(k->history) + FILE_SLACK;
}

static void save(HistoryKeeper *k) {
        static const StateChildCallbacks callbacks = { save_work, save_data, save_done, save_late };
        History *h = k->history;
        int r;

        if (!k->loaded || state_child_busy(k->child) || (h->seq == h->saved_seq && !k->save_anyway) ||
            now_ns() < k->retry_after_ns)
                return;
        k->rewriting = h->rewrite_wanted || k->file_size < 0 || is_grown(k);
        k->pending_seq = h->seq;
        k->new_size = -1;
        k->input.size = 0;
        r = state_child_start(k->child, &callbacks, k);
        if (r < 0) {
                warn_unsaved(k, r);
                return;
        }
        if (k->rewriting)
                h->rewrite_wanted = false;
}

static int export(state_io_sink sink, void *sink_userdata, void *userdata) {
        HistoryKeeper *k = userdata;

        return history_export(k->history, k->epoch, k->rewriting, sink, sink_userdata);
}

static int save_work(int fd, void *userdata) {
        HistoryKeeper *k = userdata;
        uint64_t size;
        int r;

        r = k->rewriting ? state_io_rewrite(k->dir, k->set_aside, export, k, &size) :
                state_io_append(k->dir, (uint64_t) k->file_size, export, k, &size);
        if (r < 0)
                return r;

        return write(fd, &size, sizeof(size)) == sizeof(size) ? 0 : -EPIPE;
}

static void save_data(const void *data, size_t size, void *userdata) {
        HistoryKeeper *k = userdata;

        if (size == sizeof(uint64_t)) /* as it was written, in one go */
                memcpy(&k->new_size, data, sizeof(uint64_t));
}

static void save_done(int result, void *userdata) {
        HistoryKeeper *k = userdata;

        if (result == 0 && k->new_size >= 0) {
                k->history->saved_seq = MAX(k->history->saved_seq, k->pending_seq);
                k->file_size = k->new_size;
                if (k->rewriting)
                        k->set_aside = false;
                k->save_anyway = false;
                k->warned = false;
                k->retry_after_ns = 0;
                return;
        }
        k->file_size = -1;
        if (result == -ESTALE) { /* somebody else was at it */
                log_debug("The state file is not as it was left, writing it anew.");
                save(k);
                return;
        }
        warn_unsaved(k, result ?: -EIO);
}

static void save_late(void *userdata) {
        warn_unsaved(userdata, -ETIMEDOUT);
}

/* Goes through what came so far, and keeps what is not whole yet. */
static void import_input(HistoryKeeper *k) {
        size_t at = 0, size, taken;
        const uint8_t *contents;
        int r;

        while (!k->import_failed &&
               (r = state_file_next(k->input.data + at, k->input.size - at, &contents, &size, &taken)) != 0) {
                if (r > 0)
                        r = history_import_record(&k->import, contents, size);
                if (r < 0) {
                        log_debug_errno(r, "A record of the state file makes no sense: %m");
                        k->import_failed = true;
                        break;
                }
                at += taken;
        }
        if (k->import_failed)
                at = k->input.size;
        if (at > 0)
                memmove(k->input.data, k->input.data + at, k->input.size - at);
        k->input.size -= at;
}

static int load_work(int fd, void *userdata) {
        const HistoryKeeper *k = userdata;

        return state_io_load(k->dir, fd);
}

static void load_data(const void *data, size_t size, void *userdata) {
        HistoryKeeper *k = userdata;

        if (!k->importing) {
                history_import_begin(&k->import, k->history, k->epoch);
                k->importing = true;
        }
        buffer_put(&k->input, data, size);
        if (k->input.error < 0) {
                k->import_failed = true;
                buffer_done(&k->input);
        }
        import_input(k);
}

static void load_failed(HistoryKeeper *k, int error) {
        if (error == -EBADMSG)
                log_warning("%s/" STATE_FILE_NAME " is damaged: its good part is used, the file set aside as "
                            STATE_FILE_CORRUPT ".", k->dir);
        else if (error == -EPROTO)
                log_warning("%s/" STATE_FILE_NAME " is of another version, setting it aside as " STATE_FILE_CORRUPT ".",
                            k->dir);
        else {
                log_warning_errno(error, "Cannot read %s/" STATE_FILE_NAME ", the history begins anew: %m", k->dir);
                k->warned = true; /* that it cannot be written is no news then */
        }
        k->set_aside = true;
        k->save_anyway = error == -EBADMSG; /* what was good must not be lost when we are killed */
}

/* They began about when we did, and no window has anything of them: all that they say is of one window. */
static bool counters_are_recent(const HistoryKeeper *k, uint64_t now_us) {
        const History *h = k->history;

        if (k->epoch == 0 || k->epoch > now_us || k->epoch + RECENT_US < now_us)
                return false;

        return h->n_windows == 0 || h->windows[h->n_windows - 1]->end_us <= k->epoch;
}

static void start_loading(HistoryKeeper *k);

static void load_done(int result, void *userdata) {
        HistoryKeeper *k = userdata;
        bool known = false;

        if (k->importing) {
                known = history_import_end(&k->import, now_realtime_us());
                k->importing = false;
                if (result == 0 && k->import_failed)
                        result = -EBADMSG;
        } else if (result == -ETIMEDOUT && k->n_loads < LOADS_MAX) {
                start_loading(k);
                return;
        }
        buffer_done(&k->input);
        if (result < 0 && result != -ENOENT)
                load_failed(k, result);
        k->loaded = true;
        k->history->rewrite_wanted = true;
        manager_on_history_loaded(k->manager);
        if (k->waiting) {
                uint64_t now_us = now_realtime_us();

                k->waiting = false;
                k->numbers_known = known || counters_are_recent(k, now_us);
                if (!known)
                        k->history->last_tick_us = 0; /* of other counters */
                tick(k);
        }
        save(k);
}

static void load_late(void *userdata) {
        HistoryKeeper *k = userdata;

        if (!k->waiting) /* said already */
                return;
        log_warning("%s does not answer, going on without the history so far.", k->dir);
        k->waiting = false;
        tick(k);
}

static void start_loading(HistoryKeeper *k) {
        static const StateChildCallbacks callbacks = { load_work, load_data, load_done, load_late };
        int r;

        k->n_loads++;
        r = state_child_start(k->child, &callbacks, k);
        if (r < 0)
                load_done(r, k);
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        HistoryKeeper *k = userdata;

        if (!k->waiting && !k->importing) {
                tick(k);
                save(k);
        }
        (void) sd_event_source_set_time_relative(s, k->interval_us);
        (void) sd_event_source_set_enabled(s, SD_EVENT_ONESHOT);

        return 0;
}

int history_keeper_new(HistoryKeeper **ret, Manager *m, const char *dir, bool hurry) {
        _cleanup_(history_keeper_freep) HistoryKeeper *k = calloc(1, sizeof(*k));
        uint64_t limit_us = CHILD_LIMIT_US;
        int r;

        if (!k)
                return -ENOMEM;
        k->manager = m;
        k->dir = dir;
        k->file_size = -1;
        k->waiting = true;
        k->interval_us = HISTORY_INTERVAL_US;
        k->retry_ns = RETRY_INTERVAL_NS;
        k->epoch = query_since_realtime_us(m);
        r = history_new(&k->history, m->config.history_max_bytes);
        if (r < 0)
                return r;
        if (hurry) { /* seconds for minutes, for tests */
                k->interval_us /= 10;
                k->retry_ns /= 30;
                limit_us /= 10;
                k->history->fine_us /= 60;
                k->history->coarse_us /= 12;
        }
        r = state_child_new(&k->child, m->event, limit_us);
        if (r < 0)
                return r;
        r = sd_event_add_time_relative(m->event, &k->timer, CLOCK_MONOTONIC, k->interval_us, TIMER_ACCURACY_US,
                                       on_timer, k);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(k->timer, "history");
        start_loading(k);
        *ret = TAKE_PTR(k);

        return 0;
}

HistoryKeeper *history_keeper_free(HistoryKeeper *k) {
        if (!k)
                return NULL;
        state_child_free(k->child);
        sd_event_source_unref(k->timer);
        if (k->importing)
                (void) history_import_end(&k->import, now_realtime_us());
        buffer_done(&k->input);
        history_free(k->history);
        free(k);

        return NULL;
}

History *history_keeper_get(HistoryKeeper *k) {
        return k->history;
}

void history_keeper_finish(HistoryKeeper *k) {
        uint64_t deadline = now_ns() + FINISH_NS;

        if (k->waiting || k->importing) /* what is in the file says more than we know */
                return;
        tick(k);
        if (state_child_wait(k->child, deadline) < 0)
                return;
        save(k);
        if (state_child_wait(k->child, deadline) < 0)
                log_debug("The disk did not take the last window of the history in time.");
}
