/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>

#include "log.h"

/* Takes the place of the real one: formats, and forgets. */
int log_internal(int level, int error, const char *format, ...) {
        char line[256];
        va_list ap;

        errno = abs(error);
        va_start(ap, format);
        (void) vsnprintf(line, sizeof(line), format, ap);
        va_end(ap);

        return -abs(error);
}
