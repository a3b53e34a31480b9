/* SPDX-License-Identifier: BSD-2-Clause */
/* The server of a build with the meson option firmware=false: it asks no helper to store firmware. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "control/fault/fault.h"
#include "control/server/health/health.h"
#include "rpc/proto/fathom.pb-c.h"

static struct server server;
static struct server_config config = { .health_interval = "60s" };
static struct fathom_fault failure;

void *__wrap_grpc_call_ctx(const struct grpc_call *call);
void *__wrap_grpc_call_ctx(const struct grpc_call *call)
{
	return &server;
}

bool __wrap_server_is_addressed(const struct server *of, struct grpc_call *call, const char *sys);
bool __wrap_server_is_addressed(const struct server *of, struct grpc_call *call, const char *sys)
{
	return true;
}

void __wrap_call_fail(struct grpc_call *call, const struct fathom_fault *why);
void __wrap_call_fail(struct grpc_call *call, const struct fathom_fault *why)
{
	failure = *why;
}

void __wrap_helper_client_submit(struct helper_client *client, const struct helper_request *asked, helper_done_fn done,
				 void *ctx);
void __wrap_helper_client_submit(struct helper_client *client, const struct helper_request *asked, helper_done_fn done,
				 void *ctx)
{
	fail();
}

static void a_firmware_update_is_refused(void **state)
{
	Fathom__FirmwareUpdateReq request = FATHOM__FIRMWARE_UPDATE_REQ__INIT;
	char device[] = "/dev/nvme0n1", file[] = "/fw/image";
	struct fathom_fault why;

	server = (struct server){ .config = &config };
	assert_int_equal(health_open(&server, &why), 0);
	request.device = device;
	request.file = file;
	call_firmware_update((struct grpc_call *)&server, &request.base);
	assert_int_equal(failure.code, FAULT_FIRMWARE_ABSENT);
	health_close(&server);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_firmware_update_is_refused),
	};

	return cmocka_run_group_tests_name("server without firmware", tests, NULL, NULL);
}
