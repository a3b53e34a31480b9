/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * policy - whom the helper serves, and what it may touch: an allow list that only root can write.
 *
 *	# /etc/fathom/helper.conf
 *	user fathom			who may ask, by name or number; root always
 *	mounts /srv/fathom		a folder whose own folders may be mounted on; made if it is not there
 *	device nvme*			names of block devices, as fnmatch(3)
 *	operation format		if there is any such line: only these, and ping
 *
 * Nothing is allowed that is not said here. Names of devices and folders are checked as text first: no link, no "..", no
 * other spelling gets as far as a system call. Pure, but for helper_policy_load().
 */
#ifndef CONTROL_HELPER_POLICY_H
#define CONTROL_HELPER_POLICY_H

#include "control/helper/protocol.h"

enum { POLICY_USERS_MAX = 8, POLICY_MOUNTS_MAX = 16, POLICY_DEVICES_MAX = 32, POLICY_FILE_BYTES_MAX = 65536 };

#define HELPER_POLICY_PATH "/etc/fathom/helper.conf"

struct helper_policy {
	uint32_t users[POLICY_USERS_MAX];
	size_t user_count;
	char mounts[POLICY_MOUNTS_MAX][HELPER_TARGET_BYTES_MAX]; /* absolute, without a slash at the end */
	size_t mount_count;
	char devices[POLICY_DEVICES_MAX][STORAGE_NAME_BYTES_MAX];
	size_t device_count;
	uint32_t operations; /* a bit for each */
};

/* The number of a user's name: /etc/passwd, or a test's. Errors: -ENOENT. */
typedef int (*policy_user_fn)(const char *name, uint32_t *uid_ret);

/* Errors (explained, with `path` and line): -EINVAL. `text` is changed. */
MUST_CHECK int helper_policy_parse(char *text, const char *path, policy_user_fn user_of, struct helper_policy *policy_ret,
				   struct fault *why);

/*
 * From a file that nobody but root may write, in folders that nobody but root may write; the folders of its `mounts` must
 * be such, too, and one that is missing in such a folder is made. Errors (explained): -EPERM: not so; of opening, reading,
 * making; of parsing.
 */
MUST_CHECK int helper_policy_load(struct provider *provider, const char *path, struct helper_policy *policy_ret,
				  struct fault *why);

bool helper_policy_allows_user(const struct helper_policy *policy, uint32_t uid);
bool helper_policy_allows_operation(const struct helper_policy *policy, enum helper_operation operation);

/*
 * Check all that the request names, as text. `*name_ret`: the device's name, in `request`; `*mount_ret`: which of the
 * mounts holds the target, `*folder_ret`: the target's name in it; NULL where the operation has none.
 * Errors (explained, with what to do): -EPERM: not on the list; -EINVAL: no such name can be.
 */
MUST_CHECK int helper_policy_check(const struct helper_policy *policy, const struct helper_request *request,
				   const char **name_ret, const char **mount_ret, const char **folder_ret,
				   struct fault *why);

#endif
