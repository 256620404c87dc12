/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <curses.h>
#include <limits.h>
#include <wchar.h>

#include "top-screen.h"

enum {
        CTRL_H = 'h' & 31,
        CTRL_L = 'l' & 31,
        CTRL_U = 'u' & 31,
        ESCAPE = 033,
        DELETE = 0177,
};

#define DELAY_STEP_NS (250 * NSEC_PER_MSEC)
#define DELAY_MAX_NS (3600 * NSEC_PER_SEC)

/* As systemd-cgtop: small steps below a second, seconds above. */
static void change_delay(Screen *s, bool more) {
        uint64_t d = s->delay_ns;

        if (more)
                d = d < NSEC_PER_SEC ? d + DELAY_STEP_NS : d + NSEC_PER_SEC;
        else if (d > DELAY_STEP_NS)
                d = d <= NSEC_PER_SEC + DELAY_STEP_NS ? d - DELAY_STEP_NS : d - NSEC_PER_SEC;
        s->delay_ns = MIN(MAX(d, MIN(DELAY_STEP_NS, s->delay_ns)), MAX(DELAY_MAX_NS, s->delay_ns));
}

static KeyResult move_by(Screen *s, ptrdiff_t by) {
        if (s->in_detail) {
                top_selection_move(&s->detail_at, by, s->detail.n_lines);
                return KEY_RESULT_DRAW;
        }
        top_selection_move(&s->list_at, by, s->n_list);
        (void) top_selection_follow(&s->list_at, s->list_at.index < s->n_list ? s->list[s->list_at.index] : NULL);

        return KEY_RESULT_DRAW;
}

static KeyResult enter_detail(Screen *s) {
        const Row *row;

        if (s->in_detail || s->list_at.index >= s->n_list)
                return KEY_RESULT_NONE;
        row = s->list[s->list_at.index]->row;
        free(s->unit);
        free(s->user_unit);
        s->unit = strdup(strempty(row->unit));
        s->user_unit = row->user_unit ? strdup(row->user_unit) : NULL;
        s->in_detail = s->unit && (s->user_unit || !row->user_unit);
        top_selection_clear(&s->detail_at);

        return KEY_RESULT_SELECT;
}

static KeyResult leave(Screen *s) {
        if (s->in_detail)
                s->in_detail = false;
        else if (s->filter) {
                free(s->filter);
                s->filter = NULL;
        } else
                return KEY_RESULT_NONE;

        return KEY_RESULT_SELECT;
}

static KeyResult sort_by(Screen *s, TopSort sort) {
        s->order.sort = sort;

        return KEY_RESULT_SELECT;
}

static KeyResult plain_key(Screen *s, int key) {
        switch (key) {
        case 'q':
        case 'Q':
                return KEY_RESULT_QUIT;
        case 'p':
                return sort_by(s, TOP_SORT_UNIT);
        case 't':
                return sort_by(s, TOP_SORT_WAIT);
        case 'n':
                return sort_by(s, TOP_SORT_RATE);
        case 'l':
                return sort_by(s, TOP_SORT_P99);
        case 'e':
                return sort_by(s, TOP_SORT_ERRORS);
        case 'd':
                return sort_by(s, TOP_SORT_DEVICE);
        case 'r':
                s->order.reverse = !s->order.reverse;
                return KEY_RESULT_SELECT;
        case '%':
                s->absolute = !s->absolute;
                return KEY_RESULT_DRAW;
        case '+':
        case '-':
                change_delay(s, key == '+');
                return KEY_RESULT_DRAW;
        case '/':
                s->edit[0] = 0;
                s->editing = true;
                s->in_detail = false;
                return KEY_RESULT_SELECT;
        case '?':
        case 'h':
                s->help = true;
                return KEY_RESULT_DRAW;
        case ' ':
                return KEY_RESULT_REFRESH;
        case CTRL_L:
                return KEY_RESULT_CLEAR;
        case '\n':
        case '\r':
                return enter_detail(s);
        case ESCAPE:
        case CTRL_H:
        case DELETE:
                return leave(s);
        default:
                return KEY_RESULT_NONE;
        }
}

static KeyResult function_key(Screen *s, int key) {
        ptrdiff_t page = (ptrdiff_t) MAX(top_draw_rows(), (size_t) 2) - 1;
        size_t n = s->in_detail ? s->detail.n_lines : s->n_list;

        switch (key) {
        case KEY_UP:
                return move_by(s, -1);
        case KEY_DOWN:
                return move_by(s, 1);
        case KEY_PPAGE:
                return move_by(s, -page);
        case KEY_NPAGE:
                return move_by(s, page);
        case KEY_HOME:
                return move_by(s, -(ptrdiff_t) n);
        case KEY_END:
                return move_by(s, (ptrdiff_t) n);
        case KEY_RIGHT:
        case KEY_ENTER:
                return enter_detail(s);
        case KEY_LEFT:
        case KEY_BACKSPACE:
                return leave(s);
        default:
                return KEY_RESULT_NONE;
        }
}

static void edit_append(Screen *s, wchar_t c) {
        char bytes[MB_LEN_MAX];
        size_t used = strlen(s->edit), n;
        mbstate_t state = {};

        n = wcrtomb(bytes, c, &state);
        if (n == (size_t) -1 || used + n > FILTER_LEN_MAX || wcwidth(c) < 0)
                return;
        memcpy(s->edit + used, bytes, n);
        s->edit[used + n] = 0;
}

static void edit_erase(Screen *s) {
        size_t n = strlen(s->edit);

        /* The bytes that follow the first one of a character in UTF-8 begin with 10. */
        while (n > 0 && ((unsigned char) s->edit[--n] & 0xc0) == 0x80)
                ;
        s->edit[n] = 0;
}

static KeyResult edit_key(Screen *s, int key, bool is_function_key) {
        if (is_function_key) {
                if (key == KEY_BACKSPACE)
                        edit_erase(s);
                else if (key == KEY_ENTER)
                        return edit_key(s, '\n', false);
                return KEY_RESULT_DRAW;
        }
        switch (key) {
        case ESCAPE:
                s->editing = false;
                break;
        case '\n':
        case '\r':
                free(s->filter);
                s->filter = s->edit[0] ? strdup(s->edit) : NULL;
                s->editing = false;
                return KEY_RESULT_SELECT;
        case CTRL_H:
        case DELETE:
                edit_erase(s);
                break;
        case CTRL_U:
                s->edit[0] = 0;
                break;
        default:
                if (key >= ' ')
                        edit_append(s, (wchar_t) key);
        }

        return KEY_RESULT_DRAW;
}

KeyResult top_key(Screen *s, int key, bool is_function_key) {
        if (is_function_key && key == KEY_RESIZE) /* no key */
                return KEY_RESULT_DRAW;
        if (s->editing)
                return edit_key(s, key, is_function_key);
        if (s->help) {
                s->help = false;
                if (key == CTRL_L && !is_function_key)
                        return KEY_RESULT_CLEAR;
                return !is_function_key && (key == 'q' || key == 'Q') ? KEY_RESULT_QUIT : KEY_RESULT_DRAW;
        }

        return is_function_key ? function_key(s, key) : plain_key(s, key);
}
