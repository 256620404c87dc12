/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <json-c/json.h>

#include "options.h"

typedef struct Table Table;

typedef enum ColumnFlags {
        COLUMN_RIGHT = 1 << 0,  /* numbers */
        COLUMN_SHRINK = 1 << 1, /* may be cut when the terminal is too narrow */
} ColumnFlags;

/* A column without a header is for JSON only, one without a key for people only. */
typedef struct Column {
        const char *header; /* UPPERCASE */
        const char *key;
        ColumnFlags flags;
} Column;

enum {
        TABLE_COLUMNS_MAX = 24,
};

/* The columns must outlive the table. */
Table *table_new(const Column *columns, size_t n_columns);
Table *table_free(Table *t);
DEFINE_CLEANUP_FUNC(Table, table_free)

void table_set_indent(Table *t, unsigned indent);

/* Cells are added from left to right, row by row. They return nothing: the first failure is remembered and comes
 * back from table_print(). */
void table_add_text(Table *t, const char *s); /* of any origin; NULL: empty */
void table_add_count(Table *t, uint64_t n);
void table_add_nsec(Table *t, uint64_t ns);
void table_add_bytes(Table *t, uint64_t bytes);
void table_add_double(Table *t, double d); /* with two decimals */
void table_add_empty(Table *t);
void table_add_drawing(Table *t, char *s); /* our own text, taken over; NULL: out of memory */
void table_add_json(Table *t, json_object *o); /* for people: empty. Taken over; NULL: out of memory */

/* A line below the row that was just completed, below the second column. Our own text, taken over. */
void table_add_line(Table *t, char *s);

size_t table_rows(const Table *t);

/* Prints for people what there is, and forgets it; columns never become narrower and there is one header. For what
 * goes on and on. */
int table_flush(Table *t, const Options *o);

/* Prints in the mode that the options ask for. The footer is "N NOUN listed."; noun NULL: none. */
int table_print(Table *t, const Options *o, const char *noun);
