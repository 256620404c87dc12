/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "top-source.h"
#include "top-view.h"

/* The full screen of "top". The only part of iolatctl that uses ncurses, and ioctl() with it. */

enum {
        FILTER_LEN_MAX = 128,
        TOP_COLUMNS_MIN = 40,
        TOP_LINES_MIN = 6,
};

typedef struct Screen {
        const Options *options;
        TopSource *source;
        TopModel model;
        ManagerInfo info;
        char *host;

        TopOrder order;
        char *filter;
        char edit[FILTER_LEN_MAX + 1]; /* the filter that is being typed */
        bool editing;
        bool help;
        bool absolute; /* times instead of shares */
        uint64_t delay_ns;

        const TopEntry **list;
        size_t n_list;
        TopSelection list_at;

        bool in_detail;
        char *unit, *user_unit; /* that is looked into */
        TopDetail detail;
        TopSelection detail_at;
} Screen;

/* Runs until the user, a signal or the number of iterations ends it; takes over the query. Returns the exit code, or
 * -EOPNOTSUPP, the query untouched, if this terminal can show no screen. */
int top_screen_run(const Options *o, Query *q);

/* top-keys.c: Does what the key stands for. */
typedef enum KeyResult {
        KEY_RESULT_NONE,
        KEY_RESULT_DRAW,
        KEY_RESULT_SELECT,  /* what is shown, or its order, has changed */
        KEY_RESULT_REFRESH, /* a new listing is wanted now */
        KEY_RESULT_CLEAR,   /* as if nothing were on the screen */
        KEY_RESULT_QUIT,
} KeyResult;

KeyResult top_key(Screen *s, int key, bool is_function_key);

/* top-draw.c */
void top_draw_init(void);
void top_draw(Screen *s);
size_t top_draw_rows(void); /* lines that are there for rows */
