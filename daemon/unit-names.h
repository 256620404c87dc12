/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* How the names of units, templates, prefixes and types belong together. No I/O in here. */

#include "unit-path.h"

/* Only these have processes. */
bool unit_type_is_valid(const char *s);
const char *unit_type_of(const char *name);

/* Of names that are valid: "foo@.service", "foo@x.service", "foo-.service". */
bool unit_name_is_template(const char *name);
bool unit_name_is_instance(const char *name);
bool unit_name_is_prefix(const char *name);

/* A unit's name, or that of a template. */
bool unit_or_template_is_valid(const char *name);

/* "foo@x.service" -> "foo@.service" */
void unit_template_of(const char *name, char ret[static UNIT_NAME_MAX + 1]);

/* "foo@.service" and "bar@x.service" -> "foo@x.service"; false if that is too long. */
bool unit_instance_of(const char *template, const char *other, char ret[static UNIT_NAME_MAX + 1]);

/* "foo-bar@x.service" -> "foo-@x.service", "foo-bar-.service" -> "foo-.service"; false if there is no such prefix. */
bool unit_name_shorten(const char *name, char ret[static UNIT_NAME_MAX + 1]);

/* The pattern of what a template, prefix or type is about, else the name itself; false if it does not fit. */
bool unit_pattern_of(const char *base, char *ret, size_t size);
