/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "history-window.h"

bool window_next(Cursor *c, WindowEntry *ret) {
        uint64_t key;

        if (c->p == c->end)
                return false;
        key = cursor_varint(c);
        ret->id = key >> 1;
        ret->is_request = key & 1;
        ret->size = cursor_number(c, ENCODED_VALUE_MAX);
        ret->numbers = cursor_bytes(c, ret->size);

        return ret->numbers != NULL;
}

static void put_entry(Buffer *b, uint64_t id, bool is_request, const uint8_t *numbers, size_t size) {
        buffer_put_varint(b, id << 1 | is_request);
        buffer_put_varint(b, size);
        buffer_put(b, numbers, size);
}

void window_builder_done(WindowBuilder *b) {
        buffer_done(&b->data);
        free(b->places);
        *b = (WindowBuilder){};
}

int window_builder_add(WindowBuilder *b, HistorySeries *s, const uint8_t *numbers, size_t size) {
        struct WindowPlace place = { .id = s->id, .offset = b->data.size };

        if (b->n == b->n_allocated) {
                size_t m = MAX(b->n_allocated * 2, (size_t) 64);
                void *p = reallocarray(b->places, m, sizeof(b->places[0]));

                if (!p)
                        return -ENOMEM;
                b->places = p;
                b->n_allocated = m;
        }
        put_entry(&b->data, s->id, s->is_request, numbers, size);
        if (b->data.error < 0)
                return b->data.error;
        place.size = b->data.size - place.offset;
        b->places[b->n++] = place;
        s->refs++;

        return 0;
}

static int compare_places(const void *a, const void *b) {
        const struct WindowPlace *x = a, *y = b;

        return x->id < y->id ? -1 : x->id > y->id;
}

/* Gives a buffer's bytes over, without the room behind them. */
static void take_bytes(Buffer *b, uint8_t **ret, size_t *ret_size) {
        uint8_t *p = b->size > 0 ? realloc(b->data, b->size) : NULL;

        *ret_size = b->size;
        *ret = p ?: b->data;
        if (b->size == 0) {
                free(b->data);
                *ret = NULL;
        }
        *b = (Buffer){};
}

int window_new(HistoryWindow **ret, HistoryDict *d, WindowBuilder *b, BlameSet *blame) {
        HistoryWindow *w = calloc(1, sizeof(*w));
        Buffer bytes = {};
        int r;

        if (!w)
                return -ENOMEM;
        r = blame_set_encode(blame, d, &bytes);
        if (r < 0) {
                buffer_done(&bytes);
                free(w);
                return r;
        }
        take_bytes(&bytes, &w->blame, &w->blame_size);

        if (b->n > 0) {
                w->data = malloc(b->data.size);
                if (!w->data) {
                        window_free(w, d);
                        return -ENOMEM;
                }
                qsort(b->places, b->n, sizeof(b->places[0]), compare_places);
                for (size_t i = 0; i < b->n; i++) {
                        memcpy(w->data + w->size, b->data.data + b->places[i].offset, b->places[i].size);
                        w->size += b->places[i].size;
                }
        }
        window_builder_done(b);
        *ret = w;

        return 0;
}

HistoryWindow *window_free(HistoryWindow *w, HistoryDict *d) {
        Cursor c = cursor(w->data, w->size);
        WindowEntry e;

        while (window_next(&c, &e)) {
                HistorySeries *s = history_dict_series_by_id(d, e.id);

                if (s)
                        s->refs--;
        }
        blame_forget(d, w->blame, w->blame_size);
        free(w->data);
        free(w->blame);
        free(w);

        return NULL;
}

/* Writes the sum of two entries of the same series. */
static int put_sum(Buffer *b, const WindowEntry *x, const WindowEntry *y) {
        Buffer sum = {};
        int r;

        if (x->is_request) {
                struct rq_value v = {};

                r = rq_value_decode_add(x->numbers, x->size, &v);
                if (r >= 0)
                        r = rq_value_decode_add(y->numbers, y->size, &v);
                if (r >= 0)
                        rq_value_encode(&sum, &v);
        } else {
                struct op_value v = {};

                r = op_value_decode_add(x->numbers, x->size, &v);
                if (r >= 0)
                        r = op_value_decode_add(y->numbers, y->size, &v);
                if (r >= 0)
                        op_value_encode(&sum, &v);
        }
        if (r >= 0)
                r = sum.error;
        if (r >= 0)
                put_entry(b, x->id, x->is_request, sum.data, sum.size);
        buffer_done(&sum);

        return r;
}

/* Both are in the order of numbers. */
static int merge_entries(Buffer *b, const HistoryWindow *w, const HistoryWindow *other) {
        Cursor c = cursor(w->data, w->size), d = cursor(other->data, other->size);
        WindowEntry x, y;
        bool has_x = window_next(&c, &x), has_y = window_next(&d, &y);
        int r;

        while (has_x || has_y) {
                if (has_x && has_y && x.id == y.id) {
                        r = put_sum(b, &x, &y);
                        if (r < 0)
                                return r;
                        has_x = window_next(&c, &x);
                        has_y = window_next(&d, &y);
                } else if (has_x && (!has_y || x.id < y.id)) {
                        put_entry(b, x.id, x.is_request, x.numbers, x.size);
                        has_x = window_next(&c, &x);
                } else {
                        put_entry(b, y.id, y.is_request, y.numbers, y.size);
                        has_y = window_next(&d, &y);
                }
        }

        return b->error;
}

/* Of series that are in both windows there were two references. */
static void drop_double_refs(HistoryDict *d, const HistoryWindow *w, const HistoryWindow *other) {
        Cursor a = cursor(w->data, w->size), b = cursor(other->data, other->size);
        WindowEntry x, y;
        bool has_x = window_next(&a, &x), has_y = window_next(&b, &y);

        while (has_x && has_y)
                if (x.id < y.id)
                        has_x = window_next(&a, &x);
                else if (x.id > y.id)
                        has_y = window_next(&b, &y);
                else {
                        HistorySeries *s = history_dict_series_by_id(d, x.id);

                        if (s)
                                s->refs--;
                        has_x = window_next(&a, &x);
                        has_y = window_next(&b, &y);
                }
}

int window_merge(HistoryWindow *w, HistoryWindow *other, HistoryDict *d) {
        Buffer entries = {}, blame = {};
        BlameSet set = {};
        int r = 0;

        r = merge_entries(&entries, w, other);
        if (r >= 0 && other->blame_size > 0) {
                r = blame_set_add_encoded(&set, d, w->blame, w->blame_size);
                if (r >= 0)
                        r = blame_set_add_encoded(&set, d, other->blame, other->blame_size);
                if (r >= 0)
                        r = blame_set_encode(&set, d, &blame);
        }
        if (r < 0) {
                blame_set_done(&set);
                buffer_done(&entries);
                buffer_done(&blame);
                return r;
        }

        drop_double_refs(d, w, other);
        if (other->blame_size > 0) {
                blame_forget(d, w->blame, w->blame_size);
                blame_forget(d, other->blame, other->blame_size);
                free(w->blame);
                take_bytes(&blame, &w->blame, &w->blame_size);
        }
        free(w->data);
        take_bytes(&entries, &w->data, &w->size);
        w->start_us = MIN(w->start_us, other->start_us);
        w->end_us = MAX(w->end_us, other->end_us);
        w->seq = MAX(w->seq, other->seq);
        free(other->data);
        free(other->blame);
        free(other);

        return 0;
}

size_t window_bytes(const HistoryWindow *w) {
        return sizeof(*w) + ALLOCATION_OVERHEAD + (w->data ? w->size + ALLOCATION_OVERHEAD : 0) +
                (w->blame ? w->blame_size + ALLOCATION_OVERHEAD : 0);
}
