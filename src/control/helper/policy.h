/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * policy - the helper's allow list: users, folders of mount points, devices, operations. Only root can write it.
 *
 *	# /etc/fathom/helper.conf
 *	user fathom			a user who may send requests, by name or number; root always may
 *	mounts /srv/fathom		the parent folder of allowed mount points; created if it is missing
 *	device nvme*			names of block devices, a pattern of fnmatch(3)
 *	firmware /etc/fathom/firmware	a folder of firmware images; without such a line no firmware is updated
 *	operation format		if there are such lines, only these operations and ping are allowed
 *
 * Everything else is denied. Names of devices and folders are checked as text before any system call: links, ".." and
 * other spellings are rejected. Pure, except helper_policy_load().
 */
#ifndef CONTROL_HELPER_POLICY_H
#define CONTROL_HELPER_POLICY_H

#include "control/helper/protocol.h"

enum { POLICY_USERS_MAX = 8, POLICY_MOUNTS_MAX = 16, POLICY_DEVICES_MAX = 32, POLICY_FILE_BYTES_MAX = 65536 };
enum { POLICY_FIRMWARE_MAX = 4 };

#define HELPER_POLICY_PATH "/etc/fathom/helper.conf"

struct helper_policy {
	uint32_t users[POLICY_USERS_MAX];
	size_t user_count;
	char mounts[POLICY_MOUNTS_MAX][HELPER_TARGET_BYTES_MAX]; /* absolute, without a slash at the end */
	size_t mount_count;
	char firmware[POLICY_FIRMWARE_MAX][HELPER_TARGET_BYTES_MAX]; /* the same */
	size_t firmware_count;
	char devices[POLICY_DEVICES_MAX][STORAGE_NAME_BYTES_MAX];
	size_t device_count;
	uint32_t operations; /* a bit for each */
};

/* Find a user's number by name, in /etc/passwd or in a test's table. Errors: -ENOENT. */
typedef int (*policy_user_fn)(const char *name, uint32_t *uid_ret);

/* Errors (explained, with `path` and line): -EINVAL. `text` is changed. */
MUST_CHECK int helper_policy_parse(char *text, const char *path, policy_user_fn user_of, struct helper_policy *policy_ret,
				   struct fathom_fault *why);

/*
 * Load the list from a file. Only root may be able to write the file, the folders of its path, and the folders of `mounts`;
 * a missing folder of `mounts` is created. Errors (explained): -EPERM: other users can write one of them; errors of
 * opening, reading, creating and parsing.
 */
MUST_CHECK int helper_policy_load(struct provider *provider, const char *path, struct helper_policy *policy_ret,
				  struct fathom_fault *why);

/* Root owns the open file, and no other user may write it. `path` is its name. Errors (explained): -EPERM; of fstat(2). */
MUST_CHECK int helper_policy_check_safe(struct provider *provider, int fd, const char *path, struct fathom_fault *why);

bool helper_policy_allows_user(const struct helper_policy *policy, uint32_t uid);
bool helper_policy_allows_operation(const struct helper_policy *policy, enum helper_operation operation);

/*
 * Check all names of the request, as text. `*name_ret`: the device's name, in `request`; `*mount_ret`: the entry of
 * `mounts` or `firmware` with the target, `*folder_ret`: the target's name in it; NULL if the operation has none.
 * Errors (explained, with the remedy): -EPERM: not on the list; -EINVAL: an invalid name.
 */
MUST_CHECK int helper_policy_check(const struct helper_policy *policy, const struct helper_request *request,
				   const char **name_ret, const char **mount_ret, const char **folder_ret,
				   struct fathom_fault *why);

#endif
