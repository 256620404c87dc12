/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "mountinfo.h"

enum {
        MINOR_BITS = 20,
        MAJOR_MAX = (1 << 12) - 1,
        MINOR_MAX = (1 << MINOR_BITS) - 1,
};

/* The next field that a single space ends, NULL if there is none. */
static char *next_field(char **p) {
        char *s = *p, *e;

        if (!s || !*s)
                return NULL;

        e = strchr(s, ' ');
        if (e)
                *e++ = 0;
        *p = e;

        return *s ? s : NULL;
}

static bool is_octal(char c) {
        return c >= '0' && c <= '7';
}

/* The kernel writes space, tab, newline and backslash as a backslash and three octal digits. */
static char *unescape(char *s) {
        char *to = s;

        for (const char *from = s; *from; to++) {
                unsigned c = 0;

                if (from[0] == '\\' && is_octal(from[1]) && is_octal(from[2]) && is_octal(from[3]))
                        c = (unsigned) ((from[1] - '0') << 6 | (from[2] - '0') << 3 | (from[3] - '0'));
                if (c > 0 && c <= UINT8_MAX) {
                        *to = (char) c;
                        from += 4;
                } else
                        *to = *from++;
        }
        *to = 0;

        return s;
}

static int parse_dev(const char *s, uint32_t *ret) {
        unsigned long major, minor;
        char *e;

        /* strtoul() would take white space and signs. */
        if (strspn(s, "0123456789:") != strlen(s) || *s == ':')
                return -EBADMSG;
        errno = 0;
        major = strtoul(s, &e, 10);
        if (*e != ':' || e[1] == 0 || errno != 0 || major > MAJOR_MAX)
                return -EBADMSG;
        minor = strtoul(e + 1, &e, 10);
        if (*e || errno != 0 || minor > MINOR_MAX)
                return -EBADMSG;
        *ret = (uint32_t) (major << MINOR_BITS | minor);

        return 0;
}

int mountinfo_parse_line(char *line, MountInfo *ret) {
        MountInfo m = {};
        char *p = line, *s;
        int r;

        line[strcspn(line, "\n")] = 0;

        /* mount id, parent id */
        if (!next_field(&p) || !next_field(&p))
                return -EBADMSG;
        s = next_field(&p);
        if (!s)
                return -EBADMSG;
        r = parse_dev(s, &m.dev);
        if (r < 0)
                return r;
        m.root = next_field(&p);
        m.mount_point = next_field(&p);
        if (!m.root || !m.mount_point)
                return -EBADMSG;

        /* mount options, then any number of optional fields up to a lone "-" */
        if (!next_field(&p))
                return -EBADMSG;
        do
                s = next_field(&p);
        while (s && !streq(s, "-"));
        if (!s)
                return -EBADMSG;
        m.fs_type = next_field(&p);
        if (!m.fs_type)
                return -EBADMSG;
        m.source = next_field(&p);
        if (!m.source) /* some text that is empty */
                m.source = m.fs_type + strlen(m.fs_type);

        unescape(m.root);
        unescape(m.mount_point);
        unescape(m.fs_type);
        unescape(m.source);
        *ret = m;

        return 0;
}

int mountinfo_foreach(FILE *f, mountinfo_callback callback, void *userdata) {
        _cleanup_free_ char *line = NULL;
        size_t size = 0;
        MountInfo m;
        int r;

        for (;;) {
                errno = 0;
                if (getline(&line, &size, f) < 0)
                        return feof(f) ? 0 : (errno > 0 ? -errno : -EIO);
                if (mountinfo_parse_line(line, &m) < 0)
                        continue;
                r = callback(&m, userdata);
                if (r != 0)
                        return r;
        }
}
