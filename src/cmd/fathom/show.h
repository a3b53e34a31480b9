/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * show - what servers say, for people and as JSON: one file for each thing. Tables and keys are those of dmg, so that what
 * reads its output reads ours. Everything borrows; whatever `out` does with it, ferror() says.
 */
#ifndef CMD_FATHOM_SHOW_H
#define CMD_FATHOM_SHOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "fathom/control.h"

/* ---- the system ---- */

void show_members(const struct fathom_control_members *members, bool verbose, FILE *out);
json_t *json_members(const struct fathom_control_members *members);

void show_leader(const struct fathom_control_leader *leader, bool down_only, FILE *out);
json_t *json_leader(const struct fathom_control_leader *leader);

void show_version(const struct fathom_control_version *version, FILE *out);
json_t *json_version(const struct fathom_control_version *version);

void show_ranks(const struct fathom_control_ranks *ranks, FILE *out);
json_t *json_ranks(const struct fathom_control_ranks *ranks);

void show_attributes(const struct fathom_control_pairs *pairs, FILE *out);
json_t *json_attributes(const struct fathom_control_pairs *pairs);
void show_properties(const struct fathom_control_pairs *pairs, FILE *out);
json_t *json_properties(const struct fathom_control_pairs *pairs);

void show_events(const struct fathom_control_events *events, FILE *out);
json_t *json_event(const struct fathom_control_event *event);
json_t *json_events(const struct fathom_control_events *events);
/* `response`, which json_events() made, gets more of them. */
void json_add_events(json_t *response, const struct fathom_control_events *events);

/* ---- hosts ---- */

/* Those that failed, if any: a table of hosts and why, and what to do about each fault. */
void show_errors(const struct fathom_control_answers *answers, FILE *out);
/* Each of them, for the envelope's "faults". */
json_t *json_faults(const struct fathom_control_answers *answers);
/* "host_errors" with them, and `name` with what `body` makes of each answer, beside its hosts under `hosts_key`. */
json_t *json_answers(const struct fathom_control_answers *answers, const char *name, const char *hosts_key,
		     const char *body_key, json_t *(*body)(const struct fathom_control_answer *answer));

void show_storage(const struct fathom_control_answers *answers, FILE *out);
void show_storage_verbose(const struct fathom_control_answers *answers, bool health, FILE *out);
void show_usage(const struct fathom_control_answers *answers, bool usable, FILE *out);
json_t *json_storage(const struct fathom_control_answers *answers);

/* Which devices; all zeroes but `rank`, which is FATHOM_CONTROL_NO_RANK: all. */
struct device_choice {
	uint32_t rank;
	const char *uuid;
	bool evicted;
};
/* Whether there is one of that choice. */
bool has_devices(const struct fathom_control_answers *answers, const struct device_choice *choice);
void show_devices(const struct fathom_control_answers *answers, const struct device_choice *choice, FILE *out);
json_t *json_devices(const struct fathom_control_answers *answers, const struct device_choice *choice);

void show_format(const struct fathom_control_answers *answers, bool verbose, FILE *out);
/* What to do about each that could not be formatted; equal words once. */
void show_format_advice(const struct fathom_control_answers *answers, FILE *out);
json_t *json_format(const struct fathom_control_answers *answers);
/* Something could not be formatted. */
bool format_has_errors(const struct fathom_control_answers *answers);

/* `fathom storage scan --all` and `network scan --all`: also what DAOS's answers have no place for. */
void show_block_devices(const struct fathom_control_answers *answers, FILE *out);
void show_interfaces(const struct fathom_control_answers *answers, FILE *out);
json_t *json_hosts(const struct fathom_control_answers *answers);
/* One of these, as a row. */
json_t *json_block_device(const struct fathom_control_block_device *device);
json_t *json_host_interface(const struct fathom_control_host_interface *interface);
void show_network(const struct fathom_control_answers *answers, const char *provider, FILE *out);
/* How many interfaces are not among them; dmg's table has no such line, so it is not for standard output. */
void show_network_left_out(const struct fathom_control_answers *answers, FILE *out);
json_t *json_network(const struct fathom_control_answers *answers);

void show_engines(const struct fathom_control_answers *answers, bool verbose, FILE *out);
json_t *json_engines(const struct fathom_control_answers *answers);

void show_versions(const struct fathom_control_answers *answers, FILE *out);
json_t *json_versions(const struct fathom_control_answers *answers);

void show_policies(const struct fathom_control_answers *answers, FILE *out);
json_t *json_policies(const struct fathom_control_answers *answers);

void show_masks(const struct fathom_control_answers *answers, FILE *out);
json_t *json_masks(const struct fathom_control_answers *answers);

void show_logs(const struct fathom_control_answers *answers, FILE *out);
/* What is not in them that should be. */
void show_log_warnings(const struct fathom_control_answers *answers, FILE *out);
json_t *json_logs(const struct fathom_control_answers *answers);

json_t *json_proposals(const struct fathom_control_answers *answers);

#endif
