/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/fault/fault.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"

struct row {
	int code;
	int error;
	const char *domain;
	const char *name;
};

static const struct row rows[] = {
#include "control/fault/faults_table.gen.inc"
};

enum { CODE_MAX = 99999 };

static_assert(CODE_MAX < 1000000000 && sizeof(((struct fault_info *)0)->code_text) > 10, "a code's digits fit");

static const struct row *find_row(int code)
{
	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (rows[i].code == code)
			return &rows[i];
	}
	return NULL;
}

const char *fault_name(int code)
{
	const struct row *row = find_row(code);

	return row ? row->name : NULL;
}

static void copy_text(char *to, size_t to_bytes, const char *from)
{
	must(to_bytes > 0);
	to[text_utf8_copy(to, to_bytes - 1, from, strlen(from))] = '\0';
}

/* Users search log lines for "domain:", so ':', blanks and unprintable characters are dropped. */
static void copy_domain(char *to, size_t to_bytes, const char *from)
{
	size_t used = 0;

	must(to_bytes > 0);
	for (; *from && used < to_bytes - 1; from++) {
		if (*from > ' ' && *from < 0x7f && *from != ':')
			to[used++] = *from;
	}
	to[used] = '\0';
}

void fault_show(const struct fathom_fault *why, struct fault_shown *shown_ret)
{
	const struct row *row = find_row(why->code);

	must(why->error != 0);
	shown_ret->code = why->code;
	copy_domain(shown_ret->domain, sizeof(shown_ret->domain),
		    row		     ? row->domain
		    : why->domain[0] ? why->domain
				     : "general");
	copy_text(shown_ret->description, sizeof(shown_ret->description), why->text);
	copy_text(shown_ret->resolution, sizeof(shown_ret->resolution), why->resolution);
	shown_ret->reason[0] = '\0';
}

void fault_from_shown(const struct fault_shown *shown, struct fathom_fault *why_ret)
{
	const struct row *row = find_row(shown->code);

	why_ret->error = row ? row->error : -EREMOTEIO;
	must(why_ret->error < 0);
	why_ret->code = shown->code;
	copy_text(why_ret->text, sizeof(why_ret->text), shown->description);
	copy_text(why_ret->resolution, sizeof(why_ret->resolution), shown->resolution);
	copy_domain(why_ret->domain, sizeof(why_ret->domain), row ? "" : shown->domain);
}

struct writer {
	char *text;
	size_t bytes;
	size_t used;
};

static void put_bytes(struct writer *writer, const char *string, size_t bytes)
{
	must(writer->used < writer->bytes);
	/* append all of `string` or none of it: never a part of a UTF-8 character or of an escape */
	if (writer->used + bytes < writer->bytes) {
		memcpy(writer->text + writer->used, string, bytes);
		writer->used += bytes;
	}
	writer->text[writer->used] = '\0';
}

static void put_quoted(struct writer *writer, const char *string)
{
	put_bytes(writer, "\"", 1);
	for (size_t read; *string; string += read) {
		char escaped[TEXT_JSON_BYTES_MAX];
		size_t bytes = text_json_escape(escaped, string, strlen(string), TEXT_JSON_SHORT, &read);

		put_bytes(writer, escaped, bytes);
	}
	put_bytes(writer, "\"", 1);
}

static void put_line(struct writer *writer, const struct fault_shown *shown, const char *what, const char *text)
{
	char head[FAULT_DOMAIN_BYTES + 64];

	snprintf(head, sizeof(head), "%s: code = %d %s = ", shown->domain, shown->code, what);
	put_bytes(writer, head, strlen(head));
	put_quoted(writer, text);
}

const char *fault_message(const struct fault_shown *shown, char *text, size_t text_bytes)
{
	struct writer writer = { text, text_bytes, 0 };

	must(text_bytes > 0);
	text[0] = '\0';
	if (shown->code == 0)
		put_bytes(&writer, shown->description, strlen(shown->description));
	else
		put_line(&writer, shown, "description", shown->description);
	if (shown->reason[0]) {
		put_bytes(&writer, ": ", 2);
		put_bytes(&writer, shown->reason, strlen(shown->reason));
	}
	return text;
}

const char *fault_print(const struct fault_shown *shown, const char *prefix, char *text, size_t text_bytes)
{
	struct writer writer = { text, text_bytes, 0 };
	char message[FAULT_LINES_BYTES_MAX];

	must(text_bytes > 0);
	text[0] = '\0';
	fault_message(shown, message, sizeof(message));
	put_bytes(&writer, prefix, strlen(prefix));
	put_bytes(&writer, message, strlen(message));
	put_bytes(&writer, "\n", 1);
	if (shown->code == 0 && !shown->resolution[0])
		return text;
	put_bytes(&writer, prefix, strlen(prefix));
	put_line(&writer, shown, "resolution", shown->resolution[0] ? shown->resolution : "no known resolution");
	put_bytes(&writer, "\n", 1);
	return text;
}

static void add_pair(struct fault_info *info, const char *key, const char *value)
{
	must(info->metadata_count < FAULT_PAIRS_MAX);
	info->metadata[info->metadata_count].key = key;
	info->metadata[info->metadata_count].value = value;
	info->metadata_count++;
}

void fault_to_info(const struct fault_shown *shown, struct fault_info *info_ret)
{
	must(shown->code > 0);
	snprintf(info_ret->code_text, sizeof(info_ret->code_text), "%d", shown->code);
	info_ret->reason = FAULT_INFO_REASON;
	info_ret->domain = shown->domain;
	info_ret->metadata_count = 0;
	add_pair(info_ret, "Domain", shown->domain);
	add_pair(info_ret, "Code", info_ret->code_text);
	add_pair(info_ret, "Description", shown->description);
	add_pair(info_ret, "Reason", shown->reason);
	add_pair(info_ret, "Resolution", shown->resolution);
}

static const char *metadata_value(const struct fault_info *info, const char *key)
{
	for (size_t i = 0; i < info->metadata_count; i++) {
		if (strcmp(info->metadata[i].key, key) == 0)
			return info->metadata[i].value;
	}
	return "";
}

int fault_from_info(const struct fault_info *info, struct fault_shown *shown_ret)
{
	uint64_t code;

	must(info->metadata_count <= FAULT_PAIRS_MAX);
	if (strcmp(info->reason, FAULT_INFO_REASON) != 0)
		return -ENOENT;
	if (text_parse_u64(metadata_value(info, "Code"), 10, CODE_MAX, &code) < 0 || code == 0)
		return -EBADMSG;
	shown_ret->code = (int)code;
	copy_domain(shown_ret->domain, sizeof(shown_ret->domain), info->domain);
	copy_text(shown_ret->description, sizeof(shown_ret->description), metadata_value(info, "Description"));
	copy_text(shown_ret->reason, sizeof(shown_ret->reason), metadata_value(info, "Reason"));
	copy_text(shown_ret->resolution, sizeof(shown_ret->resolution), metadata_value(info, "Resolution"));
	return 0;
}
