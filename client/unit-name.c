/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <fnmatch.h>

#include "query-internal.h"
#include "text.h"

#define WILDCARDS "*?["

bool unit_name_is_pattern(const char *name) {
        return strpbrk(name, WILDCARDS);
}

char *unit_name_mangle(const char *name) {
        static const char *const suffixes[] = {
                ".service", ".socket", ".target", ".device", ".mount", ".automount",
                ".swap",    ".timer",  ".path",   ".slice",  ".scope",
        };
        char *mangled;

        /* Owners that are no unit have names in parentheses. */
        if (name[0] == '(' || unit_name_is_pattern(name))
                return strdup(name);
        for (size_t i = 0; i < ELEMENTSOF(suffixes); i++)
                if (endswith(name, suffixes[i]))
                        return strdup(name);
        if (asprintf(&mangled, "%s.service", name) < 0)
                return NULL;

        return mangled;
}

int unit_names_mangle(int n, char **arguments, char ***ret) {
        _cleanup_(strv_freep) char **names = NULL;

        names = calloc((size_t) n + 1, sizeof(char *));
        if (!names)
                return -ENOMEM;
        for (int i = 0; i < n; i++) {
                names[i] = unit_name_mangle(arguments[i]);
                if (!names[i])
                        return -ENOMEM;
        }
        *ret = TAKE_PTR(names);

        return 0;
}

int query_patterns_new(char **patterns, char ***ret) {
        _cleanup_(strv_freep) char **sent = NULL;
        size_t n = 0;

        while (patterns && patterns[n])
                n++;
        sent = calloc(n + 1, sizeof(char *));
        if (!sent)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                sent[i] = strdup(patterns[i]);
                if (!sent[i])
                        return -ENOMEM;
                for (char *c = sent[i]; *c; c++)
                        if (*c == '\\')
                                *c = '?';
        }
        *ret = TAKE_PTR(sent);

        return 0;
}

bool unit_name_matches(char **patterns, const char *name) {
        if (!patterns || !*patterns)
                return true;
        if (!name)
                return false;
        for (char **p = patterns; *p; p++)
                if (unit_name_is_pattern(*p) ? fnmatch(*p, name, FNM_NOESCAPE) == 0 : streq(*p, name))
                        return true;

        return false;
}

void query_rows_match(char **patterns, Rows *rows) {
        size_t kept = 0;

        if (!patterns || !*patterns)
                return;
        for (size_t i = 0; i < rows->n; i++) {
                Row row = rows->items[i];

                if (!unit_name_matches(patterns, row.unit) && !unit_name_matches(patterns, row.user_unit)) {
                        row_clear(&rows->items[i]);
                        continue;
                }
                rows->items[kept++] = row;
        }
        rows->n = kept;
}
