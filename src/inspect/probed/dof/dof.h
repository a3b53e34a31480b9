/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dof - what DTrace-style probes a program's object has, in words of our own, and the ways from and to bytes.
 *
 *   DOF, versions 1 to 3, both data models   docs/formats/dof.md    dof_parse(), dof_encode()
 *   .note.usdt and its .rodata               docs/formats/dof.md    dof_parse()
 *   .note.stapsdt                            docs/formats/dof.md    dof_parse()
 *
 * Thinking code: bytes in, a set out, no system call but memory. The bytes are a stranger's: every offset, size, count
 * and index is checked in 64 bits before it is used, and what does not fit refuses the object whole. The daemon does
 * this in a jailed child (inspect/probed/jail/jail.h). Any thread; nothing is kept between calls.
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
 * With the NUL, as DTrace has them; all names are fit to be file names and fit for probe descriptions (dof_name_ok()).
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

/* A place in the code. */
struct dof_site {
	uint64_t address; /* in the process: relocated */
	bool is_enabled;  /* asks whether anybody listens, instead of firing */
	const char *args; /* where its arguments are, in the words of SDT notes: "-4@%edi 8@%rsi"; "": as a call has them */
};

/* One of a module and function: the same name in two functions is two probes. */
struct dof_probe {
	const char *module, *function, *name; /* function "-": SDT notes do not say */
	uint32_t native_count;		      /* arguments as they are passed */
	uint32_t translated_count;	      /* arguments as scripts see them; at most DOF_ARGS_MAX each */
	const char *const *native;	      /* C types */
	const char *const *translated;	      /* C types */
	const uint8_t *map;		      /* translated_count: which native one each is made of */
	uint32_t site_count;		      /* at least 1; by address, what fires first; those of one kind differ */
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
	const struct dof_probe *probes; /* by module, function and name; no two alike */
};

/* All of it lies in one piece of memory. Order is strcmp()'s: that of an object is its producer's hash table's. */
struct dof_set {
	uint32_t provider_count;
	const struct dof_provider *providers; /* by name; no two alike */
	void *memory;
};

void dof_set_free(struct dof_set *set);

/* Equal in everything a consumer can see: names, types, maps, sites; the order of providers, probes and sites aside. */
bool dof_set_equal(const struct dof_set *a, const struct dof_set *b);
bool dof_probe_equal(const struct dof_probe *a, const struct dof_probe *b);

/* ---- reading ---- */

enum dof_kind { DOF_KIND_DOF, DOF_KIND_USDT, DOF_KIND_SDT };

/* What programs hand to DTrace's helper device (dof_helper_t), byte for byte; 32 and 64 bits alike. */
struct dof_helper {
	char module[DOF_MODULE_BYTES]; /* NUL-terminated, if its sender was right */
	uint64_t base;		       /* what to add to addresses; 0 for a program that is not relocated */
	uint64_t dof;		       /* where its DOF lies in the process; 0: it has notes */
};

struct dof_block {
	uint64_t base; /* the address that its first byte has in the ELF file (notes); 0 for DOF */
	const void *data;
	size_t bytes;
};

struct dof_input {
	enum dof_kind kind;
	struct dof_helper helper;
	/* DOF: the object.  USDT: .note.usdt, .rodata.  SDT: .note.stapsdt */
	struct dof_block blocks[DOF_BLOCKS_MAX];
	uint64_t note_base; /* SDT: where section .stapsdt.base lies; 0: there is none */
	bool bits_32;	    /* notes of a 32-bit file */
};

/* 0: the default. */
struct dof_limits {
	size_t bytes_max;    /* of all blocks */
	uint32_t probes_max; /* of all providers; sites and arguments may be 16 a probe, on average */
};

/*
 * Read `input` into `*set_ret`, to be given to dof_set_free(). `limits`: NULL: the defaults. Errors (explained, with
 * the offset at which it is wrong): -EINVAL: not what it should be; -E2BIG: over a limit; -ENOTSUP: a version or an
 * encoding that nobody here reads; -EEXIST: the same probe twice; -ENOMEM.
 */
MUST_CHECK int dof_parse(const struct dof_input *input, const struct dof_limits *limits, struct dof_set *set_ret,
			 struct fault *why);

/* What the header of a DOF object says of it. */
struct dof_outline {
	uint8_t version;
	bool bits_32;
	uint32_t section_count;
	uint64_t load_bytes, file_bytes;
};

/* False: it is not there. Nothing of it is checked. */
bool dof_outline(const void *data, size_t bytes, struct dof_outline *outline_ret);

/*
 * Whether `name` can be a file's name and a part of a probe description: not empty, shorter than `bytes_max`, UTF-8, not
 * `.` or `..`, and without `/`, `:`, control and glob characters.
 */
bool dof_name_ok(const char *name, size_t bytes_max);

/* ---- writing ---- */

struct dof_encoding {
	uint8_t version; /* 1 to 3; is-enabled sites take 3 */
	bool bits_32;
	/* Leave addresses for whoever maps the object: they are relative to helper.base when it is read. */
	bool relocate;
};

/*
 * Write `set` as DOF; `*data_ret` is the caller's, for free(). Module names and args of sites have no place in DOF.
 * Errors (explained): -EINVAL: a set that the version cannot say; -ENOMEM. */
MUST_CHECK int dof_encode(const struct dof_set *set, const struct dof_encoding *encoding, void **data_ret,
			  size_t *bytes_ret, struct fault *why);

/* ---- between processes ---- */

/*
 * A set, as dof_parse() makes them, as one piece of bytes without pointers, and back. dof_unpack() believes nothing: what
 * dof_parse() could not have made is refused (-EPROTO, explained). `*data_ret` is the caller's, for free(); `data` is
 * borrowed, and aligned to 8. -ENOMEM, -E2BIG (more than a GiB).
 */
MUST_CHECK int dof_pack(const struct dof_set *set, void **data_ret, size_t *bytes_ret);
MUST_CHECK int dof_unpack(const void *data, size_t bytes, struct dof_set *set_ret, struct fault *why);

/* Memory that is there already, aligned to 16. */
struct dof_room {
	void *start;
	size_t bytes;
};

/*
 * Both dof_parse() and dof_pack(), for a process that may not even ask for memory: all is done in `room`, which is used
 * from its start on, and the answer goes to `packed`, aligned to 8. Errors (explained): as dof_parse(); -ENOMEM: `room`
 * is too small, -E2BIG: the answer is over `packed_max`.
 */
MUST_CHECK int dof_parse_packed(const struct dof_input *input, const struct dof_limits *limits, const struct dof_room *room,
				void *packed, size_t packed_max, size_t *bytes_ret, struct fault *why);

#endif
