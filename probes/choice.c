/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include <bpf/btf.h>
#include <sys/stat.h>
#include <time.h>

#include "abi.h"

#include "iolat.skel.h"

#include "cgroup-tree.h"
#include "choice.h"
#include "kernel-btf.h"
#include "log.h"
#include "symbols.h"

enum {
        GENERATION_BITS = 10, /* of program_bit; generations that overlap never differ by that many */
        DEFS_MAX = 256,
        SYMBOLS_MAX = 128,
        REASON_LEN = 120,
};

/* Where a task sleeps until it is admitted to the device. */
static const char *const admission_functions[] = {
        "blk_mq_get_tag",
        "rq_qos_wait",
        "wbt_wait",
        "ioc_rqos_throttle",
        "__bio_queue_enter",
        "blk_queue_enter",
};

/* Since 7.1 tracepoints run their programs preemptibly, under this srcu_struct (there was one of the same name up to
 * 6.12 for another purpose, before struct srcu_ctr came in 6.15). A program that is preempted makes the kernel skip it
 * for the next task's event on that CPU. */
#define TRACEPOINT_SRCU "tracepoint_srcu"

/* What the programs know of modules beside the functions that they attach to. */
static const char *const module_symbols[] = { "btrfs_bioset", "crypt_endio" };

/* Modules with tracepoints of the table, where they are modules: all but the smallest kernels for guests of Debian, and
 * RHEL's. */
static const char *const tracepoint_modules[] = { "jbd2", "ext4" };

/* What they compare pointers with. */
#define ADDRESSES(X)               \
        X(aio_fsync_work)           \
        X(bio_chain_endio)          \
        X(btrfs_bioset)             \
        X(btrfs_compressed_bioset)  \
        X(crypt_endio)              \
        X(end_compressed_bio_write)

struct Choice {
        bool may_function, may_tracepoint, may_fentry; /* by the tier that was asked for */
        bool no_fentry;                                /* the kernel refuses all of them */
        bool no_kprobe;
        enum tier tier;
        unsigned options; /* OPTION_* */
        struct btf *btf;
        struct btf *module_btf[ELEMENTSOF(tracepoint_modules)]; /* NULL if not loaded, or no module */
        Symbol symbols[SYMBOLS_MAX];
        size_t n_symbols;
        bool refused[DEFS_MAX]; /* by index in probe_table */
        bool no_twin[DEFS_MAX]; /* the same, in a further set */
        bool chosen[DEFS_MAX];
        struct probe_info info[PROBE_SLOTS];
        uint64_t root_cgroup_id;
        char tier_reason[TIER_REASON_LEN];
};

int choice_new(Choice **ret, const char *tier, unsigned wanted_options) {
        _cleanup_(choice_freep) Choice *c = calloc(1, sizeof(*c));

        if (!c)
                return -ENOMEM;
        c->may_function = streq(tier, "auto") || streq(tier, "function") || streq(tier, "kprobe");
        c->may_tracepoint = streq(tier, "auto") || streq(tier, "tracepoint");
        c->may_fentry = !streq(tier, "kprobe");
        if (!c->may_function && !c->may_tracepoint)
                return -EINVAL;
        c->options = wanted_options;
        *ret = TAKE_PTR(c);

        return 0;
}

Choice *choice_free(Choice *c) {
        if (!c)
                return NULL;
        for (size_t i = 0; i < ELEMENTSOF(c->module_btf); i++)
                btf__free(c->module_btf[i]);
        btf__free(c->btf);
        free(c);

        return NULL;
}

static bool kind_is_function(enum attach_kind kind) {
        return kind == ATTACH_FENTRY || kind == ATTACH_KPROBE || kind == ATTACH_KPROBE_MULTI;
}

/* NULL if there are too many. */
static Symbol *want_symbol(Choice *c, const char *name) {
        for (size_t i = 0; i < c->n_symbols; i++)
                if (streq(c->symbols[i].name, name))
                        return c->symbols + i;
        if (c->n_symbols >= SYMBOLS_MAX)
                return NULL;
        c->symbols[c->n_symbols].name = name;

        return c->symbols + c->n_symbols++;
}

static void want_data(Choice *c, const char *name) {
        Symbol *s = want_symbol(c, name);

        if (s)
                s->data = true;
}

static void read_modules(Choice *c) {
        for (size_t i = 0; i < ELEMENTSOF(tracepoint_modules); i++) {
                int r = kernel_btf_of_module(tracepoint_modules[i], c->btf, c->module_btf + i);

                if (r < 0 && r != -ENOENT)
                        log_debug_errno(r, "Cannot read the BTF of module %s, doing without its tracepoints: %m",
                                        tracepoint_modules[i]);
        }
}

int choice_read_kernel(Choice *c, bool symbols_from_stdin) {
        _cleanup_free_ char *root = NULL;
        struct stat st;
        int r;

        _Static_assert(DEFS_MAX >= PROBE_SLOTS * 2, "two candidates each");
        c->btf = btf__load_vmlinux_btf();
        if (!c->btf)
                return -errno;
        read_modules(c);

        for (size_t i = 0; i < probe_table_size; i++)
                if (kind_is_function(probe_table[i].kind))
                        (void) want_symbol(c, probe_table[i].target);
        for (size_t i = 0; i < ELEMENTSOF(admission_functions); i++)
                (void) want_symbol(c, admission_functions[i]);
        for (size_t i = 0; i < ELEMENTSOF(module_symbols); i++)
                want_data(c, module_symbols[i]);
        want_data(c, TRACEPOINT_SRCU);
#define WANT(name) want_data(c, #name);
        ADDRESSES(WANT)
#undef WANT
        r = symbols_read(c->symbols, c->n_symbols, symbols_from_stdin ? STDIN_FILENO : -EBADF);
        if (r < 0)
                log_debug_errno(r, "Cannot read %s, doing without functions: %m",
                                symbols_from_stdin ? "the symbols from standard input" : KALLSYMS_PATH);
        else
                log_debug("The kernel tells %s.",
                          symbols_have_addresses(c->symbols, c->n_symbols) ? "addresses" : "no addresses");

        c->no_kprobe = access("/sys/bus/event_source/devices/kprobe/type", F_OK) < 0;
        if (cgroup_root(&root) >= 0 && stat(root, &st) >= 0)
                c->root_cgroup_id = st.st_ino;

        return 0;
}

static void set_reason(Choice *c, enum probe probe, const char *reason) {
        if (!c->info[probe].attached)
                snprintf(c->info[probe].reason, sizeof(c->info[probe].reason), "%s", reason);
}

static int tracepoint_args(const Choice *c, const char *name) {
        int n = kernel_btf_tracepoint_args(c->btf, name);

        for (size_t i = 0; i < ELEMENTSOF(c->module_btf) && n == -ENOENT; i++)
                if (c->module_btf[i])
                        n = kernel_btf_tracepoint_args(c->module_btf[i], name);

        return n;
}

/* Why the tracepoint does not do; NULL if it does. */
static const char *unfit_tracepoint(Choice *c, const ProbeDef *def, char buf[static REASON_LEN]) {
        int n = tracepoint_args(c, def->target);

        if (n < 0)
                snprintf(buf, REASON_LEN, "this kernel has no tracepoint %s now", def->target);
        else if (def->n_args != 0 && (unsigned) n != def->n_args)
                snprintf(buf, REASON_LEN, "tracepoint %s has %d arguments", def->target, n);
        else
                return NULL;

        return buf;
}

/* That there is no such tracepoint may be because its module is not there. */
static bool is_of_module(const char *tracepoint) {
        for (size_t i = 0; i < ELEMENTSOF(tracepoint_modules); i++)
                if (startswith(tracepoint, tracepoint_modules[i]))
                        return true;

        return false;
}

static bool has_symbol(const Choice *c, const ProbeDef *def) {
        const Symbol *s = symbols_find(c->symbols, c->n_symbols, def->target);

        return s && s->found;
}

static const char *unfit_function(Choice *c, const ProbeDef *def, char buf[static REASON_LEN]) {
        if (!has_symbol(c, def)) {
                snprintf(buf, REASON_LEN, "this kernel has no function %s now", def->target);
                return buf;
        }
        /* Where programs at trampolines are skipped when one was preempted, those of ftrace, which run without
         * preemption, are better; and only there, because they cost more. */
        if (def->kind == ATTACH_FENTRY && def->exit_program && choice_needs_twins(c))
                return "programs at trampolines are preempted on this kernel";
        if (def->kind == ATTACH_KPROBE_MULTI && !choice_needs_twins(c))
                return "not needed on this kernel";
        if (def->kind == ATTACH_FENTRY && (c->no_fentry || !c->may_fentry))
                return c->may_fentry ? "this kernel refuses fentry" : "not asked for";
        if (def->kind == ATTACH_KPROBE && c->no_kprobe)
                return "this kernel has no kprobes";

        return NULL;
}

static bool can_come(const Choice *c, const ProbeDef *def) {
        if (def->kind == ATTACH_TP_BTF)
                return is_of_module(def->target) && tracepoint_args(c, def->target) < 0;

        return kind_is_function(def->kind) && !has_symbol(c, def);
}

static void choose(Choice *c, enum tier tier) {
        bool done[_PROBE_MAX] = {};

        memset(c->chosen, 0, sizeof(c->chosen));
        for (size_t i = 0; i < _PROBE_MAX; i++)
                c->info[i].attached = ATTACH_NONE;
        c->tier = tier;

        for (size_t i = 0; i < probe_table_size; i++) {
                const ProbeDef *def = probe_table + i;
                const char *unfit;
                char buf[REASON_LEN];

                if (done[def->probe])
                        continue;
                if (!(def->tiers & (1 << tier)) || (def->option & ~c->options)) {
                        c->info[def->probe] = (struct probe_info){}; /* not a lack */
                        continue;
                }
                if (c->refused[i]) /* the reason is there */
                        continue;
                unfit = def->kind == ATTACH_TP_BTF      ? unfit_tracepoint(c, def, buf) :
                        kind_is_function(def->kind) ? unfit_function(c, def, buf) :
                                                      NULL;
                if (unfit) {
                        set_reason(c, def->probe, unfit);
                        c->info[def->probe].can_come = can_come(c, def);
                        continue;
                }
                c->chosen[i] = done[def->probe] = true;
                c->info[def->probe] = (struct probe_info){ .attached = def->kind };
        }
}

/* Notes what is missing, if something is. */
static bool core_is_complete(Choice *c) {
        for (size_t i = 0; i < probe_table_size; i++) {
                const ProbeDef *def = probe_table + i;

                if (def->need != CORE || c->info[def->probe].attached)
                        continue;
                snprintf(c->tier_reason, sizeof(c->tier_reason), "%s: %s", def->target,
                         c->info[def->probe].reason);
                return false;
        }

        return true;
}

static void set_admission(Choice *c, struct iolat_bpf *skel) {
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(admission_functions) && n < ELEMENTSOF(skel->rodata->admission); i++) {
                const Symbol *s = symbols_find(c->symbols, c->n_symbols, admission_functions[i]);

                if (!s || !s->start || !s->end)
                        continue;
                skel->rodata->admission[n].start = s->start;
                skel->rodata->admission[n++].end = s->end;
        }
}

static uint64_t address_of(const Choice *c, const char *name) {
        const Symbol *s = symbols_find(c->symbols, c->n_symbols, name);

        return s && s->found ? s->start : 0;
}

/* The length of a jiffy: CLOCK_MONOTONIC_COARSE advances by one at a time. */
static uint64_t jiffy_ns(void) {
        struct timespec res;

        if (clock_getres(CLOCK_MONOTONIC_COARSE, &res) < 0 || res.tv_sec != 0)
                return 0;

        return (uint64_t) res.tv_nsec;
}

static void set_constants(Choice *c, struct iolat_bpf *skel, unsigned generation) {
        int64_t v;

        skel->rodata->program_bit = 1U << (generation % GENERATION_BITS);
        skel->rodata->jiffy_ns = jiffy_ns();
        skel->rodata->dirty_tracking = c->info[PROBE_DIRTY].attached;
        skel->rodata->function_tier = c->tier == TIER_FUNCTION;
        skel->rodata->have_rq_create = c->info[PROBE_RQ_CREATE].attached;
        skel->rodata->have_dio_complete = c->info[PROBE_DIO_COMPLETE].attached;
        skel->rodata->root_cgroup_id = c->root_cgroup_id;
        if (kernel_btf_enumerator(c->btf, "__RQF_FLUSH_SEQ", &v) >= 0 && v >= 0 && v < 32)
                skel->rodata->rqf_flush_seq = 1U << v;
#define SET(name) skel->rodata->address_of_##name = address_of(c, #name);
        ADDRESSES(SET)
#undef SET
        set_admission(c, skel);
}

static void autoload(struct iolat_bpf *skel, const ProbeDef *def) {
        bpf_program__set_autoload(bpf_object__find_program_by_name(skel->obj, def->program), true);
        if (def->exit_program)
                bpf_program__set_autoload(bpf_object__find_program_by_name(skel->obj, def->exit_program), true);
}

int choice_apply(Choice *c, struct iolat_bpf *skel, unsigned generation) {
        struct bpf_program *prog;

        c->tier_reason[0] = 0;
        if (c->may_function)
                choose(c, TIER_FUNCTION);
        else
                snprintf(c->tier_reason, sizeof(c->tier_reason), "not asked for");
        if (!c->may_function || (!core_is_complete(c) && c->may_tracepoint))
                choose(c, TIER_TRACEPOINT);
        if (c->tier == TIER_FUNCTION && !core_is_complete(c))
                return -EOPNOTSUPP;

        bpf_object__for_each_program(prog, skel->obj)
                bpf_program__set_autoload(prog, false);
        for (size_t i = 0; i < probe_table_size; i++) {
                const ProbeDef *def = probe_table + i;

                if (c->chosen[i])
                        autoload(skel, def);
        }
        bpf_program__set_autoload(skel->progs.handle_stats_stub, c->info[PROBE_HANDLE_STATS].attached);
        set_constants(c, skel, generation);

        return 0;
}

bool choice_refuse(Choice *c, const char *program, int error, const char *reason) {
        for (size_t i = 0; i < probe_table_size; i++) {
                const ProbeDef *def = probe_table + i;

                if (!streq(def->program, program) && !(def->exit_program && streq(def->exit_program, program)))
                        continue;
                if (c->refused[i])
                        return false;
                if (error == -EPERM || error == -EACCES) {
                        /* Some kernels know no trampolines. Without privileges nothing at all is taken. */
                        if (def->kind == ATTACH_TP_BTF && error == -EPERM)
                                return false;
                        if (def->kind == ATTACH_FENTRY && error == -EPERM) {
                                c->no_fentry = true;
                                return true;
                        }
                }
                c->refused[i] = true;
                c->info[def->probe].attached = ATTACH_NONE;
                set_reason(c, def->probe, reason);

                return true;
        }

        return false;
}

unsigned choice_modules(const Choice *c) {
        unsigned mask = 0;

        for (size_t i = 0; i < ELEMENTSOF(module_symbols); i++) {
                const Symbol *s = symbols_find(c->symbols, c->n_symbols, module_symbols[i]);

                if (s && s->found)
                        mask |= 1U << i;
        }
        for (size_t i = 0; i < ELEMENTSOF(c->module_btf); i++)
                if (c->module_btf[i])
                        mask |= 1U << (ELEMENTSOF(module_symbols) + i);

        return mask;
}

bool choice_finds_more(const Choice *c, enum probe probe, const struct probe_info *present) {
        const ProbeDef *def = probe_def_find(probe, ATTACH_FENTRY);

        return def && !present->attached && present->can_come && has_symbol(c, def);
}

void choice_only_new(Choice *c, struct iolat_bpf *skel, const struct probe_info *present) {
        struct bpf_program *prog;

        bpf_object__for_each_program(prog, skel->obj)
                bpf_program__set_autoload(prog, false);
        for (size_t i = 0; i < probe_table_size; i++) {
                const ProbeDef *def = probe_table + i;

                c->chosen[i] = c->chosen[i] && choice_finds_more(c, def->probe, present + def->probe);
                if (c->chosen[i])
                        autoload(skel, def);
        }
}

bool choice_has(const Choice *c, size_t index) {
        return c->chosen[index];
}

bool choice_needs_twins(const Choice *c) {
        const Symbol *s = symbols_find(c->symbols, c->n_symbols, TRACEPOINT_SRCU);

        return (s && s->found && btf__find_by_name_kind(c->btf, "srcu_ctr", BTF_KIND_STRUCT) >= 0) ||
                secure_getenv("IOLAT_TEST_TWINS");
}

const ProbeDef *choice_twin(const Choice *c, size_t index, unsigned n) {
        const ProbeDef *def = probe_table + index;

        /* Not worth it, or not possible: a plain counter cannot tell that it has seen an event before, and an owner of
         * some journal blocks is no great loss. */
        if (!c->chosen[index] || def->probe == PROBE_HANDLE_STATS || def->probe == PROBE_HANDLE_INODE ||
            def->probe == PROBE_F_JOURNAL_RESTART)
                return NULL;
        /* Programs at ftrace and at kprobes are skipped while the CPU is in the middle of another one, or of a system
         * call of a process that reads a map (kernel/trace/bpf_trace.c:kprobe_multi_link_prog_run(), bpf_prog_active),
         * those at trampolines are not. */
        if (def->kind == ATTACH_KPROBE_MULTI)
                def = n == 1 && c->may_fentry && !c->no_fentry ? probe_def_find(def->probe, ATTACH_FENTRY) : NULL;
        else if (def->kind != ATTACH_TP_BTF && def->kind != ATTACH_FENTRY)
                def = NULL;

        return def && !c->no_twin[def - probe_table] ? def : NULL;
}

void choice_make_twin(const Choice *c, struct iolat_bpf *skel, unsigned n) {
        struct bpf_program *prog;

        _Static_assert((CHOICE_TWINS + 1) * GENERATION_BITS <= 32, "bits for all of them");
        skel->rodata->is_twin = true;
        skel->rodata->program_bit <<= GENERATION_BITS * n;
        bpf_object__for_each_program(prog, skel->obj)
                bpf_program__set_autoload(prog, false);
        for (size_t i = 0; i < probe_table_size; i++) {
                const ProbeDef *twin = choice_twin(c, i, n);

                if (twin)
                        autoload(skel, twin);
        }
}

bool choice_refuse_twin(Choice *c, const char *program) {
        for (size_t i = 0; i < probe_table_size; i++) {
                const ProbeDef *def = probe_table + i;

                if (!streq(def->program, program) && !(def->exit_program && streq(def->exit_program, program)))
                        continue;
                if (c->no_twin[i])
                        return false;
                c->no_twin[i] = true;
                return true;
        }

        return false;
}

const char *choice_tier_reason(const Choice *c) {
        return c->tier_reason;
}

enum tier choice_tier(const Choice *c) {
        return c->tier;
}

const struct probe_info *choice_info(const Choice *c, enum probe probe) {
        return &c->info[probe];
}
