/* SPDX-License-Identifier: LGPL-2.1-or-later */

/* Attaches programs that do nothing, to where iolat's are attached: what is measured with them is the floor, below
 * which no measurement gets. Reads lines "KIND TARGET" up to an empty one, the same line several times for several
 * programs; says "ready N"; then answers each line "stats" with what its programs ran, which is 0 unless somebody has
 * switched BPF statistics on. Ends with SIGTERM or with its input. */

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "empty.skel.h"

enum {
        POINTS_MAX = 1024,
        TARGET_MAX = 128,
};

typedef struct Point {
        const char *kind;
        char target[TARGET_MAX];
        struct empty_bpf *skel;
        struct bpf_program *program;
        struct bpf_link *link;
} Point;

static const struct {
        const char *kind; /* as iolat says */
        const char *program;
        bool by_btf; /* the target is a part of the program that is loaded */
        bool by_pattern;
        bool at_return;
} kinds[] = {
        { "tp_btf", "empty_tp_btf", .by_btf = true },
        { "fentry", "empty_fentry", .by_btf = true },
        { "fexit", "empty_fexit", .by_btf = true },
        { "kprobe", "empty_kprobe" },
        { "kretprobe", "empty_kretprobe", .at_return = true },
        { "kprobe.multi", "empty_kprobe_multi", .by_pattern = true },
        { "kretprobe.multi", "empty_kretprobe_multi", .by_pattern = true, .at_return = true },
};

static int find_kind(const char *name, size_t *ret) {
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                if (strcmp(kinds[i].kind, name) == 0) {
                        *ret = i;
                        return 0;
                }

        return -EINVAL;
}

static void point_done(Point *p) {
        bpf_link__destroy(p->link);
        empty_bpf__destroy(p->skel);
        *p = (Point){};
}

static struct bpf_link *attach(const Point *p, size_t kind) {
        LIBBPF_OPTS(bpf_kprobe_multi_opts, opts);
        const char *symbols[] = { p->target };

        if (kinds[kind].by_btf)
                return bpf_program__attach(p->program);
        if (!kinds[kind].by_pattern)
                return bpf_program__attach_kprobe(p->program, kinds[kind].at_return, p->target);
        opts.syms = symbols;
        opts.cnt = 1;
        opts.retprobe = kinds[kind].at_return;

        return bpf_program__attach_kprobe_multi_opts(p->program, NULL, &opts);
}

static int point_open(Point *p, const char *kind, const char *target) {
        struct bpf_program *other;
        size_t k;
        int r;

        r = find_kind(kind, &k);
        if (r < 0)
                return r;
        if (strlen(target) >= sizeof(p->target))
                return -ENAMETOOLONG;
        p->kind = kinds[k].kind;
        strcpy(p->target, target);
        p->skel = empty_bpf__open();
        if (!p->skel)
                return -errno;
        bpf_object__for_each_program(other, p->skel->obj)
                bpf_program__set_autoload(other, false);
        p->program = bpf_object__find_program_by_name(p->skel->obj, kinds[k].program);
        bpf_program__set_autoload(p->program, true);
        if (kinds[k].by_btf) {
                r = bpf_program__set_attach_target(p->program, 0, p->target);
                if (r < 0)
                        return r;
        }
        r = empty_bpf__load(p->skel);
        if (r < 0)
                return r;
        p->link = attach(p, k);

        return p->link ? 0 : -errno;
}

/* Returns the number of points, or a negative errno. */
static int read_points(Point *points) {
        char line[512], kind[32], target[256];
        int n = 0, r;

        while (fgets(line, sizeof(line), stdin) && line[0] != '\n') {
                if (sscanf(line, "%31s %255s", kind, target) != 2 || n == POINTS_MAX) {
                        fprintf(stderr, "iolat-bench-empty: cannot take '%s'\n", strtok(line, "\n"));
                        return -EINVAL;
                }
                r = point_open(points + n++, kind, target);
                if (r < 0) {
                        fprintf(stderr, "iolat-bench-empty: cannot attach to %s:%s: %s\n", kind, target,
                                strerror(-r));
                        return r;
                }
        }

        return n;
}

static int print_stats(const Point *points, int n) {
        for (int i = 0; i < n; i++) {
                struct bpf_prog_info info = {};
                uint32_t size = sizeof(info);

                if (bpf_obj_get_info_by_fd(bpf_program__fd(points[i].program), &info, &size) < 0)
                        return -errno;
                printf("%s{\"id\":%u,\"kind\":\"%s\",\"target\":\"%s\"", i == 0 ? "[" : ",", info.id, points[i].kind,
                       points[i].target);
                printf(",\"runCount\":%" PRIu64 ",\"runNSec\":%" PRIu64 "}", (uint64_t) info.run_cnt,
                       (uint64_t) info.run_time_ns);
        }
        printf(n == 0 ? "[]\n" : "]\n");

        return fflush(stdout) == 0 ? 0 : -errno;
}

static int answer(const Point *points, int n) {
        char line[64];
        int r;

        if (printf("ready %d\n", n) < 0 || fflush(stdout) != 0)
                return -errno;
        while (fgets(line, sizeof(line), stdin)) {
                if (strcmp(line, "stats\n") != 0)
                        return -EINVAL;
                r = print_stats(points, n);
                if (r < 0)
                        return r;
        }

        return 0;
}

int main(int argc, char **argv) {
        static Point points[POINTS_MAX];
        int n, r;

        libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
        n = read_points(points);
        r = n < 0 ? n : answer(points, n);
        if (n >= 0 && r < 0)
                fprintf(stderr, "iolat-bench-empty: %s\n", strerror(-r));
        for (int i = 0; i < POINTS_MAX; i++)
                point_done(points + i);

        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
