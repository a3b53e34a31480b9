/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * core - what an ELF core file says about the process that it was made of.
 *
 * core_open() reads the file alone: its segments, the registers of its threads, its signal, the files that were mapped.
 * All other functions use more if it exists: the program and its libraries (for names of functions, source lines, and
 * structures), and the trace, which is in the core's memory. A file of the machine is used only if its build-id is the
 * one in the core.
 *
 * The core is untrusted: every offset and every pointer in it is checked, lists and strings are bounded. elfutils reads
 * only programs and libraries, never the core itself.
 *
 * What cannot be read is left out and becomes a remark.
 *
 * Thread: one.
 */
#ifndef INSPECT_CORE_CORE_H
#define INSPECT_CORE_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fault.h"
#include "base/must.h"

enum {
	CORE_REGISTERS_MAX = 33, /* by their DWARF numbers */
	CORE_BUILD_ID_BYTES = 32,
	CORE_FRAMES_MAX = 64, /* of a backtrace, inlined functions included */
	CORE_WORDS_BYTES = 512,
};

struct core;
struct reader;

/* ---- the file ---- */

/*
 * `program`: the file of the program; NULL: the path in the core. Errors (explained): -ENOENT, -EACCES ...; -EBADMSG: not
 * a core file, or damaged beyond use; -EPROTONOSUPPORT: of another kind of machine. Close with core_close().
 */
MUST_CHECK int core_open(const char *path, const char *program, struct core **core_ret, struct fathom_fault *why);
void core_close(struct core *core); /* NULL is fine */
/* The process of the core at `path`, by its notes alone. 0: not known, or not a core. */
int32_t core_pid(const char *path);

/*
 * Find the files of the program and its libraries. Until then core_info() has none. The functions that need them call it
 * themselves.
 */
void core_load(struct core *core);

struct core_info {
	const char *path;
	uint64_t bytes;
	bool truncated;
	const char *command; /* with its arguments, as far as the kernel kept them; printable */
	const char *name;    /* of the process; printable */
	int32_t pid;
	uint32_t thread_count, mapping_count, module_count, remark_count;
	const char *program;			    /* its path in the core; "": not known */
	const char *program_file;		    /* the file that was used; NULL: none */
	const char *program_why;		    /* why there is none; NULL: there is one */
	bool debug_information;			    /* of the program: loaded, from it or from a debug file */
	char build_id[2 * CORE_BUILD_ID_BYTES + 1]; /* of the program, hexadecimal; "": not known */
	const struct reader *trace;		    /* NULL: none */
	const char *trace_why;			    /* why there is none; NULL: there is one */
};

const struct core_info *core_info(const struct core *core);
/* A sentence about what could not be read. `index` is below core_info()->remark_count. */
const char *core_remark_at(const struct core *core, uint32_t index);

/* The program, or a library. */
struct core_module_info {
	uint64_t from, to;
	const char *path;			    /* in the core; printable */
	char build_id[2 * CORE_BUILD_ID_BYTES + 1]; /* hexadecimal; "": not known */
	const char *file;     /* of this machine, with this build-id; NULL: none, or core_load() was not called */
	const char *file_why; /* why there is none; NULL: there is one, or core_load() was not called */
};

/* `index` is below core_info()->module_count. In the order of addresses. */
void core_module_at(const struct core *core, uint32_t index, struct core_module_info *module_ret);

/* ---- memory ---- */

/* A range of the process's memory. */
struct core_mapping {
	uint64_t from, to;
	uint64_t saved; /* bytes of it in the core, from its begin */
	bool is_readable, is_writable, is_executable;
	const char *path;     /* of the mapped file; NULL: none. Printable */
	uint64_t file_offset; /* of its begin */
};

/* `index` is below core_info()->mapping_count. In the order of addresses. */
void core_mapping_at(const struct core *core, uint32_t index, struct core_mapping *mapping_ret);
/* False: the address was not mapped. */
bool core_mapping_of(const struct core *core, uint64_t address, struct core_mapping *mapping_ret);

/* Copy memory. False: a part of it is neither in the core nor in a file with the right build-id. */
bool core_read(const struct core *core, uint64_t address, void *to, size_t bytes);
/* Copy a text of at most `bytes` - 1 bytes, with '?' for control characters. False: it cannot be read; then "". */
bool core_read_text(const struct core *core, uint64_t address, char *to, size_t bytes);

/* ---- threads ---- */

struct core_thread {
	int32_t tid;
	char name[32];	   /* from the trace; "": not known. Printable */
	int signal;	   /* that the thread received; 0: none */
	bool is_io_worker; /* of io_uring: it runs only in the kernel, so it has no stack in the core */
	uint64_t pc, sp;
	uint64_t registers[CORE_REGISTERS_MAX];
};

/* `index` is below core_info()->thread_count. The thread that received the signal is number 0. */
const struct core_thread *core_thread_at(const struct core *core, uint32_t index);

struct core_frame {
	uint64_t pc;	      /* 0: an inlined function, which is part of the next frame */
	const char *function; /* NULL: not known */
	uint64_t offset;      /* in the function, or in the module */
	const char *file;     /* NULL: not known */
	int line;
	const char *module; /* the file's name; NULL: none is mapped there */
};

/*
 * The backtrace, innermost first, into `frames`, of which there are CORE_FRAMES_MAX. Returns their number. Texts are valid
 * until the core is closed. `end_ret`: why it ends before the thread's first function; NULL: it does not.
 */
uint32_t core_backtrace(struct core *core, const struct core_thread *thread, struct core_frame *frames,
			const char **end_ret);

/* ---- the crash ---- */

enum core_crash_kind {
	CORE_NO_CRASH, /* the core was made of a running process */
	CORE_SIGNAL,
	CORE_MUST,    /* a must() failed */
	CORE_UNKNOWN, /* the core has no notes: they tell the signal */
};

struct core_crash {
	enum core_crash_kind kind;
	int signal, code;
	int32_t tid, sender; /* sender: the process that sent the signal; 0: the kernel raised it */
	bool has_address;
	uint64_t address, instruction;
	char signal_name[16];
	char words[CORE_WORDS_BYTES];	  /* a sentence */
	char mapping[CORE_WORDS_BYTES];	  /* where the address lies; "": has no address */
	char condition[CORE_WORDS_BYTES]; /* of a must(), and ... */
	char place[CORE_WORDS_BYTES];	  /* ... its file and line */
	char values[CORE_WORDS_BYTES];	  /* of the variables in it, as far as they are known: "a = 1, b = 2" */
	char message[CORE_WORDS_BYTES];	  /* of the C library that ended the process: "free(): invalid pointer"; "": none */
};

void core_crash(struct core *core, struct core_crash *crash_ret);

/* ---- the engine's and the server's objects ---- */

enum core_cell_kind {
	CORE_CELL_TEXT,
	CORE_CELL_NUMBER,
	CORE_CELL_ADDRESS,
	CORE_CELL_NS, /* a time */
	CORE_CELL_FLAG,
};

struct core_column {
	const char *title; /* of a table for people; NULL: only in JSON */
	const char *key;
	enum core_cell_kind kind;
};

/* The column's kind says which member is valid. */
union core_cell {
	const char *text; /* CORE_CELL_TEXT; NULL: none */
	uint64_t number;
};

/* A list of objects, in the program's order. */
struct core_list {
	const char *name; /* "reactors": the word of the command, the key in JSON */
	const struct core_column *columns;
	uint32_t column_count, row_count;
	const union core_cell *cells; /* row by row */
	bool by_trace;		      /* the rows come from the trace alone */
	const char *problem;	      /* why rows are missing; NULL: it is complete */
};

enum { CORE_LISTS_MAX = 24 };

/* The names of the lists, in the order in which to show them; NULL: no more. */
const char *core_list_name(uint32_t index);
/* What the list holds, for people. */
const char *core_list_about(uint32_t index);
/* False: the program has no such objects (it is neither an engine nor a server). Valid until the core is closed. */
bool core_list(struct core *core, uint32_t index, struct core_list *list_ret);

/* The trace in the core; NULL: none (core_info()->trace_why). Owned by the core. */
struct reader *core_trace(struct core *core);

#endif
