/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * control_results - the structures of control.h that the table of operations declares: results of calls, and lists that
 * calls take. Programs include fathom/control.h.
 *
 * A result belongs to the caller until fathom_control_free(). Strings in it are never NULL, except as stated.
 *
 * The parts between "of the table" and "end" come from src/control/operation: `make operation-pages`.
 */
#ifndef FATHOM_CONTROL_RESULTS_H
#define FATHOM_CONTROL_RESULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fathom/fault.h"

/* ---- the system ---- */

/* of the table: results of system */
/* clang-format off */
/* A finding of `fathom doctor` on a host. */
struct fathom_control_finding {
	const char *program; /* "fathom-server (pid 71)" */
	uint32_t code;
	const char *name; /* "database_unwritable" */
	const char *severity; /* "note", "degraded", "broken" */
	const char *certainty; /* "possible", "likely", "certain" */
	const char *says;
	const char *remedy;
	const char *const *evidence;
	size_t evidence_count;
	const char *const *see; /* commands that show more */
	size_t see_count;
	const char *because_of; /* name of the finding from which it follows; "": none */
};

/* What the doctor of a host has found, causes first. */
struct fathom_control_diagnosis {
	const char *health; /* "healthy", "degraded", "broken" */
	uint64_t taken_ns; /* when it looked, since 1970 */
	const struct fathom_control_finding *findings;
	size_t count;
};

struct fathom_control_member {
	uint32_t rank;
	const char *state; /* "joined", as the service reports it */
	const char *uuid;
	const char *address;
	const char *fault_domain;
	const char *info; /* why it is in that state */
	uint64_t incarnation;
	const char *fabric_uri;
	uint32_t fabric_contexts;
	const char *const *secondary_uris;
	size_t secondary_uri_count;
	const char *last_update; /* RFC 3339 */
	bool storage_failed; /* its engine rejects changes of pools and volumes until it is started again */
	uint32_t errored_volumes; /* they cannot be used, or hosts cannot reach them */
	uint32_t read_only_volumes; /* they reject writes */
	uint32_t errored_pools; /* with all their volumes */
	const char *storage_reason; /* of one of these; "": nothing is wrong */
	uint64_t storage_since_ns; /* the earliest of them; since 1970 */
};

struct fathom_control_members {
	const struct fathom_control_member *members;
	size_t count;
	const char *absent_ranks; /* requested, but not in the system */
	const char *absent_hosts;
	const char *const *providers;
	size_t provider_count;
	const char *self_heal;
	uint64_t data_version;
};

struct fathom_control_leader {
	const char *leader; /* "": none */
	const char *const *replicas;
	size_t replica_count;
	const char *const *down_replicas;
	size_t down_replica_count;
};

/* The result for each rank, whether it failed or not. */
struct fathom_control_rank {
	uint32_t rank;
	const char *action; /* "start" */
	bool errored;
	const char *message;
	const char *state;
	const char *address;
};

struct fathom_control_ranks {
	const struct fathom_control_rank *ranks;
	size_t count;
	const char *absent_ranks; /* requested, but not in the system */
	const char *absent_hosts;
};

/* A name and its value. To set: a value of "" or NULL removes an attribute. To get: values are ignored. */
struct fathom_control_pair {
	const char *name;
	const char *value;
};

struct fathom_control_pairs {
	const struct fathom_control_pair *pairs;
	size_t count;
};

struct fathom_control_event {
	uint64_t number; /* from 1, in the order in which the management service took them */
	uint32_t id;
	uint32_t type;
	uint32_t severity;
	const char *name; /* "engine_died" */
	const char *type_name; /* "STATE_CHANGE" */
	const char *severity_name; /* "ERROR" */
	const char *message;
	const char *timestamp;
	const char *hostname;
	uint32_t rank; /* or FATHOM_CONTROL_NO_RANK */
	uint64_t incarnation;
	uint64_t process;
	const char *line; /* the event as a line of a log */
};

struct fathom_control_events {
	const struct fathom_control_event *events;
	size_t count;
	uint64_t first; /* the oldest that is kept */
	uint64_t last; /* the newest */
};
/* clang-format on */
/* end */

/* ---- pools and volumes ---- */

/* of the table: results of pool */
/* clang-format off */
/* What pool_create() creates. */
struct fathom_control_new_pool {
	const char *label;
	const char *uuid; /* of the new pool, the key of the call; NULL: the label is the key */
	uint64_t size_bytes; /* the most that its volumes may take on all ranks; 0: no limit */
	const char *ranks; /* "0-3,7"; NULL: all that have joined, or `rank_count` of them */
	uint32_t rank_count; /* 0: all */
	bool overcommit; /* let thin volumes promise more than there is */
	const char *user; /* owner, "bob" or "bob@"; NULL: the caller */
	const char *group; /* NULL: the caller's */
	const char *const *acl; /* entries, "A::bob@:rw"; none: the default list */
	size_t acl_count;
};

struct fathom_control_created_pool {
	const char *uuid;
	uint32_t leader;
	const uint32_t *replicas;
	size_t replica_count;
	const uint32_t *ranks;
	size_t rank_count;
	const uint64_t *tier_bytes; /* per rank, of SCM and of NVMe */
	size_t tier_count;
	uint64_t mem_file_bytes;
	bool md_on_ssd_active;
};

/* The access control list of a pool: it names the users that may attach volumes. */
struct fathom_control_pool_acl {
	const char *const *entries; /* "A::bob@:rw" */
	size_t count;
	const char *owner; /* "bob@" */
	const char *group;
};

struct fathom_control_listed_pool {
	const char *uuid;
	const char *label;
	const char *state; /* "Creating", "Ready", "Destroying" */
	const uint32_t *replicas;
	size_t replica_count;
};

struct fathom_control_pools {
	const struct fathom_control_listed_pool *pools;
	size_t count;
	uint64_t data_version;
	const struct fathom_control_pool *queried; /* if asked for: of pools that are ready */
	size_t queried_count;
};

struct fathom_control_pool_evicted {
	int32_t count; /* publications that were withdrawn, each of one volume to one host */
};

/* A property of a pool. */
struct fathom_control_pool_property {
	const char *name; /* "scrub"; NULL, if set: none */
	const char *value; /* "timed" */
	const char *description;
	const char *late_ranks; /* "rank 1": which have not got it yet; "": all have it */
	uint64_t late_ns; /* since when the first of them has not; since 1970 */
	const char *late_reason; /* and why */
};

/* What became of a request to set properties. */
struct fathom_control_pool_set {
	const char *late_ranks; /* "rank 1": which get the properties when they are back; "": all have them */
};

struct fathom_control_pool_properties {
	const struct fathom_control_pool_property *properties;
	size_t count;
};

struct fathom_control_pool_rebuild {
	int32_t status;
	const char *state; /* "IDLE" */
	const char *derived_state;
	uint64_t objects;
	uint64_t records;
	bool degraded;
};

/* The bytes of all ranks, and the free bytes of the rank with the fewest, of that with the most, and on average. */
struct fathom_control_pool_tier {
	uint64_t total_bytes;
	uint64_t free_bytes;
	uint64_t free_bytes_min;
	uint64_t free_bytes_max;
	uint64_t free_bytes_mean;
	const char *media; /* "SCM", "NVME" */
};

/* The part of a pool on one engine. */
struct fathom_control_pool_rank {
	uint32_t rank;
	const char *state; /* of the rank: "joined" ... */
	uint64_t total_bytes;
	uint64_t free_bytes; /* that can still be promised to volumes */
	uint64_t promised_bytes;
	uint64_t allocated_bytes;
	uint32_t volume_count;
	const char *info; /* why it did not answer, or does not serve the pool */
	uint64_t asked_ns; /* when the engine gave these figures; since 1970; 0: never */
	uint64_t used_bytes; /* promised to its volumes; of thin volumes with overcommit what they have allocated */
	uint64_t limit_bytes; /* what they can get, used_bytes included; 0: the engine did not say */
	uint64_t full_in_ns; /* at the rate of the last hour; 0: it is full, or there is no forecast */
	const char *domain; /* its fault domain, "/rack0/node0" */
	uint64_t minute_operations; /* I/O of all volumes of the rank in the last minute */
	uint64_t minute_bytes;
	const char *share; /* of the pool on the rank: "up", "extending", "draining", "drained", "excluded", "lost" */
	uint64_t share_since_ns; /* since 1970; 0: not known, of a lost share */
	const char *share_info; /* what remains to be moved, what cannot be moved and why, or what is lost; "" */
	uint32_t moving_count; /* of its volumes, those that are being moved to another rank */
	uint32_t old_copy_count; /* copies of moved volumes that the engine has still to erase */
	const char *late; /* properties of the pool that its engine has not got yet, "size, scrub"; "": none */
	uint64_t late_ns; /* since 1970 */
	const char *late_reason;
	const char *failure; /* "errored", "missing": the engine cannot use the pool, or does not have it; "": it can */
};

struct fathom_control_pool {
	uint64_t query_mask; /* what the service was asked for, as DAOS's bits */
	const char *state; /* "Ready" */
	const char *uuid;
	const char *label;
	uint32_t target_count;
	uint32_t active_targets;
	uint32_t disabled_targets;
	uint32_t engine_count;
	uint32_t version;
	uint32_t leader;
	const uint32_t *replicas;
	size_t replica_count;
	const struct fathom_control_pool_rebuild *rebuild; /* NULL: not asked for */
	const struct fathom_control_pool_tier *tiers;
	size_t tier_count;
	const char *enabled_ranks; /* "0-3" */
	const char *disabled_ranks;
	const char *dead_ranks;
	uint32_t layout_version;
	uint32_t layout_version_newest;
	uint64_t mem_file_bytes;
	bool md_on_ssd_active;
	const char *self_heal_policy;
	const struct fathom_control_pool_rank *ranks; /* from here on: not of DAOS's servers */
	size_t rank_count;
	uint64_t size_bytes; /* the most that its volumes may take on all ranks; 0: no limit */
	bool overcommit;
	uint32_t volume_count;
	const char *pending; /* what is under way or waits: "destroy"; "": nothing */
	const char *reason; /* why it waits */
	uint64_t since_ns; /* of the state; since 1970 */
};
/* clang-format on */
/* end */

/* of the table: results of volume */
/* clang-format off */
/* What volume_create() creates. */
struct fathom_control_new_volume {
	const char *name; /* "POOL/VOLUME" */
	const char *uuid; /* of the new volume, the key of the call; NULL: the name is the key */
	uint64_t size_bytes; /* 0: that of the snapshot `from` */
	uint32_t block_bytes; /* 0: 4096 */
	bool thick;
	const char *ranks; /* it may be placed on one of these, "0-3"; NULL: any of its pool */
	const char *from; /* a clone of "POOL/VOLUME@SNAPSHOT"; NULL: an empty volume */
	bool checksums;
	bool thin; /* although the pool has the property thick */
	bool no_checksums; /* although the pool has the property checksums */
	bool read_only; /* a clone that is only read, and needs no promise of space */
};

/* A host that may connect. */
struct fathom_control_volume_host {
	const char *nqn;
	uint32_t connections;
	uint64_t since_ns; /* of its oldest connection; since 1970; 0: not connected */
	const char *address; /* from which it is connected */
	const char *machine; /* the host whose agent published the volume; "": an administrator did */
};

struct fathom_control_snapshot {
	const char *name;
	const char *uuid;
	uint64_t size_bytes;
	uint64_t created_ns;
	const char *group_uuid; /* equal in the snapshots of one instant */
	uint64_t allocated_bytes; /* those that it shares with the volume included */
};

struct fathom_control_volume {
	const char *name; /* "POOL/VOLUME" */
	const char *uuid;
	const char *pool_uuid;
	const char *state; /* "creating", "ready", "destroying" ... */
	uint64_t since_ns; /* of the state; since 1970 */
	const char *pending; /* what is under way or waits: "create", "destroy" ...; "": nothing */
	const char *reason; /* why it waits, or why the volume cannot be used */
	uint64_t pending_ns; /* since when */
	uint32_t rank; /* or FATHOM_CONTROL_NO_RANK */
	const char *rank_state; /* "joined" ... */
	uint64_t size_bytes;
	uint32_t block_bytes;
	bool thick;
	bool checksums;
	bool read_only; /* a clone that is only read */
	bool allocating; /* it became thick, and its holes get blocks in the background */
	uint64_t allocation_bytes; /* up to here; of size_bytes */
	const char *allocation_reason; /* why that has stopped for a while; "" */
	const char *description;
	uint64_t allocated_bytes;
	uint64_t created_ns;
	const char *nqn; /* of its subsystem */
	const char *const *addresses; /* at which hosts connect, "127.0.0.1:4420" */
	size_t address_count;
	const struct fathom_control_volume_host *hosts;
	size_t host_count;
	const struct fathom_control_snapshot *snapshots;
	size_t snapshot_count;
	const char *origin; /* of a clone: "VOLUME@SNAPSHOT" */
	uint64_t asked_ns; /* when its engine gave what only it knows; 0: it did not answer */
	const char *domain; /* fault domain of its rank, "/rack0/node0" */
	const char *placed_by; /* why it got its rank: "most free space" ...; "": not known, or it was moved since */
	uint32_t placed_of; /* ranks that could have it */
	uint64_t placed_free_bytes; /* that it could get on the rank; this and the next four: when it was placed */
	uint32_t placed_volumes; /* of the rank */
	uint32_t placed_published; /* of these */
	uint64_t placed_operations; /* I/O of the rank in the minute before */
	uint64_t placed_bytes;
};

struct fathom_control_volumes {
	const struct fathom_control_volume *volumes;
	size_t count;
};

/* A part of a snapshot. */
struct fathom_control_range {
	uint64_t offset;
	uint64_t bytes;
	bool zero; /* it reads as zeroes */
};

/* A part of the list of changes. */
struct fathom_control_changes {
	const struct fathom_control_range *ranges; /* ascending */
	size_t range_count;
	uint64_t next_offset; /* of the next part; size_bytes: this is the last */
	const char *uuid; /* of the newer snapshot; "": the volume as it is now */
	const char *from_uuid; /* of the older one; "": none */
	uint64_t size_bytes; /* of the newer one */
	uint64_t from_bytes; /* of the older one */
	uint32_t block_bytes;
	const char *volume_uuid;
};
/* clang-format on */
/* end */

/* ---- hosts ---- */

/* of the table: results of storage */
/* clang-format off */
struct fathom_control_namespace {
	uint32_t id;
	uint64_t bytes;
};

/* What an engine stores on a device. */
struct fathom_control_smd {
	const char *uuid;
	const int32_t *targets;
	size_t target_count;
	uint32_t rank;
	uint32_t roles; /* bits: 1 data, 2 meta, 4 wal */
	uint64_t total_bytes;
	uint64_t available_bytes;
	uint64_t usable_bytes;
	uint64_t cluster_bytes;
	uint64_t meta_bytes;
	uint64_t meta_wal_bytes;
	uint64_t rdb_bytes;
	uint64_t rdb_wal_bytes;
};

/* What an NVMe device says of its health. Keys as of dmg. */
struct fathom_control_health_stats {
	uint64_t timestamp; /* seconds since 1970 of the engine's figures; 0: none */
	uint32_t warning_minutes; /* above these temperatures */
	uint32_t critical_minutes;
	uint64_t busy_minutes;
	uint64_t power_cycles;
	uint64_t power_on_hours;
	uint64_t unsafe_shutdowns;
	uint64_t media_errors;
	uint64_t error_entries;
	uint32_t used_percent; /* of the estimated life */
	uint32_t temperature_k; /* Kelvin */
	bool hot;
	bool spare_low;
	bool unreliable;
	bool read_only;
	bool backup_failed;
	uint32_t link_port;
	uint64_t link_speed_max; /* of PCIe, transfers a second */
	uint64_t link_speed;
	uint32_t link_width_max;
	uint32_t link_width;
};

struct fathom_control_nvme {
	const char *address; /* PCI address, or path of the device */
	const char *model;
	const char *serial;
	const char *firmware;
	const char *vendor;
	const char *device_type;
	int32_t numa_node;
	const char *state; /* "NORMAL", "NEW", "EVICTED", "UNPLUGGED", "UNKNOWN" */
	uint64_t bytes; /* of its namespaces */
	const struct fathom_control_namespace *namespaces;
	size_t namespace_count;
	const struct fathom_control_smd *smds;
	size_t smd_count;
	const struct fathom_control_health_stats *stats; /* NULL: it reports none, or its server has not read it */
};

struct fathom_control_module {
	uint32_t channel;
	uint32_t position;
	uint32_t controller;
	uint32_t numa_node;
	uint32_t physical;
	uint64_t bytes;
	const char *uid;
	const char *part;
	const char *firmware;
	const char *health;
};

struct fathom_control_mount {
	const char *path;
	const char *kind;
	const char *const *devices;
	size_t device_count;
	uint32_t rank;
	uint64_t total_bytes;
	uint64_t available_bytes;
	uint64_t usable_bytes;
};

struct fathom_control_scm {
	const char *uuid;
	const char *block_device;
	const char *device;
	uint32_t numa_node;
	uint64_t bytes;
	const struct fathom_control_mount *mount; /* NULL: not mounted */
};

struct fathom_control_memory {
	uint32_t numa_node; /* of one of `nodes` */
	uint64_t hugepages_total;
	uint64_t hugepages_free;
	uint64_t hugepages_reserved;
	uint64_t hugepages_surplus;
	uint32_t hugepage_kb;
	uint64_t total_kb;
	uint64_t free_kb;
	uint64_t available_kb;
	uint64_t used_kb;
};

struct fathom_control_storage {
	const struct fathom_control_nvme *nvmes;
	size_t nvme_count;
	const struct fathom_control_module *modules;
	size_t module_count;
	const struct fathom_control_scm *scms;
	size_t scm_count;
	bool has_memory;
	struct fathom_control_memory memory;
	const struct fathom_control_memory *nodes;
	size_t node_count;
	const char *nvme_error; /* why the host could not scan these; "": it could */
	const char *scm_error;
};

/* What is wrong with a device. */
struct fathom_control_health_condition {
	const char *name; /* "spare-low", "hot", "unreliable", "read-only", "backup-failed", "worn" */
	const char *text; /* a line for a person */
	uint64_t since_ns; /* since 1970, when its server saw it first */
};

/* A slot for firmware. */
struct fathom_control_firmware_slot {
	uint32_t number;
	const char *revision; /* "": empty */
	bool active;
	bool next; /* at the next reset */
};

struct fathom_control_device_health {
	const char *path;
	const char *kind; /* "nvme", "hdd" ... */
	uint64_t bytes;
	const char *model;
	const char *serial;
	const char *firmware;
	const char *pci_address;
	int32_t numa_node; /* -1: not known */
	const char *state; /* "ok", "warning", "unread", "gone", "none" */
	const char *reason; /* of unread, gone and none */
	const char *remedy; /* of unread; "": none */
	uint64_t since_ns; /* of warning, unread and gone: since 1970 */
	uint64_t read_ns; /* when the figures were read; 0: there are none */
	const uint32_t *instances; /* engines of the host whose data is on it */
	size_t instance_count;
	const struct fathom_control_health_condition *conditions;
	size_t condition_count;
	const struct fathom_control_health_stats *stats; /* NULL: it reports none, or was never read */
	uint32_t temperature_k; /* Kelvin, as these; 0: not known */
	uint32_t warning_k;
	uint32_t critical_k;
	uint32_t spare_percent;
	uint32_t spare_minimum_percent;
	uint64_t read_bytes; /* by hosts, since it was made */
	uint64_t written_bytes;
	uint64_t read_commands;
	uint64_t write_commands;
	uint64_t io_errors; /* of SCSI and SATA, counted by the kernel */
	const struct fathom_control_firmware_slot *slots;
	size_t slot_count;
	bool can_update;
};

/* The health of a host's devices. */
struct fathom_control_health {
	const struct fathom_control_device_health *devices;
	size_t count;
};

/* Firmware to be stored on a device. */
struct fathom_control_firmware_update {
	const char *device; /* path, PCI address or serial number */
	const char *file; /* absolute, on the host */
	uint32_t slot; /* 0: the device chooses */
	bool force; /* also if the device is in use */
};

/* A device on which firmware was stored. */
struct fathom_control_updated {
	const char *path;
	const char *model;
	const char *active_when; /* a line for a person */
};

/* The lamp at a device's slot. */
struct fathom_control_led {
	const char *path;
	const char *serial;
	const char *state; /* "on", "off" */
};

struct fathom_control_formatted {
	const char *what; /* a mount point, or a device */
	bool is_mount;
	uint32_t instance; /* of a mount point */
	uint32_t roles; /* of a device */
	int32_t status; /* 0: formatted; else ctl.ResponseStatus */
	const char *status_name; /* "CTL_SUCCESS" */
	const char *error;
	const char *info;
};

struct fathom_control_format {
	const struct fathom_control_formatted *parts;
	size_t count;
};
/* clang-format on */
/* end */

/* of the table: results of network */
/* clang-format off */
struct fathom_control_interface {
	const char *provider;
	const char *device;
	uint32_t numa_node;
	uint32_t priority;
	uint32_t device_class; /* ARPHRD_... */
};

struct fathom_control_network {
	const struct fathom_control_interface *interfaces;
	size_t count;
	int32_t numa_nodes;
	int32_t cores_per_node;
};

struct fathom_control_block_device {
	const char *path;
	const char *kind; /* "nvme", "hdd" ... */
	const char *model;
	const char *serial;
	const char *use; /* a line for a person */
	const char *pci_address;
	uint64_t bytes;
	int32_t numa_node; /* -1: not known */
	bool free;
};

struct fathom_control_host_interface {
	const char *name;
	const char *kind;
	const char *state; /* "up", "down", "unknown" */
	const char *const *addresses;
	size_t address_count;
	int64_t speed_mbps; /* -1: not known */
	int32_t numa_node; /* -1: not known */
};

/* All block devices and interfaces of a host, in use or not. */
struct fathom_control_host {
	const struct fathom_control_block_device *devices;
	size_t device_count;
	const struct fathom_control_host_interface *interfaces;
	size_t interface_count;
};
/* clang-format on */
/* end */

/* of the table: results of server */
/* clang-format off */
struct fathom_control_engine {
	uint32_t index;
	uint32_t rank; /* or FATHOM_CONTROL_NO_RANK */
	const char *state;
	const char *uuid;
	const char *uri;
	const char *storage;
	const char *info;
	const char *last_end;
	const char *rpc_socket;
	const char *version;
	uint64_t incarnation;
	uint64_t process;
	uint64_t starts;
	uint64_t restart_in_ms;
	bool adopted;
};

struct fathom_control_engines {
	const struct fathom_control_engine *engines;
	size_t count;
};

/* What the server does when an engine ends by itself, for each cause. */
struct fathom_control_policy {
	const char *cause; /* "crashed", "killed" ... */
	bool restart;
	uint64_t delay_min_ms;
	uint64_t delay_max_ms;
	uint32_t limit; /* restarts in a row; 0: no limit */
};

struct fathom_control_policies {
	const struct fathom_control_policy *policies;
	size_t count;
};

/* A point at which a server can be made to fail. */
struct fathom_control_injection_point {
	const char *name;
	const char *at;
	const char *const *actions;
	size_t action_count;
	const char *rule;
	uint64_t passed;
	uint64_t fired;
	uint32_t held;
	uint64_t armed_ns; /* when it got its rule; 0: none */
	uint64_t fired_ns; /* when it had its last effect; 0: never */
};

struct fathom_control_injection_points {
	const struct fathom_control_injection_point *points;
	size_t count;
};

struct fathom_control_masks {
	const char *const *errors; /* of the engines that failed */
	size_t error_count;
};

/* Of the management service. Before there is a system, the call fails with -ENODATA (not_formatted_system). */
struct fathom_control_version {
	uint32_t major;
	uint32_t minor;
	uint32_t patch;
	const char *tag;
};
/* clang-format on */
/* end */

/* of the table: results of config */
/* clang-format off */
/* A configuration for fathom-server. */
struct fathom_control_proposal {
	const char *text;
};
/* clang-format on */
/* end */

/* of the table: results of support */
/* clang-format off */
/* The archive that was written. */
struct fathom_control_log {
	const char *path;
	uint64_t bytes;
	const char *warning; /* what is missing in it, and why; "": nothing */
};
/* clang-format on */
/* end */

/* The answer that these hosts share. The member for the result of the call is set, the others are NULL. */
struct fathom_control_answer {
	const char *hosts; /* a list, with ports */
	size_t host_count;
	uint64_t hash;	 /* of the answer */
	size_t left_out; /* interfaces of all these hosts that a network scan does not show: down, or without an address */

	/* of the table: answers of hosts */
	/* clang-format off */
	const struct fathom_control_storage *storage;
	const struct fathom_control_format *format;
	const struct fathom_control_network *network;
	const struct fathom_control_host *host;
	const struct fathom_control_engines *engines;
	const struct fathom_control_policies *policies;
	const struct fathom_control_masks *masks;
	const struct fathom_control_log *log;
	const struct fathom_control_proposal *proposal;
	const char *version;
	const struct fathom_control_injection_points *injection_points;
	const struct fathom_control_health *health;
	const struct fathom_control_updated *updated;
	const struct fathom_control_led *led;
	const struct fathom_control_diagnosis *diagnosis;
	/* clang-format on */
	/* end */
};

/* Hosts that failed for the same reason. */
struct fathom_control_error {
	const char *hosts;
	size_t host_count;
	struct fathom_fault why;
};

/* Each host is in one of the lists. The call succeeds also if hosts failed. */
struct fathom_control_answers {
	const struct fathom_control_answer *answers; /* by their first host */
	size_t count;
	const struct fathom_control_error *errors;
	size_t error_count;
	size_t host_count; /* of all */
};

#endif
