/* SPDX-License-Identifier: BSD-2-Clause */
/* The records of attachments: a JSON file each, replaced by rename. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <uuid/uuid.h>

#include "base/file.h"
#include "base/text.h"
#include "control/attach/attach.h"
#include "control/fault/fault.h"

enum { RECORD_VERSION = 1, RECORD_BYTES_MAX = 16384 };

static bool is_valid_part(const char *part, size_t bytes)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-";

	if (bytes == 0 || part[0] == '.')
		return false;
	return strspn(part, allowed) >= bytes;
}

bool attach_name_is_valid(const char *name)
{
	const char *slash = strchr(name, '/');

	return slash && strlen(name) < ATTACH_NAME_BYTES && is_valid_part(name, (size_t)(slash - name)) &&
	       is_valid_part(slash + 1, strlen(slash + 1));
}

int attach_folder_prepare(const char *folder, struct fathom_fault *why)
{
	struct stat status;

	if (mkdir(folder, 0755) != 0 && errno != EEXIST)
		return fault_folder(why, folder, strerror(errno));
	if (lstat(folder, &status) != 0)
		return fault_folder(why, folder, strerror(errno));
	if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid() || (status.st_mode & 022))
		return fault(why, -EPERM, "%s is not a folder that only the agent's user may write", folder);
	return 0;
}

static void record_path(const char *folder, const char *uuid, const char *ending, char path[static ATTACH_PATH_BYTES])
{
	must(snprintf(path, ATTACH_PATH_BYTES, "%s/%s%s", folder, uuid, ending) < ATTACH_PATH_BYTES);
}

/* ---- writing ---- */

static char *record_text(const struct attach_record *record)
{
	json_t *addresses = json_array(), *all;
	char *text;

	for (size_t i = 0; i < record->address_count; i++)
		must(json_array_append_new(addresses, json_string(record->addresses[i])) == 0);
	all = json_pack("{s:i, s:s, s:s, s:s, s:o, s:b}", "version", RECORD_VERSION, "name", record->name, "uuid",
			record->uuid, "nqn", record->nqn, "addresses", addresses, "detaching", (int)record->is_detaching);
	must(all);
	text = json_dumps(all, JSON_INDENT(2));
	must(text);
	json_decref(all);
	return text;
}

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644), error;

	if (fd < 0)
		return -errno;
	error = file_write(fd, text, strlen(text));
	if (!error && fsync(fd) != 0)
		error = -errno;
	close(fd);
	return error;
}

int attach_record_write(const char *folder, const struct attach_record *record, struct fathom_fault *why)
{
	char path[ATTACH_PATH_BYTES], pending[ATTACH_PATH_BYTES];
	char *text;
	int error;

	must(attach_name_is_valid(record->name));
	must(record->address_count <= ATTACH_ADDRESSES_MAX);
	record_path(folder, record->uuid, ".json", path);
	record_path(folder, record->uuid, ".pending", pending);
	text = record_text(record);
	error = write_file(pending, text);
	free(text);
	if (!error)
		error = file_give_name(pending, path, true);
	if (!error)
		error = file_sync_folder(path);
	return error ? fault_attachment_unwritten(why, path, strerror(-error)) : 0;
}

int attach_record_remove(const char *folder, const char *uuid, struct fathom_fault *why)
{
	char path[ATTACH_PATH_BYTES];
	int error = 0;

	record_path(folder, uuid, ".json", path);
	if (unlink(path) != 0)
		error = errno == ENOENT ? 0 : -errno;
	else
		error = file_sync_folder(path);
	return error ? fault_attachment_unwritten(why, path, strerror(-error)) : 0;
}

/* ---- reading ---- */

static bool read_text(json_t *all, const char *key, char *to, size_t bytes)
{
	const char *text = json_string_value(json_object_get(all, key));

	return text && text_copy(to, bytes, text) == 0;
}

static bool read_addresses(json_t *all, struct attach_record *record)
{
	json_t *list = json_object_get(all, "addresses"), *item;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > ATTACH_ADDRESSES_MAX)
		return false;
	json_array_foreach (list, i, item) {
		const char *text = json_string_value(item);

		if (!text || text_copy(record->addresses[i], ATTACH_ADDRESS_BYTES, text) != 0)
			return false;
		record->address_count++;
	}
	return true;
}

/* NULL: it is valid; else what is not. */
static const char *parse_record(const char *text, const char *uuid, struct attach_record *record)
{
	json_t *all = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	const char *wrong = NULL;

	*record = (struct attach_record){ 0 };
	if (!all)
		wrong = "it is not JSON";
	else if (json_integer_value(json_object_get(all, "version")) != RECORD_VERSION)
		wrong = "its version is not 1";
	else if (!read_text(all, "name", record->name, sizeof(record->name)) || !attach_name_is_valid(record->name))
		wrong = "its name is not POOL/VOLUME";
	else if (!read_text(all, "uuid", record->uuid, sizeof(record->uuid)) || strcmp(record->uuid, uuid) != 0)
		wrong = "its UUID is not that of the file's name";
	else if (!read_text(all, "nqn", record->nqn, sizeof(record->nqn)) || !record->nqn[0])
		wrong = "it has no NQN";
	else if (!read_addresses(all, record))
		wrong = "its addresses are not valid";
	else
		record->is_detaching = json_is_true(json_object_get(all, "detaching"));
	json_decref(all);
	return wrong;
}

static int read_file(const char *path, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	ssize_t count;

	if (fd < 0)
		return -errno;
	count = read(fd, text, bytes - 1);
	if (count < 0)
		count = -errno;
	close(fd);
	if (count < 0)
		return (int)count;
	if ((size_t)count == bytes - 1)
		return -EFBIG;
	text[count] = '\0';
	return 0;
}

int attach_record_read(const char *folder, const char *uuid, struct attach_record *record_ret, struct fathom_fault *why)
{
	char path[ATTACH_PATH_BYTES], text[RECORD_BYTES_MAX];
	const char *wrong;
	int error;

	record_path(folder, uuid, ".json", path);
	error = read_file(path, text, sizeof(text));
	if (error)
		return error == -ENOENT ? fault(why, -ENOENT, "there is no record %s", path)
					: fault_attachment_record_bad(why, path, strerror(-error));
	wrong = parse_record(text, uuid, record_ret);
	return wrong ? fault_attachment_record_bad(why, path, wrong) : 0;
}

/* Cut ".json" off; false: not the name of a record. */
static bool is_record_name(const char *name, char uuid[static ATTACH_UUID_BYTES])
{
	uuid_t binary;

	if (strlen(name) != ATTACH_UUID_BYTES - 1 + strlen(".json") || strcmp(name + ATTACH_UUID_BYTES - 1, ".json") != 0)
		return false;
	memcpy(uuid, name, ATTACH_UUID_BYTES - 1);
	uuid[ATTACH_UUID_BYTES - 1] = '\0';
	return uuid_parse(uuid, binary) == 0;
}

int attach_records_read(const char *folder, void (*each)(void *ctx, const struct attach_record *record),
			void (*bad)(void *ctx, const struct fathom_fault *why), void *ctx, struct fathom_fault *why)
{
	DIR *list = opendir(folder);
	struct dirent *entry;
	size_t count = 0;

	if (!list)
		return fault(why, -errno, "%s: %s", folder, strerror(errno));
	while ((entry = readdir(list)) && count < ATTACH_RECORDS_MAX) {
		struct attach_record record;
		struct fathom_fault reason;
		char uuid[ATTACH_UUID_BYTES];

		if (!is_record_name(entry->d_name, uuid))
			continue;
		count++;
		if (attach_record_read(folder, uuid, &record, &reason) == 0)
			each(ctx, &record);
		else
			bad(ctx, &reason);
	}
	closedir(list);
	return 0;
}
