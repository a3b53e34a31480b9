/* SPDX-License-Identifier: BSD-2-Clause */
/* fan HOSTS COUNT [TIMEOUT_MS] - scan the storage of hosts, COUNT at a time, and print the results. */
#include <stdio.h>
#include <stdlib.h>

#include "fathom/control.h"

static uint32_t progress_done, progress_total;

static void progress(void *ctx, enum fathom_control_unit unit, uint32_t done, uint32_t total)
{
	progress_done = done;
	progress_total = total;
}

static int scan(const char *hosts, unsigned int parallel_max, unsigned int timeout_ms)
{
	struct fathom_control_options options = {
		.config = "/dev/null",
		.hosts = hosts,
		.insecure = true,
		.parallel_max = parallel_max,
		.timeout_ms = timeout_ms,
		.progress = progress,
	};
	struct fathom_control_answers *answers;
	struct fathom_control *control, *second;
	struct fathom_fault why;

	if (fathom_control_open(&options, &control, &why)) {
		fprintf(stderr, "%s\n", why.text);
		return EXIT_FAILURE;
	}
	if (fathom_control_open(&options, &second, &why))
		return EXIT_FAILURE;
	fathom_control_close(second); /* the first session must be unaffected */
	if (fathom_control_storage_scan(control, false, false, &answers, &why)) {
		fprintf(stderr, "%s\n", why.text);
		fathom_control_close(control);
		return EXIT_FAILURE;
	}
	printf("%zu hosts, %zu answer of %s, %zu errors, told %u of %u\n", answers->host_count, answers->count,
	       answers->count ? answers->answers[0].hosts : "none", answers->error_count, progress_done, progress_total);
	for (size_t i = 0; i < answers->error_count; i++)
		printf("%s: code = %d \"%s\"\n", answers->errors[i].hosts, (int)answers->errors[i].why.code,
		       answers->errors[i].why.text);
	fathom_control_free(answers);
	fathom_control_close(control);
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	if (argc < 3 || argc > 4)
		return EXIT_FAILURE;
	return scan(argv[1], (unsigned int)strtoul(argv[2], NULL, 10),
		    argc > 3 ? (unsigned int)strtoul(argv[3], NULL, 10) : 0);
}
