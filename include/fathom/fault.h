/* SPDX-License-Identifier: BSD-2-Clause */
/* fault - a failure explained: what happened, with its values, and what to do. */
#ifndef FATHOM_FAULT_H
#define FATHOM_FAULT_H

enum { FATHOM_FAULT_BYTES = 512, FATHOM_RESOLUTION_BYTES = 256, FATHOM_DOMAIN_BYTES = 64 };

struct fathom_fault {
	int error; /* negative errno; 0: nothing */
	char text[FATHOM_FAULT_BYTES];
	int code;				  /* of docs/faults.md; 0: it has none */
	char resolution[FATHOM_RESOLUTION_BYTES]; /* what to do about it; "": the text says so */
	char domain[FATHOM_DOMAIN_BYTES];	  /* of a code that only another program knows; "" */
};

#endif
