/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "history.h"

enum {
        /* Numbers to count from may take 4/8 of the maximum, and grow to 5/8: windows need room as well. */
        BASELINE_EIGHTHS = 4,
        BASELINE_EIGHTHS_MAX = 5,
        STALLS_SHARE = 8,
        WINDOWS_FIRST = 64, /* room for so many at first */
};

int history_new(History **ret, size_t max_bytes) {
        History *h = calloc(1, sizeof(*h));

        if (!h)
                return -ENOMEM;
        h->dict.seq = &h->seq;
        h->max_bytes = max_bytes;
        h->fine_us = HISTORY_FINE_US;
        h->coarse_us = HISTORY_COARSE_US;
        *ret = h;

        return 0;
}

History *history_free(History *h) {
        if (!h)
                return NULL;
        blame_set_done(&h->blame);
        window_builder_done(&h->builder);
        buffer_done(&h->scratch);
        for (size_t i = 0; i < h->n_windows; i++)
                window_free(h->windows[i], &h->dict);
        free(h->windows);
        for (size_t i = 0; i < h->n_stalls; i++) {
                free(h->stalls[i].unit);
                free(h->stalls[i].record);
        }
        free(h->stalls);
        history_dict_done(&h->dict);
        free(h);

        return NULL;
}

size_t history_bytes(const History *h) {
        return sizeof(*h) + h->dict.bytes + h->windows_bytes + h->stalls_bytes +
                h->n_windows_allocated * sizeof(h->windows[0]) + h->n_stalls_allocated * sizeof(h->stalls[0]);
}

void history_set_max_bytes(History *h, size_t max_bytes) {
        h->max_bytes = max_bytes;
}

static void drop_oldest_windows(History *h, size_t n) {
        if (n == 0)
                return;
        for (size_t i = 0; i < n; i++) {
                h->windows_bytes -= window_bytes(h->windows[i]);
                window_free(h->windows[i], &h->dict);
        }
        h->n_windows -= n;
        memmove(h->windows, h->windows + n, h->n_windows * sizeof(h->windows[0]));
}

/* Gives back the room for more of them, of which there is much after a file with far more than are kept. */
static void trim_windows(History *h) {
        size_t m = MAX(h->n_windows, (size_t) WINDOWS_FIRST);
        void *p;

        if (m >= h->n_windows_allocated)
                return;
        p = reallocarray(h->windows, m, sizeof(h->windows[0]));
        if (!p)
                return;
        h->windows = p;
        h->n_windows_allocated = m;
}

int history_insert_window(History *h, HistoryWindow *w, size_t *position) {
        if (h->n_windows == h->n_windows_allocated) {
                size_t m = MAX(h->n_windows_allocated * 2, (size_t) WINDOWS_FIRST);
                void *p = reallocarray(h->windows, m, sizeof(h->windows[0]));

                if (!p) {
                        window_free(w, &h->dict);
                        return -ENOMEM;
                }
                h->windows = p;
                h->n_windows_allocated = m;
        }
        memmove(h->windows + *position + 1, h->windows + *position,
                (h->n_windows - *position) * sizeof(h->windows[0]));
        h->windows[(*position)++] = w;
        h->n_windows++;
        h->windows_bytes += window_bytes(w);

        return 0;
}

/* Puts together what is of the same minute and old enough. */
static void merge_old_windows(History *h, uint64_t now_us) {
        size_t n = 0;

        for (size_t i = 0; i < h->n_windows; i++) {
                HistoryWindow *w = h->windows[i], *last = n > 0 ? h->windows[n - 1] : NULL;
                size_t before;
                uint64_t seq;

                h->windows[n++] = w;
                if (w->coarse || w->end_us + h->fine_us > now_us)
                        continue;
                w->coarse = true;
                if (!last || !last->coarse || last->start_us / h->coarse_us != w->start_us / h->coarse_us)
                        continue;
                before = window_bytes(last) + window_bytes(w);
                seq = w->seq;
                if (window_merge(last, w, &h->dict) < 0) /* stays apart */
                        continue;
                if (seq > h->saved_seq) /* where half of it was saved, it would be so twice */
                        h->rewrite_wanted = true;
                h->windows_bytes += window_bytes(last);
                h->windows_bytes -= before;
                n--;
        }
        h->n_windows = n;
}

/* The numbers of the youngest series, so many bytes of them. */
static void drop_baselines(History *h, size_t surplus) {
        size_t before = h->dict.baseline_bytes;

        for (size_t i = h->dict.n_series; i > 0 && before - h->dict.baseline_bytes < surplus; i--) {
                HistorySeries *s = h->dict.series[i - 1];

                if (!s->baseline)
                        continue;
                (void) history_series_set_baseline(&h->dict, s, NULL, 0);
                s->baseline_seq = ++h->seq;
                h->incomplete = true;
        }
}

void history_settle(History *h, uint64_t now_us) {
        size_t n = 0;

        merge_old_windows(h, now_us);
        while (n < h->n_windows && h->windows[n]->end_us + HISTORY_KEEP_US < now_us)
                n++;
        drop_oldest_windows(h, n);
        while (h->n_stalls > 0 && (h->stalls[0].start_us + HISTORY_KEEP_US < now_us ||
                                   h->stalls_bytes > h->max_bytes / STALLS_SHARE))
                history_drop_oldest_stall(h);
        if (h->dict.baseline_bytes > h->max_bytes / 8 * BASELINE_EIGHTHS_MAX)
                drop_baselines(h, h->dict.baseline_bytes - h->max_bytes / 8 * BASELINE_EIGHTHS);
        history_dict_collect(&h->dict);

        if (history_bytes(h) > h->max_bytes)
                trim_windows(h);
        while (h->n_windows > 0 && history_bytes(h) > h->max_bytes) {
                size_t surplus = history_bytes(h) - h->max_bytes;

                /* Several in one go: what only they refer to is looked for in all there is. */
                for (n = 0; n < h->n_windows && surplus > 0; n++)
                        surplus -= MIN(surplus, window_bytes(h->windows[n]) + sizeof(h->windows[0]));
                drop_oldest_windows(h, n);
                trim_windows(h);
                history_dict_collect(&h->dict);
        }
        while (h->dict.baseline_bytes > 0 && history_bytes(h) > h->max_bytes) {
                drop_baselines(h, history_bytes(h) - h->max_bytes);
                history_dict_collect(&h->dict);
        }
}

int history_tick(History *h, uint64_t start_us, uint64_t now_us, history_feed feed, void *userdata) {
        HistoryWindow *w;
        int r;

        r = feed(h, userdata);
        if (r < 0) /* what was noted so far is of this window all the same */
                now_us = MAX(now_us, start_us);
        if (h->builder.n > 0 || h->blame.n > 0) {
                int k = window_new(&w, &h->dict, &h->builder, &h->blame);

                if (k < 0)
                        return k; /* it is all added to the next one */
                w->start_us = MIN(start_us, now_us);
                w->end_us = now_us;
                w->seq = ++h->seq;
                k = history_insert_window(h, w, &(size_t){ h->n_windows });
                if (k < 0)
                        return k;
                r = MIN(r, 0) ?: 1;
        } else
                r = MIN(r, 0);
        h->last_tick_us = now_us;
        h->blame_start_us = now_us;
        window_builder_done(&h->builder);
        buffer_done(&h->scratch);
        history_settle(h, now_us);

        return r;
}

static bool is_zero(const uint8_t *p, size_t n) {
        for (; n > 0; n--, p++)
                if (*p)
                        return false;

        return true;
}

/* Encoded numbers are in h->scratch, before offset those of now, behind it what they grew by. */
static int note(History *h, const SeriesKey *key, HistorySeries *s, size_t offset, bool grown) {
        int r;

        if (h->scratch.error < 0)
                return h->scratch.error;
        if (!s) {
                r = history_dict_series(&h->dict, key, &s);
                if (r < 0)
                        return r;
        }
        grown = grown && !is_zero(h->scratch.data + offset, h->scratch.size - offset);
        if (grown) {
                r = window_builder_add(&h->builder, s, h->scratch.data + offset, h->scratch.size - offset);
                if (r < 0)
                        return r;
        }
        s->present = true;
        r = history_series_set_baseline(&h->dict, s, h->scratch.data, offset);
        if (r < 0)
                return r;
        if (!grown)
                s->baseline_seq = ++h->seq;

        return 0;
}

/* Returns 1 if there is something to do about the series. */
static int look_up(History *h, const SeriesKey *key, HistorySeries **ret) {
        HistorySeries *s;

        if (h->scratch.error < 0)
                return h->scratch.error;
        s = history_dict_find(&h->dict, key);
        *ret = s;
        if (s && s->baseline) {
                s->present = true;
                return s->baseline_size != h->scratch.size ||
                        memcmp(s->baseline, h->scratch.data, h->scratch.size) != 0;
        }
        if (h->dict.baseline_bytes + h->scratch.size > h->max_bytes / 8 * BASELINE_EIGHTHS) {
                h->incomplete = true;
                return 0;
        }

        return 1;
}

int history_note_op(History *h, const SeriesKey *key, bool fresh, const struct op_value *now) {
        struct op_value before = {}, grown;
        HistorySeries *s;
        size_t offset;
        int r;

        h->scratch.size = 0;
        op_value_encode(&h->scratch, now);
        r = look_up(h, key, &s);
        if (r <= 0)
                return r;
        offset = h->scratch.size;
        if (s && s->baseline) {
                r = op_value_decode_add(s->baseline, s->baseline_size, &before);
                if (r < 0)
                        return r;
                fresh = true;
        }
        fresh = fresh && op_value_diff(now, &before, &grown);
        if (fresh)
                op_value_encode(&h->scratch, &grown);

        return note(h, key, s, offset, fresh);
}

int history_note_rq(History *h, const SeriesKey *key, bool fresh, const struct rq_value *now) {
        struct rq_value before = {}, grown;
        HistorySeries *s;
        size_t offset;
        int r;

        h->scratch.size = 0;
        rq_value_encode(&h->scratch, now);
        r = look_up(h, key, &s);
        if (r <= 0)
                return r;
        offset = h->scratch.size;
        if (s && s->baseline) {
                r = rq_value_decode_add(s->baseline, s->baseline_size, &before);
                if (r < 0)
                        return r;
                fresh = true;
        }
        fresh = fresh && rq_value_diff(now, &before, &grown);
        if (fresh)
                rq_value_encode(&h->scratch, &grown);

        return note(h, key, s, offset, fresh);
}

void history_drop_absent(History *h) {
        for (size_t i = 0; i < h->dict.n_series; i++) {
                HistorySeries *s = h->dict.series[i];

                if (!s->present && s->baseline) {
                        (void) history_series_set_baseline(&h->dict, s, NULL, 0);
                        s->baseline_seq = ++h->seq;
                }
                s->present = false;
        }
}

int history_add_blame(History *h, const char *victim, const char *culprit, int phase, int step, uint32_t dev,
                      int weight, bool estimated, uint64_t ns) {
        const BlameEntry e = {
                .dev = dev,
                .phase = (uint8_t) phase,
                .step = (int8_t) step,
                .weight = (uint8_t) weight,
                .estimated = estimated,
                .ns = ns,
        };

        if (phase < 0 || phase > BLAME_PHASE_MAX || step < -1 || step > BLAME_STEP_MAX || weight < 0 ||
            weight > BLAME_WEIGHT_MAX)
                return -EINVAL;
        if (ns == 0)
                return 0;

        return blame_set_add(&h->blame, &h->dict, victim, culprit, &e);
}

static bool overlaps(const HistoryWindow *w, uint64_t since_us, uint64_t until_us) {
        /* What has no length is where it is. */
        return w->start_us < until_us && (w->end_us > since_us || (w->end_us == since_us && w->start_us == since_us));
}

int history_foreach_blame(History *h, uint64_t since_us, uint64_t until_us, history_blame_callback callback,
                          void *userdata) {
        BlameEntry e;
        int r;

        for (size_t i = 0; i < h->n_windows; i++) {
                Cursor c = cursor(h->windows[i]->blame, h->windows[i]->blame_size);

                if (!overlaps(h->windows[i], since_us, until_us))
                        continue;
                while (blame_next(&c, &h->dict, &e)) {
                        r = callback(&e, userdata);
                        if (r < 0)
                                return r;
                }
        }
        if (until_us <= h->blame_start_us)
                return 0;
        for (size_t i = 0; i < h->blame.n; i++) {
                r = callback(&h->blame.entries[i], userdata);
                if (r < 0)
                        return r;
        }

        return 0;
}

uint64_t history_since(const History *h) {
        return h->n_windows > 0 ? h->windows[0]->start_us : 0;
}

void history_covered(const History *h, uint64_t since_us, uint64_t until_us, uint64_t *ret_first,
                     uint64_t *ret_last) {
        uint64_t first = MAX(since_us, history_since(h)), last = MIN(until_us, h->last_tick_us);

        for (size_t i = 0; i < h->n_windows; i++)
                if (overlaps(h->windows[i], since_us, until_us)) {
                        first = MIN(first, h->windows[i]->start_us);
                        last = MAX(last, h->windows[i]->end_us);
                }
        if (h->n_windows == 0 || first > last)
                first = last = 0;
        *ret_first = first;
        *ret_last = last;
}

int history_sum(History *h, uint64_t since_us, uint64_t until_us, HistorySum *sums, size_t n) {
        int r;

        for (size_t i = 0; i < h->n_windows; i++) {
                Cursor c = cursor(h->windows[i]->data, h->windows[i]->size);
                WindowEntry e;
                size_t k = 0;

                if (!overlaps(h->windows[i], since_us, until_us))
                        continue;
                while (k < n && window_next(&c, &e)) {
                        while (k < n && sums[k].series->id < e.id)
                                k++;
                        if (k == n || sums[k].series->id != e.id)
                                continue;
                        r = e.is_request ? rq_value_decode_add(e.numbers, e.size, &sums[k].rq) :
                                op_value_decode_add(e.numbers, e.size, &sums[k].op);
                        if (r < 0)
                                return r;
                }
        }

        return 0;
}
