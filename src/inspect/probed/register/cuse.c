/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cuse - libfuse's session on the reactor: watches its descriptor, reads and executes requests. helper.c decides what an
 * ioctl needs. The kernel names the calling thread; its process is found in /proc.
 */
#define FUSE_USE_VERSION 31

#include "inspect/probed/register/cuse.h"

#include <cuse_lowlevel.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/log_limit.h"
#include "inspect/probed/register/helper.h"
#include "inspect/probed/register/internal.h"
#include "base/reactor/reactor.h"

enum { REQUESTS_A_TURN_MAX = 64, EXPIRE_SEC = 5, DEVICE_MODE = 0666 };
enum { BYTES_ON_THEIR_WAY = 512 << 20, BYTES_A_USER = 128 << 20 };

struct cuse {
	struct registry *registry;
	struct fuse_session *session;
	struct fuse_buf buffer;
	struct fd_watch *watch;
	struct poller *expire_poller;
	struct helper *helper;
	char device_name[256];
	void (*made)(void *ctx, int error);
	void *ctx;
	struct log_limit unknown_limit; /* of the log line for unknown ioctls */
	LIST_HEAD(, cuse_file) files;
	LIST_HEAD(, cuse_add) adds;
};

struct cuse_file {
	LIST_ENTRY(cuse_file) link;
	struct helper_file *helper;
};

/* An ADDDOF whose object is being parsed. */
struct cuse_add {
	LIST_ENTRY(cuse_add) link;
	struct cuse *cuse; /* NULL: closed */
	fuse_req_t request;
};

/* ---- requests ---- */

static void reply_add(void *ctx, int error, uint64_t generation, const struct fathom_fault *why)
{
	struct cuse_add *add = ctx;

	must(add->request);
	if (add->cuse) {
		LIST_REMOVE(add, link);
		/* DTrace's programs know only EINVAL. A reply fails if the caller was killed */
		if (error || generation > INT_MAX)
			(void)fuse_reply_err(add->request, EINVAL);
		else
			(void)fuse_reply_ioctl(add->request, (int)generation, NULL, 0);
	}
	free(add);
}

static void start_add(struct cuse *cuse, fuse_req_t request, pid_t pid, struct helper_step *step)
{
	struct registry_object object = {
		.way = PROBED_WAY_CUSE,
		.pid = pid,
		.uid = fuse_req_ctx(request)->uid,
		.helper = step->helper,
		.address = step->address,
		.data = step->object,
		.bytes = step->object ? step->bytes : 0,
		.file = -1,
		.connection = -1,
	};
	struct cuse_add *add = calloc(1, sizeof(*add));

	must(step->action == HELPER_ADD && pid > 0);
	must(!step->object || step->bytes >= HELPER_HEADER_BYTES);
	if (!add) {
		registry_refuse_object(cuse->registry, &object, -ENOMEM, "out of memory");
		free(step->object);
		(void)fuse_reply_err(request, EINVAL);
		return;
	}
	add->cuse = cuse;
	add->request = request;
	LIST_INSERT_HEAD(&cuse->adds, add, link);
	registry_add(cuse->registry, &object, reply_add, add);
}

/* Refuse a thread whose process cannot be found. */
static void refuse_thread(struct cuse *cuse, fuse_req_t request, pid_t thread, int error, const char *why)
{
	const struct registry_object object = { .way = PROBED_WAY_CUSE, .pid = thread, .uid = fuse_req_ctx(request)->uid };

	registry_refuse_object(cuse->registry, &object, error, why);
}

static void execute_step(struct cuse *cuse, fuse_req_t request, pid_t thread, struct helper_step *step)
{
	struct iovec piece;
	struct fathom_fault why;
	pid_t pid;

	switch (step->action) {
	case HELPER_RETRY:
		piece = (struct iovec){ (void *)(uintptr_t)step->address, step->bytes };
		(void)fuse_reply_ioctl_retry(request, &piece, 1, NULL, 0);
		return;
	case HELPER_ANSWER:
		(void)fuse_reply_err(request, -step->error);
		return;
	case HELPER_ADD:
		if (identity_of_thread(thread, &pid) == 0) {
			start_add(cuse, request, pid, step);
			return;
		}
		refuse_thread(cuse, request, thread, -ESRCH, "the registering thread has ended");
		free(step->object);
		(void)fuse_reply_err(request, EINVAL);
		return;
	case HELPER_REMOVE:
		if (identity_of_thread(thread, &pid) == 0 &&
		    registry_remove(cuse->registry, pid, step->generation, &why) == 0)
			(void)fuse_reply_ioctl(request, 0, NULL, 0);
		else
			(void)fuse_reply_err(request, EINVAL);
		return;
	}
}

/* Refuse a call that may have been a registration. Programs also send a terminal's ioctls to find out what they opened. */
static void refuse_ioctl(struct cuse *cuse, fuse_req_t request, const struct helper_call *call,
			 const struct helper_step *step)
{
	struct registry_object object = { .way = PROBED_WAY_CUSE, .uid = fuse_req_ctx(request)->uid };

	if (!helper_adds(call->command)) {
		log_line_limited(&cuse->unknown_limit, clock_monotonic_ns(), LOG_LEVEL_INFO, "/dev/%s: thread %d: %s",
				 cuse->device_name, call->thread, step->why);
		return;
	}
	if (identity_of_thread(call->thread, &object.pid) != 0)
		object.pid = call->thread;
	registry_refuse_object(cuse->registry, &object, step->error, step->why);
}

static void device_ioctl(fuse_req_t request, int command, void *argument, struct fuse_file_info *info, unsigned int flags,
			 const void *data, size_t bytes, size_t out_bytes)
{
	struct cuse *cuse = fuse_req_userdata(request);
	struct cuse_file *file = (struct cuse_file *)(uintptr_t)info->fh;
	const struct helper_call call = {
		.command = (uint32_t)command,
		.argument = (uintptr_t)argument,
		.thread = fuse_req_ctx(request)->pid,
		.data = data,
		.bytes = bytes,
		.now_ns = clock_monotonic_ns(),
	};
	struct helper_step step;

	if (call.thread <= 0) {
		refuse_thread(cuse, request, 0, -EPERM, "its process namespace is hidden from this daemon");
		(void)fuse_reply_err(request, EINVAL);
		return;
	}
	must(file && file->helper);
	helper_step(file->helper, &call, &step);
	if (step.action == HELPER_ANSWER)
		refuse_ioctl(cuse, request, &call, &step);
	execute_step(cuse, request, call.thread, &step);
}

static void file_free(struct cuse_file *file)
{
	LIST_REMOVE(file, link);
	helper_file_destroy(file->helper);
	free(file);
}

static void device_open(fuse_req_t request, struct fuse_file_info *info)
{
	struct cuse *cuse = fuse_req_userdata(request);
	struct cuse_file *file = calloc(1, sizeof(*file));

	if (file)
		file->helper = helper_file_create(cuse->helper, fuse_req_ctx(request)->uid);
	if (!file || !file->helper) {
		free(file);
		(void)fuse_reply_err(request, ENOMEM);
		return;
	}
	LIST_INSERT_HEAD(&cuse->files, file, link);
	info->fh = (uintptr_t)file;
	if (fuse_reply_open(request, info) == -ENOENT)
		file_free(file); /* the open was interrupted: the kernel sends no release */
}

static void device_release(fuse_req_t request, struct fuse_file_info *info)
{
	file_free((struct cuse_file *)(uintptr_t)info->fh);
	(void)fuse_reply_err(request, 0);
}

/* The kernel has made the device. Without udev only root may open it: set its mode. */
static void device_made(void *userdata)
{
	struct cuse *cuse = userdata;
	char path[sizeof(cuse->device_name) + 8];

	snprintf(path, sizeof(path), "/dev/%s", cuse->device_name);
	if (chmod(path, DEVICE_MODE) < 0)
		log_info("%s: cannot change its mode: %s; udev's rules apply", path, strerror(errno));
	cuse->made(cuse->ctx, 0);
}

static const struct cuse_lowlevel_ops operations = {
	.init_done = device_made,
	.open = device_open,
	.release = device_release,
	.ioctl = device_ioctl,
};

/* ---- the session ---- */

/* The session that a message in flight is about; NULL: it was closed. */
static struct cuse *ended;

static void report_ended_session(void *unused)
{
	if (ended)
		ended->made(ended->ctx, -ENODEV);
}

static void session_ready(void *ctx, uint32_t events)
{
	struct cuse *cuse = ctx;

	for (int i = 0; i < REQUESTS_A_TURN_MAX; i++) {
		int got = fuse_session_receive_buf(cuse->session, &cuse->buffer);

		if (got == -EINTR || got == -EAGAIN)
			return;
		if (got <= 0 || fuse_session_exited(cuse->session)) {
			log_error("/dev/%s: the kernel has ended the device: %s", cuse->device_name,
				  strerror(got < 0 ? -got : ENODEV));
			fd_watch_remove(&cuse->watch);
			ended = cuse;
			thread_send_msg(thread_self(), report_ended_session, NULL); /* the callee closes the session */
			return;
		}
		fuse_session_process_buf(cuse->session, &cuse->buffer);
	}
}

static int expire_pending_adds(void *ctx)
{
	struct cuse *cuse = ctx;

	helper_expire(cuse->helper, clock_monotonic_ns());
	return 0;
}

__attribute__((format(printf, 2, 0))) static void log_fuse_line(enum fuse_log_level level, const char *format,
								va_list arguments)
{
	char text[512];

	vsnprintf(text, sizeof(text), format, arguments);
	text[strcspn(text, "\n")] = '\0';
	log_line(level <= FUSE_LOG_ERR ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO, "libfuse: %s", text);
}

static int open_session(struct cuse *cuse, struct fathom_fault *why)
{
	char program[] = "fathom-probed", foreground[] = "-f", one_thread[] = "-s", name[sizeof(cuse->device_name) + 16];
	char *argv[] = { program, foreground, one_thread, NULL };
	const char *device_info[] = { name };
	const struct cuse_info info = { .dev_info_argc = 1,
					.dev_info_argv = device_info,
					.flags = CUSE_UNRESTRICTED_IOCTL };
	int many_threads, fd;

	snprintf(name, sizeof(name), "DEVNAME=%s", cuse->device_name);
	fuse_set_log_func(log_fuse_line);
	cuse->session = cuse_lowlevel_setup(3, argv, &info, &operations, &many_threads, cuse);
	if (!cuse->session)
		return fault(
			why, -ENODEV,
			"cannot make /dev/%s: load the module cuse, and allow access to /dev/cuse, or use only the socket: "
			"--no-cuse",
			cuse->device_name);
	fd = fuse_session_fd(cuse->session);
	if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
		return fault(why, -errno, "/dev/cuse: %s", strerror(errno));
	cuse->watch = fd_watch_add(fd, EPOLLIN, session_ready, cuse);
	cuse->expire_poller = poller_register("probed_cuse_expire", expire_pending_adds, cuse, EXPIRE_SEC * NS_PER_SEC);
	if (!cuse->watch || !cuse->expire_poller)
		return fault(why, -ENOMEM, "cannot watch /dev/cuse: %s", strerror(errno));
	return 0;
}

int cuse_open(struct registry *registry, const char *device_name, void (*made)(void *ctx, int error), void *ctx,
	      struct cuse **cuse_ret, struct fathom_fault *why)
{
	const struct helper_limits limits = { .object_bytes = registry->options.object_bytes_max,
					      .bytes = BYTES_ON_THEIR_WAY,
					      .bytes_a_user = BYTES_A_USER };
	struct cuse *cuse = calloc(1, sizeof(*cuse));
	int error = -ENOMEM;

	if (!cuse)
		return fault(why, -ENOMEM, "out of memory");
	LIST_INIT(&cuse->files);
	LIST_INIT(&cuse->adds);
	cuse->registry = registry;
	cuse->made = made;
	cuse->ctx = ctx;
	cuse->unknown_limit = (struct log_limit)LOG_LIMIT(1, NS_PER_SEC);
	snprintf(cuse->device_name, sizeof(cuse->device_name), "%s", device_name);
	cuse->helper = helper_create(&limits);
	error = cuse->helper ? open_session(cuse, why) : fault(why, -ENOMEM, "out of memory");
	if (error)
		cuse_close(cuse);
	else
		*cuse_ret = cuse;
	return error;
}

void cuse_close(struct cuse *cuse)
{
	struct cuse_file *file;
	struct cuse_add *add;

	if (!cuse)
		return;
	ended = NULL;
	fd_watch_remove(&cuse->watch);
	poller_unregister(&cuse->expire_poller);
	while ((add = LIST_FIRST(&cuse->adds))) {
		LIST_REMOVE(add, link);
		add->cuse = NULL;
		(void)fuse_reply_err(add->request, EINVAL);
	}
	if (cuse->session)
		cuse_lowlevel_teardown(cuse->session);
	while ((file = LIST_FIRST(&cuse->files)))
		file_free(file);
	helper_destroy(cuse->helper);
	free(cuse->buffer.mem);
	free(cuse);
}
