/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>

#include "format.h"
#include "json.h"
#include "log.h"
#include "query.h"
#include "stall-text.h"
#include "term.h"
#include "text.h"
#include "timestamp.h"
#include "waterfall.h"

enum {
        INDENT = 2,
        INDENT_NESTED = 2,
        NAME_WIDTH_MIN = 12,
        NAME_WIDTH_MAX = 30,
        TIME_WIDTH = 9,      /* "999.9ms", "23h 59min" */
        BESIDE_BAR = 4,      /* blanks between the three */
        BAR_WIDTH_MIN = 10,
        BAR_WIDTH_MAX = 120, /* more is not seen better */
};

typedef struct Trace {
        Query *query;
        const Options *options;
        char *unit;       /* "": all */
        uint64_t n_shown;
        uint64_t n_bad;   /* signals that made no sense */
        uint64_t lost;
} Trace;

static void trace_clear(Trace *t) {
        query_free(t->query);
        free(t->unit);
}

static int print_escaped(const char *format, const char *s) _printf_(1, 0);
static int print_escaped(const char *format, const char *s) {
        _cleanup_free_ char *escaped = NULL;

        if (isempty(s))
                return 0;
        escaped = text_escape(s);
        if (!escaped)
                return -ENOMEM;
        printf(format, escaped);

        return 0;
}

static bool is_failed(const StallRow *row) {
        return row->error || (row->state && streq(row->state, "failed"));
}

/* "2026-11-30 12:00:01.234567 db.service fsync 4.012s on /var (8:1)", and who it was in a second line. */
static int print_header(const StallRow *row) {
        _cleanup_free_ char *place = NULL;
        int r;

        place = stall_place_text(row->mount_point, row->device);
        if (!place)
                return -ENOMEM;

        printf("%s%s.%06" PRIu64, term_bold(), FORMAT_TIMESTAMP_SHORT(row->start_us), row->start_us % USEC_PER_SEC);
        r = print_escaped(" %s", row->unit ?: "-");
        if (r >= 0)
                r = print_escaped(" %s", row->op ?: "-");
        if (r < 0)
                return r;
        printf(" %s%s", STALL_HAS(row, total_ns) ? FORMAT_NSEC(row->total_ns) : "-", term_normal());
        r = print_escaped(" on %s", place);
        if (r >= 0 && is_failed(row)) {
                printf(", %sfailed", term_red());
                r = print_escaped(": %s", row->error);
                fputs(term_normal(), stdout);
        }
        fputs("\n", stdout);
        if (r < 0 || (!row->file && !row->comm && !STALL_HAS(row, pid)))
                return r;

        printf("%*s", INDENT, "");
        r = print_escaped("%s", row->file);
        if (r >= 0)
                r = print_escaped(row->file ? ", by %s" : "by %s", row->comm);
        if (STALL_HAS(row, pid))
                printf("%s%" PRIi32, row->comm ? "[" : row->file ? ", by " : "by ", row->pid);
        if (STALL_HAS(row, pid) && STALL_HAS(row, thread) && row->thread != row->pid)
                printf("/%" PRIi32, row->thread);
        puts(row->comm && STALL_HAS(row, pid) ? "]" : "");

        return r;
}

static size_t line_name_width(const WaterfallLine *l) {
        return l->depth * INDENT_NESTED + text_width(l->span->name);
}

static int print_line(const WaterfallLine *l, size_t name_width, unsigned bar_width, size_t color) {
        _cleanup_free_ char *escaped = NULL, *name = NULL, *bar = NULL;
        size_t room = name_width - MIN(name_width, (size_t) l->depth * INDENT_NESTED);

        escaped = text_escape(l->span->name);
        name = escaped ? text_ellipsize(escaped, room) : NULL;
        bar = waterfall_bar(l, bar_width);
        if (!name || !bar)
                return -ENOMEM;
        printf("%*s%s%*s  %s%s%s %*s\n", (int) (INDENT + l->depth * INDENT_NESTED), "", name,
               (int) (room - MIN(room, text_width(name))), "", term_palette(color), bar, term_normal(), TIME_WIDTH,
               FORMAT_NSEC(l->ns));

        return 0;
}

/* The same name has the same colour throughout an operation. */
static size_t find_color(const WaterfallLine *lines, size_t i) {
        size_t color = 0;

        for (size_t k = 0; k < i; k++) {
                bool is_first = true;

                if (streq(lines[k].span->name, lines[i].span->name))
                        return color;
                for (size_t p = 0; p < k && is_first; p++)
                        is_first = !streq(lines[p].span->name, lines[k].span->name);
                color += is_first;
        }

        return color;
}

static int print_spans(const Spans *spans, uint64_t total_ns, size_t name_width) {
        _cleanup_free_ WaterfallLine *lines = NULL;
        unsigned beside = (unsigned) (INDENT + name_width + BESIDE_BAR + TIME_WIDTH), bar_width;
        size_t n;
        int r;

        bar_width = MAX(term_columns(), beside + BAR_WIDTH_MIN) - beside;
        bar_width = MIN(bar_width, (unsigned) BAR_WIDTH_MAX);
        lines = calloc(spans->n + 1, sizeof(WaterfallLine));
        if (!lines)
                return -ENOMEM;
        n = waterfall_layout(spans->items, spans->n, total_ns, bar_width, lines);
        for (size_t i = 0; i < n; i++) {
                r = print_line(&lines[i], name_width, bar_width, find_color(lines, i));
                if (r < 0)
                        return r;
        }

        return 0;
}

/* Wide enough for the names of both kinds, so that their bars are below each other. */
static int find_name_width(const StallRow *row, size_t *ret) {
        const Spans *both[] = { &row->spans, &row->journal };
        size_t width = NAME_WIDTH_MIN;

        for (size_t i = 0; i < ELEMENTSOF(both); i++) {
                _cleanup_free_ WaterfallLine *lines = NULL;
                size_t n;

                lines = calloc(both[i]->n + 1, sizeof(WaterfallLine));
                if (!lines)
                        return -ENOMEM;
                n = waterfall_layout(both[i]->items, both[i]->n, row->total_ns, 1, lines);
                for (size_t k = 0; k < n; k++)
                        width = MAX(width, line_name_width(&lines[k]));
        }
        *ret = MIN(width, (size_t) NAME_WIDTH_MAX);

        return 0;
}

/* "journal, transaction 4711, held by bulk.service 81%, db.service 12%:" */
static int print_journal_title(const StallRow *row) {
        int r;

        printf("%*sjournal", INDENT, "");
        if (STALL_HAS(row, transaction))
                printf(", transaction %" PRIu32, row->transaction);
        for (size_t i = 0; i < row->owners.n; i++) {
                fputs(i == 0 ? ", held by " : ", ", stdout);
                r = print_escaped("%s", row->owners.items[i].unit);
                if (r < 0)
                        return r;
                printf(" %.0f%%", row->owners.items[i].share * 100);
        }
        puts(row->journal.n > 0 ? ":" : "");

        return 0;
}

static int print_operation(const StallRow *row) {
        size_t name_width;
        int r;

        r = find_name_width(row, &name_width);
        if (r >= 0)
                r = print_header(row);
        if (r >= 0)
                r = print_spans(&row->spans, row->total_ns, name_width);
        if (r >= 0 && (row->journal.n > 0 || row->owners.n > 0))
                r = print_journal_title(row);
        if (r >= 0)
                r = print_spans(&row->journal, row->total_ns, name_width);
        if (r >= 0)
                fputs("\n", stdout);

        return r;
}

static int show(const StallRow *row, const Options *o) {
        _cleanup_(json_putp) json_object *j = NULL;

        if (o->output == OUTPUT_TABLE)
                return print_operation(row);
        j = operation_to_json(row);

        return j ? json_print(j, o->output) : -ENOMEM;
}

static void note_lost(Trace *t, const StallRow *row) {
        if (row->lost > t->lost)
                log_warning("%" PRIu64 " operations were not shown: there were too many at once.",
                            row->lost - t->lost);
        t->lost = row->lost;
}

static int on_operation(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        _cleanup_(stall_row_clear) StallRow row = {};
        Trace *t = userdata;
        int r;

        r = operation_read(m, &row);
        if (r == -ENOMEM)
                return sd_event_exit(query_event(t->query), log_oom());
        if (r < 0) {
                t->n_bad++;
                return 0;
        }
        /* What the daemon still sends of what was asked for before. */
        if (row.total_ns < t->options->min_ns || !strv_allows(t->options->ops, row.op))
                return 0;

        note_lost(t, &row);
        if (show(&row, t->options) < 0)
                return sd_event_exit(query_event(t->query), log_oom());
        /* Why it fails is told at the exit. */
        if (fflush(stdout) != 0 || ++t->n_shown >= t->options->lines)
                return sd_event_exit(query_event(t->query), 0);

        return 0;
}

/* Also at the start. */
static int on_back(void *userdata) {
        Trace *t = userdata;

        t->lost = 0; /* it counts anew */

        return query_trace(t->query, t->unit, t->options->min_ns);
}

int verb_trace(int argc, char **argv, const Options *o) {
        _cleanup_(trace_clear) Trace t = { .options = o };
        const QueryWatch watch = {
                .signal = "Operation",
                .on_signal = on_operation,
                .on_back = on_back,
                .userdata = &t,
        };
        int r;

        if (o->lines == 0)
                return EXIT_SUCCESS;
        t.unit = argc > 1 ? unit_name_mangle(argv[1]) : strdup("");
        if (!t.unit)
                return log_oom();
        if (unit_name_is_pattern(t.unit)) {
                log_error("Only one unit or all of them can be traced, not a pattern.");
                return -EINVAL;
        }
        r = query_new(o, &t.query);
        if (r < 0)
                return r;
        /* Before the request, so that the first is not missed. */
        r = query_watch(t.query, &watch);
        if (r < 0)
                return r;
        r = on_back(&t);
        if (r == -ENOENT || r == -ESRCH)
                return query_log_no_unit(t.unit);
        if (r < 0 && r != -ECONNRESET)
                return r;

        r = query_run(t.query);
        if (r == -ENOENT || r == -ESRCH)
                return query_log_no_unit(t.unit);
        if (t.n_bad > 0)
                log_warning("%" PRIu64 " operations made no sense. Are iolatctl and iolatd of the same version?",
                            t.n_bad);

        return r < 0 ? r : EXIT_SUCCESS;
}
