/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/helper/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <linux/nvme_ioctl.h>
#include <linux/securebits.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"

/*
 * CHOWN, FOWNER, DAC_OVERRIDE: for files and devices of other users. SYS_ADMIN: for mounts, for ioctls of mkfs.xfs, and for
 * NVMe commands.
 */
#define CAPS_OF_ALL (BIT(CAP_SYS_ADMIN) | BIT(CAP_CHOWN) | BIT(CAP_FOWNER) | BIT(CAP_DAC_OVERRIDE))
#define CAPS_OF_FORMAT (BIT(CAP_SYS_ADMIN) | BIT(CAP_DAC_OVERRIDE))
#define CAPS_OF_READING BIT(CAP_DAC_OVERRIDE)
#define CAPS_OF_PREPARE (BIT(CAP_CHOWN) | BIT(CAP_FOWNER) | BIT(CAP_DAC_OVERRIDE))

static_assert(((CAPS_OF_FORMAT | CAPS_OF_READING | CAPS_OF_PREPARE) & ~CAPS_OF_ALL) == 0, "a child gets no other");

/* System calls of the helper, its children and mkfs.xfs, and those that the C library may make at any time. */
static const int allowed[] = {
	/* files */
	SCMP_SYS(open),
	SCMP_SYS(openat),
	SCMP_SYS(openat2),
	SCMP_SYS(close),
	SCMP_SYS(close_range),
	SCMP_SYS(read),
	SCMP_SYS(write),
	SCMP_SYS(pread64),
	SCMP_SYS(pwrite64),
	SCMP_SYS(readv),
	SCMP_SYS(writev),
	SCMP_SYS(preadv),
	SCMP_SYS(pwritev),
	SCMP_SYS(lseek),
	SCMP_SYS(stat),
	SCMP_SYS(fstat),
	SCMP_SYS(lstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statx),
	SCMP_SYS(statfs),
	SCMP_SYS(fstatfs),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(getdents64),
	SCMP_SYS(fcntl),
	SCMP_SYS(flock),
	SCMP_SYS(fsync),
	SCMP_SYS(fdatasync),
	SCMP_SYS(fallocate),
	SCMP_SYS(fadvise64),
	SCMP_SYS(ioctl),
	SCMP_SYS(dup),
	SCMP_SYS(dup2),
	SCMP_SYS(dup3),
	SCMP_SYS(pipe),
	SCMP_SYS(pipe2),
	SCMP_SYS(mkdir),
	SCMP_SYS(mkdirat),
	SCMP_SYS(fchown),
	SCMP_SYS(fchmod),
	SCMP_SYS(chdir),
	SCMP_SYS(fchdir),
	SCMP_SYS(getcwd),
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(mount),
	SCMP_SYS(umount2),
	/* the existing socket */
	SCMP_SYS(recvmsg),
	SCMP_SYS(recvfrom),
	SCMP_SYS(sendmsg),
	SCMP_SYS(sendto),
	/* processes */
	SCMP_SYS(clone),
	SCMP_SYS(clone3),
	SCMP_SYS(fork),
	SCMP_SYS(vfork),
	SCMP_SYS(execve),
	SCMP_SYS(wait4),
	SCMP_SYS(waitid),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
	SCMP_SYS(kill),
	SCMP_SYS(tgkill),
	SCMP_SYS(setpgid),
	SCMP_SYS(prctl),
	SCMP_SYS(seccomp),
	SCMP_SYS(capget), /* a child reads its capabilities before it drops some */
	SCMP_SYS(capset),
	SCMP_SYS(getpid),
	SCMP_SYS(getppid),
	SCMP_SYS(gettid),
	SCMP_SYS(getuid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getgid),
	SCMP_SYS(getegid),
	SCMP_SYS(getpgrp),
	SCMP_SYS(setresuid),
	SCMP_SYS(setresgid),
	SCMP_SYS(prlimit64),
	SCMP_SYS(getrlimit),
	SCMP_SYS(getrusage),
	SCMP_SYS(uname),
	SCMP_SYS(sysinfo),
	SCMP_SYS(sched_getaffinity),
	SCMP_SYS(sched_yield),
	SCMP_SYS(membarrier),
	/* memory, signals, threads, time */
	SCMP_SYS(brk),
	SCMP_SYS(mmap),
	SCMP_SYS(munmap),
	SCMP_SYS(mprotect),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(futex),
	SCMP_SYS(rseq),
	SCMP_SYS(set_robust_list),
	SCMP_SYS(set_tid_address),
	SCMP_SYS(arch_prctl),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(sigaltstack),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(clock_getres),
	SCMP_SYS(clock_nanosleep),
	SCMP_SYS(nanosleep),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(time),
	SCMP_SYS(getrandom),
};

static const int starting_processes[] = { SCMP_SYS(clone),  SCMP_SYS(clone3),	 SCMP_SYS(fork),     SCMP_SYS(vfork),
					  SCMP_SYS(execve), SCMP_SYS(setresuid), SCMP_SYS(setresgid) };
static const int mounting[] = { SCMP_SYS(mount), SCMP_SYS(umount2) };
/* With commands to a device: the reply, the end, and what the C library may call to free memory or to fail a must(). */
static const int with_commands[] = {
	SCMP_SYS(write),  SCMP_SYS(close),   SCMP_SYS(exit_group), SCMP_SYS(exit),	   SCMP_SYS(brk),
	SCMP_SYS(munmap), SCMP_SYS(futex),   SCMP_SYS(getpid),	   SCMP_SYS(gettid),	   SCMP_SYS(tgkill),
	SCMP_SYS(mmap),	  SCMP_SYS(madvise), SCMP_SYS(mprotect),   SCMP_SYS(rt_sigreturn), SCMP_SYS(rt_sigprocmask),
};
static const int giving_away[] = { SCMP_SYS(fchown), SCMP_SYS(fchmod), SCMP_SYS(mkdir), SCMP_SYS(mkdirat) };

static int explain_refused(struct fathom_fault *why, const char *what, int error)
{
	return fault(why, error, "the helper cannot be confined: %s: %s", what, strerror(-error));
}

/* Add the rules, and load the filter, with which earlier ones stay in force. Frees `ctx`; NULL: out of memory. */
static int load_rules(scmp_filter_ctx ctx, uint32_t action, const int *calls, size_t count, int error,
		      struct fathom_fault *why)
{
	if (!ctx)
		return explain_refused(why, "seccomp", -ENOMEM);
	for (size_t i = 0; i < count && !error; i++)
		error = seccomp_rule_add(ctx, action, calls[i], 0);
	if (!error)
		error = seccomp_load(ctx);
	seccomp_release(ctx);
	return error ? explain_refused(why, "seccomp", error) : 0;
}

/* Add a filter: `action` for the calls of the list, `otherwise` for the rest. Earlier filters stay in force. */
static int load_filter(uint32_t otherwise, uint32_t action, const int *calls, size_t count, struct fathom_fault *why)
{
	must(count > 0);
	return load_rules(seccomp_init(otherwise), action, calls, count, 0, why);
}

static int deny_calls(const int *calls, size_t count, struct fathom_fault *why)
{
	return load_filter(SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM), calls, count, why);
}

int helper_confine_to_nvme(int fd, struct fathom_fault *why)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int error = 0;

	must(fd > STDERR_FILENO);
	if (ctx)
		error = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(ioctl), 2, SCMP_A0(SCMP_CMP_EQ, (unsigned int)fd, 0),
					 SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, NVME_IOCTL_ADMIN_CMD));
	return load_rules(ctx, SCMP_ACT_ALLOW, with_commands, ARRAY_COUNT(with_commands), error, why);
}

/* Drop all other capabilities; `bounding`: also from the bounding set, so that no executed program gets more. */
static int keep_capabilities(uint64_t keep, bool bounding, struct fathom_fault *why)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { { .effective = (uint32_t)keep, .permitted = (uint32_t)keep },
						  { .effective = (uint32_t)(keep >> 32),
						    .permitted = (uint32_t)(keep >> 32) } };

	must((keep & ~CAPS_OF_ALL) == 0);
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0)
		return explain_refused(why, "ambient capabilities", -errno);
	for (unsigned long cap = 0; bounding; cap++) {
		if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break; /* no more capabilities */
			return explain_refused(why, "capabilities", -errno);
		}
		if (!(keep & BIT(cap)) && prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0)
			return explain_refused(why, "capabilities", -errno);
	}
	if (syscall(SYS_capset, &header, data) != 0)
		return explain_refused(why, "capabilities", -errno);
	return 0;
}

/* A failed capget is an error: taken for "no capabilities", it would skip dropping them. */
static int has_capabilities(uint64_t wanted, bool *has_ret, struct fathom_fault *why)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) != 0)
		return explain_refused(why, "capabilities", -errno);
	*has_ret = (((uint64_t)data[1].effective << 32 | data[0].effective) & wanted) == wanted;
	return 0;
}

int helper_confine(bool *privileged_ret, struct fathom_fault *why)
{
	bool privileged;
	int error = has_capabilities(CAPS_OF_ALL | BIT(CAP_SETPCAP), &privileged, why);

	if (error)
		return error;
	privileged = privileged && geteuid() == 0;
	if (clearenv() != 0)
		return explain_refused(why, "environment", -ENOMEM);
	umask(077);
	if (chdir("/") != 0)
		return explain_refused(why, "chdir", -errno);
	if (setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 }) != 0)
		return explain_refused(why, "setrlimit", -errno);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return explain_refused(why, "prctl", -errno);
	if (privileged)
		error = keep_capabilities(CAPS_OF_ALL, true, why);
	if (!error)
		error = load_filter(SCMP_ACT_ERRNO(EPERM), SCMP_ACT_ALLOW, allowed, ARRAY_COUNT(allowed), why);
	if (!error)
		*privileged_ret = privileged;
	return error;
}

static uint64_t capabilities_of(enum helper_operation operation)
{
	switch (operation) {
	case HELPER_FORMAT:
	case HELPER_HEALTH:
	case HELPER_FIRMWARE:
		return CAPS_OF_FORMAT;
	case HELPER_PREPARE:
		return CAPS_OF_PREPARE;
	case HELPER_MOUNT:
	case HELPER_UNMOUNT:
		return CAPS_OF_ALL;
	default:
		return CAPS_OF_READING;
	}
}

int helper_confine_for(enum helper_operation operation, struct fathom_fault *why)
{
	bool mounts = operation == HELPER_MOUNT || operation == HELPER_UNMOUNT;
	bool has_all;
	int error = has_capabilities(CAPS_OF_ALL, &has_all, why);

	must(operation > HELPER_PING); /* which needs no child */
	must(operation < HELPER_OPERATIONS_END);
	if (!error && has_all)
		error = keep_capabilities(capabilities_of(operation), false, why);
	if (!error && operation != HELPER_FORMAT)
		error = deny_calls(starting_processes, ARRAY_COUNT(starting_processes), why);
	if (!error && !mounts)
		error = deny_calls(mounting, ARRAY_COUNT(mounting), why);
	if (!error && !mounts && operation != HELPER_PREPARE)
		error = deny_calls(giving_away, ARRAY_COUNT(giving_away), why);
	return error;
}
