/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "unit-names.h"

bool unit_type_is_valid(const char *s) {
        static const char *const types[] = { "service", "scope", "slice", "socket", "mount", "swap" };

        for (size_t i = 0; i < ELEMENTSOF(types); i++)
                if (streq(types[i], s))
                        return true;

        return false;
}

const char *unit_type_of(const char *name) {
        const char *dot = strrchr(name, '.');

        return dot ? dot + 1 : name;
}

bool unit_name_is_template(const char *name) {
        const char *at = strchr(name, '@');

        return at && at + 1 == strrchr(name, '.');
}

bool unit_name_is_instance(const char *name) {
        const char *at = strchr(name, '@'), *dot = strrchr(name, '.');

        return at && dot && at + 1 < dot;
}

bool unit_name_is_prefix(const char *name) {
        const char *dot = strrchr(name, '.');

        return dot && dot - name > 1 && dot[-1] == '-' && !strchr(name, '@');
}

bool unit_or_template_is_valid(const char *name) {
        char instance[UNIT_NAME_MAX + 2];
        const char *dot = strrchr(name, '.');

        if (!dot || !unit_type_is_valid(dot + 1) || strlen(name) > UNIT_NAME_MAX)
                return false;
        if (!unit_name_is_template(name))
                return unit_name_is_valid(name);
        (void) snprintf(instance, sizeof(instance), "%.*sx%s", (int) (dot - name), name, dot);

        return strlen(name) < UNIT_NAME_MAX && unit_name_is_valid(instance);
}

void unit_template_of(const char *name, char ret[static UNIT_NAME_MAX + 1]) {
        (void) snprintf(ret, UNIT_NAME_MAX + 1, "%.*s@.%s", (int) (strchr(name, '@') - name), name,
                        unit_type_of(name));
}

bool unit_instance_of(const char *template, const char *other, char ret[static UNIT_NAME_MAX + 1]) {
        const char *at = strchr(template, '@');

        return snprintf(ret, UNIT_NAME_MAX + 1, "%.*s%s", (int) (at - template), template, strchr(other, '@')) <=
                UNIT_NAME_MAX;
}

bool unit_pattern_of(const char *base, char *ret, size_t size) {
        const char *dot = strrchr(base, '.');

        if (!dot)
                return snprintf(ret, size, "*.%s", base) < (int) size;
        if (unit_name_is_template(base) || unit_name_is_prefix(base))
                return snprintf(ret, size, "%.*s*%s", (int) (dot - base), base, dot) < (int) size;

        return snprintf(ret, size, "%s", base) < (int) size;
}

bool unit_name_shorten(const char *name, char ret[static UNIT_NAME_MAX + 1]) {
        const char *dot = strrchr(name, '.'), *at = strchr(name, '@');
        const char *rest = unit_name_is_instance(name) ? at : dot;
        size_t n = (size_t) ((at ?: dot) - name);

        if (n > 0 && name[n - 1] == '-')
                n--;
        while (n > 0 && name[n - 1] != '-')
                n--;
        if (n <= 1) /* no dash, or one at the beginning */
                return false;

        return snprintf(ret, UNIT_NAME_MAX + 1, "%.*s%s", (int) n, name, rest) <= UNIT_NAME_MAX;
}
