/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <time.h>

#include "abi.h"
#include "calibrate.h"
#include "choice.h"
#include "generation.h"
#include "loader.h"
#include "log.h"
#include "pins.h"
#include "probe-cost.h"
#include "probe-table.h"

enum {
        LOCK_TIMEOUT_MS = 60000,
        FLOOR_RUNS = 5000,
        ATTEMPTS_MAX = 3, /* when programs are replaced meanwhile */
        NAME_LEN_MAX = 96,
};

/* Which of the sums of struct probe_cost a program's time belongs to. */
typedef enum ProgramPart { PART_ENTER, PART_EXIT, PART_TWIN } ProgramPart;

typedef struct Program {
        int fd;
        enum probe probe;
        ProgramPart part;
        uint64_t run_ns; /* when statistics began */
        uint64_t runs;
} Program;

typedef struct Calibration {
        const char *bpffs; /* borrowed */
        int root_fd;
        unsigned generation;
        struct meta meta;
        int infos_fd;
        int hits_fd;
        int costs_fd;
        unsigned n_cpus;
        uint64_t *hits_buffer; /* n_cpus */
        uint64_t hits[_PROBE_MAX]; /* when statistics began */
        unsigned attached[_PROBE_MAX];
        Program *programs;
        size_t n_programs;
        size_t n_allocated;
} Calibration;

static void programs_done(Calibration *c) {
        for (size_t i = 0; i < c->n_programs; i++)
                close(c->programs[i].fd);
        free(c->programs);
        c->programs = NULL;
        c->n_programs = c->n_allocated = 0;
        closep(&c->infos_fd);
        closep(&c->hits_fd);
        closep(&c->costs_fd);
        c->infos_fd = c->hits_fd = c->costs_fd = -EBADF;
}

static void calibration_done(Calibration *c) {
        programs_done(c);
        free(c->hits_buffer);
        closep(&c->root_fd);
}

static int open_pin(Calibration *c, const char *kind, const char *name) {
        char path[PIN_PATH_MAX];
        int fd, r;

        r = pins_path(path, c->bpffs, c->generation, false, kind, name);
        if (r < 0)
                return r;
        fd = bpf_obj_get(path);

        return fd < 0 ? -errno : fd;
}

static int open_maps(Calibration *c) {
        struct bpf_map_info info = {};
        uint32_t size = sizeof(info);

        c->infos_fd = open_pin(c, "maps", "probe_infos");
        if (c->infos_fd < 0)
                return c->infos_fd;
        c->hits_fd = open_pin(c, "maps", "hits");
        if (c->hits_fd < 0)
                return c->hits_fd;
        c->costs_fd = open_pin(c, "maps", "costs");
        if (c->costs_fd < 0)
                return c->costs_fd;
        if (bpf_obj_get_info_by_fd(c->costs_fd, &info, &size) < 0)
                return -errno;

        return info.value_size == sizeof(struct probe_cost) && info.max_entries == COST_SLOTS ? 0 : -EPROTO;
}

/* -ENOENT: there is no such program. */
static int add_program(Calibration *c, enum probe probe, ProgramPart part, const char *name) {
        int fd, r;

        fd = open_pin(c, "progs", name);
        if (fd < 0)
                return fd;
        r = array_reserve((void **) &c->programs, &c->n_allocated, c->n_programs, sizeof(c->programs[0]));
        if (r < 0) {
                close(fd);
                return r;
        }
        c->programs[c->n_programs++] = (Program){ .fd = fd, .probe = probe, .part = part };

        return 0;
}

/* Of further sets of programs, where the kernel needs them, there are so many as are pinned. */
static int add_with_twins(Calibration *c, enum probe probe, ProgramPart part, const char *name) {
        char twin[NAME_LEN_MAX];
        int r;

        r = add_program(c, probe, part, name);
        for (unsigned n = 1; r >= 0 && n <= CHOICE_TWINS; n++) {
                snprintf(twin, sizeof(twin), "%s" PIN_TWIN, name, n);
                r = add_program(c, probe, PART_TWIN, twin);
                if (r == -ENOENT)
                        return 0;
        }

        return r;
}

static int add_probe(Calibration *c, const ProbeDef *def) {
        /* The time of a program that is reached by a tail call is that of the one that calls it. */
        const char *name = def->probe == PROBE_HANDLE_STATS ? HANDLE_STATS_STUB : def->program;
        int r;

        r = add_with_twins(c, def->probe, PART_ENTER, name);
        if (r == -ENOENT) /* another candidate's */
                return 0;
        if (r >= 0 && def->exit_program)
                r = add_with_twins(c, def->probe, PART_EXIT, def->exit_program);

        return r;
}

static int open_generation(Calibration *c) {
        int r;

        programs_done(c);
        r = pins_current(c->root_fd, &c->generation);
        if (r < 0)
                return r;
        if (c->generation == 0)
                return -ENODATA;
        r = generation_read_meta(c->bpffs, c->generation, &c->meta);
        if (r == -EUCLEAN || (r >= 0 && c->meta.abi != IOLAT_ABI))
                return -EPROTO;
        if (r >= 0)
                r = open_maps(c);
        if (r < 0)
                return r;

        for (uint32_t p = 0; p < _PROBE_MAX; p++) {
                struct probe_info info;

                if (bpf_map_lookup_elem(c->infos_fd, &p, &info) < 0)
                        return -errno;
                c->attached[p] = info.attached;
        }
        for (size_t i = 0; i < probe_table_size; i++) {
                if (c->attached[probe_table[i].probe] != probe_table[i].kind)
                        continue;
                r = add_probe(c, probe_table + i);
                if (r < 0)
                        return r;
        }

        return 0;
}

static int read_run_time(int fd, uint64_t *ret_ns, uint64_t *ret_runs) {
        struct bpf_prog_info info = {};
        uint32_t size = sizeof(info);

        if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0)
                return -errno;
        *ret_ns = info.run_time_ns;
        *ret_runs = info.run_cnt;

        return 0;
}

static int read_hits(Calibration *c, uint32_t probe, uint64_t *ret) {
        if (bpf_map_lookup_elem(c->hits_fd, &probe, c->hits_buffer) < 0)
                return -errno;
        *ret = 0;
        for (unsigned i = 0; i < c->n_cpus; i++)
                *ret += c->hits_buffer[i];

        return 0;
}

static int read_before(Calibration *c) {
        int r = 0;

        for (size_t i = 0; i < c->n_programs && r >= 0; i++)
                r = read_run_time(c->programs[i].fd, &c->programs[i].run_ns, &c->programs[i].runs);
        for (uint32_t p = 0; p < _PROBE_MAX && r >= 0; p++)
                r = read_hits(c, p, &c->hits[p]);

        return r;
}

/* Differences to what was before, by probe. */
static int read_after(Calibration *c, struct probe_cost measured[static _PROBE_MAX]) {
        int r;

        for (size_t i = 0; i < c->n_programs; i++) {
                const Program *p = c->programs + i;
                struct probe_cost *m = measured + p->probe;
                uint64_t ns = 0, runs = 0;

                r = read_run_time(p->fd, &ns, &runs);
                if (r < 0)
                        return r;
                ns -= p->run_ns;
                runs -= p->runs;
                if (p->part == PART_ENTER) {
                        m->enter_ns += ns;
                        m->runs += runs;
                } else if (p->part == PART_EXIT)
                        m->exit_ns += ns;
                else
                        m->twin_ns += ns;
        }
        for (uint32_t p = 0; p < _PROBE_MAX; p++) {
                uint64_t hits = 0;

                r = read_hits(c, p, &hits);
                if (r < 0)
                        return r;
                measured[p].hits = hits - c->hits[p];
                measured[p].build = c->meta.build;
                measured[p].attached = c->attached[p];
        }

        return 0;
}

/* What the statistics show of a program that does nothing: time that is no program's, but part of every figure. It runs
 * the way that programs at tracepoints do, without being attached to anything. */
static int measure_floor(struct probe_cost *ret) {
        static const struct bpf_insn nothing[] = {
                { .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
                { .code = BPF_JMP | BPF_EXIT },
        };
        _cleanup_close_ int fd = -EBADF;
        uint64_t ns = 0, runs = 0;
        int r;

        fd = bpf_prog_load(BPF_PROG_TYPE_RAW_TRACEPOINT, "iolat_floor", "GPL", nothing, ELEMENTSOF(nothing), NULL);
        if (fd < 0)
                return -errno;
        for (unsigned i = 0; i < FLOOR_RUNS; i++) {
                LIBBPF_OPTS(bpf_test_run_opts, opts);

                if (bpf_prog_test_run_opts(fd, &opts) < 0)
                        return -errno;
        }
        r = read_run_time(fd, &ns, &runs);
        if (r < 0)
                return r;
        *ret = (struct probe_cost){ .attached = ATTACH_TP_BTF, .hits = runs, .runs = runs, .enter_ns = ns };

        return 0;
}

static int measure(Calibration *c, unsigned seconds, struct probe_cost measured[static COST_FLOOR + 1]) {
        struct timespec left = { .tv_sec = seconds };
        _cleanup_close_ int stats_fd = -EBADF;
        int r;

        /* They are on for as long as this descriptor, and end with this process whatever happens to it. */
        stats_fd = bpf_enable_stats(BPF_STATS_RUN_TIME);
        if (stats_fd < 0)
                return log_error_errno(errno, "Cannot turn on the statistics of BPF, for which CAP_SYS_ADMIN is "
                                              "needed: %m");
        r = read_before(c);
        if (r < 0)
                return log_error_errno(r, "Cannot read the statistics of the programs: %m");
        r = measure_floor(measured + COST_FLOOR);
        if (r < 0)
                log_debug_errno(r, "Cannot run an empty program, ignoring: %m");
        measured[COST_FLOOR].build = c->meta.build;
        while (nanosleep(&left, &left) < 0 && errno == EINTR)
                ;
        r = read_after(c, measured);
        if (r < 0)
                return log_error_errno(r, "Cannot read the statistics of the programs: %m");

        return 0;
}

/* Returns -ESTALE if other programs have come meanwhile: then hits and run times are not of the same ones. */
static int store(Calibration *c, const struct probe_cost measured[static COST_FLOOR + 1], unsigned *ret_n) {
        _cleanup_close_ int lock_fd = -EBADF;
        unsigned current;
        int r;

        *ret_n = 0;
        r = pins_lock(c->root_fd, LOCK_TIMEOUT_MS, &lock_fd);
        if (r >= 0)
                r = pins_current(c->root_fd, &current);
        if (r < 0)
                return r;
        if (current != c->generation)
                return -ESTALE;
        for (uint32_t i = 0; i <= COST_FLOOR; i++) {
                struct probe_cost cost;

                if (i >= _PROBE_MAX && i != COST_FLOOR)
                        continue;
                if (bpf_map_lookup_elem(c->costs_fd, &i, &cost) < 0)
                        return -errno;
                if (!probe_cost_update(&cost, measured + i))
                        continue;
                if (bpf_map_update_elem(c->costs_fd, &i, &cost, BPF_ANY) < 0)
                        return -errno;
                *ret_n += i < _PROBE_MAX;
        }

        return 0;
}

static int open_error(Calibration *c, int r) {
        if (r == -ENODATA)
                return log_error_errno(r, "Nothing is loaded in %s/iolat: run 'iolat-probes load' first.", c->bpffs);
        if (r == -EPROTO || r == -ENOENT)
                return log_error_errno(r, "What is loaded in %s/iolat is of another version: run 'iolat-probes load' "
                                          "of this version first.", c->bpffs);
        if (r == -EACCES || r == -EPERM)
                return loader_log_open_error(c->bpffs, r);

        return log_error_errno(r, "Cannot open what is loaded in %s/iolat: %m", c->bpffs);
}

static unsigned count_attached(const Calibration *c) {
        unsigned n = 0;

        for (size_t p = 0; p < _PROBE_MAX; p++)
                n += c->attached[p] != ATTACH_NONE;

        return n;
}

int loader_calibrate(const char *bpffs, unsigned seconds) {
        _cleanup_(calibration_done) Calibration c = {
                .bpffs = bpffs,
                .root_fd = -EBADF,
                .infos_fd = -EBADF,
                .hits_fd = -EBADF,
                .costs_fd = -EBADF,
        };
        unsigned n;
        int r, cpus;

        generation_setup();
        cpus = libbpf_num_possible_cpus();
        if (cpus < 0)
                return log_error_errno(cpus, "Cannot tell the number of CPUs: %m");
        c.n_cpus = cpus;
        c.hits_buffer = calloc(cpus, sizeof(c.hits_buffer[0]));
        if (!c.hits_buffer)
                return log_oom();
        r = pins_open(bpffs, /* create= */ false, &c.root_fd);
        if (r == -ENOENT)
                return open_error(&c, -ENODATA);
        if (r < 0)
                return loader_log_open_error(bpffs, r);

        for (unsigned attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
                struct probe_cost measured[COST_FLOOR + 1] = {};

                r = open_generation(&c);
                if (r == -ENOENT && attempt + 1 < ATTEMPTS_MAX) /* replaced at this moment */
                        continue;
                if (r < 0)
                        return open_error(&c, r);
                r = measure(&c, seconds, measured);
                if (r < 0)
                        return r;
                r = store(&c, measured, &n);
                if (r == -ESTALE)
                        continue;
                if (r < 0)
                        return log_error_errno(r, "Cannot store what was measured: %m");
                log_info("%u of %u probes were hit often enough in %u s to tell what they cost; an empty program takes "
                         "%.0f ns.", n, count_attached(&c), seconds, probe_cost_ns_per_hit(measured + COST_FLOOR));
                return 0;
        }

        return log_error_errno(r, "The programs were replaced all the time, nothing was measured.");
}
