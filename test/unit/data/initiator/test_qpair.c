/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads and writes with data cut at any byte; connections that end at any byte. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/random.h"
#include "fake.h"

static void fill(uint8_t *to, size_t bytes, uint64_t seed)
{
	struct random random;

	random_init(&random, seed);
	for (size_t i = 0; i < bytes; i++)
		to[i] = (uint8_t)random_next(&random);
}

/* ---- Reads ---- */

enum { READ_BYTES = 1000 };

/* Submit a read into three pieces of odd sizes, and compose its answer: two data PDUs and a response. */
static void begin_read(struct fake *fake, uint8_t *to, struct iovec iov[3], const uint8_t *from, struct fake_end *end)
{
	struct fake_pdu pdu;
	struct nvme_command command;

	memset(to, 0, READ_BYTES);
	iov[0] = (struct iovec){ to, 1 };
	iov[1] = (struct iovec){ to + 1, 600 };
	iov[2] = (struct iovec){ to + 601, READ_BYTES - 601 };
	*end = (struct fake_end){ 0 };
	fake_read(fake, iov, 3, end);
	command = fake_command(fake, &pdu);
	assert_int_equal(command.opc, NVME_NVM_READ);
	assert_int_equal(command.sgl.length, READ_BYTES);
	assert_int_equal(command.sgl.id, NVME_SGL_ID_TRANSPORT_DATA_BLOCK);
	fake_put_data(fake, command.cid, from, 0, 600, false, false);
	fake_put_data(fake, command.cid, from, 600, READ_BYTES - 600, true, false);
	fake_put_response(fake, command.cid, 0);
}

static void a_read_works_for_a_cut_at_any_byte(void **state)
{
	uint8_t from[READ_BYTES], to[READ_BYTES];

	fill(from, sizeof(from), 1);
	for (int kind = 0; kind < 4; kind++) {
		struct qpair_params params = fake_params(kind);
		struct fake_end end;
		struct iovec iov[3];
		struct fake fake;

		fake_open(&fake, &params, 4096, 0);
		for (size_t cut = 0;; cut++) {
			size_t all;

			begin_read(&fake, to, iov, from, &end);
			all = fake.out_bytes;
			(void)fake_send(&fake, cut);
			assert_int_equal(end.calls, cut >= all);
			(void)fake_send(&fake, SIZE_MAX);
			fake_assert_good(&end);
			assert_int_equal(end.completion.data_bytes, READ_BYTES);
			assert_memory_equal(from, to, READ_BYTES);
			if (cut >= all)
				break;
		}
		begin_read(&fake, to, iov, from, &end);
		while (end.calls == 0)
			(void)fake_send(&fake, 1);
		fake_assert_good(&end);
		assert_memory_equal(from, to, READ_BYTES);
		fake_close(&fake);
	}
}

static void data_of_large_reads_arrives_at_its_offset(void **state)
{
	enum { BYTES = 1 << 20, READS = 3 };
	uint8_t *from = malloc(BYTES), *to = malloc(READS * BYTES);

	fill(from, BYTES, 2);
	for (int kind = 0; kind < 4; kind++) {
		struct qpair_params params = fake_params(kind);
		struct fake_end ends[READS] = { 0 };
		struct iovec iov[READS];
		struct fake_pdu pdu;
		struct fake fake;

		memset(to, 0, READS * BYTES);
		fake_open(&fake, &params, 4096, 0);
		for (int i = 0; i < READS; i++) {
			uint16_t cid;

			iov[i] = (struct iovec){ to + i * BYTES, BYTES };
			fake_read(&fake, &iov[i], 1, &ends[i]);
			cid = fake_command(&fake, &pdu).cid;
			fake_put_data(&fake, cid, from, 0, 100000, false, false);
			fake_put_data(&fake, cid, from, 100000, BYTES - 100000, true, false);
			fake_put_response(&fake, cid, 0);
		}
		(void)fake_send(&fake, SIZE_MAX);
		for (int i = 0; i < READS; i++) {
			while (ends[i].calls == 0)
				assert_true(fathom_qpair_poll(fake.qpair) >= 0);
			fake_assert_good(&ends[i]);
			assert_memory_equal(from, to + i * BYTES, BYTES);
		}
		fake_close(&fake);
	}
	free(from);
	free(to);
}

static void a_success_flag_ends_a_read_without_a_response(void **state)
{
	uint8_t from[READ_BYTES], to[READ_BYTES];
	struct iovec iov = { to, sizeof(to) };
	struct fake_end end = { 0 };
	struct fake_pdu pdu;
	struct fake fake;

	fill(from, sizeof(from), 3);
	fake_open(&fake, NULL, 4096, 0);
	fake_read(&fake, &iov, 1, &end);
	fake_put_data(&fake, fake_command(&fake, &pdu).cid, from, 0, READ_BYTES, true, true);
	assert_int_equal(fake_send(&fake, SIZE_MAX), 1);
	fake_assert_good(&end);
	assert_memory_equal(from, to, READ_BYTES);
	assert_int_equal(fathom_qpair_in_flight(fake.qpair), 0);
	fake_close(&fake);
}

static void a_wrong_data_digest_fails_only_its_read(void **state)
{
	struct qpair_params params = fake_params(3);
	uint8_t from[READ_BYTES], to[READ_BYTES];
	struct iovec iov[3];
	struct fake_end end;
	struct fake fake;

	fill(from, sizeof(from), 4);
	fake_open(&fake, &params, 4096, 0);
	begin_read(&fake, to, iov, from, &end);
	fake.out[128 + 10] ^= 1; /* HPDA puts the data at byte 128 */
	(void)fake_send(&fake, SIZE_MAX);
	assert_int_equal(end.calls, 1);
	assert_int_equal(end.completion.error, -EBADMSG);
	assert_int_equal(end.completion.status, NVME_SC_TRANSIENT_TRANSPORT_ERROR);
	begin_read(&fake, to, iov, from, &end);
	(void)fake_send(&fake, SIZE_MAX);
	fake_assert_good(&end);
	fake_close(&fake);
}

static void a_success_with_too_little_data_is_an_error(void **state)
{
	uint8_t from[READ_BYTES] = { 0 }, to[READ_BYTES];
	struct iovec iov = { to, sizeof(to) };
	struct fake_end end = { 0 };
	struct fake_pdu pdu;
	struct fake fake;
	uint16_t cid;

	fake_open(&fake, NULL, 4096, 0);
	fake_read(&fake, &iov, 1, &end);
	cid = fake_command(&fake, &pdu).cid;
	fake_put_data(&fake, cid, from, 0, 500, true, false);
	fake_put_response(&fake, cid, 0);
	(void)fake_send(&fake, SIZE_MAX);
	assert_int_equal(end.calls, 1);
	assert_int_equal(end.completion.error, -ENODATA);
	assert_int_equal(end.completion.data_bytes, 500);
	fake_close(&fake);
}

static void a_status_is_reported_to_the_caller(void **state)
{
	struct fake_end end = { 0 };
	struct fake_pdu pdu;
	struct fake fake;

	fake_open(&fake, NULL, 4096, 0);
	assert_int_equal(fathom_flush(fake.qpair, 1, fake_ended, &end), 0);
	fake_put_response(&fake, fake_command(&fake, &pdu).cid, NVME_SC_LBA_OUT_OF_RANGE);
	(void)fake_send(&fake, SIZE_MAX);
	assert_int_equal(end.calls, 1);
	assert_int_equal(end.completion.error, 0);
	assert_int_equal(end.completion.status, NVME_SC_LBA_OUT_OF_RANGE);
	assert_string_equal(fathom_status_name(end.completion.status), "LBA Out of Range");
	fake_close(&fake);
}

/* ---- Writes ---- */

static void small_writes_are_sent_in_the_capsule(void **state)
{
	uint8_t from[8192];

	fill(from, sizeof(from), 5);
	for (int kind = 0; kind < 4; kind++) {
		struct qpair_params params = fake_params(kind);
		struct iovec iov[2] = { { from, 100 }, { from + 100, sizeof(from) - 100 } };
		struct fake_end end = { 0 };
		struct fake_pdu pdu;
		struct fake fake;
		struct nvme_command command;

		fake_open(&fake, &params, 4096, (uint8_t)(kind * 7));
		fake_write(&fake, iov, 2, &end);
		command = fake_command(&fake, &pdu);
		assert_int_equal(command.opc, NVME_NVM_WRITE);
		assert_int_equal(command.sgl.id, NVME_SGL_ID_DATA_BLOCK_OFFSET);
		assert_int_equal(pdu.data_bytes, sizeof(from));
		assert_memory_equal(pdu.data, from, sizeof(from));
		fake_put_response(&fake, command.cid, 0);
		(void)fake_send(&fake, SIZE_MAX);
		fake_assert_good(&end);
		fake_close(&fake);
	}
}

/* Receive H2CData for `ttag` until `bytes` have arrived. */
static void take_h2c_data(struct fake *fake, uint16_t ttag, uint32_t offset, uint32_t bytes, uint32_t most, uint8_t *to)
{
	uint32_t until = offset + bytes;

	while (offset < until) {
		struct nvme_tcp_data data;
		struct fake_pdu pdu;

		assert_true(fake_next(fake, &pdu));
		assert_int_equal(pdu.type, NVME_TCP_H2C_DATA);
		assert_true(pdu.digest_ok);
		memcpy(&data, pdu.header, sizeof(data));
		assert_int_equal(data.ttag, ttag);
		assert_int_equal(data.datao, offset);
		assert_true(data.datal <= most);
		memcpy(to + offset, pdu.data, data.datal);
		offset += data.datal;
		assert_int_equal(!!(data.common.flags & NVME_TCP_FLAG_LAST), offset == until);
	}
	assert_int_equal(offset, until);
}

static void large_writes_are_sent_in_chunks_for_each_r2t(void **state)
{
	enum { BYTES = 100000 };
	uint8_t *from = malloc(BYTES), *to = calloc(1, BYTES);

	fill(from, BYTES, 6);
	for (int kind = 0; kind < 4; kind++) {
		struct qpair_params params = fake_params(kind);
		struct iovec iov[2] = { { from, 33333 }, { from + 33333, BYTES - 33333 } };
		struct fake_end end = { 0 };
		struct fake_pdu pdu;
		struct fake fake;
		uint16_t cid;

		memset(to, 0, BYTES);
		fake_open(&fake, &params, 4096, (uint8_t)(kind * 7));
		fake_write(&fake, iov, 2, &end);
		cid = fake_command(&fake, &pdu).cid;
		assert_int_equal(pdu.data_bytes, 0);
		/* Four R2Ts at a time, as negotiated, the last part before the third; then a fifth. */
		fake_put_r2t(&fake, cid, 100, 0, 1);
		fake_put_r2t(&fake, cid, 101, 1, 40000);
		fake_put_r2t(&fake, cid, 103, 90000, 9000);
		fake_put_r2t(&fake, cid, 102, 40001, 49999);
		(void)fake_send(&fake, SIZE_MAX);
		take_h2c_data(&fake, 100, 0, 1, 4096, to);
		take_h2c_data(&fake, 101, 1, 40000, 4096, to);
		take_h2c_data(&fake, 103, 90000, 9000, 4096, to);
		take_h2c_data(&fake, 102, 40001, 49999, 4096, to);
		fake_put_r2t(&fake, cid, 104, 99000, 1000);
		(void)fake_send(&fake, SIZE_MAX);
		take_h2c_data(&fake, 104, 99000, 1000, 4096, to);
		assert_int_equal(end.calls, 0);
		fake_put_response(&fake, cid, 0);
		(void)fake_send(&fake, SIZE_MAX);
		fake_assert_good(&end);
		assert_memory_equal(from, to, BYTES);
		fake_close(&fake);
	}
	free(from);
	free(to);
}

static void commands_submitted_together_are_sent_at_once(void **state)
{
	uint8_t bytes[4096];
	struct fake_end end = { 0 };
	struct fake fake;

	fake_open(&fake, NULL, 4096, 0);
	for (int i = 0; i < 32; i++)
		assert_int_equal(fathom_flush(fake.qpair, 1, fake_ended, &end), 0);
	assert_int_equal(fathom_flush(fake.qpair, 1, fake_ended, &end), -EAGAIN);
	assert_int_equal(recv(fake.fd, bytes, sizeof(bytes), MSG_DONTWAIT), -1);
	assert_int_equal(fathom_qpair_poll(fake.qpair), 0);
	assert_int_equal(recv(fake.fd, bytes, sizeof(bytes), MSG_DONTWAIT), 32 * sizeof(struct nvme_tcp_capsule_cmd));
	fake_close(&fake);
	assert_int_equal(end.calls, 32);
	assert_int_equal(end.completion.error, -ECANCELED);
}

static void memory_is_lent_until_the_socket_has_accepted_it(void **state)
{
	enum { BYTES = 2 << 20 };
	struct qpair_params params = { .depth = 4, .in_capsule_bytes = BYTES, .r2ts_max = 1 };
	uint8_t *from = calloc(1, BYTES);
	struct iovec iov = { from, BYTES };
	struct fake_end end = { 0 };
	struct nvme_command command;
	struct fake_pdu pdu;
	struct fake fake;

	fake_open(&fake, &params, 4096, 0);
	fake_write(&fake, &iov, 1, &end);
	/* The socket does not accept all data at once. The controller answers before it has received all: */
	fake_put_response(&fake, 0 /* of the first command */ + (1 << 2) * 0, NVME_SC_INVALID_FIELD);
	(void)fake_send(&fake, SIZE_MAX);
	assert_int_equal(end.calls, 0);
	assert_true(fathom_qpair_wants_to_send(fake.qpair));
	command = fake_command(&fake, &pdu);
	assert_int_equal(command.cid, 0);
	assert_int_equal(pdu.data_bytes, BYTES);
	assert_int_equal(end.calls, 1);
	assert_int_equal(end.completion.status, NVME_SC_INVALID_FIELD);
	fake_close(&fake);
	free(from);
}

/* ---- Ends ---- */

static void a_connection_that_ends_at_any_byte_ends_its_commands(void **state)
{
	uint8_t from[READ_BYTES], to[READ_BYTES];
	size_t all = SIZE_MAX;

	fill(from, sizeof(from), 7);
	for (size_t cut = 0; cut < all; cut += 7) {
		struct fake_end end, other = { 0 };
		struct iovec iov[3];
		struct fake fake;
		int error;

		fake_open(&fake, NULL, 4096, 0);
		assert_int_equal(fathom_flush(fake.qpair, 1, fake_ended, &other), 0);
		(void)!fathom_qpair_poll(fake.qpair);
		while (fake_next(&fake, &(struct fake_pdu){ 0 }))
			continue;
		begin_read(&fake, to, iov, from, &end);
		all = fake.out_bytes;
		(void)fake_send(&fake, cut);
		(void)shutdown(fake.fd, SHUT_RDWR);
		do
			error = fathom_qpair_poll(fake.qpair);
		while (error >= 0);
		assert_int_equal(other.calls, 1);
		assert_int_equal(end.calls, 1);
		assert_int_equal(end.completion.error, error);
		assert_int_equal(fathom_qpair_in_flight(fake.qpair), 0);
		assert_int_equal(fathom_qpair_poll(fake.qpair), error);
		fake_close(&fake);
	}
}

static void a_command_without_an_answer_times_out(void **state)
{
	struct qpair_params params = { .depth = 2, .r2ts_max = 1, .timeout_ms = 1 };
	struct fake_end end = { 0 };
	struct fake fake;
	int error;

	fake_open(&fake, &params, 4096, 0);
	assert_int_equal(fathom_flush(fake.qpair, 1, fake_ended, &end), 0);
	do {
		fathom_qpair_wait(fake.qpair, 20);
		error = fathom_qpair_poll(fake.qpair);
	} while (error >= 0);
	assert_int_equal(error, -ETIMEDOUT);
	assert_int_equal(end.calls, 1);
	assert_int_equal(end.completion.error, -ETIMEDOUT);
	fake_close(&fake);
}

static void commands_wait_for_the_ic_exchange_and_end_with_the_connection(void **state)
{
	struct qpair_params params = fake_params(0);
	struct fake_end ends[8] = { 0 };
	struct fathom_qpair *qpair;
	uint8_t icresp[PDU_PUT_BYTES_MAX], bytes[4096];
	int fds[2];

	for (int answered = 0; answered < 2; answered++) {
		memset(ends, 0, sizeof(ends));
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
		assert_int_equal(qpair_open(fds[1], &params, &qpair), 0);
		for (int i = 0; i < 8; i++)
			assert_int_equal(fathom_flush(qpair, 1, fake_ended, &ends[i]), 0);
		assert_int_equal(fathom_qpair_poll(qpair), 0);
		assert_int_equal(recv(fds[0], bytes, sizeof(bytes), 0), sizeof(struct nvme_tcp_icreq));
		if (answered) {
			assert_int_equal(send(fds[0], icresp, pdu_put_icresp(icresp, 0, false, false, 4096), 0), 128);
			assert_int_equal(fathom_qpair_poll(qpair), 0);
			assert_int_equal(recv(fds[0], bytes, sizeof(bytes), 0), 8 * sizeof(struct nvme_tcp_capsule_cmd));
		}
		close(fds[0]);
		assert_true(fathom_qpair_poll(qpair) < 0);
		for (int i = 0; i < 8; i++) {
			assert_int_equal(ends[i].calls, 1);
			assert_true(ends[i].completion.error < 0);
		}
		fathom_qpair_destroy(qpair);
	}
}

static struct fathom_qpair *chain_qpair;
static int chain_left;

static void submit_the_next(void *ctx, const struct fathom_completion *completion)
{
	int error = completion->error ? -ENOTCONN : 0;

	if (chain_left-- > 0)
		assert_int_equal(fathom_flush(chain_qpair, 1, submit_the_next, NULL), error);
}

static void callbacks_can_submit_until_the_connection_has_ended(void **state)
{
	struct qpair_params params = { .depth = 1, .r2ts_max = 1 };
	struct fake_pdu pdu;
	struct fake fake;

	fake_open(&fake, &params, 4096, 0);
	chain_qpair = fake.qpair;
	chain_left = 1000;
	assert_int_equal(fathom_flush(fake.qpair, 1, submit_the_next, NULL), 0);
	while (chain_left > 0) {
		fake_put_response(&fake, fake_command(&fake, &pdu).cid, 0);
		assert_int_equal(fake_send(&fake, SIZE_MAX), 1);
	}
	chain_left = 1;
	fake_close(&fake);
	assert_int_equal(chain_left, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_works_for_a_cut_at_any_byte),
		cmocka_unit_test(data_of_large_reads_arrives_at_its_offset),
		cmocka_unit_test(a_success_flag_ends_a_read_without_a_response),
		cmocka_unit_test(a_wrong_data_digest_fails_only_its_read),
		cmocka_unit_test(a_success_with_too_little_data_is_an_error),
		cmocka_unit_test(a_status_is_reported_to_the_caller),
		cmocka_unit_test(small_writes_are_sent_in_the_capsule),
		cmocka_unit_test(large_writes_are_sent_in_chunks_for_each_r2t),
		cmocka_unit_test(commands_submitted_together_are_sent_at_once),
		cmocka_unit_test(memory_is_lent_until_the_socket_has_accepted_it),
		cmocka_unit_test(commands_wait_for_the_ic_exchange_and_end_with_the_connection),
		cmocka_unit_test(a_connection_that_ends_at_any_byte_ends_its_commands),
		cmocka_unit_test(a_command_without_an_answer_times_out),
		cmocka_unit_test(callbacks_can_submit_until_the_connection_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
