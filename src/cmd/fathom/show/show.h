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

/* ---- pools and volumes ---- */

void show_created_pool(const struct fathom_control_created_pool *pool, FILE *out);

struct pool_list_layout {
	bool verbose;
	bool has_space; /* the pools were queried */
};
void show_pools(const struct fathom_control_pool *pools, size_t count, const struct pool_list_layout *layout, FILE *out);
json_t *json_pools(const struct fathom_control_pool *pools, size_t count);
void show_pool(const struct fathom_control_pool *pool, FILE *out);
json_t *json_pool(const struct fathom_control_pool *pool);
json_t *json_pool_properties(const struct fathom_control_pool_properties *properties);
/* The list as a file, which commands read again; `is_verbose`: with each entry in words. */
void show_acl(const struct fathom_control_pool_acl *acl, bool is_verbose, FILE *out);
json_t *json_acl(const struct fathom_control_pool_acl *acl);
void show_pool_evicted(const struct fathom_control_pool_evicted *evicted, FILE *out);
void show_pool_set(const struct fathom_control_pool_set *set, FILE *out);
void show_pool_properties(const struct fathom_control_pool_properties *properties, const char *pool, FILE *out);

void show_volume(const struct fathom_control_volume *volume, FILE *out);
/* With its hosts and snapshots. */
/* The first of the names that is no property of a volume; NULL: none. */
const char *find_unknown_property(char *const *names, size_t count);
/* The named properties of a volume; `count` 0: all. */
void show_volume_properties(const struct fathom_control_volume *volume, char *const *names, size_t count, FILE *out);
json_t *json_volume_properties(const struct fathom_control_volume *volume, char *const *names, size_t count);
void show_volume_details(const struct fathom_control_volumes *volumes, FILE *out);
/* Also what `host`, an NQN, must do to connect. */
void show_published(const struct fathom_control_volume *volume, const char *host, FILE *out);
/* Also what its hosts must do to connect to the new address. */
void show_moved(const struct fathom_control_volume *volume, FILE *out);
/* Without a name: the volume `name` is destroyed already. */
void show_destroyed_volume(const struct fathom_control_volume *volume, const char *name, FILE *out);
void show_volumes(const struct fathom_control_volumes *volumes, FILE *out);
void show_snapshots(const struct fathom_control_volumes *volumes, FILE *out);

/* Each host that may attach one of the volumes; `host`: only this one, NULL: all. */
void show_hosts(const struct fathom_control_volumes *volumes, const char *host, FILE *out);
json_t *json_hosts(const struct fathom_control_volumes *volumes, const char *host);

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
void show_storage_verbose(const struct fathom_control_answers *answers, FILE *out);
void show_storage_health(const struct fathom_control_answers *answers, FILE *out);
void show_usage(const struct fathom_control_answers *answers, bool usable, FILE *out);

/* Selects devices; all zero, except `rank` FATHOM_CONTROL_NO_RANK: all. */
struct device_choice {
	uint32_t rank;
	const char *uuid;
	bool evicted;
	bool health; /* also show their health */
};
/* Does any device match the choice? */
bool has_devices(const struct fathom_control_answers *answers, const struct device_choice *choice);
void show_devices(const struct fathom_control_answers *answers, const struct device_choice *choice, FILE *out);
json_t *json_devices(const struct fathom_control_answers *answers, const struct device_choice *choice);

/* `only`: the device with this path, PCI address or serial number; NULL: all. */
void show_device_health(const struct fathom_control_answers *answers, const char *only, FILE *out);
/* How many of them there are; `only_bad`: with a warning, not read, or gone. */
size_t count_devices_health(const struct fathom_control_answers *answers, const char *only, bool only_bad);
json_t *json_device_health(const struct fathom_control_answers *answers, const char *only);
/* The firmware slots of the same devices. */
void show_firmware(const struct fathom_control_answers *answers, const char *only, FILE *out);
json_t *json_firmware(const struct fathom_control_answers *answers, const char *only);
void show_firmware_updated(const struct fathom_control_answers *answers, FILE *out);
void show_led(const struct fathom_control_answers *answers, FILE *out);

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

void show_faults(const struct fathom_control_answers *answers, FILE *out);
void show_policies(const struct fathom_control_answers *answers, FILE *out);

void show_masks(const struct fathom_control_answers *answers, FILE *out);

void show_logs(const struct fathom_control_answers *answers, FILE *out);
/* Print what is missing in the logs. */
void show_log_warnings(const struct fathom_control_answers *answers, FILE *out);

#endif
