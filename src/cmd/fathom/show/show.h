/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * show - prints the answers of servers as tables and as JSON: one file per topic. The build makes regular JSON and tables
 * from the table of operations (show.gen.h). Tables and keys are those of dmg: programs that parse its output work
 * unchanged. All arguments are borrowed. The caller checks ferror(out) for write errors.
 */
#ifndef CMD_FATHOM_SHOW_SHOW_H
#define CMD_FATHOM_SHOW_SHOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "cmd/fathom/show/show.gen.h"
#include "fathom/control.h"

/* ---- the system ---- */

void show_members(const struct fathom_control_members *members, bool verbose, FILE *out);

void show_leader(const struct fathom_control_leader *leader, bool down_only, FILE *out);

void show_version(const struct fathom_control_version *version, FILE *out);
json_t *json_version(const struct fathom_control_version *version);

void show_ranks(const struct fathom_control_ranks *ranks, FILE *out);

void show_attributes(const struct fathom_control_pairs *pairs, FILE *out);
json_t *json_attributes(const struct fathom_control_pairs *pairs);
void show_properties(const struct fathom_control_pairs *pairs, FILE *out);
json_t *json_properties(const struct fathom_control_pairs *pairs);

void show_events(const struct fathom_control_events *events, FILE *out);
/* Append more events to `response`, which json_of_events() created. */
void json_add_events(json_t *response, const struct fathom_control_events *events);

/* ---- hosts ---- */

/* Print the hosts that failed, if any: a table of hosts and errors, and the resolution of each fault. */
void show_errors(const struct fathom_control_answers *answers, FILE *out);
/* The faults of all failed hosts, for the envelope's "faults". */
json_t *json_faults(const struct fathom_control_answers *answers);
/*
 * "host_errors" of the failed hosts, and `name` with the result of `body` for each answer, beside its hosts under
 * `hosts_key`.
 */
json_t *json_answers(const struct fathom_control_answers *answers, const char *name, const char *hosts_key,
		     const char *body_key, json_t *(*body)(const struct fathom_control_answer *answer));

void show_storage(const struct fathom_control_answers *answers, FILE *out);
void show_storage_verbose(const struct fathom_control_answers *answers, bool health, FILE *out);
void show_usage(const struct fathom_control_answers *answers, bool usable, FILE *out);

/* Selects devices; all zero, except `rank` FATHOM_CONTROL_NO_RANK: all. */
struct device_choice {
	uint32_t rank;
	const char *uuid;
	bool evicted;
};
/* Does any device match the choice? */
bool has_devices(const struct fathom_control_answers *answers, const struct device_choice *choice);
void show_devices(const struct fathom_control_answers *answers, const struct device_choice *choice, FILE *out);
json_t *json_devices(const struct fathom_control_answers *answers, const struct device_choice *choice);

void show_format(const struct fathom_control_answers *answers, bool verbose, FILE *out);
/* Print the resolution for each device that could not be formatted; equal texts once. */
void show_format_advice(const struct fathom_control_answers *answers, FILE *out);
json_t *json_format(const struct fathom_control_answers *answers);
/* Did formatting any device fail? */
bool format_has_errors(const struct fathom_control_answers *answers);

/* `fathom storage scan --all` and `network scan --all`: also what DAOS's answers have no fields for. */
void show_block_devices(const struct fathom_control_answers *answers, FILE *out);
void show_interfaces(const struct fathom_control_answers *answers, FILE *out);
void show_network(const struct fathom_control_answers *answers, const char *provider, FILE *out);
/* The number of interfaces not shown; dmg's table has no such line, so do not print it on standard output. */
void show_network_left_out(const struct fathom_control_answers *answers, FILE *out);

void show_engines(const struct fathom_control_answers *answers, bool verbose, FILE *out);

void show_versions(const struct fathom_control_answers *answers, FILE *out);
json_t *json_versions(const struct fathom_control_answers *answers);

void show_policies(const struct fathom_control_answers *answers, FILE *out);

void show_masks(const struct fathom_control_answers *answers, FILE *out);

void show_logs(const struct fathom_control_answers *answers, FILE *out);
/* Print what is missing in the logs. */
void show_log_warnings(const struct fathom_control_answers *answers, FILE *out);

#endif
