/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fuzz.h"
#include "mountinfo.h"

/* /proc/self/mountinfo: mount points and sources are chosen by others. */

static int on_mount(const MountInfo *m, void *userdata) {
        size_t *total = userdata;

        fuzz_check(*m->root && *m->mount_point && *m->fs_type);
        *total += strlen(m->root) + strlen(m->mount_point) + strlen(m->fs_type) + strlen(m->source);

        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_fclose_ FILE *f = NULL;
        size_t total = 0;

        if (size == 0)
                return 0;
        f = fmemopen((void *) data, size, "re");
        fuzz_check(f);
        fuzz_check(mountinfo_foreach(f, on_mount, &total) == 0);
        fuzz_check(total <= size);

        return 0;
}
