/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <errno.h>
#include <stdbool.h>

#include "varlink-params.h"

int varlink_dispatch_number(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *userdata) {
        uint64_t *number = userdata;

        if (sd_json_variant_is_null(v))
                return 0;
        if (!sd_json_variant_is_unsigned(v))
                return -EINVAL;
        *number = sd_json_variant_unsigned(v);

        return 0;
}

int varlink_dispatch_bool(const char *name, sd_json_variant *v, sd_json_dispatch_flags_t flags, void *userdata) {
        bool *b = userdata;

        if (sd_json_variant_is_null(v))
                return 0;
        if (!sd_json_variant_is_boolean(v))
                return -EINVAL;
        *b = sd_json_variant_boolean(v);

        return 0;
}
