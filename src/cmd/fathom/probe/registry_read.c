/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * registry_read - reads registered probes from the tree, without the daemon: probes/$pid/$prv$pid/$mod/$fun/$prb
 * (docs/formats/stash.md). A line of JSON for each.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "cmd/fathom/probe/registry.h"
#include "inspect/probed/register/line.h"
#include "inspect/probed/stash/record.h"

enum { FILE_BYTES_MAX = 1 << 20, DEPTH_OF_FILES = 5 };

static void report_record(pid_t pid, const struct record *record, registry_line_fn fn, void *ctx)
{
	for (uint32_t i = 0; i < record->set.provider_count; i++) {
		const struct dof_provider *provider = &record->set.providers[i];

		for (uint32_t n = 0; n < provider->probe_count; n++) {
			json_t *line = line_of_probe(pid, "tree", provider, &provider->probes[n]);

			must(line);
			fn(ctx, line);
			json_decref(line);
		}
	}
}

static void read_record_file(pid_t pid, const char *path, registry_line_fn fn, void *ctx)
{
	static char room[FILE_BYTES_MAX];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct record record;
	struct fathom_fault why;
	ssize_t got;

	if (fd < 0)
		return; /* the file was removed meanwhile */
	got = read(fd, room, sizeof(room));
	close(fd);
	if (got > 0 && record_decode(room, (size_t)got, &record, &why) == 0) {
		report_record(pid, &record, fn, ctx);
		record_free(&record);
	} else {
		fprintf(stderr, "fathom probe: %s: %s\n", path, got > 0 ? why.text : "cannot be read");
	}
}

static int compare_entry_names(const FTSENT **a, const FTSENT **b)
{
	return strverscmp((*a)->fts_name, (*b)->fts_name);
}

int registry_read(const char *directory, uint64_t pid, registry_line_fn fn, void *ctx, struct fathom_fault *why)
{
	char path[PATH_MAX], *paths[] = { path, NULL };
	uint64_t of = 0;
	FTSENT *entry;
	FTS *tree;

	snprintf(path, sizeof(path), "%s/probes", directory);
	if (access(path, R_OK | X_OK) < 0)
		return fault(why, -errno, "%s: %s; --state-dir takes the same directory as fathom-probed's --state-dir",
			     path, strerror(errno));
	tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, compare_entry_names);
	if (!tree)
		return fault(why, -errno, "%s: %s", path, strerror(errno));
	while ((entry = fts_read(tree))) {
		if (entry->fts_info == FTS_D && entry->fts_level == 1 &&
		    (text_parse_u64(entry->fts_name, 10, INT32_MAX, &of) != 0 || (pid && of != pid)))
			(void)fts_set(tree, entry, FTS_SKIP);
		else if (entry->fts_info == FTS_F && entry->fts_level == DEPTH_OF_FILES)
			read_record_file((pid_t)of, entry->fts_path, fn, ctx);
	}
	(void)fts_close(tree);
	return 0;
}
