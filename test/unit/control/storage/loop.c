/* SPDX-License-Identifier: BSD-2-Clause */
#include "loop.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/must.h"

/* High numbers, which LOOP_CTL_GET_FREE does not give to others: ours stays free when the device has vanished. */
enum { TRIES = 16, OWN_FIRST = 1000, OWN_COUNT = 900 };

/*
 * Mounts of their own, before main() and its threads. A test that starts a mount namespace meanwhile would copy our mounts,
 * and its copies would keep our devices in use after we unmounted them.
 */
__attribute__((constructor)) static void begin_mount_namespace(void)
{
	if (unshare(CLONE_NEWNS) == 0) /* not without root, which cannot mount either */
		must(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
}

static bool configure(struct loop *loop, int control_fd, const char **reason)
{
	struct loop_config config = { .fd = (uint32_t)loop->file_fd, .info.lo_flags = LO_FLAGS_AUTOCLEAR };

	for (int i = 0; i < TRIES; i++) {
		int own = OWN_FIRST + (int)getpid() % OWN_COUNT + i * OWN_COUNT;
		int number = ioctl(control_fd, LOOP_CTL_ADD, own);

		if (number < 0) /* it exists; or this kernel adds devices only in order */
			number = errno == EEXIST ? own : ioctl(control_fd, LOOP_CTL_GET_FREE);

		if (number < 0)
			break;
		snprintf(loop->name, sizeof(loop->name), "loop%d", number);
		snprintf(loop->path, sizeof(loop->path), "/dev/loop%d", number);
		loop->fd = open(loop->path, O_RDWR | O_CLOEXEC);
		if (loop->fd < 0)
			break;
		memcpy(config.info.lo_file_name, loop->file, strlen(loop->file) + 1);
		if (ioctl(loop->fd, LOOP_CONFIGURE, &config) == 0)
			return true;
		close(loop->fd);
		loop->fd = -1;
		if (errno != EBUSY) /* EBUSY: another test was faster */
			break;
	}
	*reason = "no loop device can be set up here";
	return false;
}

bool loop_attach(struct loop *loop, uint64_t bytes, const char **reason)
{
	int control_fd;
	bool done;

	*loop = (struct loop){ .fd = -1, .file_fd = -1 };
	if (geteuid() != 0) {
		*reason = "loop devices take root";
		return false;
	}
	control_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	if (control_fd < 0) {
		*reason = "there is no /dev/loop-control";
		return false;
	}
	snprintf(loop->file, sizeof(loop->file), "/tmp/fathom-loop-XXXXXX");
	loop->file_fd = mkostemp(loop->file, O_CLOEXEC);
	must(loop->file_fd >= 0);
	must(ftruncate(loop->file_fd, (off_t)bytes) == 0);
	done = configure(loop, control_fd, reason);
	close(control_fd);
	if (!done)
		loop_release(loop);
	return done;
}

void loop_release(struct loop *loop)
{
	if (loop->fd >= 0) {
		int control_fd = open("/dev/loop-control", O_RDWR | O_CLOEXEC), number;

		close(loop->fd);
		/* fails while another process has it open */
		if (control_fd >= 0 && sscanf(loop->name, "loop%d", &number) == 1 && number >= OWN_FIRST)
			(void)ioctl(control_fd, LOOP_CTL_REMOVE, number);
		if (control_fd >= 0)
			close(control_fd);
	}
	if (loop->file_fd >= 0) {
		close(loop->file_fd);
		unlink(loop->file);
	}
	loop->fd = loop->file_fd = -1;
}
