/* SPDX-License-Identifier: BSD-2-Clause */
#include "data/engine/engine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "data/engine/control.h"
#include "data/engine/end_report.h"
#include "data/engine/figures/figures.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"
#include "data/engine/move/move.h"
#include "data/engine/volume_export.h"
#include "base/observe/trace/points.gen.h"
#include "fathom/trace/trace.h"
#include "base/reactor/daemon.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/bdev/bdev.h"
#include "data/target/target.h"
#include "data/wire/conn/conn.h"

enum {
	/*
	 * Each step of a stop has a bound: hosts' commands NVMF_STOP_DRAIN_MS_MAX, the marks of checksums 8 s
	 * (data/store/volume/scrub_stop.c), the removal of block devices GONE_SEC after the last one that went, events 1 s
	 * (uplink.c). Nothing else waits for a device. A step without a bound of its own ends here:
	 */
	STOP_TIMEOUT_SEC = 22,	/* less than the server's time-out; then the engine exits without a clean stop */
	GONE_SEC = 8,		/* hosts are gone, so only a disk that hangs, or is very slow, takes longer */
	PENDING_SEC = 1,	/* before that, wait this long for the reactors to report pending commands */
	PENDING_LOGGED_MAX = 8, /* queues in the log; also devices */
};

struct waiter {
	engine_done_fn done;
	void *ctx;
	STAILQ_ENTRY(waiter) link;
};

static struct {
	const struct engine_options *options;
	uint64_t started_ns; /* of a monotonic clock */
	enum engine_state state;
	struct config *config;
	struct poller *stop_poller, *gone_poller;
	uint32_t going_count; /* at the last check */
	bool has_left_target; /* it has stopped, or its commands at devices are given up */
	bool is_target_stuck; /* the latter */
	bool is_given_up;     /* a device does not respond: the engine exits without it */
	engine_done_fn init_done;
	void *init_ctx;
	STAILQ_HEAD(, waiter) waiters;
	bool init_over, target_running, stop_wanted;
	int exit_status;
} engine = { .waiters = STAILQ_HEAD_INITIALIZER(engine.waiters) };

static void start_stop(void);

/* Log `why`, report it to the server, and exit with failure after the stop. */
static void report_failure(const char *why)
{
	log_error("%s", why);
	engine_report_end(&engine.options->server, why);
	engine.exit_status = EXIT_FAILURE;
}

const struct engine_options *engine_options(void)
{
	return engine.options;
}

uint64_t engine_uptime_ns(void)
{
	return clock_monotonic_ns() - engine.started_ns;
}

/* ---- starting ---- */

void engine_wait_ready(engine_done_fn done, void *ctx)
{
	struct waiter *waiter;

	if (engine.state == ENGINE_READY) {
		done(ctx, NULL);
		return;
	}
	waiter = calloc(1, sizeof(*waiter));
	must(waiter);
	waiter->done = done;
	waiter->ctx = ctx;
	STAILQ_INSERT_TAIL(&engine.waiters, waiter, link);
}

static const struct fathom_fault stopping = { .error = -ECANCELED, .text = "the engine is stopping" };

static void complete_ready_waiters(const struct fathom_fault *why)
{
	struct waiter *waiter;

	while ((waiter = STAILQ_FIRST(&engine.waiters))) {
		STAILQ_REMOVE_HEAD(&engine.waiters, link);
		waiter->done(waiter->ctx, why);
		free(waiter);
	}
}

/* End of startup; `why` NULL: success, or canceled by a stop. */
static void finish_init(const struct fathom_fault *why)
{
	const struct fathom_fault *result = !why && engine.stop_wanted ? &stopping : why;
	engine_done_fn done = engine.init_done;

	must(engine.state == ENGINE_STARTING);
	must(!engine.init_over);
	engine.init_over = true;
	if (!result)
		state_file_loaded(engine.config ? config_failed(engine.config) : NULL);
	config_free(engine.config);
	engine.config = NULL;
	engine.init_done = NULL;
	if (!result) {
		engine.state = ENGINE_READY;
		daemon_ready();
		log_notice("ready: %u reactor%s, control socket %s", reactors_count(), reactors_count() == 1 ? "" : "s",
			   engine.options->socket_path);
		engine_control_ready();
		device_health_start();
		history_start();
	}
	if (done)
		done(engine.init_ctx, result);
	complete_ready_waiters(result);
	if (!result)
		rpc_hold_calls(false);
	if (why)
		report_failure(why->text);
	if (result)
		start_stop();
}

static void exports_started(void *ctx)
{
	finish_init(NULL);
}

/* Hosts find their volumes before the engine reports that it is ready. */
static void discovery_listening(void *ctx, const struct fathom_fault *why)
{
	if (why || engine.stop_wanted)
		finish_init(why);
	else
		exports_start(exports_started, NULL);
}

static void config_replayed(void *ctx, const struct fathom_fault *why)
{
	struct fathom_fault kept;

	if (!why) {
		engine_control_listen(discovery_listening, NULL);
		return;
	}
	kept = *why; /* copy: `why` lies in the configuration, which finish_init() frees */
	finish_init(&kept);
}

static void target_started(void *ctx, int rc, const struct fathom_fault *why)
{
	if (rc) {
		finish_init(why);
		return;
	}
	engine.target_running = true;
	rpc_set_state(RPC_RUNTIME);
	if (engine.config && !engine.stop_wanted)
		config_replay(engine.config, false, config_replayed, NULL);
	else if (!engine.stop_wanted)
		engine_control_listen(discovery_listening, NULL);
	else
		finish_init(NULL);
}

static void startup_replayed(void *ctx, const struct fathom_fault *why)
{
	struct fathom_fault kept;

	if (!why) {
		nvmf_target_start(target_started, NULL);
		return;
	}
	kept = *why;
	finish_init(&kept);
}

static void storage_opened(void *ctx, const struct fathom_fault *why)
{
	struct fathom_fault kept;

	if (why || engine.stop_wanted) {
		kept = why ? *why : stopping;
		finish_init(why ? &kept : NULL);
	} else if (engine.config) {
		config_replay(engine.config, true, startup_replayed, NULL);
	} else {
		nvmf_target_start(target_started, NULL);
	}
}

int engine_init(engine_done_fn done, void *ctx)
{
	if (engine.state != ENGINE_WAITING)
		return -EALREADY;
	engine.state = ENGINE_STARTING;
	rpc_hold_calls(true);
	engine.init_done = done;
	engine.init_ctx = ctx;
	engine_storage_open(engine.options->storage, storage_opened, NULL);
	return 0;
}

/* ---- stopping ---- */

static void exit_without_stop(const char *trace_command)
{
	if (trace_path()[0])
		log_error("`fathom trace %s -f %s` shows more", trace_command, trace_path());
	_exit(EXIT_FAILURE);
}

static void log_pending(const struct nvmf_pending_info *infos, size_t count)
{
	for (size_t i = 0; i < count && i < PENDING_LOGGED_MAX; i++) {
		const struct nvmf_pending_info *info = &infos[i];

		log_error("under way: %u command%s of %s, queue %u of %s:%s; the oldest is %s%s%s, since %llu s",
			  info->request_count, info->request_count == 1 ? "" : "s",
			  info->nqn[0] ? info->nqn : "no subsystem", info->qid, info->peer_address, info->peer_service,
			  info->oldest_opcode, info->bdev_name[0] ? " at block device " : "", info->bdev_name,
			  clock_ns_from_ticks(info->oldest_ticks) / NS_PER_SEC);
	}
	if (count > PENDING_LOGGED_MAX)
		log_error("and commands of %zu other queues", count - PENDING_LOGGED_MAX);
}

static void log_pending_and_exit(void *ctx, const struct nvmf_pending_info *infos, size_t count)
{
	log_pending(infos, count);
	exit_without_stop("stuck");
}

/* A device holds an I/O, or its file cannot be closed: the engine ends without it. */
static void report_device(const char *name)
{
	log_error("block device %s: its disk does not respond, so the engine stops without it", name);
	engine_raise_event(RAS_DEVICE_UNRESPONSIVE, NULL,
			   "device %.64s: its disk did not respond when the engine stopped, so the engine ended without it",
			   name);
}

/* The devices that bdev_wait_gone() waits for. */
static void report_going(void)
{
	const struct bdev_going *going = NULL;
	uint32_t count = 0;

	while ((going = bdev_going_next(going)) && count++ < PENDING_LOGGED_MAX)
		report_device(going->name);
	if (going)
		log_error("and %u other block devices", bdev_going_count() - PENDING_LOGGED_MAX);
}

static int pending_timed_out(void *ctx)
{
	log_error("a reactor does not respond");
	exit_without_stop("threads");
	return 0;
}

/* Log the commands that block the stop, and exit. */
static int stop_timed_out(void *ctx)
{
	log_error("not stopped after %d s: target is %s, %u block devices are being removed; exiting anyway",
		  STOP_TIMEOUT_SEC, nvmf_tgt_state_name(nvmf_target_state()), bdev_going_count());
	report_going();
	poller_unregister(&engine.stop_poller);
	engine.stop_poller = poller_register("engine_stop_pending", pending_timed_out, NULL, PENDING_SEC * NS_PER_SEC);
	must(engine.stop_poller);
	nvmf_target_get_pending(log_pending_and_exit, NULL);
	return 0;
}

static void leave_target(void);

static bool is_reported(const struct nvmf_pending_info *infos, size_t index)
{
	for (size_t i = 0; i < index; i++) {
		if (strcmp(infos[i].bdev_name, infos[index].bdev_name) == 0)
			return true;
	}
	return infos[index].bdev_name[0] == '\0';
}

static void log_pending_and_go_on(void *ctx, const struct nvmf_pending_info *infos, size_t count)
{
	log_pending(infos, count);
	for (size_t i = 0; i < count && i < PENDING_LOGGED_MAX; i++) {
		if (!is_reported(infos, i))
			report_device(infos[i].bdev_name);
	}
	engine.is_target_stuck = !engine.has_left_target;
	leave_target();
}

/* Hosts are disconnected and acknowledged data is safe: only commands at block devices remain. */
static void target_stuck(uint32_t count)
{
	if (engine.state != ENGINE_STOPPING)
		return;
	log_error("%u command%s at block devices that do not respond: exiting without %s", count, count == 1 ? "" : "s",
		  count == 1 ? "it" : "them");
	nvmf_target_get_pending(log_pending_and_go_on, NULL);
}

static void finish_stop(void)
{
	complete_ready_waiters(&stopping);
	bdev_waits_cancel();
	engine_figures_close();
	engine_control_close();
	poller_unregister(&engine.stop_poller);
	if (engine.is_given_up || engine.is_target_stuck)
		exit_without_stop("stuck");
	daemon_end(engine.exit_status);
}

static void state_closed(void)
{
	uplink_flush(finish_stop);
}

static void bdevs_gone(void *ctx)
{
	poller_unregister(&engine.gone_poller);
	if (!engine.is_given_up)
		state_file_close(state_closed);
}

static int check_going(void *ctx)
{
	uint32_t count = bdev_going_count();

	if (count < engine.going_count) { /* the others may go, too */
		engine.going_count = count;
		return 0;
	}
	poller_unregister(&engine.gone_poller);
	engine.is_given_up = true;
	report_going();
	state_file_close(state_closed);
	return 1;
}

/* No change of the storage runs, so no block device of a volume appears any more. */
static void storage_closed(void *ctx)
{
	struct bdev *bdev;

	if (engine.is_target_stuck) { /* its namespaces still have their devices */
		state_file_close(state_closed);
		return;
	}
	/* restart at the first each time: removal of a bdev may also remove the filters on top of it */
	while ((bdev = bdev_first()))
		must(bdev_unregister(bdev, NULL, NULL) == 0);
	engine.going_count = bdev_going_count();
	engine.gone_poller = poller_register("engine_stop_devices", check_going, NULL, GONE_SEC * NS_PER_SEC);
	must(engine.gone_poller);
	/* waits also for bdevs deleted earlier whose I/O has not completed: see rpc/bdev_create.c */
	bdev_wait_gone(bdevs_gone, NULL);
}

static void moves_stopped(void)
{
	engine_storage_close(storage_closed, NULL);
}

static void leave_target(void)
{
	if (engine.has_left_target)
		return;
	engine.has_left_target = true;
	history_stop();
	device_health_stop();
	moves_stop(moves_stopped);
}

static void target_stopped(void *ctx, int rc, const struct fathom_fault *why)
{
	if (rc)
		log_error("target: %s", why->text);
	engine.target_running = false;
	leave_target();
}

static void start_stop(void)
{
	if (engine.state == ENGINE_STOPPING)
		return;
	if (!engine.stop_poller)
		engine.stop_poller = poller_register("engine_stop_timeout", stop_timed_out, NULL,
						     STOP_TIMEOUT_SEC * NS_PER_SEC);
	if (engine.state == ENGINE_STARTING && !engine.init_over) {
		must(!engine.stop_wanted);
		engine.stop_wanted = true; /* finish_init() calls start_stop() again */
		if (engine.config && config_cancel(engine.config))
			finish_init(NULL);
		return;
	}
	engine.state = ENGINE_STOPPING;
	engine_control_leave();
	daemon_stopping();
	state_file_stop();
	rpc_trace_finish();
	rpc_server_close();
	exports_stop();
	nvmf_target_on_stuck(target_stuck);
	if (engine.target_running || nvmf_target_state() == NVMF_TGT_ERROR)
		nvmf_target_stop(target_stopped, NULL);
	else
		target_stopped(NULL, 0, NULL);
}

void engine_stop(void)
{
	if (engine.state != ENGINE_STOPPING && !engine.stop_wanted)
		start_stop();
}

static void handle_signal(const struct daemon_signal *info)
{
	if (info->number == SIGINT && debugger_is_there()) {
		(void)raise(SIGTRAP); /* ^C in gdb: gdb stops the process here and does not deliver SIGTRAP */
		return;
	}
	if (engine.state == ENGINE_STOPPING || engine.stop_wanted) {
		log_warning("signal %u while stopping: exiting at once", info->number);
		_exit(EXIT_FAILURE);
	}
	log_notice("signal %u from process %u: stopping", info->number, info->pid);
	start_stop();
}

/* ---- setting up the control thread ---- */

static void print_trace_hint(void)
{
	if (trace_path()[0] == '\0')
		return;
	printf("Use 'fathom trace -s %s -p %d' to look at events at any time\n", engine.options->name, getpid());
	printf("Or copy %s for analysis elsewhere\n", trace_path());
	fflush(stdout);
}

static void register_methods(void)
{
	rpc_register(engine_methods, engine_method_count);
	if (engine_options()->test_methods)
		rpc_register(engine_test_methods, engine_test_method_count);
}

static void fail_start(const struct fathom_fault *why)
{
	report_failure(why->text);
	start_stop();
}

/* The state file replaces --config. */
static int load_configuration(struct fathom_fault *why)
{
	const struct engine_options *options = engine.options;
	int error = options->state_path ? state_file_open(options->state_path, &engine.config, why) : 0;

	if (error || !options->config_path)
		return error;
	if (state_file_exists()) {
		log_notice("--config %s is not used, because --state %s exists", options->config_path, options->state_path);
		return 0;
	}
	return config_load(options->config_path, &engine.config, why);
}

/* The first message on the control thread. */
static void start_on_control(void)
{
	const struct rpc_server_options rpc = { .path = engine.options->socket_path };
	struct fathom_fault why;

	engine_probes_register();
	register_methods();
	tcp_transport_register();
	if (load_configuration(&why) != 0) {
		fail_start(&why);
		return;
	}
	if (rpc_server_open(&rpc, &why) || engine_control_open(engine.options, &why) ||
	    engine_figures_open(engine.options, &why)) {
		config_free(engine.config);
		engine.config = NULL;
		fail_start(&why);
		return;
	}
	print_trace_hint();
	if (engine.options->wait_for_rpc)
		log_notice("waiting for framework_start_init on %s", engine.options->socket_path);
	else
		must(engine_init(NULL, NULL) == 0);
}

static void release_probes_and_configuration(void)
{
	engine_probes_remove();
	config_free(engine.config);
}

int engine_run(const struct engine_options *options)
{
	const struct trace_options trace = {
		.schema = &fathom_schema,
		.name = options->name,
		.version = options->version,
		.thread_count = cpuset_count(&options->cpus),
		.io_entries = options->trace_entries,
		.keeps_named = true,
		.size_option = "--num-trace-entries",
	};
	const struct daemon_options daemon = {
		.name = options->name,
		.trace = options->trace_entries ? &trace : NULL,
		.trace_spec = options->trace_spec,
		.reactors = { .cpus = options->cpus },
		.cpus_option = "-m",
		.start = start_on_control,
		.on_signal = handle_signal,
		.on_clock = engine_probes_refresh,
		.ended = release_probes_and_configuration,
	};
	struct fathom_fault why;
	int status;

	must(!engine.options);
	engine.options = options;
	engine.started_ns = clock_monotonic_ns();
	file_keep_written(options->paranoid_blocks);
	core_filter_widen();
	if (daemon_run(&daemon, &status, &why) != 0) {
		report_failure(why.text);
		return EXIT_FAILURE;
	}
	return status;
}
