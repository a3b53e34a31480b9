/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/probe/types.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "inspect/script/script.h"

/*
 * Add to the wanted structures the names used in blocks that read the kernel, except those that the kernel has: there a
 * name means the kernel's structure first.
 */
static void add_program_structures(struct types_wanted *wanted, const struct types_names *kernels)
{
	for (uint32_t i = 0; i < kernels->count; i++) {
		if (!types_kernel_has(wanted->kernel, kernels->names[i]))
			types_names_add(&wanted->structures, kernels->names[i], strlen(kernels->names[i]));
	}
	types_names_sort(&wanted->structures);
}

/* The first name that needs debug information; NULL: none. */
static const char *find_needed_name(const struct types_wanted *wanted, const char **kind_ret)
{
	*kind_ret = "struct";
	for (uint32_t i = 0; i < wanted->structures.count; i++) {
		if (!types_kernel_has(wanted->kernel, wanted->structures.names[i]))
			return wanted->structures.names[i];
	}
	*kind_ret = "enum";
	return wanted->enums.count ? wanted->enums.names[0] : NULL;
}

/* The program has no debug information: 0 if the script needs none, else an error that says how to get it. */
static int explain_missing_debug_info(const struct process *process, const struct types_wanted *wanted,
				      enum process_file file, struct fathom_fault *why)
{
	const char *kind, *name = find_needed_name(wanted, &kind);
	const char *id = process->notes.build_id[0] ? process->notes.build_id : "none";
	int bytes = (int)process_program_bytes(process);

	if (!name)
		return 0;
	if (file == PROCESS_FILE_RUNS)
		return fault(why, -ENODATA,
			     "%s %s: %.*s has no debug information, and its debug file (build-id %s) is neither in "
			     "/usr/lib/debug nor beside it: install that file, or build the program with symbols",
			     kind, name, bytes, process->program, id);
	return fault(why, -ENODATA,
		     "%s %s: %.*s has been %s since its start, and there is no debug file of the running program (build-id "
		     "%s): restart the program, or install that file",
		     kind, name, bytes, process->program, file == PROCESS_FILE_GONE ? "removed" : "replaced", id);
}

static int declare_types(const struct process *process, const struct types_wanted *wanted,
			 struct types_declared *declared_ret, struct fathom_fault *why)
{
	char running[64], root[64], path[PATH_MAX + 64];
	enum process_file file = process_file_of(process, path, sizeof(path));
	const char *beside = path;
	struct stat here, there;
	int rc;

	snprintf(running, sizeof(running), "/proc/%d/exe", process->pid);
	snprintf(root, sizeof(root), "/proc/%d/root", process->pid);
	/* use the program's plain name if it refers to the running file: debug files may be found beside it */
	if (stat(running, &here) == 0 && stat(process->program, &there) == 0 && here.st_dev == there.st_dev &&
	    here.st_ino == there.st_ino)
		beside = process->program;
	rc = types_declare(&(struct types_program){ .path = running, .beside = beside, .root = root }, wanted, declared_ret,
			   why);
	return rc == -ENODATA ? explain_missing_debug_info(process, wanted, file, why) : rc;
}

static int declare_wanted(const struct process *process, struct types_wanted *wanted, const struct types_names *kernels,
			  struct types_declared *declared_ret, struct fathom_fault *why)
{
	struct types_kernel *kernel = types_kernel_open();
	int rc;

	wanted->kernel = kernel;
	add_program_structures(wanted, kernels);
	rc = declare_types(process, wanted, declared_ret, why);
	types_kernel_close(kernel);
	return rc;
}

int probe_types_of(const struct process *process, const char *script, struct types_declared *declared_ret,
		   struct fathom_fault *why)
{
	struct types_wanted wanted = { 0 };
	struct types_names kernels = { 0 };
	int rc = script_names(script, &wanted, &kernels, why);

	*declared_ret = (struct types_declared){ 0 };
	if (rc == 0 && (wanted.structures.count || kernels.count || wanted.enums.count || wanted.words.count))
		rc = declare_wanted(process, &wanted, &kernels, declared_ret, why);
	types_names_free(&kernels);
	types_wanted_free(&wanted);
	return rc;
}
