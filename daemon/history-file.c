/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "history-file.h"

enum {
        CHUNK = 64 * 1024, /* bytes of a window that go into one record, or to the sink in one go */
};

typedef struct Export {
        Buffer record;
        Buffer out;
        history_sink sink;
        void *userdata;
} Export;

static int flush(Export *x) {
        int r = MIN(x->record.error, x->out.error);

        if (r >= 0 && x->out.size > 0)
                r = x->sink(x->out.data, x->out.size, x->userdata);
        x->out.size = 0;

        return r;
}

static void record_begin(Export *x, int type) {
        x->record.size = 0;
        buffer_put_varint(&x->record, (uint64_t) type);
}

static int record_end(Export *x) {
        if (x->record.error == 0)
                state_file_put(&x->out, x->record.data, x->record.size);

        return x->out.size >= CHUNK ? flush(x) : MIN(x->record.error, x->out.error);
}

static int export_dict(Export *x, const HistoryDict *d, uint64_t after) {
        int r;

        for (size_t i = 0; i < d->n_names; i++) {
                if (d->names[i]->seq <= after)
                        continue;
                record_begin(x, RECORD_NAME);
                buffer_put_varint(&x->record, d->names[i]->id);
                buffer_put_string(&x->record, d->names[i]->text);
                r = record_end(x);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < d->n_series; i++) {
                const HistorySeries *s = d->series[i];

                if (s->seq <= after)
                        continue;
                record_begin(x, RECORD_SERIES);
                buffer_put_varint(&x->record, s->id);
                buffer_put_varint(&x->record, s->unit->id);
                buffer_put_varint(&x->record, s->user_unit ? s->user_unit->id : 0);
                buffer_put_varint(&x->record, (s->is_request ? FLAG_REQUEST : 0) | (s->async ? FLAG_ASYNC : 0));
                buffer_put_varint(&x->record, s->op);
                buffer_put_varint(&x->record, s->origin);
                buffer_put_varint(&x->record, s->dev);
                r = record_end(x);
                if (r < 0)
                        return r;
        }

        return 0;
}

static void window_begin(Export *x, int type, const HistoryWindow *w) {
        record_begin(x, type);
        buffer_put_varint(&x->record, w->start_us);
        buffer_put_varint(&x->record, w->end_us);
        buffer_put_varint(&x->record, w->coarse);
}

static int export_window(Export *x, const HistoryWindow *w) {
        Cursor c = cursor(w->data, w->size);
        const uint8_t *begin = c.p, *p = c.p;
        WindowEntry e;
        int r;

        while (begin && begin < c.end) {
                /* As many whole entries as fit. */
                while (c.p < c.end && (size_t) (c.p - begin) < CHUNK && window_next(&c, &e))
                        p = c.p;
                if (p == begin)
                        return -EBADMSG;
                window_begin(x, RECORD_WINDOW, w);
                buffer_put(&x->record, begin, (size_t) (p - begin));
                r = record_end(x);
                if (r < 0)
                        return r;
                begin = p;
        }
        if (w->blame_size == 0)
                return 0;
        window_begin(x, RECORD_BLAME, w);
        buffer_put(&x->record, w->blame, w->blame_size);

        return record_end(x);
}

/* Numbers are those after all windows, so they come after them. */
static int export_baselines(Export *x, const HistoryDict *d, uint64_t epoch, bool all, uint64_t after) {
        int r;

        if (all) {
                record_begin(x, RECORD_NUMBERS);
                buffer_put_varint(&x->record, epoch);
                r = record_end(x);
                if (r < 0)
                        return r;
        }
        for (size_t i = 0; i < d->n_series; i++) {
                const HistorySeries *s = d->series[i];

                if (all ? !s->baseline : s->baseline_seq <= after)
                        continue;
                record_begin(x, RECORD_BASELINE);
                buffer_put_varint(&x->record, s->id);
                buffer_put(&x->record, s->baseline, s->baseline_size);
                r = record_end(x);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int export_stalls(Export *x, const History *h, uint64_t after) {
        int r;

        for (size_t i = 0; i < h->n_stalls; i++) {
                const HistoryStall *s = &h->stalls[i];

                if (s->seq <= after)
                        continue;
                record_begin(x, RECORD_STALL);
                buffer_put_varint(&x->record, IOLAT_ABI);
                buffer_put_varint(&x->record, s->id);
                buffer_put_varint(&x->record, s->start_us);
                buffer_put_string(&x->record, s->unit);
                buffer_put(&x->record, s->record, s->size);
                r = record_end(x);
                if (r < 0)
                        return r;
        }

        return 0;
}

int history_export(const History *h, uint64_t epoch, bool all, history_sink sink, void *userdata) {
        Export x = { .sink = sink, .userdata = userdata };
        uint64_t after = all ? 0 : h->saved_seq;
        uint8_t header[STATE_HEADER_SIZE];
        int r;

        if (all) {
                state_file_header(header);
                buffer_put(&x.out, header, sizeof(header));
        }
        r = export_dict(&x, &h->dict, after);
        for (size_t i = 0; i < h->n_windows && r >= 0; i++)
                if (h->windows[i]->seq > after)
                        r = export_window(&x, h->windows[i]);
        if (r >= 0)
                r = export_baselines(&x, &h->dict, epoch, all, after);
        if (r >= 0)
                r = export_stalls(&x, h, after);
        if (r >= 0 && h->incomplete) {
                record_begin(&x, RECORD_INCOMPLETE);
                r = record_end(&x);
        }
        if (r >= 0) {
                record_begin(&x, RECORD_TICK);
                buffer_put_varint(&x.record, h->last_tick_us);
                r = record_end(&x);
        }
        if (r >= 0)
                r = flush(&x);
        buffer_done(&x.record);
        buffer_done(&x.out);

        return r;
}
