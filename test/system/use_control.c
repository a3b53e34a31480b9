/* SPDX-License-Identifier: BSD-2-Clause */
/* use_control HOSTS SYSTEM - an example program: query members and networks of hosts, in sessions of two systems. */
#include <fathom/control.h>

#include <stdio.h>
#include <string.h>

/* The library has an internal function of this name. It must not clash with the program's. */
int fault(void);
int fault(void)
{
	return 1;
}

static int say(const char *what, const struct fathom_fault *why)
{
	printf("%s: %s (code %d): %s\n", what, why->text, why->code, why->resolution);
	return fault();
}

static void log_line(void *ctx, const char *line)
{
	(void)ctx;
	if (strncmp(line, "the system is ", 14) == 0)
		printf("%s\n", line);
}

static void query(struct fathom_control *control)
{
	struct fathom_control_members *members;
	struct fathom_fault why;

	if (fathom_control_query(control, NULL, 0, &members, &why)) {
		(void)say("query", &why);
		return;
	}
	for (size_t i = 0; i < members->count; i++)
		printf("rank %u: %s\n", (unsigned int)members->members[i].rank, members->members[i].state);
	fathom_control_free(members);
}

int main(int argc, char **argv)
{
	struct fathom_control_options options = {
		.config = "/dev/null", .insecure = true, .timeout_ms = 20000, .patience_ms = 1
	};
	struct fathom_control_answers *answers;
	struct fathom_control *control, *other;
	struct fathom_fault why;

	if (argc != 3)
		return 2;
	options.bytes = sizeof(options);
	options.log = log_line;
	options.hosts = argv[1];
	if (fathom_control_open(&options, &control, &why))
		return say("open", &why);
	options.system = argv[2];
	if (fathom_control_open(&options, &other, &why))
		return say("open another", &why);
	query(control);
	query(other);
	fathom_control_close(other);
	if (fathom_control_network_scan(control, NULL, &answers, &why)) {
		(void)say("network scan", &why);
	} else {
		for (size_t i = 0; i < answers->count; i++)
			printf("%s: %u interfaces\n", answers->answers[i].hosts,
			       (unsigned int)answers->answers[i].network->count);
		for (size_t i = 0; i < answers->error_count; i++)
			printf("%s: %s\n", answers->errors[i].hosts, answers->errors[i].why.text);
		fathom_control_free(answers);
	}
	fathom_control_close(control);
	return 0;
}
