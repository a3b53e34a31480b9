/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_helper - any bytes as a frame of the helper, a request or a reply, and as its list of allowed devices.
 *
 * Invariants: a decoded frame encodes to the same bytes, so that each message has one encoding; a refused one has one of
 * four errors; a request accepted by the policy has plain names of device and folder. Built by gcc, or with -DFUZZ_REPLAY,
 * it runs the given files, and with `--seeds DIR` it writes the seeds.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/helper/policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct helper_policy policy = { .mounts = { "/mnt", "/var/lib/fathom" },
					     .mount_count = 2,
					     .devices = { "*" },
					     .device_count = 1,
					     .operations = UINT32_MAX };

static void check_error(int error, const struct fathom_fault *why)
{
	must(error == why->error);
	must(error == -EBADMSG || error == -EMSGSIZE || error == -EPROTONOSUPPORT || error == -EOPNOTSUPP);
	must(why->text[0] != '\0');
}

static void check_allowed(const struct helper_request *request)
{
	const char *name, *mount, *folder;
	struct fathom_fault why;

	if (helper_policy_check(&policy, request, &name, &mount, &folder, &why) != 0) {
		must(why.text[0] != '\0');
		return;
	}
	if (name) {
		must(strlen(name) > 0);
		must(!strchr(name, '/'));
		must(strcmp(name, "..") != 0);
		must(strcmp(name, ".") != 0);
	}
	if (folder) {
		must(!strchr(folder, '/'));
		must(strcmp(folder, "..") != 0);
		must(strlen(mount) + 1 + strlen(folder) == strlen(request->target));
	}
}

static void try_frame(const uint8_t *data, size_t size)
{
	static uint8_t again[HELPER_FRAME_BYTES_MAX];
	struct helper_request request;
	struct helper_reply reply;
	struct fathom_fault why;
	int error = helper_decode_request(data, size, &request, &why);

	if (error) {
		check_error(error, &why);
	} else {
		must(helper_encode_request(&request, again) == size);
		must(memcmp(again, data, size) == 0);
		check_allowed(&request);
	}
	error = helper_decode_reply(data, size, &reply, &why);
	if (error) {
		check_error(error, &why);
	} else {
		must(helper_encode_reply(&reply, again) == size);
		must(memcmp(again, data, size) == 0);
	}
}

static int no_user(const char *name, uint32_t *uid_ret)
{
	return -ENOENT;
}

static void try_policy(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct helper_policy parsed;
	struct fathom_fault why;

	must(text);
	memcpy(text, data, size);
	text[size] = '\0';
	if (helper_policy_parse(text, "list", no_user, &parsed, &why) == 0) {
		must(parsed.mount_count <= POLICY_MOUNTS_MAX);
		for (size_t i = 0; i < parsed.mount_count; i++) {
			must(parsed.mounts[i][0] == '/');
			must(!strstr(parsed.mounts[i], "/../"));
		}
		must(helper_policy_allows_operation(&parsed, HELPER_PING));
	} else {
		must(strncmp(why.text, "list:", 5) == 0);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size > 2 * HELPER_FRAME_BYTES_MAX)
		return 0;
	try_frame(data, size);
	try_policy(data, size);
	return 0;
}

#if !defined(__clang__) || defined(FUZZ_REPLAY)

#include "replay.h"

static int write_seed(const char *directory, const char *name, int number, const void *data, size_t bytes)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s-%d", directory, name, number);
	file = fopen(path, "w");
	if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file)) {
		perror(path);
		return 1;
	}
	return 0;
}

static int write_seeds(const char *directory)
{
	static const char list[] = "# a list\nuser 1000\nmounts /var/lib/fathom\ndevice nvme*\noperation format\n";
	uint8_t frame[HELPER_FRAME_BYTES_MAX];
	int failed = write_seed(directory, "list", 0, list, strlen(list));

	for (int i = HELPER_PING; i < HELPER_OPERATIONS_END; i++) {
		struct helper_request request = { .operation = (enum helper_operation)i, .id = 1, .timeout_ms = 1000 };
		struct helper_reply reply = { .operation = (enum helper_operation)i, .id = 1, .format = 1 };

		snprintf(request.device, sizeof(request.device), "/dev/nvme0n1");
		snprintf(request.target, sizeof(request.target), "/mnt/engine0");
		snprintf(request.label, sizeof(request.label), "fathom0");
		failed |= write_seed(directory, "request", i, frame, helper_encode_request(&request, frame));
		failed |= write_seed(directory, "reply", i, frame, helper_encode_reply(&reply, frame));
		reply.error = -EBUSY;
		snprintf(reply.text, sizeof(reply.text), "in use");
		failed |= write_seed(directory, "error", i, frame, helper_encode_reply(&reply, frame));
	}
	return failed;
}

int main(int argc, char **argv)
{
	static uint8_t data[2 * HELPER_FRAME_BYTES_MAX];

	return replay(argc, argv, write_seeds, data, sizeof(data));
}

#endif
