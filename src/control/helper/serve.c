/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/helper/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/text.h"
#include "control/fault/fault.h"
#include "control/helper/confine.h"

enum { REAP_MS = 20 };

/* A slot for a request and its child. */
struct worker {
	pid_t pid;	   /* 0: a free slot */
	int fd;		   /* pipe of its reply; -1: closed without a reply, the child is to be reaped */
	bool killed;	   /* the reply -ETIMEDOUT is sent */
	uint64_t limit_ns; /* time-out, CLOCK_MONOTONIC; UINT64_MAX after it was killed */
	struct helper_request request;
};

struct server {
	const struct helper_serve_options *options;
	struct ucred peer;
	bool closing; /* the other end is closed, or cannot be read */
	struct worker workers[HELPER_REQUESTS_MAX];
	bool privileged;
	int error;    /* replies cannot be sent: end at once */
	int deafness; /* requests cannot be read: end after the running children */
};

static void send_reply(struct server *server, const struct helper_reply *reply)
{
	uint8_t frame[HELPER_FRAME_BYTES_MAX];
	size_t bytes = helper_encode_reply(reply, frame);

	must(bytes <= sizeof(frame));
	if (server->closing)
		return;
	if (send(server->options->fd, frame, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)bytes)
		return;
	if (errno == EPIPE || errno == ECONNRESET)
		server->closing = true;
	else
		server->error = -EPIPE; /* the socket is full: the server hangs */
}

static void send_fault(struct server *server, enum helper_operation operation, uint64_t id, const struct fathom_fault *why)
{
	struct helper_reply reply = { .operation = operation, .id = id, .error = why->error };

	must(why->error < 0);
	(void)text_copy(reply.text, sizeof(reply.text), why->text); /* the same size */
	send_reply(server, &reply);
}

static void answer_ping(struct server *server, const struct helper_request *request)
{
	struct helper_reply reply = { .operation = HELPER_PING, .id = request->id, .privileged = server->privileged };

	must(text_copy(reply.version, sizeof(reply.version), server->options->version) == 0);
	send_reply(server, &reply);
}

/* ---- the child ---- */

static void run_child(const struct server *server, const struct helper_request *request, int fd, pid_t parent)
{
	struct helper_operator by = { .provider = server->options->provider,
				      .policy = server->options->policy,
				      .uid = server->peer.uid,
				      .gid = server->peer.gid,
				      .confine_to_nvme = helper_confine_to_nvme };
	struct helper_reply reply = { .operation = request->operation, .id = request->id };
	uint8_t frame[HELPER_FRAME_BYTES_MAX];
	struct fathom_fault why;

	must(request->operation != HELPER_PING); /* the loop answers it */
	must(fd != server->options->fd);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent || setpgid(0, 0) != 0)
		_exit(1);
	close(server->options->fd);
	reply.error = helper_confine_for(request->operation, &why);
	if (reply.error)
		(void)text_copy(reply.text, sizeof(reply.text), why.text); /* the same size */
	else
		helper_perform(&by, request, &reply);
	_exit(file_write(fd, frame, helper_encode_reply(&reply, frame)) == 0 ? 0 : 1);
}

/* ---- the loop ---- */

static struct worker *find_free_worker(struct server *server)
{
	for (size_t i = 0; i < HELPER_REQUESTS_MAX; i++) {
		if (server->workers[i].pid == 0)
			return &server->workers[i];
	}
	return NULL;
}

/*
 * A request under way for the same device or folder. Health is read beside all other requests: no engine may fail to start
 * because its device is being read.
 */
static const struct worker *find_conflicting(const struct server *server, const struct helper_request *request)
{
	for (size_t i = 0; i < HELPER_REQUESTS_MAX; i++) {
		const struct worker *worker = &server->workers[i];

		if (worker->pid == 0 ||
		    (worker->request.operation == HELPER_HEALTH) != (request->operation == HELPER_HEALTH))
			continue;
		if (request->device[0] != '\0' && strcmp(worker->request.device, request->device) == 0)
			return worker;
		if (request->target[0] != '\0' && request->operation != HELPER_FIRMWARE &&
		    strcmp(worker->request.target, request->target) == 0)
			return worker;
	}
	return NULL;
}

static int check_request(struct server *server, const struct helper_request *request, struct fathom_fault *why)
{
	const char *name, *mount, *folder;
	const struct worker *rival;
	int error = helper_policy_check(server->options->policy, request, &name, &mount, &folder, why);

	if (error)
		return error;
	if (!server->privileged)
		return fault_helper_not_privileged(why, "fathom-helper");
	rival = find_conflicting(server, request);
	if (rival)
		return fault(why, -EBUSY, "another request (%s) for %s is under way; wait for its end",
			     helper_operation_name(rival->request.operation),
			     request->device[0] != '\0' ? request->device : request->target);
	if (!find_free_worker(server))
		return fault(why, -EAGAIN, "%d requests are under way; wait for one's end", HELPER_REQUESTS_MAX);
	return 0;
}

static int start_worker(struct server *server, const struct helper_request *request, struct fathom_fault *why)
{
	struct worker *worker = find_free_worker(server);
	uint64_t limit_ms = helper_operation_limit_ms(request->operation);
	pid_t parent = getpid(), pid;
	int ends[2];

	must(worker); /* check_request() has found a free slot */
	must(server->privileged);
	must(!find_conflicting(server, request)); /* one child for a device or folder */
	if (pipe2(ends, O_CLOEXEC) != 0)
		return fault(why, -errno, "the helper cannot start a child: %s", strerror(errno));
	pid = fork();
	if (pid == 0)
		run_child(server, request, ends[1], parent);
	close(ends[1]);
	if (pid < 0) {
		int error = -errno;

		close(ends[0]);
		return fault(why, error, "the helper cannot start a child: %s", strerror(-error));
	}
	(void)setpgid(pid, pid); /* also called in the child: whichever runs first sets the group */
	if (request->timeout_ms != 0)
		limit_ms = min_u64(limit_ms, request->timeout_ms);
	*worker = (struct worker){
		.pid = pid, .fd = ends[0], .limit_ns = clock_monotonic_ns() + limit_ms * NS_PER_MS, .request = *request
	};
	return 0;
}

static void handle_request(struct server *server, const uint8_t *frame, size_t bytes, const struct ucred *from)
{
	struct helper_request request;
	struct fathom_fault why;
	int error = helper_decode_request(frame, bytes, &request, &why);

	if (!error && (from->pid != server->peer.pid || from->uid != server->peer.uid))
		error = fault(&why, -EPERM, "process %d of user %u did not start the helper", (int)from->pid, from->uid);
	if (!error && request.operation == HELPER_PING) {
		answer_ping(server, &request);
		return;
	}
	if (!error)
		error = check_request(server, &request, &why);
	if (!error)
		error = start_worker(server, &request, &why);
	if (error) /* an unknown operation has no number: reply with operation 0 */
		send_fault(server, error == -EOPNOTSUPP ? 0 : request.operation, request.id, &why);
}

/*
 * The sender of the packet. Not of the socket: another process may have inherited its end. Closes received descriptors,
 * which would leak otherwise.
 */
static struct ucred read_ancillary(struct msghdr *message)
{
	struct ucred from = { .pid = -1, .uid = (uid_t)-1, .gid = (gid_t)-1 };

	for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
		if (at->cmsg_level != SOL_SOCKET)
			continue;
		if (at->cmsg_type == SCM_CREDENTIALS && at->cmsg_len == CMSG_LEN(sizeof(from)))
			memcpy(&from, CMSG_DATA(at), sizeof(from));
		for (size_t used = 0; at->cmsg_type == SCM_RIGHTS && CMSG_LEN(used + sizeof(int)) <= at->cmsg_len;
		     used += sizeof(int)) {
			int fd;

			memcpy(&fd, CMSG_DATA(at) + used, sizeof(fd));
			close(fd);
		}
	}
	return from;
}

static void receive_request(struct server *server)
{
	uint8_t frame[HELPER_FRAME_BYTES_MAX];
	union {
		struct cmsghdr aligned;
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(64 * sizeof(int))];
	} control;
	struct iovec iov = { frame, sizeof(frame) };
	struct msghdr message = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
	};
	ssize_t got = recvmsg(server->options->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
	struct ucred from;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		server->closing = true;
		server->deafness = got < 0 && errno != ECONNRESET ? -errno : 0;
		return;
	}
	from = read_ancillary(&message);
	/* MSG_TRUNC: `got` may exceed the buffer; then the decoder reads only the header */
	handle_request(server, frame, (size_t)got, &from);
}

static void reply_child_died(struct server *server, const struct worker *worker, int status)
{
	struct fathom_fault why;

	must(!worker->killed); /* its reply is sent */
	if (WIFSIGNALED(status))
		fill_fault(&why, -ECHILD, "%s was ended by signal %d (%s): check the device before a retry",
			   helper_operation_name(worker->request.operation), WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		fill_fault(&why, -ECHILD, "%s ended without an answer (exit status %d)",
			   helper_operation_name(worker->request.operation), WEXITSTATUS(status));
	send_fault(server, worker->request.operation, worker->request.id, &why);
}

/* The child's pipe is readable or closed: read the reply, and reap the child. */
static void read_worker(struct server *server, struct worker *worker)
{
	uint8_t frame[HELPER_FRAME_BYTES_MAX];
	struct helper_reply reply;
	struct fathom_fault why;
	ssize_t got;
	int status;

	must(worker->pid > 0);
	must(worker->fd >= 0);
	got = read(worker->fd, frame, sizeof(frame));
	if (got < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	close(worker->fd);
	worker->fd = -1;
	if (got <= 0 || helper_decode_reply(frame, (size_t)got, &reply, &why) != 0 || reply.id != worker->request.id ||
	    reply.operation != worker->request.operation)
		return;
	while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
		; /* a short wait: after the reply the child only exits */
	worker->pid = 0;
	if (!worker->killed)
		send_reply(server, &reply);
}

/* Its pipe closed without a reply. Reap it if it has ended: the kernel may need long to close its device. */
static void reap_worker(struct server *server, struct worker *worker)
{
	int status = 0; /* stays 0 if waitpid() fails: the status is unknown */
	pid_t reaped;

	must(worker->pid > 0);
	must(worker->fd < 0);
	must(worker->killed || worker->limit_ns != UINT64_MAX);
	reaped = waitpid(worker->pid, &status, WNOHANG);
	if (reaped == 0 || (reaped < 0 && errno == EINTR))
		return;
	if (!worker->killed)
		reply_child_died(server, worker, status);
	worker->pid = 0;
}

/* Kill the child and its programs, and reply -ETIMEDOUT. Its pipe closes when it is dead. */
static void kill_worker(struct server *server, struct worker *worker)
{
	struct fathom_fault why;

	must(worker->pid > 0);
	must(!worker->killed);
	fill_fault(&why, -ETIMEDOUT, "%s of %s timed out and was killed: look at the device, and at the kernel's log",
		   helper_operation_name(worker->request.operation),
		   worker->request.device[0] != '\0' ? worker->request.device : worker->request.target);
	worker->killed = true;
	worker->limit_ns = UINT64_MAX;
	if (kill(-worker->pid, SIGKILL) != 0)
		(void)kill(worker->pid, SIGKILL); /* it has no group yet */
	send_fault(server, worker->request.operation, worker->request.id, &why);
}

/* Milliseconds to the next time-out; -1: none. */
static int ms_to_next_limit(const struct server *server)
{
	uint64_t next = UINT64_MAX, now = clock_monotonic_ns();

	for (size_t i = 0; i < HELPER_REQUESTS_MAX; i++) {
		const struct worker *worker = &server->workers[i];

		if (worker->pid != 0)
			next = min_u64(next, worker->fd < 0 ? now + REAP_MS * NS_PER_MS : worker->limit_ns);
	}
	if (next == UINT64_MAX)
		return -1;
	return next <= now ? 0 : (int)min_u64((next - now) / NS_PER_MS + 1, INT_MAX);
}

/* Handle one round of events. False: the other end is closed, and only killed children are left. */
static bool run_turn(struct server *server)
{
	/* only open descriptors: poll() counts also entries of -1 against RLIMIT_NOFILE */
	struct pollfd polled[1 + HELPER_REQUESTS_MAX];
	nfds_t count = 0, at[HELPER_REQUESTS_MAX] = { 0 };
	bool killed_only = true, asked;
	uint64_t now;

	polled[count++] = (struct pollfd){ .fd = server->closing ? -1 : server->options->fd, .events = POLLIN };
	for (size_t i = 0; i < HELPER_REQUESTS_MAX; i++) {
		const struct worker *worker = &server->workers[i];

		killed_only = killed_only && (worker->pid == 0 || worker->killed);
		if (worker->pid == 0 || worker->fd < 0)
			continue;
		at[i] = count;
		polled[count++] = (struct pollfd){ .fd = worker->fd, .events = POLLIN };
	}
	must(count <= ARRAY_COUNT(polled));
	if (server->closing && killed_only)
		return false; /* killed children that hang in the kernel need no parent */
	if (poll(polled, count, ms_to_next_limit(server)) < 0) {
		if (errno != EINTR)
			server->error = -errno;
		return errno == EINTR;
	}
	asked = polled[0].revents != 0;
	for (size_t i = 0; i < HELPER_REQUESTS_MAX; i++) {
		struct worker *worker = &server->workers[i];

		if (at[i] != 0 && polled[at[i]].revents != 0)
			read_worker(server, worker);
		if (worker->pid != 0 && worker->fd < 0)
			reap_worker(server, worker);
	}
	now = clock_monotonic_ns();
	for (size_t i = 0; i < HELPER_REQUESTS_MAX; i++) {
		if (server->workers[i].pid != 0 && server->workers[i].limit_ns <= now)
			kill_worker(server, &server->workers[i]);
	}
	if (asked)
		receive_request(server);
	return true;
}

/* The user who created the socketpair must be on the list. */
static int check_peer(struct server *server, struct fathom_fault *why)
{
	socklen_t bytes = sizeof(server->peer);
	int fd = server->options->fd, type = 0, on = 1;
	socklen_t type_bytes = sizeof(type);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_bytes) != 0)
		return fault(why, -errno, "descriptor %d is not a socket; fathom-server starts the helper, not a user", fd);
	if (type != SOCK_SEQPACKET || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server->peer, &bytes) != 0)
		return fault(why, -EPROTOTYPE, "descriptor %d is not one end of a socketpair of packets", fd);
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0)
		return fault(why, -errno, "descriptor %d: %s", fd, strerror(errno));
	if (!helper_policy_allows_user(server->options->policy, server->peer.uid))
		return fault(why, -EPERM, "user %u is not on the helper's list: add \"user %u\" to " HELPER_POLICY_PATH,
			     server->peer.uid, server->peer.uid);
	return 0;
}

int helper_serve(const struct helper_serve_options *options, struct fathom_fault *why)
{
	struct server server = { .options = options };
	int error;

	must(options->provider);
	must(options->policy);
	must(options->version);
	error = check_peer(&server, why);
	if (!error)
		error = helper_confine(&server.privileged, why);
	if (error)
		return error;
	while (!server.error && run_turn(&server))
		;
	if (server.error == -EINVAL || server.error == -ENOMEM)
		return fault(why, server.error, "the helper cannot wait for requests: %s", strerror(-server.error));
	if (server.error)
		return fault(why, server.error, "the server does not read replies: it hangs");
	if (server.deafness)
		return fault(why, server.deafness, "requests cannot be read: %s", strerror(-server.deafness));
	return 0;
}
