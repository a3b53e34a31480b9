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

enum { FILES_A_STEP_MAX = 64, FILES_SCANNED_MAX = 16384, FILES_A_PROCESS_MAX = 1024 };

/* A file with its SDT notes, parsed once. */
struct scanned_file {
	LIST_ENTRY(scanned_file) link;
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
	struct stash_process process; /* the current one */
	struct identity_file files[FILES_A_PROCESS_MAX];
	size_t file_count, file_next;
	LIST_HEAD(, scanned_file) scanned_files;
	size_t scanned_count;
	struct scanned_file *parsing; /* in a child */
	bool destroyed;		      /* freed when the child has answered */
};

/* ---- processes ---- */

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
	must(notes->pid_count < notes->pid_room);
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

static int add_mapped_file(void *ctx, const struct identity_file *file)
{
	struct notes *notes = ctx;

	must(notes->file_count < FILES_A_PROCESS_MAX);
	if (file->path[0] == '/')
		notes->files[notes->file_count++] = *file;
	return notes->file_count == FILES_A_PROCESS_MAX;
}

/* List the files of the next process that the client may inspect. False: the end. */
static bool next_process(struct notes *notes)
{
	struct identity identity;
	struct fathom_fault why;

	must(notes->file_next == notes->file_count);
	must(notes->pid_next <= notes->pid_count);
	notes->file_count = notes->file_next = 0;
	while (notes->pid_next < notes->pid_count) {
		pid_t pid = notes->pids[notes->pid_next++];

		if (identity_read(pid, &identity, &why) != 0 || (notes->uid != 0 && notes->uid != identity.process.uid))
			continue; /* it has ended, is a kernel thread, or belongs to another user */
		notes->process = identity.process;
		if (identity_files(pid, add_mapped_file, notes, &why) >= 0 && notes->file_count > 0)
			return true;
		notes->file_count = 0;
	}
	return false;
}

/* ---- files ---- */

static struct scanned_file *find_scanned_file(struct notes *notes, const struct stash_mapping *mapping)
{
	struct scanned_file *scanned;

	LIST_FOREACH (scanned, &notes->scanned_files, link) {
		if (scanned->mapping.inode == mapping->inode && scanned->mapping.device == mapping->device)
			return scanned;
	}
	return NULL;
}

static void free_notes(struct notes *notes)
{
	struct scanned_file *scanned;

	must(!notes->parsing);
	while ((scanned = LIST_FIRST(&notes->scanned_files))) {
		LIST_REMOVE(scanned, link);
		if (scanned->has_probes)
			dof_set_free(&scanned->set);
		elf_free(&scanned->elf);
		free(scanned);
	}
	free(notes->pids);
	free(notes);
}

static void handle_parsed_notes(void *ctx, int error, struct dof_set *set, const struct fathom_fault *why)
{
	struct notes *notes = ctx;
	struct scanned_file *scanned = notes->parsing;

	must((error == 0) == (set != NULL));
	must(scanned && !scanned->has_probes);
	notes->parsing = NULL;
	if (error == 0) {
		scanned->set = *set;
		scanned->has_probes = true;
	}
	if (notes->destroyed)
		free_notes(notes);
	else
		notes->wake(notes->ctx);
}

/* Read a new file. True: it is being parsed; wait. */
static bool scan_file(struct notes *notes, const struct identity_file *file)
{
	const struct dof_limits limits = { .bytes_max = notes->registry->options.object_bytes_max };
	const char *slash = strrchr(file->path, '/');
	struct scanned_file *scanned = calloc(1, sizeof(*scanned));
	struct dof_input *input = NULL;
	struct fathom_fault why;
	int fd = -1;

	if (!scanned)
		return false;
	must(!notes->parsing);
	must(!find_scanned_file(notes, &file->mapping)); /* each file is parsed once */
	scanned->mapping = file->mapping;
	LIST_INSERT_HEAD(&notes->scanned_files, scanned, link);
	notes->scanned_count++;
	if (identity_open(notes->process.pid, file, &fd, &why) != 0)
		return false;
	if (elf_read(fd, &limits, &scanned->elf, &why) == 0)
		input = elf_input(&scanned->elf, DOF_KIND_SDT);
	else
		memset(&scanned->elf, 0, sizeof(scanned->elf));
	close(fd);
	if (!input)
		return false;
	(void)text_copy(input->helper.module, sizeof(input->helper.module), slash ? slash + 1 : file->path); /* cut */
	notes->parsing = scanned;
	jail_parse(notes->registry->jail, input, handle_parsed_notes, notes);
	return true;
}

static void report_probe(struct notes *notes, const struct scanned_file *scanned, uint64_t base,
			 const struct dof_provider *provider, const struct dof_probe *of_file)
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
	notes->fn(notes->ctx, &notes->process, &scanned->mapping, provider, &probe);
	free(sites);
}

static void report_file(struct notes *notes, const struct scanned_file *scanned, const struct identity_file *file)
{
	uint64_t base;

	if (elf_base(&scanned->elf, file->start, file->offset, &base) != 0)
		return;
	must(scanned->has_probes);
	for (uint32_t i = 0; i < scanned->set.provider_count; i++) {
		const struct dof_provider *provider = &scanned->set.providers[i];

		for (uint32_t n = 0; n < provider->probe_count; n++)
			report_probe(notes, scanned, base, provider, &provider->probes[n]);
	}
}

enum notes_step notes_step(struct notes *notes)
{
	must(!notes->parsing && !notes->destroyed);
	for (int i = 0; i < FILES_A_STEP_MAX; i++) {
		const struct identity_file *file;
		const struct scanned_file *scanned;

		if (notes->file_next == notes->file_count && !next_process(notes))
			return NOTES_END;
		must(notes->file_next < notes->file_count);
		file = &notes->files[notes->file_next];
		scanned = find_scanned_file(notes, &file->mapping);
		if (!scanned && notes->scanned_count < FILES_SCANNED_MAX && scan_file(notes, file))
			return NOTES_WAIT; /* the next step reports the file */
		notes->file_next++;
		if (scanned && scanned->has_probes) {
			report_file(notes, scanned, file);
			return NOTES_MORE;
		}
	}
	return NOTES_MORE;
}

/* ---- create and destroy ---- */

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
	LIST_INIT(&notes->scanned_files);
	if ((only ? add_pid(notes, only) : add_all_pids(notes)) != 0) {
		free_notes(notes);
		return NULL;
	}
	return notes;
}

void notes_destroy(struct notes *notes)
{
	if (notes->parsing)
		notes->destroyed = true;
	else
		free_notes(notes);
}
