/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>

#include "format.h"
#include "growth.h"
#include "histogram.h"
#include "json.h"
#include "log.h"
#include "pager.h"
#include "query.h"
#include "table.h"
#include "term.h"
#include "text.h"

enum {
        BAR_WIDTH_DEFAULT = 40,
        BAR_WIDTH_MIN = 10,
        NUMBERS_WIDTH = 30, /* about what the columns beside the bar take */
};

static const Column columns[] = {
        { "OVER", NULL, COLUMN_RIGHT },
        { "UP-TO", NULL, COLUMN_RIGHT },
        { "COUNT", NULL, COLUMN_RIGHT },
        { "SHARE", NULL },
};

/* What is shown: one unit, op and phase; device NULL: all. */
typedef struct Subject {
        char *unit;
        char *op;
        char *phase;
        const char *device;
        uint64_t max_ns;
        uint64_t errors;
} Subject;

static void subject_clear(Subject *s) {
        free(s->unit);
        free(s->op);
        free(s->phase);
        *s = (Subject){};
}

static const char *default_phase(const char *op) {
        return startswith(op, "rq-") ? "device" : streq(op, OP_WRITEBACK) ? PHASE_DIRTY_AGE : "total";
}

static const char *quantile(char buf[static FORMAT_MAX], const struct hist_full *full,
                            const struct hist_short *powers, const Subject *s, double q) {
        bool all = phase_has_all_buckets(s->phase);

        return format_nsec(buf, all ? hist_full_quantile(full, q) : hist_short_quantile(powers, q));
}

static void fill(const Buckets *b, const Subject *s, struct hist_full *full, struct hist_short *powers) {
        for (size_t i = 0; i < b->n; i++) {
                full->bucket[bucket_full(b->items[i].upper_ns)] += b->items[i].count;
                powers->bucket[bucket_short(b->items[i].upper_ns)] += b->items[i].count;
                full->count += b->items[i].count;
        }
        powers->count = full->count;
        /* Quantiles are never above the maximum, which only the rows know exactly. */
        full->max_ns = powers->max_ns = s->max_ns > 0 ? s->max_ns : UINT64_MAX;
}

static int print_bars(const unsigned long long *bucket, size_t n, bucket_u64 (*upper)(unsigned),
                      const Options *o) {
        _cleanup_(table_freep) Table *t = NULL;
        size_t first = 0, last = n;
        uint64_t most = 0;
        unsigned width = BAR_WIDTH_DEFAULT;

        if (term_is_terminal())
                width = MAX(term_columns(), (unsigned) (NUMBERS_WIDTH + BAR_WIDTH_MIN)) - NUMBERS_WIDTH;
        t = table_new(columns, ELEMENTSOF(columns));
        if (!t)
                return -ENOMEM;

        while (first < n && bucket[first] == 0)
                first++;
        while (last > first && bucket[last - 1] == 0)
                last--;
        for (size_t i = first; i < last; i++)
                most = MAX(most, (uint64_t) bucket[i]);
        for (size_t i = first; i < last; i++) {
                if (i == 0)
                        table_add_text(t, "0");
                else
                        table_add_nsec(t, upper((unsigned) i - 1));
                if (i == n - 1)
                        table_add_empty(t);
                else
                        table_add_nsec(t, upper((unsigned) i));
                table_add_count(t, bucket[i]);
                table_add_drawing(t, bar_fill(bucket[i], most, width));
        }

        return table_print(t, o, NULL);
}

static int print_human(const Subject *s, const Buckets *b, const Options *o) {
        struct hist_full full = {};
        struct hist_short powers = {};
        _cleanup_free_ char *unit = NULL;
        char p50[FORMAT_MAX], p90[FORMAT_MAX], p99[FORMAT_MAX];
        int r;

        unit = text_escape(s->unit);
        if (!unit)
                return -ENOMEM;
        fill(b, s, &full, &powers);

        if (o->legend)
                printf("%s%s%s: %s, %s, %s\n\n", term_bold(), unit, term_normal(), s->op, s->phase,
                       s->device ?: "all devices");
        if (o->all && phase_has_all_buckets(s->phase))
                r = print_bars(full.bucket, BUCKETS_FULL, bucket_full_upper, o);
        else
                r = print_bars(powers.bucket, BUCKETS_SHORT, bucket_short_upper, o);
        if (r < 0)
                return r;

        printf("\n%" PRIu64 " %s, %s%" PRIu64 " errors%s, p50 %s, p90 %s, p99 %s, max %s\n", (uint64_t) full.count,
               startswith(s->op, "rq-") ? "requests" : "operations", s->errors > 0 ? term_red() : "", s->errors,
               s->errors > 0 ? term_normal() : "", quantile(p50, &full, &powers, s, 0.5),
               quantile(p90, &full, &powers, s, 0.9), quantile(p99, &full, &powers, s, 0.99),
               s->max_ns > 0 ? FORMAT_NSEC(s->max_ns) : "-");

        return 0;
}

static int add_buckets(json_object *o, const Buckets *b) {
        _cleanup_(json_putp) json_object *array = NULL;

        array = json_object_new_array();
        if (!array)
                return -ENOMEM;
        for (size_t i = 0; i < b->n; i++) {
                _cleanup_(json_putp) json_object *bucket = NULL;
                uint64_t upper = b->items[i].upper_ns;
                int r;

                bucket = json_object_new_object();
                if (!bucket)
                        return -ENOMEM;
                r = upper == UINT64_MAX ? json_add(bucket, "upperNSec", NULL) :
                                          json_add_new(bucket, "upperNSec", json_object_new_uint64(upper));
                if (r < 0 || json_add_new(bucket, "count", json_object_new_uint64(b->items[i].count)) < 0 ||
                    json_object_array_add(array, bucket) < 0)
                        return -ENOMEM;
                TAKE_PTR(bucket);
        }

        return json_add(o, "buckets", TAKE_PTR(array));
}

static int print_as_json(const Subject *s, const Buckets *b, const Options *o) {
        _cleanup_(json_putp) json_object *j = NULL;

        j = json_object_new_object();
        if (!j || json_add_string(j, "unit", s->unit) < 0 || json_add_string(j, "op", s->op) < 0 ||
            json_add_string(j, "phase", s->phase) < 0 || json_add_string(j, "device", s->device) < 0 ||
            add_buckets(j, b) < 0)
                return -ENOMEM;

        return json_print(j, o->output);
}

/* The op that the unit spent the most time in. Operations come before requests, whose time is a part of theirs. */
static const char *largest_op(const Rows *rows, const Subject *s) {
        const Row *best = NULL;
        uint64_t best_sum = 0;

        for (size_t i = 0; i < rows->n; i++) {
                const Row *row = &rows->items[i];
                uint64_t sum = 0;

                if (!row->op || !row->unit || !streq(row->unit, s->unit) || row_is_dirty_age(row) ||
                    !row_is_phase(row, default_phase(row->op)))
                        continue;
                if (best && row_is_request(row) && !row_is_request(best))
                        continue;
                for (size_t j = 0; j < rows->n; j++)
                        if (rows->items[j].op && streq(rows->items[j].op, row->op) &&
                            row_is_phase(&rows->items[j], default_phase(row->op)))
                                sum += rows->items[j].sum_ns;
                if (!best || sum > best_sum) {
                        best = row;
                        best_sum = sum;
                }
        }

        return best ? best->op : NULL;
}

/* Fills in what was not given, and what only the rows tell. */
static int complete(Query *q, const Options *o, Subject *s) {
        _cleanup_(rows_clear) Rows rows = {};
        const char *op, *phase;
        int r;

        r = query_rows(q, (char *[]){ s->unit, NULL }, o->ops, NULL, &rows);
        if (r < 0)
                return r;

        op = o->ops ? o->ops[0] : largest_op(&rows, s);
        if (!op)
                return -ENODATA;
        phase = o->phases ? o->phases[0] : default_phase(op);
        s->op = strdup(op);
        s->phase = strdup(phase);
        if (!s->op || !s->phase)
                return log_oom();

        for (size_t i = 0; i < rows.n; i++) {
                const Row *row = &rows.items[i];

                if (!row->unit || !streq(row->unit, s->unit) || !row->op || !streq(row->op, op) ||
                    !row_is_phase(row, phase) || (s->device && !(row->device && streq(row->device, s->device))))
                        continue;
                s->max_ns = MAX(s->max_ns, row->max_ns);
                s->errors += row->errors;
        }

        return 0;
}

static int log_nothing(const Subject *s) {
        _cleanup_free_ char *unit = NULL;

        unit = text_escape(s->unit);
        if (!s->op)
                log_error("Nothing was measured for %s.", strempty(unit));
        else
                log_error("Nothing was measured for %s under operation %s, phase %s, %s.", strempty(unit), s->op,
                          s->phase, s->device ?: "all devices");

        return EXIT_FAILURE;
}

static int check_options(const Options *o) {
        if ((o->ops && o->ops[1]) || (o->phases && o->phases[1])) {
                log_error("A histogram is of one operation and one phase: give one name to --op= and --phase=.");
                return -EINVAL;
        }

        return 0;
}

int verb_histogram(int argc, char **argv, const Options *o) {
        _cleanup_(query_freep) Query *q = NULL;
        _cleanup_(subject_clear) Subject s = { .device = o->device };
        _cleanup_(buckets_clear) Buckets b = {};
        _cleanup_free_ char *path = NULL;
        int r;

        r = check_options(o);
        if (r < 0)
                return r;
        s.unit = unit_name_mangle(argv[1]);
        if (!s.unit)
                return log_oom();
        r = query_new(o, &q);
        if (r < 0)
                return r;

        r = query_unit_path(q, s.unit, &path);
        if (r == -ENOENT)
                return query_log_no_unit(s.unit);
        if (r < 0)
                return r;
        r = complete(q, o, &s);
        if (r >= 0)
                r = query_histogram(q, s.unit, s.op, s.phase, strempty(s.device), &b);
        if (r == -ENODATA || r == -ENOENT || (r >= 0 && b.n == 0))
                return log_nothing(&s);
        if (r < 0)
                return r;

        pager_open(o);
        r = o->output == OUTPUT_TABLE ? print_human(&s, &b, o) : print_as_json(&s, &b, o);

        return r < 0 ? log_oom() : EXIT_SUCCESS;
}
