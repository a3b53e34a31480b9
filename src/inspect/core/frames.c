/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * frames - backtraces, by libdwfl.
 *
 * libdwfl gets the programs and libraries whose build-ids are those in the core, the registers of one thread, and single
 * words of memory. It never reads the core itself. Without any file the frame pointers are followed.
 */
#include <dwarf.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect/core/frames.h"
#include "inspect/core/internal.h"

enum { X86_RBP = 6, X86_RSP = 7, X86_RIP = 16, ARM_FP = 29, ARM_SP = 31, ARM_PC = 32 };

uint32_t core_sp_number(const struct core *core)
{
	return core->machine == EM_AARCH64 ? ARM_SP : X86_RSP;
}

uint32_t core_pc_number(const struct core *core)
{
	return core->machine == EM_AARCH64 ? ARM_PC : X86_RIP;
}

/* ---- libdwfl's questions ---- */

static pid_t next_thread(Dwfl *dwfl, void *ctx, void **thread_ret)
{
	const struct core *core = ctx;

	if (*thread_ret)
		return 0;
	*thread_ret = ctx;
	return core->unwound->tid;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *ctx, void **thread_ret)
{
	*thread_ret = ctx;
	return true;
}

static bool read_word(Dwfl *dwfl, Dwarf_Addr address, Dwarf_Word *word_ret, void *ctx)
{
	return core_read(ctx, address, word_ret, sizeof(*word_ret));
}

static bool set_registers(Dwfl_Thread *thread, void *ctx)
{
	const struct core *core = ctx;
	Dwarf_Word registers[CORE_REGISTERS_MAX];

	for (uint32_t i = 0; i < CORE_REGISTERS_MAX; i++)
		registers[i] = core->unwound->registers[i];
	dwfl_thread_state_register_pc(thread, core->unwound->pc);
	return dwfl_thread_state_registers(thread, 0, core->machine == EM_AARCH64 ? ARM_PC : X86_RIP + 1, registers);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = next_thread,
	.get_thread = get_thread,
	.memory_read = read_word,
	.set_initial_registers = set_registers,
};

bool core_open_dwfl(struct core *core)
{
	uint32_t reported = 0;

	if (core->dwfl)
		return core->can_unwind;
	/* the empty path: beside the file */
	must(asprintf(&core->debug_folders, ":.debug:/usr/lib/debug") > 0);
	core->callbacks = (Dwfl_Callbacks){ .find_elf = dwfl_build_id_find_elf,
					    .find_debuginfo = dwfl_standard_find_debuginfo,
					    .section_address = dwfl_offline_section_address,
					    .debuginfo_path = &core->debug_folders };
	core->dwfl = dwfl_begin(&core->callbacks);
	must(core->dwfl);
	dwfl_report_begin(core->dwfl);
	for (uint32_t i = 0; i < core->module_count; i++) {
		struct core_module *module = &core->modules[i];

		if (!core_module_load(core, module))
			continue;
		module->dwfl = dwfl_report_elf(core->dwfl, core_module_name(module), module->file, -1, module->bias, true);
		if (module->dwfl)
			reported++;
		else
			core_add_remark(core, "%s: %s", module->file, dwfl_errmsg(-1));
	}
	(void)dwfl_report_end(core->dwfl, NULL, NULL);
	if (core->program && core->program->dwfl) {
		Dwarf_Addr bias;

		core->info.debug_information = dwfl_module_getdwarf(core->program->dwfl, &bias) != NULL;
	}
	core->can_unwind = reported && dwfl_attach_state(core->dwfl, NULL, core->info.pid ? core->info.pid : 1,
							 &thread_callbacks, core);
	return core->can_unwind;
}

void core_load(struct core *core)
{
	(void)core_open_dwfl(core); /* without any file, remarks say so */
}

Dwarf *core_program_dwarf(struct core *core, uint64_t *bias_ret)
{
	Dwarf_Addr bias = 0;
	Dwarf *dwarf;

	(void)core_open_dwfl(core);
	if (!core->program || !core->program->dwfl)
		return NULL;
	dwarf = dwfl_module_getdwarf(core->program->dwfl, &bias);
	*bias_ret = bias;
	return dwarf;
}

/* ---- one frame ---- */

static const char *source_of(struct core *core, const char *path)
{
	if (!path)
		return NULL;
	for (const char *up = strstr(path, "/../"); up; up = strstr(path, "/../"))
		path = up + 4; /* "/tmp/build/../src/a.c" is "src/a.c" */
	while (strncmp(path, "../", 3) == 0)
		path += 3;
	return core_keep_text(core, path, CORE_PATH_BYTES);
}

static struct core_frame *add_frame(struct frame_walk *walk, const char *function)
{
	struct core_frame *frame = &walk->frames[walk->count++];

	*frame = (struct core_frame){ .function = function };
	return frame;
}

/* The file and line of the call of an inlined function. */
static void read_call_site(Dwarf_Die *unit, Dwarf_Die *inlined, const char **file_ret, int *line_ret)
{
	Dwarf_Attribute attribute;
	Dwarf_Word file = 0, line = 0;
	Dwarf_Files *files;
	size_t count;

	*file_ret = NULL;
	if (dwarf_attr(inlined, DW_AT_call_line, &attribute))
		(void)dwarf_formudata(&attribute, &line);
	*line_ret = (int)min_u64(line, INT32_MAX);
	if (dwarf_attr(inlined, DW_AT_call_file, &attribute) && dwarf_formudata(&attribute, &file) == 0 &&
	    dwarf_getsrcfiles(unit, &files, &count) == 0 && file < count)
		*file_ret = dwarf_filesrc(files, file, NULL, NULL);
}

static const char *scope_name(struct core *core, Dwarf_Die *scope)
{
	Dwarf_Attribute attribute;
	const char *name = dwarf_attr_integrate(scope, DW_AT_name, &attribute) ? dwarf_formstring(&attribute) : NULL;

	return name ? core_keep_text(core, name, CORE_WORDS_BYTES) : NULL;
}

uint32_t core_find_scopes(Dwarf_Die *die, uint64_t pc, Dwarf_Die scopes[CORE_SCOPES_MAX])
{
	uint32_t count = 0;
	Dwarf_Die at, child;
	bool more = dwarf_child(die, &at) == 0;

	while (more && count < CORE_SCOPES_MAX) {
		int tag = dwarf_tag(&at);
		bool is_function = tag == DW_TAG_subprogram || tag == DW_TAG_inlined_subroutine;

		if ((is_function || tag == DW_TAG_lexical_block) && dwarf_haspc(&at, pc) > 0) {
			scopes[count++] = at;
			more = dwarf_child(&at, &child) == 0;
			at = child;
			continue;
		}
		more = dwarf_siblingof(&at, &child) == 0 && child.addr > at.addr;
		at = child;
	}
	return count;
}

/* Add the functions that were inlined at `pc`, then the function itself. False: there is no debug information of it. */
static bool add_by_scopes(struct frame_walk *walk, struct core_module *module, uint64_t pc)
{
	struct core *core = walk->core;
	Dwarf_Addr bias = 0;
	Dwarf_Die *unit = dwfl_module_addrdie(module->dwfl, pc, &bias), scopes[CORE_SCOPES_MAX];
	Dwfl_Line *source = unit ? dwfl_module_getsrc(module->dwfl, pc) : NULL;
	int line = 0;
	uint32_t count = unit ? core_find_scopes(unit, pc - bias, scopes) : 0;
	const char *file = source ? dwfl_lineinfo(source, NULL, &line, NULL, NULL, NULL) : NULL;
	bool complete = false;

	for (; count > 0 && walk->count < CORE_FRAMES_MAX; count--) {
		struct core_frame *frame;

		if (dwarf_tag(&scopes[count - 1]) == DW_TAG_lexical_block)
			continue;
		frame = add_frame(walk, scope_name(core, &scopes[count - 1]));
		complete = dwarf_tag(&scopes[count - 1]) == DW_TAG_subprogram;
		frame->file = source_of(core, file);
		frame->line = line;
		if (!complete)
			read_call_site(unit, &scopes[count - 1], &file, &line);
	}
	return complete;
}

/* `pc`: within the instruction; `shown`: what to show. */
static void add_at(struct frame_walk *walk, uint64_t pc, uint64_t shown)
{
	struct core *core = walk->core;
	struct core_module *module = core_module_of(core, pc);
	struct core_frame *frame;
	GElf_Off offset = 0;
	GElf_Sym symbol;
	const char *name = NULL;

	if (module && module->dwfl)
		name = dwfl_module_addrinfo(module->dwfl, pc, &offset, &symbol, NULL, NULL, NULL);
	if (!module || !module->dwfl || !add_by_scopes(walk, module, pc)) {
		if (walk->count == CORE_FRAMES_MAX)
			return;
		(void)add_frame(walk, name ? core_keep_text(core, name, CORE_WORDS_BYTES) : NULL);
	}
	frame = &walk->frames[walk->count - 1];
	frame->pc = shown;
	frame->module = module ? core_module_name(module) : NULL;
	frame->offset = name ? offset + (shown - pc) : module ? shown - module->bias : 0;
}

static int on_frame(Dwfl_Frame *state, void *ctx)
{
	struct frame_walk *walk = ctx;
	bool is_activation = false;
	uint32_t first = walk->count;
	Dwarf_Addr pc;

	if (walk->count == CORE_FRAMES_MAX || !dwfl_frame_pc(state, &pc, &is_activation)) {
		walk->cut = walk->count == CORE_FRAMES_MAX;
		return DWARF_CB_ABORT;
	}
	if (pc == 0 && walk->count)
		return DWARF_CB_ABORT;
	add_at(walk, is_activation || pc == 0 ? pc : pc - 1, pc);
	if (walk->on_frame)
		walk->on_frame(walk, state, is_activation ? pc : pc - 1, first);
	return DWARF_CB_OK;
}

/* Without libdwfl: the chain of frame pointers. */
static void follow_frame_pointers(struct frame_walk *walk, const struct core_thread *thread)
{
	struct core *core = walk->core;
	uint64_t at = thread->registers[core->machine == EM_AARCH64 ? ARM_FP : X86_RBP], link[2];

	add_at(walk, thread->pc, thread->pc);
	while (walk->count < CORE_FRAMES_MAX && core_read(core, at, link, sizeof(link)) && link[1]) {
		add_at(walk, link[1] - 1, link[1]);
		if (link[0] <= at)
			return;
		at = link[0];
	}
}

void core_walk_frames(struct frame_walk *walk, const struct core_thread *thread)
{
	struct core *core = walk->core;

	walk->count = 0;
	walk->cut = false;
	core->unwound = thread;
	if (core_open_dwfl(core))
		(void)dwfl_getthread_frames(core->dwfl, thread->tid, on_frame, walk);
	if (walk->count == 0)
		follow_frame_pointers(walk, thread);
}

/* Functions in which a thread begins. */
static bool is_first_function(const char *name)
{
	return name && (strcmp(name, "_start") == 0 || strcmp(name, "clone3") == 0 || strcmp(name, "clone") == 0 ||
			strcmp(name, "__clone") == 0 || strcmp(name, "__clone3") == 0);
}

uint32_t core_backtrace(struct core *core, const struct core_thread *thread, struct core_frame *frames,
			const char **end_ret)
{
	struct frame_walk walk = { .core = core, .frames = frames };
	const struct core_frame *last;
	uint64_t word;

	if (thread->is_io_worker) {
		*end_ret = "a worker of io_uring: it has no stack of its own";
		return 0;
	}
	core_walk_frames(&walk, thread);
	last = walk.count ? &walk.frames[walk.count - 1] : NULL;
	*end_ret = NULL;
	if (walk.cut)
		*end_ret = "further frames are left out";
	else if (!core_read(core, thread->sp, &word, sizeof(word)))
		*end_ret = "the thread's stack is not in the core";
	else if (last && !last->module)
		*end_ret = "the address is in no file";
	else if (last && !is_first_function(last->function))
		*end_ret = "the rest of the stack cannot be read";
	return walk.count;
}
