/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop - real block devices on the test's files. Needs root and loop devices; otherwise loop_attach() returns the reason.
 */
#ifndef TEST_UNIT_CONTROL_STORAGE_LOOP_H
#define TEST_UNIT_CONTROL_STORAGE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

struct loop {
	int fd; /* the open device */
	int file_fd;
	char name[16]; /* "loop3" */
	char path[24]; /* "/dev/loop3" */
	char file[64];
};

/* Attach a sparse file of `bytes` as a device. The kernel detaches it at the last close. False: `reason` is the reason. */
bool loop_attach(struct loop *loop, uint64_t bytes, const char **reason);
/* Close and remove the file; accepts a device that is no longer attached. */
void loop_release(struct loop *loop);

#endif
