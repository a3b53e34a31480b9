/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dof - `fathom probe dof FILE`: prints the probes of a DOF object or of the sections of an ELF file, or the first error
 * and its offset. Addresses are those in the file: no load address is added.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bits.h"
#include "cmd/fathom/probe/probe.h"
#include "inspect/probed/dof/dof.h"
#include "inspect/probed/elf/elf_file.h"

enum { EXIT_WRONG = 1, SITES_SHOWN = 8 };

/* A file and its contents: one input for a DOF object, else one for each section. */
struct subject {
	const char *path;
	const struct probe_request *request;
	struct elf_file file; /* for a DOF object made here, with the object as its only input */
};

static const char *kind_name(enum dof_kind kind)
{
	static const char *const names[] = {
		[DOF_KIND_DOF] = "DOF", [DOF_KIND_USDT] = ".note.usdt", [DOF_KIND_SDT] = ".note.stapsdt"
	};

	return names[kind];
}

/* ---- reading ---- */

static int read_dof_object(int fd, struct elf_file *file, struct fathom_fault *why)
{
	struct dof_block *block = &file->inputs[0].blocks[0];
	struct stat status;
	ssize_t bytes;
	char *data;

	if (fstat(fd, &status) != 0)
		return fault(why, -errno, "cannot be read: %s", strerror(errno));
	if (status.st_size > DOF_BYTES_MAX)
		return fault(why, -E2BIG, "has %" PRIu64 " bytes; the maximum is %d", (uint64_t)status.st_size,
			     DOF_BYTES_MAX);
	data = malloc((size_t)status.st_size + 1);
	if (!data)
		return fault(why, -ENOMEM, "out of memory for %" PRIu64 " bytes", (uint64_t)status.st_size);
	bytes = pread(fd, data, (size_t)status.st_size, 0);
	if (bytes < 0) {
		free(data);
		return fault(why, -errno, "cannot be read: %s", strerror(errno));
	}
	file->memory[0] = data;
	file->inputs[0].kind = DOF_KIND_DOF;
	file->input_count = 1;
	*block = (struct dof_block){ .data = data, .bytes = (size_t)bytes };
	return 0;
}

static int read_subject(struct subject *subject, struct fathom_fault *why)
{
	int fd = open(subject->path, O_RDONLY | O_CLOEXEC), rc;
	char magic[4] = "";

	if (fd < 0)
		return fault(why, -errno, "cannot be opened: %s", strerror(errno));
	if (pread(fd, magic, sizeof(magic), 0) == sizeof(magic) && memcmp(magic, "\177DOF", sizeof(magic)) == 0)
		rc = read_dof_object(fd, &subject->file, why);
	else
		rc = elf_read(fd, NULL, &subject->file, why);
	close(fd);
	return rc == -ENOEXEC ? fault(why, rc, "neither a DOF object nor an ELF file of this byte order") : rc;
}

/* Use the file's name as the module's name, as programs register it, if it is valid. */
static void name_module(const char *path, struct dof_helper *helper)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	if (!dof_name_ok(name, sizeof(helper->module)))
		name = "object";
	snprintf(helper->module, sizeof(helper->module), "%s", name);
}

/* ---- printing text ---- */

static void print_input_kind(const struct subject *subject, const struct dof_input *input)
{
	struct dof_outline outline;

	printf("%s: %s", subject->path, kind_name(input->kind));
	if (input->kind == DOF_KIND_DOF && dof_outline(input->blocks[0].data, input->blocks[0].bytes, &outline))
		printf(" version %u, %s bits, %" PRIu64 " bytes of which %" PRIu64 " are loaded, %" PRIu32 " sections",
		       outline.version, outline.bits_32 ? "32" : "64", outline.file_bytes, outline.load_bytes,
		       outline.section_count);
	else
		printf(", %zu bytes", input->blocks[0].bytes);
}

/* Print name stability, data stability and dependency class, in DTrace's terms. */
static void print_attribute(uint32_t attribute)
{
	static const char *const levels[] = { "Internal", "Private",  "Obsolete", "External",
					      "Unstable", "Evolving", "Stable",	  "Standard" };
	static const char *const classes[] = { "Unknown", "CPU", "Platform", "Group", "ISA", "Common" };
	uint32_t name = attribute >> 24, data = attribute >> 16 & 0xff, class = attribute >> 8 & 0xff;

	printf(" %s/%s/%s", name < ARRAY_COUNT(levels) ? levels[name] : "?",
	       data < ARRAY_COUNT(levels) ? levels[data] : "?", class < ARRAY_COUNT(classes) ? classes[class] : "?");
}

static bool is_identity(const struct dof_probe *probe)
{
	if (probe->native_count != probe->translated_count)
		return false;
	for (uint32_t i = 0; i < probe->native_count; i++) {
		if (probe->map[i] != i || strcmp(probe->native[i], probe->translated[i]) != 0)
			return false;
	}
	return true;
}

/* "(int, char *)"; if scripts see other types or another order: ", which scripts see as (char * = argument 1)". */
static void print_probe_types(const struct dof_probe *probe)
{
	putchar('(');
	for (uint32_t i = 0; i < probe->native_count; i++)
		printf("%s%s", i ? ", " : "", probe->native[i][0] ? probe->native[i] : "?");
	putchar(')');
	if (is_identity(probe))
		return;
	printf(", which scripts see as (");
	for (uint32_t i = 0; i < probe->translated_count; i++)
		printf("%s%s = argument %u", i ? ", " : "", probe->translated[i][0] ? probe->translated[i] : "?",
		       probe->map[i]);
	putchar(')');
}

static void print_probe_sites(const struct dof_probe *probe, bool is_enabled)
{
	uint32_t shown = 0, count = 0;

	for (uint32_t i = 0; i < probe->site_count; i++)
		count += probe->sites[i].is_enabled == is_enabled;
	if (count == 0)
		return;
	printf("      %s", is_enabled ? "is-enabled test at" : "fires at");
	for (uint32_t i = 0; i < probe->site_count && shown < SITES_SHOWN; i++) {
		const struct dof_site *site = &probe->sites[i];

		if (site->is_enabled != is_enabled)
			continue;
		printf("%s 0x%" PRIx64, shown++ ? "," : "", site->address);
		if (site->args[0])
			printf(" (%s)", site->args);
	}
	if (count > shown)
		printf(" and at %" PRIu32 " more", count - shown);
	putchar('\n');
}

static void print_attributes(const uint32_t *attributes)
{
	static const char *const parts[DOF_ATTRIBUTES] = { "provider", "module", "function", "name", "arguments" };

	/* SDT notes have no stability */
	if (is_all_zero(attributes, DOF_ATTRIBUTES * sizeof(*attributes)))
		return;
	printf("    stability:");
	if (memcmp(attributes, attributes + 1, (DOF_ATTRIBUTES - 1) * sizeof(*attributes)) == 0) {
		print_attribute(attributes[0]);
	} else {
		for (int i = 0; i < DOF_ATTRIBUTES; i++) {
			printf("%s %s", i ? "," : "", parts[i]);
			print_attribute(attributes[i]);
		}
	}
	putchar('\n');
}

static const char *plural_suffix(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static void print_provider(const struct dof_provider *provider)
{
	printf("\n  provider %s, %" PRIu32 " probe%s\n", provider->name, provider->probe_count,
	       plural_suffix(provider->probe_count));
	print_attributes(provider->attributes);
	for (uint32_t i = 0; i < provider->probe_count; i++) {
		const struct dof_probe *probe = &provider->probes[i];

		printf("    %s:%s", probe->function, probe->name);
		print_probe_types(probe);
		putchar('\n');
		print_probe_sites(probe, false);
		print_probe_sites(probe, true);
	}
}

static void print_dof_text(const struct subject *subject, const struct dof_input *input, const struct dof_set *set)
{
	print_input_kind(subject, input);
	putchar('\n');
	for (uint32_t i = 0; i < set->provider_count; i++)
		print_provider(&set->providers[i]);
	putchar('\n');
}

/* ---- printing JSON ---- */

static void print_json_row(json_t *row)
{
	must(row);
	json_dumpf(row, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(row);
}

static json_t *make_json_of_texts(const char *const *texts, uint32_t count)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < count; i++)
		json_array_append_new(array, json_string(texts[i]));
	return array;
}

static json_t *make_json_of_sites(const struct dof_probe *probe)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < probe->site_count; i++) {
		const struct dof_site *site = &probe->sites[i];

		json_array_append_new(array, json_pack("{sI, sb, ss}", "address", (json_int_t)site->address, "is_enabled",
						       site->is_enabled, "args", site->args));
	}
	return array;
}

static json_t *make_json_of_map(const struct dof_probe *probe)
{
	json_t *array = json_array();

	for (uint32_t i = 0; i < probe->translated_count; i++)
		json_array_append_new(array, json_integer(probe->map[i]));
	return array;
}

static void print_dof_json(const struct subject *subject, const struct dof_input *input, const struct dof_set *set)
{
	for (uint32_t i = 0; i < set->provider_count; i++) {
		const struct dof_provider *provider = &set->providers[i];
		json_t *attributes = json_array();

		for (int n = 0; n < DOF_ATTRIBUTES; n++)
			json_array_append_new(attributes, json_integer(provider->attributes[n]));
		for (uint32_t j = 0; j < provider->probe_count; j++) {
			const struct dof_probe *probe = &provider->probes[j];

			print_json_row(json_pack("{ss, ss, ss, sO, ss, ss, ss, so, so, so, so}", "file", subject->path,
						 "kind", kind_name(input->kind), "provider", provider->name, "attributes",
						 attributes, "module", probe->module, "function", probe->function, "probe",
						 probe->name, "native",
						 make_json_of_texts(probe->native, probe->native_count), "translated",
						 make_json_of_texts(probe->translated, probe->translated_count), "map",
						 make_json_of_map(probe), "sites", make_json_of_sites(probe)));
		}
		json_decref(attributes);
	}
}

/* ---- checking ---- */

static void count_set_sites(const struct dof_set *set, uint64_t *probes_ret, uint64_t *sites_ret)
{
	*probes_ret = *sites_ret = 0;
	for (uint32_t i = 0; i < set->provider_count; i++) {
		*probes_ret += set->providers[i].probe_count;
		for (uint32_t j = 0; j < set->providers[i].probe_count; j++)
			*sites_ret += set->providers[i].probes[j].site_count;
	}
}

/* `set` NULL: invalid; `why` has the error. */
static void print_check(const struct subject *subject, const struct dof_input *input, const struct dof_set *set,
			const struct fathom_fault *why)
{
	uint64_t probes, sites;

	if (subject->request->json) {
		print_json_row(
			set ? json_pack("{ss, ss, sb}", "file", subject->path, "kind", kind_name(input->kind), "right", 1)
			    : json_pack("{ss, ss, sb, ss}", "file", subject->path, "kind", kind_name(input->kind), "right",
					0, "error", why->text));
		return;
	}
	if (!set) {
		printf("%s: %s: not valid: %s\n", subject->path, kind_name(input->kind), why->text);
		return;
	}
	count_set_sites(set, &probes, &sites);
	print_input_kind(subject, input);
	printf(": valid: %" PRIu32 " provider%s, %" PRIu64 " probe%s, %" PRIu64 " site%s\n", set->provider_count,
	       plural_suffix(set->provider_count), probes, plural_suffix(probes), sites, plural_suffix(sites));
}

static int show_input(const struct subject *subject, struct dof_input *input)
{
	struct fathom_fault why = { 0 };
	struct dof_set set;
	int rc;

	name_module(subject->path, &input->helper);
	rc = dof_parse(input, NULL, &set, &why);
	if (subject->request->check)
		print_check(subject, input, rc ? NULL : &set, &why);
	else if (rc)
		fprintf(stderr, "fathom probe: %s: %s: %s\n", subject->path, kind_name(input->kind), why.text);
	else if (subject->request->json)
		print_dof_json(subject, input, &set);
	else
		print_dof_text(subject, input, &set);
	if (rc)
		return EXIT_WRONG;
	dof_set_free(&set);
	return EXIT_SUCCESS;
}

int probe_dof(const struct probe_request *request)
{
	int status = EXIT_SUCCESS;

	if (request->target_count == 0)
		return probe_complain("a file is missing: a DOF object, a program or a library", NULL);
	for (int i = 0; i < request->target_count; i++) {
		struct subject subject = { .path = request->targets[i], .request = request };
		struct fathom_fault why = { 0 };

		if (read_subject(&subject, &why) != 0) {
			fprintf(stderr, "fathom probe: %s: %s\n", subject.path, why.text);
			status = EXIT_USAGE;
			continue;
		}
		if (subject.file.input_count == 0 && !request->json)
			printf("%s: no probes: it has no section .SUNW_dof, .note.usdt or .note.stapsdt\n", subject.path);
		for (uint32_t n = 0; n < subject.file.input_count; n++) {
			int rc = show_input(&subject, &subject.file.inputs[n]);

			status = (int)max_u64((uint64_t)status, (uint64_t)rc);
		}
		elf_free(&subject.file);
	}
	return status;
}
