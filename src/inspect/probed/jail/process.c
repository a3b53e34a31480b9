/* SPDX-License-Identifier: BSD-2-Clause */
/* process - a child from the parent's side: start, orders, answers, end. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bits.h"
#include "base/file.h"
#include "base/program.h"
#include "inspect/probed/jail/child.h"
#include "inspect/probed/jail/internal.h"

enum { NUMBER_BYTES = 24 };
static_assert(NUMBER_BYTES > 20, "a number of 64 bits has 20 digits");

/* Pipe ends and the memory. All numbers are above the child's, so dup2() to those overwrites none of these. */
struct descriptors {
	int orders[2], answers[2], memory;
};

static void close_descriptors(struct descriptors *fds)
{
	int *each[] = { &fds->orders[0], &fds->orders[1], &fds->answers[0], &fds->answers[1], &fds->memory };

	for (size_t i = 0; i < ARRAY_COUNT(each); i++) {
		if (*each[i] >= 0)
			close(*each[i]);
		*each[i] = -1;
	}
}

static int raise_fd(int *fd)
{
	int raised = *fd < JAIL_FDS ? fcntl(*fd, F_DUPFD_CLOEXEC, JAIL_FDS) : *fd;

	if (raised < 0)
		return -errno;
	if (raised != *fd)
		close(*fd);
	must(raised >= JAIL_FDS); /* dup2() to a child's number must not overwrite it */
	*fd = raised;
	return 0;
}

static int open_memory(uint64_t bytes)
{
	int fd = memfd_create(JAIL_CHILD_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	/* sparse; sealed, so a child cannot truncate it */
	if (fd >= 0 &&
	    (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	return fd < 0 ? -errno : fd;
}

static int open_descriptors(struct descriptors *fds, uint64_t memory_bytes)
{
	int *each[] = { &fds->orders[0], &fds->orders[1], &fds->answers[0], &fds->answers[1], &fds->memory };
	int rc = 0;

	*fds = (struct descriptors){ { -1, -1 }, { -1, -1 }, -1 };
	if (pipe2(fds->orders, O_CLOEXEC) != 0 || pipe2(fds->answers, O_CLOEXEC) != 0)
		rc = -errno;
	if (rc == 0) {
		fds->memory = open_memory(memory_bytes);
		rc = fds->memory < 0 ? fds->memory : 0;
	}
	for (size_t i = 0; rc == 0 && i < ARRAY_COUNT(each); i++)
		rc = raise_fd(each[i]);
	/* the parent must not block on a child, neither reading nor writing */
	if (rc == 0 &&
	    (fcntl(fds->orders[1], F_SETFL, O_NONBLOCK) != 0 || fcntl(fds->answers[0], F_SETFL, O_NONBLOCK) != 0))
		rc = -errno;
	return rc;
}

static int spawn_child(const char *program, const struct jail_sizes *sizes, const struct descriptors *fds, pid_t *pid_ret)
{
	char parent[NUMBER_BYTES], blocks[NUMBER_BYTES], answer[NUMBER_BYTES], room[NUMBER_BYTES];
	char *words[JAIL_WORDS + 1] = { (char *)(uintptr_t)jail_child_name, parent, blocks, answer, room, NULL };
	const struct program_fd descriptors[] = {
		{ .fd = JAIL_FD_ORDERS, .from = fds->orders[0] },
		{ .fd = JAIL_FD_ANSWERS, .from = fds->answers[1] },
		{ .fd = JAIL_FD_MEMORY, .from = fds->memory },
	};

	snprintf(parent, sizeof(parent), "%d", getpid());
	snprintf(blocks, sizeof(blocks), "%" PRIu64, sizes->blocks_max);
	snprintf(answer, sizeof(answer), "%" PRIu64, sizes->answer_max);
	snprintf(room, sizeof(room), "%" PRIu64, sizes->room);
	/* own process group: the terminal's signals go to the parent only */
	return program_start(&(struct program){ .path = program ? program : "/proc/self/exe",
						.argv = words,
						.env = environ,
						.fds = descriptors,
						.fd_count = ARRAY_COUNT(descriptors),
						.flags = POSIX_SPAWN_SETPGROUP },
			     pid_ret);
}

int jail_process_start(const char *program, const struct jail_sizes *sizes, struct jail_process *process_ret,
		       struct fathom_fault *why)
{
	struct descriptors fds;
	pid_t pid = -1;
	int rc = open_descriptors(&fds, jail_answer_at(sizes->blocks_max) + sizes->answer_max);

	if (rc == 0)
		rc = spawn_child(program, sizes, &fds, &pid);
	if (rc) {
		close_descriptors(&fds);
		return fault(why, rc, "cannot start a parser: %s", strerror(-rc));
	}
	must(pid > 0);
	close(fds.answers[1]);
	*process_ret = (struct jail_process){ .pid = pid,
					      .orders = fds.orders[1],
					      .orders_unread = fds.orders[0],
					      .answers = fds.answers[0],
					      .memory = fds.memory };
	return 0;
}

bool jail_process_reap(pid_t pid)
{
	must(pid > 0);
	/* ECHILD: SIGCHLD is ignored, so the kernel has reaped it */
	return waitpid(pid, NULL, WNOHANG) != 0;
}

bool jail_process_end(struct jail_process *process, bool has_died, int *status_ret)
{
	int status = 0;
	pid_t gone;

	must(process->pid > 0); /* kill() of 0 or -1 would signal other processes */
	/* a child that is already dead keeps its status */
	kill(process->pid, SIGKILL);
	gone = waitpid(process->pid, &status, has_died ? 0 : WNOHANG);
	if (status_ret)
		*status_ret = gone == process->pid ? status : -1;
	close(process->orders);
	close(process->orders_unread);
	close(process->answers);
	close(process->memory);
	return gone != 0;
}

bool jail_process_has_answer(const struct jail_process *process)
{
	int bytes = 0;

	return ioctl(process->answers, FIONREAD, &bytes) == 0 && bytes > 0;
}

bool jail_process_has_unread_order(const struct jail_process *process)
{
	int bytes = 0;

	return ioctl(process->orders_unread, FIONREAD, &bytes) == 0 && bytes > 0;
}

/* The offset of a block in the memory. */
static uint64_t block_at(const struct dof_input *input, size_t index)
{
	uint64_t at = 0;

	must(index < DOF_BLOCKS_MAX);
	for (size_t i = 0; i < index; i++)
		at += round_up(input->blocks[i].bytes, 16);
	return at;
}

int jail_process_put(const struct jail_process *process, const struct dof_input *input, uint64_t from, uint64_t bytes)
{
	for (size_t i = 0; i < DOF_BLOCKS_MAX && bytes > 0; i++) {
		const struct dof_block *block = &input->blocks[i];
		uint64_t piece = from < block->bytes ? min_u64(bytes, block->bytes - from) : 0;
		int rc = piece ? file_write_at(process->memory, (const char *)block->data + from, piece,
					       block_at(input, i) + from)
			       : 0;

		if (rc)
			return rc;
		must(piece <= bytes);
		from = from > block->bytes ? from - block->bytes : 0;
		bytes -= piece;
	}
	must(bytes == 0);
	return 0;
}

int jail_process_order(const struct jail_process *process, uint64_t sequence, const struct dof_input *input,
		       const struct dof_limits *limits)
{
	struct jail_order order = {
		.sequence = sequence,
		.helper = input->helper,
		.kind = input->kind,
		.bits_32 = input->bits_32,
		.note_base = input->note_base,
		.bytes_max = limits->bytes_max,
		.probes_max = limits->probes_max,
	};
	ssize_t written;

	must(sequence > 0); /* 0 is that of the greeting */
	for (size_t i = 0; i < DOF_BLOCKS_MAX; i++) {
		order.blocks[i].at = block_at(input, i);
		order.blocks[i].base = input->blocks[i].base;
		order.blocks[i].bytes = input->blocks[i].bytes;
	}
	written = write(process->orders, &order, sizeof(order));
	if (written < 0)
		return -errno;
	return written == sizeof(order) ? 0 : -EPROTO;
}
