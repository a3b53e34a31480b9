/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record - a file in probes/, as DTrace's tools read it: one probe of one process. docs/formats/stash.md has the offsets.
 *
 *   u64 version
 *   PROVIDER, PROBE, [NATIVE, [TRANSLATED, MAP]], SITE ...     records, adjacent and not aligned
 *
 * Version 1 has no arguments, 2 has their types, 3 also their locations at each site. All versions are 64-bit and
 * little-endian. Pure code: any thread.
 */
#ifndef PROBED_STASH_RECORD_H
#define PROBED_STASH_RECORD_H

#include "inspect/probed/dof/dof.h"

enum { RECORD_VERSION_MIN = 1, RECORD_VERSION_MAX = 3 };
/* The largest file that a reader accepts; larger than any that is written. */
enum { RECORD_BYTES_MAX = 256 << 20 };

/* The number of bytes that record_encode() writes. */
size_t record_bytes(const struct dof_provider *provider, const struct dof_probe *probe, uint32_t version);

/* Write the file of `probe` of `provider` to `to`, which has room for record_bytes(). */
void record_encode(const struct dof_provider *provider, const struct dof_probe *probe, uint32_t version, void *to);

/*
 * Whether two files describe the same probe, byte by byte. The number of the provider's probes may differ, because two
 * objects can contain the same probe.
 */
bool record_same(const void *a, size_t a_bytes, const void *b, size_t b_bytes);

struct record {
	uint32_t version;
	uint64_t provider_probes; /* the number of the provider's probes in its object */
	struct dof_set set;	  /* one provider without attributes, one probe */
};

/*
 * Decode a file's `bytes`, which are untrusted. Errors (explained, with the offset): -EINVAL: not a valid record; -ENOTSUP:
 * unsupported version; -ENOMEM.
 */
MUST_CHECK int record_decode(const void *data, size_t bytes, struct record *record_ret, struct fathom_fault *why);
void record_free(struct record *record);

#endif
