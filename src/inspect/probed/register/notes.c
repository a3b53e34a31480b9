/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/register/notes.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

enum { FILES_A_STEP_MAX = 64, FILES_KNOWN_MAX = 16384, FILES_A_PROCESS_MAX = 1024 };

/* A file, and what is in it. */
struct known {
	LIST_ENTRY(known) link;
	struct stash_mapping mapping;
	struct elf_file elf;
	struct dof_set set; /* addresses as linked */
	bool has_probes;
};

struct notes {
	struct registry *registry;
	uid_t uid;
	notes_probe_fn fn;
	notes_wake_fn wake;
	void *ctx;
	pid_t *pids;
	size_t pid_count, pid_room, pid_next;
	struct stash_process process; /* the one that is being looked at */
	struct identity_file files[FILES_A_PROCESS_MAX];
	size_t file_count, file_next;
	LIST_HEAD(, known) known;
	size_t known_count;
	struct known *parsing; /* in a child */
	bool abandoned;
};

/* ---- which processes ---- */

static int add_pid(struct notes *notes, pid_t pid)
{
	if (notes->pid_count == notes->pid_room) {
		size_t room = notes->pid_room ? notes->pid_room * 2 : 256;
		void *more = reallocarray(notes->pids, room, sizeof(*notes->pids));

		if (!more)
			return -ENOMEM;
		notes->pids = more;
		notes->pid_room = room;
	}
	notes->pids[notes->pid_count++] = pid;
	return 0;
}

static int add_all_pids(struct notes *notes)
{
	DIR *folder = opendir("/proc");
	struct dirent *entry;
	int error = 0;

	if (!folder)
		return -errno;
	while (error == 0 && (entry = readdir(folder))) {
		uint64_t pid;

		if (text_parse_u64(entry->d_name, 10, INT32_MAX, &pid) == 0)
			error = add_pid(notes, (pid_t)pid);
	}
	closedir(folder);
	return error;
}

static int see_file(void *ctx, const struct identity_file *file)
{
	struct notes *notes = ctx;

	if (file->path[0] == '/')
		notes->files[notes->file_count++] = *file;
	return notes->file_count == FILES_A_PROCESS_MAX;
}

/* The files of the next process that may be looked at. False: there is none. */
static bool next_process(struct notes *notes)
{
	struct identity identity;
	struct fathom_fault why;

	notes->file_count = notes->file_next = 0;
	while (notes->pid_next < notes->pid_count) {
		pid_t pid = notes->pids[notes->pid_next++];

		if (identity_read(pid, &identity, &why) != 0 || (notes->uid != 0 && notes->uid != identity.process.uid))
			continue; /* gone, a thread of the kernel, or not for whoever asks */
		notes->process = identity.process;
		if (identity_files(pid, see_file, notes, &why) >= 0 && notes->file_count > 0)
			return true;
		notes->file_count = 0;
	}
	return false;
}

/* ---- one file ---- */

static struct known *find(struct notes *notes, const struct stash_mapping *mapping)
{
	struct known *known;

	LIST_FOREACH (known, &notes->known, link) {
		if (known->mapping.inode == mapping->inode && known->mapping.device == mapping->device)
			return known;
	}
	return NULL;
}

static void free_notes(struct notes *notes)
{
	struct known *known;

	while ((known = LIST_FIRST(&notes->known))) {
		LIST_REMOVE(known, link);
		if (known->has_probes)
			dof_set_free(&known->set);
		elf_free(&known->elf);
		free(known);
	}
	free(notes->pids);
	free(notes);
}

static void parsed(void *ctx, int error, struct dof_set *set, const struct fathom_fault *why)
{
	struct notes *notes = ctx;
	struct known *known = notes->parsing;

	notes->parsing = NULL;
	if (error == 0) {
		known->set = *set;
		known->has_probes = true;
	}
	if (notes->abandoned)
		free_notes(notes);
	else
		notes->wake(notes->ctx);
}

/* Read a file that has not been seen. True: it is being parsed, and to be waited for. */
static bool learn(struct notes *notes, const struct identity_file *file)
{
	const struct dof_limits limits = { .bytes_max = notes->registry->options.object_bytes_max };
	const char *slash = strrchr(file->path, '/');
	struct known *known = calloc(1, sizeof(*known));
	struct dof_input *input = NULL;
	struct fathom_fault why;
	int fd = -1;

	if (!known)
		return false;
	known->mapping = file->mapping;
	LIST_INSERT_HEAD(&notes->known, known, link);
	notes->known_count++;
	if (identity_open(notes->process.pid, file, &fd, &why) != 0)
		return false;
	if (elf_read(fd, &limits, &known->elf, &why) == 0)
		input = elf_input(&known->elf, DOF_KIND_SDT);
	else
		memset(&known->elf, 0, sizeof(known->elf));
	close(fd);
	if (!input)
		return false;
	(void)text_copy(input->helper.module, sizeof(input->helper.module), slash ? slash + 1 : file->path); /* cut */
	notes->parsing = known;
	jail_parse(notes->registry->jail, input, parsed, notes);
	return true;
}

static void tell_probe(struct notes *notes, const struct known *known, uint64_t base, const struct dof_provider *provider,
		       const struct dof_probe *of_file)
{
	struct dof_site *sites = calloc(of_file->site_count, sizeof(*sites));
	struct dof_probe probe = *of_file;

	if (!sites)
		return;
	for (uint32_t i = 0; i < probe.site_count; i++) {
		sites[i] = of_file->sites[i];
		sites[i].address += base;
	}
	probe.sites = sites;
	notes->fn(notes->ctx, &notes->process, &known->mapping, provider, &probe);
	free(sites);
}

static void tell(struct notes *notes, const struct known *known, const struct identity_file *file)
{
	uint64_t base;

	if (elf_base(&known->elf, file->start, file->offset, &base) != 0)
		return;
	for (uint32_t i = 0; i < known->set.provider_count; i++) {
		const struct dof_provider *provider = &known->set.providers[i];

		for (uint32_t n = 0; n < provider->probe_count; n++)
			tell_probe(notes, known, base, provider, &provider->probes[n]);
	}
}

enum notes_step notes_step(struct notes *notes)
{
	must(!notes->parsing);
	for (int i = 0; i < FILES_A_STEP_MAX; i++) {
		const struct identity_file *file;
		const struct known *known;

		if (notes->file_next == notes->file_count && !next_process(notes))
			return NOTES_END;
		file = &notes->files[notes->file_next];
		known = find(notes, &file->mapping);
		if (!known && notes->known_count < FILES_KNOWN_MAX && learn(notes, file))
			return NOTES_WAIT; /* and the file again */
		notes->file_next++;
		if (known && known->has_probes) {
			tell(notes, known, file);
			return NOTES_MORE;
		}
	}
	return NOTES_MORE;
}

/* ---- life ---- */

struct notes *notes_create(struct registry *registry, uid_t uid, pid_t only, notes_probe_fn fn, notes_wake_fn wake,
			   void *ctx)
{
	struct notes *notes = calloc(1, sizeof(*notes));

	if (!notes)
		return NULL;
	notes->registry = registry;
	notes->uid = uid;
	notes->fn = fn;
	notes->wake = wake;
	notes->ctx = ctx;
	LIST_INIT(&notes->known);
	if ((only ? add_pid(notes, only) : add_all_pids(notes)) != 0) {
		free_notes(notes);
		return NULL;
	}
	return notes;
}

void notes_destroy(struct notes *notes)
{
	if (notes->parsing)
		notes->abandoned = true;
	else
		free_notes(notes);
}
