/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of an engine's instance, from the configuration and the resolved addresses. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/engines/internal.h"

int engine_options_fill(struct server *server, uint32_t index, struct instance_texts *texts,
			struct instance_options *options, struct fathom_fault *why)
{
	const struct server_config *config = server->config;
	const struct server_engine *engine = server_config_engine(config, index);
	const struct server_storage *storage = server_engine_storage(engine);

	must(index < config->engines.count);
	must(storage->scm_mount && storage->scm_mount[0] == '/');
	server_program_path(server, config->engine_program, "fathom-engine", texts->program);
	must((size_t)snprintf(texts->log_file, sizeof(texts->log_file), "%s/engine%u.log", config->state_dir, index) <
	     sizeof(texts->log_file));
	if (config->metadata.path) {
		snprintf(texts->superblock_dir, sizeof(texts->superblock_dir), "%s/engine%u", config->metadata.path, index);
		if (mkdir(texts->superblock_dir, 0750) != 0 && errno != EEXIST)
			return fault_folder(why, texts->superblock_dir, strerror(errno));
	}
	must(server->places->engines[index].address[0]);
	must(engine->fabric_iface_port > 0 && engine->fabric_iface_port <= UINT16_MAX);
	*options = (struct instance_options){
		.index = index,
		.program = texts->program,
		.system = config->name,
		.socket_dir = config->socket_dir,
		.storage = storage->class == SERVER_STORAGE_FILE ? INSTANCE_STORAGE_FOLDER : INSTANCE_STORAGE_DEVICE,
		.device = storage->bdev_list.count ? storage->bdev_list.items[0] : NULL,
		.mount = storage->scm_mount,
		.state_dir = config->state_dir,
		.file_bytes = storage->bdev_size,
		.superblock_dir = config->metadata.path ? texts->superblock_dir : NULL,
		.provider = config->provider,
		.address = server->places->engines[index].address,
		.port = (uint16_t)engine->fabric_iface_port,
		.domain = server->places->domain,
		.cpus = server->places->engines[index].cpus[0] ? server->places->engines[index].cpus : NULL,
		.log_mask = engine->log_mask,
		.log_file = engine->log_file ? engine->log_file : texts->log_file,
		.env = (const char *const *)engine->env_vars.items,
		.env_count = engine->env_vars.count,
		.env_pass = (const char *const *)engine->env_pass_through.items,
		.env_pass_count = engine->env_pass_through.count,
		.arguments = (const char *const *)engine->arguments.items,
		.argument_count = engine->arguments.count,
		.paranoid_blocks = (uint32_t)engine->paranoid_blocks,
		.os = server->os,
		.helper = server->helper,
	};
	memcpy(options->restart, server->engines->restart, sizeof(options->restart));
	must(text_parse_duration(config->engine_heartbeat, &options->ping_interval_ns) == 0); /* it was checked */
	return 0;
}
