/* SPDX-License-Identifier: BSD-2-Clause */
/* object - a DOF object with checked header, sections and relocations; and the errors about it. */
#ifndef PROBED_DOF_OBJECT_H
#define PROBED_DOF_OBJECT_H

#include <string.h>

#include "inspect/probed/dof/format.h"
#include "inspect/probed/dof/internal.h"

struct dof_object {
	const struct dof_parsing *parsing;
	const char *bytes;
	uint64_t load_bytes;
	struct dof_header header;
	uint32_t provider_count;
	/* For each section PROBES: the index of its first probe in `addresses`. */
	uint32_t *first_address;
	uint64_t *addresses; /* of every probe, relocated */
};

/* Check everything except the providers. -ENOMEM is not explained. */
MUST_CHECK int dof_object_open(struct dof_object *object, const struct dof_parsing *parsing);

/* `index` is below header.section_count. */
static inline struct dof_section dof_object_section(const struct dof_object *object, uint32_t index)
{
	struct dof_section section;

	memcpy(&section, object->bytes + object->header.sections_at + (uint64_t)index * sizeof(section), sizeof(section));
	return section;
}

/* The name of a section type in DTrace's documents. */
const char *dof_section_name(uint32_t type);

/* "at 0x1f0, section 5 (RELTAB): ...". Returns `error`. */
MUST_CHECK int dof_object_refuse(const struct dof_object *object, int error, uint32_t section, uint64_t offset,
				 const char *format, ...) PRINTF_LIKE(5, 6);

/* Get the loaded section of that type with `index`, which the record at `offset` of `section` contains. */
MUST_CHECK int dof_object_find(const struct dof_object *object, uint32_t section, uint64_t offset, uint32_t index,
			       enum dof_section_type type, struct dof_section *section_ret);

#endif
