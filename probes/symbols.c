/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <fcntl.h>

#include "symbols.h"

static int compare_symbol(const void *a, const void *b) {
        return strcmp(((const Symbol *) a)->name, ((const Symbol *) b)->name);
}

const Symbol *symbols_find(const Symbol *symbols, size_t n, const char *name) {
        Symbol key = { .name = name };

        return bsearch(&key, symbols, n, sizeof(*symbols), compare_symbol);
}

static int open_symbols(int fd, FILE **ret) {
        _cleanup_close_ int copy = -EBADF;
        FILE *f;

        copy = fd < 0 ? open(KALLSYMS_PATH, O_RDONLY | O_CLOEXEC) : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (copy < 0)
                return -errno;
        if (lseek(copy, 0, SEEK_SET) < 0) /* it may have been read before */
                return -errno;
        f = fdopen(copy, "r");
        if (!f)
                return -errno;
        (void) take_fd(&copy);
        *ret = f;

        return 0;
}

int symbols_read(Symbol *symbols, size_t n, int fd) {
        _cleanup_fclose_ FILE *f = NULL;
        _cleanup_free_ char *line = NULL;
        Symbol *open = NULL; /* whose end is not known yet: kallsyms is sorted by address within vmlinux */
        size_t allocated = 0;
        int r;

        qsort(symbols, n, sizeof(*symbols), compare_symbol);
        r = open_symbols(fd, &f);
        if (r < 0)
                return r;

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

bool symbols_have_addresses(const Symbol *symbols, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (symbols[i].start != 0)
                        return true;

        return false;
}
