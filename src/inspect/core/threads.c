/* SPDX-License-Identifier: BSD-2-Clause */
/* threads - lists of reactors, light threads, pollers and the devices to which threads have channels. */
#include <inttypes.h>

#include "inspect/core/internal.h"
#include "inspect/core/lists.h"

/* ---- reactors ---- */

static const struct core_column reactor_columns[] = {
	{ NULL, "address", CORE_CELL_ADDRESS },
	{ "REACTOR", "reactor", CORE_CELL_TEXT },
	{ "CPU", "cpu", CORE_CELL_TEXT },
	{ "TID", "tid", CORE_CELL_NUMBER },
	{ "THREADS", "thread_count", CORE_CELL_NUMBER },
	{ "STATE", "state", CORE_CELL_TEXT },
	{ "RUNS", "running", CORE_CELL_TEXT },
	{ "OF", "running_thread", CORE_CELL_TEXT },
	{ "BUSY", "busy_ns", CORE_CELL_NS },
	{ "IDLE", "idle_ns", CORE_CELL_NS },
	{ "TURNS", "turns", CORE_CELL_NUMBER },
};

static const char *reactor_name(struct core_layout *layout, const uint8_t *reactor)
{
	if (core_number(layout, reactor, CORE_FIELD_reactor_control))
		return "control";
	return core_format(layout, "%" PRIu64, core_number(layout, reactor, CORE_FIELD_reactor_index));
}

static void add_reactor(struct core_rows *rows, const uint8_t *reactor, uint64_t address)
{
	struct core_layout *layout = rows->layout;
	bool is_control = core_number(layout, reactor, CORE_FIELD_reactor_control);
	uint64_t poller = core_number(layout, reactor, CORE_FIELD_reactor_running_poller);
	const uint8_t *running = core_object_of(layout, poller, CORE_STRUCTURE_poller);
	const uint8_t *thread = running ? core_object_of(layout, core_number(layout, running, CORE_FIELD_poller_thread),
							 CORE_STRUCTURE_fathom_thread)
					: NULL;
	bool is_asleep = core_number(layout, reactor, CORE_FIELD_reactor_sleeping);
	const char *name = is_asleep ? "" : core_interned_text(layout, reactor, CORE_FIELD_reactor_running);

	core_add_number(rows, address);
	core_add_text(rows, reactor_name(layout, reactor));
	core_add_text(rows,
		      is_control ? NULL
				 : core_format(layout, "%" PRIu64, core_number(layout, reactor, CORE_FIELD_reactor_cpu)));
	core_add_number(rows, core_number(layout, reactor, CORE_FIELD_reactor_tid));
	core_add_number(rows, core_number(layout, reactor, CORE_FIELD_reactor_thread_count));
	core_add_text(rows, is_asleep ? "asleep" : "running");
	core_add_text(rows, name[0] ? name : NULL);
	core_add_text(rows, thread && name[0] ? core_interned_text(layout, thread, CORE_FIELD_fathom_thread_interned_name)
					      : NULL);
	core_add_ticks(rows, core_number(layout, reactor, CORE_FIELD_reactor_busy_ticks));
	core_add_ticks(rows, core_number(layout, reactor, CORE_FIELD_reactor_idle_ticks));
	core_add_number(rows, core_number(layout, reactor, CORE_FIELD_reactor_turn_count));
}

static void fill_reactors(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *process = core_object_of(layout, layout->variables[CORE_VARIABLE_reactors],
						CORE_STRUCTURE_variable_reactors);
	uint64_t first = process ? core_number(layout, process, CORE_FIELD_variable_reactors_reactors) : 0;
	uint64_t count = process ? core_number(layout, process, CORE_FIELD_variable_reactors_count) + 1 : 0;

	for (uint64_t i = 0; first && i < min_u64(count, CORE_THREADS_MAX); i++) {
		uint64_t address = first + i * layout->structure_bytes[CORE_STRUCTURE_reactor];
		const uint8_t *reactor = core_object_of(layout, address, CORE_STRUCTURE_reactor);

		if (reactor)
			add_reactor(rows, reactor, address);
		else
			rows->problem = "a reactor is not in the core";
	}
}

const struct core_list_kind core_reactors = {
	.name = "reactors",
	.about = "reactors, and what each runs",
	.program = CORE_BOTH,
	CORE_COLUMNS(reactor_columns),
	CORE_NEEDS(CORE_STRUCTURE_variable_reactors, CORE_STRUCTURE_reactor, CORE_STRUCTURE_poller,
		   CORE_STRUCTURE_fathom_thread),
	.fill = fill_reactors,
};

/* ---- light threads ---- */

static const struct core_column thread_columns[] = {
	{ NULL, "address", CORE_CELL_ADDRESS },
	{ "THREAD", "name", CORE_CELL_TEXT },
	{ "ID", "id", CORE_CELL_NUMBER },
	{ "STATE", "state", CORE_CELL_TEXT },
	{ "REACTOR", "reactor", CORE_CELL_TEXT },
	{ "POLLERS", "poller_count", CORE_CELL_NUMBER },
	{ "CHANNELS", "channel_count", CORE_CELL_NUMBER },
};

static struct core_walk walk_threads(struct core_layout *layout)
{
	const uint8_t *registry = core_object_of(layout, layout->variables[CORE_VARIABLE_registry],
						 CORE_STRUCTURE_registry);

	return core_walk_begin(registry ? core_part_of(layout, registry, CORE_FIELD_registry_threads) : NULL,
			       CORE_STRUCTURE_fathom_thread, CORE_FIELD_fathom_thread_in_registry);
}

static void fill_light_threads(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	struct core_walk walk = walk_threads(layout);
	const uint8_t *thread, *reactor;
	uint64_t address;

	while ((thread = core_walk_next(layout, &walk, &address))) {
		const char *state = core_enum_value_text(layout, CORE_ENUM_thread_state,
							 (int64_t)core_number(layout, thread,
									      CORE_FIELD_fathom_thread_state));

		reactor = core_object_of(layout, core_number(layout, thread, CORE_FIELD_fathom_thread_reactor),
					 CORE_STRUCTURE_reactor);
		core_add_number(rows, address);
		core_add_text(rows, core_interned_text(layout, thread, CORE_FIELD_fathom_thread_interned_name));
		core_add_number(rows, core_number(layout, thread, CORE_FIELD_fathom_thread_id));
		core_add_text(rows, state);
		core_add_text(rows, reactor ? reactor_name(layout, reactor) : NULL);
		core_add_number(rows, core_number(layout, thread, CORE_FIELD_fathom_thread_poller_count));
		core_add_number(rows, core_number(layout, thread, CORE_FIELD_fathom_thread_channel_count));
	}
	core_check_walk(rows, &walk);
}

const struct core_list_kind core_light_threads = {
	.name = "light-threads",
	.about = "light threads",
	.program = CORE_BOTH,
	CORE_COLUMNS(thread_columns),
	CORE_NEEDS(CORE_STRUCTURE_registry, CORE_STRUCTURE_fathom_thread, CORE_STRUCTURE_reactor),
	.fill = fill_light_threads,
};

/* ---- pollers ---- */

static const struct core_column poller_columns[] = {
	{ NULL, "address", CORE_CELL_ADDRESS },
	{ "POLLER", "name", CORE_CELL_TEXT },
	{ "ID", "id", CORE_CELL_NUMBER },
	{ "KIND", "kind", CORE_CELL_TEXT },
	{ "PERIOD", "period_ns", CORE_CELL_NS },
	{ "RUNS", "run_count", CORE_CELL_NUMBER },
	{ "BUSY RUNS", "busy_count", CORE_CELL_NUMBER },
	{ "BUSY", "busy_ns", CORE_CELL_NS },
	{ "THREAD", "thread", CORE_CELL_TEXT },
};

static void add_pollers(struct core_rows *rows, const uint8_t *thread)
{
	struct core_layout *layout = rows->layout;
	struct core_walk walk = core_walk_begin(core_part_of(layout, thread, CORE_FIELD_fathom_thread_pollers),
						CORE_STRUCTURE_poller, CORE_FIELD_poller_in_thread);
	const char *name = core_interned_text(layout, thread, CORE_FIELD_fathom_thread_interned_name);
	const uint8_t *poller;
	uint64_t address;

	while ((poller = core_walk_next(layout, &walk, &address))) {
		bool is_timed = core_number(layout, poller, CORE_FIELD_poller_timed);

		core_add_number(rows, address);
		core_add_text(rows, core_interned_text(layout, poller, CORE_FIELD_poller_name));
		core_add_number(rows, core_number(layout, poller, CORE_FIELD_poller_id));
		core_add_text(rows, core_number(layout, poller, CORE_FIELD_poller_paused) ? "paused"
				    : is_timed						  ? "timed"
											  : "active");
		core_add_ticks(rows, is_timed ? core_number(layout, poller, CORE_FIELD_poller_period_ticks) : 0);
		core_add_number(rows, core_number(layout, poller, CORE_FIELD_poller_run_count));
		core_add_number(rows, core_number(layout, poller, CORE_FIELD_poller_busy_count));
		core_add_ticks(rows, core_number(layout, poller, CORE_FIELD_poller_busy_ticks));
		core_add_text(rows, name);
	}
	core_check_walk(rows, &walk);
}

static void fill_pollers(struct core_rows *rows)
{
	struct core_walk walk = walk_threads(rows->layout);
	const uint8_t *thread;

	while ((thread = core_walk_next(rows->layout, &walk, NULL)))
		add_pollers(rows, thread);
	core_check_walk(rows, &walk);
}

const struct core_list_kind core_pollers = {
	.name = "pollers",
	.about = "pollers",
	.program = CORE_BOTH,
	CORE_COLUMNS(poller_columns),
	CORE_NEEDS(CORE_STRUCTURE_registry, CORE_STRUCTURE_fathom_thread, CORE_STRUCTURE_poller),
	.fill = fill_pollers,
};

/* ---- devices with channels ---- */

static const struct core_column device_columns[] = {
	{ "DEVICE", "name", CORE_CELL_TEXT },
	{ "ADDRESS", "address", CORE_CELL_ADDRESS },
	{ "REFERENCES", "channel_count", CORE_CELL_NUMBER },
	{ "UNREGISTERED", "unregistered", CORE_CELL_FLAG },
};

static void fill_io_devices(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *registry = core_object_of(layout, layout->variables[CORE_VARIABLE_registry],
						 CORE_STRUCTURE_registry),
		      *device;
	struct core_walk walk = core_walk_begin(registry ? core_part_of(layout, registry, CORE_FIELD_registry_devices)
							 : NULL,
						CORE_STRUCTURE_device, CORE_FIELD_device_in_registry);

	while ((device = core_walk_next(layout, &walk, NULL))) {
		core_add_text(rows, core_interned_text(layout, device, CORE_FIELD_device_name));
		core_add_number(rows, core_number(layout, device, CORE_FIELD_device_address));
		core_add_number(rows, core_number(layout, device, CORE_FIELD_device_channel_count));
		core_add_number(rows, core_number(layout, device, CORE_FIELD_device_unregistered));
	}
	core_check_walk(rows, &walk);
}

const struct core_list_kind core_io_devices = {
	.name = "io-devices",
	.about = "what threads have channels to",
	.program = CORE_BOTH,
	CORE_COLUMNS(device_columns),
	CORE_NEEDS(CORE_STRUCTURE_registry, CORE_STRUCTURE_device),
	.fill = fill_io_devices,
};
