/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * notes - the USDT probes in a program's file: its .note.stapsdt section.
 *
 *   https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation
 *
 * A probe is a name. Its locations in the code are sites, each with a description of its arguments. Files are untrusted:
 * invalid notes are left out. Thread: any; no global state.
 */
#ifndef INSPECT_NOTES_NOTES_H
#define INSPECT_NOTES_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

enum { NOTES_ARGS_MAX = 12, NOTES_NAME_BYTES = 128, NOTES_BUILD_ID_BYTES = 2 * 32 + 1 };

struct note_arg {
	int8_t bytes; /* negative: signed; 0: unknown */
};

struct note_probe {
	char provider[NOTES_NAME_BYTES], name[NOTES_NAME_BYTES]; /* printable */
	uint32_t site_count;
	uint64_t site_offset; /* file offset of one of the sites; 0: unknown */
	bool semaphore;	      /* at least one site has a semaphore */
	uint32_t arg_count;
	struct note_arg args[NOTES_ARGS_MAX]; /* of the first site */
};

struct notes {
	struct note_probe *probes; /* by provider, then name */
	uint32_t probe_count;
	uint32_t site_count;
	char build_id[NOTES_BUILD_ID_BYTES]; /* hexadecimal; "": none */
};

/*
 * Read `path`, such as /proc/PID/exe. A file without the section has no probes, which is no error. Free `*notes_ret`
 * with notes_free(). Errors (explained): -ENOENT, -EACCES ...; -ENOEXEC: not an ELF file, or a damaged one.
 */
MUST_CHECK int notes_read(const char *path, struct notes *notes_ret, struct fathom_fault *why);
void notes_free(struct notes *notes);

#endif
