/* SPDX-License-Identifier: BSD-2-Clause */
/* ctf - definitions shared by the stream files (ctf.c) and their metadata (ctf_metadata.c). */
#ifndef INSPECT_EXPORT_CTF_H
#define INSPECT_EXPORT_CTF_H

#include "inspect/export/internal.h"

enum {
	CTF_MAGIC = 0xc1fc1fc1,
	CTF_UUID_BYTES = 16,
	CTF_NS_BITS = 61,		/* of a time: readers add two times in 63 bits */
	CTF_UNKNOWN_POINT = UINT16_MAX, /* id of events whose point is not in the schema */
};
static_assert((int)TRACE_POINTS_MAX < (int)CTF_UNKNOWN_POINT, "it is no id of a point");

/* Derived from the file's contents: exporting a file again gives the same bytes. */
void ctf_uuid(const struct reader *reader, uint8_t uuid_ret[CTF_UUID_BYTES]);

/* Write the metadata in TSDL. */
void ctf_metadata(const struct reader *reader, struct out *out);

/* Write a TSDL string with its quotes; all but printable ASCII becomes '?'. */
void ctf_string(struct out *out, const char *text);
/*
 * Write the name of a field. The leading "_", which readers remove, keeps names apart from keywords. Characters that an
 * identifier cannot have become '_'; if this makes names equal (`is_taken`), `index` is added.
 */
void ctf_field_name(struct out *out, const char *name, bool is_taken, uint32_t index);

#endif
