/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dof - the set of DTrace-style probes of a program's object: its structures, and their decoding and encoding.
 *
 *   DOF, versions 1 to 3, both data models   docs/formats/dof.md    dof_parse(), dof_encode()
 *   .note.usdt and its .rodata               docs/formats/dof.md    dof_parse()
 *   .note.stapsdt                            docs/formats/dof.md    dof_parse()
 *
 * Pure code: it makes a set from bytes, without system calls except to allocate. The bytes are untrusted: every offset,
 * size, count and index is checked in 64 bits before use, and one violation rejects the whole object. The daemon parses in
 * a jailed child (inspect/probed/jail/jail.h). Any thread; no state between calls.
 *
 *   set 1 -- n provider 1 -- n probe 1 -- n site
 */
#ifndef PROBED_DOF_DOF_H
#define PROBED_DOF_DOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"

/*
 * With the NUL, as in DTrace. Every name is valid as a file name and in a probe description (dof_name_ok()).
 */
enum {
	DOF_PROVIDER_BYTES = 64,
	DOF_MODULE_BYTES = 64,
	DOF_FUNCTION_BYTES = 128,
	DOF_NAME_BYTES = 64,
	DOF_TYPE_BYTES = 128,
	DOF_SITE_ARGS_BYTES = 1024
};
enum { DOF_ARGS_MAX = 255, DOF_ATTRIBUTES = 5, DOF_BLOCKS_MAX = 2 };
/* Defaults of dof_limits. */
enum { DOF_BYTES_MAX = 256 << 20, DOF_PROBES_MAX = 1 << 20 };

/* A probe site: a place in the code. */
struct dof_site {
	uint64_t address; /* in the process: relocated */
	bool is_enabled;  /* an is-enabled test instead of a probe that fires */
	const char *args; /* argument locations in SDT notation: "-4@%edi 8@%rsi"; "": the calling convention's */
};

/* A probe of one module and function: the same name in two functions is two probes. */
struct dof_probe {
	const char *module, *function, *name; /* function "-": unknown (SDT notes) */
	uint32_t native_count;		      /* arguments as passed */
	uint32_t translated_count;	      /* arguments as scripts see them; both counts at most DOF_ARGS_MAX */
	const char *const *native;	      /* C types */
	const char *const *translated;	      /* C types */
	const uint8_t *map;		      /* translated_count: the native argument of each */
	uint32_t site_count;		      /* at least 1; ordered by address, firing sites first; no duplicates */
	const struct dof_site *sites;
};

/*
 * Attributes of provider, module, function, name and arguments: name << 24 | data << 16 | class << 8, as DTrace
 * numbers them.
 */
struct dof_provider {
	const char *name;
	uint32_t attributes[DOF_ATTRIBUTES];
	uint32_t probe_count;
	const struct dof_probe *probes; /* ordered by module, function and name; no duplicates */
};

/* One allocation holds the whole set. Ordered by strcmp(), because the order in an object depends on a hash table. */
struct dof_set {
	uint32_t provider_count;
	const struct dof_provider *providers; /* ordered by name; no duplicates */
	void *memory; /* the allocation; NULL: the set is empty, or lives in a room and owns nothing */
};

void dof_set_free(struct dof_set *set);

/* Equal for a consumer: same names, types, maps and sites, in any order of providers, probes and sites. */
bool dof_set_equal(const struct dof_set *a, const struct dof_set *b);
bool dof_probe_equal(const struct dof_probe *a, const struct dof_probe *b);

/* ---- reading ---- */

enum dof_kind { DOF_KIND_DOF, DOF_KIND_USDT, DOF_KIND_SDT };

/* The dof_helper_t that programs pass to DTrace's helper device, byte for byte; the same for 32 and 64 bits. */
struct dof_helper {
	char module[DOF_MODULE_BYTES]; /* untrusted: may lack the NUL */
	uint64_t base;		       /* added to addresses; 0 for a program that is not relocated */
	uint64_t dof;		       /* address of the DOF in the process; 0: the file has notes */
};

struct dof_block {
	uint64_t base; /* address of its first byte in the ELF file (notes); 0 for DOF */
	const void *data;
	size_t bytes;
};

struct dof_input {
	enum dof_kind kind;
	struct dof_helper helper;
	/* DOF: the object.  USDT: .note.usdt, .rodata.  SDT: .note.stapsdt */
	struct dof_block blocks[DOF_BLOCKS_MAX];
	uint64_t note_base; /* SDT: address of section .stapsdt.base; 0: none */
	bool bits_32;	    /* notes of a 32-bit file */
};

/* 0: the default. */
struct dof_limits {
	size_t bytes_max;    /* of all blocks */
	uint32_t probes_max; /* of all providers; also limits sites and arguments, to 16 per probe on average */
};

/*
 * Parse `input` into `*set_ret`; free it with dof_set_free(). `limits`: NULL: the defaults. Errors (explained, with the
 * offset of the error): -EINVAL: invalid; -E2BIG: over a limit; -ENOTSUP: an unsupported version or encoding; -EEXIST: a
 * duplicate probe; -ENOMEM.
 */
MUST_CHECK int dof_parse(const struct dof_input *input, const struct dof_limits *limits, struct dof_set *set_ret,
			 struct fathom_fault *why);

/* The contents of a DOF object's header. */
struct dof_outline {
	uint8_t version;
	bool bits_32;
	uint32_t section_count;
	uint64_t load_bytes, file_bytes;
};

/* False: no complete DOF header. The values are not checked. */
bool dof_outline(const void *data, size_t bytes, struct dof_outline *outline_ret);

/*
 * Whether `name` is valid as a file name and in a probe description: not empty, shorter than `bytes_max`, UTF-8, not `.` or
 * `..`, and without `/`, `:`, control and glob characters.
 */
bool dof_name_ok(const char *name, size_t bytes_max);

/* ---- writing ---- */

struct dof_encoding {
	uint8_t version; /* 1 to 3; is-enabled sites need 3 */
	bool bits_32;
	/* Write addresses relative to helper.base, with relocations; the parser adds the base. */
	bool relocate;
};

/*
 * Encode `set` as DOF; the caller frees `*data_ret` with free(). DOF cannot hold module names and `args` of sites.
 * Errors (explained): -EINVAL: the version cannot express the set; -ENOMEM.
 */
MUST_CHECK int dof_encode(const struct dof_set *set, const struct dof_encoding *encoding, void **data_ret,
			  size_t *bytes_ret, struct fathom_fault *why);

/* ---- between processes ---- */

/*
 * Serialize a set of dof_parse() without pointers, and back. dof_unpack() trusts nothing: it rejects every set that
 * dof_parse() could not have produced (-EPROTO, explained). The caller frees `*data_ret` with free(); `data` is borrowed,
 * and aligned to 8. -ENOMEM, -E2BIG (more than a GiB).
 */
MUST_CHECK int dof_pack(const struct dof_set *set, void **data_ret, size_t *bytes_ret);
MUST_CHECK int dof_unpack(const void *data, size_t bytes, struct dof_set *set_ret, struct fathom_fault *why);

/* Preallocated memory, aligned to 16. */
struct dof_room {
	void *start;
	size_t bytes;
};

/* Memory for a packed set. */
struct dof_packed {
	void *data; /* aligned to 8 */
	size_t bytes_max;
	size_t bytes; /* result */
};

/*
 * dof_parse() and dof_pack() together, for a process that cannot allocate memory. All working memory comes from `room`,
 * from its start on; the result goes to `packed`. Errors (explained): as dof_parse(); -ENOMEM: `room` is too small, -E2BIG:
 * the result exceeds packed->bytes_max.
 */
MUST_CHECK int dof_parse_packed(const struct dof_input *input, const struct dof_limits *limits, const struct dof_room *room,
				struct dof_packed *packed, struct fathom_fault *why);

#endif
