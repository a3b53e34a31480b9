/* SPDX-License-Identifier: BSD-2-Clause */
/* lists - makes the lists of objects, each at its first use. */
#include "inspect/core/lists.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inspect/core/internal.h"
#include "inspect/trace/trace_file.h"

static const struct core_list_kind *const kinds[] = {
	&core_reactors,	  &core_light_threads, &core_pollers,	  &core_io_devices,  &core_devices, &core_subsystems,
	&core_namespaces, &core_controllers,   &core_qpairs,	  &core_io,	     &core_volumes, &core_members,
	&core_instances,  &core_calls,	       &core_connections, &core_in_progress,
};
static_assert(ARRAY_COUNT(kinds) <= CORE_LISTS_MAX, "all have a place");

const char *core_list_name(uint32_t index)
{
	return index < ARRAY_COUNT(kinds) ? kinds[index]->name : NULL;
}

const char *core_list_about(uint32_t index)
{
	return index < ARRAY_COUNT(kinds) ? kinds[index]->about : NULL;
}

/* ---- cells ---- */

static union core_cell *add_cell(struct core_rows *rows)
{
	union core_cell *cell;

	if (rows->cell_count == rows->cell_room) {
		rows->cell_room = rows->cell_room ? 4 * rows->cell_room : 1024;
		rows->cells = realloc(rows->cells, rows->cell_room * sizeof(*rows->cells));
		must(rows->cells);
	}
	cell = &rows->cells[rows->cell_count++];
	if (++rows->column == rows->kind->column_count) {
		rows->column = 0;
		rows->row_count++;
	}
	return cell;
}

static enum core_cell_kind kind_of_next(const struct core_rows *rows)
{
	return rows->kind->columns[rows->column].kind;
}

void core_add_text(struct core_rows *rows, const char *text)
{
	must(kind_of_next(rows) == CORE_CELL_TEXT);
	add_cell(rows)->text = text;
}

void core_add_number(struct core_rows *rows, uint64_t number)
{
	must(kind_of_next(rows) != CORE_CELL_TEXT && kind_of_next(rows) != CORE_CELL_NS);
	add_cell(rows)->number = number;
}

void core_add_ticks(struct core_rows *rows, uint64_t ticks)
{
	must(kind_of_next(rows) == CORE_CELL_NS);
	add_cell(rows)->number = (uint64_t)((unsigned __int128)ticks * NS_PER_SEC / rows->layout->tick_rate);
}

void core_add_ns(struct core_rows *rows, uint64_t ns)
{
	must(kind_of_next(rows) == CORE_CELL_NS);
	add_cell(rows)->number = ns;
}

void core_add_age(struct core_rows *rows, uint64_t tick)
{
	core_add_ticks(rows, rows->layout->now > tick ? rows->layout->now - tick : 0);
}

const char *core_format(struct core_layout *layout, const char *format, ...)
{
	char text[CORE_WORDS_BYTES];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args); /* what does not fit is left out */
	va_end(args);
	return core_keep_text(layout->core, text, sizeof(text));
}

void core_check_walk(struct core_rows *rows, const struct core_walk *walk)
{
	if (walk->is_broken)
		rows->problem = "a list does not end, or a part of it is not in the core: the rest is missing";
}

/* ---- the program's layout ---- */

/* By a probe that only this program has. */
static uint8_t find_program_by_trace(const struct core *core)
{
	if (core->trace && reader_point_by_name(core->trace, "nvmf_ctrlr_create"))
		return CORE_ENGINE;
	return core->trace && reader_point_by_name(core->trace, "mgmt_join") ? CORE_SERVER : 0;
}

static bool has_name_of_ours(const char *name)
{
	return strcmp(name, "fathom-engine") == 0 || strcmp(name, "fathom-server") == 0;
}

/* By a function that only this program has. */
static uint8_t find_program(const struct core *core)
{
	int count = core->program && core->program->dwfl ? dwfl_module_getsymtab(core->program->dwfl) : 0;

	for (int i = 0; i < count; i++) {
		GElf_Sym symbol;
		GElf_Addr address;
		const char *name = dwfl_module_getsym_info(core->program->dwfl, i, &symbol, &address, NULL, NULL, NULL);

		if (name && strcmp(name, "nvmf_tgt") == 0)
			return CORE_ENGINE;
		if (name && strcmp(name, "server_open") == 0)
			return CORE_SERVER;
	}
	return find_program_by_trace(core);
}

/* The latest tick that is known: that of the trace, or of a reactor. */
static void find_now(struct core_layout *layout)
{
	struct core *core = layout->core;
	uint64_t rate = 0, reactors = 0, count = 0;
	const uint8_t *process;

	if (core->trace) {
		layout->tick_rate = reader_info(core->trace)->tick_rate;
		layout->now = reader_now(core->trace);
	} else if (layout->variables[CORE_VARIABLE_tick_rate] &&
		   core_read(core, layout->variables[CORE_VARIABLE_tick_rate], &rate, sizeof(rate))) {
		layout->tick_rate = rate;
	}
	if (!layout->tick_rate)
		layout->tick_rate = NS_PER_SEC;
	process = core_object_of(layout, layout->variables[CORE_VARIABLE_reactors], CORE_STRUCTURE_variable_reactors);
	if (process) {
		reactors = core_number(layout, process, CORE_FIELD_variable_reactors_reactors);
		count = core_number(layout, process, CORE_FIELD_variable_reactors_count) + 1;
	}
	for (uint64_t i = 0; reactors && i < min_u64(count, CORE_THREADS_MAX); i++) {
		const uint8_t *reactor = core_object_of(layout,
							reactors + i * layout->structure_bytes[CORE_STRUCTURE_reactor],
							CORE_STRUCTURE_reactor);

		if (reactor)
			layout->now = max_u64(layout->now, core_number(layout, reactor, CORE_FIELD_reactor_now));
	}
}

struct core_layout *core_layout_of(struct core *core)
{
	uint64_t bias = 0;
	Dwarf *dwarf;

	if (core->layout)
		return core->layout;
	core->layout = calloc(1, sizeof(*core->layout));
	must(core->layout);
	core->layout->core = core;
	dwarf = core_program_dwarf(core, &bias);
	core->layout->program = find_program(core);
	if (!dwarf && core->layout->program && core->info.program_file)
		core_add_remark(
			core,
			"%s has no debug information, and there is no debug file of it: objects are not shown, except "
			"what the trace shows",
			core->info.program_file);
	if (!dwarf && !core->layout->program && core->info.program_file && has_name_of_ours(core->name))
		core_add_remark(core, "%s has no symbols, and the core no trace: its objects are not shown",
				core->info.program_file);
	if (!dwarf || !core->layout->program)
		return core->layout;
	core->layout->has_debug_information = true;
	core_read_layout(core->layout, dwarf, bias);
	find_now(core->layout);
	return core->layout;
}

void core_close_layout(struct core *core)
{
	for (uint32_t i = 0; core->layout && i < ARRAY_COUNT(kinds); i++) {
		if (core->layout->lists[i])
			free(core->layout->lists[i]->cells);
		free(core->layout->lists[i]);
	}
	free(core->layout);
	core->layout = NULL;
}

/* Fill a list by the best source there is. Without one its problem is not a remark of its own: there is one for all. */
static void fill_list(struct core_layout *layout, struct core_rows *rows)
{
	struct core *core = layout->core;

	if (rows->kind->by_trace) {
		rows->kind->fill(rows);
		return;
	}
	if (!layout->has_debug_information) {
		if (core->trace && rows->kind->fill_by_trace)
			rows->kind->fill_by_trace(rows);
		else
			rows->problem = core->info.program_file
						? "not known: the program has no debug information, and there is no debug "
						  "file of it"
						: "not known: the program's file is missing";
		return;
	}
	rows->problem = core_layout_problem(layout, rows->kind->needs);
	if (!rows->problem)
		rows->kind->fill(rows);
	if (rows->problem)
		core_add_remark(core, "%s: %s", rows->kind->name, rows->problem);
}

bool core_list(struct core *core, uint32_t index, struct core_list *list_ret)
{
	struct core_layout *layout = core_layout_of(core);
	struct core_rows *rows;

	must(index < ARRAY_COUNT(kinds));
	if (kinds[index]->by_trace ? !core->trace : !(kinds[index]->program & layout->program))
		return false;
	rows = layout->lists[index];
	if (!rows) {
		rows = layout->lists[index] = calloc(1, sizeof(*rows));
		must(rows);
		rows->layout = layout;
		rows->kind = kinds[index];
		fill_list(layout, rows);
		must(rows->column == 0);
	}
	*list_ret = (struct core_list){ .name = rows->kind->name,
					.columns = rows->kind->columns,
					.column_count = rows->kind->column_count,
					.row_count = rows->row_count,
					.cells = rows->cells,
					.by_trace = rows->kind->by_trace || !layout->has_debug_information,
					.problem = rows->problem };
	return true;
}
