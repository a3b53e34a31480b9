/* SPDX-License-Identifier: BSD-2-Clause */
/* registration - a registration in progress: parsed by the jail, stored in the tree, answered, ended. */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/reactor/reactor.h"
#include "inspect/probed/register/probes.gen.h"
#include "inspect/probed/register/refusal_log.h"

uint64_t registration_bytes(const struct registration *registration)
{
	return registration->input.blocks[0].bytes + registration->input.blocks[1].bytes;
}

static void end_registration(struct registration *registration)
{
	struct registry *registry = registration->registry;

	must(registry->under_way_count > 0);
	must(registry->under_way_bytes >= registration_bytes(registration));
	must(!registration->set.memory);
	TAILQ_REMOVE(&registry->under_way, registration, link);
	registry->under_way_count--;
	registry->under_way_bytes -= registration_bytes(registration);
	must((registry->under_way_count == 0) == TAILQ_EMPTY(&registry->under_way));
	registration_state_move(clock_ticks(), registration, REGISTRATION_NONE);
	large_end(registration);
	process_put(registry, registration->process);
	free(registration->memory);
	if (registration->file)
		elf_free(registration->file);
	free(registration->file);
	free(registration);
}

static void log_refused_registration(const struct registration *registration, int error, const struct fathom_fault *why)
{
	const struct stash_process *process = &registration->process->identity.process;
	const struct refusal refusal = {
		.pid = process->pid,
		.uid = process->uid,
		.way = registration->way,
		.module = registration->input.helper.module,
		.module_bytes = sizeof(registration->input.helper.module),
		.error = error,
		.why = why->text,
	};

	if (!registration->again) /* restart.c logs those */
		refusal_log(&refusal);
}

void registration_refuse(struct registration *registration, int error, const struct fathom_fault *why)
{
	uint64_t now = clock_ticks();

	must(error < 0);
	registration->registry->stats.refused++;
	registration_state_move(now, registration, REGISTRATION_REFUSED);
	probe_registration_refused(now, registration, registration->process->identity.process.pid, error,
				   trace_intern_foreign(why->text));
	log_refused_registration(registration, error, why);
	registration->done(registration->ctx, error, 0, why);
	if (registration->set.memory)
		dof_set_free(&registration->set);
	registration->set = (struct dof_set){ 0 };
	end_registration(registration);
}

static void note_stored(struct registration *registration, uint64_t generation)
{
	uint64_t now = clock_ticks();

	must(registration->again || registration->process->stored);
	must(!registration->process->dead);
	registration->registry->stats.stored++;
	registration_state_move(now, registration, REGISTRATION_STORED);
	probe_registration_stored(now, registration, registration->process->identity.process.pid, generation,
				  registration->mapping.device, registration->mapping.inode, now - registration->begun);
	registration->done(registration->ctx, 0, generation, NULL);
	end_registration(registration);
}

/* The process may have ended or execed while a child was parsing. */
static int check_same_process(const struct registration *registration, struct fathom_fault *why)
{
	struct probed_process *process = registration->process;

	if (process_check_dead(registration->registry, process))
		return fault(why, -ESRCH, "process %d has ended", process->identity.process.pid);
	if (process->identity.image != registration->image)
		return fault(why, -ESTALE, "process %d runs another program now", process->identity.process.pid);
	return 0;
}

static int add_to_stash(struct registration *registration, const struct dof_set *set, uint64_t *generation_ret,
			struct fathom_fault *why)
{
	struct registry *registry = registration->registry;
	struct probed_process *process = registration->process;
	int error = check_same_process(registration, why);

	if (error)
		return error;
	must(!process->dead);
	must(process->pending > 0);
	if (registration->again)
		return stash_reparsed(registry->stash, &registration->known, set, why);
	error = stash_add(registry->stash,
			  &(struct stash_addition){ .process = &process->identity.process,
						    .mapping = &registration->mapping,
						    .input = &registration->input,
						    .set = set,
						    .uploads = registration->uploads },
			  generation_ret, why);
	if (error == 0)
		process_hold(process, &registration->mapping, *generation_ret, registration->way);
	return error;
}

void registration_store(struct registration *registration)
{
	uint64_t generation = 0;
	struct fathom_fault why;
	int error = add_to_stash(registration, &registration->set, &generation, &why);

	dof_set_free(&registration->set);
	registration->set = (struct dof_set){ 0 };
	if (error)
		registration_refuse(registration, error, &why);
	else
		note_stored(registration, generation);
}

static void handle_parsed(void *ctx, int error, struct dof_set *set, const struct fathom_fault *why)
{
	struct registration *registration = ctx;

	if (error) {
		registration_refuse(registration, error, why);
		return;
	}
	must(registration->state == REGISTRATION_PARSING);
	must(!registration->set.memory);
	registration->set = *set;
	if (registration->uploads[0])
		large_compare(registration);
	else
		registration_store(registration);
}

void registration_parse(struct registration *registration)
{
	must(!registration->large || registration->received == registration_bytes(registration));
	registration_state_move(clock_ticks(), registration, REGISTRATION_PARSING);
	jail_parse(registration->registry->jail, &registration->input, handle_parsed, registration);
}

struct registration *registration_create(struct registry *registry, struct probed_process *process, enum probed_way way,
					 registry_added_fn done, void *ctx)
{
	struct registration *registration = calloc(1, sizeof(*registration));

	must(!process->dead);
	if (!registration)
		return NULL;
	registration->registry = registry;
	registration->process = process;
	registration->image = process->identity.image;
	registration->way = way;
	registration->begun = clock_ticks();
	registration->done = done;
	registration->ctx = ctx;
	registration->source = -1;
	trace_object_init(&registration->trace, TRACE_OBJECT_REGISTRATION);
	TAILQ_INSERT_TAIL(&registry->under_way, registration, link);
	registry->under_way_count++;
	must(registration->state == REGISTRATION_NONE);
	return registration;
}

void registration_begin(struct registration *registration)
{
	must(registration->received == 0);
	registration->registry->under_way_bytes += registration_bytes(registration);
	registration->registry->stats.received++;
	registration_state_move(registration->begun, registration, REGISTRATION_IDENTIFIED);
	probe_registration_received(registration->begun, registration, registration->process->identity.process.pid,
				    registration->way, registration_bytes(registration));
}
