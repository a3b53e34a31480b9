/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rig - a dRPC server on the control reactor, with these methods:
 *
 *   module 0  1 echo       returns the body; decoded as a Call, so that a body can be malformed
 *             2 hold       answers when `held` is released
 *             3 fail       DRPC_FAILURE
 *             4 big        returns as many bytes as `sequence` of the request
 *             5 peer       returns pid, uid, gid of the caller, as module, method, sequence
 *             6 raw        returns the length of the body, as sequence, without decoding it
 */
#ifndef TEST_UNIT_DRPC_RIG_H
#define TEST_UNIT_DRPC_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* after those */
#include <cmocka.h>

#include "base/bits.h"
#include "base/clock.h"
#include "rpc/drpc/drpc.h"
#include "rpc/proto/drpc.pb-c.h"

#include "../../control_thread.h"

static char rig_directory[] = "/tmp/fathom-drpc-XXXXXX", rig_path[64];
static struct drpc_server *rig_server;
static struct fathom_fault why;
static struct drpc_call *held[64];
static size_t held_count;
static void *rig_ctx = &rig_ctx;
static uint64_t rig_timeout_ns = 60 * NS_PER_SEC; /* time-out of a message */
static uint32_t rig_connections_a_process;

static inline void rig_echo(struct drpc_call *call, const ProtobufCMessage *request)
{
	assert_ptr_equal(drpc_call_ctx(call), &rig_ctx);
	drpc_reply(call, request);
}

static inline void rig_hold(struct drpc_call *call, const ProtobufCMessage *request)
{
	assert_true(held_count < ARRAY_COUNT(held));
	held[held_count++] = call;
}

static inline void rig_fail(struct drpc_call *call, const ProtobufCMessage *request)
{
	drpc_fail(call, DRPC_FAILURE);
}

static inline void rig_big(struct drpc_call *call, const ProtobufCMessage *request)
{
	Drpc__Response big = DRPC__RESPONSE__INIT;

	big.body.len = (size_t)((const Drpc__Call *)request)->sequence;
	big.body.data = malloc(big.body.len);
	assert_non_null(big.body.data);
	memset(big.body.data, 'b', big.body.len);
	drpc_reply(call, &big.base);
	free(big.body.data);
}

static inline void rig_peer(struct drpc_call *call, const ProtobufCMessage *request)
{
	const struct drpc_peer *peer = drpc_call_peer(call);
	Drpc__Call answer = DRPC__CALL__INIT;

	answer.module = peer->pid;
	answer.method = (int32_t)peer->uid;
	answer.sequence = peer->gid;
	drpc_reply(call, &answer.base);
}

static inline void rig_raw(struct drpc_call *call, const ProtobufCMessage *request)
{
	Drpc__Call answer = DRPC__CALL__INIT;
	size_t bytes;

	assert_null(request);
	(void)drpc_call_body(call, &bytes);
	answer.sequence = (int64_t)bytes;
	drpc_reply(call, &answer.base);
}

static const struct drpc_method rig_methods[] = {
	{ DRPC_MODULE_TEST, 1, "echo", &drpc__call__descriptor, rig_echo },
	{ DRPC_MODULE_TEST, 2, "hold", NULL, rig_hold },
	{ DRPC_MODULE_TEST, 3, "fail", NULL, rig_fail },
	{ DRPC_MODULE_TEST, 4, "big", &drpc__call__descriptor, rig_big },
	{ DRPC_MODULE_TEST, 5, "peer", NULL, rig_peer },
	{ DRPC_MODULE_TEST, 6, "raw", NULL, rig_raw },
};

static inline struct drpc_server_options rig_options(void)
{
	return (struct drpc_server_options){ .path = rig_path,
					     .methods = rig_methods,
					     .method_count = ARRAY_COUNT(rig_methods),
					     .ctx = &rig_ctx,
					     .connections_max = 8,
					     .connections_a_process = rig_connections_a_process,
					     .message_timeout_ns = rig_timeout_ns };
}

static inline int rig_open(void *options)
{
	return drpc_server_open(options, &rig_server, &why);
}

static inline int rig_close(void *unused)
{
	drpc_server_close(rig_server);
	rig_server = NULL;
	return 0;
}

static inline int rig_release(void *unused)
{
	for (size_t i = 0; i < held_count; i++)
		drpc_reply(held[i], NULL);
	held_count = 0;
	return 0;
}

static inline int rig_held(void *unused)
{
	return (int)held_count;
}

static inline int rig_stats(void *stats)
{
	*(struct drpc_server_stats *)stats = drpc_server_stats(rig_server);
	return 0;
}

/* Wait until `fn`, called on the control thread, returns `wanted`. */
static inline void rig_wait(int (*fn)(void *), int wanted)
{
	for (int i = 0; on_control(fn, NULL) != wanted; i++) {
		assert_true(i < 20000);
		usleep(500);
	}
}

static inline int rig_connections(void *unused)
{
	return (int)drpc_server_stats(rig_server).connections;
}

static inline int rig_setup(void **state)
{
	struct reactor_options none = { .simulated = false };

	assert_non_null(mkdtemp(rig_directory));
	snprintf(rig_path, sizeof(rig_path), "%s/drpc.sock", rig_directory);
	control_start(&none);
	return 0;
}

static inline int rig_teardown(void **state)
{
	control_stop();
	return rmdir(rig_directory);
}

static inline int rig_serve(void **state)
{
	struct drpc_server_options options = rig_options();

	assert_int_equal(on_control(rig_open, &options), 0);
	return 0;
}

static inline int rig_serve_no_more(void **state)
{
	on_control(rig_release, NULL);
	return on_control(rig_close, NULL);
}

#define SERVED(name) cmocka_unit_test_setup_teardown(name, rig_serve, rig_serve_no_more)

#endif
