/* SPDX-License-Identifier: BSD-2-Clause */
/* rules_files - the file systems and block devices below the files of the engine. */
#include <string.h>

#include "inspect/doctor/findings.gen.h"
#include "inspect/doctor/internal.h"

enum { FULL_BYTES = 1 << 20, NEARLY_PERCENT = 2 };

#define NEARLY_BYTES (5ll << 30)

static void judge_space(const char *place, const json_t *system, struct findings *list)
{
	int64_t size = doc_number(system, "size", 0), free_bytes = doc_number(system, "free", 0);
	char free_text[SHORT_TEXT_BYTES], size_text[SHORT_TEXT_BYTES];
	struct finding *it = NULL;

	if (doc_number(system, "inodes", 0) > 0 && doc_number(system, "inodes_free", 1) == 0)
		finding_see(find_inodes_exhausted(list, FINDING_CERTAIN, place), "df -i %s", place);
	if (size <= 0)
		return;
	doc_bytes((uint64_t)free_bytes, free_text);
	doc_bytes((uint64_t)size, size_text);
	if (free_bytes < FULL_BYTES)
		it = find_file_system_full(list, FINDING_CERTAIN, place, free_text, size_text);
	else if (free_bytes * 100 < NEARLY_PERCENT * size && free_bytes < NEARLY_BYTES)
		it = find_file_system_nearly_full(list, FINDING_CERTAIN, place, free_text, size_text);
	if (it) {
		finding_shows(it, "%s on %s; %s is there", doc_text_at(system, "type"), doc_text_at(system, "source"),
			      doc_text_at(system, "file"));
		finding_see(it, "df -h %s", place);
	}
}

static void judge_device(const json_t *device, struct findings *list)
{
	int64_t errors = doc_number(device, "errors", 0);

	if (errors > 0)
		finding_see(find_block_device_errors(list, FINDING_POSSIBLE, doc_text_at(device, "name"), (uint64_t)errors),
			    "dmesg | grep %s", doc_text_at(device, "name"));
}

/* The file systems below open files, or below the folders of a server. `already`: those that were judged. */
static void judge_systems(const json_t *files, const json_t *already, struct findings *list)
{
	const json_t *system;
	const char *place, *path;
	struct finding *it;

	if (json_is_object(doc_at(files, "hangs"))) {
		path = doc_text_at(files, "hangs.path");
		it = find_file_system_hangs(list, FINDING_CERTAIN, path, doc_text_at(files, "hangs.what"));
		finding_shows(it, "the doctor waited %d ms for it", DOCTOR_LIMIT_MS);
		finding_see(it, "findmnt %s", path);
	}
	json_object_foreach ((json_t *)doc_at(files, "systems"), place, system) {
		if (json_object_get(already, place))
			continue;
		if (doc_is(system, "read_only")) {
			it = find_file_system_read_only(list, FINDING_CERTAIN, place);
			finding_shows(it, "%s on %s; %s is there and must be written", doc_text_at(system, "type"),
				      doc_text_at(system, "source"), doc_text_at(system, "file"));
			if (doc_text_at(system, "why")[0])
				finding_shows(it, "%s: the kernel's log has the error", doc_text_at(system, "why"));
			finding_see(it, "findmnt %s", place);
			finding_see(it, "dmesg | tail -n 50");
		}
		judge_space(place, system, list);
		judge_device(doc_at(system, "device"), list);
	}
}

void rules_files(const json_t *evidence, struct findings *list)
{
	const json_t *device;
	const char *path;

	judge_systems(doc_at(evidence, "files"), NULL, list);
	judge_systems(doc_at(evidence, "folders"), doc_at(evidence, "files.systems"), list);
	json_object_foreach ((json_t *)doc_at(evidence, "files.devices"), path, device)
		judge_device(device, list);
}
