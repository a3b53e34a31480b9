/* SPDX-License-Identifier: BSD-2-Clause */
/* Results of formatting: `fathom storage format`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/show/show.h"
#include "cmd/fathom/show/parts.h"

enum { RESULT_BYTES = 768 };

/* A host without devices reports one device with the address "<nil>". */
static bool is_nothing(const struct fathom_control_formatted *part)
{
	return !part->is_mount && (part->what[0] == '\0' || strcmp(part->what, "<nil>") == 0);
}

bool format_has_errors(const struct fathom_control_answers *answers)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_format *format = answers->answers[i].format;

		for (size_t k = 0; k < format->count; k++) {
			if (format->parts[k].status != 0)
				return true;
		}
	}
	return false;
}

/* Failures of devices are listed with the hosts that failed entirely. */
static void show_failed(const struct fathom_control_answers *answers, FILE *out)
{
	static const char *const titles[] = { "Hosts", "Error" };
	struct folded *folded = folded_create(FOLDED_HOSTS, titles, ARRAY_COUNT(titles));
	char cell[RESULT_BYTES];

	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_format *format = answers->answers[i].format;

		for (size_t k = 0; k < format->count; k++) {
			const struct fathom_control_formatted *part = &format->parts[k];

			if (part->status == 0)
				continue;
			snprintf(cell, sizeof(cell), "%s: %s", part->what,
				 part->error[0] ? part->error : part->status_name);
			folded_add(folded, answers->answers[i].hosts, (const char *[]){ cell });
		}
	}
	if (format_has_errors(answers))
		fprintf(out, "Format Errors:\n");
	folded_finish(folded, false, 2, out);
	if (format_has_errors(answers))
		fputc('\n', out);
}

static bool is_advised_before(const struct fathom_control_answers *answers, const struct fathom_control_formatted *part)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_format *format = answers->answers[i].format;

		for (size_t k = 0; k < format->count; k++) {
			if (&format->parts[k] == part)
				return false;
			if (format->parts[k].status != 0 && strcmp(format->parts[k].info, part->info) == 0)
				return true;
		}
	}
	return false;
}

void show_format_advice(const struct fathom_control_answers *answers, FILE *out)
{
	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_format *format = answers->answers[i].format;

		for (size_t k = 0; k < format->count; k++) {
			const struct fathom_control_formatted *part = &format->parts[k];
			const char *head = strstr(part->error, "description = "); /* skips "server: code = 666 " */

			if (part->status != 0 && part->info[0] && !is_advised_before(answers, part))
				fprintf(out, "ERROR: fathom: %.*sresolution = \"%s\"\n",
					head ? (int)(head - part->error) : 0, part->error, part->info);
		}
	}
}

static void show_summary(const struct fathom_control_answers *answers, FILE *out)
{
	static const char *const titles[] = { "Hosts", "SCM Devices", "NVMe Devices" };
	struct folded *folded = folded_create(FOLDED_HOSTS, titles, ARRAY_COUNT(titles));

	for (size_t i = 0; i < answers->count; i++) {
		const struct fathom_control_format *format = answers->answers[i].format;
		char mounts_text[SIZE_TEXT_BYTES], devices_text[SIZE_TEXT_BYTES];
		uint64_t mounts = 0, devices = 0;

		for (size_t k = 0; k < format->count; k++) {
			const struct fathom_control_formatted *part = &format->parts[k];

			mounts += part->is_mount && part->status == 0;
			devices += !part->is_mount && part->status == 0 && !is_nothing(part);
		}
		folded_add(folded, answers->answers[i].hosts,
			   (const char *[]){ number_text(mounts, mounts_text), number_text(devices, devices_text) });
	}
	if (answers->count > 0)
		fprintf(out, "Format Summary:\n");
	folded_finish(folded, false, 2, out);
}

static void print_host_format(const struct fathom_control_format *format, FILE *out)
{
	static const char *const mount_titles[] = { "SCM Mount", "Format Result" };
	static const char *const device_titles[] = { "NVMe PCI", "Format Result" };

	for (int mounts = 1; mounts >= 0; mounts--) {
		struct table *table = titled(mounts ? mount_titles : device_titles, 2);
		size_t count = 0;

		for (size_t k = 0; k < format->count; k++) {
			if (format->parts[k].is_mount != (mounts == 1) || is_nothing(&format->parts[k]))
				continue;
			add_row(table, (const char *[]){ format->parts[k].what, format->parts[k].status_name });
			count++;
		}
		if (count > 0)
			table_print(table, 0, out);
		else
			fprintf(out, mounts ? "  No SCM mounts were formatted\n" : "  No NVMe devices were formatted\n");
		table_destroy(table);
		fputc('\n', out);
	}
}

void show_format(const struct fathom_control_answers *answers, bool verbose, FILE *out)
{
	show_failed(answers, out);
	if (!verbose) {
		show_summary(answers, out);
		return;
	}
	for (size_t i = 0; i < answers->count; i++) {
		print_hosts(&answers->answers[i], out);
		fputc('\n', out);
		print_host_format(answers->answers[i].format, out);
	}
}

static json_t *json_part(const struct fathom_control_formatted *from)
{
	json_t *part = json_object();

	put_text(part, from->is_mount ? "path" : "pci_addr", from->what);
	if (from->is_mount)
		put_number(part, "instance", from->instance);
	else
		put_number(part, "role_bits", from->roles);
	put_text(part, "status", from->status_name);
	put_text(part, "error", from->error);
	put_text(part, "info", from->info);
	return part;
}

static json_t *make_format_json(const struct fathom_control_answer *answer)
{
	json_t *host = json_object(), *mounts = json_array(), *devices = json_array();

	for (size_t k = 0; k < answer->format->count; k++) {
		const struct fathom_control_formatted *part = &answer->format->parts[k];

		append(part->is_mount ? mounts : devices, json_part(part));
	}
	put(host, "scm_mount_points", or_null(mounts));
	put(host, "nvme_devices", or_null(devices));
	return host;
}

json_t *json_format(const struct fathom_control_answers *answers)
{
	return json_answers(answers, "HostStorage", "hosts", "storage", make_format_json);
}
