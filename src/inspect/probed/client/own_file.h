/* SPDX-License-Identifier: BSD-2-Clause */
/* own_file - the probe sections of a program or library of this process. Part of libfathom-probe. */
#ifndef PROBED_CLIENT_OWN_FILE_H
#define PROBED_CLIENT_OWN_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct own_file {
	uintptr_t base;	 /* the load address: the dynamic linker added it to the file's addresses */
	bool has_notes;	 /* .note.usdt */
	const void *dof; /* .SUNW_dof, in memory; NULL: none */
};

/*
 * Describe the file that contains the address `place`. -EINVAL: the dynamic linker knows no such file, or it is damaged;
 * -ENODATA: it has no probes; -ENOENT ...: it cannot be read. Any thread; allocates nothing.
 */
__attribute__((warn_unused_result)) int own_file_find(const void *place, struct own_file *file_ret);

#endif
