/* SPDX-License-Identifier: BSD-2-Clause */
/* kernel - the names of the kernel's structures, from its BTF; linux/btf.h has the layout. */
#include <linux/btf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "inspect/types/types.h"

#define BTF_PATH "/sys/kernel/btf/vmlinux"

enum { BTF_BYTES_MAX = 64 << 20, PIECE_BYTES = 1 << 20 };

struct types_kernel {
	char *data;
	size_t bytes;
	const char *types, *types_end, *strings, *strings_end;
};

/* Length of the data behind a type of this kind. -1: unknown, which ends the walk. */
static long bytes_behind(uint32_t info)
{
	long count = BTF_INFO_VLEN(info);

	switch (BTF_INFO_KIND(info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return sizeof(uint32_t);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return count * (long)sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return count * (long)sizeof(struct btf_enum);
	case BTF_KIND_FUNC_PROTO:
		return count * (long)sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return count * (long)sizeof(struct btf_var_secinfo);
	case BTF_KIND_ENUM64:
		return count * (long)sizeof(struct btf_enum64);
	default:
		return BTF_INFO_KIND(info) <= BTF_KIND_TYPE_TAG ? 0 : -1;
	}
}

static bool find_parts(struct types_kernel *kernel)
{
	const struct btf_header *header = (const struct btf_header *)kernel->data;
	uint64_t types, strings;

	if (kernel->bytes < sizeof(*header) || header->magic != BTF_MAGIC)
		return false;
	types = (uint64_t)header->hdr_len + header->type_off;
	strings = (uint64_t)header->hdr_len + header->str_off;
	if (types + header->type_len > kernel->bytes || strings + header->str_len > kernel->bytes || header->str_len == 0 ||
	    kernel->data[strings + header->str_len - 1])
		return false;
	kernel->types = kernel->data + types;
	kernel->types_end = kernel->types + header->type_len;
	kernel->strings = kernel->data + strings;
	kernel->strings_end = kernel->strings + header->str_len;
	return true;
}

struct types_kernel *types_kernel_open(void)
{
	struct types_kernel *kernel = calloc(1, sizeof(*kernel));
	FILE *from = fopen(BTF_PATH, "re");
	size_t got = 1;

	must(kernel);
	while (from && got && kernel->bytes < BTF_BYTES_MAX) {
		kernel->data = realloc(kernel->data, kernel->bytes + PIECE_BYTES);
		must(kernel->data);
		got = fread(kernel->data + kernel->bytes, 1, PIECE_BYTES, from);
		kernel->bytes += got;
	}
	if (from)
		fclose(from);
	if (find_parts(kernel))
		return kernel;
	types_kernel_close(kernel);
	return NULL;
}

void types_kernel_close(struct types_kernel *kernel)
{
	if (kernel)
		free(kernel->data);
	free(kernel);
}

bool types_kernel_has(const struct types_kernel *kernel, const char *name)
{
	const char *at = kernel ? kernel->types : NULL;

	while (at && (size_t)(kernel->types_end - at) >= sizeof(struct btf_type)) {
		struct btf_type type;
		long behind;

		memcpy(&type, at, sizeof(type));
		behind = bytes_behind(type.info);
		if ((BTF_INFO_KIND(type.info) == BTF_KIND_STRUCT || BTF_INFO_KIND(type.info) == BTF_KIND_UNION) &&
		    type.name_off < (size_t)(kernel->strings_end - kernel->strings) &&
		    strcmp(kernel->strings + type.name_off, name) == 0)
			return true;
		at += sizeof(type);
		if (behind < 0 || behind > kernel->types_end - at)
			return false;
		at += behind;
	}
	return false;
}
