/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "journal-send.h"
#include "log.h"

enum { LOG_LINE_MAX = 2048 };

static const char *log_identifier = "iolat";
static int log_max_level = LOG_INFO;
static bool log_to_journal = false;
static bool log_with_level = false; /* stderr is the journal, which takes a level in front of a line */
static uint64_t log_n_dropped = 0;

/* $JOURNAL_STREAM names the device and inode of the socket that systemd connected to our stderr. */
static bool stderr_is_journal(void) {
        const char *e = getenv("JOURNAL_STREAM");
        unsigned long long dev, ino;
        struct stat st;

        if (!e || sscanf(e, "%llu:%llu", &dev, &ino) != 2)
                return false;

        return fstat(STDERR_FILENO, &st) >= 0 && st.st_dev == dev && st.st_ino == ino;
}

/* A unit that needs none may have no sockets but those that it was given (RestrictAddressFamilies=none). */
static bool has_sockets(void) {
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        return fd >= 0;
}

void log_setup(const char *identifier, int max_level) {
        log_identifier = identifier;
        log_max_level = max_level;
        log_with_level = stderr_is_journal();
        log_to_journal = log_with_level && has_sockets();
}

void log_set_max_level(int level) {
        log_max_level = level;
}

int log_get_max_level(void) {
        return log_max_level;
}

uint64_t log_dropped(void) {
        return log_n_dropped;
}

int log_internal(int level, int error, const char *format, ...) {
        char line[LOG_LINE_MAX];
        size_t prefix = 0;
        va_list ap;
        int n, r = 0;

        error = abs(error);
        if (level > log_max_level)
                return -error;

        if (log_with_level && !log_to_journal)
                prefix = (size_t) snprintf(line, sizeof(line), "<%i>", level);
        errno = error;
        va_start(ap, format);
        n = vsnprintf(line + prefix, sizeof(line) - prefix - 1, format, ap);
        va_end(ap);
        if (n < 0)
                return -error;
        n = MIN(n + (int) prefix, (int) sizeof(line) - 2);

        if (log_to_journal) {
                JournalField fields[] = {
                        JOURNAL_FIELD_STRING("MESSAGE", line),
                        JOURNAL_FIELD_PRIORITY(level),
                        JOURNAL_FIELD_STRING("SYSLOG_IDENTIFIER", log_identifier),
                };

                r = journal_send(fields, ELEMENTSOF(fields));
        } else {
                struct pollfd p = { .fd = STDERR_FILENO, .events = POLLOUT };

                line[n++] = '\n';
                if (poll(&p, 1, 0) <= 0 || write(STDERR_FILENO, line, n) != n)
                        r = -EAGAIN;
        }
        if (r < 0)
                log_n_dropped++;

        return -error;
}
