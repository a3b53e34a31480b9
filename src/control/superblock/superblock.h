/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * superblock - who an engine is: a small text on its storage, which outlives the engine and the server.
 *
 *     version: 1                        lines and their order are always these, so equal contents are equal bytes
 *     uuid: 950fc86b-...
 *     system: fathom
 *     rank: 3
 *     uri: ofi+tcp://10.0.0.1:20000
 *     validrank: true                   false: it has not joined yet, and rank is 0
 *     hostfaultdomain: /rack0/node0
 *     incarnation: 1795201297274729984
 *     replacement: true                 only while it is to take the place of another one, and has not joined yet
 *     checksum: 0x1a2b3c4d              CRC-32C of all bytes above this line
 *
 * Writer: the one server of the host. A write makes PATH.new, syncs it, renames it and syncs the folder: a crash leaves the
 * old one or the new one, whole. A PATH.new that is found is garbage. What is damaged is reported and never read in part.
 */
#ifndef CONTROL_SUPERBLOCK_SUPERBLOCK_H
#define CONTROL_SUPERBLOCK_SUPERBLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "control/system/member.h"

enum { SUPERBLOCK_VERSION = 1, SUPERBLOCK_SYSTEM_BYTES = 64, SUPERBLOCK_TEXT_BYTES_MAX = 1024 };

struct superblock {
	uint8_t uuid[MEMBER_UUID_BYTES];
	char system[SUPERBLOCK_SYSTEM_BYTES];
	uint32_t rank; /* 0 while it has none */
	bool has_rank;
	char uri[MEMBER_URI_BYTES]; /* may be "" */
	char domain[MEMBER_DOMAIN_BYTES];
	uint64_t incarnation;
	bool is_replacement;
};

/*
 * The file's text into `text` of SUPERBLOCK_TEXT_BYTES_MAX; `bytes_ret` without a NUL. Errors: -EINVAL (no system name, no
 * fault domain, a rank that cannot be, or control characters).
 */
MUST_CHECK int superblock_encode(const struct superblock *superblock, char *text, size_t *bytes_ret);

/*
 * Thinking code: what is decoded encodes into the same bytes. Errors: -EPROTO (`version_ret` says which), -EBADMSG; then
 * `reason_ret` is a sentence.
 */
MUST_CHECK int superblock_decode(const char *text, size_t bytes, struct superblock *superblock_ret, uint32_t *version_ret,
				 const char **reason_ret);

/*
 * Read the file at `path`. Errors: -ENOENT (there is none; no fault), others with `why`: superblock_damaged,
 * superblock_unreadable (nothing is known of it), superblock_newer, and superblock_foreign if its system is not `system`
 * (NULL: any).
 */
MUST_CHECK int superblock_read(const char *path, const char *system, struct superblock *superblock_ret, struct fault *why);

/* Replace the file at `path`, or make it, mode 0600; it is on the disk when this returns. Errors: superblock_unwritten. */
MUST_CHECK int superblock_write(const char *path, const struct superblock *superblock, struct fault *why);

#endif
