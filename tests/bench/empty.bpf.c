/* SPDX-License-Identifier: GPL-2.0-only */

/* What every program costs that does nothing: r0 = 0; exit. One of each type that iolat uses; empty.c opens this
 * object once for each place that it attaches to. */

#define SEC(name) __attribute__((section(name), used))

SEC("tp_btf")
int empty_tp_btf(void *ctx) {
        return 0;
}

SEC("fentry")
int empty_fentry(void *ctx) {
        return 0;
}

SEC("fexit")
int empty_fexit(void *ctx) {
        return 0;
}

SEC("kprobe")
int empty_kprobe(void *ctx) {
        return 0;
}

SEC("kretprobe")
int empty_kretprobe(void *ctx) {
        return 0;
}

SEC("kprobe.multi")
int empty_kprobe_multi(void *ctx) {
        return 0;
}

SEC("kretprobe.multi")
int empty_kretprobe_multi(void *ctx) {
        return 0;
}

char _license[] SEC("license") = "GPL";
