/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom-helper - the only privileged program: its command line, and the safety measures before anything else.
 *
 * It is installed as set-user-ID root, executable for the server's group. Its caller must not influence it: the allow list
 * has a fixed path, and the environment is cleared before it is used.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "control/helper/serve.h"

enum { EXIT_USAGE = 2, OPTION_CHECK = 256, OPTION_VERSION };

static const struct option long_options[] = {
	{ "config", required_argument, NULL, 'c' },
	{ "check", no_argument, NULL, OPTION_CHECK },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static void usage(FILE *to)
{
	fprintf(to,
		"usage: fathom-helper [OPTION...]\n"
		"\n"
		"Mounts, formats and prepares devices for fathom-server, which starts it with a socket as descriptor 3.\n"
		"\n"
		"  -c, --config FILE   what is allowed (default " HELPER_POLICY_PATH "); root alone may say another\n"
		"      --check         read it, say what it allows, and end\n"
		"      --version       print the version\n"
		"  -h, --help          print this\n");
}

/* Open closed standard descriptors: otherwise a device could be opened as descriptor 2, and messages written to it. */
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
	printf("\noperations:");
	for (int i = HELPER_PING; i < HELPER_OPERATIONS_END; i++) {
		if (helper_policy_allows_operation(policy, (enum helper_operation)i))
			printf(" %s", helper_operation_name((enum helper_operation)i));
	}
	printf("\n");
}

struct choices {
	const char *config;
	bool check;
};

/* 0: continue; else exit with the result minus 1. */
static int read_options(int argc, char **argv, struct choices *choices)
{
	int option;

	while ((option = getopt_long(argc, argv, "c:h", long_options, NULL)) != -1) {
		switch (option) {
		case 'c':
			/* the caller of a set-user-ID program must not choose the allow list */
			if (getuid() != 0 || getauxval(AT_SECURE) != 0) {
				fprintf(stderr,
					"fathom-helper: --config: only for root, and not of a set-user-ID helper\n");
				return 1 + EXIT_USAGE;
			}
			choices->config = optarg;
			break;
		case OPTION_CHECK:
			choices->check = true;
			break;
		case OPTION_VERSION:
			printf("fathom-helper %s\n", FATHOM_VERSION);
			return 1 + EXIT_SUCCESS;
		case 'h':
			usage(stdout);
			return 1 + EXIT_SUCCESS;
		default:
			usage(stderr);
			return 1 + EXIT_USAGE;
		}
	}
	if (optind == argc)
		return 0;
	usage(stderr);
	return 1 + EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct choices choices = { .config = HELPER_POLICY_PATH };
	struct helper_policy policy;
	struct fathom_fault why;
	int status;

	umask(S_IWGRP | S_IWOTH); /* the caller's umask must not apply */
	if (clearenv() != 0 || fill_standard_descriptors() != 0)
		return EXIT_FAILURE;
	status = read_options(argc, argv, &choices);
	if (status)
		return status - 1;
	if (helper_policy_load(provider_system(), choices.config, &policy, &why) != 0) {
		fprintf(stderr, "fathom-helper: %s\n", why.text);
		return EXIT_FAILURE;
	}
	if (choices.check) {
		print_policy(&policy);
		return EXIT_SUCCESS;
	}
	if (fcntl(HELPER_FD, F_SETFD, FD_CLOEXEC) != 0) {
		fprintf(stderr,
			"fathom-helper: descriptor %d is not open; fathom-server starts the helper, people do not\n",
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
