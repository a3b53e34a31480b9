/* SPDX-License-Identifier: BSD-2-Clause */
/* fathom volume, fathom host - sizes as arguments, and lists of hosts. The build makes the other commands. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/command.h"
#include "cmd/fathom/control/control.h"
#include "cmd/fathom/show/show.h"

enum { PROPERTIES_MAX = 7 /* of a command; volume.def */ };

/* Print the volume (taken), and end. */
static int end_volume(const struct control_run *run, struct fathom_control_volume *volume)
{
	int status;

	if (!control_is_json(run))
		show_volume(volume, stdout);
	status = control_finish(run, control_is_json(run) ? json_of_volume(volume) : NULL, NULL);
	fathom_control_free(volume);
	return status;
}

int run_volume_create(struct control_run *run)
{
	struct fathom_control_new_volume volume = {
		.name = run->argv[0],
		.uuid = run->values.uuid,
		.block_bytes = run->values.block_size ? (uint32_t)strtoul(run->values.block_size, NULL, 10) : 0,
		.thick = run->values.thick,
		.ranks = run->values.ranks,
		.from = run->values.from,
		.checksums = run->values.checksums,
		.thin = run->values.thin,
		.no_checksums = run->values.no_checksums,
	};
	struct fathom_control_volume *created;
	struct fathom_fault why;
	int status = 0;

	if (run->argc > 1)
		status = control_read_size(run, 1, &volume.size_bytes);
	else if (!volume.from)
		status = control_bad(run, "SIZE is missing, such as 100G");
	if (status)
		return status;
	if (fathom_control_volume_create(run->control, &volume, &created, &why))
		return control_fail(run, &why);
	return end_volume(run, created);
}

int run_volume_list(struct control_run *run)
{
	struct fathom_control_volumes *volumes;
	struct fathom_fault why;
	int status;

	if (fathom_control_volume_list(run->control, run->argc > 0 ? run->argv[0] : NULL, NULL, NULL, &volumes, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_volumes(volumes, stdout);
	status = control_finish(run, control_is_json(run) ? json_of_volumes(volumes) : NULL, NULL);
	fathom_control_free(volumes);
	return status;
}

int run_volume_resize(struct control_run *run)
{
	struct fathom_control_volume *volume;
	struct fathom_fault why;
	uint64_t bytes = 0;
	int status = control_read_size(run, 1, &bytes);

	if (status)
		return status;
	if (fathom_control_volume_resize(run->control, run->argv[0], bytes, run->values.force, &volume, &why))
		return control_fail(run, &why);
	return end_volume(run, volume);
}

int run_volume_set_prop(struct control_run *run)
{
	struct fathom_control_pair pairs[PROPERTIES_MAX] = { 0 };
	size_t count = (size_t)run->argc - 1;
	struct fathom_control_volume *volume;
	struct fathom_fault why;

	must(count > 0 && count <= PROPERTIES_MAX);
	for (size_t i = 0; i < count; i++)
		pairs[i].name = run->argv[i + 1];
	if (fathom_control_volume_set_prop(run->control, run->argv[0], pairs, count, &volume, &why))
		return control_fail(run, &why);
	return end_volume(run, volume);
}

int run_volume_get_prop(struct control_run *run)
{
	struct fathom_control_volumes *volumes;
	const char *unknown;
	struct fathom_fault why;
	int status;

	if (fathom_control_volume_list(run->control, NULL, run->argv[0], NULL, &volumes, &why))
		return control_fail(run, &why);
	if (volumes->count != 1) {
		fill_fault(&why, -EPROTO, "the answer has %zu volumes, not one", volumes->count);
		fathom_control_free(volumes);
		return control_fail(run, &why);
	}
	unknown = find_unknown_property(run->argv + 1, (size_t)run->argc - 1);
	if (unknown)
		status = control_bad(run, "there is no property \"%s\"", unknown);
	else if (control_is_json(run))
		status = control_finish(run,
					json_volume_properties(&volumes->volumes[0], run->argv + 1, (size_t)run->argc - 1),
					NULL);
	else {
		show_volume_properties(&volumes->volumes[0], run->argv + 1, (size_t)run->argc - 1, stdout);
		status = control_finish(run, NULL, NULL);
	}
	fathom_control_free(volumes);
	return status;
}

int run_volume_move(struct control_run *run)
{
	uint32_t rank = (uint32_t)run->values.to;
	struct fathom_control_volume *volume;
	struct fathom_fault why;
	int status;

	if ((rank == FATHOM_CONTROL_NO_RANK) != run->values.cancel)
		return control_bad(run, "give --to RANK or --cancel, and one of them only");
	if (fathom_control_volume_move(run->control, run->argv[0], rank, run->values.cancel, &volume, &why))
		return control_fail(run, &why);
	if (run->values.cancel)
		return end_volume(run, volume);
	if (!control_is_json(run))
		show_moved(volume, stdout);
	status = control_finish(run, control_is_json(run) ? json_of_volume(volume) : NULL, NULL);
	fathom_control_free(volume);
	return status;
}

int run_volume_destroy(struct control_run *run)
{
	struct fathom_control_volume *volume;
	struct fathom_fault why;
	json_t *response = NULL;
	int status;

	if (fathom_control_volume_destroy(run->control, run->argv[0], run->values.force, &volume, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_destroyed_volume(volume, run->argv[0], stdout);
	else if (volume->name[0])
		response = json_of_volume(volume);
	status = control_finish(run, response, NULL);
	fathom_control_free(volume);
	return status;
}

int run_volume_publish(struct control_run *run)
{
	struct fathom_control_volume *volume;
	struct fathom_fault why;
	int status;

	if (fathom_control_volume_publish(run->control, run->argv[0], run->argv[1], &volume, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_published(volume, run->argv[1], stdout);
	status = control_finish(run, control_is_json(run) ? json_of_volume(volume) : NULL, NULL);
	fathom_control_free(volume);
	return status;
}

/* Ask for all parts of the list, and print each. */
int run_volume_changes(struct control_run *run)
{
	struct fathom_control_changes *changes;
	json_t *all = NULL, *part;
	struct fathom_fault why;
	uint64_t offset = 0;
	bool is_last = false;

	while (!is_last) {
		if (fathom_control_snapshot_changes(run->control, run->argv[0], run->values.from, offset, &changes, &why)) {
			json_decref(all);
			return control_fail(run, &why);
		}
		if (!control_is_json(run) && (changes->range_count > 0 || offset == 0))
			show_changes(changes, stdout);
		part = control_is_json(run) ? json_of_changes(changes) : NULL;
		if (all)
			must(json_array_extend(json_object_get(all, "ranges"), json_object_get(part, "ranges")) == 0);
		else
			all = json_incref(part);
		json_decref(part);
		is_last = changes->next_offset >= changes->size_bytes || changes->next_offset <= offset;
		offset = changes->next_offset;
		fathom_control_free(changes);
	}
	return control_finish(run, all, NULL);
}

int run_host_list(struct control_run *run)
{
	const char *host = run->argc > 0 ? run->argv[0] : NULL;
	struct fathom_control_volumes *volumes;
	struct fathom_fault why;
	int status;

	if (fathom_control_volume_list(run->control, NULL, NULL, host, &volumes, &why))
		return control_fail(run, &why);
	if (!control_is_json(run))
		show_hosts(volumes, host, stdout);
	status = control_finish(run, control_is_json(run) ? json_hosts(volumes, host) : NULL, NULL);
	fathom_control_free(volumes);
	return status;
}
