/* SPDX-License-Identifier: GPL-2.0-only */

/* One object of all subjects: they share maps and inline each other's helpers. */

#include "classify.h"
#include "op.h"
#include "tx.h"

#include "sync.bpf.c"
#include "dio.bpf.c"
#include "wait.bpf.c"
#include "journal.bpf.c"
#include "request.bpf.c"
#include "writeback.bpf.c"
#include "cgroup.bpf.c"
#include "function.bpf.c"
#include "scan.bpf.c"

char LICENSE[] SEC("license") = "GPL";
