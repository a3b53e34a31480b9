/* SPDX-License-Identifier: BSD-2-Clause */
/* The instances of the configured engines: creates, starts, logs and destroys them; starts the helper. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/server/core/core.h"
#include "control/server/core/probes.gen.h"

static uint64_t duration_of(const char *text)
{
	uint64_t ns = 0;

	must(text_parse_duration(text, &ns) == 0); /* checked by server_config_read() */
	return ns;
}

static void fill_restart(struct server *server)
{
	const struct server_config *config = server->config;

	static_assert((int)SERVER_CAUSES == (int)INSTANCE_CAUSES, "");
	for (int cause = 0; cause < INSTANCE_CAUSES; cause++) {
		const struct server_restart *said = &config->restart[cause];

		must(strcmp(server_cause_names[cause], instance_cause_word((enum instance_cause)cause)) == 0);
		server->restart[cause] = (struct instance_restart){
			.restart = said->restart && !config->disable_engine_auto_restart,
			.delay_min_ns = duration_of(said->delay_min),
			.delay_max_ns = duration_of(said->delay_max),
			.limit = (uint32_t)said->limit,
		};
	}
	if (config->engine_auto_restart_min_delay) {
		struct instance_restart *restart = &server->restart[INSTANCE_SELF_TERMINATED];

		restart->delay_min_ns = config->engine_auto_restart_min_delay * NS_PER_SEC;
		if (restart->delay_max_ns < restart->delay_min_ns)
			restart->delay_max_ns = restart->delay_min_ns;
	}
}

static void on_instance_event(void *ctx, struct instance *instance, const Shared__RASEvent *event)
{
	struct instance_info info;

	instance_get_info(instance, &info);
	server_add_event(ctx, info.index, event);
	if (event->id == RAS_ENGINE_HUNG || event->id == RAS_ENGINE_ANSWERS)
		server_report_soon(ctx);
}

static void on_engine_gone(void *ctx, struct instance *instance)
{
	server_take_left(ctx, instance);
}

/* Sent as a message: must not run inside the hook, while the instance is still changing its state. */
static void begin_waiting_formats(void *ctx)
{
	struct server *server = ctx;

	server->jobs--;
	server_begin_formats(server);
}

static void on_state_changed(void *ctx, struct instance *instance, enum instance_state from, enum instance_state to)
{
	struct server *server = ctx;
	struct instance_info info;
	char about[32];

	instance_get_info(instance, &info);
	if (!STAILQ_EMPTY(&server->formats)) {
		server->jobs++;
		thread_send_msg(thread_self(), begin_waiting_formats, server);
	}
	/* no report for READY and JOINED: the join has told the management service already */
	if (to == INSTANCE_STOPPED || to == INSTANCE_ERRORED || to == INSTANCE_AWAIT_FORMAT || to == INSTANCE_MISSING ||
	    to == INSTANCE_STARTING || to == INSTANCE_STOPPING)
		server_report_soon(server);
	switch (to) {
	case INSTANCE_JOINED:
		log_notice("engine %u is rank %u at %s%s", info.index, info.rank, info.uri,
			   info.is_adopted ? ", adopted" : "");
		break;
	case INSTANCE_REFUSED:
		log_warning("engine %u serves, but the management service refuses it", info.index);
		snprintf(about, sizeof(about), "engine %u", info.index);
		if (info.why.error)
			server_log_fault(LOG_LEVEL_WARNING, about, &info.why);
		break;
	case INSTANCE_AWAIT_FORMAT:
		log_notice("engine %u: %s is not formatted: `fathom storage format`", info.index, info.storage);
		break;
	case INSTANCE_MISSING:
	case INSTANCE_ERRORED:
		snprintf(about, sizeof(about), "engine %u", info.index);
		server_log_fault(LOG_LEVEL_ERROR, about, &info.why);
		break;
	case INSTANCE_STOPPED:
		log_notice("engine %u is stopped", info.index);
		break;
	default:
		log_info("engine %u: %s -> %s", info.index, instance_state_name(from), instance_state_name(to));
		break;
	}
}

struct texts {
	char program[SERVER_PATH_BYTES], superblock_dir[SERVER_PATH_BYTES], log_file[SERVER_PATH_BYTES];
};

static void program_of(const struct server *server, const char *said, const char *name, char *path)
{
	if (said)
		snprintf(path, SERVER_PATH_BYTES, "%s", said);
	else
		snprintf(path, SERVER_PATH_BYTES, "%s/%s", server->options->programs, name);
}

static int fill_options(struct server *server, uint32_t index, struct texts *texts, struct instance_options *options,
			struct fathom_fault *why)
{
	const struct server_config *config = server->config;
	const struct server_engine *engine = server_config_engine(config, index);
	const struct server_storage *storage = server_engine_storage(engine);

	program_of(server, config->engine_program, "fathom-engine", texts->program);
	snprintf(texts->log_file, sizeof(texts->log_file), "%s/engine%u.log", config->state_dir, index);
	if (config->metadata.path) {
		snprintf(texts->superblock_dir, sizeof(texts->superblock_dir), "%s/engine%u", config->metadata.path, index);
		if (mkdir(texts->superblock_dir, 0750) != 0 && errno != EEXIST)
			return fault_folder(why, texts->superblock_dir, strerror(errno));
	}
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
		.os = server->os,
		.helper = server->helper,
	};
	memcpy(options->restart, server->restart, sizeof(options->restart));
	must(text_parse_duration(config->engine_heartbeat, &options->ping_interval_ns) == 0); /* checked */
	return 0;
}

static bool needs_helper(const struct server *server)
{
	for (size_t i = 0; i < server->config->engines.count; i++) {
		if (server_engine_storage(server_config_engine(server->config, i))->class != SERVER_STORAGE_FILE)
			return true;
	}
	return false;
}

/* Log a fault of the helper at the start of the server, not only when storage is formatted. */
static void on_helper_pinged(void *ctx, const struct helper_reply *reply, const struct fathom_fault *why)
{
	struct server *server = ctx;
	char path[SERVER_PATH_BYTES], text[FAULT_LINES_BYTES_MAX];
	struct fathom_fault lacking = *why;
	struct fault_shown shown;

	if (reply->error == -ECANCELED)
		return;
	program_of(server, server->config->helper, "fathom-helper", path);
	if (!reply->error && !reply->privileged)
		lacking.error = fault_helper_not_privileged(&lacking, path);
	if (!lacking.error) {
		log_info("the helper %s answers", path);
		return;
	}
	fault_show(&lacking, &shown);
	log_line(needs_helper(server) ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, "%s%s; %s",
		 needs_helper(server) ? "" : "no engine here needs it, but ", fault_message(&shown, text, sizeof(text)),
		 shown.resolution);
}

void server_greet_helper(struct server *server)
{
	const struct helper_request ping = { .operation = HELPER_PING };

	helper_client_submit(server->helper, &ping, on_helper_pinged, server);
}

/* Log a line of the helper without its stamp: "[2026-11-20 19:00:54.286293] ERROR: ...". */
static void log_helper_line(void *ctx, const char *line)
{
	const char *behind = line[0] == '[' ? strstr(line, "] ") : NULL;

	log_warning("helper: %s", behind ? behind + 2 : line);
}

int server_open_helper(struct server *server, struct fathom_fault *why)
{
	char path[SERVER_PATH_BYTES];
	const struct helper_client_options options = {
		.program = path,
		.version = server->options->version,
		.said = log_helper_line,
	};

	program_of(server, server->config->helper, "fathom-helper", path);
	server->helper = helper_client_create(&options, why);
	return server->helper ? 0 : why->error;
}

int server_create_engines(struct server *server, struct fathom_fault *why)
{
	const struct instance_hooks hooks = {
		.ctx = server,
		.join = server_join,
		.event = on_instance_event,
		.gone = on_engine_gone,
		.changed = on_state_changed,
	};
	int error = 0;

	fill_restart(server);
	for (uint32_t i = 0; !error && i < server->config->engines.count; i++) {
		struct instance_options options;
		struct texts texts;

		error = fill_options(server, i, &texts, &options, why);
		if (!error)
			error = instance_create(&options, &hooks, &server->instances[i], why);
		if (!error)
			server->instance_count++;
	}
	return error;
}

/* A fault of the start is logged by on_state_changed(). */
static void on_engine_started(void *ctx, const struct fathom_fault *why)
{
	struct server *server = ctx;

	must(server->starting > 0);
	if (--server->starting == 0)
		probe_server_engines_settled(reactor_now(), server, server->instance_count,
					     clock_ticks_from_ns(clock_monotonic_ns() - server->options->began_ns));
}

void server_start_engines(struct server *server)
{
	server->starting = server->instance_count;
	for (size_t i = 0; i < server->instance_count; i++)
		instance_start(server->instances[i], on_engine_started, server);
}

void server_destroy_engines(struct server *server)
{
	for (size_t i = 0; i < server->instance_count; i++)
		instance_destroy(server->instances[i]);
	server->instance_count = 0;
}
