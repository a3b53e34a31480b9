/* SPDX-License-Identifier: BSD-2-Clause */
/* Open and close sessions; run tasks on this process's control reactor, which runs while any session is open. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/client/internal.h"
#include "control/fault/fault.h"
#include "control/status/certificate.h"
#include "control/status/status.h"

enum { LOG_LINE_BYTES = 1024 };

#define TICK_NS NS_PER_SEC
#define CONNECT_NS_MIN NS_PER_SEC
#define CONNECT_NS_MAX (10 * NS_PER_SEC)

/* All sessions of a process share its control reactor, and so must use one thread. */
static struct {
	unsigned int count;
	pthread_t thread;
	bool running; /* a call of any session is running */
} sessions;

/* Size of the options in release 0.1. Programs that set `bytes` to 0 were compiled with these. */
enum { OPTIONS_BYTES_0_1 = 80 };
static_assert(sizeof(struct fathom_control_options) == OPTIONS_BYTES_0_1, "it grows at its end");

/* ---- tasks ---- */

uint64_t task_left_ns(const struct task *task)
{
	uint64_t now = clock_monotonic_ns();

	return task->control->cancelled || now >= task->deadline_ns ? 0 : task->deadline_ns - now;
}

int task_is_over(const struct task *task, const char *request, struct fathom_fault *why)
{
	if (task->control->cancelled)
		return fault_cancelled(why, request);
	return fault_request_timed_out(why, request, (uint32_t)((task->control->timeout_ns + task->extra_ns) / NS_PER_SEC));
}

/* ---- the log ---- */

void control_log(const struct fathom_control *control, const char *format, ...)
{
	char line[LOG_LINE_BYTES];
	va_list args;

	if (!control->log)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	control->log(control->log_ctx, line);
}

/* A call whose end is logged. */
struct logged_call {
	const struct fathom_control *control;
	const char *path;
	char address[GRPC_ADDRESS_BYTES_MAX];
	uint64_t begin_ns;
	grpc_done_fn done;
	void *ctx;
};

static void log_end(void *ctx, const struct grpc_result *result)
{
	struct logged_call *call = ctx;
	double milliseconds = (double)(clock_monotonic_ns() - call->begin_ns) / NS_PER_MS;
	struct fathom_fault why;

	if (result->code == GRPC_OK) {
		control_log(call->control, "%s: %s: answered after %.3f ms, %zu bytes", call->address, call->path,
			    milliseconds, protobuf_c_message_get_packed_size(result->response));
	} else {
		fault_from_result(result, call->address, &why);
		control_log(call->control, "%s: %s: failed after %.3f ms: %s", call->address, call->path, milliseconds,
			    why.text);
	}
	call->done(call->ctx, result);
	free(call);
}

int task_call(struct task *task, const struct grpc_request *request)
{
	struct fathom_control *control = task->control;
	struct grpc_request logged = *request;
	struct logged_call *call;
	int error;

	if (!control->log)
		return grpc_client_call(control->client, request);
	call = malloc(sizeof(*call));
	must(call);
	*call = (struct logged_call){
		.control = control,
		.path = request->path,
		.begin_ns = clock_monotonic_ns(),
		.done = request->done,
		.ctx = request->ctx,
	};
	snprintf(call->address, sizeof(call->address), "%s", request->address);
	control_log(control, "%s: %s: asked, within %.1f s", request->address, request->path,
		    (double)request->timeout_ns / NS_PER_SEC);
	logged.done = log_end;
	logged.ctx = call;
	error = grpc_client_call(control->client, &logged);
	if (error) {
		control_log(control, "%s: %s: could not be asked: %s", request->address, request->path, strerror(-error));
		free(call);
	}
	return error;
}

/* ---- progress ---- */

void task_progress(const struct task *task)
{
	const struct fathom_control *control = task->control;

	if (control->progress)
		control->progress(control->progress_ctx, task->unit, task->done, task->total);
}

static void task_tick(struct deadline *deadline)
{
	struct task *task = container_of(deadline, struct task, tick);

	task_progress(task);
	if (task->on_tick)
		task->on_tick(task);
	deadline_set(&task->control->deadlines, &task->tick, TICK_NS, task_tick);
}

void task_end(struct task *task, int error)
{
	must(!task->ended);
	task_forget_progress_query(task);
	deadline_clear(&task->control->deadlines, &task->tick);
	task->ended = true;
	task->error = error;
	reactors_request_stop();
}

static int open_client(struct fathom_control *control, struct fathom_fault *why)
{
	struct grpc_client_options options = {
		.role = GRPC_ROLE_ADMIN,
		.version = FATHOM_VERSION,
		.tls = control->tls,
		/* at most 1/4 of the time-out, so that time is left for other hosts if one is powered off */
		.connect_timeout_ns = min_u64(CONNECT_NS_MAX, max_u64(CONNECT_NS_MIN, control->timeout_ns / 4)),
	};

	if (!control->deadlines_open) {
		int error = deadlines_init(&control->deadlines, "control client");

		if (error)
			return fault(why, error, "%s", strerror(-error));
		control->deadlines_open = true;
	}
	return control->client ? 0 : grpc_client_create(&options, &control->client, why);
}

static void begin_task(void *ctx)
{
	struct task *task = ctx;
	int error = open_client(task->control, &task->why);

	if (error) {
		task->ended = true;
		task->error = error;
		reactors_request_stop();
		return;
	}
	deadline_set(&task->control->deadlines, &task->tick, TICK_NS, task_tick);
	task->begin(task);
}

static void close_client(struct fathom_control *control)
{
	grpc_client_destroy(control->client);
	control->client = NULL;
}

static void stop_task(void *ctx)
{
	struct task *task = ctx;

	if (task->ended)
		return;
	close_client(task->control); /* all calls end with GRPC_CANCELLED, and the task must not start others */
	if (!task->ended)
		task->stop(task);
}

int task_run(struct task *task, struct fathom_fault *why)
{
	struct fathom_control *control = task->control;
	bool told = false;

	if (sessions.running)
		return fault(why, -EBUSY, "another call of this process's control sessions is under way");
	sessions.running = true;
	if (!task->deadline_ns)
		task->deadline_ns = clock_monotonic_ns() + control->timeout_ns;
	thread_send_msg(thread_control(), begin_task, task);
	while (!task->ended) {
		reactors_run();
		if (control->cancelled && !told && !task->ended) {
			told = true;
			thread_send_msg(thread_control(), stop_task, task);
		}
	}
	control->cancelled = 0;
	sessions.running = false;
	if (control->progress)
		control->progress(control->progress_ctx, task->unit, task->total ? task->total : 1,
				  task->total ? task->total : 1);
	if (task->error && why)
		*why = task->why;
	return task->error;
}

/* ---- sessions ---- */

/* Add the port to each host, so that two servers of one host are distinct, and output has dmg's form. */
static void add_ports(struct fathom_control *control)
{
	struct host_set *with_ports = host_set_create();

	must(with_ports);
	for (size_t i = 0; i < host_set_count(control->hosts); i++) {
		char text[HOST_BYTES_MAX + sizeof("[]:65535")];
		struct host_address address;

		host_address(host_set_at(control->hosts, i), (uint16_t)control->config.port, &address);
		snprintf(text, sizeof(text), address.is_ipv6 ? "[%s]:%u" : "%s:%u", address.host, address.port);
		must(host_set_add(with_ports, text, NULL) == 0);
	}
	host_set_destroy(control->hosts);
	control->hosts = with_ports;
}

static int choose_hosts(struct fathom_control *control, const char *hosts, struct fathom_fault *why)
{
	int error;

	if (hosts) {
		error = host_set_parse(hosts, &control->hosts, why);
	} else {
		control->hosts = host_set_create();
		must(control->hosts);
		error = control->config.hostlist.count ? 0 : host_set_add(control->hosts, "localhost", why);
		for (size_t i = 0; i < control->config.hostlist.count && error == 0; i++)
			error = host_set_add(control->hosts, control->config.hostlist.items[i], why);
	}
	if (error)
		return error;
	if (host_set_count(control->hosts) == 0)
		return fault_no_hosts(why);
	add_ports(control);
	must(host_set_fold(control->hosts, &control->hosts_folded) == 0);
	return 0;
}

static int open_tls(struct fathom_control *control, bool insecure, struct fathom_fault *why)
{
	const struct client_transport *transport = &control->config.transport;
	struct grpc_tls_options options = {
		.ca = transport->ca_cert,
		.certificate = transport->cert,
		.key = transport->key,
	};

	struct fathom_fault said = { 0 };
	int error;

	if (insecure || transport->allow_insecure)
		return 0;
	error = grpc_tls_create(&options, &control->tls, &said);
	if (error)
		return fault_from_tls(&options, error, &said, why);
	return certificate_check(control->tls, (int64_t)(clock_realtime_ns() / NS_PER_SEC), why);
}

static void free_session(struct fathom_control *control)
{
	grpc_tls_destroy(control->tls);
	host_set_destroy(control->hosts);
	client_config_free(&control->config);
	free(control->config_path);
	free(control->hosts_folded);
	free(control);
}

static void log_opened(const struct fathom_control *control)
{
	char date[CERTIFICATE_DATE_BYTES];
	struct grpc_life lives[2];
	const struct client_transport *transport = &control->config.transport;

	if (control->config_path)
		control_log(control, "the configuration is %s", control->config_path);
	else
		control_log(control, "there is no configuration: defaults hold");
	control_log(control, "the system is %.*s, its hosts are %s", (int)(strrchr(control->system, '-') - control->system),
		    control->system, control->hosts_folded);
	if (control->tls) {
		control_log(control, "the certificate is %s, the authority's %s", transport->cert, transport->ca_cert);
		grpc_tls_lives(control->tls, lives);
		for (size_t i = 0; i < ARRAY_COUNT(lives); i++)
			control_log(control, "%s is valid until %s", lives[i].path,
				    certificate_date(lives[i].ends_s, date));
	} else {
		control_log(control, "insecure: without certificates");
	}
}

/* Copy the options that the program was compiled with; newer options are zero. */
static void take_options(const struct fathom_control_options *from, struct fathom_control_options *options)
{
	memset(options, 0, sizeof(*options));
	memcpy(options, from, min_u64(from->bytes ? from->bytes : OPTIONS_BYTES_0_1, sizeof(*options)));
}

static int name_system(struct fathom_control *control, const char *system, struct fathom_fault *why)
{
	const char *wrong = system ? config_system_name(system) : NULL;

	if (wrong)
		return fault(why, -EINVAL, "\"%.64s\" is no name of a system: %s", system, wrong);
	snprintf(control->system, sizeof(control->system), "%s-%s", system ? system : control->config.name, FATHOM_VERSION);
	return 0;
}

static int start_reactor(struct fathom_fault *why)
{
	struct reactor_options reactors = { 0 };
	int error = sessions.count > 0 ? 0 : reactors_start(&reactors);

	return error ? fault_session_unstarted(why, strerror(-error)) : 0;
}

int fathom_control_open(const struct fathom_control_options *program_options, struct fathom_control **ret,
			struct fathom_fault *why_ret)
{
	struct fathom_control_options known, *options = &known;
	struct fathom_fault *why = why_ret;
	struct fathom_control *control;
	int error;

	if (sessions.count > 0 && !pthread_equal(sessions.thread, pthread_self()))
		return fault(why, -EBUSY, "another thread of this process has control sessions open; all are one thread's");
	take_options(program_options, &known);
	control = calloc(1, sizeof(*control));
	must(control);
	control->parallel_max = options->parallel_max ? options->parallel_max : PARALLEL_DEFAULT;
	control->timeout_ns = (options->timeout_ms ? options->timeout_ms : TIMEOUT_DEFAULT_MS) * NS_PER_MS;
	control->patience_ns = (options->patience_ms ? options->patience_ms : PATIENCE_DEFAULT_MS) * NS_PER_MS;
	control->progress = options->progress;
	control->progress_ctx = options->progress_ctx;
	control->log = options->log;
	control->log_ctx = options->log_ctx;
	error = client_config_read(options->config, &control->config, &control->config_path, why);
	if (error == 0)
		error = choose_hosts(control, options->hosts, why);
	if (error == 0)
		error = open_tls(control, options->insecure, why);
	if (error == 0)
		error = name_system(control, options->system, why);
	if (error == 0)
		error = start_reactor(why);
	if (error) {
		free_session(control);
		return error;
	}
	log_opened(control);
	sessions.count++;
	sessions.thread = pthread_self();
	*ret = control;
	return 0;
}

static void close_all(void *ctx)
{
	struct fathom_control *control = ctx;

	close_client(control);
	deadlines_deinit(&control->deadlines);
	reactors_request_stop();
}

void fathom_control_close(struct fathom_control *control)
{
	if (!control)
		return;
	thread_send_msg(thread_control(), close_all, control);
	do
		reactors_run(); /* fathom_control_cancel() may end a run early */
	while (control->client || control->deadlines.poller);
	must(sessions.count > 0);
	if (--sessions.count == 0)
		reactors_stop();
	free_session(control);
}

void fathom_control_cancel(struct fathom_control *control)
{
	control->cancelled = 1;
	reactors_request_stop();
}

const char *fathom_control_hosts(const struct fathom_control *control)
{
	return control->hosts_folded;
}

const char *fathom_control_config(const struct fathom_control *control)
{
	return control->config_path ? control->config_path : "";
}
