/* SPDX-License-Identifier: BSD-2-Clause */
/* own_names ADDRESS PORT NQN - defines functions with names of internal ones of the library, which must not call them. */
#include <fathom/initiator.h>

#include <stdio.h>

int receive(void);
int fault(void);
int send_command(void);
int qpair_find(void);
int log_line(void);
int text_copy(void);

static int called;

int receive(void)
{
	return called++;
}

int fault(void)
{
	return called++;
}

int send_command(void)
{
	return called++;
}

int qpair_find(void)
{
	return called++;
}

int log_line(void)
{
	return called++;
}

int text_copy(void)
{
	return called++;
}

int main(int argc, char **argv)
{
	struct fathom_connect_options options;
	struct fathom_controller *controller;
	struct fathom_qpair *qpair;
	struct fathom_fault why;

	if (argc != 4)
		return 2;
	fathom_connect_options_init(&options);
	options.address = argv[1];
	options.service = argv[2];
	options.subnqn = argv[3];
	if (fathom_connect(&options, &why, &controller) < 0 || fathom_qpair_create(controller, 4, &why, &qpair) < 0) {
		fprintf(stderr, "%s\n", why.text);
		return 1;
	}
	fathom_qpair_destroy(qpair);
	fathom_disconnect(controller);
	options.service = "1"; /* no process listens there, so the library returns a fault */
	if (fathom_connect(&options, &why, &controller) == 0)
		return 1;
	printf("%d calls of mine, fault: %s\n", called, why.text);
	return 0;
}
