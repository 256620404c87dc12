/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <langinfo.h>
#include <locale.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "format.h"
#include "term.h"

enum {
        STDOUT_BUFFER = 64 * 1024,
        COLUMNS_DEFAULT = 80,
        LINES_DEFAULT = 24,
        SIZE_MAX_SANE = 10000,

        /* Character device majors of terminals */
        MAJOR_TTY = 4,
        MAJOR_TTY_AUX = 5, /* /dev/tty, /dev/console */
        MAJOR_PTS_FIRST = 136,
        MAJOR_PTS_LAST = 143,
};

static char stdout_buffer[STDOUT_BUFFER];
static bool is_terminal = false;
static bool is_utf8 = false;
static bool use_colors = false;

static bool fd_is_terminal(int fd) {
        struct stat st;
        unsigned n;

        if (fstat(fd, &st) < 0 || !S_ISCHR(st.st_mode))
                return false;
        n = major(st.st_rdev);

        return n == MAJOR_TTY || n == MAJOR_TTY_AUX || (n >= MAJOR_PTS_FIRST && n <= MAJOR_PTS_LAST);
}

static bool want_colors(void) {
        const char *e = getenv("SYSTEMD_COLORS");

        if (!is_terminal)
                return false;
        if (!isempty(e))
                return !streq(e, "0") && !streq(e, "no") && !streq(e, "false") && !streq(e, "off") &&
                        !streq(e, "n") && !streq(e, "f");

        return isempty(getenv("NO_COLOR")) && !term_is_dumb();
}

void term_init(void) {
        (void) setvbuf(stdout, stdout_buffer, _IOFBF, sizeof(stdout_buffer));
        (void) setlocale(LC_ALL, "");
        is_utf8 = streq(nl_langinfo(CODESET), "UTF-8");
        is_terminal = fd_is_terminal(STDOUT_FILENO);
        use_colors = want_colors();
}

bool term_is_terminal(void) {
        return is_terminal;
}

bool term_is_interactive(void) {
        return is_terminal && fd_is_terminal(STDIN_FILENO);
}

bool term_is_dumb(void) {
        const char *e = getenv("TERM");

        return isempty(e) || streq(e, "dumb");
}

bool term_utf8(void) {
        return is_utf8;
}

bool term_colours(void) {
        return use_colors;
}

static unsigned size_from_env(const char *name, unsigned otherwise) {
        const char *e = getenv(name);
        uint64_t n;

        return e && parse_count(e, SIZE_MAX_SANE, &n) >= 0 && n > 0 ? (unsigned) n : otherwise;
}

unsigned term_columns(void) {
        return size_from_env("COLUMNS", COLUMNS_DEFAULT);
}

unsigned term_lines(void) {
        return size_from_env("LINES", LINES_DEFAULT);
}

static const char *sequence(const char *s) {
        return use_colors ? s : "";
}

const char *term_underline(void) {
        return sequence("\033[0;4m");
}

const char *term_bold(void) {
        return sequence("\033[0;1;39m");
}

const char *term_green(void) {
        return sequence("\033[0;1;32m");
}

const char *term_red(void) {
        return sequence("\033[0;1;31m");
}

const char *term_yellow(void) {
        return sequence("\033[0;1;33m");
}

int term_palette_colour(size_t i, bool *ret_bold) {
        static const int palette[] = { 4, 3, 6, 5, 2, 1 }; /* blue, yellow, cyan, magenta, green, red */

        *ret_bold = i / ELEMENTSOF(palette) % 2 > 0;

        return palette[i % ELEMENTSOF(palette)];
}

const char *term_palette(size_t i) {
        static const char *const plain[] = { "", "\033[0;31m", "\033[0;32m", "\033[0;33m", "\033[0;34m",
                                             "\033[0;35m", "\033[0;36m" };
        static const char *const bright[] = { "", "\033[0;1;31m", "\033[0;1;32m", "\033[0;1;33m", "\033[0;1;34m",
                                              "\033[0;1;35m", "\033[0;1;36m" };
        bool bold;
        int colour = term_palette_colour(i, &bold);

        return sequence((bold ? bright : plain)[colour]);
}

const char *term_normal(void) {
        return sequence("\033[0m");
}

void term_clear(void) {
        if (is_terminal && !term_is_dumb())
                fputs("\033[H\033[2J", stdout);
}
