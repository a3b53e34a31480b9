/* SPDX-License-Identifier: BSD-2-Clause */
/* Controllers that violate the protocol: the host sends a TermReq, closes, and each command ends. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake.h"

enum { READ_BYTES = 1000 };

/* Assert that the host closed with this TermReq and that each command ended. */
static void assert_term_req(struct fake *fake, const struct fake_end *end, enum nvme_tcp_fes fes)
{
	struct nvme_tcp_term_req req;
	struct fake_pdu pdu;

	assert_int_equal(fake_send(fake, SIZE_MAX), -EPROTO);
	assert_int_equal(end->calls, 1);
	assert_int_equal(end->completion.error, -EPROTO);
	assert_int_equal(end->completion.status, NVME_SC_HOST_PATH_ERROR);
	assert_true(fake_next(fake, &pdu));
	assert_int_equal(pdu.type, NVME_TCP_H2C_TERM_REQ);
	memcpy(&req, pdu.header, sizeof(req));
	assert_int_equal(req.fes, fes);
	assert_int_equal(fathom_qpair_poll(fake->qpair), -EPROTO);
	assert_int_equal(fathom_qpair_fault(fake->qpair)->error, -EPROTO);
	assert_int_equal(fathom_flush(fake->qpair, 1, fake_ended, NULL), -ENOTCONN);
}

enum breach {
	RESPONSE_TWICE,
	RESPONSE_TO_UNUSED_CID,
	DATA_FOR_UNUSED_CID,
	DATA_FOR_A_WRITE,
	DATA_OUT_OF_ORDER,
	DATA_TOO_MUCH,
	R2T_FOR_A_READ,
	R2T_FOR_DATA_IN_THE_CAPSULE,
	R2T_OUT_OF_RANGE,
	R2T_TWICE,
	R2T_TOO_MANY,
	BREACHES,
};

static void breach(struct fake *fake, enum breach how, uint16_t read_cid, uint16_t write_cid, uint16_t small_cid)
{
	static const uint8_t data[READ_BYTES * 2];

	switch (how) {
	case RESPONSE_TWICE:
		fake_put_response(fake, write_cid, 0);
		fake_put_response(fake, write_cid, 0);
		break;
	case RESPONSE_TO_UNUSED_CID:
		fake_put_response(fake, 7, 0);
		break;
	case DATA_FOR_UNUSED_CID:
		fake_put_data(fake, 7, data, 0, 10, false, false);
		break;
	case DATA_FOR_A_WRITE:
		fake_put_data(fake, write_cid, data, 0, 10, false, false);
		break;
	case DATA_OUT_OF_ORDER:
		fake_put_data(fake, read_cid, data, 10, 10, false, false);
		break;
	case DATA_TOO_MUCH:
		fake_put_data(fake, read_cid, data, 0, READ_BYTES + 1, true, false);
		break;
	case R2T_FOR_A_READ:
		fake_put_r2t(fake, read_cid, 1, 0, 10);
		break;
	case R2T_FOR_DATA_IN_THE_CAPSULE:
		fake_put_r2t(fake, small_cid, 1, 0, 10);
		break;
	case R2T_OUT_OF_RANGE:
		fake_put_r2t(fake, write_cid, 1, 10000, 10000);
		break;
	case R2T_TWICE:
		fake_put_r2t(fake, write_cid, 1, 0, 10000);
		fake_put_r2t(fake, write_cid, 2, 0, 10000);
		break;
	case R2T_TOO_MANY:
		for (uint16_t i = 0; i < 5; i++)
			fake_put_r2t(fake, write_cid, i, i, 1);
		break;
	case BREACHES:
		break;
	}
}

static void a_breach_ends_the_connection_with_the_right_term_req(void **state)
{
	static const enum nvme_tcp_fes fes[BREACHES] = {
		[RESPONSE_TWICE] = NVME_TCP_FES_INVALID_HEADER_FIELD,
		[RESPONSE_TO_UNUSED_CID] = NVME_TCP_FES_INVALID_HEADER_FIELD,
		[DATA_FOR_UNUSED_CID] = NVME_TCP_FES_INVALID_HEADER_FIELD,
		[DATA_FOR_A_WRITE] = NVME_TCP_FES_INVALID_HEADER_FIELD,
		[DATA_OUT_OF_ORDER] = NVME_TCP_FES_INVALID_HEADER_FIELD,
		[DATA_TOO_MUCH] = NVME_TCP_FES_DATA_OUT_OF_RANGE,
		[R2T_FOR_A_READ] = NVME_TCP_FES_INVALID_HEADER_FIELD,
		[R2T_FOR_DATA_IN_THE_CAPSULE] = NVME_TCP_FES_INVALID_HEADER_FIELD,
		[R2T_OUT_OF_RANGE] = NVME_TCP_FES_DATA_OUT_OF_RANGE,
		[R2T_TWICE] = NVME_TCP_FES_DATA_OUT_OF_RANGE,
		[R2T_TOO_MANY] = NVME_TCP_FES_LIMIT_EXCEEDED,
	};
	uint8_t to[READ_BYTES], from[10001] = { 0 };

	for (enum breach how = 0; how < BREACHES; how++) {
		struct fake_end read_end = { 0 }, write_end = { 0 }, small_end = { 0 };
		struct iovec in = { to, sizeof(to) }, out = { from, sizeof(from) }, small = { from, 512 };
		uint16_t read_cid, write_cid, small_cid;
		struct fake_pdu pdu;
		struct fake fake;

		fake_open(&fake, NULL, 4096, 0);
		fake_read(&fake, &in, 1, &read_end);
		read_cid = fake_command(&fake, &pdu).cid;
		fake_write(&fake, &out, 1, &write_end);
		write_cid = fake_command(&fake, &pdu).cid;
		fake_write(&fake, &small, 1, &small_end);
		small_cid = fake_command(&fake, &pdu).cid;
		breach(&fake, how, read_cid, write_cid, small_cid);
		assert_term_req(&fake, &read_end, fes[how]);
		assert_int_equal(write_end.calls, 1);
		fake_close(&fake);
		assert_int_equal(read_end.calls, 1);
	}
}

static void a_response_to_an_earlier_command_of_a_slot_is_detected(void **state)
{
	struct qpair_params params = { .depth = 1, .r2ts_max = 1 };
	struct fake_end first = { 0 }, second = { 0 };
	struct fake_pdu pdu;
	struct fake fake;
	uint16_t cid;

	fake_open(&fake, &params, 4096, 0);
	assert_int_equal(fathom_flush(fake.qpair, 1, fake_ended, &first), 0);
	cid = fake_command(&fake, &pdu).cid;
	fake_put_response(&fake, cid, 0);
	assert_int_equal(fake_send(&fake, SIZE_MAX), 1);
	assert_int_equal(fathom_flush(fake.qpair, 1, fake_ended, &second), 0);
	assert_int_not_equal(fake_command(&fake, &pdu).cid, cid);
	fake_put_response(&fake, cid, 0);
	assert_term_req(&fake, &second, NVME_TCP_FES_INVALID_HEADER_FIELD);
	fake_assert_good(&first);
	fake_close(&fake);
}

static void a_wrong_header_digest_ends_the_connection(void **state)
{
	struct qpair_params params = fake_params(1);
	struct fake_end end = { 0 };
	struct fake_pdu pdu;
	struct fake fake;

	fake_open(&fake, &params, 4096, 0);
	assert_int_equal(fathom_flush(fake.qpair, 1, fake_ended, &end), 0);
	fake_put_response(&fake, fake_command(&fake, &pdu).cid, 0);
	fake.out[12] ^= 4;
	assert_term_req(&fake, &end, NVME_TCP_FES_HEADER_DIGEST_ERROR);
	fake_close(&fake);
}

static void a_term_req_of_the_controller_is_reported(void **state)
{
	struct fake_end end = { 0 };
	struct fake_pdu pdu;
	struct fake fake;

	fake_open(&fake, NULL, 4096, 0);
	assert_int_equal(fathom_flush(fake.qpair, 1, fake_ended, &end), 0);
	(void)fake_command(&fake, &pdu);
	fake.out_bytes = pdu_put_c2h_term_req(fake.out, NVME_TCP_FES_INVALID_HEADER_FIELD, 8, pdu.header, 72);
	assert_int_equal(fake_send(&fake, SIZE_MAX), -EPROTO);
	assert_int_equal(end.calls, 1);
	assert_non_null(strstr(fathom_qpair_fault(fake.qpair)->text, "Invalid PDU Header Field at byte 8"));
	fake_close(&fake);
}

static void a_connection_without_the_requested_digests_is_refused(void **state)
{
	struct qpair_params params = fake_params(0);
	struct fathom_qpair *qpair;
	uint8_t icresp[PDU_PUT_BYTES_MAX];
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	params.data_digest = true;
	assert_int_equal(qpair_open(fds[1], &params, &qpair), 0);
	assert_int_equal(send(fds[0], icresp, pdu_put_icresp(icresp, 0, false, false, 4096), 0), 128);
	assert_int_equal(fathom_qpair_poll(qpair), -EPROTO);
	assert_non_null(strstr(fathom_qpair_fault(qpair)->text, "digests"));
	fathom_qpair_destroy(qpair);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_breach_ends_the_connection_with_the_right_term_req),
		cmocka_unit_test(a_response_to_an_earlier_command_of_a_slot_is_detected),
		cmocka_unit_test(a_wrong_header_digest_ends_the_connection),
		cmocka_unit_test(a_term_req_of_the_controller_is_reported),
		cmocka_unit_test(a_connection_without_the_requested_digests_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
