/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <errno.h>
#include <syslog.h>

#include "util.h"

/* Sets who logs (static string) and the highest priority that is let through. Messages go to the journal by
 * datagram if stderr is connected to it, else to stderr. Neither ever blocks: what does not fit is counted. */
void log_setup(const char *identifier, int max_level);
void log_set_max_level(int level);
int log_get_max_level(void);

/* Messages dropped since the start because the receiver was not ready. */
uint64_t log_dropped(void);

/* Logs one line and returns -|error|; "%m" is the text of that error. */
int log_internal(int level, int error, const char *format, ...) _printf_(3, 4);

#define log_error_errno(e, ...) log_internal(LOG_ERR, e, __VA_ARGS__)
#define log_warning_errno(e, ...) log_internal(LOG_WARNING, e, __VA_ARGS__)
#define log_debug_errno(e, ...) log_internal(LOG_DEBUG, e, __VA_ARGS__)
#define log_error(...) ((void) log_internal(LOG_ERR, 0, __VA_ARGS__))
#define log_warning(...) ((void) log_internal(LOG_WARNING, 0, __VA_ARGS__))
#define log_notice(...) ((void) log_internal(LOG_NOTICE, 0, __VA_ARGS__))
#define log_info(...) ((void) log_internal(LOG_INFO, 0, __VA_ARGS__))
#define log_debug(...) ((void) log_internal(LOG_DEBUG, 0, __VA_ARGS__))
#define log_oom() log_error_errno(ENOMEM, "Out of memory.")
