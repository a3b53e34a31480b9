/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/helper/policy.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"

enum { MODE_MOUNTS = 0755 };

static_assert(HELPER_OPERATIONS_END < 32, "a bit of `operations` for each");

/* A name in a folder: letters, digits, dot, hyphen, underscore; not "." and not "..". */
static bool is_name(const char *name)
{
	if (name[0] == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
		return false;
	for (; *name != '\0'; name++) {
		if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
			return false;
	}
	return true;
}

/* "/a/b-c": absolute, names alone, no slash at the end. */
static bool is_plain_path(const char *path)
{
	char name[HELPER_TARGET_BYTES_MAX];

	while (*path == '/') {
		size_t length = strcspn(path + 1, "/");

		if (length >= sizeof(name))
			return false;
		memcpy(name, path + 1, length);
		name[length] = '\0';
		if (!is_name(name))
			return false;
		path += 1 + length;
		if (*path == '\0')
			return true;
	}
	return false;
}

static int add_user(struct helper_policy *policy, const char *value, policy_user_fn user_of)
{
	uint64_t uid;
	uint32_t number;

	if (policy->user_count == POLICY_USERS_MAX)
		return -E2BIG;
	if (text_parse_u64(value, 10, UINT32_MAX - 1, &uid) == 0)
		number = (uint32_t)uid;
	else if (user_of(value, &number) != 0)
		return -ENOENT;
	policy->users[policy->user_count++] = number;
	return 0;
}

static int add_mount(struct helper_policy *policy, const char *value)
{
	if (policy->mount_count == POLICY_MOUNTS_MAX)
		return -E2BIG;
	if (!is_plain_path(value))
		return -EINVAL;
	return text_copy(policy->mounts[policy->mount_count++], sizeof(policy->mounts[0]), value);
}

static int add_firmware(struct helper_policy *policy, const char *value)
{
	if (policy->firmware_count == POLICY_FIRMWARE_MAX)
		return -E2BIG;
	if (!is_plain_path(value))
		return -EINVAL;
	return text_copy(policy->firmware[policy->firmware_count++], sizeof(policy->firmware[0]), value);
}

static int add_device(struct helper_policy *policy, const char *value)
{
	if (policy->device_count == POLICY_DEVICES_MAX)
		return -E2BIG;
	if (strchr(value, '/'))
		return -EINVAL;
	return text_copy(policy->devices[policy->device_count++], sizeof(policy->devices[0]), value);
}

static int add_operation(struct helper_policy *policy, const char *value)
{
	enum helper_operation operation;
	int error = helper_operation_parse(value, &operation);

	if (!error)
		policy->operations |= (uint32_t)BIT(operation);
	return error;
}

/* A line is a word and its value. Returns the reason why it is invalid, or NULL. */
static const char *parse_line(struct helper_policy *policy, char *line, policy_user_fn user_of)
{
	char *rest = NULL, *word, *value;
	int error;

	line[strcspn(line, "#")] = '\0';
	word = strtok_r(line, " \t\r", &rest);
	if (!word)
		return NULL;
	value = strtok_r(NULL, " \t\r", &rest);
	if (!value)
		return "a value is missing";
	if (strtok_r(NULL, " \t\r", &rest))
		return "more than one value";
	if (strcmp(word, "user") == 0) {
		error = add_user(policy, value, user_of);
		return error == -ENOENT ? "there is no such user in /etc/passwd" : error ? "too many users" : NULL;
	}
	if (strcmp(word, "mounts") == 0) {
		error = add_mount(policy, value);
		return error == -E2BIG ? "too many folders" : error ? "not an absolute path of plain names" : NULL;
	}
	if (strcmp(word, "firmware") == 0) {
		error = add_firmware(policy, value);
		return error == -E2BIG ? "too many folders" : error ? "not an absolute path of plain names" : NULL;
	}
	if (strcmp(word, "device") == 0) {
		error = add_device(policy, value);
		return error == -E2BIG ? "too many devices" : error ? "not a name as below /dev" : NULL;
	}
	if (strcmp(word, "operation") == 0)
		return add_operation(policy, value) ? "there is no such operation" : NULL;
	return "not one of user, mounts, firmware, device and operation";
}

int helper_policy_parse(char *text, const char *path, policy_user_fn user_of, struct helper_policy *policy_ret,
			struct fathom_fault *why)
{
	struct helper_policy policy = { .user_count = 0 };
	unsigned int number = 1;

	for (char *line = text, *next; line; line = next, number++) {
		const char *wrong;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		wrong = parse_line(&policy, line, user_of);
		if (wrong)
			return fault(why, -EINVAL, "%s:%u: %s", path, number, wrong);
	}
	if (policy.operations == 0)
		policy.operations = (uint32_t)(BIT(HELPER_OPERATIONS_END) - 1);
	policy.operations |= (uint32_t)BIT(HELPER_PING);
	*policy_ret = policy;
	return 0;
}

/* Without NSS: a privileged program must not load libraries that a configuration file names. */
static int find_user_in_passwd(const char *name, uint32_t *uid_ret)
{
	FILE *file = fopen("/etc/passwd", "re");
	struct passwd *entry;
	int error = -ENOENT;

	if (!file)
		return -ENOENT;
	while (error && (entry = fgetpwent(file))) {
		if (strcmp(entry->pw_name, name) == 0) {
			*uid_ret = entry->pw_uid;
			error = 0;
		}
	}
	fclose(file);
	return error;
}

/* Root must own it, and no other user may write it; a folder may be writable if it is sticky: its files cannot be moved. */
int helper_policy_check_safe(struct provider *provider, int fd, const char *path, struct fathom_fault *why)
{
	struct stat stat;
	int error = provider->calls->stat(provider, fd, &stat);
	bool sticky_folder = false;

	if (error)
		return fault(why, error, "%s: %s", path, strerror(-error));
	sticky_folder = S_ISDIR(stat.st_mode) && (stat.st_mode & S_ISVTX);
	if (stat.st_uid != 0 || ((stat.st_mode & (S_IWGRP | S_IWOTH)) && !sticky_folder))
		return fault(why, -EPERM, "%s can be changed by other users than root: chown root: %s; chmod go-w %s", path,
			     path, path);
	return 0;
}

/* Check each folder of the path, and `path` itself. */
static int check_path_safe(struct provider *provider, const char *path, struct fathom_fault *why)
{
	char part[PROVIDER_PATH_BYTES_MAX];
	size_t length = 0;

	must(path[0] == '/');
	if (strlen(path) >= sizeof(part))
		return fault(why, -ENAMETOOLONG, "%s: %s", path, strerror(ENAMETOOLONG));
	do {
		int fd, error;

		length += 1 + strcspn(path + length + 1, "/");
		memcpy(part, path, length);
		part[length] = '\0';
		fd = provider->calls->open(provider, part, O_PATH, 0, true);
		if (fd == -ELOOP)
			return fault(why, fd, "%s contains a symbolic link; write the path without it", part);
		if (fd < 0)
			return fault(why, fd, "%s: %s", part, strerror(-fd));
		error = helper_policy_check_safe(provider, fd, part, why);
		provider->calls->close_fd(provider, fd);
		if (error)
			return error;
	} while (path[length] != '\0');
	return 0;
}

/* Check a folder of mount points. If it is missing, create it: the server's user cannot, since root owns its parent. */
static int check_mounts(struct provider *provider, const char *path, struct fathom_fault *why)
{
	int error = check_path_safe(provider, path, why);

	if (error != -ENOENT)
		return error;
	error = provider->calls->make_folder(provider, path, MODE_MOUNTS);
	if (error && error != -EEXIST)
		return fault(why, error, "%s does not exist and cannot be created: %s", path, strerror(-error));
	return check_path_safe(provider, path, why);
}

int helper_policy_load(struct provider *provider, const char *path, struct helper_policy *policy_ret,
		       struct fathom_fault *why)
{
	struct helper_policy policy;
	char *text;
	int error;

	if (path[0] != '/')
		return fault(why, -EINVAL, "%s: not an absolute path", path);
	error = check_path_safe(provider, path, why);
	if (error)
		return error;
	error = provider_read_file(provider, path, POLICY_FILE_BYTES_MAX, &text);
	if (error)
		return fault(why, error, "%s: %s", path, strerror(-error));
	error = helper_policy_parse(text, path, find_user_in_passwd, &policy, why);
	free(text);
	for (size_t i = 0; !error && i < policy.mount_count; i++)
		error = check_mounts(provider, policy.mounts[i], why);
	for (size_t i = 0; !error && i < policy.firmware_count; i++) {
		error = check_path_safe(provider, policy.firmware[i], why);
		error = error == -ENOENT ? 0 : error; /* only root can create it */
	}
	if (!error)
		*policy_ret = policy;
	return error;
}

bool helper_policy_allows_user(const struct helper_policy *policy, uint32_t uid)
{
	bool allowed = uid == 0;

	must(policy->user_count <= POLICY_USERS_MAX);
	for (size_t i = 0; i < policy->user_count; i++)
		allowed |= policy->users[i] == uid;
	return allowed;
}

bool helper_policy_allows_operation(const struct helper_policy *policy, enum helper_operation operation)
{
	must(operation < HELPER_OPERATIONS_END);
	return (policy->operations & BIT(operation)) != 0;
}

/* Text from outside: control characters are replaced, and it is cut at 63 characters. */
static const char *printable(const char *text, char to[64])
{
	size_t i;

	for (i = 0; text[i] != '\0' && i < 63; i++)
		to[i] = (char)(isprint((unsigned char)text[i]) ? text[i] : '?');
	to[i] = '\0';
	return to;
}

static int check_device(const struct helper_policy *policy, const char *path, const char **name_ret,
			struct fathom_fault *why)
{
	char text[64];
	const char *name = path + 5;

	if (strncmp(path, "/dev/", 5) != 0 || !is_name(name))
		return fault(why, -EINVAL,
			     "\"%s\" is not a device's own path: use /dev/NAME, as the scan of devices shows it",
			     printable(path, text));
	for (size_t i = 0; i < policy->device_count; i++) {
		if (fnmatch(policy->devices[i], name, FNM_PERIOD) == 0) {
			*name_ret = name;
			return 0;
		}
	}
	return fault(why, -EPERM, "%s is not on the helper's list: add \"device %s\" to " HELPER_POLICY_PATH, path, name);
}

/* A list of folders, and the word of its lines. */
struct folders {
	const char (*items)[HELPER_TARGET_BYTES_MAX];
	size_t count;
	const char *word;
};

static int check_target(const struct folders *folders, const char *path, const char **mount_ret, const char **folder_ret,
			struct fathom_fault *why)
{
	char text[64];

	if (!is_plain_path(path))
		return fault(why, -EINVAL, "\"%s\" is not a plain path: absolute, without links and \"..\"",
			     printable(path, text));
	for (size_t i = 0; i < folders->count; i++) {
		size_t length = strlen(folders->items[i]);

		if (strncmp(path, folders->items[i], length) == 0 && path[length] == '/' &&
		    !strchr(path + length + 1, '/')) {
			*mount_ret = folders->items[i];
			*folder_ret = path + length + 1;
			return 0;
		}
	}
	return fault(why, -EPERM,
		     "%s is in no folder of the helper's list: choose one, or add \"%s FOLDER\" to " HELPER_POLICY_PATH,
		     printable(path, text), folders->word);
}

/* The flags that an operation has. */
static uint32_t flags_of(enum helper_operation operation)
{
	switch (operation) {
	case HELPER_FORMAT:
	case HELPER_FIRMWARE:
		return HELPER_FLAG_FORCE;
	case HELPER_PREPARE:
		return HELPER_FLAG_FORCE | HELPER_FLAG_WIPE | HELPER_FLAG_OWN;
	case HELPER_LED:
		return HELPER_FLAG_ON | HELPER_FLAG_OFF;
	default:
		return 0;
	}
}

int helper_policy_check(const struct helper_policy *policy, const struct helper_request *request, const char **name_ret,
			const char **mount_ret, const char **folder_ret, struct fathom_fault *why)
{
	enum helper_operation operation = request->operation;
	bool has_device = operation != HELPER_PING && operation != HELPER_UNMOUNT;
	bool mounts = operation == HELPER_MOUNT || operation == HELPER_UNMOUNT;
	bool has_target = mounts || operation == HELPER_FIRMWARE;
	const struct folders of_mounts = { policy->mounts, policy->mount_count, "mounts" };
	const struct folders of_firmware = { policy->firmware, policy->firmware_count, "firmware" };
	int error = 0;

	must(policy->mount_count <= POLICY_MOUNTS_MAX);
	must(policy->device_count <= POLICY_DEVICES_MAX);
	*name_ret = *mount_ret = *folder_ret = NULL;
	if (!helper_policy_allows_operation(policy, operation))
		return fault(why, -EPERM, "%s is not on the helper's list: add \"operation %s\" to " HELPER_POLICY_PATH,
			     helper_operation_name(operation), helper_operation_name(operation));
	if ((request->flags & ~flags_of(operation)) != 0)
		return fault(why, -EINVAL, "%s has no such flags: 0x%x", helper_operation_name(operation), request->flags);
	if (request->label[0] != '\0' && !is_name(request->label))
		return fault(why, -EINVAL, "a label consists of letters, digits, dots, hyphens and underscores");
	if (operation == HELPER_FORMAT && request->label[0] == '\0')
		return fault(why, -EINVAL, "a label for the filesystem is missing");
	if (has_device)
		error = check_device(policy, request->device, name_ret, why);
	if (!error && has_target)
		error = check_target(mounts ? &of_mounts : &of_firmware, request->target, mount_ret, folder_ret, why);
	/* an allowed operation has all names that it needs, each from the list */
	must(error || has_device == (*name_ret != NULL));
	must(error || has_target == (*mount_ret != NULL));
	must(error || has_target == (*folder_ret != NULL));
	return error;
}
