/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unit-path.h"

#define ROOT_SLICE "-.slice"

typedef struct UnitName {
        char s[UNIT_NAME_MAX + 1]; /* "" if there is none */
} UnitName;

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_alnum(char c) {
        return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool unit_type_is_valid(const char *s) {
        static const char *const types[] = {
                "service", "socket", "target", "device", "mount", "automount",
                "swap",    "timer",  "path",   "slice",  "scope",
        };

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (streq(types[i], s))
                        return true;

        return false;
}

bool unit_name_is_valid(const char *s) {
        const char *dot, *at = NULL;

        if (!s || strnlen(s, UNIT_NAME_MAX + 1) > UNIT_NAME_MAX)
                return false;

        dot = strrchr(s, '.');
        if (!dot || dot == s || !unit_type_is_valid(dot + 1))
                return false;

        for (const char *p = s; p < dot; p++) {
                if (*p == '@' && !at)
                        at = p;
                if (!is_alnum(*p) && !strchr("@:-_.\\", *p))
                        return false;
        }

        /* An empty prefix is no name, an empty instance is a template, which never has processes. */
        return !at || (at > s && at + 1 < dot);
}

static bool is_slice(const char *s) {
        return endswith(s, ".slice");
}

static const char *skip_slashes(const char *p) {
        return p + strspn(p, "/");
}

static bool path_is_valid(const char *path) {
        if (!path || *path != '/' || strnlen(path, UNIT_PATH_MAX + 1) > UNIT_PATH_MAX)
                return false;

        for (const char *p = skip_slashes(path); *p; p = skip_slashes(p)) {
                size_t n = strcspn(p, "/");

                /* ".." is how the kernel writes what lies outside of a cgroup namespace. */
                if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return false;
                p += n;
        }

        return true;
}

/* Decodes the path component of n bytes at p. systemd prefixes "_" to names that the kernel's own files could have
 * and removes it without looking at what follows. */
static bool component_to_unit(const char *p, size_t n, UnitName *ret) {
        if (n > 0 && *p == '_') {
                p++;
                n--;
        }
        if (n == 0 || n > UNIT_NAME_MAX)
                return false;

        memcpy(ret->s, p, n);
        ret->s[n] = 0;

        return unit_name_is_valid(ret->s);
}

/* Goes down from p through slices to the first other unit. Returns the end of what was found (a "/" or the end
 * of the path): of that unit, else of the last slice, else p itself with an empty name. */
static const char *find_unit(const char *p, UnitName *ret) {
        const char *end = p;
        UnitName u;

        ret->s[0] = 0;
        for (;;) {
                size_t n;

                p = skip_slashes(p);
                n = strcspn(p, "/");
                if (!component_to_unit(p, n, &u))
                        return end;
                /* Slices have no instances. */
                if (is_slice(u.s) && strchr(u.s, '@'))
                        return end;

                *ret = u;
                end = p += n;
                if (!is_slice(u.s))
                        return end;
        }
}

/* The part of s between prefix and suffix, NULL if it does not have both around at least one character. */
static const char *between(const char *s, const char *prefix, const char *suffix, size_t *ret_n) {
        const char *p = startswith(s, prefix), *e = endswith(s, suffix);

        if (!p || !e || p >= e)
                return NULL;
        *ret_n = (size_t) (e - p);

        return p;
}

static bool uid_is_valid(const char *p, size_t n) {
        enum { UID_DIGITS_MAX = 10 };
        uint64_t uid = 0;

        if (n == 0 || n > UID_DIGITS_MAX || (n > 1 && p[0] == '0'))
                return false;
        for (size_t i = 0; i < n; i++) {
                if (!is_digit(p[i]))
                        return false;
                uid = uid * 10 + (uint64_t) (p[i] - '0');
        }

        /* Both values mean "no user", in 16 and in 32 bits. */
        return uid < UINT32_MAX && uid != UINT16_MAX;
}

static bool session_id_is_valid(const char *p, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (!is_alnum(p[i]))
                        return false;

        return n > 0;
}

/* Whether other units live below that one which deserve to be named. */
static bool has_inner_units(const char *unit) {
        const char *p;
        size_t n;

        if ((p = between(unit, "user@", ".service", &n)))
                return uid_is_valid(p, n);
        if ((p = between(unit, "session-", ".scope", &n)))
                return session_id_is_valid(p, n);

        return between(unit, "capsule@", ".service", &n);
}

static int dup_subgroup(const char *p, char **ret) {
        size_t n;

        p = skip_slashes(p);
        n = strlen(p);
        while (n > 0 && p[n - 1] == '/')
                n--;

        *ret = NULL;
        if (n == 0)
                return 0;
        *ret = strndup(p, n);

        return *ret ? 0 : -ENOMEM;
}

int unit_path_decode(const char *path, char **ret_unit, char **ret_user_unit, char **ret_subgroup) {
        _cleanup_free_ char *unit = NULL, *user_unit = NULL, *subgroup = NULL;
        UnitName outer, inner = {};
        const char *p;
        int r;

        if (!path_is_valid(path))
                return -EINVAL;

        p = find_unit(path, &outer);
        if (has_inner_units(outer.s))
                p = find_unit(p, &inner);

        unit = strdup(outer.s[0] ? outer.s : ROOT_SLICE);
        if (!unit)
                return -ENOMEM;
        if (inner.s[0]) {
                user_unit = strdup(inner.s);
                if (!user_unit)
                        return -ENOMEM;
        }
        r = dup_subgroup(p, &subgroup);
        if (r < 0)
                return r;

        if (ret_unit)
                *ret_unit = TAKE_PTR(unit);
        if (ret_user_unit)
                *ret_user_unit = TAKE_PTR(user_unit);
        if (ret_subgroup)
                *ret_subgroup = TAKE_PTR(subgroup);

        return 0;
}

int unit_path_of_unit(const char *path, char **ret) {
        const char *end;
        UnitName outer;
        char *s;

        if (!path_is_valid(path))
                return -EINVAL;

        end = find_unit(path, &outer);
        s = end == path ? strdup("/") : strndup(path, (size_t) (end - path));
        if (!s)
                return -ENOMEM;
        *ret = s;

        return 0;
}
