/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * record - a file under probes/, as DTrace's tools read it: one probe of one process. docs/formats/stash.md has offsets.
 *
 *   u64 version
 *   PROVIDER, PROBE, [NATIVE, [TRANSLATED, MAP]], SITE ...     records, one behind the other without alignment
 *
 * Versions: 1 has no arguments; 2 has their types; 3 says of sites where their arguments are. Numbers are those of a 64-bit
 * little-endian machine, which all versions are defined by. Thinking code: any thread.
 */
#ifndef PROBED_STASH_RECORD_H
#define PROBED_STASH_RECORD_H

#include "inspect/probed/dof/dof.h"

enum { RECORD_VERSION_MIN = 1, RECORD_VERSION_MAX = 3 };
/* Of a file: what a reader takes, far beyond any that is written. */
enum { RECORD_BYTES_MAX = 256 << 20 };

/* How many bytes record_encode() writes. */
size_t record_bytes(const struct dof_provider *provider, const struct dof_probe *probe, uint32_t version);

/* The record of `probe` of `provider` at `to`, which has room for record_bytes(). */
void record_encode(const struct dof_provider *provider, const struct dof_probe *probe, uint32_t version, void *to);

/*
 * Whether two files say the same of one probe, byte by byte; how many probes its provider has in the object it came from
 * aside, for the same probe can be in two objects.
 */
bool record_same(const void *a, size_t a_bytes, const void *b, size_t b_bytes);

struct record {
	uint32_t version;
	uint64_t provider_probes; /* how many the provider has, as the file says */
	struct dof_set set;	  /* one provider without attributes, one probe */
};

/*
 * Read a file's `bytes`, which may be anything. Errors (explained, with the offset): -EINVAL: no such record; -ENOTSUP:
 * of another version; -ENOMEM.
 */
MUST_CHECK int record_decode(const void *data, size_t bytes, struct record *record_ret, struct fathom_fault *why);
void record_free(struct record *record);

#endif
