/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libfathom-probe: the list of this process's registrations, and one connection per request.
 *
 * It does not allocate, and no descriptor outlives a call. One mutex protects the list. fork() takes the mutex, so the
 * child's list is consistent. Only fathom_probe_refresh() and the child of a fork hold it while they wait for the daemon;
 * the child has no other thread then.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "fathom/probe.h"
#include "inspect/probed/client/own_file.h"
#include "inspect/probed/client/protocol.h"

enum { CONNECT_SEC = 1, ANSWER_SEC = 2 };
enum { DOF_HEADER_BYTES = 64, DOF_LOADSZ_AT = 40, HELPER_MODULE_BYTES = 64 };
static_assert(sizeof(((struct probed_request *)0)->helper) == HELPER_MODULE_BYTES + 2 * sizeof(uint64_t), "as sent");
static_assert(sizeof(((struct fathom_probe *)0)->module) == HELPER_MODULE_BYTES, "copied whole");
static_assert(DOF_LOADSZ_AT + sizeof(uint64_t) <= DOF_HEADER_BYTES, "in the header");
static_assert(sizeof(PROBED_SOCKET_DEFAULT) <= sizeof(((struct sockaddr_un *)0)->sun_path), "the default path fits");
static_assert(offsetof(Elf64_Ehdr, e_type) == offsetof(Elf32_Ehdr, e_type), "read before the class is known");

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct fathom_probe *list;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- the daemon ---- */

/* NULL: the environment disables registration. */
static const char *socket_path(void)
{
	const char *path = secure_getenv(PROBED_SOCKET_ENV);

	if (!path)
		return PROBED_SOCKET_DEFAULT;
	return *path ? path : NULL;
}

static int read_socket_identity(uint64_t id[3])
{
	const char *path = socket_path();
	struct stat stat_of;

	if (!path || stat(path, &stat_of) < 0)
		return -ENOENT;
	id[0] = (uint64_t)stat_of.st_dev;
	id[1] = (uint64_t)stat_of.st_ino;
	id[2] = (uint64_t)stat_of.st_ctim.tv_sec * 1000000000u + (uint64_t)stat_of.st_ctim.tv_nsec;
	return 0;
}

static int connect_daemon(int *fd_ret)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval patience = { .tv_sec = CONNECT_SEC }, answer = { .tv_sec = ANSWER_SEC };
	const char *path = socket_path();
	int fd, error;

	if (!path)
		return -ENOENT;
	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)) == 0 &&
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &answer, sizeof(answer)) == 0 &&
	    connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
		*fd_ret = fd;
		return 0;
	}
	error = errno == EAGAIN ? -ETIMEDOUT : -errno;
	close(fd);
	return error;
}

/* A memfd with a copy of the object; -1: out of memory or descriptors. */
static int create_object_file(const struct fathom_probe_object *object)
{
	int fd = memfd_create("fathom-probe", MFD_CLOEXEC);
	size_t done = 0;

	while (fd >= 0 && done < object->bytes) {
		ssize_t written = write(fd, (const char *)object->dof + done, object->bytes - done);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			close(fd);
			return -1;
		}
		done += (size_t)written;
	}
	return fd;
}

static int send_probe_request(int fd, const struct probed_request *request, const struct fathom_probe_object *object)
{
	struct iovec iov[2] = { { (void *)request, sizeof(*request) } };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 1 };
	int file = -1, error = 0;

	memset(&control, 0, sizeof(control));
	if (object && object->bytes <= PROBED_MESSAGE_BYTES_MAX - sizeof(*request)) {
		iov[1] = (struct iovec){ (void *)object->dof, object->bytes };
		message.msg_iovlen = 2;
	} else if (object) {
		file = create_object_file(object);
		if (file < 0)
			return -ENOMEM;
		message.msg_control = &control;
		message.msg_controllen = sizeof(control.room);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &file, sizeof(file));
	}
	while (sendmsg(fd, &message, MSG_NOSIGNAL) < 0) {
		if (errno == EINTR)
			continue;
		error = errno == EAGAIN ? -ETIMEDOUT : -errno;
		break;
	}
	if (file >= 0)
		close(file);
	return error;
}

static int receive_reply(int fd, const struct probed_request *request, uint64_t *value_ret)
{
	struct probed_reply reply;
	ssize_t got;

	do
		got = recv(fd, &reply, sizeof(reply), 0); /* discards the text after it */
	while (got < 0 && errno == EINTR);
	if (got < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	if (got == 0)
		return -ECONNRESET;
	if ((size_t)got < sizeof(reply) || reply.version != PROBED_PROTOCOL_VERSION ||
	    reply.operation != request->operation || reply.error > 0)
		return -EPROTO;
	*value_ret = reply.value;
	return reply.error;
}

static int call_daemon(const struct probed_request *request, const struct fathom_probe_object *object, uint64_t *value_ret)
{
	int fd = -1, error = connect_daemon(&fd);

	if (error)
		return error;
	error = send_probe_request(fd, request, object);
	if (error == 0)
		error = receive_reply(fd, request, value_ret);
	close(fd);
	return error;
}

/* ---- one registration ---- */

static int send_add(struct fathom_probe *probe, int64_t *generation_ret)
{
	const struct fathom_probe_object *object = &probe->object;
	struct probed_request request = {
		.version = PROBED_PROTOCOL_VERSION,
		.operation = PROBED_ADD,
		.bytes = object->bytes,
		.address = (uintptr_t)(object->place ? object->place : object->dof),
	};
	const uint64_t words[2] = { object->base, (uintptr_t)object->dof };
	uint64_t generation = 0;
	int error;

	memcpy(request.helper, probe->module, sizeof(probe->module));
	memcpy(request.helper + HELPER_MODULE_BYTES, words, sizeof(words));
	error = call_daemon(&request, object->dof ? object : NULL, &generation);
	if (error == 0)
		*generation_ret = (int64_t)generation;
	return error;
}

static int send_remove(int64_t generation)
{
	const struct probed_request request = {
		.version = PROBED_PROTOCOL_VERSION,
		.operation = PROBED_REMOVE,
		.value = (uint64_t)generation,
	};
	uint64_t unused;

	return call_daemon(&request, NULL, &unused);
}

/*
 * Register with the current daemon. It may have adopted the registrations of its predecessor: add first, then remove the
 * old generation, so the probes are registered all the time.
 */
static int register_now(struct fathom_probe *probe)
{
	int64_t before = probe->generation, generation = -1;
	uint64_t id[3] = { 0 };

	probe->error = read_socket_identity(id);
	memcpy(probe->socket, id, sizeof(id)); /* first: else fathom_probe_refresh() on another thread registers it, too */
	if (probe->error == 0)
		probe->error = send_add(probe, &generation);
	if (probe->error == -ETIMEDOUT || probe->error == -ECONNREFUSED || probe->error == -ECONNRESET)
		memset(probe->socket, 0, sizeof(probe->socket)); /* the next refresh retries */
	if (probe->error)
		return probe->error;
	probe->generation = generation;
	if (before >= 0 && before != generation)
		(void)send_remove(before); /* fails if this daemon does not know it: then there is nothing to remove */
	return 0;
}

/* ---- fork ---- */

static void lock_before_fork(void)
{
	(void)pthread_mutex_lock(&list_lock);
}

static void after_fork_in_parent(void)
{
	(void)pthread_mutex_unlock(&list_lock);
}

static void after_fork_in_child(void)
{
	int saved = errno;

	for (struct fathom_probe *probe = list; probe; probe = probe->next) {
		probe->generation = -1;
		(void)register_now(probe);
	}
	errno = saved;
	(void)pthread_mutex_unlock(&list_lock);
}

static void install_fork_handlers(void)
{
	/* on failure (out of memory) children of fork() are not registered */
	(void)pthread_atfork(lock_before_fork, after_fork_in_parent, after_fork_in_child);
}

/* ---- public functions ---- */

/* Valid: a DOF object, or no object and an address in a file with notes. */
static int check_object(const struct fathom_probe_object *object)
{
	if (!object->dof)
		return object->place && object->bytes == 0 ? 0 : -EINVAL;
	return object->bytes >= DOF_HEADER_BYTES ? 0 : -EINVAL;
}

static int copy_module(struct fathom_probe *probe, const struct fathom_probe_object *object)
{
	const char *module = object->module;
	size_t length = module ? strlen(module) : 0;

	if (length == 0)
		return object->dof ? -EINVAL : 0; /* for notes, the daemon derives the name from the file */
	if (length >= sizeof(probe->module))
		length = sizeof(probe->module) - 1;
	memset(probe->module, 0, sizeof(probe->module));
	memcpy(probe->module, module, length);
	return 0;
}

int fathom_probe_add(struct fathom_probe *probe, const struct fathom_probe_object *object)
{
	int saved = errno, error;

	(void)pthread_once(&once, install_fork_handlers);
	probe->object = *object;
	probe->generation = -1;
	memset(probe->socket, 0, sizeof(probe->socket));
	memset(probe->module, 0, sizeof(probe->module));
	probe->error = check_object(object);
	if (probe->error == 0)
		probe->error = copy_module(probe, object);
	if (probe->error)
		return probe->error;
	(void)pthread_mutex_lock(&list_lock);
	probe->next = list;
	list = probe;
	(void)pthread_mutex_unlock(&list_lock);
	error = register_now(probe);
	errno = saved;
	return error;
}

int fathom_probe_add_mapped(struct fathom_probe *probe, const void *dof)
{
	static const unsigned char magic[4] = { 0x7f, 'D', 'O', 'F' };
	struct fathom_probe_object object = { .dof = dof };
	const char *slash;
	uint64_t bytes;
	Dl_info info;

	memset(probe, 0, sizeof(*probe));
	probe->generation = -1;
	if (memcmp(dof, magic, sizeof(magic)) != 0 || !dladdr(dof, &info) || !info.dli_fbase || !info.dli_fname)
		return probe->error = -EINVAL;
	memcpy(&bytes, (const char *)dof + DOF_LOADSZ_AT, sizeof(bytes));
	if (bytes > SIZE_MAX / 2)
		return probe->error = -EINVAL;
	object.bytes = (size_t)bytes;
	/* base 0 for a program that is not relocated: it runs at its link-time addresses */
	if (((const Elf64_Ehdr *)info.dli_fbase)->e_type == ET_DYN) /* same offset in Elf32_Ehdr */
		object.base = (uintptr_t)info.dli_fbase;
	slash = strrchr(info.dli_fname, '/');
	object.module = slash ? slash + 1 : info.dli_fname;
	return fathom_probe_add(probe, &object);
}

int fathom_probe_add_file(struct fathom_probe *probe, const void *place)
{
	struct fathom_probe_object object = { .place = place };
	struct own_file file;
	int error;

	memset(probe, 0, sizeof(*probe));
	probe->generation = -1;
	error = own_file_find(place, &file);
	if (error)
		return probe->error = error;
	if (!file.has_notes)
		return fathom_probe_add_mapped(probe, file.dof);
	return fathom_probe_add(probe, &object);
}

static bool unlink_registration(struct fathom_probe *probe)
{
	struct fathom_probe **at;
	bool found;

	(void)pthread_mutex_lock(&list_lock);
	for (at = &list; *at && *at != probe; at = &(*at)->next)
		;
	found = *at != NULL;
	if (found)
		*at = probe->next;
	(void)pthread_mutex_unlock(&list_lock);
	return found;
}

int fathom_probe_remove(struct fathom_probe *probe)
{
	int saved = errno, error = 0;

	if (unlink_registration(probe) && probe->generation >= 0)
		error = send_remove(probe->generation);
	probe->generation = -1;
	errno = saved;
	return error;
}

static bool is_registered_at(const struct fathom_probe *probe, const uint64_t id[3])
{
	return memcmp(probe->socket, id, sizeof(probe->socket)) == 0;
}

unsigned int fathom_probe_refresh(void)
{
	unsigned int registered = 0;
	int saved = errno;
	uint64_t id[3];

	if (read_socket_identity(id) == 0) {
		(void)pthread_mutex_lock(&list_lock);
		for (struct fathom_probe *probe = list; probe; probe = probe->next) {
			if (!is_registered_at(probe, id) && register_now(probe) == 0)
				registered++;
		}
		(void)pthread_mutex_unlock(&list_lock);
	}
	errno = saved;
	return registered;
}
