/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <inttypes.h>

#include "format.h"
#include "json.h"
#include "table.h"
#include "term.h"
#include "text.h"

enum {
        SHRUNK_WIDTH_MIN = 6, /* a cut cell keeps at least that much, or its header */
        GAP = 1,
};

typedef struct Cell {
        char *text; /* NULL: empty */
        json_object *json;
        size_t width;
} Cell;

typedef struct Line {
        size_t after; /* number of rows above it */
        char *text;
} Line;

struct Table {
        const Column *columns;
        size_t n_columns;
        unsigned indent;

        Cell *cells;
        size_t n_cells, allocated_cells;
        Line *lines;
        size_t n_lines;

        size_t flushed_widths[TABLE_COLUMNS_MAX]; /* of what was printed already */
        bool flushed;

        int error;
};

Table *table_new(const Column *columns, size_t n_columns) {
        Table *t;

        if (n_columns == 0 || n_columns > TABLE_COLUMNS_MAX)
                return NULL;
        t = calloc(1, sizeof(Table));
        if (!t)
                return NULL;
        t->columns = columns;
        t->n_columns = n_columns;

        return t;
}

static void clear(Table *t) {
        for (size_t i = 0; i < t->n_cells; i++) {
                free(t->cells[i].text);
                json_object_put(t->cells[i].json);
        }
        for (size_t i = 0; i < t->n_lines; i++)
                free(t->lines[i].text);
        t->n_cells = t->n_lines = 0;
}

Table *table_free(Table *t) {
        if (!t)
                return NULL;
        clear(t);
        free(t->cells);
        free(t->lines);
        free(t);

        return NULL;
}

void table_set_indent(Table *t, unsigned indent) {
        t->indent = indent;
}

size_t table_rows(const Table *t) {
        return t->n_cells / t->n_columns;
}

/* Takes over both. */
static void add_cell(Table *t, char *text, json_object *json) {
        if (t->error < 0)
                goto fail;
        if (t->n_cells >= t->allocated_cells) {
                size_t n = MAX(t->allocated_cells * 2, (size_t) 128);
                Cell *cells;

                cells = reallocarray(t->cells, n, sizeof(Cell));
                if (!cells) {
                        t->error = -ENOMEM;
                        goto fail;
                }
                t->cells = cells;
                t->allocated_cells = n;
        }
        t->cells[t->n_cells++] = (Cell){
                .text = text,
                .json = json,
                .width = text ? text_width(text) : 1,
        };
        return;

fail:
        free(text);
        json_object_put(json);
}

static const Column *next_column(const Table *t) {
        return &t->columns[t->n_cells % t->n_columns];
}

void table_add_empty(Table *t) {
        add_cell(t, NULL, NULL);
}

void table_add_text(Table *t, const char *s) {
        json_object *json = NULL;
        char *text = NULL;

        if (!s) {
                table_add_empty(t);
                return;
        }
        if (next_column(t)->header && !(text = text_escape(s)))
                t->error = -ENOMEM;
        if (next_column(t)->key && !(json = json_string(s)))
                t->error = -ENOMEM;
        add_cell(t, text, json);
}

/* The value is taken over; NULL: out of memory. */
static void add_value(Table *t, const char *text, json_object *value) {
        char *copy = NULL;

        if (!value || (next_column(t)->header && !(copy = strdup(text))))
                t->error = -ENOMEM;
        add_cell(t, copy, value);
}

static void add_number(Table *t, const char *text, uint64_t n) {
        if (next_column(t)->key)
                add_value(t, text, json_object_new_uint64(n));
        else
                table_add_drawing(t, strdup(text));
}

void table_add_double(Table *t, double d) {
        char buf[FORMAT_MAX];

        snprintf(buf, sizeof(buf), "%.2f", d);
        if (next_column(t)->key)
                add_value(t, buf, json_double(d));
        else
                table_add_drawing(t, strdup(buf));
}

void table_add_count(Table *t, uint64_t n) {
        char buf[FORMAT_MAX];

        snprintf(buf, sizeof(buf), "%" PRIu64, n);
        add_number(t, buf, n);
}

void table_add_nsec(Table *t, uint64_t ns) {
        add_number(t, FORMAT_NSEC(ns), ns);
}

void table_add_bytes(Table *t, uint64_t bytes) {
        add_number(t, FORMAT_BYTES(bytes), bytes);
}

void table_add_drawing(Table *t, char *s) {
        if (!s)
                t->error = -ENOMEM;
        add_cell(t, s, NULL);
}

void table_add_json(Table *t, json_object *o) {
        if (!o)
                t->error = -ENOMEM;
        add_cell(t, NULL, o);
}

void table_add_line(Table *t, char *s) {
        Line *lines;

        lines = s && t->error >= 0 ? reallocarray(t->lines, t->n_lines + 1, sizeof(Line)) : NULL;
        if (!lines) {
                t->error = -ENOMEM;
                free(s);
                return;
        }
        t->lines = lines;
        t->lines[t->n_lines++] = (Line){ .after = table_rows(t), .text = s };
}

static int print_json(const Table *t, const Options *o) {
        JsonArray array = { .mode = o->output };

        for (size_t i = 0; i < table_rows(t); i++) {
                _cleanup_(json_putp) json_object *row = NULL;
                int r;

                row = json_object_new_object();
                if (!row)
                        return -ENOMEM;
                for (size_t c = 0; c < t->n_columns; c++) {
                        if (!t->columns[c].key)
                                continue;
                        r = json_add(row, t->columns[c].key, json_object_get(t->cells[i * t->n_columns + c].json));
                        if (r < 0)
                                return r;
                }
                r = json_array_add(&array, TAKE_PTR(row));
                if (r < 0)
                        return r;
        }
        json_array_end(&array);

        return 0;
}

static void measure(const Table *t, const Options *o, size_t widths[static TABLE_COLUMNS_MAX]) {
        for (size_t c = 0; c < t->n_columns; c++)
                widths[c] = MAX(widths[c], o->legend ? strlen(strempty(t->columns[c].header)) : 0);
        for (size_t i = 0; i < t->n_cells; i++) {
                size_t *w = &widths[i % t->n_columns];

                *w = MAX(*w, t->cells[i].width);
        }
}

/* Makes the widest of the columns that may be cut smaller, until all fits or no more can be had. */
static void shrink(const Table *t, size_t available, size_t widths[static TABLE_COLUMNS_MAX]) {
        for (;;) {
                size_t sum = t->indent, widest = SIZE_MAX;

                for (size_t c = 0; c < t->n_columns; c++) {
                        size_t least;

                        if (!t->columns[c].header)
                                continue;
                        sum += widths[c] + (sum > t->indent ? GAP : 0);
                        least = MAX(strlen(t->columns[c].header), (size_t) SHRUNK_WIDTH_MIN);
                        if (t->columns[c].flags & COLUMN_SHRINK && widths[c] > least &&
                            (widest == SIZE_MAX || widths[c] > widths[widest]))
                                widest = c;
                }
                if (sum <= available || widest == SIZE_MAX)
                        return;
                widths[widest]--;
        }
}

static void print_padded(const char *text, size_t text_columns, size_t width, bool right, bool last) {
        int pad = (int) (width - MIN(width, text_columns));

        if (right)
                printf("%*s%s", pad, "", text);
        else
                printf("%s%*s", text, last ? 0 : pad, "");
}

static size_t last_column(const Table *t) {
        size_t c = t->n_columns - 1;

        while (c > 0 && !t->columns[c].header)
                c--;

        return c;
}

static void print_header(const Table *t, const size_t widths[static TABLE_COLUMNS_MAX]) {
        bool first = true;

        printf("%*s%s", (int) t->indent, "", term_underline());
        for (size_t c = 0; c < t->n_columns; c++) {
                const char *header = t->columns[c].header;

                if (!header)
                        continue;
                if (!first)
                        printf("%*s", GAP, "");
                first = false;
                print_padded(header, strlen(header), widths[c], t->columns[c].flags & COLUMN_RIGHT,
                             c == last_column(t) && isempty(term_underline()));
        }
        printf("%s\n", term_normal());
}

static int print_row(const Table *t, size_t i, const size_t widths[static TABLE_COLUMNS_MAX]) {
        bool first = true;

        printf("%*s", (int) t->indent, "");
        for (size_t c = 0; c < t->n_columns; c++) {
                const Cell *cell = &t->cells[i * t->n_columns + c];
                _cleanup_free_ char *cut = NULL;

                if (!t->columns[c].header)
                        continue;
                if (cell->width > widths[c]) {
                        cut = text_ellipsize(cell->text, widths[c]);
                        if (!cut)
                                return -ENOMEM;
                }
                if (c == last_column(t) && cell->text && !*cell->text)
                        break; /* no blanks at the end of the line */
                if (!first)
                        printf("%*s", GAP, "");
                first = false;
                print_padded(cut ?: cell->text ?: "-", cut ? text_width(cut) : cell->width, widths[c],
                             t->columns[c].flags & COLUMN_RIGHT, c == last_column(t));
        }
        fputs("\n", stdout);

        return 0;
}

/* Everything but the header and the footer. */
static int print_rows(const Table *t, const size_t widths[static TABLE_COLUMNS_MAX]) {
        size_t line = 0;
        int r;

        for (size_t i = 0; i < table_rows(t); i++) {
                r = print_row(t, i, widths);
                if (r < 0)
                        return r;
                for (; line < t->n_lines && t->lines[line].after == i + 1; line++)
                        printf("%*s%s\n", (int) (t->indent + widths[0] + GAP), "", t->lines[line].text);
        }

        return 0;
}

int table_flush(Table *t, const Options *o) {
        size_t *widths = t->flushed_widths;
        int r;

        if (t->error < 0)
                return t->error;
        if (t->n_cells == 0)
                return 0;

        measure(t, o, widths);
        if (term_is_terminal())
                shrink(t, term_columns(), widths);
        if (o->legend && !t->flushed)
                print_header(t, widths);
        t->flushed = true;
        r = print_rows(t, widths);
        clear(t);

        return r;
}

int table_print(Table *t, const Options *o, const char *noun) {
        size_t widths[TABLE_COLUMNS_MAX] = {};
        int r;

        if (t->error < 0)
                return t->error;
        if (o->output != OUTPUT_TABLE)
                return print_json(t, o);

        measure(t, o, widths);
        if (term_is_terminal())
                shrink(t, term_columns(), widths);

        if (o->legend && t->n_cells > 0)
                print_header(t, widths);
        r = print_rows(t, widths);
        if (r < 0)
                return r;
        if (o->legend && noun)
                printf("%s%zu %s listed.\n", t->n_cells > 0 ? "\n" : "", table_rows(t), noun);

        return 0;
}
