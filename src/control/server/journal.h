/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * journal - the server's log where no file of the configuration has it: on standard error, which may be a file, or the
 * journal of systemd, whose own program reads it. Any thread.
 */
#ifndef CONTROL_SERVER_JOURNAL_H
#define CONTROL_SERVER_JOURNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "control/provider/provider.h"

/* What standard error is: "/var/log/server.log", "pipe:[4711]". True: a regular file of that path. */
bool log_place(char *place, size_t bytes);

/* Whether standard error goes to the journal. */
bool log_is_in_journal(void);

/*
 * Write what the journal has of the unit fathom-server into the file `path`: its last lines, of the time from one to the
 * other of these seconds of CLOCK_REALTIME, within (0: no limit). Errors: -ETIMEDOUT (its program was killed), -EIO (it
 * failed: the file has its words), and those of starting it. The file is the caller's to remove.
 */
MUST_CHECK int journal_write(struct provider *os, uint64_t from_s, uint64_t until_s, const char *path);

/*
 * Run `argv` and append what it prints to the file `path`. Blocks, for 10 s at most. Errors: -ETIMEDOUT (it was killed),
 * -EIO (it failed), those of start().
 */
MUST_CHECK int program_write(struct provider *os, char *const argv[], const char *path);

#endif
