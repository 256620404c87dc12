/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "abi.h"
#include "util.h"

/* The words of the interfaces for the numbers of the kernel's side. *_to_string() return NULL for a number that has
 * no name; *_from_string() return -EINVAL for a word that is none. */
const char *op_to_string(int op);
int op_from_string(const char *s);
const char *phase_to_string(int phase);
int phase_from_string(const char *s);
const char *journal_step_to_string(int step);
const char *rq_kind_to_string(int kind); /* "rq-read", ... */
int rq_kind_from_string(const char *s);
const char *origin_to_string(int origin);
const char *owned_by_to_string(int owned_by);
const char *loss_to_string(int loss);

/* The two parts of a request, in the same name space as phases. */
enum rq_part { RQ_PART_QUEUE, RQ_PART_DEVICE, _RQ_PART_MAX };
const char *rq_part_to_string(int part);
int rq_part_from_string(const char *s);

/* Dirty data, whose age when its writeback began is no wait of anybody: these two only ever come together, in rows that
 * are no operation's. */
#define OP_WRITEBACK "writeback"
#define PHASE_DIRTY_AGE "dirty-age"

#define UNIT_KERNEL "(kernel)"
#define UNIT_EXITED "(exited)"
#define UNIT_OTHERS "(others)"
#define UNIT_UNKNOWN "(unknown)"
