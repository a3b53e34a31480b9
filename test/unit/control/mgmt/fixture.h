/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fixture - the management service behind a real gRPC server, fake servers of members, and a client, all on the control
 * reactor. The test calls from its own pthread.
 *
 *     fixture_begin() -> ask(...), answer_of(...) -> fixture_end()
 */
#ifndef TEST_UNIT_CONTROL_MGMT_FIXTURE_H
#define TEST_UNIT_CONTROL_MGMT_FIXTURE_H

#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "control/db/sqlite.h"
#include "control/fault/fault.h"
#include "control/mgmt/mgmt.h"
#include "control/status/status.h"
#include "rpc/proto/ctl.pb-c.h"
#include "rpc/proto/fathom.pb-c.h"
#include "rpc/ras/event.h"

#include "../../control_thread.h"
#include "fake_storage.h"

enum { FAKES = 8, HELD_MAX = 64 };

/* How a fake server of a member answers a call. */
enum fake_way { FAKE_ANSWERS, FAKE_REFUSES, FAKE_HANGS, FAKE_ERRS, FAKE_IS_SILENT, FAKE_ANSWERS_FOR_OTHERS };

struct fake {
	struct grpc_server *server; /* NULL: killed */
	char address[GRPC_ADDRESS_BYTES_MAX];
	enum fake_way way, map_way;
	uint32_t map_version, map_engines, map_calls;
	bool map_went_back;			     /* an older map arrived after a newer one */
	uint32_t prepared, stopped, started, erased; /* numbers of calls */
	bool was_forced, was_checker;
	char ranks[64]; /* in the latest call */
	bool was_unranked;
	uint32_t unranked; /* engines without a rank; the fake server reports them if the call includes them */
	uint32_t new_rank; /* the rank that the first of them gets; 0: none */
	struct fake_storage storage;
	struct grpc_call *held[HELD_MAX];
	size_t held_count;
};

static struct {
	char folder[64], path[96];
	struct db *db;
	struct mgmt *mgmt;
	struct mgmt_of_call of_call;
	struct grpc_server *server;
	struct grpc_client *to_members, *admin, *member, *agent;
	char address[GRPC_ADDRESS_BYTES_MAX];
	const char *replicas[1];
	struct fake fakes[FAKES];
	uint64_t join_wait_ns, rank_timeout_ns, heartbeat_ns;
	uint64_t storage_timeout_ns, storage_read_ns, storage_patience_ns;
	uint32_t joins_max;
	bool has_certificates;	  /* what agents' credentials are checked by */
	const char *certificates; /* their folder; NULL: none */
	uint64_t events_max;
	bool is_new_system;
	const char *name, *provider, *version;
	void (*after_storage)(void); /* after each call of a fake storage; NULL: none */
} fixture = { .name = "fathom", .provider = "nvme+tcp", .version = "0.4.0" };

/* Above 0: the test's own code runs on the control reactor. Calls fail only in the code under test. */
static int fixture_works;

/* ---- the doubles ---- */

static inline void fake_hold(struct fake *fake, struct grpc_call *call)
{
	must(fake->held_count < HELD_MAX);
	fake->held[fake->held_count++] = call;
}

static inline void fake_answer_ranks(struct grpc_call *call, const Ctl__RanksReq *request, const char *state)
{
	struct fake *fake = grpc_call_ctx(call);
	Ctl__RanksResp response = CTL__RANKS_RESP__INIT;
	Shared__RankResult results[64], *places[64];
	struct rank_set ranks = { 0 };

	snprintf(fake->ranks, sizeof(fake->ranks), "%s", request->ranks);
	fake->was_forced = request->force;
	fake->was_checker = request->check_mode;
	fake->was_unranked = request->unranked;
	if (fake->way == FAKE_REFUSES) {
		grpc_fail(call, GRPC_UNKNOWN, NULL, "not now");
		return;
	}
	if (fake->way == FAKE_HANGS) {
		fake_hold(fake, call);
		return;
	}
	fixture_works++;
	must(rank_set_parse(request->ranks, &ranks, NULL) == 0);
	fixture_works--;
	must(ranks.count <= ARRAY_COUNT(results));
	for (size_t i = 0; fake->way != FAKE_IS_SILENT && i < ranks.count; i++) {
		shared__rank_result__init(&results[i]);
		results[i].rank = ranks.ranks[i] + (fake->way == FAKE_ANSWERS_FOR_OTHERS ? 1000 : 0);
		results[i].errored = fake->way == FAKE_ERRS;
		results[i].msg = (char *)(fake->way == FAKE_ERRS ? "it would not" : "");
		results[i].state = (char *)(fake->way == FAKE_ERRS ? "errored" : state);
		places[response.n_results++] = &results[i];
	}
	for (uint32_t i = 0; request->unranked && i < fake->unranked; i++) {
		Shared__RankResult *result = &results[response.n_results];

		shared__rank_result__init(result);
		result->rank = i == 0 && fake->new_rank ? fake->new_rank : RANK_NONE;
		result->errored = fake->way == FAKE_ERRS;
		result->msg = (char *)(fake->way == FAKE_ERRS ? "it would not" : "");
		result->state = (char *)state;
		places[response.n_results++] = result;
	}
	response.results = places;
	rank_set_deinit(&ranks);
	grpc_reply(call, &response.base);
}

static inline void fake_prepare(struct grpc_call *call, const ProtobufCMessage *request)
{
	((struct fake *)grpc_call_ctx(call))->prepared++;
	fake_answer_ranks(call, (const Ctl__RanksReq *)request, "stopping");
}

static inline void fake_stop(struct grpc_call *call, const ProtobufCMessage *request)
{
	((struct fake *)grpc_call_ctx(call))->stopped++;
	fake_answer_ranks(call, (const Ctl__RanksReq *)request, "stopped");
}

static inline void fake_start(struct grpc_call *call, const ProtobufCMessage *request)
{
	((struct fake *)grpc_call_ctx(call))->started++;
	fake_answer_ranks(call, (const Ctl__RanksReq *)request, "ready");
}

static inline void fake_erase(struct grpc_call *call, const ProtobufCMessage *request)
{
	((struct fake *)grpc_call_ctx(call))->erased++;
	fake_answer_ranks(call, (const Ctl__RanksReq *)request, "awaitformat");
}

static inline void fake_map(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Mgmt__GroupUpdateReq *update = (const Mgmt__GroupUpdateReq *)request;
	Mgmt__GroupUpdateResp response = MGMT__GROUP_UPDATE_RESP__INIT;
	struct fake *fake = grpc_call_ctx(call);

	fake->map_calls++;
	if (fake->map_way == FAKE_HANGS) {
		fake_hold(fake, call);
		return;
	}
	if (fake->map_way == FAKE_REFUSES) {
		grpc_fail(call, GRPC_UNAVAILABLE, NULL, "not now");
		return;
	}
	if (fake->map_way == FAKE_ERRS) {
		response.status = -1;
	} else {
		fake->map_went_back |= update->map_version < fake->map_version;
		fake->map_version = update->map_version;
		fake->map_engines = (uint32_t)update->n_engines;
	}
	grpc_reply(call, &response.base);
}

static inline void fake_store(struct grpc_call *call, const ProtobufCMessage *request)
{
	const Store__StorageReq *asked = (const Store__StorageReq *)request;
	struct fake *fake = grpc_call_ctx(call);
	static struct fake_answer answer;
	int error;

	if (asked->action == STORE__ACTION__LIST ? fake->storage.lists_hang : fake->storage.hangs) {
		fake_hold(fake, call);
		return;
	}
	fixture_works++;
	error = fake_storage_do(&fake->storage, asked);
	if (asked->action != STORE__ACTION__LIST && fake->storage.lost > 0) {
		fake->storage.lost--;
		grpc_fail(call, GRPC_UNAVAILABLE, NULL, "the answer is lost");
		fixture_works--;
		return;
	}
	if (fixture.after_storage)
		fixture.after_storage();
	fake_fill_answer(&fake->storage, error, &answer);
	if (!error)
		fake_fill_move(&fake->storage, asked, &answer.message);
	grpc_reply(call, &answer.message.base);
	fixture_works--;
}

static const struct grpc_method fake_methods[] = {
	{ "/fathom.ControlSvc/Storage", &store__storage_req__descriptor, &store__storage_resp__descriptor, GRPC_ROLE_SERVER,
	  fake_store },
	{ "/ctl.CtlSvc/PrepShutdownRanks", &ctl__ranks_req__descriptor, &ctl__ranks_resp__descriptor, GRPC_ROLE_SERVER,
	  fake_prepare },
	{ "/ctl.CtlSvc/StopRanks", &ctl__ranks_req__descriptor, &ctl__ranks_resp__descriptor, GRPC_ROLE_SERVER, fake_stop },
	{ "/ctl.CtlSvc/StartRanks", &ctl__ranks_req__descriptor, &ctl__ranks_resp__descriptor, GRPC_ROLE_SERVER,
	  fake_start },
	{ "/ctl.CtlSvc/ResetFormatRanks", &ctl__ranks_req__descriptor, &ctl__ranks_resp__descriptor, GRPC_ROLE_SERVER,
	  fake_erase },
	{ "/fathom.ControlSvc/GroupUpdate", &mgmt__group_update_req__descriptor, &mgmt__group_update_resp__descriptor,
	  GRPC_ROLE_SERVER, fake_map },
};

static inline int fake_open(struct fake *fake)
{
	struct grpc_server_options options = { .address = fake->address[0] ? fake->address : "127.0.0.1:0",
					       .methods = fake_methods,
					       .method_count = ARRAY_COUNT(fake_methods),
					       .message_bytes_max = MGMT_MAP_BYTES_MAX,
					       .ctx = fake };
	int error = grpc_server_open(&options, &fake->server, NULL);

	if (!error)
		snprintf(fake->address, sizeof(fake->address), "127.0.0.1:%u", grpc_server_port(fake->server));
	return error;
}

static inline void fake_release(struct fake *fake)
{
	for (size_t i = 0; i < fake->held_count; i++)
		grpc_fail(fake->held[i], GRPC_CANCELLED, NULL, "released");
	fake->held_count = 0;
}

static inline int fake_kill(void *ctx)
{
	struct fake *fake = ctx;

	fake_release(fake);
	grpc_server_close(fake->server);
	fake->server = NULL;
	return 0;
}

static inline int fake_revive(void *ctx)
{
	return fake_open(ctx);
}

/* ---- opening and closing ---- */

static inline int open_mgmt(void *unused)
{
	struct mgmt_options options = { .name = fixture.name,
					.version = fixture.version,
					.provider = fixture.provider,
					.address = fixture.address,
					.replicas = fixture.replicas,
					.replica_count = 1,
					.client = fixture.to_members,
					.database = fixture.path,
					.is_new_system = fixture.is_new_system,
					.events_max = (uint32_t)fixture.events_max,
					.join_wait_ns = fixture.join_wait_ns,
					.rank_timeout_ns = fixture.rank_timeout_ns,
					.heartbeat_ns = fixture.heartbeat_ns,
					.storage_timeout_ns = fixture.storage_timeout_ns,
					.storage_read_ns = fixture.storage_read_ns,
					.storage_patience_ns = fixture.storage_patience_ns,
					.net_dev_class = 772,
					.joins_max = fixture.joins_max,
					.credentials = { .is_insecure = !fixture.has_certificates,
							 .folder = fixture.certificates } };
	struct fathom_fault why = { 0 };
	int error = db_open_sqlite(fixture.path, &fixture.db, &why);

	options.db = fixture.db;
	if (!error)
		error = mgmt_open(&options, &fixture.mgmt, &why);
	if (error)
		fprintf(stderr, "# %s\n", why.text);
	fixture.of_call.mgmt = fixture.mgmt;
	return error;
}

static inline int close_mgmt(void *unused)
{
	mgmt_close(fixture.mgmt);
	db_close(fixture.db);
	fixture.of_call.mgmt = fixture.mgmt = NULL;
	return 0;
}

static inline int open_client_of(enum grpc_role role, const char *version, struct grpc_client **client_ret)
{
	struct grpc_client_options options = { .role = role, .version = version };

	return grpc_client_create(&options, client_ret, NULL);
}

static inline int open_client(enum grpc_role role, struct grpc_client **client_ret)
{
	return open_client_of(role, fixture.version, client_ret);
}

static inline int open_all(void *unused)
{
	struct grpc_server_options options = { .address = "127.0.0.1:0",
					       .methods = mgmt_methods,
					       .method_count = mgmt_method_count,
					       .ctx = &fixture.of_call };

	must(grpc_server_open(&options, &fixture.server, NULL) == 0);
	snprintf(fixture.address, sizeof(fixture.address), "127.0.0.1:%u", grpc_server_port(fixture.server));
	must(open_client(GRPC_ROLE_SERVER, &fixture.to_members) == 0);
	must(open_client(GRPC_ROLE_SERVER, &fixture.member) == 0);
	must(open_client(GRPC_ROLE_ADMIN, &fixture.admin) == 0);
	must(open_client(GRPC_ROLE_AGENT, &fixture.agent) == 0);
	for (size_t i = 0; i < FAKES; i++) {
		memset(&fixture.fakes[i], 0, sizeof(fixture.fakes[i]));
		fixture.fakes[i].storage.total_bytes = fixture.fakes[i].storage.free_bytes = 1ull << 40;
		must(fake_open(&fixture.fakes[i]) == 0);
	}
	/* the first fake server is the first management host */
	fixture.replicas[0] = fixture.fakes[0].address;
	fixture.of_call.replicas = fixture.replicas;
	fixture.of_call.replica_count = 1;
	return open_mgmt(NULL);
}

static inline int close_all(void *unused)
{
	close_mgmt(NULL);
	for (size_t i = 0; i < FAKES; i++)
		fake_kill(&fixture.fakes[i]);
	grpc_client_destroy(fixture.to_members);
	grpc_client_destroy(fixture.member);
	grpc_client_destroy(fixture.admin);
	grpc_client_destroy(fixture.agent);
	grpc_server_close(fixture.server);
	return 0;
}

static inline int fixture_begin(void **state)
{
	struct reactor_options none = { .simulated = false };

	snprintf(fixture.folder, sizeof(fixture.folder), "/tmp/fathom-mgmt-XXXXXX");
	must(mkdtemp(fixture.folder));
	snprintf(fixture.path, sizeof(fixture.path), "%s/system.db", fixture.folder);
	fixture.join_wait_ns = 2 * NS_PER_MS;
	control_start(&none);
	return on_control(open_all, NULL);
}

static inline int fixture_end(void **state)
{
	static const char *const ends[] = { "", "-wal", "-shm" };
	char path[128];

	on_control(close_all, NULL);
	control_stop();
	for (size_t i = 0; i < ARRAY_COUNT(ends); i++) {
		snprintf(path, sizeof(path), "%s%s", fixture.path, ends[i]);
		unlink(path);
	}
	rmdir(fixture.folder);
	fixture.is_new_system = false;
	fixture.joins_max = 0;
	fixture.has_certificates = false;
	fixture.certificates = NULL;
	fixture.rank_timeout_ns = fixture.events_max = fixture.heartbeat_ns = 0;
	fixture.storage_timeout_ns = fixture.storage_read_ns = fixture.storage_patience_ns = 0;
	return 0;
}

static inline void reopen_mgmt(void)
{
	assert_int_equal(on_control(close_mgmt, NULL), 0);
	assert_int_equal(on_control(open_mgmt, NULL), 0);
}

/* ---- asking ---- */

/* A call that the test makes, and its result. */
struct question {
	struct grpc_client *client;
	const char *path;
	const ProtobufCMessage *request;
	const ProtobufCMessageDescriptor *descriptor;
	enum grpc_code code;
	char message[GRPC_TEXT_BYTES_MAX];
	struct fathom_fault why;
	struct status_redirect redirect;
	ProtobufCMessage *response; /* a copy */
	uint64_t timeout_ns;	    /* 0: a minute */
	sem_t done;
};

static inline void question_done(void *ctx, const struct grpc_result *result)
{
	struct question *question = ctx;

	fixture_works++;
	question->code = result->code;
	snprintf(question->message, sizeof(question->message), "%s", result->message);
	if (result->code == GRPC_OK) {
		size_t bytes = protobuf_c_message_get_packed_size(result->response);
		uint8_t *packed = malloc(bytes + 1);

		must(packed);
		must(protobuf_c_message_pack(result->response, packed) == bytes);
		question->response = protobuf_c_message_unpack(question->descriptor, NULL, bytes, packed);
		free(packed);
	} else {
		fault_from_result(result, fixture.address, &question->why);
		if (status_redirect(result, &question->redirect) < 0)
			question->redirect.replica_count = 0;
	}
	fixture_works--;
	sem_post(&question->done);
}

static inline int question_start(void *ctx)
{
	struct question *question = ctx;

	int error;

	fixture_works++;
	error = grpc_client_call(question->client,
				 &(struct grpc_request){
					 .address = fixture.address,
					 .path = question->path,
					 .message = question->request,
					 .response = question->descriptor,
					 .timeout_ns = question->timeout_ns ? question->timeout_ns : 60 * NS_PER_SEC,
					 .done = question_done,
					 .ctx = question,
				 });
	fixture_works--;
	return error;
}

/* `question` must be zeroed, and lent until question_wait(). */
static inline void ask_begin(struct question *question, struct grpc_client *client, const char *path,
			     const ProtobufCMessage *request, const ProtobufCMessageDescriptor *descriptor)
{
	question->client = client;
	question->path = path;
	question->request = request;
	question->descriptor = descriptor;
	sem_init(&question->done, 0, 0);
	assert_int_equal(on_control(question_start, question), 0);
}

static inline void question_wait(struct question *question)
{
	while (sem_wait(&question->done))
		;
	sem_destroy(&question->done);
}

static inline void question_end(struct question *question)
{
	if (question->response)
		protobuf_c_message_free_unpacked(question->response, NULL);
	question->response = NULL;
}

/* Call and wait. The next ask() frees the answer of this one. */
static inline struct question *ask(struct grpc_client *client, const char *path, const ProtobufCMessage *request,
				   const ProtobufCMessageDescriptor *descriptor)
{
	static struct question question;

	question_end(&question);
	memset(&question, 0, sizeof(question));
	ask_begin(&question, client, path, request, descriptor);
	question_wait(&question);
	return &question;
}

#define ADMIN_ASK(method, request, stem)                                                                                   \
	ask(fixture.admin, "/mgmt.MgmtSvc/" method, &(request).base, &mgmt__##stem##_resp__descriptor)

static inline const void *answer_of(const struct question *question)
{
	if (question->code != GRPC_OK)
		fail_msg("%s: status %d, %s", question->path, (int)question->code, question->message);
	return question->response;
}

/* ---- common requests ---- */

static inline void write_uuid(uint32_t number, char *uuid)
{
	snprintf(uuid, MEMBER_UUID_TEXT_BYTES, "%08x-0000-4000-8000-000000000001", number);
}

struct joining {
	Mgmt__JoinReq request;
	char uuid[MEMBER_UUID_TEXT_BYTES], uri[64];
};

/* Engine `number`, on the fake server `number % FAKES`. */
static inline void fill_join(struct joining *joining, uint32_t number, uint64_t incarnation)
{
	mgmt__join_req__init(&joining->request);
	write_uuid(number, joining->uuid);
	snprintf(joining->uri, sizeof(joining->uri), "%s://127.0.0.1:%u", fixture.provider, 20000 + number);
	joining->request.sys = (char *)"fathom-0.4.0";
	joining->request.uuid = joining->uuid;
	joining->request.rank = UINT32_MAX;
	joining->request.uri = joining->uri;
	joining->request.nctxs = 3;
	joining->request.addr = fixture.fakes[number % FAKES].address;
	joining->request.srvfaultdomain = (char *)"/rack0/node0";
	joining->request.idx = number / FAKES;
	joining->request.incarnation = incarnation;
}

static inline struct question *ask_join(const struct joining *joining)
{
	return ask(fixture.member, "/mgmt.MgmtSvc/Join", &joining->request.base, &mgmt__join_resp__descriptor);
}

static inline const Mgmt__JoinResp *join(uint32_t number, uint64_t incarnation)
{
	struct joining joining;

	fill_join(&joining, number, incarnation);
	return answer_of(ask_join(&joining));
}

static inline void join_many(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		(void)join(i, 100);
}

static inline const Mgmt__SystemQueryResp *query(void)
{
	Mgmt__SystemQueryReq request = MGMT__SYSTEM_QUERY_REQ__INIT;

	request.sys = (char *)"fathom-0.4.0";
	request.state_mask = 0xffff;
	return answer_of(ADMIN_ASK("SystemQuery", request, system_query));
}

static inline uint32_t count_events(uint32_t id, char *message, size_t bytes)
{
	Fathom__SystemEventsReq request = FATHOM__SYSTEM_EVENTS_REQ__INIT;
	const Fathom__SystemEventsResp *response;
	uint32_t count = 0;

	response = answer_of(ask(fixture.admin, "/fathom.ControlSvc/SystemEvents", &request.base,
				 &fathom__system_events_resp__descriptor));
	for (size_t i = 0; i < response->n_events; i++) {
		if (response->events[i]->event->id != id)
			continue;
		snprintf(message, bytes, "%s", response->events[i]->event->msg);
		count++;
	}
	return count;
}

static inline const char *state_of_rank(uint32_t rank)
{
	const Mgmt__SystemQueryResp *response = query();

	for (size_t i = 0; i < response->n_members; i++) {
		if (response->members[i]->rank == rank)
			return response->members[i]->state;
	}
	return "gone";
}

struct waited {
	bool (*is_so)(void *ctx);
	void *ctx;
};

static inline int evaluate_condition(void *ctx)
{
	struct waited *waited = ctx;

	return waited->is_so(waited->ctx);
}

/* Wait until `is_so`, called on the control thread, returns true. */
static inline void wait_until(bool (*is_so)(void *ctx), void *ctx)
{
	struct waited waited = { is_so, ctx };

	for (int i = 0; i < 120000; i++) {
		if (on_control(evaluate_condition, &waited))
			return;
		usleep(500);
	}
	fail_msg("the condition did not hold within 60 s");
}

static inline bool all_have_the_map(void *unused)
{
	return mgmt_stats(fixture.mgmt).map_behind == 0;
}

#endif
