/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "generation.h"
#include "loader.h"
#include "log.h"
#include "pins.h"
#include "probe-table.h"

int loader_show(const char *bpffs) {
        _cleanup_close_ int root_fd = -EBADF, fd = -EBADF;
        struct meta meta;
        char path[PIN_PATH_MAX];
        unsigned current;
        int r;

        r = pins_open(bpffs, /* create= */ false, &root_fd);
        if (r == -ENOENT) {
                printf("Nothing is loaded.\n");
                return 0;
        }
        if (r < 0)
                return loader_log_open_error(bpffs, r);
        r = pins_current(root_fd, &current);
        if (r >= 0 && current == 0) {
                printf("Nothing is loaded.\n");
                return 0;
        }
        if (r >= 0)
                r = generation_read_meta(bpffs, current, &meta);
        if (r >= 0)
                r = pins_path(path, bpffs, current, false, "maps", "probe_infos");
        if (r < 0)
                return log_error_errno(r, "Cannot read what is loaded: %m");
        fd = bpf_obj_get(path);
        if (fd < 0)
                return log_error_errno(errno, "Cannot read what is loaded: %m");

        printf("Generation %u, ABI %u, build %016llx\n", current, meta.abi, (unsigned long long) meta.build);
        if (meta.tier == TIER_FUNCTION)
                printf("Function tier\n");
        else
                printf("Tracepoint tier (no function tier: %s)\n", meta.tier_reason);
        for (uint32_t i = 0; i < _PROBE_MAX; i++) {
                const ProbeDef *def;
                struct probe_info info;

                if (bpf_map_lookup_elem(fd, &i, &info) < 0)
                        continue;
                def = probe_def_find(i, info.attached);
                if (!def)
                        continue;
                info.reason[sizeof(info.reason) - 1] = 0;
                if (info.attached)
                        printf("%-22s %s:%s\n", def->name, attach_kind_to_string(info.attached), def->target);
                else if (info.reason[0])
                        printf("%-22s absent: %s\n", def->name, info.reason);
        }

        return 0;
}
