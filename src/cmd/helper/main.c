/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom-helper - the only privileged program: its command line, and the safety measures before anything else.
 *
 * It is installed as set-user-ID root, executable for the server's group. Its caller must not influence it: the allow list
 * has a fixed path, and the environment is cleared before it is used.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd/options/options.h"
#include "control/helper/serve.h"

/* Open closed standard descriptors: otherwise a device could get descriptor 2, and messages would be written to it. */
static int fill_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
			return -errno;
	}
	return 0;
}

static void print_policy(const struct helper_policy *policy)
{
	printf("users:      root");
	for (size_t i = 0; i < policy->user_count; i++)
		printf(" %u", policy->users[i]);
	printf("\ndevices:   ");
	for (size_t i = 0; i < policy->device_count; i++)
		printf(" %s", policy->devices[i]);
	printf("\nmounts in: ");
	for (size_t i = 0; i < policy->mount_count; i++)
		printf(" %s", policy->mounts[i]);
	if (policy->firmware_count > 0)
		printf("\nfirmware in:");
	for (size_t i = 0; i < policy->firmware_count; i++)
		printf(" %s", policy->firmware[i]);
	printf("\noperations:");
	for (int i = HELPER_PING; i < HELPER_OPERATIONS_END; i++) {
		if (helper_policy_allows_operation(policy, (enum helper_operation)i))
			printf(" %s", helper_operation_name((enum helper_operation)i));
	}
	printf("\n");
}

struct helper_command_line {
	const char *config;
	bool is_check;
};

/* The caller of a set-user-ID program must not choose the allow list. */
static int read_config_path(void *to, const char *text, struct fathom_fault *why)
{
	if (getuid() != 0 || getauxval(AT_SECURE) != 0)
		return fault(why, -EINVAL, "is not allowed: only for root, and not for a set-user-ID helper");
	*(const char **)to = text;
	return 0;
}

static const struct option_row rows[] = {
	{ "config", 'c', OPTION_CALL, "FILE", "allow list (default " HELPER_POLICY_PATH "); only for root",
	  .offset = offsetof(struct helper_command_line, config), .read = read_config_path, .values = OPTION_FILES },
	{ "check", 0, OPTION_FLAG, NULL, "read the allow list, print what it permits, and end",
	  .offset = offsetof(struct helper_command_line, is_check) },
	{ "version", 0, OPTION_PRINT_VERSION, .help = "print the version" },
	OPTION_HELP_ROW,
};

static const struct option_table helper_table = {
	.name = "fathom-helper",
	.usage = "fathom-helper [OPTION...]",
	.about = "Mount, format and prepare devices for fathom-server, which starts this program with a socket as "
		 "descriptor 3.",
	OPTION_ROWS(rows),
	.version = FATHOM_VERSION,
};

int main(int argc, char **argv)
{
	struct helper_command_line line = { .config = HELPER_POLICY_PATH };
	struct helper_policy policy;
	struct fathom_fault why;
	int at, status;

	umask(S_IWGRP | S_IWOTH); /* the caller's umask must not apply */
	if (clearenv() != 0 || fill_standard_descriptors() != 0)
		return EXIT_FAILURE;
	if (options_offer(&helper_table, argc, argv))
		return EXIT_SUCCESS;
	status = options_parse(&helper_table, argc, argv, &line, &at);
	if (status != OPTIONS_RUN)
		return status;
	if (at < argc)
		return options_reject(&helper_table, "unexpected argument: %s", argv[at]);
	if (helper_policy_load(provider_system(), line.config, &policy, &why) != 0) {
		fprintf(stderr, "fathom-helper: %s\n", why.text);
		return EXIT_FAILURE;
	}
	if (line.is_check) {
		print_policy(&policy);
		return EXIT_SUCCESS;
	}
	if (fcntl(HELPER_FD, F_SETFD, FD_CLOEXEC) != 0) {
		fprintf(stderr, "fathom-helper: descriptor %d is not open; fathom-server starts the helper, not a user\n",
			HELPER_FD);
		return EXIT_USAGE;
	}
	if (helper_serve(&(struct helper_serve_options){ .fd = HELPER_FD,
							 .provider = provider_system(),
							 .policy = &policy,
							 .version = FATHOM_VERSION },
			 &why) != 0) {
		log_error("fathom-helper: %s", why.text);
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}
