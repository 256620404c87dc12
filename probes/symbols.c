/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "symbols.h"

static int compare_symbol(const void *a, const void *b) {
        return strcmp(((const Symbol *) a)->name, ((const Symbol *) b)->name);
}

const Symbol *symbols_find(const Symbol *symbols, size_t n, const char *name) {
        Symbol key = { .name = name };

        return bsearch(&key, symbols, n, sizeof(*symbols), compare_symbol);
}

int symbols_read(Symbol *symbols, size_t n) {
        _cleanup_fclose_ FILE *f = NULL;
        _cleanup_free_ char *line = NULL;
        Symbol *open = NULL; /* whose end is not known yet: kallsyms is sorted by address within vmlinux */
        size_t allocated = 0;

        qsort(symbols, n, sizeof(*symbols), compare_symbol);
        f = fopen("/proc/kallsyms", "re");
        if (!f)
                return -errno;

        while (getline(&line, &allocated, f) >= 0) {
                unsigned long long address;
                char type, name[128];
                Symbol *s;

                if (sscanf(line, "%llx %c %127s", &address, &type, name) != 3)
                        continue;
                if (open && address > open->start) {
                        open->end = address;
                        open = NULL;
                }
                s = (Symbol *) symbols_find(symbols, n, name);
                if (!s || s->found || (!s->data && type != 't' && type != 'T'))
                        continue;
                s->found = true;
                s->start = address;
                if (address)
                        open = s;
        }

        return ferror(f) ? -EIO : 0;
}
