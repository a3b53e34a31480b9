/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom pool get-acl, overwrite-acl, update-acl, delete-acl: files with lists, and the output of dmg. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/control/acl_file.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"

/* ---- files ---- */

void acl_file_free(struct acl_file *file)
{
	for (size_t i = 0; i < file->count; i++)
		free(file->entries[i]);
	free(file->entries);
	*file = (struct acl_file){ 0 };
}

static int read_entries(FILE *in, const char *path, struct acl_file *file, struct fathom_fault *why)
{
	size_t room = 0;
	char *line = NULL;
	int error = 0;

	while (!error && getline(&line, &room, in) >= 0) {
		char *text = line + strspn(line, " \t\r\n");
		size_t length = strlen(text);

		while (length > 0 && strchr(" \t\r\n", text[length - 1]))
			text[--length] = '\0';
		if (!*text || *text == '#')
			continue;
		if (file->count == CONTROL_PAIRS_MAX) {
			error = fault(why, -EINVAL, "%s has more than %u entries", path, CONTROL_PAIRS_MAX);
			break;
		}
		file->entries[file->count] = strdup(text);
		must(file->entries[file->count]);
		file->count++;
	}
	if (!error && ferror(in))
		error = fault(why, -EIO, "cannot read %s", path);
	if (!error && file->count == 0)
		error = fault(why, -EINVAL, "%s has no entries", path);
	free(line);
	return error;
}

int read_acl_file(const char *path, struct acl_file *file_ret, struct fathom_fault *why)
{
	struct acl_file file = { .entries = calloc(CONTROL_PAIRS_MAX, sizeof(char *)) };
	FILE *in = fopen(path, "re");
	int error;

	must(file.entries);
	if (!in)
		error = fault(why, -errno, "cannot open %s: %s", path, strerror(errno));
	else
		error = read_entries(in, path, &file, why);
	if (in)
		fclose(in);
	if (error)
		acl_file_free(&file);
	else
		*file_ret = file;
	return error;
}

/* Write the list as get-acl prints it. An existing file is kept unless `is_forced`. */
static int write_acl_file(const char *path, bool is_forced, const struct fathom_control_pool_acl *acl, bool is_verbose,
			  struct fathom_fault *why)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | (is_forced ? O_TRUNC : O_EXCL), 0644);
	FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
	bool is_written;

	if (!out)
		return fault(why, -errno, "cannot write %s: %s%s", path, strerror(errno),
			     errno == EEXIST ? "; use --force to overwrite it" : "");
	show_acl(acl, is_verbose, out);
	is_written = fflush(out) == 0;
	if (fclose(out) != 0 || !is_written)
		return fault(why, -EIO, "cannot write %s: %s", path, strerror(errno));
	return 0;
}

/* ---- commands ---- */

/* Print the list that is the answer, as dmg does, and end. Takes `acl`. */
static int finish_acl(struct control_run *run, const char *name, struct fathom_control_pool_acl *acl)
{
	json_t *response = NULL;
	int status;

	if (control_is_json(run)) {
		response = json_acl(acl);
	} else {
		if (name)
			printf("Pool-%s-ACL command succeeded, ID: %s\n\n", name, run->argv[0]);
		show_acl(acl, run->values.verbose, stdout);
	}
	status = control_finish(run, response, NULL);
	fathom_control_free(acl);
	return status;
}

int run_pool_get_acl(struct control_run *run)
{
	struct fathom_control_pool_acl *acl;
	struct fathom_fault why;
	int error;

	if (fathom_control_pool_get_acl(run->control, run->argv[0], &acl, &why))
		return control_fail(run, &why);
	if (!run->values.outfile)
		return finish_acl(run, NULL, acl);
	error = write_acl_file(run->values.outfile, run->values.force, acl, run->values.verbose, &why);
	if (error) {
		fathom_control_free(acl);
		return control_fail(run, &why);
	}
	if (control_is_json(run))
		return finish_acl(run, NULL, acl);
	printf("Wrote ACL to output file: %s\n", run->values.outfile);
	fathom_control_free(acl);
	return control_finish(run, NULL, NULL);
}

/* The entries of --acl-file or --entry as pairs; `file` has their texts. */
static int read_entries_given(const struct control_run *run, struct acl_file *file, struct fathom_control_pair *pairs,
			      struct fathom_fault *why)
{
	if (run->values.entry) {
		file->entries = calloc(1, sizeof(char *));
		must(file->entries);
		file->entries[0] = strdup(run->values.entry);
		must(file->entries[0]);
		file->count = 1;
	} else {
		int error = read_acl_file(run->values.acl_file, file, why);

		if (error)
			return error;
	}
	for (size_t i = 0; i < file->count; i++)
		pairs[i] = (struct fathom_control_pair){ .name = file->entries[i] };
	return 0;
}

int run_pool_overwrite_acl(struct control_run *run)
{
	struct fathom_control_pair pairs[CONTROL_PAIRS_MAX];
	struct fathom_control_pool_acl *acl;
	struct acl_file file = { 0 };
	struct fathom_fault why;
	int error = read_entries_given(run, &file, pairs, &why);

	if (!error)
		error = fathom_control_pool_overwrite_acl(run->control, run->argv[0], pairs, file.count, &acl, &why);
	acl_file_free(&file);
	return error ? control_fail(run, &why) : finish_acl(run, "overwrite", acl);
}

int run_pool_update_acl(struct control_run *run)
{
	struct fathom_control_pair pairs[CONTROL_PAIRS_MAX];
	struct fathom_control_pool_acl *acl;
	struct acl_file file = { 0 };
	struct fathom_fault why;
	int error = read_entries_given(run, &file, pairs, &why);

	if (!error)
		error = fathom_control_pool_update_acl(run->control, run->argv[0], pairs, file.count, &acl, &why);
	acl_file_free(&file);
	return error ? control_fail(run, &why) : finish_acl(run, "update", acl);
}

int run_pool_delete_acl(struct control_run *run)
{
	struct fathom_control_pool_acl *acl;
	struct fathom_fault why;

	if (fathom_control_pool_delete_acl(run->control, run->argv[0], run->values.principal, &acl, &why))
		return control_fail(run, &why);
	return finish_acl(run, "delete", acl);
}
