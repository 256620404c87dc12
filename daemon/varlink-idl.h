/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <systemd/sd-varlink-idl.h>

#include "bus-names.h"

#define VARLINK_ERROR_NO_SUCH_UNIT VARLINK_INTERFACE ".NoSuchUnit"
#define VARLINK_ERROR_NO_ENTRIES VARLINK_INTERFACE ".NoEntries"

extern const sd_varlink_interface vl_interface_org_iolat_Manager;
extern const sd_varlink_interface vl_interface_io_systemd_Metrics;
