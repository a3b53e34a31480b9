/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * format_wait - engines start and join soon after their storage was formatted. `fathom storage format` waits for them,
 * so that the next command finds the system, and reports engines that have not joined.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bits.h"
#include "base/clock.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/parts.h"

enum { POLL_MS = 200, JOIN_SECONDS_MAX = 90, REFUSED_SECONDS_MAX = 10 };

static bool is_on_formatted_storage(const struct fathom_control_answers *answers,
				    const struct fathom_control_engine *engine)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_format *format = answers->answers[i].format;

		for (size_t k = 0; k < format->count; k++) {
			const struct fathom_control_formatted *part = &format->parts[k];

			if (part->is_mount && part->status == 0 && part->instance == engine->index &&
			    strcmp(part->what, engine->storage) == 0)
				return true;
		}
	}
	return false;
}

/* Is the engine still starting? A rejected join may succeed later: the management service starts at the same time. */
static bool is_still_starting(const struct fathom_control_engine *engine, uint64_t waited_ns)
{
	static const char *const states[] = { "adopting", "checking", "formatting", "starting", "ready" };

	for (size_t i = 0; i < ARRAY_COUNT(states); i++) {
		if (strcmp(engine->state, states[i]) == 0)
			return true;
	}
	return strcmp(engine->state, "refused") == 0 && waited_ns < REFUSED_SECONDS_MAX * NS_PER_SEC;
}

/* Count the engines on formatted storage: those that are still starting, and those that failed to join. */
static void count_formatted_engines(const struct fathom_control_answers *formatted,
				    const struct fathom_control_answers *engines, uint64_t waited_ns, size_t *settling_ret,
				    size_t *failed_ret)
{
	*settling_ret = *failed_ret = 0;
	for (size_t i = 0; i < engines->count; i++) {
		const struct fathom_control_engines *list = engines->answers[i].engines;

		for (size_t k = 0; k < list->count; k++) {
			const struct fathom_control_engine *engine = &list->engines[k];

			if (!is_on_formatted_storage(formatted, engine) || strcmp(engine->state, "joined") == 0)
				continue;
			if (is_still_starting(engine, waited_ns))
				(*settling_ret)++;
			else
				(*failed_ret)++;
		}
	}
}

static void print_unjoined_engines(const struct fathom_control_answers *formatted,
				   const struct fathom_control_answers *engines, FILE *out)
{
	for (size_t i = 0; i < engines->count; i++) {
		const struct fathom_control_engines *list = engines->answers[i].engines;
		char *hosts = hosts_text(engines->answers[i].hosts);

		for (size_t k = 0; k < list->count; k++) {
			const struct fathom_control_engine *engine = &list->engines[k];

			if (is_on_formatted_storage(formatted, engine) && strcmp(engine->state, "joined") != 0)
				fprintf(out,
					"ERROR: fathom: engine %" PRIu32 " of %s is formatted and has not joined: %s%s%s\n",
					engine->index, hosts, engine->state, engine->info[0] ? ": " : "", engine->info);
		}
		free(hosts);
	}
}

static bool is_any_formatted(const struct fathom_control_answers *answers)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_format *format = answers->answers[i].format;

		for (size_t k = 0; k < format->count; k++) {
			if (format->parts[k].is_mount && format->parts[k].status == 0)
				return true;
		}
	}
	return false;
}

bool format_wait(const struct control_run *run, const struct fathom_control_answers *formatted)
{
	const struct timespec pause = { .tv_nsec = POLL_MS * NS_PER_MS };
	struct fathom_control_answers *engines;
	uint64_t begin_ns = clock_monotonic_ns(), waited_ns, limit_ns;
	size_t settling, failed;
	struct fathom_fault why;

	limit_ns = (run->values.timeout ? run->values.timeout : JOIN_SECONDS_MAX) * NS_PER_SEC;
	if (!is_any_formatted(formatted))
		return true;
	for (;;) {
		/* also before the first call: a server must have reported its state to the management service, too */
		(void)nanosleep(&pause, NULL);
		/* DAOS's servers lack this call: the state of their engines is unknown */
		if (fathom_control_engines(run->control, &engines, &why))
			return true;
		waited_ns = clock_monotonic_ns() - begin_ns;
		count_formatted_engines(formatted, engines, waited_ns, &settling, &failed);
		if (settling == 0 || waited_ns >= limit_ns || control_was_interrupted())
			break;
		fathom_control_free(engines);
	}
	if (settling + failed > 0)
		print_unjoined_engines(formatted, engines, stderr);
	fathom_control_free(engines);
	return settling + failed == 0;
}
