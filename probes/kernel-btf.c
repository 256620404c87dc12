/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-btf.h"

int kernel_btf_of_module(const char *module, struct btf *base, struct btf **ret) {
        struct btf *btf;
        char path[128];

        if (snprintf(path, sizeof(path), "/sys/kernel/btf/%s", module) >= (int) sizeof(path))
                return -EINVAL;
        if (access(path, F_OK) < 0)
                return -errno;
        btf = btf__parse_split(path, base);
        if (!btf)
                return -errno;
        *ret = btf;

        return 0;
}

int kernel_btf_tracepoint_args(const struct btf *btf, const char *name) {
        const struct btf_type *t;
        char typedef_name[128];
        int id;

        if (snprintf(typedef_name, sizeof(typedef_name), "btf_trace_%s", name) >= (int) sizeof(typedef_name))
                return -EINVAL;

        id = btf__find_by_name_kind(btf, typedef_name, BTF_KIND_TYPEDEF);
        if (id < 0)
                return -ENOENT;
        t = btf__type_by_id(btf, btf__type_by_id(btf, id)->type);
        if (!t || !btf_is_ptr(t))
                return -ENOENT;
        t = btf__type_by_id(btf, t->type);
        if (!t || !btf_is_func_proto(t) || btf_vlen(t) == 0)
                return -ENOENT;

        return btf_vlen(t) - 1;
}

int kernel_btf_enumerator(const struct btf *btf, const char *name, int64_t *ret) {
        unsigned n = btf__type_cnt(btf);

        for (unsigned i = 1; i < n; i++) {
                const struct btf_type *t = btf__type_by_id(btf, i);

                if (btf_is_enum(t)) {
                        const struct btf_enum *e = btf_enum(t);

                        for (unsigned k = 0; k < btf_vlen(t); k++)
                                if (streq(strempty(btf__name_by_offset(btf, e[k].name_off)), name)) {
                                        *ret = e[k].val;
                                        return 0;
                                }
                } else if (btf_is_enum64(t)) {
                        const struct btf_enum64 *e = btf_enum64(t);

                        for (unsigned k = 0; k < btf_vlen(t); k++)
                                if (streq(strempty(btf__name_by_offset(btf, e[k].name_off)), name)) {
                                        *ret = btf_enum64_value(e + k);
                                        return 0;
                                }
                }
        }

        return -ENOENT;
}
