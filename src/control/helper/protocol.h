/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol - what a server asks the privileged helper, and what it answers: docs/formats/helper.md.
 *
 * One frame is one packet of a SOCK_SEQPACKET socketpair: a header of 24 bytes and the operation's fields in a fixed order,
 * of two kinds, u32 and string. Every message has exactly one encoding, and what is decoded is within the limits here.
 * Pure.
 */
#ifndef CONTROL_HELPER_PROTOCOL_H
#define CONTROL_HELPER_PROTOCOL_H

#include "base/fault.h"
#include "control/storage/storage.h"

enum {
	HELPER_PROTOCOL_VERSION = 1,
	HELPER_FD = 3, /* the helper's end of the socketpair */
	HELPER_FRAME_BYTES_MAX = 4096,
	HELPER_HEADER_BYTES = 24,
	HELPER_REQUESTS_MAX = 16, /* under way at once */
	HELPER_TARGET_BYTES_MAX = 256,
	HELPER_LABEL_BYTES_MAX = 13, /* of XFS, with the NUL */
	HELPER_VERSION_BYTES_MAX = 32,
};

enum helper_operation {
	HELPER_PING = 1,
	HELPER_CHECK_FORMAT = 2,
	HELPER_FORMAT = 3,
	HELPER_MOUNT = 4,
	HELPER_UNMOUNT = 5,
	HELPER_READ_LABEL = 6,
	HELPER_PREPARE = 7,
	HELPER_OPERATIONS_END
};

enum helper_flags {
	HELPER_FLAG_FORCE = 1, /* format, prepare: destroy what it holds; never what is in use */
	HELPER_FLAG_WIPE = 2,  /* prepare: overwrite its beginning and its end with zeroes */
	HELPER_FLAG_OWN = 4,   /* prepare: make it readable and writable by the asking user, and by nobody else */
};

struct helper_request {
	enum helper_operation operation;
	uint64_t id;
	uint32_t timeout_ms;		      /* the helper gives up then; 0: the operation's own limit */
	uint32_t flags;			      /* format, prepare */
	char device[STORAGE_NAME_BYTES_MAX];  /* all but ping and unmount: "/dev/nvme0n1" */
	char target[HELPER_TARGET_BYTES_MAX]; /* mount, unmount: a folder */
	char label[HELPER_LABEL_BYTES_MAX];   /* format: to write; mount: to expect, "" any */
};

struct helper_reply {
	enum helper_operation operation;
	uint64_t id;
	int error;			 /* negative errno; 0: done */
	char text[FAULT_TEXT_BYTES_MAX]; /* why not; "" if done */
	uint32_t code;			 /* of control/fault; 0: none, then the text says what to do, too */
	char resolution[FAULT_RESOLUTION_BYTES_MAX];

	char version[HELPER_VERSION_BYTES_MAX]; /* ping */
	uint32_t privileged;			/* ping: 1: it may do what it is for */
	uint32_t already;			/* mount, unmount: 1: that was so before */
	uint32_t format;			/* check format, format: enum storage_format */
	struct provider_signature signature;	/* check format, format, read label; not its partition table */
	char damage[STORAGE_TEXT_BYTES_MAX];	/* check format */
};

const char *helper_operation_name(enum helper_operation operation); /* "ping", "check-format" ... */
/* Errors: -EINVAL. */
MUST_CHECK int helper_operation_parse(const char *name, enum helper_operation *operation_ret);
/* How long it may take at most, whatever is asked for. */
uint32_t helper_operation_limit_ms(enum helper_operation operation);

/* An answer that says why not, and what it says. */
void helper_reply_fail(struct helper_reply *reply, enum helper_operation operation, uint64_t id, const struct fault *why);
void helper_reply_fault(const struct helper_reply *reply, struct fault *why_ret);

/* Bytes of the frame. The message is within its limits: must(). */
size_t helper_encode_request(const struct helper_request *request, uint8_t frame[HELPER_FRAME_BYTES_MAX]);
size_t helper_encode_reply(const struct helper_reply *reply, uint8_t frame[HELPER_FRAME_BYTES_MAX]);

/*
 * Errors (explained): -EMSGSIZE: longer than a frame may be; -EPROTONOSUPPORT: of another version; -EOPNOTSUPP: no such
 * operation; -EBADMSG: anything else that is not what the encoder writes. `id` is then set if the frame has one, else 0.
 */
MUST_CHECK int helper_decode_request(const uint8_t *frame, size_t bytes, struct helper_request *request_ret,
				     struct fault *why);
MUST_CHECK int helper_decode_reply(const uint8_t *frame, size_t bytes, struct helper_reply *reply_ret, struct fault *why);

#endif
