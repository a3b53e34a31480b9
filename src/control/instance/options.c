/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of an instance: check, copy with all texts, free. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/instance/internal.h"

/* Texts of the options that are copied. */
static const size_t texts[] = {
	offsetof(struct instance_options, program),    offsetof(struct instance_options, system),
	offsetof(struct instance_options, device),     offsetof(struct instance_options, mount),
	offsetof(struct instance_options, provider),   offsetof(struct instance_options, superblock_dir),
	offsetof(struct instance_options, state_dir),  offsetof(struct instance_options, address),
	offsetof(struct instance_options, socket_dir), offsetof(struct instance_options, domain),
	offsetof(struct instance_options, cpus),       offsetof(struct instance_options, log_mask),
	offsetof(struct instance_options, log_file),
};

static const struct list_field {
	size_t list, count;
} lists[] = {
	{ offsetof(struct instance_options, env), offsetof(struct instance_options, env_count) },
	{ offsetof(struct instance_options, env_pass), offsetof(struct instance_options, env_pass_count) },
	{ offsetof(struct instance_options, arguments), offsetof(struct instance_options, argument_count) },
};

static const char **text_at(struct instance_options *options, size_t offset)
{
	return (const char **)((char *)options + offset);
}

static char ***list_at(struct instance_options *options, const struct list_field *field)
{
	return (char ***)((char *)options + field->list);
}

static size_t *count_at(struct instance_options *options, const struct list_field *field)
{
	return (size_t *)((char *)options + field->count);
}

static int copy_list(struct instance_options *options, const struct list_field *field)
{
	char *const *from = *list_at(options, field);
	size_t wanted = *count_at(options, field);
	char **copy = calloc(wanted + 1, sizeof(*copy));

	*list_at(options, field) = copy;
	*count_at(options, field) = 0;
	if (!copy)
		return -ENOMEM;
	for (size_t i = 0; i < wanted; i++) {
		copy[i] = strdup(from[i]);
		if (!copy[i])
			return -ENOMEM;
		*count_at(options, field) = i + 1;
	}
	return 0;
}

int instance_options_copy(struct instance_options *options, const struct instance_options *from)
{
	int error = 0;

	*options = *from;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		const char **text = text_at(options, texts[i]);

		if (!*text)
			continue;
		*text = strdup(*text);
		if (!*text)
			error = -ENOMEM;
	}
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		if (copy_list(options, &lists[i]) != 0)
			error = -ENOMEM;
	}
	return error;
}

void instance_options_free(struct instance_options *options)
{
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		free((char *)*text_at(options, texts[i]));
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		char **list = *list_at(options, &lists[i]);

		for (size_t n = 0; list && n < *count_at(options, &lists[i]); n++)
			free(list[n]);
		free(list);
	}
}

int instance_options_check(const struct instance_options *o, struct fathom_fault *why)
{
	if (!o->program || !o->system || !o->socket_dir || !o->mount || !o->provider || !o->address || !o->domain || !o->os)
		return fault(why, -EINVAL, "instance %u: its program, folders, address or fault domain are missing",
			     o->index);
	if (o->storage == INSTANCE_STORAGE_DEVICE && (!o->device || !o->helper))
		return fault(why, -EINVAL, "instance %u: its device, or the helper for it, is missing", o->index);
	if (o->device && strlen(o->device) >= STORAGE_NAME_BYTES_MAX)
		return fault(why, -ENAMETOOLONG, "instance %u: %s is no device's name", o->index, o->device);
	if (strlen(o->address) >= INSTANCE_ADDRESS_BYTES - 16 || o->address[0] == '\0' || o->port == 0)
		return fault(why, -EINVAL, "instance %u: %s is no address to serve at", o->index, o->address);
	if (strlen(o->system) >= SUPERBLOCK_SYSTEM_BYTES || strlen(o->domain) >= MEMBER_DOMAIN_BYTES)
		return fault(why, -ENAMETOOLONG, "instance %u: the names of its system or fault domain are too long",
			     o->index);
	return 0;
}
