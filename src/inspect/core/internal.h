/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - what the files of inspect/core share. */
#ifndef INSPECT_CORE_INTERNAL_H
#define INSPECT_CORE_INTERNAL_H

#include <elfutils/libdwfl.h>

#include "base/bits.h"
#include "inspect/core/core.h"

enum {
	CORE_REMARKS_MAX = 16,
	CORE_SEGMENTS_MAX = 65536,
	CORE_THREADS_MAX = 4096,
	CORE_FILE_ROWS_MAX = 65536,
	CORE_MODULES_MAX = 1024,
	CORE_PATH_BYTES = 4096,
	CORE_PAGE_BYTES = 4096,
	CORE_LINE_BYTES = 64, /* of the processor's cache */
};

/* A PT_LOAD. */
struct core_segment {
	uint64_t from, to;
	uint64_t offset, saved; /* in the core; saved is within the file */
	uint32_t flags;		/* PF_... */
};

/* A row of NT_FILE. */
struct core_file_row {
	uint64_t from, to, offset;
	const char *path; /* printable */
};

/* A mapped ELF file: the program or a library. */
struct core_module {
	uint64_t from, to; /* all of its mappings */
	uint64_t bias;	   /* to add to addresses in the file */
	const char *path;  /* in the core */
	uint8_t build_id[CORE_BUILD_ID_BYTES];
	uint32_t build_id_bytes;
	bool has_header;    /* its ELF header is in the core */
	bool tried;	    /* `file` was searched */
	const char *file;   /* of this machine, with the same build-id; NULL: none */
	const char *why;    /* why there is none; NULL: there is one, or it was not searched */
	const uint8_t *map; /* of `file`; NULL: none */
	uint64_t map_bytes;
	Dwfl_Module *dwfl; /* NULL: libdwfl does not know it */
};

struct core_arena_chunk;
struct core_layout;

struct core {
	struct core_info info;
	const uint8_t *map;
	uint64_t bytes;
	int unpacked_fd; /* the core, if its file is compressed; -1: it is not */
	uint16_t machine;
	struct core_segment *segments; /* by address, without overlaps */
	uint32_t segment_count;
	uint32_t *latest_segment;    /* that was looked up: most lookups are for the same one */
	struct core_file_row *files; /* by address */
	uint32_t file_count;
	struct core_thread *threads;
	uint32_t thread_count, thread_room;
	uint64_t at_phdr, at_execfn; /* of the auxiliary vector; 0: not known */
	bool has_signal;
	int signal, code;
	uint64_t signal_address; /* si_addr; or the pid and uid of a sender */
	uint32_t signal_call;	 /* of SIGSYS: the number of the system call */
	char name[32], command[96];
	struct core_module *modules; /* by address */
	uint32_t module_count;
	struct core_module *program; /* NULL: not known */
	char *program_file;	     /* that the caller named; NULL: none */
	bool has_unverified;	     /* a module has no build-id in the core */
	char *remarks[CORE_REMARKS_MAX];
	struct core_arena_chunk *arena;
	char *debug_folders;
	Dwfl_Callbacks callbacks;
	Dwfl *dwfl;			   /* NULL: not open yet */
	bool can_unwind;		   /* libdwfl knows a file of the core */
	const struct core_thread *unwound; /* the thread that libdwfl unwinds now */
	struct reader *trace;
	struct core_layout *layout; /* NULL: not read yet */
};

/* ---- image.c ---- */

/* Memory that lives as long as the core: zeroes, aligned to 8 bytes. */
void *core_keep(struct core *core, size_t bytes);
/* A printable copy of at most `bytes` bytes, or to the NUL. */
const char *core_keep_text(struct core *core, const char *text, size_t bytes);
void core_add_remark(struct core *core, const char *format, ...) PRINTF_LIKE(2, 3);

/* The segment with `address`; NULL: none. */
const struct core_segment *core_segment_of(const struct core *core, uint64_t address);
/* Memory in the core itself, not copied; NULL: a part of it is not in one segment of it. */
const void *core_saved(const struct core *core, uint64_t address, size_t bytes);
/* The same, also from the files of modules. */
const void *core_at(const struct core *core, uint64_t address, size_t bytes);
/* core_at(), or a copy that lives as long as the core. */
const void *core_object(struct core *core, uint64_t address, size_t bytes);

/* ---- notes.c ---- */

/* Read the notes in `bytes` bytes at `notes`. They may be truncated. */
void core_read_notes(struct core *core, const uint8_t *notes, uint64_t bytes);

/* ---- modules.c ---- */

/* Find the program and the libraries in the core. */
void core_find_modules(struct core *core);
/* The module with `address`; NULL: none. */
struct core_module *core_module_of(const struct core *core, uint64_t address);
/* Find its file. False: none. */
bool core_module_load(struct core *core, struct core_module *module);
/* The last part of its path. */
const char *core_module_name(const struct core_module *module);

/* ---- frames.c ---- */

/* Open libdwfl with all modules. False: not possible. */
bool core_open_dwfl(struct core *core);
/* The program's debug information; NULL: none. `bias_ret`: to add to addresses in it. */
Dwarf *core_program_dwarf(struct core *core, uint64_t *bias_ret);
/* The register by DWARF number of the stack pointer and of the instruction pointer. */
uint32_t core_sp_number(const struct core *core);
uint32_t core_pc_number(const struct core *core);

/* ---- trace.c ---- */

/* Find the trace in the core's memory, and what it says about the process. */
void core_open_trace(struct core *core);

/* ---- layout.c ---- */

void core_close_layout(struct core *core);

/* ---- instruction.c ---- */

/* An access to memory by an instruction of x86-64. */
struct core_access {
	bool reads, writes, jumps; /* jumps: the address is executed next */
	uint32_t bytes;		   /* 0: not known */
	bool has_base;
	uint32_t base; /* DWARF number of the register that holds most of the address */
	int64_t distance;
	uint64_t address;
};

/*
 * Decode the instruction in `code`, of which `bytes` are known, for the thread's registers. False: it is not an access, or
 * is not known here. An instruction can access memory twice: then the result is the access at `fault`.
 */
bool core_decode_access(const uint8_t *code, size_t bytes, const uint64_t *registers, uint64_t fault,
			struct core_access *access_ret);
/* "rax" */
const char *core_register_name(const struct core *core, uint32_t number);

#endif
