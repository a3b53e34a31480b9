/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * facts - what a scan finds: devices, interfaces, memory, how full the engines' storage is. It asks the kernel and blocks
 * while devices answer, so it is done on a thread of its own; from facts to an answer nothing blocks.
 */
#ifndef CONTROL_SERVER_FACTS_H
#define CONTROL_SERVER_FACTS_H

#include "control/network/network.h"
#include "control/server/arena.h"
#include "control/server/configuration.h"
#include "control/storage/storage.h"
#include "control/system/member.h"
#include "rpc/proto/ctl.pb-c.h"
#include "rpc/proto/fathom.pb-c.h"

enum { FACTS_NODES_MAX = 64 };

struct facts_memory {
	uint64_t hugepages_total, hugepages_free, hugepages_reserved, hugepages_surplus, hugepage_kib;
	uint64_t total_kib, free_kib, available_kib, used_kib;
};

struct facts_usage {
	int error; /* negative errno: it is not there */
	uint64_t total_bytes, avail_bytes;
	bool has_image; /* of a folder: data.img is there */
};

struct storage_facts {
	struct fault why; /* error 0: all is there */
	struct storage_scan scan;
	struct facts_memory memory;
	struct facts_memory nodes[FACTS_NODES_MAX];
	size_t node_count;
	struct facts_usage *usage; /* of each engine of the configuration */
};

struct network_facts {
	struct fault why;
	struct network_scan scan;
	uint32_t node_count, cores_per_node;
};

/* All that there is, as it is; what DAOS's scans have is a part of it. */
struct host_facts {
	struct fault why;
	struct fault unread; /* why what some devices hold is not known */
	struct storage_scan devices;
	struct network_scan interfaces;
};

/* Any thread. Free them. `config` is not changed meanwhile. */
void storage_facts_collect(struct provider *os, const struct server_config *config, struct storage_facts *facts_ret);
void storage_facts_free(struct storage_facts *facts);
void network_facts_collect(struct provider *os, struct network_facts *facts_ret);
void network_facts_free(struct network_facts *facts);
void host_facts_collect(struct provider *os, struct host_facts *facts_ret);
void host_facts_free(struct host_facts *facts);

/* How an engine stands with its storage, as answers have it. */
struct facts_engine {
	bool has_rank, is_formatted;
	uint32_t rank;
	char uuid[MEMBER_UUID_TEXT_BYTES]; /* "": none */
};

/* The answer, whose parts are in `arena`. `engines` has one entry for each of the configuration's. */
const Ctl__StorageScanResp *storage_scan_answer(const struct storage_facts *facts, const struct server_config *config,
						const struct facts_engine *engines, const Ctl__StorageScanReq *request,
						struct arena *arena);
/* The devices that engines with ranks have: block devices, and of class file the file in the folder. */
const Ctl__SmdQueryResp *smd_query_answer(const struct storage_facts *facts, const struct server_config *config,
					  const struct facts_engine *engines, const Ctl__SmdQueryReq *request,
					  struct arena *arena);
const Ctl__NetworkScanResp *network_scan_answer(const struct network_facts *facts, const struct server_config *config,
						const Ctl__NetworkScanReq *request, struct arena *arena);
const Fathom__HostDevicesResp *host_devices_answer(const struct host_facts *facts, struct arena *arena);

#endif
