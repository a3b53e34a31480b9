/* SPDX-License-Identifier: BSD-2-Clause */
/* acl_file - a file with an access control list of a pool: one entry a line, comments behind #. */
#ifndef CMD_FATHOM_CONTROL_ACL_FILE_H
#define CMD_FATHOM_CONTROL_ACL_FILE_H

#include <stddef.h>

#include "base/fault.h"
#include "base/must.h"

struct acl_file {
	char **entries;
	size_t count;
};

/*
 * Read the file. The server checks the entries. acl_file_free() it. Errors (explained): those of open(2) and read(2),
 * -EINVAL: it has no entries, or more than a list can have.
 */
MUST_CHECK int read_acl_file(const char *path, struct acl_file *file_ret, struct fathom_fault *why);
void acl_file_free(struct acl_file *file);

#endif
