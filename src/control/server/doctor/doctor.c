/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/server/doctor/doctor.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/json/json_memory.h"
#include "control/server/core/probes.gen.h"
#include "control/server/doctor/internal.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

/* ---- waiting calls ---- */

static void reply_callers(struct server_doctor *doctor)
{
	struct doctor_caller *caller;

	while ((caller = TAILQ_FIRST(&doctor->callers))) {
		struct arena arena = { 0 };

		TAILQ_REMOVE(&doctor->callers, caller, link);
		if (doctor->why.error)
			call_fail(caller->call, &doctor->why);
		else
			grpc_reply(caller->call, doctor_answer(doctor->report, &arena));
		arena_free(&arena);
		free(caller);
	}
}

static void begin_look(struct server_doctor *doctor)
{
	must(doctor->run.pid == 0);
	must(!doctor->is_leaving);
	doctor->began_ns = clock_realtime_ns();
	doctor->server->stats.doctor_looks++;
	probe_server_doctor_begin(reactor_now(), doctor->server);
	doctor->why.error = run_begin(doctor, &doctor->why);
	if (doctor->why.error)
		run_ended(doctor, NULL, &doctor->why);
}

static uint32_t count_findings(const json_t *report)
{
	return (uint32_t)json_array_size(json_object_get(report, "findings"));
}

void run_ended(struct server_doctor *doctor, json_t *report, const struct fathom_fault *why)
{
	doctor->ended = reactor_now();
	if (report) {
		json_decref(doctor->report);
		doctor->report = report;
		doctor->why = (struct fathom_fault){ 0 };
	} else {
		doctor->server->stats.doctor_failures++;
		doctor->why = *why;
	}
	probe_server_doctor_end(reactor_now(), doctor->server, report ? 0 : why->error, count_findings(report));
	reply_callers(doctor);
}

static bool is_older_than(const struct server_doctor *doctor, unsigned int seconds)
{
	return doctor->began_ns == 0 || reactor_now() - doctor->ended > clock_ticks_from_ns(seconds * NS_PER_SEC);
}

void call_host_doctor(struct grpc_call *call, const ProtobufCMessage *request)
{
	struct server *server = server_of(call);
	struct server_doctor *doctor = server->doctor;
	struct doctor_caller *caller;

	if (!server_is_addressed(server, call, ((const Fathom__HostDoctorReq *)request)->sys))
		return;
	caller = malloc(sizeof(*caller));
	if (!caller) {
		struct fathom_fault why;

		why.error = fault(&why, -ENOMEM, "out of memory");
		call_fail(call, &why);
		return;
	}
	*caller = (struct doctor_caller){ .call = call };
	TAILQ_INSERT_TAIL(&doctor->callers, caller, link);
	if (doctor->run.pid > 0)
		return;
	if (!doctor->is_leaving && is_older_than(doctor, DOCTOR_FRESH_SECONDS))
		begin_look(doctor);
	else
		reply_callers(doctor);
}

const json_t *doctor_report_for_page(struct server *server)
{
	struct server_doctor *doctor = server->doctor;

	if (!doctor)
		return NULL;
	if (doctor->run.pid == 0 && !doctor->is_leaving && is_older_than(doctor, DOCTOR_PAGE_SECONDS))
		begin_look(doctor);
	return doctor->report;
}

/* ---- open to close ---- */

int doctor_open(struct server *server, struct fathom_fault *why)
{
	must(!server->doctor);
	server->doctor = calloc(1, sizeof(*server->doctor));
	if (!server->doctor)
		return fault(why, -ENOMEM, "out of memory");
	server->doctor->server = server;
	server->doctor->run = (struct doctor_run){ .pid_fd = -1, .fd = -1 };
	TAILQ_INIT(&server->doctor->callers);
	return 0;
}

void doctor_leave(struct server *server)
{
	struct server_doctor *doctor = server->doctor;

	if (!doctor || doctor->is_leaving)
		return;
	doctor->is_leaving = true;
	run_cancel(doctor);
	doctor->why.error = fault(&doctor->why, -ECANCELED, "the server is stopping");
	reply_callers(doctor);
}

void doctor_close(struct server *server)
{
	if (!server->doctor)
		return;
	doctor_leave(server);
	must(TAILQ_EMPTY(&server->doctor->callers));
	json_decref(server->doctor->report);
	free(server->doctor);
	server->doctor = NULL;
}
