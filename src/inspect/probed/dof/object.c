/* SPDX-License-Identifier: BSD-2-Clause */
#include "inspect/probed/dof/object.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/bits.h"

const char *dof_section_name(uint32_t type)
{
	static const char *const names[] = { "NONE",	 "COMMENTS", "SOURCE",	"ECBDESC",  "PROBEDESC", "ACTDESC",
					     "DIFOHDR",	 "DIF",	     "STRTAB",	"VARTAB",   "RELTAB",	 "TYPTAB",
					     "URELHDR",	 "KRELHDR",  "OPTDESC", "PROVIDER", "PROBES",	 "PRARGS",
					     "PROFFS",	 "INTTAB",   "UTSNAME", "XLTAB",    "XLMEMBERS", "XLIMPORT",
					     "XLEXPORT", "PREXPORT", "PRENOFFS" };

	static_assert(ARRAY_COUNT(names) == DOF_SECTION_PRENOFFS + 1, "the names go to the last type that is read");
	return type < ARRAY_COUNT(names) ? names[type] : "unknown";
}

bool dof_outline(const void *data, size_t bytes, struct dof_outline *outline_ret)
{
	struct dof_header header;

	if (bytes < sizeof(header))
		return false;
	memcpy(&header, data, sizeof(header));
	*outline_ret = (struct dof_outline){ .version = header.version,
					     .bits_32 = header.model == DOF_MODEL_32,
					     .section_count = header.section_count,
					     .load_bytes = header.load_bytes,
					     .file_bytes = header.file_bytes };
	return memcmp(header.magic, DOF_MAGIC, sizeof(header.magic)) == 0;
}

int dof_object_refuse(const struct dof_object *object, int error, uint32_t section, uint64_t offset, const char *format,
		      ...)
{
	char text[FAULT_TEXT_BYTES_MAX / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return fault(object->parsing->why, error, "at 0x%" PRIx64 ", section %" PRIu32 " (%s): %s", offset, section,
		     dof_section_name(dof_object_section(object, section).type), text);
}

static int refuse_header(const struct dof_object *object, int error, size_t offset, const char *format, ...)
	PRINTF_LIKE(4, 5);

static int refuse_header(const struct dof_object *object, int error, size_t offset, const char *format, ...)
{
	char text[FAULT_TEXT_BYTES_MAX / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return fault(object->parsing->why, error, "at 0x%zx, the header: %s", offset, text);
}

#define AT(field) offsetof(struct dof_header, field)

static int check_ident(const struct dof_object *object)
{
	const struct dof_header *header = &object->header;

	if (memcmp(header->magic, DOF_MAGIC, sizeof(header->magic)) != 0)
		return refuse_header(object, -EINVAL, 0, "not DOF: it does not begin with 7f 44 4f 46");
	if (header->model != DOF_MODEL_32 && header->model != DOF_MODEL_64)
		return refuse_header(object, -ENOTSUP, AT(model), "data model %u; 1 (32 bits) and 2 (64 bits) are known",
				     header->model);
	if (header->encoding != DOF_ENCODING_LSB)
		return refuse_header(object, -ENOTSUP, AT(encoding), "encoding %u; only 1 (little-endian) is read",
				     header->encoding);
	if (header->version < 1 || header->version > 3)
		return refuse_header(object, -ENOTSUP, AT(version), "version %u; 1 to 3 are known", header->version);
	if (header->dif_version != DOF_DIF_VERSION)
		return refuse_header(object, -ENOTSUP, AT(dif_version), "DIF version %u; 2 is known", header->dif_version);
	if (header->dif_registers > DOF_DIF_REGISTERS || header->dif_tuple_registers > DOF_DIF_REGISTERS)
		return refuse_header(object, -EINVAL, AT(dif_registers), "%u and %u registers; at most 8",
				     header->dif_registers, header->dif_tuple_registers);
	if (!is_all_zero(header->pad, sizeof(header->pad)))
		return refuse_header(object, -EINVAL, AT(pad), "the rest of the identification is not zero");
	if (header->flags != 0)
		return refuse_header(object, -EINVAL, AT(flags), "flags 0x%" PRIx32 "; there are none", header->flags);
	return 0;
}

static int check_sizes(const struct dof_object *object, uint64_t bytes)
{
	const struct dof_header *header = &object->header;
	uint64_t table_bytes = (uint64_t)header->section_count * sizeof(struct dof_section);

	if (header->header_bytes != sizeof(*header))
		return refuse_header(object, -EINVAL, AT(header_bytes), "a header of %" PRIu32 " bytes; it has 64",
				     header->header_bytes);
	if (header->section_bytes != sizeof(struct dof_section))
		return refuse_header(object, -EINVAL, AT(section_bytes),
				     "section headers of %" PRIu32 " bytes; they have 32", header->section_bytes);
	if (header->load_bytes > object->parsing->limits.bytes_max)
		return refuse_header(object, -E2BIG, AT(load_bytes), "%" PRIu64 " bytes; %zu are allowed",
				     header->load_bytes, object->parsing->limits.bytes_max);
	if (header->load_bytes < sizeof(*header) || header->load_bytes > bytes)
		return refuse_header(object, -EINVAL, AT(load_bytes),
				     "%" PRIu64 " bytes to be loaded, of which the object has %" PRIu64 "",
				     header->load_bytes, bytes);
	if (header->sections_at % 8 != 0 || header->sections_at < sizeof(*header) || table_bytes > header->load_bytes ||
	    header->sections_at > header->load_bytes - table_bytes)
		return refuse_header(object, -EINVAL, AT(sections_at),
				     "%" PRIu32 " section headers at 0x%" PRIx64 ", which do not fit in %" PRIu64 " bytes",
				     header->section_count, header->sections_at, header->load_bytes);
	return 0;
}

/* ---- sections ---- */

static uint64_t at_section(const struct dof_object *object, uint32_t index)
{
	return object->header.sections_at + (uint64_t)index * sizeof(struct dof_section);
}

/* Whether the parser reads this section type: such sections must be loaded. */
static bool is_read(uint32_t type)
{
	switch (type) {
	case DOF_SECTION_STRTAB:
	case DOF_SECTION_RELTAB:
	case DOF_SECTION_URELHDR:
	case DOF_SECTION_PROVIDER:
	case DOF_SECTION_PROBES:
	case DOF_SECTION_PRARGS:
	case DOF_SECTION_PROFFS:
	case DOF_SECTION_PRENOFFS:
		return true;
	default:
		return false;
	}
}

/* The item size of a section type; 0: no fixed items. */
static uint32_t item_bytes(uint32_t type)
{
	switch (type) {
	case DOF_SECTION_PROBES:
		return sizeof(struct dof_probe_record);
	case DOF_SECTION_RELTAB:
		return sizeof(struct dof_relocation);
	case DOF_SECTION_PROFFS:
	case DOF_SECTION_PRENOFFS:
		return sizeof(uint32_t);
	case DOF_SECTION_PRARGS:
		return sizeof(uint8_t);
	default:
		return 0;
	}
}

static int check_items(const struct dof_object *object, uint32_t index, const struct dof_section *section)
{
	uint32_t bytes = item_bytes(section->type);
	/* newer producers may append fields to records: accept longer ones */
	bool fits = section->type == DOF_SECTION_PROBES || section->type == DOF_SECTION_RELTAB
			    ? section->entry_bytes >= bytes && section->entry_bytes % 8 == 0 && section->align == 8
			    : section->entry_bytes == bytes && section->align % bytes == 0;

	if (!fits)
		return dof_object_refuse(object, -EINVAL, index, at_section(object, index),
					 "entries of %" PRIu32 " bytes aligned to %" PRIu32, section->entry_bytes,
					 section->align);
	if (section->bytes % section->entry_bytes != 0)
		return dof_object_refuse(object, -EINVAL, index, at_section(object, index),
					 "%" PRIu64 " bytes are not whole entries of %" PRIu32, section->bytes,
					 section->entry_bytes);
	return 0;
}

static int check_section(const struct dof_object *object, uint32_t index, const struct dof_section *section)
{
	uint64_t at = at_section(object, index), size = object->load_bytes;

	if (!(section->flags & DOF_SECTION_LOADED)) {
		if (is_read(section->type))
			return dof_object_refuse(object, -EINVAL, index, at, "it is not marked as loaded");
		return 0;
	}
	if (!is_power_of_two(section->align) || section->offset % section->align != 0)
		return dof_object_refuse(object, -EINVAL, index, at, "offset 0x%" PRIx64 ", alignment %" PRIu32,
					 section->offset, section->align);
	if (section->offset > size || section->bytes > size - section->offset)
		return dof_object_refuse(object, -EINVAL, index, at,
					 "0x%" PRIx64 " bytes at 0x%" PRIx64 " end behind the object's 0x%" PRIx64,
					 section->bytes, section->offset, size);
	if (item_bytes(section->type))
		return check_items(object, index, section);
	if (section->type == DOF_SECTION_STRTAB &&
	    (section->bytes == 0 || object->bytes[section->offset + section->bytes - 1] != '\0'))
		return dof_object_refuse(object, -EINVAL, index, at, "its last byte is not NUL");
	return 0;
}

/* Check all sections; count the probes. */
static int check_sections(struct dof_object *object, uint64_t *probe_count_ret)
{
	uint32_t probes_max = object->parsing->limits.probes_max;
	uint64_t probe_count = 0;

	for (uint32_t i = 0; i < object->header.section_count; i++) {
		struct dof_section section = dof_object_section(object, i);
		int rc = check_section(object, i, &section);

		if (rc)
			return rc;
		object->first_address[i] = 0;
		if (section.type == DOF_SECTION_PROVIDER) {
			object->provider_count++;
		} else if (section.type == DOF_SECTION_PROBES) {
			object->first_address[i] = (uint32_t)probe_count;
			probe_count += section.bytes / section.entry_bytes;
		}
		if (probe_count > probes_max || object->provider_count > probes_max)
			return dof_object_refuse(object, -E2BIG, i, at_section(object, i), "more than %" PRIu32 " probes",
						 probes_max);
	}
	must(probe_count <= probes_max); /* so that an index has 32 bits */
	must(object->provider_count <= object->header.section_count);
	*probe_count_ret = probe_count;
	return 0;
}

int dof_object_find(const struct dof_object *object, uint32_t section, uint64_t offset, uint32_t index,
		    enum dof_section_type type, struct dof_section *section_ret)
{
	if (index >= object->header.section_count)
		return dof_object_refuse(object, -EINVAL, section, offset, "section %" PRIu32 " of %" PRIu32, index,
					 object->header.section_count);
	*section_ret = dof_object_section(object, index);
	if (section_ret->type != type)
		return dof_object_refuse(object, -EINVAL, section, offset, "section %" PRIu32 " is %s, not %s", index,
					 dof_section_name(section_ret->type), dof_section_name(type));
	return 0;
}

/* ---- relocations ---- */

static void read_probe_addresses(struct dof_object *object)
{
	for (uint32_t i = 0; i < object->header.section_count; i++) {
		struct dof_section section = dof_object_section(object, i);
		uint64_t *to = &object->addresses[object->first_address[i]];

		if (section.type != DOF_SECTION_PROBES)
			continue;
		for (uint64_t at = 0; at < section.bytes; at += section.entry_bytes)
			memcpy(to++, object->bytes + section.offset + at, sizeof(*to));
	}
}

/*
 * Add the base to addresses that are still offsets. If the dynamic linker relocated them at start (R_X86_64_RELATIVE), they
 * are above the base already.
 */
static int relocate_address(struct dof_object *object, uint32_t section, uint64_t at,
			    const struct dof_relocation_header *header, const struct dof_section *strings,
			    const struct dof_section *target)
{
	uint64_t base = object->parsing->input->helper.base, *address;
	struct dof_relocation record;

	memcpy(&record, object->bytes + at, sizeof(record));
	if (record.type == DOF_RELOCATION_NONE)
		return 0;
	if (record.type != DOF_RELOCATION_SETX)
		return dof_object_refuse(object, -EINVAL, section, at, "a relocation of type %" PRIu32, record.type);
	if (record.name >= strings->bytes)
		return dof_object_refuse(object, -EINVAL, section, at, "a name at 0x%" PRIx32 " of the strings",
					 record.name);
	if (record.offset >= target->bytes || record.offset % target->entry_bytes != 0)
		return dof_object_refuse(object, -EINVAL, section, at,
					 "offset 0x%" PRIx64 " of section %" PRIu32 " is not the address of a probe",
					 record.offset, header->target);
	address = &object->addresses[object->first_address[header->target] + record.offset / target->entry_bytes];
	if (*address > base)
		return 0;
	if (__builtin_add_overflow(*address, base, address))
		return dof_object_refuse(object, -EINVAL, section, at, "the address exceeds 64 bits");
	return 0;
}

/* `left`: bytes that all tables may still use. It bounds the work if tables overlap. */
static int apply_table(struct dof_object *object, uint32_t index, const struct dof_section *section, uint64_t *left)
{
	struct dof_section strings, relocations, target;
	struct dof_relocation_header header;
	int rc;

	if (section->bytes < sizeof(header) || section->align != 4)
		return dof_object_refuse(object, -EINVAL, index, at_section(object, index),
					 "%" PRIu64 " bytes aligned to %" PRIu32 "; a header has 12, to 4", section->bytes,
					 section->align);
	memcpy(&header, object->bytes + section->offset, sizeof(header));
	rc = dof_object_find(object, index, section->offset, header.strings, DOF_SECTION_STRTAB, &strings);
	if (rc == 0)
		rc = dof_object_find(object, index, section->offset + 4, header.relocations, DOF_SECTION_RELTAB,
				     &relocations);
	if (rc == 0)
		rc = dof_object_find(object, index, section->offset + 8, header.target, DOF_SECTION_PROBES, &target);
	if (rc == 0 && relocations.bytes > *left)
		rc = dof_object_refuse(object, -E2BIG, index, section->offset, "too many relocations");
	if (rc)
		return rc;
	must(relocations.entry_bytes >= sizeof(struct dof_relocation)); /* by check_items() */
	must(target.entry_bytes >= sizeof(struct dof_probe_record));
	*left -= relocations.bytes;
	for (uint64_t at = 0; rc == 0 && at < relocations.bytes; at += relocations.entry_bytes)
		rc = relocate_address(object, header.relocations, relocations.offset + at, &header, &strings, &target);
	return rc;
}

static int relocate_all(struct dof_object *object)
{
	uint64_t left = (uint64_t)object->parsing->limits.probes_max * 2 * sizeof(struct dof_relocation);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < object->header.section_count; i++) {
		struct dof_section section = dof_object_section(object, i);

		if (section.type == DOF_SECTION_URELHDR)
			rc = apply_table(object, i, &section, &left);
	}
	return rc;
}

int dof_object_open(struct dof_object *object, const struct dof_parsing *parsing)
{
	const struct dof_block *block = &parsing->input->blocks[0];
	uint64_t probe_count = 0;
	int rc;

	*object = (struct dof_object){ .parsing = parsing, .bytes = block->data };
	if (block->bytes < sizeof(object->header))
		return refuse_header(object, -EINVAL, block->bytes, "the object ends here; a header has 64 bytes");
	memcpy(&object->header, block->data, sizeof(object->header));
	rc = check_ident(object);
	if (rc == 0)
		rc = check_sizes(object, block->bytes);
	if (rc)
		return rc;
	object->load_bytes = object->header.load_bytes;
	must(object->load_bytes >= sizeof(object->header) && object->load_bytes <= block->bytes);
	must(at_section(object, object->header.section_count) <= object->load_bytes);
	object->first_address = dof_memory_take(parsing->memory, object->header.section_count, sizeof(uint32_t));
	if (!object->first_address)
		return -ENOMEM;
	rc = check_sections(object, &probe_count);
	if (rc)
		return rc;
	object->addresses = dof_memory_take(parsing->memory, probe_count, sizeof(uint64_t));
	if (!object->addresses)
		return -ENOMEM;
	read_probe_addresses(object);
	return relocate_all(object);
}
