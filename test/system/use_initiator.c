/* SPDX-License-Identifier: BSD-2-Clause */
/* use_initiator ADDRESS PORT NQN - an example program: connect, write a block, read it back, compare. */
#include <fathom/initiator.h>

#include <stdio.h>
#include <string.h>

static int ended;

static void done(void *ctx, const struct fathom_completion *completion)
{
	*(int *)ctx = completion->error ? completion->error : completion->status;
	ended++;
}

static int wait_for(struct fathom_qpair *qpair, int count)
{
	while (ended < count) {
		if (fathom_qpair_poll(qpair) < 0)
			return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static char out[512], in[512];
	struct iovec write_iov = { out, sizeof(out) }, read_iov = { in, sizeof(in) };
	struct fathom_connect_options options;
	struct fathom_controller *controller;
	struct fathom_qpair *qpair;
	struct fathom_fault why;
	int write_status = -1, read_status = -1;

	if (argc != 4)
		return 2;
	memset(out, 0x5a, sizeof(out));
	fathom_connect_options_init(&options);
	options.address = argv[1];
	options.service = argv[2];
	options.subnqn = argv[3];
	if (fathom_connect(&options, &why, &controller) != 0 || fathom_qpair_create(controller, 4, &why, &qpair) != 0) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	if (fathom_write(qpair, 1, 7, 1, &write_iov, 1, done, &write_status) != 0 || wait_for(qpair, 1) != 0)
		return 1;
	if (fathom_read(qpair, 1, 7, 1, &read_iov, 1, done, &read_status) != 0 || wait_for(qpair, 2) != 0)
		return 1;
	fathom_qpair_destroy(qpair);
	fathom_disconnect(controller);
	if (write_status != 0 || read_status != 0 || memcmp(in, out, sizeof(in)) != 0)
		return 1;
	puts("same bytes");
	return 0;
}
