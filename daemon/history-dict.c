/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <search.h>

#include "history-dict.h"

enum { TREE_NODE_BYTES = 32 }; /* what tsearch() takes for one */

static int compare_names(const void *a, const void *b) {
        const HistoryName *x = a, *y = b;

        return strcmp(x->text, y->text);
}

/* Names are unique, so their numbers serve as well. */
static int compare_series(const void *a, const void *b) {
        const HistorySeries *x = a, *y = b;
        const uint64_t p[] = { x->unit->id, x->user_unit ? x->user_unit->id : 0, x->is_request, x->op, x->origin,
                               x->async, x->dev };
        const uint64_t q[] = { y->unit->id, y->user_unit ? y->user_unit->id : 0, y->is_request, y->op, y->origin,
                               y->async, y->dev };

        for (size_t i = 0; i < ELEMENTSOF(p); i++)
                if (p[i] != q[i])
                        return p[i] < q[i] ? -1 : 1;

        return 0;
}

static void no_free(void *p) {
}

void history_dict_done(HistoryDict *d) {
        tdestroy(d->names_by_text, no_free);
        tdestroy(d->series_by_key, no_free);
        for (size_t i = 0; i < d->n_names; i++)
                free(d->names[i]);
        for (size_t i = 0; i < d->n_series; i++) {
                free(d->series[i]->baseline);
                free(d->series[i]);
        }
        free(d->names);
        free(d->series);
        *d = (HistoryDict){};
}

/* Makes room for one more pointer. */
static int reserve(HistoryDict *d, void **array, size_t *n_allocated, size_t n) {
        size_t m = MAX(*n_allocated * 2, (size_t) 16);
        void *p;

        if (n < *n_allocated)
                return 0;
        p = reallocarray(*array, m, sizeof(void *));
        if (!p)
                return -ENOMEM;
        d->bytes += (m - *n_allocated) * sizeof(void *);
        *array = p;
        *n_allocated = m;

        return 0;
}

/* After many have gone. */
static void give_back(HistoryDict *d, void **array, size_t *n_allocated, size_t n) {
        size_t m = MAX(n * 2, (size_t) 16);
        void *p;

        if (n >= *n_allocated / 4 || m >= *n_allocated)
                return;
        p = reallocarray(*array, m, sizeof(void *));
        if (!p)
                return;
        d->bytes -= (*n_allocated - m) * sizeof(void *);
        *array = p;
        *n_allocated = m;
}

static size_t name_bytes(const HistoryName *n) {
        return sizeof(*n) + strlen(n->text) + 1 + ALLOCATION_OVERHEAD + TREE_NODE_BYTES + ALLOCATION_OVERHEAD;
}

size_t history_series_bytes(const HistorySeries *s) {
        return sizeof(*s) + ALLOCATION_OVERHEAD + TREE_NODE_BYTES + ALLOCATION_OVERHEAD +
                (s->baseline ? s->baseline_size + ALLOCATION_OVERHEAD : 0);
}

static HistoryName *find_name(HistoryDict *d, const char *text, HistoryName *key) {
        HistoryName **found;

        strcpy(key->text, text);
        found = tfind(key, &d->names_by_text, compare_names);

        return found ? *found : NULL;
}

/* Room for a name as a key to search for. */
typedef union NameKey {
        HistoryName name;
        char bytes[sizeof(HistoryName) + HISTORY_NAME_MAX];
} NameKey;

int history_dict_name(HistoryDict *d, const char *text, HistoryName **ret) {
        HistoryName *n;
        NameKey key;
        int r;

        if (strlen(text) >= HISTORY_NAME_MAX)
                return -ENAMETOOLONG;
        n = find_name(d, text, &key.name);
        if (n) {
                n->refs++;
                *ret = n;
                return 0;
        }
        r = reserve(d, (void **) &d->names, &d->n_names_allocated, d->n_names);
        if (r < 0)
                return r;
        n = malloc(sizeof(*n) + strlen(text) + 1);
        if (!n)
                return -ENOMEM;
        *n = (HistoryName){ .id = d->last_name_id + 1, .refs = 1 };
        strcpy(n->text, text);
        if (!tsearch(n, &d->names_by_text, compare_names)) {
                free(n);
                return -ENOMEM;
        }
        d->last_name_id++;
        n->seq = ++*d->seq;
        d->bytes += name_bytes(n);
        d->names[d->n_names++] = n;
        *ret = n;

        return 0;
}

void history_name_unref(HistoryName *n) {
        if (n)
                n->refs--;
}

HistorySeries *history_dict_find(HistoryDict *d, const SeriesKey *key) {
        HistorySeries s = { .is_request = key->is_request, .async = key->async, .op = key->op,
                            .origin = key->origin, .dev = key->dev }, **found;
        NameKey name;

        if (strlen(key->unit) >= HISTORY_NAME_MAX || strlen(strempty(key->user_unit)) >= HISTORY_NAME_MAX)
                return NULL;
        s.unit = find_name(d, key->unit, &name.name);
        if (!s.unit)
                return NULL;
        if (key->user_unit) {
                s.user_unit = find_name(d, key->user_unit, &name.name);
                if (!s.user_unit)
                        return NULL;
        }
        found = tfind(&s, &d->series_by_key, compare_series);

        return found ? *found : NULL;
}

int history_dict_series(HistoryDict *d, const SeriesKey *key, HistorySeries **ret) {
        HistorySeries *s;
        int r;

        s = history_dict_find(d, key);
        if (s) {
                *ret = s;
                return 0;
        }
        r = reserve(d, (void **) &d->series, &d->n_series_allocated, d->n_series);
        if (r < 0)
                return r;
        s = malloc(sizeof(*s));
        if (!s)
                return -ENOMEM;
        *s = (HistorySeries){ .is_request = key->is_request, .async = key->async, .op = key->op,
                              .origin = key->origin, .dev = key->dev, .present = true };
        r = history_dict_name(d, key->unit, &s->unit);
        if (r >= 0 && key->user_unit)
                r = history_dict_name(d, key->user_unit, &s->user_unit);
        if (r >= 0 && !tsearch(s, &d->series_by_key, compare_series))
                r = -ENOMEM;
        if (r < 0) {
                history_name_unref(s->unit);
                history_name_unref(s->user_unit);
                free(s);
                return r;
        }
        s->id = ++d->last_series_id;
        s->seq = ++*d->seq;
        d->bytes += history_series_bytes(s);
        d->series[d->n_series++] = s;
        *ret = s;

        return 0;
}

SeriesKey history_series_key(const HistorySeries *s) {
        return (SeriesKey){
                .unit = s->unit->text,
                .user_unit = s->user_unit ? s->user_unit->text : NULL,
                .is_request = s->is_request,
                .async = s->async,
                .op = s->op,
                .origin = s->origin,
                .dev = s->dev,
        };
}

size_t history_dict_series_position(HistoryDict *d, uint64_t id) {
        size_t low = 0, high = d->n_series;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (d->series[mid]->id < id)
                        low = mid + 1;
                else
                        high = mid;
        }

        return low;
}

HistorySeries *history_dict_series_by_id(HistoryDict *d, uint64_t id) {
        size_t i = history_dict_series_position(d, id);

        return i < d->n_series && d->series[i]->id == id ? d->series[i] : NULL;
}

HistoryName *history_dict_name_by_id(HistoryDict *d, uint64_t id) {
        size_t low = 0, high = d->n_names;

        while (low < high) {
                size_t mid = low + (high - low) / 2;

                if (d->names[mid]->id < id)
                        low = mid + 1;
                else
                        high = mid;
        }

        return low < d->n_names && d->names[low]->id == id ? d->names[low] : NULL;
}

int history_series_set_baseline(HistoryDict *d, HistorySeries *s, const uint8_t *data, size_t size) {
        uint8_t *copy = NULL;

        if (data) {
                /* In place if it can be: most numbers get no longer by growing. */
                copy = s->baseline && s->baseline_size == size ? s->baseline : malloc(size);
                if (!copy)
                        return -ENOMEM;
                memcpy(copy, data, size);
        }
        d->bytes -= history_series_bytes(s);
        if (s->baseline)
                d->baseline_bytes -= history_series_bytes(s);
        if (copy != s->baseline)
                free(s->baseline);
        s->baseline = copy;
        s->baseline_size = data ? (uint32_t) size : 0;
        d->bytes += history_series_bytes(s);
        if (s->baseline)
                d->baseline_bytes += history_series_bytes(s);

        return 0;
}

void history_dict_collect(HistoryDict *d) {
        size_t n = 0;

        for (size_t i = 0; i < d->n_series; i++) {
                HistorySeries *s = d->series[i];

                if (s->refs > 0 || s->baseline) {
                        d->series[n++] = s;
                        continue;
                }
                tdelete(s, &d->series_by_key, compare_series);
                history_name_unref(s->unit);
                history_name_unref(s->user_unit);
                d->bytes -= history_series_bytes(s);
                free(s);
        }
        d->n_series = n;
        give_back(d, (void **) &d->series, &d->n_series_allocated, n);

        n = 0;
        for (size_t i = 0; i < d->n_names; i++) {
                HistoryName *name = d->names[i];

                if (name->refs > 0) {
                        d->names[n++] = name;
                        continue;
                }
                tdelete(name, &d->names_by_text, compare_names);
                d->bytes -= name_bytes(name);
                free(name);
        }
        d->n_names = n;
        give_back(d, (void **) &d->names, &d->n_names_allocated, n);
}
