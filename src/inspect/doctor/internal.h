/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - shared by the files of inspect/doctor. */
#ifndef INSPECT_DOCTOR_INTERNAL_H
#define INSPECT_DOCTOR_INTERNAL_H

#include "base/fault.h"
#include "inspect/doctor/doctor.h"

/* ---- JSON ---- */

/* Add a value to an object or a list; takes `value`. A text that is not UTF-8 (NULL) is left out. */
void doc_put(json_t *object, const char *key, json_t *value);
void doc_add(json_t *list, json_t *value);
json_t *doc_object(void);
json_t *doc_list(void);
/* A text with each invalid byte replaced. */
json_t *doc_text(const char *text);
json_t *doc_text_of(const char *text, size_t bytes);

/* The value at "a.b.c"; NULL: not there. Pure. */
const json_t *doc_at(const json_t *from, const char *path);
int64_t doc_number(const json_t *from, const char *path, int64_t otherwise);
double doc_real(const json_t *from, const char *path, double otherwise);
const char *doc_text_at(const json_t *from, const char *path); /* "": none */
bool doc_is(const json_t *from, const char *path);	       /* true: there, and JSON's true */

/* ---- texts of values, for findings ---- */

enum { SHORT_TEXT_BYTES = 32 };

/* "1.507 s", "2 min 5 s", "3 h 10 min" */
const char *doc_duration(uint64_t ms, char to[SHORT_TEXT_BYTES]);
/* "2026-11-29 12:40:00 UTC" */
const char *doc_time(int64_t realtime_s, char to[SHORT_TEXT_BYTES]);
/* "120 us", "3.4 ms", "1.2 s" */
const char *doc_latency(double us, char to[SHORT_TEXT_BYTES]);
/* "1.5 GiB" */
const char *doc_bytes(uint64_t bytes, char to[SHORT_TEXT_BYTES]);

/* ---- files of /proc and /sys ---- */

enum { PROC_BYTES_MAX = 16384 };

/* Read a small file into `to`, NUL-terminated, without blanks at its end. Errors: -errno. */
MUST_CHECK int doc_read(const char *path, char *to, size_t bytes);
/* Read a number. False: not there, or not a number. */
MUST_CHECK bool doc_read_number(const char *path, int64_t *number_ret);
/* The rest of the line of `text` that begins with `key`, without blanks in front; "": none. */
const char *doc_line(const char *text, const char *key, char *to, size_t bytes);

/* ---- parts of sources ---- */

struct reader;
struct reader_event;
struct traced_calls;

/* traced_calls.c: calls of the control socket that have no reply. Pass all events in their order. */
struct traced_calls *traced_calls_create(const struct reader *reader);
void traced_calls_destroy(struct traced_calls *calls);
void traced_calls_event(struct traced_calls *calls, const struct reader_event *event);
/* [ { "method", "ago_ms" } ] */
json_t *traced_calls_json(const struct traced_calls *calls);
/* traced_ended.c: { DEVICE: number of its I/Os that ended in the last second }; NULL: no I/O waits, or it is not known. */
json_t *traced_ended_ios(struct doctor_out *out, struct reader *reader, const json_t *under_way);
struct reader_event;
struct traced_past;

/* traced_past.c: the notes of devices and stages. `now_ns`: of the wall clock. Pass all events in their order. */
struct traced_past *traced_past_create(const struct reader *reader, uint64_t now_ns);
void traced_past_destroy(struct traced_past *past);
void traced_past_event(struct traced_past *past, const struct reader_event *event);
/* Call once, at the end. */
json_t *traced_past_json(struct traced_past *past);
struct traced_messages;
/* traced_messages.c: messages that light threads have not taken. Pass all events in their order. */
struct traced_messages *traced_messages_create(const struct reader *reader);
void traced_messages_destroy(struct traced_messages *messages);
void traced_messages_event(struct traced_messages *messages, const struct reader_event *event);
/* Call once, at the end. */
json_t *traced_messages_json(struct traced_messages *messages);
/* traced_events.c: that of a file; NULL (explained): it cannot be read. */
json_t *traced_past_of(const char *path, uint64_t now_ns, struct fathom_fault *why);
struct traced_executed;
/* traced_executed.c: { THREAD: { "records", "function", "of_function" } }: read in all; of the most frequent kind */
struct traced_executed *traced_executed_create(const struct reader *reader);
void traced_executed_add(struct traced_executed *executed, const struct reader_event *event);
/* Destroys `executed`. */
json_t *traced_executed_end(struct traced_executed *executed, struct reader *reader);
/* traced_events.c: { POINT: { "count", "last": [ { "ago_ms", "owner", "args" } ] } } of the points that rules read. */
json_t *traced_events(struct doctor_out *out, struct reader *reader);
/* traced_chains.c: put the last records of the requests that hang into their groups: "records", the latest last. */
void traced_chains(struct doctor_out *out, struct reader *reader, json_t *under_way);
/* traced_requests.c: groups of requests under way; ended lives that were kept. */
json_t *traced_under_way(const struct reader *reader);
json_t *traced_kept(const struct reader *reader);
/* process.c */
json_t *doc_threads(int32_t pid);
/* Add what happened to each thread since `threads` was read. */
void doc_threads_again(int32_t pid, json_t *threads);
/* program.c */
json_t *doc_program(int32_t pid);
json_t *doc_libraries(int32_t pid);
/* cgroup.c: the limits of its cgroups, and what they cost so far. */
json_t *doc_cgroups(int32_t pid);
/* core_file.c: `pattern` is kernel.core_pattern. False: no core of this process was found. */
bool doc_find_core(const char *pattern, int32_t pid, char *path, size_t bytes);

/* ---- rules: each reads the evidence and adds findings ---- */

void rules_process(const json_t *evidence, struct findings *list);
/* Add the finding about the end of the process in a core. NULL: there is no core (or no room). */
struct finding *rules_core_end(const json_t *evidence, struct findings *list);
void rules_core(const json_t *evidence, struct findings *list);
void rules_spdk(const json_t *evidence, struct findings *list);
/* rules_requests.c: the last records of a group's oldest request and its I/Os, as evidence. */
void doc_show_records(const json_t *group, struct finding *it);
void rules_past(const json_t *evidence, struct findings *list);
void rules_threads(const json_t *evidence, struct findings *list);
void rules_locks(const json_t *evidence, struct findings *list);
void rules_machine(const json_t *evidence, struct findings *list);
void rules_files(const json_t *evidence, struct findings *list);
void rules_devices(const json_t *evidence, struct findings *list);
void rules_storage(const json_t *evidence, struct findings *list);
void rules_hosts(const json_t *evidence, struct findings *list);
void rules_paths(const json_t *evidence, struct findings *list);
void rules_messages(const json_t *evidence, struct findings *list);
void rules_requests(const json_t *evidence, struct findings *list);
void rules_control(const json_t *evidence, struct findings *list);
void rules_program(const json_t *evidence, struct findings *list);
void rules_server(const json_t *evidence, struct findings *list);
void rules_system(const json_t *evidence, struct findings *list);

/* Memory: what takes long there waited for a CPU. True also if the device is not known. */
bool doc_is_memory(const json_t *evidence, const char *device);
/* Is it a target of SPDK? */
bool doc_is_spdk(const json_t *evidence);
enum { DOC_WHERE_BYTES = 192 };
/* Where a thread of the process waits: "nanosleep() in hrtimer_nanosleep". */
const char *doc_where(const json_t *thread, char to[DOC_WHERE_BYTES]);
/* The name and process id of the engine, for texts. */
const char *doc_engine_name(const json_t *evidence);
int64_t doc_engine_pid(const json_t *evidence);
/* Does the process run? */
bool doc_is_running(const json_t *evidence);
/* Signs of a fault, such as failed I/Os: how many, and when the newest and the oldest of them were. */
struct doc_signs {
	uint64_t count;
	int64_t newest_ms, oldest_ms; /* ago */
};

/* Add a sign of `ago_ms` ago. */
void doc_sign(struct doc_signs *signs, int64_t ago_ms);
/* Is the fault of the past? Not while its next sign may still come. */
void doc_end_by_signs(struct finding *finding, const struct doc_signs *signs);
/* A finding by a time that the engine measured is only possible if its threads waited long for a CPU. */
void doc_doubt_if_contended(const json_t *evidence, struct finding *it);
/* "-f PATH": the argument of `fathom trace` for this engine. */
const char *doc_trace_option(const json_t *evidence, char *to, size_t bytes);

/* Where a thread of the evidence waits: "nanosleep() in hrtimer_nanosleep". */
enum { CALL_TEXT_BYTES = 192 };
const char *doc_where(const json_t *thread, char to[CALL_TEXT_BYTES]);

enum {
	HUNG_MS = 2000,		/* an I/O, a request, a turn of a reactor that takes this long has a fault */
	LONG_TURN_RAN_MS = 50,	/* no turn of a reactor needs so much CPU time */
	PRESSURE_PERCENT = 80,	/* of the time, in which some thread of the machine waits for a CPU */
	RECENT_MS = 10 * 60000, /* an event this long ago is of the present trouble */
	TRACE_OPTION_BYTES = 320,
};

#endif
