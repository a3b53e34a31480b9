/* SPDX-License-Identifier: BSD-2-Clause */
/* The helper's messages: each has one encoding, is equal after decoding, and other bytes are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "control/helper/protocol.h"

static struct fathom_fault why;
static uint8_t frame[HELPER_FRAME_BYTES_MAX], again[HELPER_FRAME_BYTES_MAX];

/* A request with all fields of maximum length. */
static struct helper_request full_request(enum helper_operation operation)
{
	struct helper_request request = {
		.operation = operation, .id = 0x1122334455667788, .timeout_ms = 4000, .flags = 0x80000001
	};

	memset(request.device, 'd', sizeof(request.device) - 1);
	memset(request.target, 't', sizeof(request.target) - 1);
	memset(request.label, 'l', sizeof(request.label) - 1);
	return request;
}

static struct helper_reply full_reply(enum helper_operation operation, int error)
{
	struct helper_reply reply = {
		.operation = operation, .id = 7, .error = error, .privileged = 1, .already = 1, .format = 2
	};

	memset(reply.text, 'x', sizeof(reply.text) - 1);
	memset(reply.version, 'v', sizeof(reply.version) - 1);
	memset(reply.signature.type, 't', sizeof(reply.signature.type) - 1);
	memset(reply.signature.label, 'l', sizeof(reply.signature.label) - 1);
	memset(reply.signature.uuid, 'u', sizeof(reply.signature.uuid) - 1);
	memset(reply.damage, 'd', sizeof(reply.damage) - 1);
	memset(&reply.pages, 0, sizeof(reply.pages)); /* bytes of any value, also 0 */
	memset(reply.pages.smart, 0xff, sizeof(reply.pages.smart));
	return reply;
}

static void each_message_is_equal_after_encoding_and_decoding(void **state)
{
	struct helper_request request, request_back;
	struct helper_reply reply, reply_back;

	for (int i = HELPER_PING; i < HELPER_OPERATIONS_END; i++) {
		size_t bytes;

		request = full_request((enum helper_operation)i);
		bytes = helper_encode_request(&request, frame);
		assert_int_equal(helper_decode_request(frame, bytes, &request_back, &why), 0);
		assert_int_equal(request_back.operation, i);
		assert_true(request_back.id == request.id && request_back.timeout_ms == 4000);
		if (request_back.device[0] != '\0')
			assert_string_equal(request_back.device, request.device);
		assert_int_equal(helper_encode_request(&request_back, again), bytes);
		assert_memory_equal(frame, again, bytes);
		for (int error = 0; error >= -EIO; error -= EIO) {
			reply = full_reply((enum helper_operation)i, error);
			bytes = helper_encode_reply(&reply, frame);
			assert_int_equal(helper_decode_reply(frame, bytes, &reply_back, &why), 0);
			assert_int_equal(reply_back.error, error);
			assert_int_equal(reply_back.text[0], error ? 'x' : '\0');
			assert_int_equal(helper_encode_reply(&reply_back, again), bytes);
			assert_memory_equal(frame, again, bytes);
		}
	}
}

static void each_operation_encodes_only_its_fields(void **state)
{
	static const struct {
		enum helper_operation operation;
		bool device, target, label, flags;
	} rows[] = {
		{ HELPER_PING, false, false, false, false },   { HELPER_CHECK_FORMAT, true, false, false, false },
		{ HELPER_FORMAT, true, false, true, true },    { HELPER_MOUNT, true, true, true, false },
		{ HELPER_UNMOUNT, false, true, false, false }, { HELPER_READ_LABEL, true, false, false, false },
		{ HELPER_PREPARE, true, false, false, true },  { HELPER_HEALTH, true, false, false, false },
		{ HELPER_FIRMWARE, true, true, false, true },  { HELPER_LED, true, false, false, true },
	};

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		struct helper_request request = full_request(rows[i].operation), back;

		assert_int_equal(helper_decode_request(frame, helper_encode_request(&request, frame), &back, &why), 0);
		assert_int_equal(back.device[0] != '\0', rows[i].device);
		assert_int_equal(back.target[0] != '\0', rows[i].target);
		assert_int_equal(back.label[0] != '\0', rows[i].label);
		assert_int_equal(back.flags != 0, rows[i].flags);
	}
}

static void a_truncated_frame_is_refused(void **state)
{
	struct helper_request request = full_request(HELPER_MOUNT), back;
	size_t bytes = helper_encode_request(&request, frame);

	for (size_t cut = 0; cut < bytes; cut++) {
		assert_int_equal(helper_decode_request(frame, cut, &back, &why), -EBADMSG);
		assert_true(cut < HELPER_HEADER_BYTES || back.id == request.id);
	}
	memset(frame + bytes, 0, 4);
	assert_int_equal(helper_decode_request(frame, bytes + 1, &back, &why), -EBADMSG);
}

/* A frame with a changed byte must be refused, or be the only encoding of another message. */
static void a_changed_frame_is_refused_or_another_valid_message(void **state)
{
	struct helper_request request = full_request(HELPER_FORMAT), back;
	size_t bytes = helper_encode_request(&request, frame);

	for (size_t at = 0; at < bytes; at++) {
		for (unsigned int value = 0; value < 256; value += 5) {
			uint8_t was = frame[at];

			frame[at] = (uint8_t)value;
			if (helper_decode_request(frame, bytes, &back, &why) == 0) {
				assert_int_equal(helper_encode_request(&back, again), bytes);
				assert_memory_equal(frame, again, bytes);
			} else {
				assert_true(why.error == -EBADMSG || why.error == -EMSGSIZE || why.error == -EOPNOTSUPP ||
					    why.error == -EPROTONOSUPPORT);
			}
			frame[at] = was;
		}
	}
}

static void invalid_replies_are_refused(void **state)
{
	struct helper_reply reply = full_reply(HELPER_CHECK_FORMAT, 0), back;
	size_t bytes = helper_encode_reply(&reply, frame);

	frame[24] = STORAGE_FORMATS;
	assert_int_equal(helper_decode_reply(frame, bytes, &back, &why), -EBADMSG);
	reply = (struct helper_reply){ .operation = (enum helper_operation)0, .error = -EOPNOTSUPP, .text = "no" };
	bytes = helper_encode_reply(&reply, frame);
	assert_int_equal(helper_decode_reply(frame, bytes, &back, &why), 0);
	frame[12] = 0; /* neither an operation nor an error */
	assert_int_equal(helper_decode_reply(frame, bytes, &back, &why), -EBADMSG);
	frame[15] = 0x80; /* larger than any errno */
	assert_int_equal(helper_decode_reply(frame, bytes, &back, &why), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_message_is_equal_after_encoding_and_decoding),
		cmocka_unit_test(each_operation_encodes_only_its_fields),
		cmocka_unit_test(a_truncated_frame_is_refused),
		cmocka_unit_test(a_changed_frame_is_refused_or_another_valid_message),
		cmocka_unit_test(invalid_replies_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
