/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>

#include "abi.h"

#include "iolat.skel.h"

#include "attach.h"
#include "extension.h"
#include "log.h"

static int tell_daemon(Generation *g) {
        int fd = bpf_map__fd(g->skel->maps.meta);
        struct meta m;
        uint32_t key = 0;

        if (bpf_map_lookup_elem(fd, &key, &m) < 0)
                return -errno;
        m.revision++;

        return bpf_map_update_elem(fd, &key, &m, BPF_ANY) < 0 ? -errno : 0;
}

int generation_extend(Generation *g) {
        unsigned n = 0;
        int r;

        r = generation_load(g);
        if (r < 0)
                return r;
        for (size_t i = 0; i < probe_table_size; i++) {
                const ProbeDef *def = probe_table + i;
                struct probe_info info = { .attached = def->kind };
                uint32_t key = def->probe;

                if (!choice_has(g->choice, i))
                        continue;
                r = attach_probe(g, g->skel, def, def, "");
                if (r < 0) {
                        info.attached = ATTACH_NONE;
                        snprintf(info.reason, sizeof(info.reason), "cannot attach to %s: %s", def->target,
                                 strerror(-r));
                        log_debug("Probe %s %s", def->name, info.reason);
                } else
                        n++;
                if (bpf_map_update_elem(bpf_map__fd(g->skel->maps.probe_infos), &key, &info, BPF_ANY) < 0)
                        return -errno;
        }
        generation_attach_twins(g);
        r = tell_daemon(g);

        return r < 0 ? r : (int) n;
}
