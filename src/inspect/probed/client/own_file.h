/* SPDX-License-Identifier: BSD-2-Clause */
/* own_file - which probes a program or a library of this process brings along: of libfathom-probe. */
#ifndef PROBED_CLIENT_OWN_FILE_H
#define PROBED_CLIENT_OWN_FILE_H

#include <stdbool.h>
#include <stdint.h>

struct own_file {
	uintptr_t base;	 /* what the dynamic linker added to its addresses */
	bool has_notes;	 /* .note.usdt */
	const void *dof; /* .SUNW_dof, in memory; NULL: it has none */
};

/*
 * Of the file that `place` lies in. -EINVAL: in none that the dynamic linker knows, or it is damaged; -ENODATA: it has no
 * probes; -ENOENT ...: it cannot be read. Any thread; nothing is allocated.
 */
__attribute__((warn_unused_result)) int own_file_find(const void *place, struct own_file *file_ret);

#endif
