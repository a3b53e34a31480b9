/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * facts - results of a scan: devices, interfaces, memory, usage of the engines' storage. Collecting them blocks while
 * devices answer, so it runs on a worker thread; making an answer from them does not block.
 */
#ifndef CONTROL_SERVER_FACTS_H
#define CONTROL_SERVER_FACTS_H

#include "control/network/network.h"
#include "control/server/core/arena.h"
#include "control/server/config/configuration.h"
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
	int error; /* negative errno: the mount point cannot be read */
	uint64_t total_bytes, avail_bytes;
	bool has_image; /* of a folder: data.img exists */
};

struct storage_facts {
	struct fathom_fault why; /* error 0: complete */
	struct storage_scan scan;
	struct facts_memory memory;
	struct facts_memory nodes[FACTS_NODES_MAX];
	size_t node_count;
	struct facts_usage *usage; /* of each engine of the configuration */
};

struct network_facts {
	struct fathom_fault why;
	struct network_scan scan;
	uint32_t node_count, cores_per_node;
};

/* All devices and interfaces; the scans that DAOS has show a part of them. */
struct host_facts {
	struct fathom_fault why;
	struct fathom_fault unread; /* why the helper could not read some devices */
	struct storage_scan devices;
	struct network_scan interfaces;
};

/* Any thread. The caller frees the facts. `config` must not change meanwhile. */
void storage_facts_collect(struct provider *os, const struct server_config *config, struct storage_facts *facts_ret);
void storage_facts_free(struct storage_facts *facts);
void network_facts_collect(struct provider *os, struct network_facts *facts_ret);
void network_facts_free(struct network_facts *facts);
void host_facts_collect(struct provider *os, struct host_facts *facts_ret);
void host_facts_free(struct host_facts *facts);

/* The state of an engine's storage in answers. */
struct facts_engine {
	bool has_rank, is_formatted;
	uint32_t rank;
	char uuid[MEMBER_UUID_TEXT_BYTES]; /* "": none */
};

/* The answer is in `arena`. `engines` has one entry for each engine of the configuration. */
const Ctl__StorageScanResp *storage_scan_answer(const struct storage_facts *facts, const struct server_config *config,
						const struct facts_engine *engines, const Ctl__StorageScanReq *request,
						struct arena *arena);
/* The devices of engines with ranks: block devices, or with class file data.img in the folder. */
const Ctl__SmdQueryResp *smd_query_answer(const struct storage_facts *facts, const struct server_config *config,
					  const struct facts_engine *engines, const Ctl__SmdQueryReq *request,
					  struct arena *arena);
const Ctl__NetworkScanResp *network_scan_answer(const struct network_facts *facts, const struct server_config *config,
						const Ctl__NetworkScanReq *request, struct arena *arena);
const Fathom__HostDevicesResp *host_devices_answer(const struct host_facts *facts, struct arena *arena);

#endif
