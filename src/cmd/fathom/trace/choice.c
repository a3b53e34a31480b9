/* SPDX-License-Identifier: BSD-2-Clause */
#include "cmd/fathom/trace/choice.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cmd/fathom/trace/trace.h"

/* Return the choice to which an option belongs: with `is_part` the last one, else a new one. NULL: too many choices. */
static struct trace_choice *add_choice(struct trace_choices *choices, bool is_part, struct fathom_fault *why)
{
	if (is_part)
		return &choices->rows[choices->count - 1];
	if (choices->count < TRACE_CHOICES_MAX)
		return &choices->rows[choices->count++];
	fill_fault(why, -EINVAL, "exceeds the limit of %d files", TRACE_CHOICES_MAX);
	return NULL;
}

static const struct trace_choice *last_choice(const struct trace_choices *choices)
{
	static const struct trace_choice none = { .file = "" };

	return choices->count ? &choices->rows[choices->count - 1] : &none;
}

int trace_choice_read_name(void *to, const char *text, struct fathom_fault *why)
{
	const struct trace_choice *last = last_choice(to);
	struct trace_choice *row = add_choice(to, !last->file && !last->name, why);

	if (!row)
		return -EINVAL;
	row->name = text;
	return 0;
}

int trace_choice_read_pid(void *to, const char *text, struct fathom_fault *why)
{
	const struct trace_choice *last = last_choice(to);
	struct trace_choice *row;
	uint64_t pid = 0;

	if (text_parse_u64(text, 10, INT32_MAX, &pid) != 0 || pid == 0)
		return fault(why, -EINVAL, "is not a process id");
	row = add_choice(to, !last->file && !last->pid, why);
	if (!row)
		return -EINVAL;
	row->pid = (int32_t)pid;
	return 0;
}

int trace_choice_read_file(void *to, const char *text, struct fathom_fault *why)
{
	struct trace_choice *row = add_choice(to, false, why);

	if (!row)
		return -EINVAL;
	row->file = text;
	return 0;
}

/* Explain why the process has no trace file, as far as possible. */
static int explain_process(const struct trace_choice *row, struct fathom_fault *why)
{
	char path[64], program[32] = "";
	FILE *from;

	if (kill(row->pid, 0) != 0 && errno == ESRCH)
		return fault(why, -ESRCH, "process %d does not exist, and /dev/shm has no trace file of it", row->pid);
	snprintf(path, sizeof(path), "/proc/%d/comm", row->pid);
	from = fopen(path, "re");
	if (!from || !fgets(program, sizeof(program), from))
		program[0] = '\0';
	if (from)
		fclose(from);
	program[strcspn(program, "\n")] = '\0';
	if (row->name)
		return fault(why, -ENOENT, "process %d (%s) has no trace file with the name \"%s\" in /dev/shm", row->pid,
			     program, row->name);
	return fault(why, -ENOENT,
		     "process %d (%s) has no trace file in /dev/shm: it was started without one, or does not trace",
		     row->pid, program);
}

int trace_choice_path(const struct trace_choices *choices, uint32_t index, char path[PATH_MAX], struct fathom_fault *why)
{
	static const struct trace_choice any = { 0 };
	const struct trace_choice *row = index < choices->count ? &choices->rows[index] : &any;
	int rc;

	if (!row->file) {
		rc = reader_find_newest(NULL, row->name, row->pid, path, PATH_MAX, why);
		return rc == -ENOENT && row->pid ? explain_process(row, why) : rc;
	}
	if (snprintf(path, PATH_MAX, "%s", row->file) >= PATH_MAX)
		return fault(why, -ENAMETOOLONG, "the name of the file is too long: %.40s...", row->file);
	return 0;
}

int trace_choice_only_path(const struct trace_choices *choices, const char *word, char path[PATH_MAX])
{
	struct fathom_fault why = { 0 };
	char text[128];

	if (choices->count > 1) {
		snprintf(text, sizeof(text), "%s takes one program or file: use one of -s, -p and -f", word);
		return trace_complain(text, NULL);
	}
	return trace_choice_path(choices, 0, path, &why) == 0 ? 0 : trace_complain(why.text, NULL);
}
