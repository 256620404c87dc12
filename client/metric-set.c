/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <search.h>

#include "metric-set-internal.h"

const MetricDef metric_defs[_METRIC_FAMILY_MAX] = {
        [METRIC_OPERATION_SECONDS] = {
                "iolat_operation_seconds", "histogram", "seconds",
                "Time that operations took (phase=\"total\"), and that they spent in each phase.",
                { "unit", "op", "phase", "device" }, 1,
        },
        [METRIC_REQUEST_SECONDS] = {
                "iolat_request_seconds", "histogram", "seconds",
                "Time of requests in the queue and in the device.",
                { "unit", "kind", "part", "device" }, 1,
        },
        [METRIC_OPERATION_ERRORS] = {
                "iolat_operation_errors", "counter", NULL,
                "Operations that failed.",
                { "unit", "op", "device" }, 1,
        },
        [METRIC_REQUEST_BYTES] = {
                "iolat_request_bytes", "counter", "bytes",
                "Bytes that requests read, wrote or discarded.",
                { "unit", "kind", "device" }, 1,
        },
        [METRIC_BLAMED_SECONDS] = {
                "iolat_blamed_seconds", "counter", "seconds",
                "Time that the victim waited because of the culprit; estimated in all phases but journal.",
                { "victim", "culprit", "phase" }, 2,
        },
        [METRIC_LOST] = {
                "iolat_lost", "counter", NULL,
                "Events that could not be counted.",
                { "reason" }, 0,
        },
        [METRIC_FOLDED_UNITS] = {
                "iolat_folded_units", "gauge", NULL,
                "Units whose numbers are added up under \"(others)\", because of MaxSeries=.",
                {}, 0,
        },
        [METRIC_BUILD_INFO] = {
                "iolat_build", "info", NULL,
                "Version of iolatd, and the tier that it measures with.",
                { "version", "tier" }, 0,
        },
};

unsigned metric_n_labels(MetricFamily family) {
        unsigned n = 0;

        while (n < METRIC_LABELS_MAX && metric_defs[family].labels[n])
                n++;

        return n;
}

char *metric_text_clean(const char *s) {
        static const char digits[] = "0123456789abcdef";
        char *clean, *t;

        clean = t = malloc(strlen(s) * STRLEN("\\xNN") + 1);
        if (!clean)
                return NULL;
        for (; *s; s++) {
                unsigned char c = (unsigned char) *s;

                if ((c >= 0x20 && c != 0x7f) || c == '\n')
                        *t++ = *s;
                else {
                        *t++ = '\\';
                        *t++ = 'x';
                        *t++ = digits[c >> 4];
                        *t++ = digits[c & 15];
                }
        }
        *t = 0;

        return clean;
}

static int compare_texts(const void *a, const void *b) {
        return strcmp(((const MetricText *) a)->s, ((const MetricText *) b)->s);
}

static void no_free(void *p) {
}

static MetricText *text_free(MetricText *t) {
        if (!t)
                return NULL;
        free(t->s);
        free(t);

        return NULL;
}
DEFINE_CLEANUP_FUNC(MetricText, text_free)

static void points_clear(MetricPoint *points, size_t n) {
        for (size_t i = 0; i < n; i++)
                free(points[i].buckets);
}

MetricSet *metric_set_new(char *(*escape)(const char *s)) {
        MetricSet *s;

        s = calloc(1, sizeof(MetricSet));
        if (s)
                s->escape = escape;

        return s;
}

MetricSet *metric_set_free(MetricSet *s) {
        if (!s)
                return NULL;
        tdestroy(s->tree, no_free);
        for (size_t i = 0; i < s->n_texts; i++)
                text_free(s->texts[i]);
        free(s->texts);
        points_clear(s->points, s->n_points);
        free(s->points);
        free(s);

        return NULL;
}

static int reserve(void **array, size_t *allocated, size_t n, size_t size) {
        size_t m = MAX(*allocated * 2, (size_t) 64);
        void *p;

        if (n < *allocated)
                return 0;
        p = reallocarray(*array, m, size);
        if (!p)
                return -ENOMEM;
        *array = p;
        *allocated = m;

        return 0;
}

int metric_set_intern(MetricSet *s, char *string, uint32_t *ret) {
        _cleanup_(text_freep) MetricText *t = NULL;
        MetricText key = { .s = string }, **found;

        found = tfind(&key, &s->tree, compare_texts);
        if (found) {
                free(string);
                *ret = (*found)->id;
                return 0;
        }
        t = calloc(1, sizeof(MetricText));
        if (!t) {
                free(string);
                return -ENOMEM;
        }
        t->s = string;
        t->id = (uint32_t) s->n_texts;
        if (reserve((void **) &s->texts, &s->texts_allocated, s->n_texts, sizeof(s->texts[0])) < 0 ||
            !tsearch(t, &s->tree, compare_texts))
                return -ENOMEM;
        *ret = t->id;
        s->texts[s->n_texts++] = TAKE_PTR(t);

        return 0;
}

static int intern_label(MetricSet *s, const char *label, uint32_t *ret) {
        char *string;

        if (strlen(label) > METRIC_TEXT_MAX)
                return -EBADMSG;
        string = s->escape(label);
        if (!string)
                return -ENOMEM;

        return metric_set_intern(s, string, ret);
}

int metric_set_add(MetricSet *s, MetricFamily family, const char *const *labels, uint64_t value,
                   const uint64_t *buckets, size_t n_buckets) {
        MetricPoint p = { .family = family, .value = value };
        int r;

        if (n_buckets > METRIC_BUCKETS)
                return -EBADMSG;
        if (s->n_points >= METRIC_POINTS_MAX)
                return -E2BIG;
        for (unsigned i = 0; i < metric_n_labels(family); i++) {
                r = intern_label(s, strempty(labels[i]), &p.labels[i]);
                if (r < 0)
                        return r;
        }
        r = reserve((void **) &s->points, &s->points_allocated, s->n_points, sizeof(s->points[0]));
        if (r < 0)
                return r;
        if (buckets) {
                p.buckets = calloc(METRIC_BUCKETS, sizeof(p.buckets[0]));
                if (!p.buckets)
                        return -ENOMEM;
                memcpy(p.buckets, buckets, n_buckets * sizeof(p.buckets[0]));
        }
        s->points[s->n_points++] = p;

        return 0;
}

const MetricPoint *metric_set_points(const MetricSet *s, size_t *ret_n) {
        *ret_n = s->n_points;

        return s->points;
}

const char *metric_set_text(const MetricSet *s, uint32_t label) {
        return s->texts[label]->s;
}

uint64_t metric_cost(MetricFamily family) {
        return streq(metric_defs[family].type, "histogram") ? METRIC_HISTOGRAM_COST : 1;
}

uint64_t metric_set_count(const MetricSet *s) {
        uint64_t n = 0;

        for (size_t i = 0; i < s->n_points; i++)
                n += metric_cost(s->points[i].family);

        return n;
}

static int compare_points(const void *a, const void *b, void *userdata) {
        const MetricPoint *x = a, *y = b;
        const MetricSet *s = userdata;

        if (x->family != y->family)
                return x->family < y->family ? -1 : 1;
        for (unsigned i = 0; i < metric_n_labels(x->family); i++) {
                int r;

                if (x->labels[i] == y->labels[i])
                        continue;
                r = strcmp(metric_set_text(s, x->labels[i]), metric_set_text(s, y->labels[i]));
                if (r != 0)
                        return r;
        }

        return 0;
}

void metric_set_merge(MetricSet *s) {
        size_t n = 0;

        if (s->n_points == 0)
                return;
        qsort_r(s->points, s->n_points, sizeof(s->points[0]), compare_points, s);
        for (size_t i = 1; i < s->n_points; i++) {
                MetricPoint *p = &s->points[i], *to = &s->points[n];

                if (compare_points(to, p, s) != 0) {
                        s->points[++n] = *p;
                        continue;
                }
                to->value = metric_add(to->value, p->value);
                for (size_t k = 0; p->buckets && to->buckets && k < METRIC_BUCKETS; k++)
                        to->buckets[k] = metric_add(to->buckets[k], p->buckets[k]);
                free(p->buckets);
        }
        s->n_points = n + 1;
}
