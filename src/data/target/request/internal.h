/* SPDX-License-Identifier: BSD-2-Clause */
/* internal - the request interface inside the target. */
#ifndef TARGET_REQUEST_INTERNAL_H
#define TARGET_REQUEST_INTERNAL_H

#include "data/target/subsystem/subsystem.h"

/* Complete `req` with `status`; the caller has set cpl.cdw0 and cdw1. On its group's thread. */
void nvmf_req_complete(struct nvmf_req *req, enum nvme_status status, uint64_t now);

/* Run it after it waited for the subsystem. Afterwards its state is EXECUTING, WAIT_SUBSYSTEM or COMPLETED. */
void nvmf_req_go_on(struct nvmf_req *req, uint64_t now);

/* Queue it until the subsystem is active. */
void nvmf_req_wait(struct nvmf_req *req, uint64_t now) COLD;

/* Count it: a pause of the subsystem waits until it completes. */
static inline void nvmf_req_count(struct nvmf_req *req)
{
	must(!req->counted);
	req->counted = true;
	req->qpair->subsystem->outstanding++;
}

/* Free req->kept_data; it may be NULL. */
void nvmf_req_release_kept(struct nvmf_req *req);

/* Get: copy `bytes` of H2C data at `offset` out of the buffer. Put: copy C2H data into it and zero the rest. */
void nvmf_req_get_data(const struct nvmf_req *req, size_t offset, void *to, size_t bytes);
void nvmf_req_put_data(struct nvmf_req *req, const void *from, size_t bytes);

/*
 * Check the data pointer of a command that transfers `bytes` (0: none): kind, length, in-capsule bounds. `longer_ok`: the
 * host's length may be larger, up to MDTS. Sets transfer and data_bytes.
 */
enum nvme_status nvmf_req_check_data(struct nvmf_req *req, enum nvmf_transfer transfer, uint32_t bytes,
				     uint32_t capsule_bytes, bool longer_ok);

/* io.c: commands of I/O queues. */
enum nvme_status nvmf_io_received(struct nvmf_req *req, uint32_t capsule_bytes);
void nvmf_io_execute(struct nvmf_req *req, uint64_t now);

/* parking.c: whether a block device holds it and it has not been answered. */
bool nvmf_req_is_at_device(const struct nvmf_req *req);
/* Answer it with `status` although the device holds it: the request is lent. */
void nvmf_req_give_up(struct nvmf_req *req, enum nvme_status status, uint64_t now);
/* Give up all commands of `qpair` at devices; if `ns` is not NULL, only those of `ns`. */
void nvmf_qpair_give_up(struct nvmf_qpair *qpair, const struct nvmf_group_ns *ns, enum nvme_status status, uint64_t now);
/* Park a lent request whose response was sent. */
void nvmf_req_park(struct nvmf_req *req, uint64_t now);
/* The device has ended a lent request: release what it held. The result is ignored. */
void nvmf_req_returned(struct nvmf_req *req, uint64_t now) COLD;

/* The NVMe status for a block device's status. */
enum nvme_status nvmf_status_from_io(enum io_status status, enum io_type type);

/* qpair.c: a closing queue pair has no requests left. */
void nvmf_qpair_drained(struct nvmf_qpair *qpair);
/* The last step of closing: it has no controller, or has left it. */
void nvmf_qpair_finish(struct nvmf_qpair *qpair);
/* A PARKED queue pair has all its commands back from devices. */
void nvmf_qpair_returned(struct nvmf_qpair *qpair);
/* If it is closing, its drain expires at `deadline_tick` (not 0) at the latest. */
void nvmf_qpair_hurry(struct nvmf_qpair *qpair, uint64_t deadline_tick);
/* nvmf_qpair_disconnect() by a message to `group`. The controller's list of queues keeps `qpair` from being freed. */
void nvmf_qpair_disconnect_msg(struct nvmf_poll_group *group, struct nvmf_qpair *qpair, const char *reason);

#endif
