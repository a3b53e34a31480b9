/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tuning methods in a configuration of SPDK's target: socket layer, buffer pools, accelerators, RAID and NVMe drivers. One
 * table lists them. Their parameters are checked by name and type and then ignored; the log reports this once per method. A
 * value that requests behaviour (TLS on every socket, passthrough of commands, host restrictions) is rejected with an
 * explanation: accepting it would promise a feature that does not exist.
 */
#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/log.h"
#include "data/engine/internal.h"
#include "data/target/target.h"

#define DROPPED(T, N) RPC_PARAM_MEANINGLESS(T, N)
#define DROPPED_NAMES(T, N, NAMES) RPC_PARAM_MEANINGLESS_NAMES(T, N, NAMES)
#define DROPPED_OBJECT(N, FIELDS) RPC_ROW(.name = N, .type = RPC_OBJECT, .meaningless = true, .fields = FIELDS)

/* ---- the socket layer, buffers, accelerators, RAID ---- */

static const char *const socket_names[] = { "posix", "uring", "ssl", NULL };

static const struct rpc_param sock_default_fields[] = {
	RPC_ROW(.name = "impl_name", .type = RPC_ENUM, .meaningless = true, .names = socket_names, .required = true),
	RPC_PARAM_END,
};

static const struct rpc_param sock_fields[] = {
	RPC_ROW(.name = "impl_name", .type = RPC_STRING, .meaningless = true, .required = true),
	DROPPED(U32, "recv_buf_size"),
	DROPPED(U32, "send_buf_size"),
	DROPPED(BOOL, "enable_recv_pipe"),
	DROPPED(BOOL, "enable_zerocopy_send"), /* of older versions */
	DROPPED(BOOL, "enable_quickack"),
	DROPPED(U32, "enable_placement_id"),
	DROPPED(BOOL, "enable_zerocopy_send_server"),
	DROPPED(BOOL, "enable_zerocopy_send_client"),
	DROPPED(U32, "zerocopy_threshold"),
	DROPPED(U32, "tls_version"),
	DROPPED(BOOL, "enable_ktls"),
	RPC_PARAM_END,
};

static const struct rpc_param iobuf_fields[] = {
	DROPPED(U64, "small_pool_count"), DROPPED(U64, "large_pool_count"), DROPPED(U32, "small_bufsize"),
	DROPPED(U32, "large_bufsize"),	  DROPPED(BOOL, "enable_numa"),	    RPC_PARAM_END,
};

static const struct rpc_param accel_fields[] = {
	DROPPED(U32, "small_cache_size"), DROPPED(U32, "large_cache_size"), DROPPED(U32, "task_count"),
	DROPPED(U32, "sequence_count"),	  DROPPED(U32, "buf_count"),	    RPC_PARAM_END,
};

static const struct rpc_param raid_fields[] = {
	DROPPED(U32, "process_window_size_kb"),
	DROPPED(U32, "process_max_bandwidth_mb_sec"),
	RPC_PARAM_END,
};

/* ---- the NVMe driver ---- */

static const char *const digest_names[] = { "sha256", "sha384", "sha512", NULL };
static const char *const dhgroup_names[] = {
	"null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192", NULL
};
static const char *const timeout_names[] = { "none", "reset", "abort", NULL };
static const char *const policy_names[] = { "active_passive", "active_active", NULL };
static const char *const selector_names[] = { "round_robin", "queue_depth", NULL };

static const struct rpc_param multipath_fields[] = {
	DROPPED_NAMES(ENUM, "policy", policy_names),
	DROPPED_NAMES(ENUM, "selector", selector_names),
	DROPPED(U32, "rr_min_io"),
	RPC_PARAM_END,
};

static const struct rpc_param nvme_fields[] = {
	DROPPED_NAMES(ENUM, "action_on_timeout", timeout_names),
	DROPPED(U64, "timeout_us"),
	DROPPED(U64, "timeout_admin_us"),
	DROPPED(U32, "keep_alive_timeout_ms"),
	DROPPED(U32, "arbitration_burst"),
	DROPPED(U32, "low_priority_weight"),
	DROPPED(U32, "medium_priority_weight"),
	DROPPED(U32, "high_priority_weight"),
	DROPPED(U64, "nvme_adminq_poll_period_us"),
	DROPPED(U64, "nvme_ioq_poll_period_us"),
	DROPPED(U32, "io_queue_requests"),
	DROPPED(BOOL, "delay_cmd_submit"),
	DROPPED(U32, "transport_retry_count"),
	DROPPED(I32, "bdev_retry_count"),
	DROPPED(U8, "transport_ack_timeout"),
	DROPPED(I32, "ctrlr_loss_timeout_sec"),
	DROPPED(U32, "reconnect_delay_sec"),
	DROPPED(U32, "fast_io_fail_timeout_sec"),
	DROPPED(BOOL, "disable_auto_failback"),
	DROPPED(BOOL, "generate_uuids"),
	DROPPED(U8, "transport_tos"),
	DROPPED(BOOL, "nvme_error_stat"),
	DROPPED(U32, "rdma_srq_size"),
	DROPPED(BOOL, "io_path_stat"),
	DROPPED(BOOL, "allow_accel_sequence"),
	DROPPED(U32, "rdma_max_cq_size"),
	DROPPED(U16, "rdma_cm_event_timeout_ms"),
	DROPPED_NAMES(NAMES, "dhchap_digests", digest_names),
	DROPPED_NAMES(NAMES, "dhchap_dhgroups", dhgroup_names),
	DROPPED(BOOL, "rdma_umr_per_io"),
	DROPPED(U32, "tcp_connect_timeout_ms"),
	DROPPED(BOOL, "enable_flush"),
	DROPPED_OBJECT("multipath_opts", multipath_fields),
	RPC_PARAM_END,
};

static const struct rpc_param hotplug_fields[] = {
	RPC_ROW(.name = "enable", .type = RPC_BOOL, .meaningless = true, .required = true),
	DROPPED(U64, "period_us"),
	RPC_PARAM_END,
};

/* ---- the target ---- */

static const char *const filter_names[] = { "transport", "address", "svcid", NULL };
static const char *const dup_host_names[] = { "allow", "restrict_per_listener", NULL };

static const struct rpc_param passthru_fields[] = {
	DROPPED(BOOL, "identify_ctrlr"),  DROPPED(BOOL, "identify_uuid_list"),
	DROPPED(BOOL, "get_log_page"),	  DROPPED(BOOL, "get_set_features"),
	DROPPED(BOOL, "sanitize"),	  DROPPED(BOOL, "security_send_recv"),
	DROPPED(BOOL, "fw_update"),	  DROPPED(BOOL, "nvme_mi"),
	DROPPED(BOOL, "vendor_specific"), RPC_PARAM_END,
};

static const struct rpc_param nvmf_fields[] = {
	DROPPED_OBJECT("admin_cmd_passthru", passthru_fields),
	DROPPED(STRING, "poll_groups_mask"),
	DROPPED(STRING, "discovery_filter"), /* of older versions */
	DROPPED_NAMES(NAMES, "discovery_filters", filter_names),
	DROPPED_NAMES(NAMES, "dhchap_digests", digest_names),
	DROPPED_NAMES(NAMES, "dhchap_dhgroups", dhgroup_names),
	DROPPED_NAMES(ENUM, "dup_host_policy", dup_host_names),
	RPC_PARAM_END,
};

static const struct rpc_param max_subsystems_fields[] = {
	RPC_ROW(.name = "max_subsystems", .type = RPC_U32, .meaningless = true, .required = true),
	RPC_PARAM_END,
};

/* ---- values that request missing features: an explanation; NULL: accepted ---- */

static const char *check_default_socket(const json_t *params)
{
	const char *name = json_string_value(json_object_get(params, "impl_name"));

	return strcmp(name, "ssl") == 0 ? "impl_name \"ssl\" asks for TLS on every connection, which is not there" : NULL;
}

static const char *check_hotplug(const json_t *params)
{
	return json_is_true(json_object_get(params, "enable"))
		       ? "there is no driver for NVMe devices of PCI Express that would attach those that are plugged in"
		       : NULL;
}

static const char *check_nvmf(const json_t *params)
{
	const json_t *passthru = json_object_get(params, "admin_cmd_passthru"), *allowed;
	const json_t *filters = json_object_get(params, "discovery_filters");
	const char *policy = json_string_value(json_object_get(params, "dup_host_policy")), *name;
	const char *filter = json_string_value(json_object_get(params, "discovery_filter"));

	json_object_foreach ((json_t *)passthru, name, allowed) {
		if (json_is_true(allowed))
			return "admin_cmd_passthru: admin commands are never passed through to a device";
	}
	if (json_array_size(filters) > 0 || (filter && strcmp(filter, "match_any") != 0))
		return "discovery_filters: the discovery log is not filtered";
	if (policy && strcmp(policy, "allow") != 0)
		return "dup_host_policy: a host may always connect more than once";
	return NULL;
}

static const char *check_max_subsystems(const json_t *params)
{
	static_assert(NVMF_SUBSYSTEMS_MAX == 1024, "the sentence says so");
	return json_integer_value(json_object_get(params, "max_subsystems")) > NVMF_SUBSYSTEMS_MAX
		       ? "max_subsystems: there are at most 1024 subsystems"
		       : NULL;
}

/* ---- the table ---- */

static const struct tuning {
	const char *method;
	const struct rpc_param *fields;
	const char *(*check)(const json_t *params); /* called after the type check; NULL: every value is ignored */
} rows[] = {
	{ "sock_set_default_impl", sock_default_fields, check_default_socket },
	{ "sock_impl_set_options", sock_fields, NULL },
	{ "iobuf_set_options", iobuf_fields, NULL },
	{ "accel_set_options", accel_fields, NULL },
	{ "bdev_raid_set_options", raid_fields, NULL },
	{ "bdev_nvme_set_options", nvme_fields, NULL },
	{ "bdev_nvme_set_hotplug", hotplug_fields, check_hotplug },
	{ "nvmf_set_config", nvmf_fields, check_nvmf },
	{ "nvmf_set_max_subsystems", max_subsystems_fields, check_max_subsystems },
};

/* SPDK's subsystems that Fathom lacks. Their part of a configuration has no calls, or only calls of the table above. */
static const char *const foreign_subsystems[] = { "scheduler", "sock",	    "iobuf",	  "keyring", "vmd",  "accel", "nbd",
						  "ublk",      "vhost_blk", "vhost_scsi", "iscsi",   "scsi", "fsdev" };

bool tuning_has_subsystem(const char *name)
{
	for (size_t i = 0; i < ARRAY_COUNT(foreign_subsystems); i++) {
		if (strcmp(foreign_subsystems[i], name) == 0)
			return true;
	}
	return false;
}

static size_t row_of(const char *method)
{
	size_t i = 0;

	while (strcmp(rows[i].method, method) != 0)
		i++;
	must(i < ARRAY_COUNT(rows));
	return i;
}

static void accept_tuning(struct rpc_request *request, const json_t *params)
{
	static bool said[ARRAY_COUNT(rows)];
	size_t index = row_of(rpc_request_method(request));
	const struct tuning *row = &rows[index];
	struct fathom_fault why;
	const char *wrong;

	if (rpc_params_read(params, row->fields, NULL, &why)) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: %s", why.text);
		return;
	}
	wrong = row->check ? row->check(params) : NULL;
	if (wrong) {
		rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "%s", wrong);
		return;
	}
	if (!said[index])
		log_notice("%s: accepted; it has no meaning here", row->method);
	said[index] = true;
	rpc_reply(request, NULL);
}

void rpc_tuning_register(void)
{
	static struct rpc_method methods[ARRAY_COUNT(rows)];

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++)
		methods[i] = (struct rpc_method){ rows[i].method, RPC_ALWAYS, accept_tuning };
	rpc_register(methods, ARRAY_COUNT(methods));
}
