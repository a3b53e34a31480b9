/* SPDX-License-Identifier: BSD-2-Clause */
/* ctf - what the stream files (ctf.c) and their description (ctf_metadata.c) agree on. */
#ifndef INSPECT_EXPORT_CTF_H
#define INSPECT_EXPORT_CTF_H

#include "inspect/export/internal.h"

enum {
	CTF_MAGIC = 0xc1fc1fc1,
	CTF_UUID_BYTES = 16,
	CTF_NS_BITS = 61,		/* of a time: readers add two in 63 */
	CTF_UNKNOWN_POINT = UINT16_MAX, /* the event of points that the schema does not have */
};
static_assert((int)TRACE_POINTS_MAX < (int)CTF_UNKNOWN_POINT, "it is no id of a point");

/* The same for the same file, so that exporting it again gives the same bytes. */
void ctf_uuid(const struct reader *reader, uint8_t uuid_ret[CTF_UUID_BYTES]);

/* The metadata in TSDL. */
void ctf_metadata(const struct reader *reader, struct out *out);

/* A TSDL string with its quotes: printable ASCII, all else is '?'. */
void ctf_string(struct out *out, const char *text);
/*
 * The name of a field. With "_" before it, which readers take away, no name is a keyword. What an identifier cannot have is
 * '_'; names that are equal then are told apart by `index`.
 */
void ctf_field_name(struct out *out, const char *name, bool is_taken, uint32_t index);

#endif
