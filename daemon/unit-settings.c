/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <stdarg.h>

#include "text-escape.h"
#include "unit-settings.h"

#define SECTION "[X-Iolat]"
#define UTF8_BOM "\xef\xbb\xbf"
#define WHITESPACE " \t\r"

static const char *const key_table[_UNIT_KEY_MAX] = {
        [UNIT_FSYNC_RECORD] = "FsyncRecordSec",
        [UNIT_FSYNC_ALERT] = "FsyncAlertSec",
        [UNIT_WRITE_RECORD] = "WriteRecordSec",
        [UNIT_WRITE_ALERT] = "WriteAlertSec",
        [UNIT_ALERT] = "Alert",
};

enum {
        SHOWN_MAX = 128, /* bytes of what is wrong that a message shows */
};

typedef struct Parser {
        UnitSettings *settings;
        unit_problem_callback problem;
        void *userdata;
        unsigned first_line; /* of what is in line[] */
        bool in_section;
        bool found;
        char line[UNIT_LINE_MAX + 1];
        size_t used;
        bool too_long;
        bool has_nul;
} Parser;

static _printf_(2, 3) void complain(Parser *p, const char *format, ...) {
        char text[2 * UNIT_LINE_MAX], escaped[2 * UNIT_LINE_MAX];
        va_list ap;

        va_start(ap, format);
        (void) vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        p->problem(p->first_line, text_escape(text, /* controls= */ true, escaped, sizeof(escaped)), p->userdata);
}

static char *strip(char *s) {
        char *end;

        s += strspn(s, WHITESPACE);
        for (end = s + strlen(s); end > s && strchr(WHITESPACE, end[-1]); end--)
                ;
        *end = 0;

        return s;
}

static int key_from_string(const char *s) {
        for (int i = 0; i < _UNIT_KEY_MAX; i++)
                if (streq(key_table[i], s))
                        return i;

        return -EINVAL;
}

static int assign(UnitSettings *s, int key, const char *value) {
        uint8_t bit = (uint8_t) (1U << key);
        int r = 0;

        if (isempty(value)) {
                s->said |= bit;
                s->set &= (uint8_t) ~bit;
                return 0;
        }
        r = key == UNIT_ALERT ? config_parse_bool(value, &s->alert) : config_parse_threshold(value, &s->ns[key]);
        if (r < 0)
                return r;
        s->said |= bit;
        s->set |= bit;

        return 0;
}

static void take_assignment(Parser *p, char *line) {
        char *equals = strchr(line, '='), *name, *value;
        int key, r;

        if (!equals || equals == line) {
                complain(p, "Neither a section header nor an assignment, ignoring.");
                return;
        }
        *equals = 0;
        name = strip(line);
        value = strip(equals + 1);
        if (startswith(name, "X-"))
                return;
        key = key_from_string(name);
        if (key < 0) {
                complain(p, "Unknown key %.*s= in section " SECTION ", ignoring.", SHOWN_MAX, name);
                return;
        }
        r = assign(p->settings, key, value);
        if (r == -ERANGE)
                complain(p, "%s=%.*s is out of range, which is 1us to 1d or infinity, ignoring.", name, SHOWN_MAX,
                         value);
        else if (r < 0)
                complain(p, "%s=%.*s is not a valid %s, ignoring.", name, SHOWN_MAX, value,
                         key == UNIT_ALERT ? "boolean" : "time span");
}

/* One line, with those that continue it. */
static void take_line(Parser *p) {
        char *line;

        p->line[p->used] = 0;
        line = strip(p->line);
        if (*line == '[') { /* of any section */
                p->in_section = streq(line, SECTION) && !p->too_long && !p->has_nul;
                p->found = p->found || p->in_section;
        } else if (p->in_section && p->too_long)
                complain(p, "Line is too long, ignoring.");
        else if (p->in_section && p->has_nul)
                complain(p, "Line contains a NUL byte, ignoring.");
        else if (p->in_section && *line)
                take_assignment(p, line);
        p->used = 0;
        p->too_long = p->has_nul = false;
}

static void append(Parser *p, const char *s, size_t n) {
        if (memchr(s, 0, n))
                p->has_nul = true;
        if (n > UNIT_LINE_MAX - p->used) {
                p->too_long = true;
                n = UNIT_LINE_MAX - p->used;
        }
        memcpy(p->line + p->used, s, n);
        p->used += n;
}

bool unit_settings_parse(const char *text, size_t size, UnitSettings *ret, unit_problem_callback problem,
                         void *userdata) {
        Parser p = { .settings = ret, .problem = problem, .userdata = userdata };
        const char *end = text + size;
        bool continued = false;
        unsigned n = 0;

        *ret = (UnitSettings){ .alert = true };
        if (size >= STRLEN(UTF8_BOM) && memcmp(text, UTF8_BOM, STRLEN(UTF8_BOM)) == 0)
                text += STRLEN(UTF8_BOM);
        while (text < end) {
                const char *newline = memchr(text, '\n', (size_t) (end - text)), *stop = newline ?: end, *begin;
                bool goes_on;

                n++;
                for (begin = text; begin < stop && strchr(WHITESPACE, *begin) && *begin; begin++)
                        ;
                text = newline ? newline + 1 : end;
                /* A comment within a line that is continued does not end it. */
                if (begin < stop && (*begin == '#' || *begin == ';'))
                        continue;
                if (!continued)
                        p.first_line = n;
                goes_on = stop > begin && stop[-1] == '\\';
                append(&p, begin, (size_t) (stop - begin) - goes_on);
                if (goes_on)
                        append(&p, " ", 1);
                else
                        take_line(&p);
                continued = goes_on;
        }
        if (continued)
                take_line(&p);

        return p.found;
}

void unit_settings_merge(UnitSettings *s, const UnitSettings *over) {
        s->said |= over->said;
        s->set = (uint8_t) ((s->set & ~over->said) | over->set);
        for (int i = 0; i < _UNIT_TIME_MAX; i++)
                if (over->set & 1U << i)
                        s->ns[i] = over->ns[i];
        if (over->set & 1U << UNIT_ALERT)
                s->alert = over->alert;
}

bool unit_settings_equal(const UnitSettings *a, const UnitSettings *b) {
        if (a->set != b->set)
                return false;
        for (int i = 0; i < _UNIT_TIME_MAX; i++)
                if ((a->set & 1U << i) && a->ns[i] != b->ns[i])
                        return false;

        return !(a->set & 1U << UNIT_ALERT) || a->alert == b->alert;
}

static uint64_t value_of(const UnitSettings *s, enum unit_key key, uint64_t general) {
        return s && (s->set & 1U << key) ? s->ns[key] : general;
}

UnitLimits unit_settings_limits(const UnitSettings *s, const Config *c) {
        UnitLimits l = {
                .sync_record_ns = value_of(s, UNIT_FSYNC_RECORD, c->fsync_record_ns),
                .sync_alert_ns = value_of(s, UNIT_FSYNC_ALERT, c->fsync_alert_ns),
                .write_record_ns = value_of(s, UNIT_WRITE_RECORD, c->write_record_ns),
                .write_alert_ns = value_of(s, UNIT_WRITE_ALERT, c->write_alert_ns),
                .alert = !s || !(s->set & 1U << UNIT_ALERT) || s->alert,
        };

        if (l.alert) {
                l.sync_record_ns = MIN(l.sync_record_ns, l.sync_alert_ns);
                l.write_record_ns = MIN(l.write_record_ns, l.write_alert_ns);
        }

        return l;
}
