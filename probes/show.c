/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "generation.h"
#include "loader.h"
#include "log.h"
#include "pins.h"
#include "probe-cost.h"
#include "probe-table.h"

/* -EBADF if there is none. */
static int open_costs(const char *bpffs, unsigned generation) {
        struct bpf_map_info info = {};
        _cleanup_close_ int fd = -EBADF;
        uint32_t size = sizeof(info);
        char path[PIN_PATH_MAX];

        if (pins_path(path, bpffs, generation, false, "maps", "costs") < 0)
                return -EBADF;
        fd = bpf_obj_get(path);
        if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size) < 0 || info.value_size != sizeof(struct probe_cost))
                return -EBADF;

        return take_fd(&fd);
}

static const char *cost_text(int fd, uint32_t probe, uint64_t build, unsigned attached, char *buf, size_t size) {
        struct probe_cost cost;

        buf[0] = 0;
        if (fd >= 0 && bpf_map_lookup_elem(fd, &probe, &cost) >= 0 && probe_cost_is_of(&cost, build, attached))
                (void) snprintf(buf, size, ", %.0f ns a hit", probe_cost_ns_per_hit(&cost));

        return buf;
}

int loader_show(const char *bpffs) {
        _cleanup_close_ int root_fd = -EBADF, fd = -EBADF, costs_fd = -EBADF;
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

        costs_fd = open_costs(bpffs, current);

        printf("Generation %u, ABI %u, build %016llx\n", current, meta.abi, (unsigned long long) meta.build);
        if (meta.tier == TIER_FUNCTION)
                printf("Function tier\n");
        else
                printf("Tracepoint tier (no function tier: %s)\n", meta.tier_reason);
        for (uint32_t i = 0; i < _PROBE_MAX; i++) {
                const ProbeDef *def;
                struct probe_info info;
                char cost[80];

                if (bpf_map_lookup_elem(fd, &i, &info) < 0)
                        continue;
                def = probe_def_find(i, info.attached);
                if (!def)
                        continue;
                info.reason[sizeof(info.reason) - 1] = 0;
                if (info.attached)
                        printf("%-22s %s:%s%s\n", def->name, attach_kind_to_string(info.attached), def->target,
                               cost_text(costs_fd, i, meta.build, info.attached, cost, sizeof(cost)));
                else if (info.reason[0])
                        printf("%-22s absent: %s\n", def->name, info.reason);
        }

        return 0;
}
