/* SPDX-License-Identifier: BSD-2-Clause */
/* Digests equal published vectors, headers equal literal bytes, and each type passes the decoder. */
#include "stream.h"

static const struct pdu_limits wide = { .in_capsule_bytes_max = UINT32_MAX, .data_bytes_max = UINT32_MAX };

static uint32_t crc_of(const void *bytes, size_t bytes_count)
{
	return pdu_crc_final(pdu_crc_update(PDU_CRC_INIT, bytes, bytes_count));
}

/* RFC 3720, B.4, and the check value of the CRC catalogues. */
static void crc32c_equals_the_published_vectors(void **state)
{
	uint8_t bytes[32];

	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(crc_of(bytes, sizeof(bytes)), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(crc_of(bytes, sizeof(bytes)), 0x62a8ab43);
	for (uint8_t i = 0; i < 32; i++)
		bytes[i] = i;
	assert_int_equal(crc_of(bytes, sizeof(bytes)), 0x46dd794e);
	for (uint8_t i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(31 - i);
	assert_int_equal(crc_of(bytes, sizeof(bytes)), 0x113fdb5c);
	assert_int_equal(crc_of("123456789", 9), 0xe3069283);
	assert_int_equal(crc_of("", 0), 0);
	assert_int_equal(crc_of(NULL, 0), 0);
}

/* Compared bit by bit, for all lengths and alignments that matter to tables and vector loops. */
static void crc32c_equals_the_polynomial_division(void **state)
{
	uint8_t bytes[700];
	struct random random;

	random_init(&random, 1);
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)random_next(&random);
	for (size_t start = 0; start < 16; start++) {
		uint32_t slow = 0xffffffff;

		for (size_t n = 0; start + n < sizeof(bytes); n++) {
			assert_int_equal(crc_of(bytes + start, n), slow ^ 0xffffffff);
			slow ^= bytes[start + n];
			for (int bit = 0; bit < 8; bit++)
				slow = slow >> 1 ^ (slow & 1 ? 0x82f63b78 : 0);
		}
	}
}

static void a_digest_of_pieces_is_the_digest_of_the_whole(void **state)
{
	uint8_t bytes[1000];
	struct iovec whole = { .iov_base = bytes, .iov_len = sizeof(bytes) };

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)(i * 13);
	for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
		struct iovec pieces[3] = {
			{ .iov_base = bytes, .iov_len = cut },
			{ .iov_base = NULL, .iov_len = 0 },
			{ .iov_base = bytes + cut, .iov_len = sizeof(bytes) - cut },
		};

		assert_int_equal(pdu_data_digest(pieces, 3), pdu_data_digest(&whole, 1));
	}
	assert_int_equal(pdu_data_digest(NULL, 0), 0);
}

static void an_icreq_has_the_expected_bytes(void **state)
{
	uint8_t expected[128] = { 0x00, 0x00, 0x80, 0x00, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x03, 0x07 };
	uint8_t to[PDU_PUT_BYTES_MAX];

	assert_int_equal(pdu_put_icreq(to, 3, true, true, 7), 128);
	assert_memory_equal(to, expected, 128);
}

static void an_icresp_has_the_expected_bytes(void **state)
{
	uint8_t expected[128] = { 0x01, 0x00, 0x80, 0x00, 0x80, 0x00, 0x00, 0x00,
				  0x00, 0x00, 0x01, 0x02, 0x00, 0x00, 0x02, 0x00 };
	uint8_t to[PDU_PUT_BYTES_MAX];

	assert_int_equal(pdu_put_icresp(to, 1, false, true, 131072), 128);
	assert_memory_equal(to, expected, 128);
}

static void a_c2h_data_header_has_the_expected_bytes(void **state)
{
	static const struct pdu_terms plain = { .data_align = 4 };
	static const struct pdu_terms padded = { .data_align = 32 };
	static const uint8_t expected[24] = { 0x07, 0x0c, 0x18, 0x18, 0x18, 0x10, 0x00, 0x00, 0x05, 0x00,
					      0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00 };
	static const uint8_t with_pad[32] = { 0x07, 0x04, 0x18, 0x20, 0x20, 0x10, 0x00, 0x00, 0x05, 0x00,
					      0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00 };
	uint8_t to[PDU_PUT_BYTES_MAX];

	memset(to, 0xee, sizeof(to));
	assert_int_equal(pdu_put_c2h_data(&plain, to, 5, 8192, 4096, NVME_TCP_FLAG_LAST | NVME_TCP_FLAG_SUCCESS),
			 sizeof(expected));
	assert_memory_equal(to, expected, sizeof(expected));
	memset(to, 0xee, sizeof(to));
	assert_int_equal(pdu_put_c2h_data(&padded, to, 5, 8192, 4096, NVME_TCP_FLAG_LAST), sizeof(with_pad));
	assert_memory_equal(to, with_pad, sizeof(with_pad));
	assert_int_equal(to[32], 0xee); /* the byte after the header is unchanged */
}

static void digests_are_flagged_counted_and_placed(void **state)
{
	static const struct pdu_terms terms = { .header_digest = true, .data_digest = true, .data_align = 4 };
	struct nvme_tcp_data header;
	uint8_t to[PDU_PUT_BYTES_MAX];
	uint32_t digest;

	assert_int_equal(pdu_put_h2c_data(&terms, to, &(struct pdu_h2c_data){ .cccid = 5, .ttag = 6, .datal = 512 }), 28);
	memcpy(&header, to, sizeof(header));
	assert_int_equal(header.common.flags, NVME_TCP_FLAG_HDGST | NVME_TCP_FLAG_DDGST);
	assert_int_equal(header.common.pdo, 28);
	assert_int_equal(header.common.plen, 28 + 512 + 4);
	memcpy(&digest, to + 24, sizeof(digest));
	assert_int_equal(digest, crc_of(to, 24));
}

static void a_capsule_without_data_has_no_data_digest(void **state)
{
	static const struct pdu_terms terms = { .header_digest = false, .data_digest = true, .data_align = 128 };
	static const struct nvme_command command = { .opc = 2 };
	static const uint8_t head[8] = { 0x04, 0x00, 0x48, 0x00, 0x48, 0x00, 0x00, 0x00 };
	uint8_t to[PDU_PUT_BYTES_MAX];

	assert_int_equal(pdu_put_capsule_cmd(&terms, to, &command, 0), 72);
	assert_memory_equal(to, head, sizeof(head));
}

static void a_term_req_returns_at_most_128_bytes(void **state)
{
	uint8_t header[300];
	uint8_t to[PDU_TERM_REQ_BYTES_MAX];
	static const uint8_t expected[24] = { 0x03, 0x00, 0x18, 0x00, 0x98, 0x00, 0x00, 0x00, 0x01, 0x00, 0x0a };

	memset(header, 0x77, sizeof(header));
	assert_int_equal(pdu_put_c2h_term_req(to, NVME_TCP_FES_INVALID_HEADER_FIELD, 10, header, sizeof(header)),
			 sizeof(to));
	assert_memory_equal(to, expected, sizeof(expected));
	assert_memory_equal(to + 24, header, 128);
	assert_int_equal(pdu_put_h2c_term_req(to, NVME_TCP_FES_PDU_SEQUENCE_ERROR, 0, NULL, 0), 24);
	assert_int_equal(to[0], NVME_TCP_H2C_TERM_REQ);
}

/* Encode a PDU of type `type` at `to`; `data_bytes` for types with data. Return the length of the header part. */
static size_t put_one(enum nvme_tcp_pdu_type type, const struct pdu_terms *terms, uint8_t *to, uint32_t data_bytes)
{
	struct nvme_command command = { .opc = 1, .cid = 0xbeef, .cdw15 = 0x15151515 };
	struct nvme_completion completion = { .cdw0 = 7, .cid = 0xbeef, .status = 0x8004 };

	switch (type) {
	case NVME_TCP_ICREQ:
		return pdu_put_icreq(to, 31, true, false, 3);
	case NVME_TCP_ICRESP:
		return pdu_put_icresp(to, 0, false, true, 4096);
	case NVME_TCP_H2C_TERM_REQ:
		return pdu_put_h2c_term_req(to, NVME_TCP_FES_LIMIT_EXCEEDED, 0, NULL, 0);
	case NVME_TCP_C2H_TERM_REQ:
		return pdu_put_c2h_term_req(to, NVME_TCP_FES_LIMIT_EXCEEDED, 0, NULL, 0);
	case NVME_TCP_CAPSULE_CMD:
		return pdu_put_capsule_cmd(terms, to, &command, data_bytes);
	case NVME_TCP_CAPSULE_RESP:
		return pdu_put_capsule_resp(terms, to, &completion);
	case NVME_TCP_H2C_DATA:
		return pdu_put_h2c_data(terms, to,
					&(struct pdu_h2c_data){
						.cccid = 1, .ttag = 2, .datao = 512, .datal = data_bytes, .last = true });
	case NVME_TCP_C2H_DATA:
		return pdu_put_c2h_data(terms, to, 1, 512, data_bytes, NVME_TCP_FLAG_LAST | NVME_TCP_FLAG_SUCCESS);
	case NVME_TCP_R2T:
		return pdu_put_r2t(terms, to, 1, 2, 0, 65536);
	}
	return 0;
}

static void round_trip(enum nvme_tcp_pdu_type type, enum pdu_side side, const struct pdu_terms *terms, uint32_t data_bytes)
{
	bool ic = type == NVME_TCP_ICREQ || type == NVME_TCP_ICRESP;
	bool carries = type == NVME_TCP_CAPSULE_CMD || type == NVME_TCP_H2C_DATA || type == NVME_TCP_C2H_DATA;
	static struct stream stream;
	struct pdu_decoder decoder;
	struct pdu_step step;
	struct nvme_tcp_common common;
	uint8_t to[PDU_PUT_BYTES_MAX];
	size_t header_bytes;

	stream.bytes_count = 0;
	header_bytes = put_one(type, terms, to, data_bytes);
	stream_add(&stream, to, header_bytes);
	if (carries)
		stream_add_data(&stream, terms, data_bytes, 9);
	memcpy(&common, to, sizeof(common));
	assert_int_equal(common.plen, stream.bytes_count);
	pdu_decoder_init(&decoder, side);
	if (!ic)
		decoder_at(&decoder, side, terms, &wide);
	assert_int_equal(pdu_step(&decoder, stream.bytes, stream.bytes_count, &step), PDU_HEADER);
	assert_int_equal(step.type, type);
	assert_int_equal(step.consumed, header_bytes);
	assert_int_equal(step.bytes_count, common.hlen);
	assert_ptr_equal(step.bytes, stream.bytes);
	assert_int_equal(step.data_bytes, carries ? data_bytes : 0);
	if (!carries || data_bytes == 0) {
		assert_int_equal(step.consumed, stream.bytes_count);
		return;
	}
	if (common.pdo)
		assert_int_equal(common.pdo % terms->data_align, 0);
	assert_int_equal(pdu_step(&decoder, stream.bytes + header_bytes, stream.bytes_count - header_bytes, &step),
			 PDU_DATA);
	assert_int_equal(step.bytes_count, data_bytes);
	assert_true(step.last);
	header_bytes += step.consumed;
	assert_int_equal(pdu_step(&decoder, stream.bytes + header_bytes, stream.bytes_count - header_bytes, &step),
			 PDU_END);
	assert_true(step.digest_ok);
	assert_int_equal(header_bytes + step.consumed, stream.bytes_count);
}

static void each_type_decodes_equal_on_all_terms(void **state)
{
	static const struct {
		enum nvme_tcp_pdu_type type;
		enum pdu_side side;
	} types[] = {
		{ NVME_TCP_ICREQ, PDU_SIDE_TARGET },
		{ NVME_TCP_ICRESP, PDU_SIDE_HOST },
		{ NVME_TCP_H2C_TERM_REQ, PDU_SIDE_TARGET },
		{ NVME_TCP_C2H_TERM_REQ, PDU_SIDE_HOST },
		{ NVME_TCP_CAPSULE_CMD, PDU_SIDE_TARGET },
		{ NVME_TCP_CAPSULE_RESP, PDU_SIDE_HOST },
		{ NVME_TCP_H2C_DATA, PDU_SIDE_TARGET },
		{ NVME_TCP_C2H_DATA, PDU_SIDE_HOST },
		{ NVME_TCP_R2T, PDU_SIDE_HOST },
	};
	static const uint32_t lengths[] = { 0, 1, 3, 4, 512, 4096, 8191 };

	for (size_t i = 0; i < ARRAY_COUNT(types); i++) {
		for (int digests = 0; digests < 4; digests++) {
			for (uint8_t pda = 0; pda <= NVME_TCP_PDA_MAX; pda++) {
				struct pdu_terms terms = { .header_digest = digests & 1, .data_digest = digests & 2 };

				terms.data_align = pdu_align(pda);
				for (size_t n = 0; n < ARRAY_COUNT(lengths); n++)
					if (lengths[n] > 0 || types[i].type == NVME_TCP_CAPSULE_CMD)
						round_trip(types[i].type, types[i].side, &terms, lengths[n]);
			}
		}
	}
}

static void decoded_fields_equal_the_encoded_ones(void **state)
{
	static const struct pdu_terms terms = { .data_align = 4 };
	struct nvme_command command = { .opc = 0x7f, .cid = 9, .nsid = 0x01020304, .cdw15 = 0xf0f1f2f3 };
	struct nvme_completion completion = { .result = 0x1122334455667788, .sqhd = 3, .cid = 9, .status = 0x8304 };
	struct nvme_tcp_r2t r2t;
	uint8_t to[PDU_PUT_BYTES_MAX];

	assert_int_equal(pdu_put_capsule_cmd(&terms, to, &command, 0), 72);
	assert_memory_equal(to + 8, &command, sizeof(command));
	assert_int_equal(pdu_put_capsule_resp(&terms, to, &completion), 24);
	assert_memory_equal(to + 8, &completion, sizeof(completion));
	assert_int_equal(pdu_put_r2t(&terms, to, 1, 2, 3, 4), 24);
	memcpy(&r2t, to, sizeof(r2t));
	assert_int_equal(r2t.cccid, 1);
	assert_int_equal(r2t.ttag, 2);
	assert_int_equal(r2t.r2to, 3);
	assert_int_equal(r2t.r2tl, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(crc32c_equals_the_published_vectors),
		cmocka_unit_test(crc32c_equals_the_polynomial_division),
		cmocka_unit_test(a_digest_of_pieces_is_the_digest_of_the_whole),
		cmocka_unit_test(an_icreq_has_the_expected_bytes),
		cmocka_unit_test(an_icresp_has_the_expected_bytes),
		cmocka_unit_test(a_c2h_data_header_has_the_expected_bytes),
		cmocka_unit_test(digests_are_flagged_counted_and_placed),
		cmocka_unit_test(a_capsule_without_data_has_no_data_digest),
		cmocka_unit_test(a_term_req_returns_at_most_128_bytes),
		cmocka_unit_test(each_type_decodes_equal_on_all_terms),
		cmocka_unit_test(decoded_fields_equal_the_encoded_ones),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("pdu encode", tests, NULL, NULL);
}
