/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/trace/export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/fathom/command.h"

static int print_export_error(const char *text)
{
	fprintf(stderr, "fathom trace: %s\n", text);
	return EXIT_USAGE;
}

static int check_export_files(const struct trace_export_files *files)
{
	int count = 0, to_stdout = 0;

	for (int i = 0; i < EXPORT_FORMATS; i++) {
		count += files->paths[i] != NULL;
		to_stdout += files->paths[i] && strcmp(files->paths[i], "-") == 0;
	}
	if (count == 0)
		return print_export_error("no format is selected: use --perfetto FILE, --ctf DIRECTORY or --html FILE");
	if (to_stdout > 1)
		return print_export_error("only one format can be written to standard output");
	return EXIT_SUCCESS;
}

int trace_export(struct reader *reader, const struct trace_export_files *files,
		 bool (*is_wanted)(const void *ctx, const struct reader_event *event), const void *ctx)
{
	struct export *exports[EXPORT_FORMATS] = { NULL };
	struct reader_events *events = NULL;
	struct reader_counts counts;
	struct reader_event event;
	struct fathom_fault why = { 0 };
	int status = check_export_files(files);

	for (int i = 0; i < EXPORT_FORMATS && status == EXIT_SUCCESS; i++) {
		if (files->paths[i] && export_create(reader, i, files->paths[i], files->force, &exports[i], &why) != 0)
			status = print_export_error(why.text);
	}
	if (status == EXIT_SUCCESS && reader_events(reader, &events) != 0)
		status = print_export_error("out of memory");
	while (status == EXIT_SUCCESS && reader_event_next(events, &event)) {
		bool wanted = is_wanted(ctx, &event);

		for (int i = 0; i < EXPORT_FORMATS; i++) {
			if (exports[i])
				export_event(exports[i], &event, wanted);
		}
	}
	if (events)
		reader_events_counts(events, &counts);
	for (int i = 0; i < EXPORT_FORMATS; i++) {
		if (events && exports[i] && export_finish(exports[i], &counts, &why) != 0)
			status = print_export_error(why.text);
		export_destroy(exports[i]);
	}
	reader_events_free(events);
	return status;
}
