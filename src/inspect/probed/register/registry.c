/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/register/registry.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/reactor/reactor.h"
#include "inspect/probed/register/probes.gen.h"
#include "inspect/probed/register/refusal_log.h"

/* ---- adding ---- */

/* A user may have at most half of all bytes in progress; a user's first object is accepted whatever its size. */
static bool has_user_room(const struct registry *registry, uid_t uid, size_t bytes)
{
	const struct registration *registration;
	uint64_t bytes_of_user = 0;
	uint32_t count = 0;

	if (registry->under_way_count >= REGISTRY_UNDER_WAY_MAX)
		return false;
	TAILQ_FOREACH (registration, &registry->under_way, link) {
		if (registration->process->identity.process.uid == uid) {
			count++;
			bytes_of_user += registration_bytes(registration);
		}
	}
	must(count <= registry->under_way_count);
	must(bytes_of_user <= registry->under_way_bytes);
	if (count >= REGISTRY_UNDER_WAY_PER_USER_MAX)
		return false;
	if (bytes_of_user > 0 && bytes_of_user + bytes > REGISTRY_UNDER_WAY_BYTES / 2)
		return false;
	return registry->under_way_bytes == 0 || registry->under_way_bytes + bytes <= REGISTRY_UNDER_WAY_BYTES;
}

static int check_room(const struct registry *registry, const struct registry_object *object, size_t bytes,
		      struct fathom_fault *why)
{
	if (bytes > registry->options.object_bytes_max)
		return fault(why, -E2BIG, "the object has %zu bytes; the limit is %llu (--limit-object-bytes)", bytes,
			     (unsigned long long)registry->options.object_bytes_max);
	if (!has_user_room(registry, object->uid, bytes))
		return fault(why, -EBUSY, "%u registrations with %llu bytes are being parsed; try again",
			     registry->under_way_count, (unsigned long long)registry->under_way_bytes);
	return 0;
}

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* True: `pid` made the connection and lives. False: not, or the kernel is older than 6.5 and cannot tell. */
static bool is_peer(int connection, pid_t pid)
{
	struct ucred peer;
	socklen_t peer_bytes = sizeof(peer), fd_bytes = sizeof(int);
	struct pollfd ended = { .fd = -1, .events = POLLIN };
	bool lives;

	must(connection >= 0);
	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &peer_bytes) < 0 || peer.pid != pid ||
	    getsockopt(connection, SOL_SOCKET, SO_PEERPIDFD, &ended.fd, &fd_bytes) < 0)
		return false;
	lives = poll(&ended, 1, 0) == 0;
	close(ended.fd);
	return lives;
}

/*
 * The sender may have ended, and its pid been reused. Then the connection is closed. A live process that closed its
 * connection is still the peer.
 */
static bool is_pid_reused(int connection, pid_t pid)
{
	char byte;

	return connection >= 0 && recv(connection, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 && !is_peer(connection, pid);
}

/* Identify the process and the mapped file that contains the probes. */
static int identify_process(struct registry *registry, const struct registry_object *object,
			    struct probed_process **process_ret, struct identity_file *file_ret, struct fathom_fault *why)
{
	int error = process_get(registry, object->pid, object->uid, object->way, process_ret, why);

	if (error)
		return error;
	if (is_pid_reused(object->connection, object->pid))
		error = fault(why, -ESRCH, "process %d has ended", object->pid);
	else if (object->address)
		error = identity_file_at(object->pid, object->address, file_ret, why);
	else
		error = identity_program(object->pid, file_ret,
					 why); /* only a program that is not relocated has no address */
	if (error)
		process_put(registry, *process_ret);
	return error;
}

/* Read the notes of a mapped file. Large notes stay in the file: `*source_ret` is its descriptor. */
static int read_notes(struct registry *registry, const struct registry_object *object, const struct identity_file *file,
		      struct elf_file **file_ret, int *source_ret, struct fathom_fault *why)
{
	const struct dof_limits limits = { .bytes_max = registry->options.object_bytes_max };
	struct elf_file *elf = calloc(1, sizeof(*elf));
	int fd = -1, error = elf ? identity_open(object->pid, file, &fd, why) : fault(why, -ENOMEM, "out of memory");
	const struct dof_input *input = NULL;

	must(!object->data && object->file < 0);
	must(error || fd >= 0);
	if (error == 0)
		error = elf_find(fd, DOF_KIND_USDT, &limits, elf, why);
	if (error == 0) {
		input = elf_input(elf, DOF_KIND_USDT);
		if (!input)
			error = fault(why, -EINVAL, "%s of process %d has no .note.usdt", file->path, object->pid);
	}
	if (error == 0)
		error = check_room(registry, object, input->blocks[0].bytes + input->blocks[1].bytes, why);
	if (error == 0 && !large_is(input))
		error = elf_load(fd, elf, why);
	if (error == 0 && large_is(input))
		*source_ret = fd;
	else if (fd >= 0)
		close(fd);
	if (error) {
		if (elf)
			elf_free(elf);
		free(elf);
		return error;
	}
	must(elf_input(elf, DOF_KIND_USDT) == input);
	must((*source_ret >= 0) == large_is(input));
	*file_ret = elf;
	return 0;
}

/* A registration by address has no module name and base: take them from the mapped file. */
static int complete_helper(struct dof_helper *helper, pid_t pid, const struct elf_file *elf,
			   const struct identity_file *file, struct fathom_fault *why)
{
	const char *slash = strrchr(file->path, '/');
	const char *name = slash ? slash + 1 : file->path;

	if (helper->module[0] != '\0')
		return 0;
	if (elf_base(elf, file->start, file->offset, &helper->base) != 0)
		return fault(why, -EINVAL, "%s of process %d is mapped differently from its ELF header", file->path, pid);
	/* a long name is truncated, as clients do */
	memcpy(helper->module, name, strnlen(name, sizeof(helper->module) - 1));
	return 0;
}

/* `registration` takes the object, or its source. */
static void set_input(struct registration *registration, struct registry_object *object, struct elf_file *elf, int source)
{
	must(!registration->memory && !registration->file && registration->source < 0);
	must(!object->data || !elf);
	registration->memory = object->data;
	registration->file = elf;
	registration->source = source;
	if (elf) {
		registration->input = *elf_input(elf, DOF_KIND_USDT);
		memcpy(registration->source_at, elf_input_offsets(elf, DOF_KIND_USDT), sizeof(registration->source_at));
	} else {
		registration->input.blocks[0] = (struct dof_block){ .data = object->data, .bytes = object->bytes };
	}
	must(source < 0 || large_is(&registration->input));
}

/* A large object stays in its file until it is received. */
static int keep_object_file(struct registry_object *object, int *source_ret, struct fathom_fault *why)
{
	must(object->file >= 0 && !object->data);
	*source_ret = fcntl(object->file, F_DUPFD_CLOEXEC, 0);
	return *source_ret >= 0 ? 0 : fault(why, -errno, "cannot duplicate the object's descriptor: %s", strerror(errno));
}

static int identify_object(struct registry *registry, struct registry_object *object, registry_added_fn done, void *ctx,
			   struct registration **registration_ret, struct fathom_fault *why)
{
	struct registration *registration;
	struct probed_process *process = NULL;
	struct dof_helper helper = object->helper;
	struct elf_file *elf = NULL;
	struct identity_file file;
	int source = -1, error = check_room(registry, object, object->bytes, why);

	if (error == 0)
		error = identify_process(registry, object, &process, &file, why);
	if (error)
		return error;
	if (object->file >= 0)
		error = keep_object_file(object, &source, why);
	else if (!object->data)
		error = read_notes(registry, object, &file, &elf, &source, why);
	if (error == 0 && elf)
		error = complete_helper(&helper, object->pid, elf, &file, why);
	registration = error ? NULL : registration_create(registry, process, object->way, done, ctx);
	if (!registration) {
		if (source >= 0)
			close(source);
		if (elf)
			elf_free(elf);
		free(elf);
		process_put(registry, process);
		return error ? error : fault(why, -ENOMEM, "out of memory");
	}
	registration->mapping = file.mapping;
	set_input(registration, object, elf, source);
	registration->input.helper = helper;
	registration_begin(registration);
	*registration_ret = registration;
	return 0;
}

void registry_refuse_object(struct registry *registry, const struct registry_object *object, int error, const char *why)
{
	const struct refusal refusal = {
		.pid = object->pid,
		.uid = object->uid,
		.way = object->way,
		.module = object->helper.module,
		.module_bytes = sizeof(object->helper.module),
		.error = error,
		.why = why,
	};

	must(error < 0);
	registry->stats.refused++;
	probe_registration_turned_away(clock_ticks(), object->pid, error, trace_intern_foreign(why));
	refusal_log(&refusal);
}

void registry_add(struct registry *registry, struct registry_object *object, registry_added_fn done, void *ctx)
{
	struct registration *registration = NULL;
	struct fathom_fault why;
	int error = identify_object(registry, object, done, ctx, &registration, &why);

	must((error == 0) == (registration != NULL));
	must_be_on(thread_control());
	if (error == 0) {
		if (large_is(&registration->input))
			large_begin(registration);
		else
			registration_parse(registration);
		return;
	}
	registry_refuse_object(registry, object, error, why.text);
	free(object->data);
	done(ctx, error, 0, &why);
}

void registry_reparse(struct registry *registry, struct probed_process *process, const struct stash_registration *known,
		      registry_added_fn done, void *ctx)
{
	struct registration *registration = registration_create(registry, process, PROBED_WAY_KEPT, done, ctx);
	struct fathom_fault why;
	int error;

	must(process->identity.process.pid == known->process.pid);
	process->pending++;
	must(registration);
	registration->again = true;
	registration->known = *known;
	registration->mapping = known->mapping;
	error = stash_read(registry->stash, known, &registration->input, &registration->memory, &why);
	registration_begin(registration);
	if (error == 0) {
		registration_parse(registration);
		return;
	}
	registration_state_move(clock_ticks(), registration, REGISTRATION_PARSING); /* else it cannot be refused */
	registration_refuse(registration, error, &why);
}

/* ---- removal ---- */

int registry_remove(struct registry *registry, pid_t pid, uint64_t generation, struct fathom_fault *why)
{
	struct probed_process *process = process_find(registry, pid);
	int error = stash_remove(registry->stash, pid, generation, why);

	large_wake(registry);
	registry->stats.removed += error == 0;
	probe_registration_removed(clock_ticks(), pid, generation, error);
	if (error == 0 && process)
		process_release(process, generation);
	return error;
}

void registry_remove_process(struct registry *registry, pid_t pid)
{
	struct fathom_fault why;

	if (stash_remove_process(registry->stash, pid, &why) != 0)
		log_error("cannot remove the probes of process %d: %s", pid, why.text);
	large_wake(registry);
}

void registry_clear_process(struct registry *registry, pid_t pid)
{
	struct fathom_fault why;

	if (stash_clear_process(registry->stash, pid, &why) != 0)
		log_error("cannot remove the probes that process %d registered before exec: %s", pid, why.text);
	large_wake(registry);
}

void registry_remove_mapping(struct registry *registry, pid_t pid, const struct stash_mapping *mapping)
{
	struct fathom_fault why;

	if (stash_remove_mapping(registry->stash, pid, mapping, &why) != 0)
		log_error("cannot remove the probes of a file that process %d unmapped: %s", pid, why.text);
	large_wake(registry);
}

/* Check the least recently checked processes. */
static int check_next_processes(void *ctx)
{
	struct registry *registry = ctx;
	uint32_t count = registry->process_count < REGISTRY_CHECKED_MAX ? registry->process_count : REGISTRY_CHECKED_MAX;

	for (uint32_t i = 0; i < count && !TAILQ_EMPTY(&registry->order); i++) {
		struct probed_process *process = TAILQ_FIRST(&registry->order);

		TAILQ_REMOVE(&registry->order, process, in_order);
		TAILQ_INSERT_TAIL(&registry->order, process, in_order);
		must(registry->process_count > 0);
		if (!process->dead)
			process_recheck(registry, process);
	}
	return 0;
}

/* ---- create and destroy ---- */

static void set_registry_defaults(struct registry_options *options)
{
	if (options->object_bytes_max == 0)
		options->object_bytes_max = REGISTRY_OBJECT_BYTES;
	if (options->check_ns == 0)
		options->check_ns = REGISTRY_CHECK_SEC * NS_PER_SEC;
}

static int open_registry_parts(struct registry *registry, struct fathom_fault *why)
{
	int error = stash_open(&registry->options.stash, &registry->stash, why);

	if (error == 0)
		error = large_init(registry, why);
	if (error)
		return error;
	registry->jail = jail_create(&registry->options.jail, why);
	if (!registry->jail)
		return why->error ? why->error : -ENOMEM;
	if (registry->options.check_ns != UINT64_MAX) {
		registry->check_poller = poller_register("probed_look", check_next_processes, registry,
							 registry->options.check_ns);
		must(registry->check_poller);
		poller_pause(registry->check_poller);
	}
	return restart_begin(registry, why);
}

int registry_create(const struct registry_options *options, struct registry **registry_ret, struct fathom_fault *why)
{
	struct registry *registry = calloc(1, sizeof(*registry));
	int error;

	if (!registry)
		return fault(why, -ENOMEM, "out of memory");
	registry->options = *options;
	set_registry_defaults(&registry->options);
	TAILQ_INIT(&registry->order);
	TAILQ_INIT(&registry->under_way);
	TAILQ_INIT(&registry->large_users);
	error = open_registry_parts(registry, why);
	if (error) {
		registry_destroy(registry);
		return error;
	}
	must(registry->stash && registry->jail && registry->large_poller);
	*registry_ret = registry;
	return 0;
}

void registry_destroy(struct registry *registry)
{
	if (!registry)
		return;
	restart_cancel(registry);
	large_cancel(registry);
	if (registry->jail)
		jail_destroy(registry->jail);
	must(TAILQ_EMPTY(&registry->under_way));
	must(registry->under_way_count == 0 && registry->under_way_bytes == 0);
	restart_free(registry);
	processes_free(registry);
	must(registry->process_count == 0);
	must(TAILQ_EMPTY(&registry->large_users));
	poller_unregister(&registry->check_poller);
	poller_unregister(&registry->large_poller);
	if (registry->stash)
		stash_close(registry->stash);
	free(registry);
}

void registry_get_stats(const struct registry *registry, struct registry_stats *registry_ret, struct stash_stats *stash_ret,
			struct jail_stats *jail_ret)
{
	*registry_ret = registry->stats;
	registry_ret->processes = registry->process_count;
	registry_ret->under_way = registry->under_way_count;
	stash_get_stats(registry->stash, stash_ret);
	jail_get_stats(registry->jail, jail_ret);
}
