/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control_bench ADDRESS PID FOLDER - a fathom-server's management service with 10,000 members that this program plays:
 * joins, the group map that each of them receives, queries, reports of servers, over one connection and over one for each
 * of a thousand hosts, a storm of events. PID is the server's, for
 * its memory; FOLDER is on the disk where its database is.
 *
 * Beside them, in the same run, the least that each of them can cost: a call that asks nothing, a write of 4 KiB that is
 * on the disk when it is done, packing and reading a query's answer. Lines of JSON, times in microseconds.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/supervisor.h"
#include "base/text.h"
#include "fathom/trace/trace.h"
#include "rpc/grpc/grpc.h"
#include "median.h"
#include "base/observe/trace/points.gen.h"
#include "rpc/proto/fathom.pb-c.h"
#include "rpc/proto/mgmt.pb-c.h"
#include "base/reactor/reactor.h"

enum {
	MEMBERS = 10000,
	AT_ONCE = 64,
	QUERIES = 50,
	EMPTY_CALLS = 500,
	REPORTS = 10000,
	ENGINES_OF_REPORT = 8,
	HOSTS = 1000, /* with a connection of its own each */
	WRITES = 100,
	EVENTS = 50000,
	EVENTS_PER_CALL = 500,
	SINGLE_EVENTS = 10000,
	TIMEOUT_S = 300,
};

static struct {
	const char *address, *folder;
	int pid;
	struct grpc_server *server;	    /* the members' */
	struct grpc_client *client, *admin; /* as another server, as an operator */
	struct grpc_client *hosts[HOSTS];   /* as other servers, each for itself */
	bool is_of_hosts;
	char own_address[GRPC_ADDRESS_BYTES_MAX];
	/* the phase under way */
	uint32_t sent, answered, wanted;
	uint64_t began, map_tick;
	uint32_t map_version, map_engines, map_wanted;
	bool map_waited;
	double times[EMPTY_CALLS];
	size_t query_bytes;
	double pack_us;
} bench;

static void next_phase(void);

static void fail(const char *what, const struct grpc_result *result)
{
	fprintf(stderr, "control_bench: %s: %s\n", what, result ? result->message : "failed");
	exit(1);
}

static void call(struct grpc_client *client, const char *path, const ProtobufCMessage *request,
		 const ProtobufCMessageDescriptor *response, grpc_done_fn done)
{
	if (grpc_client_call(client, &(struct grpc_request){
					     .address = bench.address,
					     .path = path,
					     .message = request,
					     .response = response,
					     .timeout_ns = TIMEOUT_S * NS_PER_SEC,
					     .done = done,
				     }) != 0)
		fail(path, NULL);
}

static void begin(uint32_t wanted)
{
	bench.sent = bench.answered = 0;
	bench.wanted = wanted;
	bench.began = clock_ticks();
}

/* As many calls as may be under way at once; `send` makes one. */
static void keep_sending(void (*send)(void))
{
	while (bench.sent < bench.wanted && bench.sent - bench.answered < AT_ONCE)
		send();
}

static uint64_t memory_kib(const char *field)
{
	char path[64], line[256];
	uint64_t kib = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", bench.pid);
	file = fopen(path, "re");
	must(file);
	while (fgets(line, sizeof(line), file)) {
		if (strncmp(line, field, strlen(field)) == 0)
			kib = strtoull(line + strlen(field), NULL, 10);
	}
	fclose(file);
	return kib;
}

static void print(const char *what, uint32_t count, double us)
{
	printf("{\"what\":\"%s\",\"count\":%u,\"us\":%.1f,\"server_kib\":%" PRIu64 ",\"peak_kib\":%" PRIu64 "}\n", what,
	       count, us, memory_kib("VmRSS:"), memory_kib("VmHWM:"));
	fflush(stdout);
}

/* ---- joins, and the map that follows ---- */

static uint32_t rejoined; /* by how many incarnations the first member is further */

static void send_join(void);

static void joined(void *ctx, const struct grpc_result *result)
{
	const Mgmt__JoinResp *response = (const Mgmt__JoinResp *)result->response;

	if (result->code != GRPC_OK || response->status)
		fail("join", result);
	bench.answered++;
	bench.map_wanted = (uint32_t)max_u64(bench.map_wanted, response->map_version);
	if (bench.answered == bench.wanted)
		next_phase();
	else
		keep_sending(send_join);
}

static void send_join(void)
{
	Mgmt__JoinReq request = MGMT__JOIN_REQ__INIT;
	char uuid[40], uri[64], domain[64];
	uint32_t number = bench.sent++;

	snprintf(uuid, sizeof(uuid), "00000000-0000-4000-8000-%012x", number + 1);
	snprintf(uri, sizeof(uri), "nvme+tcp://10.%u.%u.1:4420", number / 256, number % 256);
	snprintf(domain, sizeof(domain), "/rack%u/node%u", number / 100, number);
	request.sys = "bench-0";
	request.uuid = uuid;
	request.rank = rejoined ? 1 : UINT32_MAX; /* 0 is kept for an engine of the server itself */
	request.uri = uri;
	request.nctxs = 1;
	request.addr = bench.own_address;
	request.srvfaultdomain = domain;
	request.idx = number % 8;
	request.incarnation = 1000 + rejoined;
	call(bench.client, "/mgmt.MgmtSvc/Join", &request.base, &mgmt__join_resp__descriptor, joined);
}

static void group_update(struct grpc_call *grpc_call, const ProtobufCMessage *message)
{
	const Mgmt__GroupUpdateReq *request = (const Mgmt__GroupUpdateReq *)message;
	Mgmt__GroupUpdateResp response = MGMT__GROUP_UPDATE_RESP__INIT;

	bench.map_version = request->map_version;
	bench.map_engines = (uint32_t)request->n_engines;
	bench.map_tick = clock_ticks();
	grpc_reply(grpc_call, &response.base);
	if (bench.map_waited && bench.map_version >= bench.map_wanted) {
		bench.map_waited = false;
		next_phase();
	}
}

/* ---- queries ---- */

static void send_query(void);

static void queried(void *ctx, const struct grpc_result *result)
{
	uint8_t *packed;
	uint64_t tick;

	if (result->code != GRPC_OK)
		fail("query", result);
	bench.times[bench.answered++] = us_since(bench.began);
	if (bench.answered < bench.wanted) {
		send_query();
		return;
	}
	bench.query_bytes = protobuf_c_message_get_packed_size(result->response);
	packed = malloc(bench.query_bytes);
	must(packed);
	tick = clock_ticks();
	must(protobuf_c_message_pack(result->response, packed) == bench.query_bytes);
	protobuf_c_message_free_unpacked(protobuf_c_message_unpack(&mgmt__system_query_resp__descriptor, NULL,
								   bench.query_bytes, packed),
					 NULL);
	bench.pack_us = us_since(tick);
	free(packed);
	next_phase();
}

static void send_query(void)
{
	Mgmt__SystemQueryReq request = MGMT__SYSTEM_QUERY_REQ__INIT;

	request.sys = "bench-0";
	request.state_mask = 0xffff;
	bench.began = clock_ticks();
	call(bench.admin, "/mgmt.MgmtSvc/SystemQuery", &request.base, &mgmt__system_query_resp__descriptor, queried);
}

static void send_empty(void);

static void emptied(void *ctx, const struct grpc_result *result)
{
	if (result->code != GRPC_OK)
		fail("leader query", result);
	bench.times[bench.answered++] = us_since(bench.began);
	if (bench.answered < bench.wanted)
		send_empty();
	else
		next_phase();
}

static void send_empty(void)
{
	Mgmt__LeaderQueryReq request = MGMT__LEADER_QUERY_REQ__INIT;

	request.sys = "bench-0";
	bench.began = clock_ticks();
	call(bench.admin, "/mgmt.MgmtSvc/LeaderQuery", &request.base, &mgmt__leader_query_resp__descriptor, emptied);
}

/* ---- events ---- */

static void fill_event(Shared__RASEvent *event, uint32_t number)
{
	shared__rasevent__init(event);
	event->id = 21; /* device_media_error */
	event->msg = "a block of a device could not be read";
	event->timestamp = "2026-11-22T00:00:00.000000+00:00";
	event->type = 2;
	event->severity = 1;
	event->hostname = "bench";
	event->rank = number % MEMBERS;
	event->incarnation = 1000;
	event->proc_id = number;
}

static void send_batch(void);

static void batch_taken(void *ctx, const struct grpc_result *result)
{
	const Fathom__TakeEventsResp *response = (const Fathom__TakeEventsResp *)result->response;

	if (result->code != GRPC_OK || response->taken != bench.sent)
		fail("events", result);
	bench.answered = bench.sent;
	if (bench.answered < bench.wanted)
		send_batch();
	else
		next_phase();
}

/* One batch after the other, as a spool hands them over. */
static void send_batch(void)
{
	static Fathom__NumberedEvent numbered[EVENTS_PER_CALL], *pointers[EVENTS_PER_CALL];
	static Shared__RASEvent events[EVENTS_PER_CALL];
	Fathom__TakeEventsReq request = FATHOM__TAKE_EVENTS_REQ__INIT;

	for (uint32_t i = 0; i < EVENTS_PER_CALL; i++) {
		fathom__numbered_event__init(&numbered[i]);
		fill_event(&events[i], bench.sent + i);
		numbered[i].number = bench.sent + i + 1;
		numbered[i].event = &events[i];
		pointers[i] = &numbered[i];
	}
	bench.sent += EVENTS_PER_CALL;
	request.sys = "bench-0";
	request.source = "00000000-0000-4000-8000-0000beefbeef";
	request.events = pointers;
	request.n_events = EVENTS_PER_CALL;
	call(bench.client, "/fathom.ControlSvc/TakeEvents", &request.base, &fathom__take_events_resp__descriptor,
	     batch_taken);
}

static void send_single(void);

static void single_taken(void *ctx, const struct grpc_result *result)
{
	if (result->code != GRPC_OK || ((const Shared__ClusterEventResp *)result->response)->status)
		fail("event", result);
	bench.answered++;
	if (bench.answered == bench.wanted)
		next_phase();
	else
		keep_sending(send_single);
}

static void send_single(void)
{
	Shared__ClusterEventReq request = SHARED__CLUSTER_EVENT_REQ__INIT;
	Shared__RASEvent event;

	fill_event(&event, bench.sent);
	request.sequence = ++bench.sent;
	request.event = &event;
	call(bench.client, "/mgmt.MgmtSvc/ClusterEvent", &request.base, &shared__cluster_event_resp__descriptor,
	     single_taken);
}

/* ---- the floor of what is durable ---- */

static double write_floor_us(void)
{
	char path[512], block[4096] = { 0 };
	double times[WRITES], us;
	int fd;

	snprintf(path, sizeof(path), "%s/floor", bench.folder);
	fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	must(fd >= 0);
	for (uint32_t i = 0; i < WRITES; i++) {
		uint64_t tick = clock_ticks();

		must(pwrite(fd, block, sizeof(block), (off_t)i * (off_t)sizeof(block)) == (ssize_t)sizeof(block));
		must(fdatasync(fd) == 0);
		times[i] = us_since(tick);
	}
	close(fd);
	unlink(path);
	us = median(times, WRITES);
	return us;
}

/* ---- how engines are, as each server says it every so often ---- */

static void send_report(void);

static void reported(void *ctx, const struct grpc_result *result)
{
	if (result->code != GRPC_OK)
		fail("report", result);
	if (++bench.answered == bench.wanted)
		next_phase();
	else
		keep_sending(send_report);
}

/* Of a server with eight engines that have not changed; one more, that is looked for, so that the others are not missed. */
static void send_report(void)
{
	Fathom__ReportEnginesReq request = FATHOM__REPORT_ENGINES_REQ__INIT;
	Fathom__ReportEnginesReq__Engine engines[ENGINES_OF_REPORT + 1], *places[ENGINES_OF_REPORT + 1];
	char uuids[ENGINES_OF_REPORT][40];
	uint32_t number = bench.sent++;

	request.sys = "bench-0";
	request.addr = bench.own_address;
	request.engines = places;
	for (uint32_t i = 0; i <= ENGINES_OF_REPORT; i++) {
		uint32_t engine = (number * ENGINES_OF_REPORT + i) % MEMBERS;

		fathom__report_engines_req__engine__init(&engines[i]);
		engines[i].index = i;
		engines[i].rank = UINT32_MAX;
		engines[i].state = "unknown";
		if (i < ENGINES_OF_REPORT) {
			snprintf(uuids[i], sizeof(uuids[i]), "00000000-0000-4000-8000-%012x", engine + 1);
			engines[i].uuid = uuids[i];
			engines[i].rank = engine + 1;
			engines[i].incarnation = 1000 + rejoined;
			engines[i].state = "joined";
		}
		places[request.n_engines++] = &engines[i];
	}
	call(bench.is_of_hosts ? bench.hosts[number % HOSTS] : bench.client, "/fathom.ControlSvc/ReportEngines",
	     &request.base, &fathom__report_engines_resp__descriptor, reported);
}

static void open_hosts(void)
{
	struct grpc_client_options options = { .role = GRPC_ROLE_SERVER };
	struct fathom_fault why;

	for (int i = 0; i < HOSTS; i++) {
		if (grpc_client_create(&options, &bench.hosts[i], &why) == 0)
			continue;
		fprintf(stderr, "control_bench: %s\n", why.text);
		exit(1);
	}
	bench.is_of_hosts = true;
}

/* ---- one after the other ---- */

static void wait_for_map(void)
{
	bench.map_waited = true;
	if (bench.map_version >= bench.map_wanted) {
		bench.map_waited = false;
		next_phase();
	}
}

static void next_phase(void)
{
	static int phase;
	double us = us_since(bench.began);

	switch (phase++) {
	case 0:
		begin(MEMBERS);
		keep_sending(send_join);
		break;
	case 1:
		print("joins", MEMBERS, us);
		bench.began = clock_ticks();
		wait_for_map();
		break;
	case 2: /* one that comes again: the least change of a large map */
		rejoined = 1;
		begin(1);
		send_join();
		break;
	case 3:
		print("rejoin", 1, us);
		wait_for_map();
		break;
	case 4:
		must(bench.map_engines == MEMBERS);
		print("group update", 1, us_since(bench.began));
		begin(QUERIES);
		send_query();
		break;
	case 5:
		print("query", 1, median(bench.times, QUERIES));
		printf("{\"what\":\"query floor\",\"bytes\":%zu,\"us\":%.1f}\n", bench.query_bytes, bench.pack_us);
		begin(EMPTY_CALLS);
		send_empty();
		break;
	case 6:
		print("empty call", 1, median(bench.times, EMPTY_CALLS));
		begin(REPORTS);
		keep_sending(send_report);
		break;
	case 7:
		print("reports", REPORTS, us);
		open_hosts();
		begin(HOSTS);
		keep_sending(send_report);
		break;
	case 8:
		print("first reports of hosts", HOSTS, us);
		begin(REPORTS);
		keep_sending(send_report);
		break;
	case 9:
		print("reports of hosts", REPORTS, us);
		for (int i = 0; i < HOSTS; i++)
			must(grpc_client_stats(bench.hosts[i]).connections_total == 1); /* no client had to reconnect */
		begin(EVENTS);
		send_batch();
		break;
	case 10:
		print("events of a spool", EVENTS, us);
		begin(SINGLE_EVENTS);
		keep_sending(send_single);
		break;
	default:
		print("events one by one", SINGLE_EVENTS, us);
		printf("{\"what\":\"durable write\",\"us\":%.1f}\n", write_floor_us());
		reactors_request_stop();
	}
}

static const struct grpc_method methods[] = {
	{ "/fathom.ControlSvc/GroupUpdate", &mgmt__group_update_req__descriptor, &mgmt__group_update_resp__descriptor,
	  GRPC_ROLE_SERVER, group_update },
};

static void start(void *ctx)
{
	struct grpc_server_options server = { .address = "127.0.0.1:0",
					      .methods = methods,
					      .method_count = ARRAY_COUNT(methods) };
	struct grpc_client_options client = { .role = GRPC_ROLE_SERVER }, admin = { .role = GRPC_ROLE_ADMIN };
	struct fathom_fault why;

	if (grpc_server_open(&server, &bench.server, &why) != 0 || grpc_client_create(&client, &bench.client, &why) != 0 ||
	    grpc_client_create(&admin, &bench.admin, &why) != 0) {
		fprintf(stderr, "control_bench: %s\n", why.text);
		exit(1);
	}
	snprintf(bench.own_address, sizeof(bench.own_address), "127.0.0.1:%u", grpc_server_port(bench.server));
	next_phase();
}

int main(int argc, char **argv)
{
	struct reactor_options options = { 0 };
	uint64_t pid;

	if (argc != 4 || text_parse_u64(argv[2], 10, INT32_MAX, &pid) != 0) {
		fprintf(stderr, "usage: control-bench ADDRESS PID FOLDER\n");
		return 2;
	}
	bench.address = argv[1];
	bench.pid = (int)pid;
	bench.folder = argv[3];
	supervisor_raise_descriptor_limit();
	trace_schema_set(&fathom_server_schema);
	must(reactors_start(&options) == 0);
	thread_send_msg(thread_control(), start, NULL);
	reactors_run();
	return 0;
}
