/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine's double: it speaks dRPC like fathom-engine, and serves no hosts. The words in the file "manner" beside its
 * sockets select its behaviour. It reads the file again at each decision:
 *
 *	exit0 exit3 abort	ends at once with this status, or by abort()
 *	exit4			writes a reason for its end, then ends with status 4
 *	exit5			the same with status 5, but the reason has the pid of another process
 *	silent			does not report that it is ready
 *	mute			does not answer DESCRIBE
 *	no-term			ignores SIGTERM
 *	refuse-rank refuse-setup	answers SET_RANK or SET_UP with an error
 *	die-setup		crashes at SET_UP
 *	hang-setup		does not answer SET_UP
 *	slow-prepare		does not answer PREP_SHUTDOWN
 *	self-terminate		after SET_UP: reports that it left, and kills itself after the answer
 *	refuse-group		answers every other GROUP_UPDATE with an error
 *	foreign			describes itself with another UUID than it was given
 *	old			reports an older version
 *	no-storage		does not know STORAGE
 *	failed-storage		answers STORAGE with the state FAILED
 *	hang-storage		does not answer STORAGE
 *	die-storage		kills itself at STORAGE
 *	bad-storage		answers STORAGE with bytes that are no answer
 *	fail-storage		answers STORAGE with the status FAILURE
 *	env			prints its environment, descriptors and arguments
 *
 * It appends a line to the file "received" for each request. It locks a file in its storage: a second double
 * on the same storage writes "TWICE" and ends.
 */
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "rpc/drpc/drpc.h"
#include "rpc/proto/ctl.pb-c.h"
#include "rpc/proto/fathom.pb-c.h"
#include "rpc/proto/mgmt.pb-c.h"
#include "rpc/proto/shared.pb-c.h"
#include "rpc/proto/srv.pb-c.h"
#include "rpc/proto/store.pb-c.h"
#include "base/reactor/deadline.h"
#include "base/reactor/reactor.h"

static char dir[256], storage[256], uuid[40], uri[128], own_socket[300], server_socket[300];
static uint32_t instance_index, rank = UINT32_MAX, map_version, groups;
static uint64_t incarnation, incarnation_above;
static Fathom__DescribeResp__State state = FATHOM__DESCRIBE_RESP__STATE__STARTING;
static struct drpc_server *server;
static struct drpc_client *client;
static struct deadlines deadlines;
static struct deadline again;

static bool has_manner(const char *word)
{
	char path[300], text[256] = "", *next = text, *found;
	FILE *file;

	snprintf(path, sizeof(path), "%s/manner", dir);
	file = fopen(path, "r");
	if (!file)
		return false;
	(void)!fgets(text, sizeof(text), file);
	fclose(file);
	while ((found = strsep(&next, " \n"))) {
		if (strcmp(found, word) == 0)
			return true;
	}
	return false;
}

static void record_request(const char *what, uint32_t number)
{
	char path[300], line[64];
	int fd, bytes = snprintf(line, sizeof(line), "%s %u\n", what, number);

	snprintf(path, sizeof(path), "%s/received", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	must(fd >= 0 && write(fd, line, (size_t)bytes) == bytes);
	close(fd);
}

static void fill_ready(Srv__NotifyReadyReq *ready)
{
	srv__notify_ready_req__init(ready);
	ready->uri = uri;
	ready->drpclistenersock = own_socket;
	ready->instanceidx = instance_index;
	ready->incarnation = incarnation;
	ready->version = (char *)(has_manner("old") ? "0.0.9" : "0.1.0");
}

static void answer(struct drpc_call *call, int32_t status)
{
	Mgmt__DaosResp response = MGMT__DAOS_RESP__INIT;

	response.status = status;
	drpc_reply(call, &response.base);
}

static void set_rank(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Mgmt__SetRankReq *request = (const Mgmt__SetRankReq *)message;

	record_request("SET_RANK", request->rank);
	if (!has_manner("refuse-rank"))
		rank = request->rank;
	answer(call, has_manner("refuse-rank") ? -1003 : 0);
}

static void event_taken(void *ctx, const struct drpc_result *result)
{
	kill(getpid(), SIGKILL);
}

static void self_terminate(void)
{
	Shared__ClusterEventReq request = SHARED__CLUSTER_EVENT_REQ__INIT;
	Shared__RASEvent event = SHARED__RASEVENT__INIT;

	request.sequence = 1;
	request.event = &event;
	event.id = 5;
	event.rank = rank;
	event.incarnation = incarnation;
	must(drpc_client_call(client, &(struct drpc_request){
					      .module = DRPC_MODULE_SRV,
					      .method = DRPC_SRV_CLUSTER_EVENT,
					      .message = &request.base,
					      .timeout_ns = 5 * NS_PER_SEC,
					      .done = event_taken,
				      }) == 0);
}

static void set_up(struct drpc_call *call, const ProtobufCMessage *message)
{
	record_request("SET_UP", 0);
	if (has_manner("die-setup"))
		abort();
	if (has_manner("hang-setup"))
		return;
	if (has_manner("refuse-setup")) {
		answer(call, -1004);
		return;
	}
	state = FATHOM__DESCRIBE_RESP__STATE__SERVING;
	answer(call, 0);
	if (has_manner("self-terminate"))
		self_terminate();
}

static void ping(struct drpc_call *call, const ProtobufCMessage *message)
{
	answer(call, ((const Mgmt__PingRankReq *)message)->rank == rank ? 0 : -1035);
}

static void prepare(struct drpc_call *call, const ProtobufCMessage *message)
{
	if (rank == UINT32_MAX) { /* like the engine */
		answer(call, -1015);
		return;
	}
	record_request("PREP_SHUTDOWN", ((const Mgmt__PrepShutdownReq *)message)->rank);
	state = FATHOM__DESCRIBE_RESP__STATE__DRAINING;
	if (!has_manner("slow-prepare"))
		answer(call, 0);
}

static void group(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Mgmt__GroupUpdateReq *request = (const Mgmt__GroupUpdateReq *)message;
	Mgmt__GroupUpdateResp response = MGMT__GROUP_UPDATE_RESP__INIT;

	response.status = has_manner("refuse-group") && groups++ % 2 == 0 ? -1 : 0;
	if (response.status == 0)
		map_version = request->map_version;
	record_request(response.status ? "GROUP_REFUSED" : "GROUP", request->map_version);
	drpc_reply(call, &response.base);
}

static void log_masks(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Ctl__SetLogMasksReq *request = (const Ctl__SetLogMasksReq *)message;

	record_request(request->masks, request->reset_masks);
	answer(call, strcmp(request->masks, "NONSENSE") == 0 ? -1003 : strchr(request->masks, ',') ? -1010 : 0);
}

static void describe(struct drpc_call *call, const ProtobufCMessage *message)
{
	Fathom__DescribeResp response = FATHOM__DESCRIBE_RESP__INIT;
	Srv__NotifyReadyReq ready;

	if (has_manner("mute"))
		return;
	fill_ready(&ready);
	response.ready = &ready;
	response.rank = rank;
	response.map_version = map_version;
	response.state = state;
	response.pid = (uint64_t)getpid();
	response.uuid = has_manner("foreign") ? "11111111-2222-3333-4444-555555555555" : uuid;
	drpc_reply(call, &response.base);
}

/* Like the engine, it rejects a request for another rank. */
static void answer_storage(struct drpc_call *call, const ProtobufCMessage *message)
{
	const Store__StorageReq *request = (const Store__StorageReq *)message;
	Store__StorageResp response = STORE__STORAGE_RESP__INIT;

	record_request("STORAGE", request->action);
	if (has_manner("hang-storage"))
		return;
	if (has_manner("die-storage"))
		kill(getpid(), SIGKILL);
	if (has_manner("no-storage")) {
		drpc_fail(call, DRPC_UNKNOWN_METHOD);
	} else if (has_manner("fail-storage")) {
		drpc_fail(call, DRPC_FAILURE);
	} else if (has_manner("bad-storage")) {
		Mgmt__DaosResp other = MGMT__DAOS_RESP__INIT;

		other.status = 1 << 30;
		other.base.unknown_fields = &(ProtobufCMessageUnknownField){
			.tag = 3, .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED, .len = 2, .data = (uint8_t[]){ 9, 9 }
		};
		other.base.n_unknown_fields = 1;
		drpc_reply(call, &other.base);
	} else {
		response.error = request->rank == rank ? 0 : -1;
		response.state = has_manner("failed-storage") ? "FAILED" : "OPEN";
		response.address = request->pool;
		response.total_bytes = request->size_bytes;
		drpc_reply(call, &response.base);
	}
}

static const struct drpc_method methods[] = {
	{ DRPC_MODULE_MGMT, DRPC_MGMT_SET_RANK, "SET_RANK", &mgmt__set_rank_req__descriptor, set_rank },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_SET_UP, "SET_UP", NULL, set_up },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_PING_RANK, "PING_RANK", &mgmt__ping_rank_req__descriptor, ping },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_PREP_SHUTDOWN, "PREP_SHUTDOWN", &mgmt__prep_shutdown_req__descriptor, prepare },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_GROUP_UPDATE, "GROUP_UPDATE", &mgmt__group_update_req__descriptor, group },
	{ DRPC_MODULE_MGMT, DRPC_MGMT_SET_LOG_MASKS, "SET_LOG_MASKS", &ctl__set_log_masks_req__descriptor, log_masks },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_DESCRIBE, "DESCRIBE", NULL, describe },
	{ DRPC_MODULE_FATHOM, DRPC_FATHOM_STORAGE, "STORAGE", &store__storage_req__descriptor, answer_storage },
};

/* ---- ready ---- */

static void report_ready(struct deadline *deadline);

static void ready_answered(void *ctx, const struct drpc_result *result)
{
	if (result->error || result->status != DRPC_SUCCESS)
		deadline_set(&deadlines, &again, 20 * NS_PER_MS, report_ready);
}

static void report_ready(struct deadline *deadline)
{
	Srv__NotifyReadyReq ready;

	if (has_manner("silent")) {
		deadline_set(&deadlines, &again, 20 * NS_PER_MS, report_ready);
		return;
	}
	if (state == FATHOM__DESCRIBE_RESP__STATE__STARTING)
		state = FATHOM__DESCRIBE_RESP__STATE__READY;
	fill_ready(&ready);
	must(drpc_client_call(client, &(struct drpc_request){
					      .module = DRPC_MODULE_SRV,
					      .method = DRPC_SRV_NOTIFY_READY,
					      .message = &ready.base,
					      .timeout_ns = 5 * NS_PER_SEC,
					      .done = ready_answered,
				      }) == 0);
}

static void begin(void *unused)
{
	struct drpc_server_options options = { .path = own_socket,
					       .methods = methods,
					       .method_count = ARRAY_COUNT(methods) };
	struct drpc_client_options to = { .path = server_socket };
	struct fathom_fault why;

	if (drpc_server_open(&options, &server, &why) != 0 || drpc_client_create(&to, &client, &why) != 0) {
		fprintf(stderr, "%s\n", why.text);
		_exit(9);
	}
	must(deadlines_init(&deadlines, "double") == 0);
	report_ready(NULL);
}

/* ---- main ---- */

static void read_arguments(int argc, char **argv)
{
	static const struct option options[] = { { "instance", 1, NULL, 'i' },	{ "socket-dir", 1, NULL, 'd' },
						 { "uuid", 1, NULL, 'u' },	{ "listen", 1, NULL, 'l' },
						 { "provider", 1, NULL, 'p' },	{ "storage", 1, NULL, 's' },
						 { "name", 1, NULL, 'n' },	{ "rpc-socket", 1, NULL, 'r' },
						 { "log-level", 1, NULL, 'L' }, { "cpumask", 1, NULL, 'm' },
						 { "state", 1, NULL, 'c' },	{ "incarnation-above", 1, NULL, 'I' },
						 { "paranoid", 1, NULL, 'P' },	{ NULL, 0, NULL, 0 } };
	const char *provider = "";
	uint64_t number = 0;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'i')
			must(text_parse_u64(optarg, 10, 99, &number) == 0);
		else if (option == 'd')
			snprintf(dir, sizeof(dir), "%s", optarg);
		else if (option == 'u')
			snprintf(uuid, sizeof(uuid), "%s", optarg);
		else if (option == 's')
			snprintf(storage, sizeof(storage), "%s", optarg);
		else if (option == 'l')
			snprintf(uri, sizeof(uri), "nvme+tcp://%s", optarg);
		else if (option == 'p')
			provider = optarg;
		else if (option == 'I')
			must(text_parse_u64(optarg, 10, UINT64_MAX - 1, &incarnation_above) == 0);
		else if (option == '?')
			_exit(8);
	}
	must(strcmp(provider, "nvme+tcp") == 0);
	instance_index = (uint32_t)number;
	snprintf(own_socket, sizeof(own_socket), "%s/fathom_engine%u.sock", dir, instance_index);
	snprintf(server_socket, sizeof(server_socket), "%s/fathom_server.sock", dir);
}

static void be_alone(void)
{
	char path[300];
	int fd;

	snprintf(path, sizeof(path), "%s/lock", storage);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	must(fd >= 0);
	if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
		record_request("TWICE", (uint32_t)getpid());
		_exit(7);
	}
}

static void report_end(int pid)
{
	char path[300];
	FILE *file;

	snprintf(path, sizeof(path), "%s/fathom_engine%u.end", dir, instance_index);
	file = fopen(path, "w");
	must(file);
	fprintf(file, "%d cannot listen on 127.0.0.1 port 4420: Address already in use", pid);
	fclose(file);
}

static void terminate(int signal)
{
	_exit(0);
}

int main(int argc, char **argv)
{
	struct reactor_options options = { .spin_ns = 0 };

	alarm(240);		  /* ends even if the test has ended before */
	signal(SIGSEGV, SIG_DFL); /* a sanitizer would turn it into an exit status */
	read_arguments(argc, argv);
	incarnation = max_u64(clock_realtime_ns(), incarnation_above + 1);
	if (has_manner("env")) {
		extern char **environ;

		for (size_t i = 0; environ[i]; i++)
			printf("%s\n", environ[i]);
		for (int fd = 3; fd < 1024; fd++) {
			if (fcntl(fd, F_GETFD) >= 0)
				printf("fd %d\n", fd);
		}
		for (int i = 1; i < argc; i++)
			printf("arg %s\n", argv[i]);
		printf("session %d\n", getsid(0) == getpid());
		fflush(stdout);
	}
	be_alone();
	record_request("BEGINS", instance_index);
	if (has_manner("exit0"))
		return 0;
	if (has_manner("exit3"))
		return 3;
	if (has_manner("exit4")) {
		report_end(getpid());
		return 4;
	}
	if (has_manner("exit5")) {
		report_end(getpid() + 1);
		return 5;
	}
	if (has_manner("abort"))
		abort();
	signal(SIGTERM, has_manner("no-term") ? SIG_IGN : terminate);
	must(reactors_start(&options) == 0);
	thread_send_msg(thread_control(), begin, NULL);
	reactors_run();
	return 0;
}
