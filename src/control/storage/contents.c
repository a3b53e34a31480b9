/* SPDX-License-Identifier: BSD-2-Clause */
/* Determines the format of a device from its signature and its first bytes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/storage/internal.h"

void storage_judge_contents(const struct provider_signature *signature, const uint8_t *head, size_t head_bytes,
			    struct storage_contents *contents_ret)
{
	struct storage_contents contents = { .signature = *signature };
	bool known = signature->type[0] != '\0' || signature->partition_table[0] != '\0' || signature->several;
	enum xfs_super super = storage_xfs_super(head, head_bytes, contents.damage, sizeof(contents.damage));

	must(head_bytes <= STORAGE_HEAD_BYTES);
	if (known && strcmp(signature->type, "xfs") != 0)
		contents.format = STORAGE_FORMAT_OTHER; /* also if parts of an older XFS remain */
	else if (super == XFS_SUPER_WHOLE)
		contents.format = STORAGE_FORMAT_XFS;
	else if (super == XFS_SUPER_DAMAGED)
		contents.format = STORAGE_FORMAT_DAMAGED;
	else if (known)
		contents.format = STORAGE_FORMAT_DAMAGED; /* libblkid sees XFS, storage_xfs_super() does not */
	else
		contents.format = is_all_zero(head, head_bytes) ? STORAGE_FORMAT_NONE : STORAGE_FORMAT_UNKNOWN;
	if (contents.format != STORAGE_FORMAT_DAMAGED)
		contents.damage[0] = '\0';
	/* only a device without any content counts as empty */
	must(contents.format != STORAGE_FORMAT_NONE || !known);
	must(contents.format != STORAGE_FORMAT_NONE || super == XFS_SUPER_NONE);
	must(contents.format != STORAGE_FORMAT_XFS || super == XFS_SUPER_WHOLE);
	*contents_ret = contents;
}

static int read_and_judge(struct provider *provider, int fd, struct storage_contents *contents_ret)
{
	struct provider_signature signature;
	int error = provider->calls->signature(provider, fd, &signature);
	uint8_t *head;
	ssize_t got;

	if (error)
		return error;
	head = malloc(STORAGE_HEAD_BYTES);
	if (!head)
		return -ENOMEM;
	got = provider->calls->read_at(provider, fd, head, STORAGE_HEAD_BYTES, 0);
	if (got >= 0)
		storage_judge_contents(&signature, head, (size_t)got, contents_ret);
	free(head);
	return got < 0 ? (int)got : 0;
}

int storage_read_contents(struct provider *provider, int fd, const char *path, struct storage_contents *contents_ret,
			  struct fathom_fault *why)
{
	int error = read_and_judge(provider, fd, contents_ret);

	if (error == -ENOMEM)
		return fault(why, error, "out of memory: cannot read %s", path);
	return error ? fault_device_unreadable(why, path, strerror(-error)) : 0;
}

int storage_read_signature(struct provider *provider, int fd, struct provider_signature *signature_ret)
{
	struct storage_contents contents;
	int error = read_and_judge(provider, fd, &contents);

	if (error)
		return error;
	if (contents.format == STORAGE_FORMAT_DAMAGED && contents.signature.type[0] == '\0') {
		must(text_copy(contents.signature.type, sizeof(contents.signature.type), "damaged xfs, see xfs_repair") ==
		     0);
		must(text_copy(contents.signature.usage, sizeof(contents.signature.usage), "filesystem") == 0);
	}
	*signature_ret = contents.signature;
	return 0;
}
