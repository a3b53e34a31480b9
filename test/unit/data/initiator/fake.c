/* SPDX-License-Identifier: BSD-2-Clause */
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static uint8_t pdu_data[FAKE_DATA_BYTES];

/* Receive the bytes that the host has sent. */
static void pull(struct fake *fake)
{
	ssize_t bytes = recv(fake->fd, fake->in + fake->in_bytes, FAKE_DATA_BYTES - fake->in_bytes, MSG_DONTWAIT);

	if (bytes > 0)
		fake->in_bytes += (size_t)bytes;
}

bool fake_next(struct fake *fake, struct fake_pdu *pdu)
{
	size_t at = 0;
	bool whole = false;
	int idle = 0;

	memset(pdu, 0, sizeof(*pdu));
	pdu->digest_ok = true;
	pdu->data = pdu_data;
	while (!whole && idle < 4) {
		struct pdu_step step;
		enum pdu_step_kind kind = pdu_step(&fake->decoder, fake->in + at, fake->in_bytes - at, &step);

		assert_int_not_equal(kind, PDU_ERROR);
		at += step.consumed;
		if (kind == PDU_HEADER) {
			pdu->type = step.type;
			memcpy(pdu->header, step.bytes, step.bytes_count);
			pdu->data_bytes = step.data_bytes;
			whole = step.data_bytes == 0;
		} else if (kind == PDU_DATA) {
			memcpy(pdu_data + step.data_offset, step.bytes, step.bytes_count);
		} else if (kind == PDU_END) {
			pdu->digest_ok = step.digest_ok;
			whole = true;
		} else {
			size_t before;

			memmove(fake->in, fake->in + at, fake->in_bytes - at);
			fake->in_bytes -= at;
			at = 0;
			before = fake->in_bytes;
			(void)!fathom_qpair_poll(fake->qpair);
			pull(fake);
			idle = fake->in_bytes == before ? idle + 1 : 0;
		}
	}
	memmove(fake->in, fake->in + at, fake->in_bytes - at);
	fake->in_bytes -= at;
	return whole;
}

struct nvme_command fake_command(struct fake *fake, struct fake_pdu *pdu)
{
	struct nvme_tcp_capsule_cmd capsule;

	assert_true(fake_next(fake, pdu));
	assert_int_equal(pdu->type, NVME_TCP_CAPSULE_CMD);
	assert_true(pdu->digest_ok);
	memcpy(&capsule, pdu->header, sizeof(capsule));
	return capsule.command;
}

static uint8_t *room(struct fake *fake, size_t bytes)
{
	assert_true(fake->out_bytes + bytes <= FAKE_OUT_BYTES);
	return fake->out + fake->out_bytes;
}

void fake_put_data(struct fake *fake, uint16_t cid, const uint8_t *data, uint32_t offset, uint32_t bytes, bool last,
		   bool success)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)(data + offset), .iov_len = bytes };
	uint8_t *to = room(fake, PDU_PUT_BYTES_MAX + bytes + PDU_DIGEST_BYTES);
	uint8_t flags = (last ? NVME_TCP_FLAG_LAST : 0) | (success ? NVME_TCP_FLAG_SUCCESS : 0);
	size_t header = pdu_put_c2h_data(&fake->send_terms, to, cid, offset, bytes, flags);

	memcpy(to + header, data + offset, bytes);
	fake->out_bytes += header + bytes;
	if (fake->send_terms.data_digest) {
		uint32_t digest = pdu_data_digest(&iov, 1);

		memcpy(to + header + bytes, &digest, sizeof(digest));
		fake->out_bytes += sizeof(digest);
	}
}

void fake_put_response(struct fake *fake, uint16_t cid, uint16_t status)
{
	struct nvme_completion completion = { .cid = cid, .status = nvme_status_field(status, false), .result = cid };

	fake->out_bytes += pdu_put_capsule_resp(&fake->send_terms, room(fake, PDU_PUT_BYTES_MAX), &completion);
}

void fake_put_r2t(struct fake *fake, uint16_t cid, uint16_t ttag, uint32_t offset, uint32_t bytes)
{
	fake->out_bytes += pdu_put_r2t(&fake->send_terms, room(fake, PDU_PUT_BYTES_MAX), cid, ttag, offset, bytes);
}

int fake_send(struct fake *fake, size_t bytes)
{
	size_t until = fake->out_sent + min_u64(bytes, fake->out_bytes - fake->out_sent);
	int result = 0;

	while (fake->out_sent < until && result >= 0) {
		ssize_t sent = send(fake->fd, fake->out + fake->out_sent, until - fake->out_sent,
				    MSG_DONTWAIT | MSG_NOSIGNAL);

		if (sent > 0)
			fake->out_sent += (size_t)sent;
		result = fathom_qpair_poll(fake->qpair);
	}
	if (fake->out_sent == fake->out_bytes)
		fake->out_sent = fake->out_bytes = 0;
	return result;
}

void fake_open(struct fake *fake, const struct qpair_params *params, uint32_t maxh2cdata, uint8_t cpda)
{
	static const struct qpair_params usual = { .depth = 32, .in_capsule_bytes = 8192, .r2ts_max = 4 };
	struct pdu_limits limits = { .in_capsule_bytes_max = 2 << 20, .data_bytes_max = maxh2cdata };
	struct nvme_tcp_icreq icreq;
	struct fake_pdu pdu;
	struct pdu_terms terms;
	int fds[2];

	if (!params)
		params = &usual;
	memset(fake, 0, sizeof(*fake));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	fake->fd = fds[0];
	fake->in = malloc(FAKE_DATA_BYTES);
	fake->out = malloc(FAKE_OUT_BYTES);
	pdu_decoder_init(&fake->decoder, PDU_SIDE_TARGET);
	assert_int_equal(qpair_open(fds[1], params, &fake->qpair), 0);
	assert_true(fake_next(fake, &pdu));
	assert_int_equal(pdu.type, NVME_TCP_ICREQ);
	memcpy(&icreq, pdu.header, sizeof(icreq));
	assert_int_equal(icreq.maxr2t + 1, params->r2ts_max);
	terms = (struct pdu_terms){ params->header_digest, params->data_digest, pdu_align(cpda) };
	pdu_decoder_start(&fake->decoder, &terms, &limits);
	fake->send_terms = (struct pdu_terms){ params->header_digest, params->data_digest, pdu_align(icreq.hpda) };
	fake->out_bytes = pdu_put_icresp(fake->out, cpda, params->header_digest, params->data_digest, maxh2cdata);
	assert_int_equal(fake_send(fake, SIZE_MAX), 0);
	assert_int_equal(fake->qpair->phase, QPAIR_RUNNING);
}

void fake_close(struct fake *fake)
{
	fathom_qpair_destroy(fake->qpair);
	close(fake->fd);
	free(fake->in);
	free(fake->out);
}

void fake_ended(void *ctx, const struct fathom_completion *completion)
{
	struct fake_end *end = ctx;

	end->calls++;
	end->completion = *completion;
}

void fake_read(struct fake *fake, const struct iovec *iov, int iov_count, struct fake_end *end)
{
	assert_int_equal(fathom_read(fake->qpair, 1, 0, 1, iov, iov_count, fake_ended, end), 0);
}

void fake_write(struct fake *fake, const struct iovec *iov, int iov_count, struct fake_end *end)
{
	assert_int_equal(fathom_write(fake->qpair, 1, 0, 1, iov, iov_count, fake_ended, end), 0);
}

void fake_assert_good(const struct fake_end *end)
{
	assert_int_equal(end->calls, 1);
	assert_int_equal(end->completion.error, 0);
	assert_int_equal(end->completion.status, 0);
}

struct qpair_params fake_params(int kind)
{
	return (struct qpair_params){
		.depth = 8,
		.in_capsule_bytes = 8192,
		.r2ts_max = 4,
		.header_digest = kind & 1,
		.data_digest = kind & 2,
		.data_align = kind == 3 ? 31 : 0,
	};
}
