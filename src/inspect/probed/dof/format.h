/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * format - DOF's layout in files: docs/formats/dof.md. Little-endian, the same for both data models. Structures must be
 * read and written with memcpy(), because objects may be unaligned.
 */
#ifndef PROBED_DOF_FORMAT_H
#define PROBED_DOF_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define DOF_MAGIC "\177DOF"

enum { DOF_MODEL_32 = 1, DOF_MODEL_64 = 2, DOF_ENCODING_LSB = 1, DOF_DIF_VERSION = 2, DOF_DIF_REGISTERS = 8 };

struct dof_header {
	char magic[4];
	uint8_t model, encoding, version, dif_version, dif_registers, dif_tuple_registers;
	uint8_t pad[6]; /* 0 */
	uint32_t flags; /* 0 */
	uint32_t header_bytes, section_bytes, section_count;
	uint64_t sections_at;
	uint64_t load_bytes; /* the part that programs map and register; the rest of the file only describes the producer */
	uint64_t file_bytes;
	uint64_t pad_end;
};

/* The sections of programs with probes; the other types are for D programs. */
enum dof_section_type {
	DOF_SECTION_NONE = 0,
	DOF_SECTION_COMMENTS = 1,
	DOF_SECTION_STRTAB = 8,
	DOF_SECTION_RELTAB = 10,
	DOF_SECTION_URELHDR = 12,
	DOF_SECTION_PROVIDER = 15,
	DOF_SECTION_PROBES = 16,
	DOF_SECTION_PRARGS = 17,
	DOF_SECTION_PROFFS = 18,
	DOF_SECTION_UTSNAME = 20,
	DOF_SECTION_PRENOFFS = 26
};
enum { DOF_SECTION_LOADED = 1 };

struct dof_section {
	uint32_t type, align, flags, entry_bytes;
	uint64_t offset, bytes;
};

/* Sections are referenced by index, strings by their offset in `strings`. */
struct dof_provider_record {
	uint32_t strings, probes, map, sites, name;
	uint32_t attributes[5];
	uint32_t enabled_sites; /* 0: none. A record of version 1 may lack this field */
};

struct dof_probe_record {
	uint64_t address; /* of the function; relocated by the dynamic linker, by RELTAB, or by both */
	uint32_t function, name;
	uint32_t native, translated; /* the first of the types, which are consecutive strings */
	uint32_t map_index, site_index;
	uint8_t native_count, translated_count;
	uint16_t site_count;
	uint32_t enabled_index;
	uint16_t enabled_count;
	uint16_t pad;
	uint32_t pad_end;
};

struct dof_relocation_header {
	uint32_t strings, relocations, target; /* sections */
};

enum { DOF_RELOCATION_NONE = 0, DOF_RELOCATION_SETX = 1 };

struct dof_relocation {
	uint32_t name, type;
	uint64_t offset; /* in the target, of the 64-bit address to which the base is added */
	uint64_t data;
};

static_assert(sizeof(struct dof_header) == 64, "");
static_assert(offsetof(struct dof_header, version) == 6, "");
static_assert(offsetof(struct dof_header, flags) == 16, "");
static_assert(offsetof(struct dof_header, section_count) == 28, "");
static_assert(offsetof(struct dof_header, sections_at) == 32, "");
static_assert(offsetof(struct dof_header, load_bytes) == 40, "helper.c and libfathom-probe read it there");
static_assert(sizeof(struct dof_section) == 32, "");
static_assert(offsetof(struct dof_section, offset) == 16, "");
static_assert(sizeof(struct dof_provider_record) == 44, "");
static_assert(offsetof(struct dof_provider_record, enabled_sites) == 40, "");
static_assert(sizeof(struct dof_probe_record) == 48, "");
static_assert(offsetof(struct dof_probe_record, native_count) == 32, "");
static_assert(offsetof(struct dof_probe_record, enabled_index) == 36, "");
static_assert(sizeof(struct dof_relocation_header) == 12, "");
static_assert(sizeof(struct dof_relocation) == 24, "");
static_assert(offsetof(struct dof_relocation, offset) == 8, "");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "objects are read as they lie");

#endif
