/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The management service runs in a child process and is killed 100 times at random instants, while engines join and servers
 * report events. Acknowledged ranks and events must be stored, each once and in order. An engine that joins again must keep
 * its rank.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/random.h"
#include "fixture.h"

enum { KILLS = 100, RUN_US_MAX = 40000, ENGINES_MAX = 8192, PIECE = 8 };
#define SOURCE "11111111-1111-4111-8111-111111111111"

static pid_t child;
static uint32_t ranks[ENGINES_MAX]; /* ranks of engines whose join was acknowledged */
static uint32_t joined;
static uint64_t acknowledged; /* number of the last acknowledged event */
static struct random chance;

/* ---- the process that is killed ---- */

static int serve(const char *path, int fd)
{
	struct reactor_options none = { .simulated = false };
	uint16_t port;

	snprintf(fixture.path, sizeof(fixture.path), "%s", path);
	fixture.join_wait_ns = NS_PER_MS;
	control_start(&none);
	must(on_control(open_all, NULL) == 0);
	port = grpc_server_port(fixture.server);
	must(write(fd, &port, sizeof(port)) == sizeof(port));
	for (;;)
		pause();
}

static void start_server(void)
{
	uint16_t port;
	char fd_text[16];
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	snprintf(fd_text, sizeof(fd_text), "%d", fds[1]);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(fds[0]);
		execl("/proc/self/exe", "test_killed", fixture.path, fd_text, (char *)NULL);
		_exit(1);
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &port, sizeof(port)), sizeof(port));
	close(fds[0]);
	snprintf(fixture.address, sizeof(fixture.address), "127.0.0.1:%u", port);
}

/* ---- the parent, which kills it ---- */

static void *kill_later(void *pause_us)
{
	usleep((useconds_t)(uintptr_t)pause_us);
	must(kill(child, SIGKILL) == 0);
	return NULL;
}

/* Engine `number` joins; it must keep a rank that it has. False: the service was killed before it answered. */
static bool join_one(uint32_t number)
{
	const Mgmt__JoinResp *response;
	struct joining joining;
	struct question *question;

	must(number < ENGINES_MAX);
	fill_join(&joining, number, 100);
	joining.request.addr = (char *)"127.0.0.1:10001";
	question = ask_join(&joining);
	if (question->code != GRPC_OK) {
		assert_true(question->why.error != -EREMOTEIO);
		return false;
	}
	response = (const Mgmt__JoinResp *)question->response;
	if (number < joined)
		assert_int_equal(response->rank, ranks[number]);
	ranks[number] = response->rank;
	if (number == joined)
		joined++;
	return true;
}

static bool report_events(void)
{
	Fathom__TakeEventsReq request = FATHOM__TAKE_EVENTS_REQ__INIT;
	Fathom__NumberedEvent events[PIECE], *places[PIECE];
	static struct ras_event bodies[PIECE];
	struct question *question;
	uint64_t taken;

	for (uint64_t i = 0; i < PIECE; i++) {
		ras_event_init(&bodies[i], RAS_DEVICE_PLUGGED, "%llu", (unsigned long long)(acknowledged + i + 1));
		fathom__numbered_event__init(&events[i]);
		events[i].number = acknowledged + i + 1;
		events[i].event = &bodies[i].message;
		places[i] = &events[i];
	}
	request.source = (char *)SOURCE;
	request.n_events = PIECE;
	request.events = places;
	question = ask(fixture.member, "/fathom.ControlSvc/TakeEvents", &request.base,
		       &fathom__take_events_resp__descriptor);
	if (question->code != GRPC_OK)
		return false;
	taken = ((const Fathom__TakeEventsResp *)question->response)->taken;
	assert_int_equal(taken, acknowledged + PIECE);
	acknowledged = taken;
	return true;
}

static void run_and_kill(void)
{
	uintptr_t pause_us = (uintptr_t)random_below(&chance, RUN_US_MAX);
	pthread_t killer;
	bool goes_on = true;
	int status;

	start_server();
	assert_int_equal(pthread_create(&killer, NULL, kill_later, (void *)pause_us), 0);
	while (goes_on) {
		goes_on = join_one(joined) && report_events();
		if (goes_on && random_below(&chance, 4) == 0)
			goes_on = join_one((uint32_t)random_below(&chance, joined));
	}
	assert_int_equal(pthread_join(killer, NULL), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* ---- after the kills ---- */

static void assert_members_stored(void)
{
	const struct system *system = mgmt_system(fixture.mgmt);

	/* the last join before a kill may be stored without an acknowledgement; the same engine joined next */
	assert_true(system_member_count(system) == joined || system_member_count(system) == joined + 1);
	for (uint32_t i = 0; i < joined; i++) {
		char text[MEMBER_UUID_TEXT_BYTES];
		uint8_t uuid[MEMBER_UUID_BYTES];

		write_uuid(i, text);
		assert_int_equal(member_uuid_parse(text, uuid), 0);
		assert_non_null(system_member_by_uuid(system, uuid));
		assert_int_equal(system_member_by_uuid(system, uuid)->rank, ranks[i]);
	}
	for (size_t i = 1; i < system_member_count(system); i++)
		assert_true(system_member_at(system, i - 1)->rank < system_member_at(system, i)->rank);
}

static void assert_events_stored(void)
{
	uint64_t last = 0, reported = 0; /* `last` counts also the events that joins raise */

	for (;;) {
		Fathom__SystemEventsReq request = FATHOM__SYSTEM_EVENTS_REQ__INIT;
		const Fathom__SystemEventsResp *response;

		request.after = last;
		response = answer_of(ask(fixture.admin, "/fathom.ControlSvc/SystemEvents", &request.base,
					 &fathom__system_events_resp__descriptor));
		if (response->n_events == 0)
			break;
		for (size_t i = 0; i < response->n_events; i++) {
			unsigned long long number;

			assert_int_equal(response->events[i]->number, ++last);
			if (response->events[i]->event->id != RAS_DEVICE_PLUGGED)
				continue;
			assert_int_equal(sscanf(response->events[i]->event->msg, "%llu", &number), 1);
			assert_int_equal(number, ++reported);
		}
	}
	assert_true(reported == acknowledged || reported == acknowledged + PIECE);
}

static void acknowledged_joins_and_events_survive_every_kill(void **state)
{
	for (int round = 0; round < KILLS; round++)
		run_and_kill();
	print_message("# %u ranks, %llu events\n", joined, (unsigned long long)acknowledged);
	assert_true(joined > KILLS / 4);
	snprintf(fixture.address, sizeof(fixture.address), "127.0.0.1:%u", grpc_server_port(fixture.server));
	assert_int_equal(on_control(open_mgmt, NULL), 0);
	assert_members_stored();
	assert_events_stored();
}

static int setup_without_service(void **state)
{
	int error = fixture_begin(state);

	/* this process opens the database only at the end; until then the child processes do */
	on_control(close_mgmt, NULL);
	random_init(&chance, 17);
	return error;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(acknowledged_joins_and_events_survive_every_kill, setup_without_service,
						fixture_end),
	};

	if (argc == 3)
		return serve(argv[1], (int)strtol(argv[2], NULL, 10));
	return cmocka_run_group_tests_name("control mgmt killed", tests, NULL, NULL);
}
