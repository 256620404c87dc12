/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* Sets the locale, gives stdout a buffer of its own and finds out what stdout is, all without an ioctl: stdio asks
 * the kernel whether a stream is a terminal only if it has to choose the buffering itself. Must come before
 * anything is printed. */
void term_init(void);

bool term_is_terminal(void); /* remembered from the start, also when a pager has taken over stdout since */
bool term_is_interactive(void); /* standard input is a terminal, too */
bool term_is_dumb(void);
bool term_utf8(void);
bool term_colours(void); /* are wanted */
unsigned term_columns(void);
unsigned term_lines(void);

/* Escape sequences, "" where none are wanted. */
const char *term_underline(void);
const char *term_bold(void);
const char *term_green(void);
const char *term_red(void);
const char *term_yellow(void);
const char *term_palette(size_t i); /* of the colours for the parts of a bar */
int term_palette_colour(size_t i, bool *ret_bold); /* the same as a number of ANSI */
const char *term_normal(void);

/* Empties the screen, if stdout is a terminal. */
void term_clear(void);
