/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom system doctor - asks the server of each host for what the doctor finds there.
 *
 *	members and leader of the system -> hosts -> HostDoctor to each -> equal findings folded
 *
 * Each step has a short time-out of its own: the system may be broken.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/control/control.h"
#include "cmd/fathom/control/doctor_fold.h"
#include "cmd/fathom/show/show.h"
#include "control/fault/fault.h"
#include "control/hostlist/hostlist.h"
#include "inspect/doctor/doctor.h"
#include "inspect/doctor/findings.gen.h"

enum { MEMBERS_SECONDS = 10, HOSTS_SECONDS = 30 };
enum { EXIT_HEALTHY = 0, EXIT_DEGRADED = 1, EXIT_BROKEN = 2, EXIT_COULD_NOT_LOOK = 3 };

/* ---- the hosts ---- */

static void add_host(struct host_set *hosts, const char *address)
{
	struct fathom_fault ignored;

	if (address[0])
		(void)!host_set_add(hosts, address, &ignored); /* one that is not valid could not be asked */
}

/* Add the addresses of the members and of the management service. Errors (explained): those of the calls. */
static int list_hosts(struct control_run *run, struct host_set *hosts, struct fathom_fault *why)
{
	struct control_values values = run->values;
	struct fathom_control_members *members = NULL;
	struct fathom_control_leader *leader = NULL;
	struct fathom_control *control;
	struct fathom_fault ignored;
	int error;

	values.timeout = values.timeout > 0 && values.timeout < MEMBERS_SECONDS ? values.timeout : MEMBERS_SECONDS;
	error = control_open(&values, &control, why);
	if (error)
		return error;
	error = fathom_control_query(control, NULL, 0, &members, why);
	for (size_t i = 0; !error && i < members->count; i++)
		add_host(hosts, members->members[i].address);
	if (!error && fathom_control_leader(control, &leader, &ignored) == 0) {
		for (size_t i = 0; i < leader->replica_count; i++)
			add_host(hosts, leader->replicas[i]);
	}
	if (host_set_count(hosts) == 0)
		add_host(hosts, fathom_control_hosts(control));
	fathom_control_free(members);
	fathom_control_free(leader);
	control_close(control);
	return error;
}

/* ---- asking ---- */

static void add_answers(struct diagnoses *folded, const struct fathom_control_answers *answers)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_answer *answer = &answers->answers[i];

		for (size_t j = 0; j < answer->diagnosis->count; j++)
			diagnoses_add(folded, &answer->diagnosis->findings[j], answer->hosts);
	}
	for (size_t i = 0; i < answers->error_count; i++) {
		struct findings *list = findings_create();
		struct finding *it = find_host_silent(list, FINDING_CERTAIN, answers->errors[i].why.text);

		finding_see(it, "fathom -l %s server query", answers->errors[i].hosts);
		diagnoses_add_own(folded, list, answers->errors[i].hosts);
		findings_destroy(list);
	}
}

static void add_members_unknown(struct diagnoses *folded, const struct fathom_fault *why)
{
	struct findings *list = findings_create();

	/* no member has joined yet: that is no error of the service */
	if (why->code != FAULT_NOT_FORMATTED_SYSTEM)
		finding_see(find_members_unknown(list, FINDING_CERTAIN, why->text), "fathom system query");
	diagnoses_add_own(folded, list, "");
	findings_destroy(list);
}

/* Errors (explained): those of the session. */
static int ask_hosts(const struct control_run *run, const struct host_set *hosts,
		     struct fathom_control_answers **answers_ret, struct fathom_fault *why)
{
	struct control_values values = run->values;
	struct fathom_control *control;
	char *text = NULL;
	int error;

	must(host_set_fold(hosts, &text) == 0);
	if (host_set_count(hosts) > 0)
		values.host_list = text;
	values.timeout = values.timeout > 0 ? values.timeout : HOSTS_SECONDS;
	error = control_open(&values, &control, why);
	if (!error) {
		error = fathom_control_host_doctor(control, answers_ret, why);
		control_close(control);
	}
	free(text);
	return error;
}

/* ---- the result ---- */

static const char *health_of(enum finding_severity worst)
{
	static const char *const health[] = {
		[FINDING_NOTE] = "healthy", [FINDING_DEGRADED] = "degraded", [FINDING_BROKEN] = "broken"
	};

	return health[worst];
}

static void print_result(const struct diagnoses *folded, const struct fathom_control_answers *answers)
{
	size_t count = diagnoses_count(folded);

	printf("%zu host%s: %s, %zu finding%s\n", answers->host_count, answers->host_count == 1 ? "" : "s",
	       health_of(diagnoses_worst(folded)), count, count == 1 ? "" : "s");
	diagnoses_print(folded, stdout);
}

static json_t *json_result(const struct diagnoses *folded, const struct fathom_control_answers *answers)
{
	json_t *hosts = json_array(), *result;

	must(hosts);
	for (size_t i = 0; i < answers->count; i++)
		must(json_array_append_new(hosts, json_pack("{s:s, s:s, s:I}", "hosts", answers->answers[i].hosts, "health",
							    answers->answers[i].diagnosis->health, "taken_ns",
							    (json_int_t)answers->answers[i].diagnosis->taken_ns)) == 0);
	result = json_pack("{s:s, s:I, s:o, s:o}", "health", health_of(diagnoses_worst(folded)), "host_count",
			   (json_int_t)answers->host_count, "hosts", hosts, "findings", diagnoses_json(folded));
	must(result);
	return result;
}

/* Returns the exit status. */
static int report(const struct control_run *run, const struct diagnoses *folded,
		  const struct fathom_control_answers *answers)
{
	static const int statuses[] = {
		[FINDING_NOTE] = EXIT_HEALTHY, [FINDING_DEGRADED] = EXIT_DEGRADED, [FINDING_BROKEN] = EXIT_BROKEN
	};

	if (!control_is_json(run))
		print_result(folded, answers);
	(void)control_finish(run, control_is_json(run) ? json_result(folded, answers) : NULL, NULL);
	return answers->count == 0 ? EXIT_COULD_NOT_LOOK : statuses[diagnoses_worst(folded)];
}

int run_doctor(struct control_run *run)
{
	struct diagnoses *folded = diagnoses_create();
	struct host_set *hosts = host_set_create();
	struct fathom_control_answers *answers = NULL;
	struct fathom_fault why = { 0 }, unlisted = { 0 };
	int status = EXIT_COULD_NOT_LOOK, error = 0;

	must(hosts);
	if (!run->values.host_list)
		error = list_hosts(run, hosts, &unlisted);
	if (control_was_interrupted() || ask_hosts(run, hosts, &answers, &why) != 0) {
		(void)control_fail(run, &why);
	} else {
		add_answers(folded, answers);
		if (error)
			add_members_unknown(folded, &unlisted);
		status = report(run, folded, answers);
	}
	fathom_control_free(answers);
	host_set_destroy(hosts);
	diagnoses_destroy(folded);
	return status;
}
