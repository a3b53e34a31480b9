/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * superblock - the identity of an engine: a small text file on its storage. It outlives the engine and the server.
 *
 *     version: 1                        lines and their order are fixed, so equal contents are equal bytes
 *     uuid: 950fc86b-...
 *     system: fathom
 *     rank: 3
 *     uri: ofi+tcp://10.0.0.1:20000
 *     validrank: true                   false: not joined yet; rank is 0 then
 *     hostfaultdomain: /rack0/node0
 *     incarnation: 1795201297274729984
 *     replacement: true                 only after a format with --replace, until the engine has joined
 *     checksum: 0x1a2b3c4d              CRC-32C of all bytes above this line
 *
 * Writer: the host's only server. A write creates PATH.new, syncs it, renames it and syncs the folder. So a crash leaves
 * either the complete old file or the complete new one; a PATH.new is garbage. A damaged file is reported; none of its
 * values are used.
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
	uint32_t rank; /* 0 if `has_rank` is false */
	bool has_rank;
	char uri[MEMBER_URI_BYTES]; /* may be "" */
	char domain[MEMBER_DOMAIN_BYTES];
	uint64_t incarnation;
	bool is_replacement;
};

/*
 * Encode into `text`, of SUPERBLOCK_TEXT_BYTES_MAX, without a NUL; `bytes_ret` is the length. Errors: -EINVAL (no system
 * name, no valid fault domain, an invalid rank, or control characters).
 */
MUST_CHECK int superblock_encode(const struct superblock *superblock, char *text, size_t *bytes_ret);

/*
 * Decode `bytes` of `text`; no I/O. A decoded superblock encodes into the same bytes. Errors: -EPROTO (a newer version,
 * which is in `version_ret`), -EBADMSG; `reason_ret` is then a phrase for the message.
 */
MUST_CHECK int superblock_decode(const char *text, size_t bytes, struct superblock *superblock_ret, uint32_t *version_ret,
				 const char **reason_ret);

/*
 * Read the file at `path`. Errors: -ENOENT (no file; no fault), others with `why`: superblock_damaged,
 * superblock_unreadable (the file cannot be opened or read), superblock_newer, and superblock_foreign if its system is not
 * `system` (NULL: any).
 */
MUST_CHECK int superblock_read(const char *path, const char *system, struct superblock *superblock_ret,
			       struct fathom_fault *why);

/* Create or replace the file at `path`, mode 0600; it is on disk when this returns. Errors: superblock_unwritten. */
MUST_CHECK int superblock_write(const char *path, const struct superblock *superblock, struct fathom_fault *why);

#endif
