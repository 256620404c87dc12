/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "names.h"
#include "summary-fold.h"

bool fold_needed(const FoldUnit *units, size_t n, size_t max) {
        size_t rows = 0;

        for (size_t i = 0; i < n; i++)
                rows += units[i].rows;

        return rows > max;
}

static int compare_weight(const void *a, const void *b) {
        const FoldUnit *x = *(const FoldUnit *const *) a, *y = *(const FoldUnit *const *) b;

        if (x->weight != y->weight)
                return x->weight > y->weight ? -1 : 1;

        return strcmp(x->name, y->name);
}

int fold_choose(FoldUnit *units, size_t n, size_t max, size_t *ret_folded) {
        _cleanup_free_ FoldUnit **sorted = calloc(n + 1, sizeof(sorted[0]));
        size_t left = max;

        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                sorted[i] = &units[i];
        qsort(sorted, n, sizeof(sorted[0]), compare_weight);

        *ret_folded = 0;
        for (size_t i = 0; i < n; i++) {
                FoldUnit *u = sorted[i];
                bool is_others = streq(u->name, UNIT_OTHERS);

                u->folded = is_others || u->rows > left;
                if (!u->folded)
                        left -= u->rows;
                else if (!is_others)
                        (*ret_folded)++;
        }

        return 0;
}
