/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <curses.h>
#include <inttypes.h>

#include "term.h"
#include "text.h"
#include "top-screen.h"
#include "top-text.h"

enum {
        HEADER_LINES = 3,
        FOOTER_LINES = 1,
        BAR_WIDTH_MAX = 512,
        TIME_MAX = 32,
        PAIR_WARNING = 3, /* pairs have the numbers of their colours */
        PAIR_ERROR = 1,
        PAIRS = 7,
        NAMES_MAX = 16, /* of phases in the legend */
};

static bool colours = false;

void top_draw_init(void) {
        if (!term_colours() || !has_colors() || start_color() == ERR)
                return;
        (void) use_default_colors();
        for (short i = 1; i <= PAIRS; i++)
                (void) init_pair(i, i, -1);
        colours = true;
}

size_t top_draw_rows(void) {
        return LINES > HEADER_LINES + FOOTER_LINES ? (size_t) (LINES - HEADER_LINES - FOOTER_LINES) : 0;
}

static attr_t pair(short n, attr_t more) {
        return (colours ? (attr_t) COLOR_PAIR(n) : A_NORMAL) | more;
}

static attr_t share_attr(const char *name) {
        size_t i = share_colour(name);
        bool bold;
        int colour;

        if (!colours || i == SIZE_MAX)
                return A_NORMAL;
        colour = term_palette_colour(i, &bold);

        return (attr_t) COLOR_PAIR(colour) | (bold ? A_BOLD : A_NORMAL);
}

/* Our own or escaped text in a field of that width, cut where it is too long. */
static void put(int y, size_t x, size_t width, bool right, const char *text) {
        _cleanup_free_ char *cut = NULL;
        size_t n;

        if (x >= (size_t) COLS)
                return;
        width = MIN(width, (size_t) COLS - x);
        cut = text_ellipsize(strempty(text), width);
        if (!cut)
                return;
        n = text_width(cut);
        (void) mvaddstr(y, (int) (x + (right ? width - MIN(n, width) : 0)), cut);
}

static void put_escaped(int y, size_t x, size_t width, const char *text) {
        _cleanup_free_ char *escaped = NULL;

        escaped = text_escape(strempty(text));
        put(y, x, width, false, escaped);
}

/* Appends a part to a line, two blanks after the one before. Returns where the next one goes. */
static size_t put_part(int y, size_t x, attr_t attr, const char *text) {
        size_t n = text_width(text);

        if (x >= (size_t) COLS)
                return x;
        (void) attrset(attr);
        put(y, x, n, false, text);
        (void) attrset(A_NORMAL);

        return x + n + 2;
}

static void draw_first_line(const Screen *s) {
        _cleanup_free_ char *tier = NULL, *text = NULL;
        char clock[TIME_MAX] = "";
        time_t now = time(NULL);
        struct tm tm;
        size_t x;

        if (localtime_r(&now, &tm))
                (void) strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
        x = put_part(0, 0, A_BOLD, s->host);
        x = put_part(0, x, A_NORMAL, clock);
        if (s->info.tier) {
                tier = text_escape(s->info.tier);
                if (tier && asprintf(&text, "tier %s", tier) >= 0)
                        x = put_part(0, x, A_NORMAL, text);
        }
        if (s->info.degraded)
                x = put_part(0, x, pair(PAIR_WARNING, A_BOLD), "DEGRADED");
        if (s->info.lost > 0) {
                char lost[FORMAT_MAX];

                snprintf(lost, sizeof(lost), "lost %" PRIu64, s->info.lost);
                x = put_part(0, x, pair(PAIR_ERROR, A_BOLD), lost);
        }
        free(text);
        text = NULL;
        if (asprintf(&text, "every %s", FORMAT_NSEC(s->delay_ns)) < 0)
                text = NULL;
        else if (x + text_width(text) <= (size_t) COLS)
                put(0, x, (size_t) COLS - x, true, text);
}

static const char *format_wait(char buf[static FORMAT_MAX], const Screen *s, uint64_t sum_ns) {
        if (s->absolute)
                return top_format_nsec(buf, top_whole_per_second(&s->model, sum_ns));

        return top_format_share(buf, top_per_second(&s->model, sum_ns) / (double) NSEC_PER_SEC);
}

static void draw_totals(const Screen *s) {
        TopDelta sum = top_model_sum(&s->model);
        char text[4 * FORMAT_MAX], a[FORMAT_MAX], b[FORMAT_MAX];
        size_t x;

        snprintf(text, sizeof(text), "units %zu  ops/s %s  wait/s %s", top_model_units(&s->model),
                 top_format_rate(a, top_per_second(&s->model, sum.count)), format_wait(b, s, sum.sum_ns));
        x = put_part(1, 0, A_NORMAL, text);
        snprintf(text, sizeof(text), "errors %" PRIu64, sum.errors);
        x = put_part(1, x, sum.errors > 0 ? pair(PAIR_ERROR, A_BOLD) : A_NORMAL, text);
        snprintf(text, sizeof(text), "in %s", FORMAT_NSEC(s->model.interval_ns));
        x = put_part(1, x, A_NORMAL, text);
        snprintf(text, sizeof(text), "by %s%s", top_sort_to_string(s->order.sort),
                 s->order.reverse ? " (reverse)" : "");
        x = put_part(1, x, A_NORMAL, text);
        if (s->filter) {
                _cleanup_free_ char *escaped = text_escape(s->filter), *filter = NULL;

                if (escaped && asprintf(&filter, "filter %s", escaped) >= 0)
                        (void) put_part(1, x, A_BOLD, filter);
        }
}

static void draw_second_line(const Screen *s) {
        const char *error = top_source_error(s->source);

        if (error) {
                (void) attrset(pair(PAIR_ERROR, A_BOLD));
                put_escaped(1, 0, (size_t) COLS, error);
                (void) attrset(A_NORMAL);
        } else if (s->in_detail) {
                _cleanup_free_ char *name = NULL;

                if (asprintf(&name, "%s%s%s", strempty(s->unit), s->user_unit ? " " : "",
                             strempty(s->user_unit)) >= 0) {
                        (void) attrset(A_BOLD);
                        put_escaped(1, 0, (size_t) COLS, name);
                        (void) attrset(A_NORMAL);
                } else
                        name = NULL;
        } else if (s->model.interval_ns > 0)
                draw_totals(s);
}

static void draw_columns(const size_t widths[static _TOP_COLUMN_MAX], bool detail) {
        size_t x = 0;

        (void) attrset(A_REVERSE);
        (void) mvhline(HEADER_LINES - 1, 0, ' ', COLS);
        for (size_t c = 0; c < _TOP_COLUMN_MAX; c++) {
                if (widths[c] == 0)
                        continue;
                put(HEADER_LINES - 1, x, widths[c], top_column_is_number(c), top_column_header(c, detail));
                x += widths[c] + 1;
        }
        (void) attrset(A_NORMAL);
}

static void draw_bar(int y, size_t x, const Share *shares, size_t n, size_t width, attr_t selected) {
        size_t cells[BAR_WIDTH_MAX];

        width = MIN(width, (size_t) BAR_WIDTH_MAX);
        top_bar(shares, n, width, cells);
        for (size_t i = 0; i < width && cells[i] < n && x + i < (size_t) COLS; i++) {
                const char *name = shares[cells[i]].name;

                (void) attrset(share_attr(name) | selected);
                (void) mvaddch(y, (int) (x + i), (chtype) share_letter(name));
        }
        (void) attrset(selected);
}

/* The bar of one phase is as long as its part of all. */
static void draw_phase_bar(int y, size_t x, const TopLine *line, size_t width, attr_t selected) {
        uint64_t all = line->entry->delta.sum_ns, part = MIN(line->delta->sum_ns, all);
        Share shares[] = { { line->phase->phase, part }, { NULL, all - part } };
        size_t cells[BAR_WIDTH_MAX], n = 0;

        width = MIN(width, (size_t) BAR_WIDTH_MAX);
        if (part == 0 || isempty(line->phase->phase))
                return;
        top_bar(shares, ELEMENTSOF(shares), width, cells);
        while (n < width && cells[n] == 0)
                n++;
        draw_bar(y, x, shares, 1, MAX(n, (size_t) 1), selected);
}

static void name_of(const Screen *s, const TopLine *line, char **ret) {
        const Row *row = line->entry->row;
        const char *async = row->async ? "&" : "";
        int r;

        *ret = NULL;
        if (line->phase)
                r = asprintf(ret, "  %c %s", share_letter(strempty(line->phase->phase)), strempty(line->phase->phase));
        else if (s->in_detail)
                r = asprintf(ret, "%s%s%s%s", strempty(row->op), async, row->origin ? " " : "", strempty(row->origin));
        else if (row->user_unit)
                r = asprintf(ret, "%s %s", row->user_unit, strempty(row->unit));
        else
                r = asprintf(ret, "%s", strempty(row->unit));
        if (r < 0)
                *ret = NULL;
}

static void draw_text_cell(const Screen *s, int y, size_t x, size_t width, TopColumn c, const TopLine *line) {
        _cleanup_free_ char *text = NULL;

        switch (c) {
        case TOP_NAME:
                name_of(s, line, &text);
                put_escaped(y, x, width, text);
                return;
        case TOP_OP:
                if (asprintf(&text, "%s%s", strempty(line->entry->row->op), line->entry->row->async ? "&" : "") < 0)
                        text = NULL;
                put_escaped(y, x, width, text);
                return;
        case TOP_DEVICE:
                put_escaped(y, x, width, line->phase ? "" : line->entry->row->device);
                return;
        case TOP_TREND:
                text = line->phase ? NULL : top_trend(line->entry->history, TOP_HISTORY, width);
                put(y, x, width, false, text);
                return;
        default:
                return;
        }
}

static const char *format_cell(char buf[static FORMAT_MAX], const Screen *s, TopColumn c, const TopLine *line) {
        const Row *row = line->phase ?: line->entry->row;
        const TopDelta *d = line->delta;

        switch (c) {
        case TOP_RATE:
                return top_format_rate(buf, top_per_second(&s->model, d->count));
        case TOP_BYTES:
                return line->phase || !ROW_HAS(row, bytes) ? "-" :
                        format_bytes(buf, top_whole_per_second(&s->model, d->bytes));
        case TOP_WAIT:
                return format_wait(buf, s, d->sum_ns);
        case TOP_MEAN:
                return d->count == 0 ? "-" : top_format_nsec(buf, d->sum_ns / d->count);
        case TOP_P99:
                return d->p99_ns > 0 ? top_format_nsec(buf, d->p99_ns) : "-";
        case TOP_ERRORS:
                snprintf(buf, FORMAT_MAX, d->errors > 999 ? "1k+" : "%" PRIu64, d->errors);
                return line->phase ? "" : buf;
        default:
                return "";
        }
}

static void draw_line(const Screen *s, int y, const size_t widths[static _TOP_COLUMN_MAX], const TopLine *line,
                      bool is_selected) {
        attr_t selected = is_selected ? A_REVERSE : A_NORMAL;
        size_t x = 0;

        (void) attrset(selected);
        if (is_selected)
                (void) mvhline(y, 0, ' ', COLS);
        for (size_t c = 0; c < _TOP_COLUMN_MAX; c++) {
                char buf[FORMAT_MAX] = "";

                if (widths[c] == 0)
                        continue;
                if (c == TOP_ERRORS && !line->phase && line->delta->errors > 0)
                        (void) attrset(pair(PAIR_ERROR, A_BOLD) | selected);
                if (c == TOP_PHASES && line->phase)
                        draw_phase_bar(y, x, line, widths[c], selected);
                else if (c == TOP_PHASES)
                        draw_bar(y, x, line->entry->shares, line->entry->n_shares, widths[c], selected);
                else if (top_column_is_number(c))
                        put(y, x, widths[c], true, format_cell(buf, s, c, line));
                else
                        draw_text_cell(s, y, x, widths[c], c, line);
                (void) attrset(selected);
                x += widths[c] + 1;
        }
        (void) attrset(A_NORMAL);
}

static void draw_rows(Screen *s) {
        TopSelection *at = s->in_detail ? &s->detail_at : &s->list_at;
        size_t n = s->in_detail ? s->detail.n_lines : s->n_list, height = top_draw_rows();
        size_t widths[_TOP_COLUMN_MAX];

        top_layout(s->in_detail, (size_t) COLS, widths);
        draw_columns(widths, s->in_detail);
        top_selection_scroll(at, n, height);
        for (size_t i = at->first; i < n && i < at->first + height; i++) {
                TopLine line = s->in_detail ? s->detail.lines[i] :
                                              (TopLine){ .entry = s->list[i], .delta = &s->list[i]->delta };

                draw_line(s, HEADER_LINES + (int) (i - at->first), widths, &line, i == at->index);
        }
        if (n == 0)
                put(HEADER_LINES, 0, (size_t) COLS, false,
                    s->model.interval_ns == 0 ? "Waiting for the first interval to end." :
                    s->in_detail              ? "This unit is not counted any more." :
                    s->filter                 ? "Nothing that matches has waited." :
                                                "Nothing has waited.");
}

/* Adds the names that are not there yet, those of the most important row first. */
static void collect_names(const char *names[static NAMES_MAX], size_t *n, const TopEntry *e) {
        for (size_t i = 0; i < e->n_shares; i++) {
                size_t k = 0;

                while (k < *n && !streq(names[k], e->shares[i].name))
                        k++;
                if (k == *n && *n < NAMES_MAX)
                        names[(*n)++] = e->shares[i].name;
        }
}

static void draw_legend(const Screen *s) {
        const char *names[NAMES_MAX];
        size_t n = 0, x = 0;
        int y = LINES - FOOTER_LINES;

        if (s->editing) {
                _cleanup_free_ char *escaped = text_escape(s->edit);

                put(y, 0, 1, false, "/");
                put(y, 1, (size_t) COLS - 2, false, escaped);
                return;
        }
        if (s->in_detail)
                for (size_t i = 0; i < s->detail.n_entries; i++)
                        collect_names(names, &n, &s->detail.entries[i]);
        else
                for (size_t i = s->list_at.first; i < s->n_list && i < s->list_at.first + top_draw_rows(); i++)
                        collect_names(names, &n, s->list[i]);
        x = put_part(y, 0, A_BOLD, "? help");
        for (size_t i = 0; i < n; i++) {
                _cleanup_free_ char *escaped = text_escape(names[i]);

                if (!escaped || x + 2 + text_width(escaped) > (size_t) COLS)
                        break;
                (void) attrset(share_attr(names[i]));
                (void) mvaddch(y, (int) x, (chtype) share_letter(names[i]));
                x = put_part(y, x + 2, share_attr(names[i]), escaped);
        }
}

static void draw_help(void) {
        static const char *const lines[] = {
                "t p n l e d  sort by wait, unit, ops/s,",
                "             p99, errors, device",
                "r            reverse the order",
                "%            share or time of WAIT/S",
                "+ -          longer or shorter interval",
                "Space Ctrl-L refresh now, draw again",
                "arrows PgUp PgDn Home End   move",
                "Enter        look into the unit",
                "Esc          back, drop the filter",
                "/            filter by name or pattern",
                "q            quit",
                "",
                "WAIT/S: waits of all processes in a second",
                "P99: 99 of 100 in the interval took no longer",
                "TREND: MEAN of the last intervals; op&: async",
        };

        for (size_t i = 0; i < ELEMENTSOF(lines) && (int) i + 1 < LINES; i++)
                put((int) i, 0, (size_t) COLS, false, lines[i]);
        (void) attrset(A_BOLD);
        put(LINES - 1, 0, (size_t) COLS, false, "Any key goes back.");
        (void) attrset(A_NORMAL);
}

void top_draw(Screen *s) {
        (void) erase();
        if (COLS < TOP_COLUMNS_MIN || LINES < TOP_LINES_MIN)
                put(0, 0, (size_t) COLS, false, "terminal too small");
        else if (s->help)
                draw_help();
        else {
                draw_first_line(s);
                draw_second_line(s);
                draw_rows(s);
                draw_legend(s);
        }
        (void) refresh();
}
