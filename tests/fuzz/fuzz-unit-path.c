/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz.h"
#include "unit-path.h"

/* Paths of cgroups, and names of units. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_free_ char *path = fuzz_string(data, size), *unit = NULL, *user_unit = NULL, *subgroup = NULL;
        _cleanup_free_ char *own = NULL, *again = NULL;

        (void) unit_name_is_valid(path);
        if (unit_path_decode(path, &unit, &user_unit, &subgroup) < 0) {
                fuzz_check(!unit && !user_unit && !subgroup);
                fuzz_check(unit_path_of_unit(path, &own) < 0 && !own);
                return 0;
        }
        fuzz_check(unit_name_is_valid(unit) || streq(unit, "-.slice"));
        fuzz_check(!user_unit || unit_name_is_valid(user_unit));
        fuzz_check(!subgroup || (*subgroup && *subgroup != '/' && !endswith(subgroup, "/") &&
                                 strstr(path, subgroup)));

        /* The unit's own cgroup is above the path, and of the same unit. */
        fuzz_check(unit_path_of_unit(path, &own) == 0);
        fuzz_check(streq(own, "/") || startswith(path, own));
        fuzz_check(unit_path_decode(own, &again, NULL, NULL) == 0);
        fuzz_check(streq(again, unit));

        return 0;
}
