/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "util.h"

/* Makes a string of unknown origin safe for a terminal: control characters, invisible and direction-changing
 * characters, and bytes that the locale cannot show become \xNN. Returns NULL if out of memory. */
char *text_escape(const char *s);

/* Makes a string valid UTF-8 for JSON: what is invalid becomes U+FFFD. Returns NULL if out of memory. */
char *text_make_utf8(const char *s);

/* Columns that an escaped string takes on a terminal. */
size_t text_width(const char *s);

/* Cuts an escaped string to so many columns, the end replaced by an ellipsis. Returns NULL if out of memory. */
char *text_ellipsize(const char *s, size_t width);

/* Appends to the malloc()ed string *s (NULL: empty). Returns -ENOMEM, leaving *s as it was. */
int text_append(char **s, const char *more);
int text_appendf(char **s, const char *format, ...) _printf_(2, 3);

/* NULL-terminated lists of strings. */
char **strv_free(char **list);
DEFINE_CLEANUP_FUNC(char *, strv_free)

/* Whether s is one of them; no list allows everything. */
bool strv_allows(char **list, const char *s);
