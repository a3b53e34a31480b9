/* SPDX-License-Identifier: BSD-2-Clause */
/* engine - lists of an engine's block devices, subsystems, controllers, queue pairs, and requests in progress. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fathom/trace/format.h"
#include "inspect/core/internal.h"
#include "inspect/core/lists.h"

/* ---- block devices ---- */

static const struct core_column device_columns[] = {
	{ NULL, "address", CORE_CELL_ADDRESS },		 { "DEVICE", "name", CORE_CELL_TEXT },
	{ "PRODUCT", "product", CORE_CELL_TEXT },	 { "BLOCKS", "block_count", CORE_CELL_NUMBER },
	{ "BYTES", "block_bytes", CORE_CELL_NUMBER },	 { "OPENED", "open_count", CORE_CELL_NUMBER },
	{ "CLAIMED", "claimed", CORE_CELL_FLAG },	 { "READ ONLY", "read_only", CORE_CELL_FLAG },
	{ "REMOVING", "removing", CORE_CELL_FLAG },	 { "UNDER WAY", "queue_depth", CORE_CELL_NUMBER },
	{ "AT BACKEND", "in_flight", CORE_CELL_NUMBER }, { "QUEUED", "queued", CORE_CELL_NUMBER },
};

/* The I/Os of a device, as its channels count them. */
struct depths {
	uint64_t under_way, in_flight, queued;
};

static struct depths count_ios(struct core_rows *rows, const uint8_t *bdev)
{
	struct core_layout *layout = rows->layout;
	struct core_walk walk = core_walk_begin(core_part_of(layout, bdev, CORE_FIELD_bdev_channels),
						CORE_STRUCTURE_bdev_channel, CORE_FIELD_bdev_channel_in_bdev);
	struct depths depths = { 0 };
	const uint8_t *channel;

	while ((channel = core_walk_next(layout, &walk, NULL))) {
		depths.under_way += core_number(layout, channel, CORE_FIELD_bdev_channel_queue_depth);
		depths.in_flight += core_number(layout, channel, CORE_FIELD_bdev_channel_in_flight);
		depths.queued += core_number(layout, channel, CORE_FIELD_bdev_channel_queued);
	}
	core_check_walk(rows, &walk);
	return depths;
}

static void fill_devices(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *head = core_object(layout->core, layout->variables[CORE_VARIABLE_bdevs], sizeof(uint64_t)), *bdev;
	struct core_walk walk = core_walk_begin(head, CORE_STRUCTURE_bdev, CORE_FIELD_bdev_link);
	uint64_t address;

	while ((bdev = core_walk_next(layout, &walk, &address))) {
		struct depths depths = count_ios(rows, bdev);

		core_add_number(rows, address);
		core_add_text(rows, core_chars(layout, bdev, CORE_FIELD_bdev_name));
		core_add_text(rows, core_pointed_text(layout, bdev, CORE_FIELD_bdev_product));
		core_add_number(rows, core_number(layout, bdev, CORE_FIELD_bdev_block_count));
		core_add_number(rows, core_number(layout, bdev, CORE_FIELD_bdev_block_bytes));
		core_add_number(rows, core_number(layout, bdev, CORE_FIELD_bdev_open_count));
		core_add_number(rows, core_number(layout, bdev, CORE_FIELD_bdev_claimed));
		core_add_number(rows, core_number(layout, bdev, CORE_FIELD_bdev_read_only));
		core_add_number(rows, core_number(layout, bdev, CORE_FIELD_bdev_removing));
		core_add_number(rows, depths.under_way);
		core_add_number(rows, depths.in_flight);
		core_add_number(rows, depths.queued);
	}
	core_check_walk(rows, &walk);
}

const struct core_list_kind core_devices = {
	.name = "devices",
	.about = "block devices",
	.program = CORE_ENGINE,
	CORE_COLUMNS(device_columns),
	CORE_NEEDS(CORE_STRUCTURE_bdev, CORE_STRUCTURE_bdev_channel),
	.fill = fill_devices,
};

/* ---- subsystems ---- */

static const struct core_column subsystem_columns[] = {
	{ NULL, "address", CORE_CELL_ADDRESS },
	{ "NQN", "nqn", CORE_CELL_TEXT },
	{ "ID", "id", CORE_CELL_NUMBER },
	{ "STATE", "state", CORE_CELL_TEXT },
	{ "NAMESPACES", "namespace_count", CORE_CELL_NUMBER },
	{ "CONTROLLERS", "controller_count", CORE_CELL_NUMBER },
};

static struct core_walk walk_subsystems(struct core_layout *layout)
{
	const uint8_t *target = core_object_of(layout, layout->variables[CORE_VARIABLE_target], CORE_STRUCTURE_nvmf_target);

	return core_walk_begin(target ? core_part_of(layout, target, CORE_FIELD_nvmf_target_subsystems) : NULL,
			       CORE_STRUCTURE_nvmf_subsystem, CORE_FIELD_nvmf_subsystem_link);
}

static const uint8_t *options_of(struct core_layout *layout, const uint8_t *subsystem)
{
	return core_part_of(layout, subsystem, CORE_FIELD_nvmf_subsystem_options);
}

static const char *nqn_of(struct core_layout *layout, const uint8_t *subsystem)
{
	return core_chars(layout, options_of(layout, subsystem), CORE_FIELD_nvmf_subsystem_options_nqn);
}

/* The `index`th namespace of a subsystem, and its address. NULL: none. */
static const uint8_t *namespace_at(struct core_layout *layout, const uint8_t *subsystem, uint64_t index,
				   uint64_t *address_ret)
{
	uint64_t rows = core_number(layout, subsystem, CORE_FIELD_nvmf_subsystem_namespaces);

	if (!rows || !core_read(layout->core, rows + index * sizeof(uint64_t), address_ret, sizeof(*address_ret)) ||
	    !*address_ret)
		return NULL;
	return core_object_of(layout, *address_ret, CORE_STRUCTURE_nvmf_ns);
}

static uint64_t namespace_room(struct core_layout *layout, const uint8_t *subsystem)
{
	return min_u64(core_number(layout, options_of(layout, subsystem), CORE_FIELD_nvmf_subsystem_options_max_namespaces),
		       1 << 20);
}

static void fill_subsystems(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	struct core_walk walk = walk_subsystems(layout);
	const uint8_t *subsystem;
	uint64_t address, ns;

	while ((subsystem = core_walk_next(layout, &walk, &address))) {
		uint64_t count = 0;

		for (uint64_t i = 0; i < namespace_room(layout, subsystem); i++)
			count += namespace_at(layout, subsystem, i, &ns) != NULL;
		core_add_number(rows, address);
		core_add_text(rows, nqn_of(layout, subsystem));
		core_add_number(rows, core_number(layout, subsystem, CORE_FIELD_nvmf_subsystem_id));
		core_add_text(rows, core_enum_text(layout, subsystem, CORE_FIELD_nvmf_subsystem_state));
		core_add_number(rows, count);
		core_add_number(rows, core_number(layout, subsystem, CORE_FIELD_nvmf_subsystem_ctrlr_count));
	}
	core_check_walk(rows, &walk);
}

#define SUBSYSTEM_NEEDS                                                                                                    \
	CORE_STRUCTURE_nvmf_target, CORE_STRUCTURE_nvmf_subsystem, CORE_STRUCTURE_nvmf_subsystem_options,                  \
		CORE_STRUCTURE_nvmf_ns

const struct core_list_kind core_subsystems = {
	.name = "subsystems",
	.about = "NVMe subsystems",
	.program = CORE_ENGINE,
	CORE_COLUMNS(subsystem_columns),
	CORE_NEEDS(SUBSYSTEM_NEEDS),
	.fill = fill_subsystems,
};

static const struct core_column namespace_columns[] = {
	{ NULL, "address", CORE_CELL_ADDRESS },
	{ "NSID", "nsid", CORE_CELL_NUMBER },
	{ "DEVICE", "device", CORE_CELL_TEXT },
	{ "SUBSYSTEM", "nqn", CORE_CELL_TEXT },
};

static void fill_namespaces(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	struct core_walk walk = walk_subsystems(layout);
	const uint8_t *subsystem, *ns, *bdev;
	uint64_t address;

	while ((subsystem = core_walk_next(layout, &walk, NULL))) {
		for (uint64_t i = 0; i < namespace_room(layout, subsystem); i++) {
			ns = namespace_at(layout, subsystem, i, &address);
			if (!ns)
				continue;
			bdev = core_object_of(layout, core_number(layout, ns, CORE_FIELD_nvmf_ns_bdev),
					      CORE_STRUCTURE_bdev);
			core_add_number(rows, address);
			core_add_number(rows, core_number(layout, ns, CORE_FIELD_nvmf_ns_nsid));
			core_add_text(rows, bdev ? core_chars(layout, bdev, CORE_FIELD_bdev_name) : NULL);
			core_add_text(rows, nqn_of(layout, subsystem));
		}
	}
	core_check_walk(rows, &walk);
}

const struct core_list_kind core_namespaces = {
	.name = "namespaces",
	.about = "namespaces of subsystems",
	.program = CORE_ENGINE,
	CORE_COLUMNS(namespace_columns),
	CORE_NEEDS(SUBSYSTEM_NEEDS, CORE_STRUCTURE_bdev),
	.fill = fill_namespaces,
};

static const struct core_column controller_columns[] = {
	{ NULL, "address", CORE_CELL_ADDRESS }, { "CNTLID", "cntlid", CORE_CELL_NUMBER },
	{ "STATE", "state", CORE_CELL_TEXT },	{ "I/O QUEUES", "io_queue_count", CORE_CELL_NUMBER },
	{ "HOST", "host_nqn", CORE_CELL_TEXT }, { "SUBSYSTEM", "nqn", CORE_CELL_TEXT },
};

static void fill_controllers(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	struct core_walk walk = walk_subsystems(layout);
	const uint8_t *subsystem, *ctrlr;
	uint64_t address;

	while ((subsystem = core_walk_next(layout, &walk, NULL))) {
		struct core_walk inner = core_walk_begin(core_part_of(layout, subsystem, CORE_FIELD_nvmf_subsystem_ctrlrs),
							 CORE_STRUCTURE_nvmf_ctrlr, CORE_FIELD_nvmf_ctrlr_link);

		while ((ctrlr = core_walk_next(layout, &inner, &address))) {
			core_add_number(rows, address);
			core_add_number(rows, core_number(layout, ctrlr, CORE_FIELD_nvmf_ctrlr_cntlid));
			core_add_text(rows, core_enum_text(layout, ctrlr, CORE_FIELD_nvmf_ctrlr_state));
			core_add_number(rows, core_number(layout, ctrlr, CORE_FIELD_nvmf_ctrlr_io_count));
			core_add_text(rows, core_chars(layout, ctrlr, CORE_FIELD_nvmf_ctrlr_host_nqn));
			core_add_text(rows, nqn_of(layout, subsystem));
		}
		core_check_walk(rows, &inner);
	}
	core_check_walk(rows, &walk);
}

const struct core_list_kind core_controllers = {
	.name = "controllers",
	.about = "controllers of subsystems",
	.program = CORE_ENGINE,
	CORE_COLUMNS(controller_columns),
	CORE_NEEDS(SUBSYSTEM_NEEDS, CORE_STRUCTURE_nvmf_ctrlr),
	.fill = fill_controllers,
};

/* ---- volumes ---- */

static const struct core_column volume_columns[] = {
	{ NULL, "address", CORE_CELL_ADDRESS },	     { "VOLUME", "name", CORE_CELL_TEXT },
	{ "STATE", "state", CORE_CELL_TEXT },	     { "BYTES", "size_bytes", CORE_CELL_NUMBER },
	{ "HOSTS", "host_count", CORE_CELL_NUMBER },
};

static void add_volumes(struct core_rows *rows, const uint8_t *pool)
{
	struct core_layout *layout = rows->layout;
	struct core_walk walk = core_walk_begin(core_part_of(layout, pool, CORE_FIELD_pool_volumes), CORE_STRUCTURE_volume,
						CORE_FIELD_volume_link);
	const uint8_t *volume;
	uint64_t address;

	while ((volume = core_walk_next(layout, &walk, &address))) {
		const uint8_t *record = core_part_of(layout, volume, CORE_FIELD_volume_record);

		core_add_number(rows, address);
		core_add_text(rows, core_chars(layout, volume, CORE_FIELD_volume_device));
		core_add_text(rows, core_enum_text(layout, volume, CORE_FIELD_volume_state));
		core_add_number(rows, core_number(layout, record, CORE_FIELD_volume_record_size_bytes));
		core_add_number(rows, core_number(layout, record, CORE_FIELD_volume_record_host_count));
	}
	core_check_walk(rows, &walk);
}

static void fill_volumes(struct core_rows *rows)
{
	struct core_layout *layout = rows->layout;
	const uint8_t *storage = core_object_of(layout, layout->variables[CORE_VARIABLE_storage],
						CORE_STRUCTURE_variable_storage),
		      *pool;
	const uint8_t *volumes = storage ? core_object_of(layout,
							  core_number(layout, storage, CORE_FIELD_variable_storage_volumes),
							  CORE_STRUCTURE_volumes)
					 : NULL;
	struct core_walk walk = core_walk_begin(volumes ? core_part_of(layout, volumes, CORE_FIELD_volumes_pools) : NULL,
						CORE_STRUCTURE_pool, CORE_FIELD_pool_link);

	while ((pool = core_walk_next(layout, &walk, NULL)))
		add_volumes(rows, pool);
	core_check_walk(rows, &walk);
}

const struct core_list_kind core_volumes = {
	.name = "volumes",
	.about = "volumes of the engine's storage",
	.program = CORE_ENGINE,
	CORE_COLUMNS(volume_columns),
	CORE_NEEDS(CORE_STRUCTURE_variable_storage, CORE_STRUCTURE_volumes, CORE_STRUCTURE_pool, CORE_STRUCTURE_volume,
		   CORE_STRUCTURE_volume_record),
	.fill = fill_volumes,
};
