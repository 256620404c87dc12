/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>

#include "format.h"
#include "json.h"
#include "log.h"
#include "pager.h"
#include "range.h"
#include "seen.h"
#include "stall-text.h"
#include "table.h"
#include "term.h"
#include "text.h"
#include "timestamp.h"

/* Several signals that come at once need one look only, and without any there is one now and then as long as
 * something is in progress: a signal can be lost. */
#define WAKE_DELAY_US (50 * USEC_PER_MSEC)
#define POLL_INTERVAL_US (5 * USEC_PER_SEC)

/* A daemon that was started anew has to read what was before, and says nothing when it has. */
#define SETTLE_US (30 * USEC_PER_SEC)

enum {
        N_PRIVATE_COLUMNS = 3,
};

static const Column columns[] = {
        { "TIME", NULL },
        { "UNIT", NULL, COLUMN_SHRINK },
        { "OP", NULL },
        { "STATE", NULL },
        { "TOTAL", NULL, COLUMN_RIGHT },
        { "PHASE", NULL },
        { "DEVICE/MOUNT", NULL, COLUMN_SHRINK },
        { "ERROR", NULL },
        /* For root only */
        { "PID", NULL, COLUMN_RIGHT },
        { "COMM", NULL, COLUMN_SHRINK },
        { "FILE", NULL, COLUMN_SHRINK },
};

typedef struct Stalls {
        Query *query;
        const Options *options;
        char **patterns;
        Range range;

        Table *table; /* NULL until there is something to show */
        bool is_private;
        size_t n_shown;

        /* With --follow */
        Seen *seen;
        sd_event_source *timer;
        bool looked;
        uint64_t settled_us; /* CLOCK_MONOTONIC, 0: nothing is to come but with a signal */
} Stalls;

static void stalls_clear(Stalls *s) {
        sd_event_source_unref(s->timer);
        query_free(s->query);
        strv_free(s->patterns);
        table_free(s->table);
        seen_free(s->seen);
}

static bool is_private(const StallRow *row) {
        return STALL_HAS(row, pid) || STALL_HAS(row, comm) || STALL_HAS(row, file);
}

static int make_table(Stalls *s, const StallRows *rows, size_t first) {
        for (size_t i = first; i < rows->n; i++)
                s->is_private = s->is_private || is_private(&rows->items[i]);
        s->table = table_new(columns, ELEMENTSOF(columns) - (s->is_private ? 0 : N_PRIVATE_COLUMNS));

        return s->table ? 0 : -ENOMEM;
}

static int add_row(Stalls *s, const StallRow *row) {
        _cleanup_free_ char *phase = NULL, *pid = NULL;
        Table *t = s->table;

        phase = stall_phase_text(row);
        if (!phase)
                return -ENOMEM;

        table_add_text(t, FORMAT_TIMESTAMP_SHORT(row->start_us));
        table_add_text(t, row->unit);
        table_add_text(t, row->op);
        table_add_text(t, row->state);
        if (STALL_HAS(row, total_ns))
                table_add_nsec(t, row->total_ns);
        else
                table_add_empty(t);
        table_add_text(t, phase);
        table_add_text(t, row->mount_point ?: row->device);
        table_add_text(t, row->error);
        if (!s->is_private)
                return 0;

        if (STALL_HAS(row, pid) && asprintf(&pid, "%i", (int) row->pid) < 0)
                return -ENOMEM;
        table_add_text(t, pid);
        table_add_text(t, row->comm);
        table_add_text(t, row->file);

        return 0;
}

static void filter(const Stalls *s, StallRows *rows) {
        size_t kept = 0;

        for (size_t i = 0; i < rows->n; i++) {
                StallRow *row = &rows->items[i];

                if (unit_name_matches(s->patterns, row->unit) && strv_allows(s->options->ops, row->op) &&
                    strv_allows(s->options->phases, row->phase) && row->total_ns >= s->options->min_ns)
                        rows->items[kept++] = *row;
                else
                        stall_row_clear(row);
        }
        rows->n = kept;
}

static int query(const Stalls *s, StallRows *ret) {
        int r;

        r = query_stalls(s->query, &s->range, ret);
        if (r < 0)
                return r;
        filter(s, ret);

        return 0;
}

/* The first of those that --lines= leaves. */
static size_t first_wanted(const Stalls *s, const StallRows *rows) {
        return rows->n - (size_t) MIN((uint64_t) rows->n, s->options->lines);
}

static int print_json(const Stalls *s, const StallRows *rows) {
        JsonArray array = { .mode = s->options->output };
        int r;

        for (size_t i = first_wanted(s, rows); i < rows->n; i++) {
                r = json_array_add(&array, stall_row_to_json(&rows->items[i]));
                if (r < 0)
                        return r;
        }
        json_array_end(&array);

        return 0;
}

static int print_table(Stalls *s, const StallRows *rows) {
        int r;

        r = make_table(s, rows, first_wanted(s, rows));
        for (size_t i = first_wanted(s, rows); i < rows->n && r >= 0; i++)
                r = add_row(s, &rows->items[i]);
        if (r < 0)
                return r;

        return table_print(s->table, s->options, "stalls");
}

/* How far back the daemon remembers: it keeps a number of stalls, not a time. */
static int print_oldest(const Stalls *s) {
        _cleanup_(stall_rows_clear) StallRows all = {};
        static const Range any = { .until_us = UINT64_MAX };
        int r;

        if (!s->options->legend || s->options->output != OUTPUT_TABLE)
                return 0;
        r = query_stalls(s->query, &any, &all);
        if (r < 0)
                return r;
        if (all.n == 0)
                puts("iolatd remembers no stalls at all.");
        else
                printf("The oldest one that iolatd remembers began %s.\n", FORMAT_TIMESTAMP(all.items[0].start_us));

        return 0;
}

static int show_once(Stalls *s) {
        _cleanup_(stall_rows_clear) StallRows rows = {};
        int r;

        r = query(s, &rows);
        if (r < 0)
                return r;

        pager_open(s->options);
        r = s->options->output == OUTPUT_TABLE ? print_table(s, &rows) : print_json(s, &rows);
        if (r < 0)
                return log_oom();

        return s->range.since_us > 0 ? print_oldest(s) : 0;
}

static int show_news(Stalls *s, const StallRows *rows, size_t first) {
        const Options *o = s->options;
        int r = 0;

        if (o->output == OUTPUT_TABLE && !s->table && rows->n > first)
                r = make_table(s, rows, first);
        seen_begin(s->seen);
        for (size_t i = 0; i < rows->n && r >= 0; i++) {
                const StallRow *row = &rows->items[i];
                _cleanup_(json_putp) json_object *j = NULL;

                if (!seen_note(s->seen, row) || i < first)
                        continue;
                if (o->output == OUTPUT_TABLE) {
                        r = add_row(s, row);
                        continue;
                }
                j = stall_row_to_json(row);
                r = j ? json_print(j, o->output) : -ENOMEM;
        }
        seen_end(s->seen);
        if (r >= 0 && s->table)
                r = table_flush(s->table, o);

        return r;
}

/* Sleeps until the next signal, or not for so long. */
static int arm(Stalls *s) {
        int r;

        if (s->settled_us > 0) {
                uint64_t now;

                r = sd_event_now(query_event(s->query), CLOCK_MONOTONIC, &now);
                if (r < 0)
                        return r;
                if (now >= s->settled_us) {
                        s->settled_us = 0;
                        seen_settled(s->seen);
                }
        }
        if (s->settled_us == 0 && !seen_any_in_progress(s->seen))
                return sd_event_source_set_enabled(s->timer, SD_EVENT_OFF);
        r = sd_event_source_set_time_relative(s->timer, POLL_INTERVAL_US);
        if (r < 0)
                return r;

        return sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
}

static int look(Stalls *s) {
        _cleanup_(stall_rows_clear) StallRows rows = {};
        int r;

        r = query(s, &rows);
        if (r < 0)
                return r;
        if (show_news(s, &rows, s->looked ? 0 : first_wanted(s, &rows)) < 0)
                return log_oom();
        s->looked = true;
        /* The reason is told at the exit. */
        if (fflush(stdout) != 0)
                return sd_event_exit(query_event(s->query), 0);

        return arm(s);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        Stalls *s = userdata;
        int r;

        r = look(s);

        return r < 0 && r != -ECONNRESET ? sd_event_exit(query_event(s->query), r) : 0;
}

static int on_stall(sd_bus_message *m, void *userdata, sd_bus_error *reterr_error) {
        Stalls *s = userdata;
        int r;

        r = sd_event_source_set_time_relative(s->timer, WAKE_DELAY_US);
        if (r >= 0)
                r = sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);

        return r < 0 ? sd_event_exit(query_event(s->query), r) : 0;
}

static int on_back(void *userdata) {
        Stalls *s = userdata;
        uint64_t now;
        int r;

        r = sd_event_now(query_event(s->query), CLOCK_MONOTONIC, &now);
        if (r < 0)
                return r;
        seen_restarted(s->seen);
        s->settled_us = now + SETTLE_US;

        return look(s);
}

static int follow(Stalls *s) {
        const QueryWatch watch = { .signal = "Stall", .on_signal = on_stall, .on_back = on_back, .userdata = s };
        int r;

        if (seen_new(&s->seen) < 0)
                return log_oom();
        /* Before the first look, so that nothing falls between. */
        r = query_watch(s->query, &watch);
        if (r < 0)
                return r;
        r = sd_event_add_time(query_event(s->query), &s->timer, CLOCK_MONOTONIC, UINT64_MAX, 0, on_timer, s);
        if (r < 0)
                return log_error_errno(r, "Cannot set up a timer: %m");
        r = look(s);
        if (r < 0 && r != -ECONNRESET)
                return r;

        return query_run(s->query);
}

int verb_stalls(int argc, char **argv, const Options *o) {
        _cleanup_(stalls_clear) Stalls s = { .options = o };
        int r;

        if (o->follow && o->until_us != UINT64_MAX) {
                log_error("--follow goes on into the future: it cannot be used with --until=.");
                return -EINVAL;
        }
        r = range_from_options(o, &s.range);
        if (r < 0)
                return r;
        if (unit_names_mangle(argc - 1, argv + 1, &s.patterns) < 0)
                return log_oom();
        r = query_new(o, &s.query);
        if (r < 0)
                return r;
        r = o->follow ? follow(&s) : show_once(&s);

        return r < 0 ? r : EXIT_SUCCESS;
}
