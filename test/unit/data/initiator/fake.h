/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fake - a controller at the other end of a socket pair, in the same thread. The test composes what it sends, byte by byte
 * if needed, and checks what it received. Its decoder checks the host's PDUs as a target does.
 */
#ifndef TEST_INITIATOR_FAKE_H
#define TEST_INITIATOR_FAKE_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/bits.h"
#include "data/initiator/internal.h"
#include "data/nvme/opcode.h"
#include "data/nvme/status.h"

enum { FAKE_DATA_BYTES = 4 << 20, FAKE_OUT_BYTES = 8 << 20 };

struct fake {
	struct fathom_qpair *qpair;
	int fd; /* our end of the socket pair */
	struct pdu_decoder decoder;
	struct pdu_terms send_terms;
	uint8_t *in; /* received, not decoded yet */
	size_t in_bytes;
	uint8_t *out; /* composed, not sent yet */
	size_t out_bytes;
	size_t out_sent;
};

/* A PDU of the host. `data` is valid until the next one. */
struct fake_pdu {
	uint8_t type;
	uint8_t header[PDU_HLEN_MAX];
	uint8_t *data;
	uint32_t data_bytes;
	bool digest_ok;
};

/* How a command ended, and the number of callbacks. */
struct fake_end {
	int calls;
	struct fathom_completion completion;
};

/* `params` NULL: defaults (depth 32, 8 KiB in capsule, 4 R2Ts, no digests). The IC exchange is complete on return. */
void fake_open(struct fake *fake, const struct qpair_params *params, uint32_t maxh2cdata, uint8_t cpda);
void fake_close(struct fake *fake);

/* A fathom_done_fn; ctx is a struct fake_end. */
void fake_ended(void *ctx, const struct fathom_completion *completion);

/* Poll the host until its next PDU arrives. False: no PDU. */
bool fake_next(struct fake *fake, struct fake_pdu *pdu_ret);

/* Get the next PDU, which must be a command, and return the command. */
struct nvme_command fake_command(struct fake *fake, struct fake_pdu *pdu_ret);

/* Append PDUs to the output. */
void fake_put_data(struct fake *fake, uint16_t cid, const uint8_t *data, uint32_t offset, uint32_t bytes, bool last,
		   bool success);
void fake_put_response(struct fake *fake, uint16_t cid, uint16_t status);
void fake_put_r2t(struct fake *fake, uint16_t cid, uint16_t ttag, uint32_t offset, uint32_t bytes);

/* Send the next `bytes` of the output (SIZE_MAX: all) and poll the host. Return the result of its last poll. */
int fake_send(struct fake *fake, size_t bytes);

/* As fathom_read() and fathom_write(), at block 0, one block. */
void fake_read(struct fake *fake, const struct iovec *iov, int iov_count, struct fake_end *end);
void fake_write(struct fake *fake, const struct iovec *iov, int iov_count, struct fake_end *end);

/* Assert that the command ended once, with success. */
void fake_assert_good(const struct fake_end *end);

/* Queue pairs of four kinds: bit 0 header digests, bit 1 data digests. */
struct qpair_params fake_params(int kind);

#endif
