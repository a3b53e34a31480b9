/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * attempt - makes the system calls that bpftrace would: bpf(2), perf_event_open(2), ioctl(PERF_EVENT_IOC_SET_BPF).
 */
#include "cmd/fathom/probe/attempt.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UPROBE_TYPE_FILE "/sys/bus/event_source/devices/uprobe/type"

/* Load a BPF program that returns 0. Returns its descriptor, or -1 and errno. */
static int load_program(void)
{
	static const struct bpf_insn program[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_KPROBE;
	attr.insns = (uintptr_t)program;
	attr.insn_cnt = sizeof(program) / sizeof(program[0]);
	attr.license = (uintptr_t) "Dual BSD/GPL";
	return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr));
}

/* Create a disabled uprobe. Returns its descriptor, or -1 and errno. */
static int open_event(const char *path, uint64_t offset)
{
	FILE *type_file = fopen(UPROBE_TYPE_FILE, "re");
	struct perf_event_attr attr;
	unsigned int type;
	int got;

	if (!type_file) {
		errno = ENOENT;
		return -1;
	}
	got = fscanf(type_file, "%u", &type);
	fclose(type_file);
	if (got != 1) {
		errno = ENOENT;
		return -1;
	}
	memset(&attr, 0, sizeof(attr));
	attr.size = sizeof(attr);
	attr.type = type;
	attr.uprobe_path = (uintptr_t)path;
	attr.probe_offset = offset;
	attr.disabled = 1;
	return (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

void attempt_to_attach(const char *path, uint64_t offset, struct attempt *attempt_ret)
{
	int program = load_program();

	*attempt_ret = (struct attempt){ .load = program < 0 ? -errno : 0, .attach = -EAGAIN };
	int event = open_event(path, offset);

	attempt_ret->event = event < 0 ? -errno : 0;
	if (program >= 0 && event >= 0)
		attempt_ret->attach = ioctl(event, PERF_EVENT_IOC_SET_BPF, program) < 0 ? -errno : 0;
	if (program >= 0)
		close(program);
	if (event >= 0)
		close(event);
}
