/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol - requests of a server to the privileged helper, and its replies: docs/formats/helper.md.
 *
 * One frame is one packet of a SOCK_SEQPACKET socketpair: a header of 24 bytes and the operation's fields in a fixed order,
 * of three kinds: u32, string, and bytes of a fixed length. Each message has exactly one encoding, and decoded messages are
 * within the limits here.
 * Pure.
 */
#ifndef CONTROL_HELPER_PROTOCOL_H
#define CONTROL_HELPER_PROTOCOL_H

#include "base/fault.h"
#include "control/storage/health.h"
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
	HELPER_HEALTH = 8,
	HELPER_FIRMWARE = 9,
	HELPER_LED = 10,
	HELPER_OPERATIONS_END
};

enum helper_flags {
	HELPER_FLAG_FORCE =
		1, /* format, prepare: destroy the device's data; never of a device in use. firmware: also in use */
	HELPER_FLAG_WIPE = 2, /* prepare: overwrite its beginning and its end with zeroes */
	HELPER_FLAG_OWN = 4,  /* prepare: give the device to the requesting user, with mode 0600 */
	HELPER_FLAG_ON = 8,   /* led: switch it on; without ON and OFF it is only read */
	HELPER_FLAG_OFF = 16,
};

struct helper_request {
	enum helper_operation operation;
	uint64_t id;
	uint32_t timeout_ms;		      /* then the helper kills the operation; 0: the operation's limit */
	uint32_t flags;			      /* format, prepare, firmware, led */
	uint32_t slot;			      /* firmware; 0: the controller chooses */
	char device[STORAGE_NAME_BYTES_MAX];  /* all but ping and unmount: "/dev/nvme0n1" */
	char target[HELPER_TARGET_BYTES_MAX]; /* mount, unmount: a folder; firmware: the image's file */
	char label[HELPER_LABEL_BYTES_MAX];   /* format: written; mount: required, "": any */
};

struct helper_reply {
	enum helper_operation operation;
	uint64_t id;
	int error;			 /* negative errno; 0: success */
	char text[FAULT_TEXT_BYTES_MAX]; /* the fault's text; "" on success */
	uint32_t code;			 /* of control/fault; 0: none, then `text` includes the resolution */
	char resolution[FAULT_RESOLUTION_BYTES_MAX];

	char version[HELPER_VERSION_BYTES_MAX]; /* ping */
	uint32_t privileged;			/* ping: 1: it has all privileges that it needs */
	uint32_t already;			/* mount, unmount: 1: nothing was to do */
	uint32_t format;			/* check format, format: enum storage_format */
	struct provider_signature signature;	/* check format, format, read label; not its partition table */
	char damage[STORAGE_TEXT_BYTES_MAX];	/* check format */
	struct storage_nvme_pages pages;	/* health; firmware: only the slots */
	uint32_t activation;			/* firmware: enum storage_activation */
	uint32_t led;				/* led: 1: it is on */
};

const char *helper_operation_name(enum helper_operation operation); /* "ping", "check-format" ... */
/* Errors: -EINVAL. */
MUST_CHECK int helper_operation_parse(const char *name, enum helper_operation *operation_ret);
/* The longest time-out of the operation. */
uint32_t helper_operation_limit_ms(enum helper_operation operation);

/* Make a reply from a fault, and a fault from a reply. */
void helper_reply_fail(struct helper_reply *reply, enum helper_operation operation, uint64_t id,
		       const struct fathom_fault *why);
void helper_reply_fault(const struct helper_reply *reply, struct fathom_fault *why_ret);

/* Return the length of the frame in bytes. The message must be within its limits. */
size_t helper_encode_request(const struct helper_request *request, uint8_t frame[HELPER_FRAME_BYTES_MAX]);
size_t helper_encode_reply(const struct helper_reply *reply, uint8_t frame[HELPER_FRAME_BYTES_MAX]);

/*
 * Errors (explained): -EMSGSIZE: longer than HELPER_FRAME_BYTES_MAX; -EPROTONOSUPPORT: another version; -EOPNOTSUPP: no
 * such operation; -EBADMSG: otherwise malformed. On an error `id` is set if the frame has one, else 0.
 */
MUST_CHECK int helper_decode_request(const uint8_t *frame, size_t bytes, struct helper_request *request_ret,
				     struct fathom_fault *why);
MUST_CHECK int helper_decode_reply(const uint8_t *frame, size_t bytes, struct helper_reply *reply_ret,
				   struct fathom_fault *why);

#endif
