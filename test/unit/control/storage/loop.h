/* SPDX-License-Identifier: BSD-2-Clause */
/* loop - real block devices on files of the test's own. Root only; where that is not so, they say why. */
#ifndef TEST_UNIT_CONTROL_STORAGE_LOOP_H
#define TEST_UNIT_CONTROL_STORAGE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop {
	int fd; /* of the device */
	int file_fd;
	char name[16]; /* "loop3" */
	char path[24]; /* "/dev/loop3" */
	char file[64];
};

/* A sparse file of so many bytes as a device, which goes with the last who has it open. False: `reason` says why not. */
bool loop_attach(struct loop *loop, uint64_t bytes, const char **reason);
/* Close and remove the file; accepts one that is attached no more. */
void loop_release(struct loop *loop);

#endif
