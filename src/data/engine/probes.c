/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probes - registers the engine's own probes with fathom-probed, for DTrace. Their addresses come from the notes of the
 * program file, their argument types from the schema; DOF is built from both at start.
 *
 * The function name in DOF is the probe's name: notes do not contain the function, and the program may lack symbols. Types
 * are C's own and those of <stdint.h>, which DTrace knows: an enum is an int, an object an address. A periodic stat(2), in
 * note_clocks() of engine.c, detects a daemon that starts later or restarts.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/log.h"
#include "base/text.h"
#include "data/engine/internal.h"
#include "fathom/probe.h"
#include "base/observe/trace/points.gen.h"
#include "inspect/probed/elf/elf_file.h"

enum { ARGS_MAX = 12 };

static const char provider_name[] = "fathom";
static const char module_name[] = "fathom-engine";
extern const char __ehdr_start[] __attribute__((visibility("hidden")));

static struct {
	struct fathom_probe probe;
	void *object;
} registered;

/* The C type of a probes.def type, as passed to a USDT probe. */
static const char *c_type(const char *type)
{
	static const struct {
		const char *name, *c;
	} types[] = {
		{ "u8", "uint8_t" },	 { "u16", "uint16_t" },	  { "u32", "uint32_t" },   { "u64", "uint64_t" },
		{ "i32", "int32_t" },	 { "i64", "int64_t" },	  { "bool", "int" },	   { "hex8", "uint8_t" },
		{ "hex16", "uint16_t" }, { "hex32", "uint32_t" }, { "hex64", "uint64_t" }, { "str", "char *" },
	};

	for (size_t i = 0; type && i < ARRAY_COUNT(types); i++) {
		if (strcmp(types[i].name, type) == 0)
			return types[i].c;
	}
	return "void *";
}

static const char *type_of_arg(json_t *point, const char *name)
{
	size_t i;
	json_t *arg;

	json_array_foreach (json_object_get(point, "args"), i, arg) {
		if (strcmp(json_string_value(json_object_get(arg, "name")), name) == 0)
			return json_object_get(arg, "enum") ? "int"
							    : c_type(json_string_value(json_object_get(arg, "type")));
	}
	return "void *"; /* the object */
}

/* Types of the USDT probe's arguments, the tick first. Returns their number. */
static uint32_t types_of(json_t *point, const char *types[ARGS_MAX])
{
	json_t *order = json_object_get(point, "usdt"), *args = json_object_get(point, "args"), *one;
	uint32_t count = 0;
	size_t i;

	types[count++] = "uint64_t";
	if (!order && json_object_get(point, "object"))
		types[count++] = "void *";
	json_array_foreach (order ? order : args, i, one) {
		if (count < ARGS_MAX)
			types[count++] = type_of_arg(point, json_string_value(order ? one : json_object_get(one, "name")));
	}
	return count;
}

static json_t *point_of(json_t *schema, const char *name)
{
	size_t i;
	json_t *point;

	json_array_foreach (json_object_get(schema, "points"), i, point) {
		if (strcmp(json_string_value(json_object_get(point, "name")), name) == 0)
			return point;
	}
	return NULL;
}

/* Combine a probe of the notes with its argument types from the schema. */
struct described {
	const char *types[ARGS_MAX];
	uint8_t map[ARGS_MAX];
};

static void describe_probe(json_t *schema, const struct dof_probe *noted, struct described *described,
			   struct dof_probe *probe)
{
	json_t *point = point_of(schema, noted->name);

	*probe = *noted;
	probe->module = module_name;
	probe->function = noted->name;
	if (!point)
		return;
	probe->native_count = probe->translated_count = types_of(point, described->types);
	for (uint32_t i = 0; i < probe->native_count; i++)
		described->map[i] = (uint8_t)i;
	probe->native = probe->translated = described->types;
	probe->map = described->map;
}

static int encode_provider(const struct dof_provider *noted, void **object_ret, size_t *bytes_ret, struct fathom_fault *why)
{
	static const struct dof_encoding encoding = { .version = 2, .relocate = true };
	struct dof_probe *probes = calloc(noted->probe_count, sizeof(*probes));
	struct described *described = calloc(noted->probe_count, sizeof(*described));
	json_t *schema = json_loadb(fathom_schema.json, fathom_schema.json_bytes, 0, NULL);
	struct dof_provider provider = *noted;
	const struct dof_set set = { .provider_count = 1, .providers = &provider };
	int error;

	must(probes);
	must(described);
	must(schema);
	for (uint32_t i = 0; i < noted->probe_count; i++)
		describe_probe(schema, &noted->probes[i], &described[i], &probes[i]);
	provider.probes = probes;
	error = dof_encode(&set, &encoding, object_ret, bytes_ret, why);
	json_decref(schema);
	free(described);
	free(probes);
	return error;
}

static int encode_notes(const struct dof_input *notes, void **object_ret, size_t *bytes_ret, struct fathom_fault *why)
{
	struct dof_set set;
	int error = dof_parse(notes, NULL, &set, why);

	if (error)
		return error;
	error = fault(why, -ENOENT, "its notes have no provider %s", provider_name);
	for (uint32_t i = 0; i < set.provider_count; i++) {
		if (strcmp(set.providers[i].name, provider_name) == 0)
			error = encode_provider(&set.providers[i], object_ret, bytes_ret, why);
	}
	dof_set_free(&set);
	return error;
}

static int make_object(struct fathom_probe_object *object, struct fathom_fault *why)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), error;
	struct dof_input *notes;
	struct elf_file elf;

	if (fd < 0)
		return fault(why, -errno, "/proc/self/exe: %s", strerror(errno));
	error = elf_read(fd, NULL, &elf, why);
	close(fd);
	if (error)
		return error;
	notes = elf_input(&elf, DOF_KIND_SDT);
	if (notes) {
		(void)text_copy(notes->helper.module, sizeof(notes->helper.module), module_name); /* it fits */
		error = encode_notes(notes, &registered.object, &object->bytes, why);
	} else {
		error = fault(why, -ENOENT, "the program has no notes");
	}
	object->base = elf.is_relocated ? (uintptr_t)__ehdr_start : 0;
	elf_free(&elf);
	return error;
}

void engine_probes_register(void)
{
	struct fathom_probe_object object = { .place = __ehdr_start, .module = module_name };
	struct fathom_fault why;

	if (make_object(&object, &why) != 0) {
		log_info("the engine's probes are not registered: %s", why.text);
		return;
	}
	object.dof = registered.object;
	if (fathom_probe_add(&registered.probe, &object) == 0)
		log_info("the engine's probes are registered with fathom-probed");
}

void engine_probes_refresh(void)
{
	if (fathom_probe_refresh() > 0)
		log_info("the engine's probes are registered with fathom-probed");
}

void engine_probes_remove(void)
{
	(void)fathom_probe_remove(&registered.probe); /* on failure the daemon removes them at process exit */
	free(registered.object);
	registered.object = NULL;
}
