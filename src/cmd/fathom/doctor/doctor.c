/* SPDX-License-Identifier: BSD-2-Clause */
/* doctor - the command line of `fathom doctor`; see doctor.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/fathom/command.h"
#include "cmd/fathom/doctor/doctor.h"

enum { EXIT_HEALTHY = 0, EXIT_DEGRADED = 1, EXIT_BROKEN = 2, EXIT_COULD_NOT_LOOK = 3 };

struct doctor_options {
	bool json, force;
	const char *bundle, *certificates, *server, *past;
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
	{ "server", 0, OPTION_TEXT, "FILE", "look at the server of this configuration, which need not run", AT(server),
	  .values = OPTION_FILES },
	{ "past", 0, OPTION_TEXT, "FILE",
	  "compare also with the past in this recording (`fathom trace record`); default: the file of a "
	  "recorder that runs",
	  AT(past), .values = OPTION_FILES },
	OPTION_HELP_ROW,
};

const struct option_table doctor_table = {
	.name = "fathom doctor",
	.usage = "fathom doctor [OPTION...] [PID|NAME|SOCKET|FILE|CORE]",
	.about =
		"Find what is wrong with an engine, or with a server and its engines, in less than ten seconds and without "
		"disturbing them. The argument names the process by its id, its program, the name of its trace file, its "
		"control socket, or its trace file, also of an engine that has ended; or it is a core file, or an archive "
		"of --bundle. Without an argument it is the server of this machine with its engines; without a server the "
		"only engine that runs, else the one that ended last. SPDK's targets are supported, too. Findings stand in "
		"the order of causes.",
	OPTION_ROWS(rows),
	.operands = OPTION_TRACE_NAMES,
	.more = "Exit status: 0: healthy; 1: degraded; 2: broken; 3: the doctor could not look, or an error of the command "
		"line.",
};

static void print_report(const struct doctor_options *options, const struct doctor_report *made)
{
	json_t *report;

	if (!options->json) {
		doctor_report_print(made, stdout);
		return;
	}
	report = doctor_report_json(made);
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
	struct doctor_report *made = doctor_report_create(evidence);
	/* a core has all memory of the process, secrets too: it is never a part of the archive */
	const struct doctor_bundle bundle = { evidence, made, target->core[0] ? "" : target->trace, options->force };
	int status = statuses[doctor_report_worst(made)];
	struct fathom_fault why;

	print_report(options, made);
	if (options->bundle && doctor_write_bundle(options->bundle, &bundle, &why) != 0) {
		fprintf(stderr, "fathom doctor: %s\n", why.text);
		status = EXIT_COULD_NOT_LOOK;
	}
	doctor_report_destroy(made);
	return status;
}

/* The server of this machine and its engines; else an engine. */
static int find_target(const struct doctor_options *options, const char *name, struct doctor_target *target_ret,
		       struct fathom_fault *why)
{
	int rc;

	if (name)
		return doctor_find(name, target_ret, why);
	rc = doctor_find_server(options->server, target_ret, why);
	if (rc == 0 && target_ret->pid > 0)
		doctor_find_trace(target_ret);
	return rc == -ENOENT ? doctor_find(NULL, target_ret, why) : rc;
}

/* A core that tells nothing gives only a note, so a report would call it healthy. False: the evidence can be judged. */
static bool explain_useless_core(const json_t *evidence, struct fathom_fault *why)
{
	const json_t *core = json_object_get(evidence, "core");
	const char *refused = json_string_value(json_object_get(core, "refused"));
	const char *kind = json_string_value(json_object_get(json_object_get(core, "crash"), "kind"));
	const char *path = json_string_value(json_object_get(core, "path"));

	if (refused) {
		fill_fault(why, -EBADMSG, "%s", refused);
		return true;
	}
	/* a trace in the core's memory may tell what the notes do not */
	if (!kind || strcmp(kind, "unknown") != 0 || json_object_get(json_object_get(evidence, "trace"), "state"))
		return false;
	fill_fault(why, -ENODATA,
		   "%.200s%s: it has no notes and no trace, so nothing is known of the process. Copy it again",
		   path ? path : "the core", json_is_true(json_object_get(core, "truncated")) ? " is truncated" : "");
	return true;
}

int cmd_doctor(int argc, char **argv)
{
	struct doctor_options options = { .certificates = CERTIFICATES };
	uint64_t begin_ns = clock_monotonic_ns();
	struct doctor_target target;
	struct fathom_fault why;
	json_t *evidence;
	int at, status = options_parse(&doctor_table, argc, argv, &options, &at);

	if (status != OPTIONS_RUN)
		return status == EXIT_USAGE ? EXIT_COULD_NOT_LOOK : status;
	if (argc - at > 1) {
		options_reject(&doctor_table, "unexpected argument \"%s\": one process at a time", argv[at + 1]);
		return EXIT_COULD_NOT_LOOK;
	}
	if (options.server && argv[at]) {
		options_reject(&doctor_table, "--server names the server: no argument may follow");
		return EXIT_COULD_NOT_LOOK;
	}
	if (find_target(&options, argv[at], &target, &why) != 0 ||
	    (target.evidence[0] && doctor_read_bundle(target.evidence, &evidence, &why) != 0)) {
		fprintf(stderr, "fathom doctor: %s\n", why.text);
		return EXIT_COULD_NOT_LOOK;
	}
	if (!target.evidence[0])
		evidence = target.is_server ? doctor_look_host(&target, begin_ns)
					    : doctor_look_engine(&target, options.certificates, options.past, begin_ns);
	if (explain_useless_core(evidence, &why)) {
		fprintf(stderr, "fathom doctor: %s\n", why.text);
		json_decref(evidence);
		return EXIT_COULD_NOT_LOOK;
	}
	status = report(&options, &target, evidence);
	json_decref(evidence);
	if (fflush(stdout) != 0 || ferror(stdout))
		return EXIT_COULD_NOT_LOOK;
	return status;
}
