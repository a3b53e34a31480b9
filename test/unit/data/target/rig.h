/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig - a target under the simulator, with a transport that consists of function calls, and a disk that completes when the
 * test orders it.
 *
 * Everything runs in rig_run(), which steps all reactors until none has work. Messages make a connection's calls into the
 * target on its group's thread.
 */
#ifndef TEST_TARGET_RIG_H
#define TEST_TARGET_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/bits.h"
#include "base/clock.h"
#include "data/nvme/feature.h"
#include "data/nvme/identify.h"
#include "data/nvme/log.h"
#include "data/nvme/opcode.h"
#include "data/nvme/register.h"
#include "base/reactor/reactor.h"
#include "data/target/request/request.h"
#include "data/target/target.h"

#define RIG_NQN "nqn.2026-01.io.fathom:one"
#define RIG_NQN_TWO "nqn.2026-01.io.fathom:two" /* created by the test */
#define RIG_HOST "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-0000000000aa"

enum { RIG_GROUPS = 2, RIG_REQS_MAX = 140, RIG_BLOCK_BYTES = 512, RIG_BLOCKS = 8192 };

struct rig_conn;

/* A command of a test. */
struct rig_cmd {
	struct nvme_command cmd;
	void *data; /* H2C: data to send; C2H: buffer for received data */
	uint32_t bytes;
	bool in_capsule;    /* H2C: data is in the capsule */
	bool hold_transfer; /* H2C: stop in TRANSFER_IN until rig_transfer() */
	bool hold_response; /* stop in COMPLETED until rig_sent() */
	struct rig_conn *conn;
	struct nvmf_req *req; /* while it is in progress */
	bool done;
	uint16_t status; /* enum nvme_status */
	bool dnr;
	struct nvme_completion cpl;
	uint32_t received_bytes; /* C2H */
	enum nvmf_transfer transfer;
	bool reads_zeroes, inline_done;
};

struct rig_conn {
	struct nvmf_qpair qpair; /* must be the first member */
	struct nvmf_poll_group *group;
	struct nvmf_req *reqs;
	struct rig_cmd *cmd_of[RIG_REQS_MAX];
	uint8_t *buffers; /* NVMF_IO_BYTES_DEFAULT each, allocated at first use */
	bool opened, closed, disconnecting;
	bool stays;	    /* ignores the target's disconnect */
	const char *reason; /* of the disconnect */
	bool no_memory;	    /* connected() fails */
	unsigned int connected_count;
};

/* ---- the target ---- */

int rig_setup(
	/* a running target: subsystem RIG_NQN active, listening at 127.0.0.1:4420, malloc bdev "m0" as nsid 1 */
	void **state);
int rig_teardown(void **state); /* stop the target; nothing may be left */
void rig_run(void);
void rig_advance(uint64_t ns); /* advance time, timer by timer */
/* Stall the reactor of group `index` (-1: none). */
void rig_stall(int index);
uint64_t rig_now(void);

/* An operation with a done callback: functions below wait for it and return its rc. */
struct rig_op {
	bool done;
	int rc;
	char why[FAULT_TEXT_BYTES_MAX];
	uint32_t nsid;
};
void rig_done(void *ctx, int rc, const struct fathom_fault *why);
void rig_ns_done(void *ctx, int rc, const struct fathom_fault *why, uint32_t nsid);
/* Start without waiting: call rig_run() until op->done. */
typedef void (*rig_nqn_fn)(const char *nqn, nvmf_done_fn done, void *ctx);
typedef void (*rig_host_fn)(const char *nqn, const char *host, nvmf_done_fn done, void *ctx);
void rig_begin(rig_nqn_fn fn, const char *nqn, struct rig_op *op);
int rig_subsystem(rig_nqn_fn fn, const char *nqn);
int rig_host(rig_host_fn fn, const char *nqn, const char *host);
int rig_allow_any(const char *nqn, bool allow);
int rig_create(const struct nvmf_subsystem_options *options);
/* Run `fn(ctx)` on a thread, then run all reactors until none has work. */
void rig_call(struct fathom_thread *thread, thread_fn fn, void *ctx);
extern struct rig_op rig_last; /* the last operation that was waited for */
int rig_add_ns(const char *bdev, uint32_t nsid, uint32_t *nsid_ret);
int rig_add_ns_to(const char *nqn, const char *bdev, uint32_t nsid);
int rig_remove_ns(uint32_t nsid);
/* Start without waiting; `drain_ms` as in nvmf_subsystem_remove_ns(). */
void rig_remove_ns_begin(uint32_t nsid, uint32_t drain_ms, struct rig_op *op);
void rig_stop_begin(struct rig_op *op);
int rig_address_op(bool add, const char *nqn, const char *traddr, const char *trsvcid);
/* Start one operation; rig_steps() or rig_run() continues it. */
void rig_address_begin(bool add, const char *nqn, const char *traddr, const char *trsvcid, struct rig_op *op);
/* Delay listening and stopping in the transport, one address at a time. False: complete them, and delay no more. */
void rig_listen_hold(bool hold);
void rig_malloc(const char *name, uint64_t blocks, uint32_t block_bytes);
void rig_null(const char *name, uint64_t blocks, uint32_t block_bytes);
void rig_delete_bdev(const char *name);

/* Whether disks that are created from now on have durable writes. */
void rig_disk_durable(bool durable);
/* The number of writes that had to be durable. */
unsigned int rig_disk_durable_count(void);
/* Create a disk that holds each I/O until rig_disk_release(). `write_cache`: with a write cache. */
void rig_disk(const char *name, bool write_cache, bool read_only);
unsigned int rig_disk_held(void);
/* Complete all held I/Os with `status` (enum io_status), on their threads. */
void rig_disk_release(int status);
/* Hold I/Os, or complete them at once. */
void rig_disk_hold(bool hold);
/* Number of I/Os of a type (enum io_type) submitted to the disk. */
unsigned int rig_disk_count(int type);
/* Make channel creation fail on group `index` (-1: on none). */
void rig_disk_refuse_channel(int index);
/* Remove support for this type of I/O. Call before a namespace uses the disk. */
void rig_disk_lacks(int type);

/* ---- the trace ---- */

/* The group nvmf is recorded from rig_trace_open(), to be called before rig_setup(), to rig_trace_close(). */
void rig_trace_open(void);
void rig_trace_close(void);
/* Get the argument slots of the newest record of `point` (TRACE_POINT_*). False: no record. */
bool rig_trace_last(uint16_t point, uint32_t *slots_ret, size_t slot_count);

/* ---- connections ---- */

/* Open a connection on group `index` (-1: chosen by the target). */
struct rig_conn *rig_open(int index);
/* Break the connection. */
void rig_close(struct rig_conn *conn);
/* Free a closed connection. */
void rig_free(struct rig_conn *conn);

/* Submit without waiting (rig_submit), or wait and return the status (rig_exec). */
void rig_submit(struct rig_conn *conn, struct rig_cmd *cmd);
uint16_t rig_exec(struct rig_conn *conn, struct rig_cmd *cmd);
/* Submit; then each rig_steps() is one turn of each reactor. */
void rig_begin_submit(struct rig_conn *conn, struct rig_cmd *cmd);
void rig_steps(int count);
void rig_transfer(struct rig_cmd *cmd);
void rig_sent(struct rig_cmd *cmd);

struct rig_connect {
	const char *subnqn, *hostnqn;
	uint16_t qid, cntlid, sqsize, recfmt;
	uint8_t cattr, hostid;
	uint32_t kato;
};
struct rig_connect rig_connect_admin(void); /* valid defaults */
struct rig_connect rig_connect_io(uint16_t cntlid, uint16_t qid);
void rig_connect_cmd(struct rig_cmd *cmd, const struct rig_connect *connect, struct nvme_connect_data *data);
uint16_t rig_connect(struct rig_conn *conn, const struct rig_connect *connect, struct rig_cmd *cmd_ret);

/* Open an admin queue on group `index`, connected and enabled. `cntlid_ret` may be NULL. */
struct rig_conn *rig_admin(int index, uint16_t *cntlid_ret);
struct rig_conn *rig_io(int index, uint16_t cntlid, uint16_t qid);
uint16_t rig_property_set(struct rig_conn *conn, uint32_t offset, uint32_t value);
uint64_t rig_property_get(struct rig_conn *conn, uint32_t offset, bool wide);
#define RIG_CC_ENABLED (NVME_CC_EN | 6u << NVME_CC_IOSQES_SHIFT | 4u << NVME_CC_IOCQES_SHIFT)

/* Commands. */
struct rig_cmd rig_c2h(uint8_t opcode, uint32_t nsid, void *data, uint32_t bytes);
struct rig_cmd rig_h2c(uint8_t opcode, uint32_t nsid, void *data, uint32_t bytes);
struct rig_cmd rig_plain(uint8_t opcode, uint32_t nsid);
void rig_blocks(struct rig_cmd *cmd, uint64_t slba, uint32_t count);
struct rig_cmd rig_identify(uint8_t cns, uint32_t nsid, void *page);
struct rig_cmd rig_log(uint8_t lid, void *data, uint32_t bytes, uint64_t offset);

#endif
