/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

/* Returns a non-blocking listening socket at path that everyone may connect to. A socket whose owner is dead is
 * replaced; -EADDRINUSE if it is alive, -EEXIST if the path is no socket, -ENAMETOOLONG. */
int peer_listen(const char *path);
