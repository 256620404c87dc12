/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "abi.h"

#include "iolat.skel.h"

#include "attach.h"
#include "log.h"
#include "pins.h"

/* An iterator over the elements of the map that the target names, or over all tasks. */
static struct bpf_link *attach_iter(Generation *g, struct bpf_program *prog, const ProbeDef *def) {
        LIBBPF_OPTS(bpf_iter_attach_opts, opts);
        union bpf_iter_link_info info = {};
        const struct bpf_map *map = bpf_object__find_map_by_name(g->skel->obj, def->target);

        if (map) {
                info.map.map_fd = bpf_map__fd(map);
                opts.link_info = &info;
                opts.link_info_len = sizeof(info);
        }

        return bpf_program__attach_iter(prog, &opts);
}

/* As libbpf would do by the name of the program's section; but for that it reads /proc/kallsyms, which may be hidden,
 * and which the kernel does not need. */
static struct bpf_link *attach_multi(struct bpf_program *prog, const ProbeDef *def) {
        const char *name = def->target;
        LIBBPF_OPTS(bpf_kprobe_multi_opts, opts,
                    .syms = &name,
                    .cnt = 1,
                    .retprobe = def->exit_program && streq(bpf_program__name(prog), def->exit_program));

        return bpf_program__attach_kprobe_multi_opts(prog, NULL, &opts);
}

static struct bpf_link *attach(Generation *g, struct bpf_program *prog, const ProbeDef *def) {
        switch (def->kind) {
        case ATTACH_ITER:
                return attach_iter(g, prog, def);
        case ATTACH_KPROBE_MULTI:
                return attach_multi(prog, def);
        default:
                return bpf_program__attach(prog);
        }
}

int attach_and_pin(Generation *g, struct bpf_program *prog, const ProbeDef *def, const char *name) {
        char path[PIN_PATH_MAX];
        struct bpf_link *link;
        int r;

        r = pins_path(path, g->bpffs, g->number, !g->extends, "progs", name);
        if (r < 0)
                return r;
        if (g->extends) /* of a loader that was killed */
                (void) unlink(path);
        if (bpf_obj_pin(bpf_program__fd(prog), path) < 0)
                return -errno;

        r = pins_path(path, g->bpffs, g->number, !g->extends, "links", name);
        if (r < 0)
                return r;
        if (g->extends)
                (void) unlink(path);
        link = attach(g, prog, def);
        if (!link)
                return -errno;
        r = bpf_link__pin(link, path);
        bpf_link__destroy(link); /* the pin holds it, unless that failed */

        return r;
}

int attach_probe(Generation *g, struct iolat_bpf *skel, const ProbeDef *def, const ProbeDef *named,
                 const char *suffix) {
        char name[PROGRAM_NAME_MAX];
        int r;

        /* The end first: it does nothing without a beginning, while a beginning without an end would be a loss. */
        if (def->exit_program) {
                snprintf(name, sizeof(name), "%s%s", named->exit_program, suffix);
                r = attach_and_pin(g, bpf_object__find_program_by_name(skel->obj, def->exit_program), def, name);
                if (r < 0)
                        return r;
        }
        snprintf(name, sizeof(name), "%s%s", named->program, suffix);

        return attach_and_pin(g, bpf_object__find_program_by_name(skel->obj, def->program), def, name);
}
