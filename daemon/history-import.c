/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "history-file.h"

enum {
        IDS_MAX = 256 * 1024,
        IMPORT_BYTES_MIN = 24 * 1024 * 1024,
        IMPORT_EXCESS = 3, /* times the maximum that may be in memory while reading, if that is more */
};

void history_import_begin(HistoryImport *im, History *h, uint64_t epoch) {
        *im = (HistoryImport){
                .h = h,
                .epoch = epoch,
                .late = h->last_tick_us > 0,
                .n_live = h->n_windows,
        };
}

static int ids_add(HistoryIds *ids, uint64_t in_file, uint64_t here) {
        if (ids->n > 0 && ids->ids[ids->n - 1].in_file >= in_file)
                return -EBADMSG;
        if (ids->n >= IDS_MAX)
                return -E2BIG;
        if (ids->n == ids->n_allocated) {
                size_t m = MAX(ids->n_allocated * 2, (size_t) 64);
                void *p = reallocarray(ids->ids, m, sizeof(ids->ids[0]));

                if (!p)
                        return -ENOMEM;
                ids->ids = p;
                ids->n_allocated = m;
        }
        ids->ids[ids->n].in_file = in_file;
        ids->ids[ids->n++].here = here;

        return 0;
}

/* 0 if there is none. */
static uint64_t ids_find(const HistoryIds *ids, uint64_t in_file) {
        size_t low = 0, high = ids->n;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (ids->ids[mid].in_file < in_file)
                        low = mid + 1;
                else
                        high = mid;
        }

        return low < ids->n && ids->ids[low].in_file == in_file ? ids->ids[low].here : 0;
}

static HistoryName *find_name(HistoryImport *im, uint64_t in_file) {
        return history_dict_name_by_id(&im->h->dict, ids_find(&im->names, in_file));
}

static HistorySeries *find_series(HistoryImport *im, uint64_t in_file) {
        return history_dict_series_by_id(&im->h->dict, ids_find(&im->series, in_file));
}

/* Nothing refers to it before the end of what was written in one go, but nothing is collected before that either. */
static int import_name(HistoryImport *im, Cursor *c) {
        char text[HISTORY_NAME_MAX];
        uint64_t id = cursor_varint(c);
        HistoryName *n;
        int r;

        cursor_string(c, text, sizeof(text));
        if (c->error < 0 || c->p != c->end)
                return -EBADMSG;
        r = history_dict_name(&im->h->dict, text, &n);
        if (r < 0)
                return r;
        history_name_unref(n);

        return ids_add(&im->names, id, n->id);
}

static int import_series(HistoryImport *im, Cursor *c) {
        uint64_t id = cursor_varint(c), unit = cursor_varint(c), user_unit = cursor_varint(c);
        uint64_t flags = cursor_varint(c), op = cursor_number(c, UINT8_MAX), origin = cursor_number(c, UINT8_MAX);
        uint64_t dev = cursor_number(c, UINT32_MAX);
        HistoryName *n = find_name(im, unit), *user = user_unit ? find_name(im, user_unit) : NULL;
        HistorySeries *s;
        SeriesKey key;
        int r;

        if (c->error < 0 || c->p != c->end)
                return -EBADMSG;
        if (!n || (user_unit && !user))
                return -EBADMSG;
        key = (SeriesKey){
                .unit = n->text,
                .user_unit = user ? user->text : NULL,
                .is_request = flags & FLAG_REQUEST,
                .async = flags & FLAG_ASYNC,
                .op = (uint8_t) op,
                .origin = (uint8_t) origin,
                .dev = (uint32_t) dev,
        };
        /* Of a version that knows more. */
        if (op >= (key.is_request ? (uint64_t) _RQ_KIND_MAX : (uint64_t) _OP_MAX) || origin >= _ORIGIN_MAX)
                return 0;
        r = history_dict_series(&im->h->dict, &key, &s);
        if (r < 0)
                return r;
        if (im->counting) {
                r = history_series_set_baseline(&im->h->dict, s, NULL, 0); /* it was gone, and came again */
                if (r < 0)
                        return r;
        }

        return ids_add(&im->series, id, s->id);
}

/* Where the series counts from has grown by what the window says. */
static int add_to_baseline(HistoryImport *im, HistorySeries *s, const WindowEntry *e) {
        Buffer b = {};
        int r = 0;

        if (e->is_request) {
                struct rq_value v = {};

                if (s->baseline)
                        r = rq_value_decode_add(s->baseline, s->baseline_size, &v);
                if (r >= 0)
                        r = rq_value_decode_add(e->numbers, e->size, &v);
                rq_value_encode(&b, &v);
        } else {
                struct op_value v = {};

                if (s->baseline)
                        r = op_value_decode_add(s->baseline, s->baseline_size, &v);
                if (r >= 0)
                        r = op_value_decode_add(e->numbers, e->size, &v);
                op_value_encode(&b, &v);
        }
        if (r >= 0)
                r = b.error;
        if (r >= 0)
                r = history_series_set_baseline(&im->h->dict, s, b.data, b.size);
        buffer_done(&b);

        return r;
}

static int check_numbers(bool is_request, const uint8_t *data, size_t size) {
        struct op_value op = {};
        struct rq_value rq = {};

        return is_request ? rq_value_decode_add(data, size, &rq) : op_value_decode_add(data, size, &op);
}

static int import_entries(HistoryImport *im, Cursor *c, WindowBuilder *b) {
        WindowEntry e;
        int r;

        while (window_next(c, &e)) {
                HistorySeries *s = find_series(im, e.id);

                if (!s)
                        continue;
                if (s->is_request != e.is_request)
                        return -EBADMSG;
                r = check_numbers(e.is_request, e.numbers, e.size);
                if (r < 0)
                        return r;
                r = window_builder_add(b, s, e.numbers, e.size);
                if (r >= 0 && im->counting)
                        r = add_to_baseline(im, s, &e);
                if (r < 0)
                        return r;
        }

        return c->error;
}

static int import_blame_entries(HistoryImport *im, Cursor *c, BlameSet *set) {
        while (c->p < c->end) {
                HistoryName *victim = find_name(im, cursor_varint(c)), *culprit = find_name(im, cursor_varint(c));
                BlameEntry e = {};
                uint64_t weight;
                int r;

                e.dev = (uint32_t) cursor_number(c, UINT32_MAX);
                e.phase = (uint8_t) cursor_number(c, BLAME_PHASE_MAX);
                e.step = (int8_t) cursor_number(c, BLAME_STEP_MAX + 1) - 1;
                weight = cursor_number(c, BLAME_WEIGHT_MAX << 1 | 1);
                e.weight = (uint8_t) (weight >> 1);
                e.estimated = weight & 1;
                e.ns = cursor_varint(c);
                if (c->error < 0 || !victim || !culprit)
                        return -EBADMSG;
                r = blame_set_add(set, &im->h->dict, victim->text, culprit->text, &e);
                if (r < 0 && r != -ENOSPC)
                        return r;
        }

        return c->error;
}

/* Adds a window behind those that were read before, or to the last one if it is a further part of it. */
static int put_window(HistoryImport *im, HistoryWindow *w) {
        History *h = im->h;
        size_t n = h->n_windows - im->n_live, before;
        HistoryWindow *last = n > 0 ? h->windows[n - 1] : NULL;
        int r;

        if (!last || last->start_us != w->start_us || last->end_us != w->end_us)
                return history_insert_window(h, w, &n);
        before = window_bytes(last);
        r = window_merge(last, w, &h->dict);
        if (r < 0) {
                window_free(w, &h->dict);
                return r;
        }
        h->windows_bytes += window_bytes(last);
        h->windows_bytes -= before;

        return 0;
}

static int import_window(HistoryImport *im, Cursor *c, bool is_blame) {
        uint64_t start = cursor_varint(c), end = cursor_varint(c), coarse = cursor_number(c, 1);
        WindowBuilder b = {};
        BlameSet set = {};
        HistoryWindow *w;
        int r, k;

        if (c->error < 0 || start > end)
                return -EBADMSG;
        r = is_blame ? import_blame_entries(im, c, &set) : import_entries(im, c, &b);
        k = window_new(&w, &im->h->dict, &b, &set);
        window_builder_done(&b);
        blame_set_done(&set);
        if (k < 0)
                return k;
        if (r < 0 || (w->size == 0 && w->blame_size == 0)) {
                window_free(w, &im->h->dict);
                return MIN(r, 0);
        }
        w->start_us = start;
        w->end_us = end;
        w->coarse = coarse;
        w->seq = ++im->h->seq;

        return put_window(im, w);
}

static int import_numbers(HistoryImport *im, Cursor *c) {
        uint64_t epoch = cursor_varint(c);

        if (c->error < 0)
                return -EBADMSG;
        im->same_epoch = epoch == im->epoch && !im->late;
        im->counting = im->same_epoch;

        return 0;
}

static int import_baseline(HistoryImport *im, Cursor *c) {
        HistorySeries *s = find_series(im, cursor_varint(c));
        size_t size = (size_t) (c->end - c->p);
        int r;

        if (c->error < 0)
                return -EBADMSG;
        if (!s || !im->counting)
                return 0;
        if (size == 0)
                return history_series_set_baseline(&im->h->dict, s, NULL, 0);
        r = check_numbers(s->is_request, c->p, size);
        if (r < 0)
                return r;

        return history_series_set_baseline(&im->h->dict, s, c->p, size);
}

static int import_stall(HistoryImport *im, Cursor *c) {
        uint64_t abi = cursor_varint(c), id = cursor_varint(c), start = cursor_varint(c);
        char unit[HISTORY_NAME_MAX];
        size_t size;
        int r;

        cursor_string(c, unit, sizeof(unit));
        size = (size_t) (c->end - c->p);
        if (c->error < 0 || size == 0 || size > HISTORY_STALL_RECORD_MAX)
                return -EBADMSG;
        if (abi != IOLAT_ABI) /* somebody else's layout */
                return 0;

        r = history_add_stall(im->h, id, start, unit, c->p, size);
        if (r < 0)
                return r;
        for (size_t i = im->h->n_stalls; i > 0; i--)
                if (im->h->stalls[i - 1].seq == im->h->seq)
                        im->h->stalls[i - 1].restored = true;

        return 0;
}

static void ids_forget_collected(HistoryIds *ids, HistoryDict *d, bool series) {
        size_t n = 0;

        for (size_t i = 0; i < ids->n; i++)
                if (series ? (void *) history_dict_series_by_id(d, ids->ids[i].here) :
                             (void *) history_dict_name_by_id(d, ids->ids[i].here))
                        ids->ids[n++] = ids->ids[i];
        ids->n = n;
}

static int import_tick(HistoryImport *im, Cursor *c) {
        uint64_t tick = cursor_varint(c);
        History *h = im->h;

        if (c->error < 0)
                return -EBADMSG;
        if (!im->late)
                h->last_tick_us = tick;
        im->complete = im->counting;
        if (!im->late && history_bytes(h) > h->max_bytes) {
                history_settle(h, tick);
                ids_forget_collected(&im->series, &h->dict, true);
                ids_forget_collected(&im->names, &h->dict, false);
        }

        return 0;
}

int history_import_record(HistoryImport *im, const uint8_t *contents, size_t size) {
        Cursor c = cursor(contents, size);
        History *h = im->h;
        uint64_t type = cursor_varint(&c);

        if (c.error < 0)
                return -EBADMSG;
        if (history_bytes(h) > MAX(IMPORT_EXCESS * h->max_bytes, (size_t) IMPORT_BYTES_MIN))
                return -E2BIG;
        switch (type) {
        case RECORD_NAME:
                return import_name(im, &c);
        case RECORD_SERIES:
                return import_series(im, &c);
        case RECORD_WINDOW:
                return import_window(im, &c, /* is_blame= */ false);
        case RECORD_BLAME:
                return import_window(im, &c, /* is_blame= */ true);
        case RECORD_NUMBERS:
                return import_numbers(im, &c);
        case RECORD_BASELINE:
                return import_baseline(im, &c);
        case RECORD_INCOMPLETE:
                h->incomplete |= im->counting;
                return 0;
        case RECORD_TICK:
                return import_tick(im, &c);
        case RECORD_STALL:
                return import_stall(im, &c);
        default:
                return 0; /* of a version that knows more */
        }
}

bool history_import_end(HistoryImport *im, uint64_t now_us) {
        History *h = im->h;

        free(im->names.ids);
        free(im->series.ids);
        im->names = im->series = (HistoryIds){};
        for (size_t i = 0; i < h->dict.n_series; i++)
                h->dict.series[i]->present = true; /* as far as is known */
        /* A tick later than now is of a clock that was set back. */
        h->last_tick_us = MIN(h->last_tick_us, now_us);
        history_settle(h, now_us);
        if (!im->late)
                h->saved_seq = h->seq;
        h->rewrite_wanted = true;

        return im->complete && !h->incomplete;
}
