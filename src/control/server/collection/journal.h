/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * journal - finds the server's log if the configuration has no log file: standard error, which may be a file, or systemd's
 * journal, which journalctl reads. Any thread.
 */
#ifndef CONTROL_SERVER_JOURNAL_H
#define CONTROL_SERVER_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "control/provider/provider.h"

/* The target of standard error: "/var/log/server.log", "pipe:[4711]". True: it is a regular file with that path. */
bool log_place(char *place, size_t bytes);

/* Whether standard error goes to the journal. */
bool log_is_in_journal(void);

/*
 * Append the last lines of the unit fathom-server in the journal to the file `path`. Only lines between `from_s` and
 * `until_s`, inclusive, seconds of CLOCK_REALTIME (0: no limit). Errors: -ETIMEDOUT (journalctl was killed), -EIO (it
 * failed: the file has its output), and those of starting it. The caller removes the file.
 */
MUST_CHECK int journal_write(struct provider *os, uint64_t from_s, uint64_t until_s, const char *path);

/*
 * Run `argv` and append its output to the file `path`. Blocks for 10 s at most. Errors: -ETIMEDOUT (it was killed),
 * -EIO (it failed), those of start().
 */
MUST_CHECK int program_write(struct provider *os, char *const argv[], const char *path);

#endif
