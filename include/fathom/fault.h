/* SPDX-License-Identifier: BSD-2-Clause */
/* fault - what went wrong, for a person: the installed face of base/fault.h. */
#ifndef FATHOM_FAULT_H
#define FATHOM_FAULT_H

enum { FATHOM_FAULT_BYTES = 512 };

struct fathom_fault {
	int error; /* negative errno; 0: nothing */
	char text[FATHOM_FAULT_BYTES];
};

#endif
