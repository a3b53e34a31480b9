/* SPDX-License-Identifier: BSD-2-Clause */
/* doctor - the command line of `fathom doctor`; see doctor.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/doctor/doctor.h"

enum { EXIT_HEALTHY = 0, EXIT_DEGRADED = 1, EXIT_BROKEN = 2, EXIT_COULD_NOT_LOOK = 3 };

struct doctor_options {
	bool json, force;
	const char *bundle, *certificates;
};

#define CERTIFICATES "/etc/fathom/certs"
#define AT(member) .offset = offsetof(struct doctor_options, member)

static const struct option_row rows[] = {
	{ "json", 0, OPTION_FLAG, NULL, "print the findings as a JSON document", AT(json) },
	{ "bundle", 0, OPTION_TEXT, "FILE", "also write the evidence, without secrets, to this archive (tar)", AT(bundle),
	  .values = OPTION_FILES },
	{ "force", 0, OPTION_FLAG, NULL, "overwrite the file of --bundle", AT(force) },
	{ "certificates", 0, OPTION_TEXT, "DIR", "look at the certificates in this folder (/etc/fathom/certs)",
	  AT(certificates), .values = OPTION_FOLDERS },
	OPTION_HELP_ROW,
};

const struct option_table doctor_table = {
	.name = "fathom doctor",
	.usage = "fathom doctor [OPTION...] [PID|NAME|SOCKET|FILE]",
	.about = "Find what is wrong with an engine, in less than ten seconds and without disturbing it. The argument "
		 "names the "
		 "engine by its process id, its program, the name of its trace file, its control socket, or its trace "
		 "file, also "
		 "of an engine that has ended; or it is an archive of --bundle. Without an argument it is the only engine "
		 "that "
		 "runs, else the one that ended last. SPDK's targets are supported, too. Findings stand in the order of "
		 "causes.",
	OPTION_ROWS(rows),
	.operands = OPTION_TRACE_NAMES,
	.more = "Exit status: 0: healthy; 1: degraded; 2: broken; 3: the doctor could not look, or an error of the command "
		"line.",
};

static json_t *look(const struct doctor_options *options, const struct doctor_target *target)
{
	const struct doctor_source sources[] = {
		{ "process", doctor_look_process, &target->pid },
		{ "machine", doctor_look_machine, &target->pid },
		{ "files", doctor_look_files, &target->pid },
		{ "trace", doctor_look_trace, target->trace },
		{ "answers", doctor_look_answers, target },
		{ "certificates", doctor_look_certificates, options->certificates },
	};
	json_t *evidence = doctor_look(sources, ARRAY_COUNT(sources), DOCTOR_LIMIT_MS);

	must(json_object_set_new(evidence, "looked",
				 json_pack("{s:I, s:s}", "at", (json_int_t)(clock_realtime_ns() / NS_PER_SEC), "version",
					   FATHOM_VERSION)) == 0);
	return evidence;
}

/* "tgt (pid 6171)" */
static void make_title(const json_t *evidence, char *title, size_t bytes)
{
	const json_t *trace = json_object_get(evidence, "trace"), *process = json_object_get(evidence, "process");
	const char *name = json_string_value(json_object_get(trace, "program"));
	json_int_t pid = json_integer_value(json_object_get(trace, "pid"));

	if (!name)
		name = json_string_value(json_object_get(process, "name"));
	if (pid == 0)
		pid = json_integer_value(json_object_get(process, "pid"));
	snprintf(title, bytes, "%s (pid %" JSON_INTEGER_FORMAT ")", name ? name : "the engine", pid);
}

static void print_report(const struct doctor_options *options, const struct findings *list, const char *title)
{
	json_t *report;

	if (!options->json) {
		doctor_print(list, title, stdout);
		return;
	}
	report = doctor_json(list);
	must(json_object_set_new(report, "engine", json_string(title)) == 0);
	json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
	putchar('\n');
	json_decref(report);
}

/* Returns the exit status. */
static int report(const struct doctor_options *options, const struct doctor_target *target, const json_t *evidence)
{
	static const int statuses[] = {
		[FINDING_NOTE] = EXIT_HEALTHY, [FINDING_DEGRADED] = EXIT_DEGRADED, [FINDING_BROKEN] = EXIT_BROKEN
	};
	struct findings *list = doctor_judge(evidence);
	int status = statuses[findings_worst(list)];
	struct fathom_fault why;
	char title[160];

	make_title(evidence, title, sizeof(title));
	print_report(options, list, title);
	if (options->bundle) {
		const struct doctor_bundle bundle = { evidence, list, title, target->trace, options->force };

		if (doctor_write_bundle(options->bundle, &bundle, &why) != 0) {
			fprintf(stderr, "fathom doctor: %s\n", why.text);
			status = EXIT_COULD_NOT_LOOK;
		}
	}
	findings_destroy(list);
	return status;
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor_options options = { .certificates = CERTIFICATES };
	struct doctor_target target;
	struct fathom_fault why;
	json_t *evidence;
	int at, status = options_parse(&doctor_table, argc, argv, &options, &at);

	if (status != OPTIONS_RUN)
		return status == EXIT_USAGE ? EXIT_COULD_NOT_LOOK : status;
	if (argc - at > 1) {
		options_reject(&doctor_table, "unexpected argument \"%s\": one engine at a time", argv[at + 1]);
		return EXIT_COULD_NOT_LOOK;
	}
	if (doctor_find(argv[at], &target, &why) != 0 ||
	    (target.evidence[0] && doctor_read_bundle(target.evidence, &evidence, &why) != 0)) {
		fprintf(stderr, "fathom doctor: %s\n", why.text);
		return EXIT_COULD_NOT_LOOK;
	}
	if (!target.evidence[0])
		evidence = look(&options, &target);
	status = report(&options, &target, evidence);
	json_decref(evidence);
	if (fflush(stdout) != 0 || ferror(stdout))
		return EXIT_COULD_NOT_LOOK;
	return status;
}
