/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * controller - the association of a host with a subsystem: an admin queue, and I/O queues, perhaps on other groups.
 *
 * The control thread creates a controller when it accepts a Connect. The controller then belongs to its home: the thread of
 * its admin queue's group. The control thread keeps the list, allocates cntlids, and sends messages to the home.
 *
 *   Connect, admin     group -> control: check, create -> home: attach, answer
 *   Connect, I/O       group -> control: find the controller -> home: check, add to the list -> group: attach, answer
 *   I/O queue closes   group -> home: remove from the list -> group: closed
 *   admin queue closes   the I/O queues are disconnected; when the last has left:
 *                      home -> control: remove from the list -> home: free
 *
 * Messages from the control thread or another group arrive at the home before the last of these, so a controller needs no
 * reference count.
 */
#ifndef TARGET_CONTROLLER_H
#define TARGET_CONTROLLER_H

#include "data/nvme/feature.h"
#include "data/nvme/fabrics.h"
#include "data/nvme/log.h"
#include "data/nvme/register.h"
#include "data/target/internal.h"
#include "data/target/subsystem/subsystem.h"

enum {
	NVMF_EVENT_REQS_MAX = 4, /* AERL + 1 */
	NVMF_ABORTS_MAX = 4,	 /* ACL + 1 */
	NVMF_ERROR_ENTRIES = 64, /* ELPE + 1 */
	NVMF_CHANGED_NS_MAX = NVME_CHANGED_NS_MAX,
	NVMF_CAP_TO_HALF_SECONDS = 30,
	NVMF_ENABLE_MS = 30000,		 /* from Connect to CC.EN; hosts enable at once */
	NVMF_DISCOVERY_IDLE_MS = 120000, /* an idle discovery controller without keep-alive is closed after this time */
	NVMF_IOSQES = 6,
	NVMF_IOCQES = 4,
};
static_assert((int)NVMF_CHANGED_NS_MAX <= (int)NVME_NS_LIST_ENTRIES, "the log lists them all");
static_assert(1 << NVMF_IOSQES == NVME_COMMAND_BYTES, "the host must set this value");
static_assert(1 << NVMF_IOCQES == NVME_COMPLETION_BYTES, "likewise");

/* An I/O queue in the list of its controller's home. */
struct nvmf_ctrlr_io {
	struct nvmf_qpair *qpair; /* must not be read at home: it belongs to the thread of `group` */
	struct nvmf_poll_group *group;
	uint16_t qid;
	TAILQ_ENTRY(nvmf_ctrlr_io) link;
};

struct nvmf_features {
	uint32_t arbitration, power, temperature_over, temperature_under, error_recovery, write_cache;
	uint32_t interrupt_coalescing, interrupt_vector, write_atomicity, events, kato;
	struct nvme_host_behavior behavior;
};

struct nvmf_ctrlr {
	struct trace_object trace;
	enum nvmf_ctrlr_state state;
	/* constant */
	struct nvmf_subsystem *subsystem;
	struct nvmf_poll_group *group;
	uint16_t cntlid;
	bool discovery;
	char host_nqn[NVME_NQN_FIELD_BYTES];
	uint8_t host_id[NVME_HOSTID_BYTES];
	const struct trace_istr *host_istr;
	char local_address[NVMF_ADDRESS_BYTES_MAX], local_service[8];
	char peer_address[NVMF_ADDRESS_BYTES_MAX];
	uint64_t connected_ns; /* since 1970 */
	uint16_t io_queues_max;
	uint32_t kas_ms, kato_min_ms;
	/* home thread only */
	struct nvmf_qpair *admin;
	TAILQ_HEAD(, nvmf_ctrlr_io) io_qpairs;
	uint32_t io_count;
	uint32_t cc, csts;
	struct nvmf_features features;
	struct nvmf_req *event_reqs[NVMF_EVENT_REQS_MAX]; /* oldest first */
	uint32_t event_req_count;
	uint32_t events_pending, events_masked; /* bits of enum nvmf_event */
	uint32_t changed_ns[NVMF_CHANGED_NS_MAX];
	uint32_t changed_ns_count; /* NVMF_CHANGED_NS_MAX + 1: too many to list */
	struct nvme_log_error errors[NVMF_ERROR_ENTRIES];
	uint64_t error_count;
	uint32_t abort_count; /* Abort commands being executed on other groups */
	struct poller *keep_alive;
	struct poller *enable_timer;	     /* NULL: it was enabled */
	const struct trace_istr *end_reason; /* why its admin queue closed; NULL: unknown */
	uint64_t created_tick;
	/* control thread only */
	TAILQ_ENTRY(nvmf_ctrlr) link;
};

/* ---- from the request layer; on the queue pair's thread ---- */

enum nvme_status nvmf_fabrics_received(struct nvmf_req *req, uint32_t capsule_bytes);
void nvmf_fabrics_execute(struct nvmf_req *req, uint64_t now);
enum nvme_status nvmf_admin_received(struct nvmf_req *req, uint32_t capsule_bytes);
void nvmf_admin_execute(struct nvmf_req *req, uint64_t now);
/* Log the error of a command of `qpair` in the controller's error log. */
void nvmf_ctrlr_note_error(struct nvmf_qpair *qpair, const struct nvmf_req *req, enum nvme_status status) COLD;
/* Remove a drained I/O queue from its controller. Ends with nvmf_qpair_finish() on the queue's thread. */
void nvmf_ctrlr_io_qpair_leave(struct nvmf_ctrlr *ctrlr, struct nvmf_qpair *qpair);

/* ---- on the home thread ---- */

/* The admin queue has drained: end the association. The admin queue pair is not used afterwards. */
void nvmf_ctrlr_admin_gone(struct nvmf_ctrlr *ctrlr);
void nvmf_ctrlr_disconnect_io(struct nvmf_ctrlr *ctrlr, const char *reason);
void nvmf_ctrlr_disconnect_all(struct nvmf_ctrlr *ctrlr, const char *reason);
/* If no I/O queue is left, continue a reset, a shutdown or the end of the association. */
void nvmf_ctrlr_check(struct nvmf_ctrlr *ctrlr);
/* Start the shutdown of an ENABLED or DISABLED controller. */
void nvmf_ctrlr_shut(struct nvmf_ctrlr *ctrlr, uint64_t now);
/* DISABLED -> ENABLED; FAILED if CC is invalid. */
void nvmf_ctrlr_enable(struct nvmf_ctrlr *ctrlr, uint64_t now);
/* Restart the keep-alive timer with features.kato. */
void nvmf_ctrlr_keep_alive(struct nvmf_ctrlr *ctrlr);
/* End the association if the controller is not enabled in time. */
void nvmf_ctrlr_await_enable(struct nvmf_ctrlr *ctrlr);
/* Round a host's keep-alive time-out to the transport's granularity and minimum. */
uint32_t nvmf_ctrlr_round_kato(const struct nvmf_ctrlr *ctrlr, uint32_t kato_ms);
void nvmf_features_init(struct nvmf_ctrlr *ctrlr);
bool nvmf_feature_known(const struct nvmf_ctrlr *ctrlr, uint8_t fid);

/* controller/connect.c */
enum nvme_status nvmf_connect_received(struct nvmf_req *req, uint32_t capsule_bytes);
void nvmf_connect_execute(struct nvmf_req *req, uint64_t now);

/* controller/property.c */
void nvmf_property_get(struct nvmf_req *req, uint64_t now);
void nvmf_property_set(struct nvmf_req *req, uint64_t now);

/*
 * controller/identify.c, feature.c, log.c, event.c, abort.c: each completes the request, or keeps it and completes it later
 */
void nvmf_identify(struct nvmf_req *req, uint64_t now);
void nvmf_get_features(struct nvmf_req *req, uint64_t now);
void nvmf_set_features(struct nvmf_req *req, uint64_t now);
enum nvme_status nvmf_get_features_received(struct nvmf_req *req);
enum nvme_status nvmf_set_features_received(struct nvmf_req *req, uint32_t capsule_bytes);
void nvmf_get_log_page(struct nvmf_req *req, uint64_t now);
void nvmf_event_request(struct nvmf_req *req, uint64_t now);
void nvmf_abort(struct nvmf_req *req, uint64_t now);

/* Report an event to the host. */
void nvmf_ctrlr_event(struct nvmf_ctrlr *ctrlr, enum nvmf_event event, uint32_t nsid);
/* The host has read the log page of an event: unmask the event. */
void nvmf_ctrlr_event_seen(struct nvmf_ctrlr *ctrlr, enum nvmf_event event);
/* End all event requests. */
void nvmf_ctrlr_abort_events(struct nvmf_ctrlr *ctrlr, enum nvme_status status, uint64_t now);
/* End one of them. False: `req` is no event request of `ctrlr`. */
bool nvmf_ctrlr_abort_event(struct nvmf_ctrlr *ctrlr, struct nvmf_req *req, uint64_t now);

/* ---- on the control thread ---- */

struct nvmf_ctrlr *nvmf_ctrlr_find(const struct nvmf_subsystem *subsystem, uint16_t cntlid);
/* Disconnect its queues, soon. */
void nvmf_ctrlr_drop(struct nvmf_ctrlr *ctrlr, const char *reason);
/* Call nvmf_ctrlr_event() at its home, by a message. */
void nvmf_ctrlr_send_event(struct nvmf_ctrlr *ctrlr, enum nvmf_event event, uint32_t nsid);

/* discovery/discovery.c: the log page for `host_nqn`; the caller must free() it. Control thread. */
struct nvme_discovery_log *nvmf_discovery_log(const char *host_nqn, const char *local_address, const char *local_service,
					      size_t *bytes_ret);

#endif
