/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * look - which sources are looked at: of an engine, or of a server and of its engines, all at the same time. The source
 * "server" comes first and alone: it names the certificates, folders and engines.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "cmd/fathom/doctor/doctor.h"

enum { SERVER_LIMIT_MS = 2000, LOOK_MS_MIN = 3000, PATHS_MAX = 128, ENGINES_MAX = 16, NAME_BYTES = 32 };
enum { ENGINE_SOURCES = 6, SERVER_SOURCES = 9 };
static_assert(SERVER_SOURCES + ENGINES_MAX * ENGINE_SOURCES <= DOCTOR_SOURCES_MAX, "one look for all");

static const char *const engine_sources[ENGINE_SOURCES] = {
	"process", "machine", "files", "trace", "answers", "recording"
};

static void put_looked(json_t *evidence)
{
	must(json_object_set_new(evidence, "looked",
				 json_pack("{s:I, s:s}", "at", (json_int_t)(clock_realtime_ns() / NS_PER_SEC), "version",
					   FATHOM_VERSION)) == 0);
}

/* Finding the process was a part of the ten seconds. */
static uint64_t time_left_ms(uint64_t begin_ns)
{
	uint64_t spent_ms = (clock_monotonic_ns() - begin_ns) / NS_PER_MS;

	return spent_ms + LOOK_MS_MIN < DOCTOR_LIMIT_MS ? DOCTOR_LIMIT_MS - spent_ms : LOOK_MS_MIN;
}

json_t *doctor_look_engine(const struct doctor_target *target, const char *certificates, const char *past,
			   uint64_t begin_ns)
{
	const struct doctor_recording recording = { past, target->trace, &target->pid };
	const struct doctor_paths paths = { &certificates, 1 };
	const struct doctor_source sources[] = {
		{ "process", doctor_look_process, &target->pid },
		{ "machine", doctor_look_machine, &target->pid },
		{ "files", doctor_look_files, &target->pid },
		{ "trace", doctor_look_trace, target->trace },
		{ "answers", doctor_look_answers, target },
		{ "certificates", doctor_look_certificates, &paths },
		{ "recording", doctor_look_recording, &recording },
		{ "core", doctor_look_core, target->core }, /* the last one: only if there is a core */
	};
	json_t *evidence = doctor_look(sources, ARRAY_COUNT(sources) - !target->core[0], time_left_ms(begin_ns));

	put_looked(evidence);
	return evidence;
}

/* ---- a server ---- */

/* An engine below the server. */
struct below {
	struct doctor_target target;
	struct doctor_recording recording;
	int64_t index;
	char names[ENGINE_SOURCES][NAME_BYTES]; /* "0/process" */
};

struct server_look {
	struct below *engines;
	size_t engine_count;
	const char *certificates[PATHS_MAX], *folders[PATHS_MAX];
	struct doctor_paths certificate_paths, folder_paths;
	struct doctor_port port;
	struct doctor_source sources[DOCTOR_SOURCES_MAX];
	size_t source_count;
};

/* Borrows the texts. */
static struct doctor_paths paths_of(const json_t *list, const char *paths[PATHS_MAX])
{
	const json_t *path;
	size_t i, count = 0;

	json_array_foreach ((json_t *)list, i, path) {
		if (json_is_string(path) && count < PATHS_MAX)
			paths[count++] = json_string_value(path);
	}
	return (struct doctor_paths){ paths, count };
}

static void add_source(struct server_look *look, const char *name, void (*fn)(struct doctor_out *out, const void *ctx),
		       const void *ctx)
{
	must(look->source_count < DOCTOR_SOURCES_MAX);
	look->sources[look->source_count++] = (struct doctor_source){ name, fn, ctx };
}

static void add_engine(struct server_look *look, const json_t *row)
{
	struct below *engine = &look->engines[look->engine_count];
	struct fathom_fault why;
	char pid[16];

	snprintf(pid, sizeof(pid), "%" JSON_INTEGER_FORMAT, json_integer_value(json_object_get(row, "pid")));
	engine->index = json_integer_value(json_object_get(row, "index"));
	if (doctor_find(pid, &engine->target, &why) != 0)
		return; /* it has ended meanwhile: its server reports that */
	for (size_t i = 0; i < ENGINE_SOURCES; i++)
		snprintf(engine->names[i], NAME_BYTES, "%" PRId64 "/%s", engine->index, engine_sources[i]);
	add_source(look, engine->names[0], doctor_look_process, &engine->target.pid);
	add_source(look, engine->names[1], doctor_look_machine, &engine->target.pid);
	add_source(look, engine->names[2], doctor_look_files, &engine->target.pid);
	add_source(look, engine->names[3], doctor_look_trace, engine->target.trace);
	add_source(look, engine->names[4], doctor_look_answers, &engine->target);
	engine->recording = (struct doctor_recording){ NULL, engine->target.trace, &engine->target.pid };
	add_source(look, engine->names[5], doctor_look_recording, &engine->recording);
	look->engine_count++;
}

/* `server`: the evidence of the first source. */
static void plan_look(struct server_look *look, const struct doctor_target *target, const json_t *server)
{
	const char *folder = json_string_value(json_object_get(server, "socket_dir"));
	const json_t *row;
	size_t i;

	look->certificate_paths = paths_of(json_object_get(server, "certificates"), look->certificates);
	look->folder_paths = paths_of(json_object_get(server, "folders"), look->folders);
	look->port = (struct doctor_port){ target->pid, (unsigned int)json_integer_value(json_object_get(server, "port")) };
	if (target->pid > 0) {
		add_source(look, "process", doctor_look_process, &target->pid);
		add_source(look, "machine", doctor_look_machine, &target->pid);
		add_source(look, "files", doctor_look_files, &target->pid);
		add_source(look, "trace", doctor_look_trace, target->trace);
	}
	if (target->pid > 0 && folder) {
		add_source(look, "service", doctor_look_service, folder);
		add_source(look, "port", doctor_look_port, &look->port);
	}
	add_source(look, "certificates", doctor_look_certificates, &look->certificate_paths);
	add_source(look, "folders", doctor_look_folders, &look->folder_paths);
	add_source(look, "agents", doctor_look_agents, NULL);
	json_array_foreach ((json_t *)json_object_get(server, "engines"), i, row) {
		if (look->engine_count < ENGINES_MAX)
			add_engine(look, row);
	}
}

/* Take the evidence of the engine's sources out of the document. */
static json_t *evidence_of_engine(const struct below *engine, json_t *evidence)
{
	json_t *of_engine = json_object();

	must(of_engine);
	for (size_t i = 0; i < ENGINE_SOURCES; i++) {
		must(json_object_set(of_engine, engine_sources[i], json_object_get(evidence, engine->names[i])) == 0);
		must(json_object_del(evidence, engine->names[i]) == 0);
	}
	must(json_object_set_new(of_engine, "index", json_integer(engine->index)) == 0);
	put_looked(of_engine);
	return of_engine;
}

json_t *doctor_look_host(const struct doctor_target *target, uint64_t begin_ns)
{
	const struct doctor_source first = { "server", doctor_look_server, target };
	struct server_look *look = calloc(1, sizeof(*look));
	json_t *before = doctor_look(&first, 1, SERVER_LIMIT_MS), *server = json_object_get(before, "server"), *evidence,
	       *engines = json_array();

	must(look);
	must(engines);
	look->engines = calloc(ENGINES_MAX, sizeof(*look->engines));
	must(look->engines);
	plan_look(look, target, server);
	evidence = doctor_look(look->sources, look->source_count, time_left_ms(begin_ns));
	for (size_t i = 0; i < look->engine_count; i++)
		must(json_array_append_new(engines, evidence_of_engine(&look->engines[i], evidence)) == 0);
	must(json_object_set(evidence, "server", server) == 0);
	must(json_object_set_new(evidence, "engines", engines) == 0);
	put_looked(evidence);
	json_decref(before);
	free(look->engines);
	free(look);
	return evidence;
}
