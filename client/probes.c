/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "format.h"
#include "json.h"
#include "log.h"
#include "pager.h"
#include "query.h"
#include "table.h"
#include "term.h"
#include "text.h"

static const Column probe_columns[] = {
        { "PROBE", NULL },
        { "ATTACHED", NULL, COLUMN_SHRINK },
        { "STATE", NULL },
        { "HITS", NULL, COLUMN_RIGHT },
        { "MISSES", NULL, COLUMN_RIGHT },
        { "NS/HIT", NULL, COLUMN_RIGHT },
        { "HITS/S", NULL, COLUMN_RIGHT },
        { "CPU", NULL, COLUMN_RIGHT },
};

static const Column loss_columns[] = {
        { "LOSS", NULL },
        { "COUNT", NULL, COLUMN_RIGHT },
};

static bool is_kind(const ProbeRow *row, const char *kind) {
        /* A kind that a later daemon may have is listed among the probes rather than not at all. */
        if (streq(kind, "probe"))
                return !row->kind || (!streq(row->kind, "loss") && !streq(row->kind, "blind") &&
                                      !streq(row->kind, "floor") && !streq(row->kind, "bias"));

        return row->kind && streq(row->kind, kind);
}

static void add_number(Table *t, const ProbeRow *row, size_t offset, uint64_t n) {
        if (probe_row_has(row, offset))
                table_add_count(t, n);
        else
                table_add_empty(t);
}

/* Short, whatever the number is. */
static char *format_double(double d, const char *suffix) {
        char *s = NULL;
        int r;

        if (d > 0 && d < 0.001)
                r = text_appendf(&s, "<0.001%s", suffix);
        else if (!(d >= 0 && d < 1e12))
                r = text_appendf(&s, "%.3g%s", d, suffix);
        else
                r = text_appendf(&s, "%.*f%s", d == 0 || d >= 100 ? 0 : d >= 1 ? 1 : 3, d, suffix);

        return r < 0 ? NULL : s;
}

static char *format_percent(double share) {
        return format_double(share * 100, "%");
}

static void add_costs(Table *t, const ProbeRow *row) {
        add_number(t, row, offsetof(ProbeRow, ns_per_hit), row->ns_per_hit);
        if (PROBE_ROW_HAS(row, hits_per_sec))
                table_add_drawing(t, format_double(row->hits_per_sec, ""));
        else
                table_add_empty(t);
        if (PROBE_ROW_HAS(row, cpu_share))
                table_add_drawing(t, format_percent(row->cpu_share));
        else
                table_add_empty(t);
}

static int print_probes(const ProbeRows *p, const Options *o) {
        _cleanup_(table_freep) Table *t = NULL;

        t = table_new(probe_columns, ELEMENTSOF(probe_columns));
        if (!t)
                return -ENOMEM;
        for (size_t i = 0; i < p->n; i++) {
                const ProbeRow *row = &p->items[i];

                if (!is_kind(row, "probe"))
                        continue;
                table_add_text(t, row->probe);
                table_add_text(t, row->attached);
                table_add_text(t, row->state);
                add_number(t, row, offsetof(ProbeRow, hits), row->hits);
                add_number(t, row, offsetof(ProbeRow, misses), row->misses);
                add_costs(t, row);
                if (row->reason)
                        table_add_line(t, text_escape(row->reason));
        }

        return table_print(t, o, "probes");
}

/* What the programs cost together, and what they add to what is measured. */
static int print_bias(const ProbeRows *p) {
        double share = 0;
        bool known = false;

        for (size_t i = 0; i < p->n; i++)
                if (is_kind(&p->items[i], "probe") && PROBE_ROW_HAS(&p->items[i], cpu_share)) {
                        share += p->items[i].cpu_share;
                        known = true;
                }
        if (known) {
                _cleanup_free_ char *text = format_percent(share);

                if (!text)
                        return -ENOMEM;
                printf("\nThose whose cost is known take %s of one CPU together.\n", text);
        }
        for (size_t i = 0; i < p->n; i++) {
                _cleanup_free_ char *name = NULL, *phase = NULL, *text = NULL;
                const ProbeRow *row = &p->items[i];
                bool total;

                if (is_kind(row, "floor"))
                        printf("An empty program shows as %s a hit, which is part of each of them.\n",
                               FORMAT_NSEC(row->ns_per_hit));
                if (!is_kind(row, "bias"))
                        continue;
                name = text_escape(strempty(row->probe));
                phase = text_escape(strempty(row->phase));
                text = format_percent(row->share);
                if (!name || !phase || !text)
                        return -ENOMEM;
                total = streq(phase, "total");
                printf("Measuring adds ~%s (%s) to %s's p50 %s%s%sof %s.\n", FORMAT_NSEC(row->added_ns), text, name,
                       total ? "" : "in the ", total ? "" : phase, total ? "" : " ", FORMAT_NSEC(row->p50_ns));
        }

        return 0;
}

static int print_losses(const ProbeRows *p, const Options *o) {
        _cleanup_(table_freep) Table *t = NULL;

        t = table_new(loss_columns, ELEMENTSOF(loss_columns));
        if (!t)
                return -ENOMEM;
        for (size_t i = 0; i < p->n; i++) {
                if (!is_kind(&p->items[i], "loss"))
                        continue;
                table_add_text(t, p->items[i].probe);
                table_add_count(t, p->items[i].hits);
        }
        if (table_rows(t) == 0)
                return 0;
        fputs("\n", stdout);

        return table_print(t, o, "loss counters");
}

static int print_blind_spots(const ProbeRows *p, const Options *o) {
        bool first = true;

        for (size_t i = 0; i < p->n; i++) {
                const ProbeRow *row = &p->items[i];
                _cleanup_free_ char *title = NULL, *text = NULL;

                if (!is_kind(row, "blind"))
                        continue;
                title = text_escape(strempty(row->probe));
                text = text_escape(strempty(row->reason));
                if (!title || !text)
                        return -ENOMEM;
                if (first)
                        printf("\n%sNot seen on this host:%s\n", term_bold(), term_normal());
                first = false;
                printf("  %s%s%s\n", title, isempty(text) ? "" : ": ", text);
        }

        return 0;
}

static int print_json(const ProbeRows *p, const Options *o) {
        JsonArray array = { .mode = o->output };
        int r;

        for (size_t i = 0; i < p->n; i++) {
                r = json_array_add(&array, probe_row_to_json(&p->items[i]));
                if (r < 0)
                        return r;
        }
        json_array_end(&array);

        return 0;
}

int verb_probes(int argc, char **argv, const Options *o) {
        _cleanup_(query_freep) Query *q = NULL;
        _cleanup_(probe_rows_clear) ProbeRows p = {};
        int r;

        r = query_new(o, &q);
        if (r < 0)
                return r;
        r = query_probes(q, &p);
        if (r < 0)
                return r;

        pager_open(o);
        if (o->output != OUTPUT_TABLE)
                r = print_json(&p, o);
        else {
                r = print_probes(&p, o);
                if (r >= 0)
                        r = print_bias(&p);
                if (r >= 0)
                        r = print_losses(&p, o);
                if (r >= 0)
                        r = print_blind_spots(&p, o);
        }

        return r < 0 ? log_oom() : EXIT_SUCCESS;
}
