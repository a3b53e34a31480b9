/* SPDX-License-Identifier: BSD-2-Clause */
/* confine - removes a child's descriptors, privileges, memory and system calls. */
#include <errno.h>
#include <grp.h>
#include <link.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/bits.h"
#include "inspect/probed/jail/child.h"
#include "inspect/probed/jail/protocol.h"

enum { UNPRIVILEGED_ID = 65534, SLACK_BYTES = 1 << 20 };
/* what jail_confine() leaves open: orders and answers */
static_assert(JAIL_FD_ANSWERS == JAIL_FD_ORDERS + 1 && JAIL_FD_MEMORY == JAIL_FD_ANSWERS + 1, "two adjacent descriptors");
static_assert(JAIL_FD_ORDERS > STDERR_FILENO, "the standard descriptors are closed");

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||                   \
	__has_feature(thread_sanitizer)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static int drop_privileges(struct fathom_fault *why)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];

	if (geteuid() == 0) {
		/* fails in a container without such a user: then dropping all capabilities below must suffice */
		(void)!setgroups(0, NULL);
		(void)!setresgid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID);
		(void)!setresuid(UNPRIVILEGED_ID, UNPRIVILEGED_ID, UNPRIVILEGED_ID);
	}
	memset(none, 0, sizeof(none));
	if (syscall(SYS_capset, &header, none) != 0)
		return fault(why, -errno, "a parser cannot drop its capabilities: %s", strerror(errno));
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
		return fault(why, -errno, "a parser cannot be confined: prctl: %s", strerror(errno));
	return 0;
}

/* The number of bytes mapped now; 0: unknown. */
static uint64_t mapped_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%lu", &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* All memory for parsing is mapped; libseccomp needs SLACK_BYTES to load the filter. Sanitizers map more: no limit. */
static int limit_resources(struct fathom_fault *why)
{
	static const int none[] = { RLIMIT_CORE, RLIMIT_FSIZE, RLIMIT_NPROC, RLIMIT_MEMLOCK, RLIMIT_NOFILE };
	uint64_t bytes = mapped_bytes();
	struct rlimit memory = { bytes + SLACK_BYTES, bytes + SLACK_BYTES };

	if (bytes == 0)
		return fault(why, -ENOENT, "a parser cannot be limited: /proc/self/statm cannot be read");
	for (size_t i = 0; i < ARRAY_COUNT(none); i++) {
		if (setrlimit(none[i], &(struct rlimit){ 0, 0 }) != 0)
			return fault(why, -errno, "a parser cannot be limited: %s", strerror(errno));
	}
	if (!SANITIZED && setrlimit(RLIMIT_AS, &memory) != 0)
		return fault(why, -errno, "a parser's memory cannot be limited: %s", strerror(errno));
	return 0;
}

/* Allow `call` on `fd` only. */
static int allow_call_on_fd(scmp_filter_ctx ctx, int call, int fd)
{
	struct scmp_arg_cmp first = { .arg = 0, .op = SCMP_CMP_EQ, .datum_a = (scmp_datum_t)fd };

	return seccomp_rule_add_array(ctx, SCMP_ACT_ALLOW, call, 1, &first);
}

/*
 * Release read-only pages. Startup touches far more of the program and its libraries than parsing does; the kernel reads
 * these pages again if needed.
 */
static int release_pages(struct dl_phdr_info *info, size_t bytes, void *ctx)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;

	must((page & (page + 1)) == 0);
	for (size_t i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t begin = (info->dlpi_addr + segment->p_vaddr) & ~page;

		if (segment->p_type == PT_LOAD && !(segment->p_flags & PF_W))
			(void)madvise((void *)begin, info->dlpi_addr + segment->p_vaddr + segment->p_memsz - begin,
				      MADV_DONTNEED);
	}
	return 0;
}

static int load_jail_filter(struct fathom_fault *why)
{
	scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int rc = ctx ? 0 : -ENOMEM;

	if (rc == 0)
		rc = allow_call_on_fd(ctx, SCMP_SYS(read), JAIL_FD_ORDERS);
	if (rc == 0)
		rc = allow_call_on_fd(ctx, SCMP_SYS(write), JAIL_FD_ANSWERS);
	if (rc == 0)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(exit_group), 0);
	if (rc == 0)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(rt_sigreturn), 0);
	/* after SIGSTOP and SIGCONT */
	if (rc == 0)
		rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(restart_syscall), 0);
	(void)dl_iterate_phdr(release_pages, NULL);
	if (rc == 0)
		rc = seccomp_load(ctx);
	seccomp_release(ctx);
	return rc ? fault(why, rc, "a parser cannot be confined: seccomp: %s", strerror(-rc)) : 0;
}

int jail_confine(pid_t parent, struct fathom_fault *why)
{
	int rc;

	if (syscall(SYS_close_range, 0, JAIL_FD_ORDERS - 1, 0) != 0 ||
	    syscall(SYS_close_range, JAIL_FD_MEMORY, ~0u, 0) != 0)
		return fault(why, -errno, "a parser cannot close its descriptors: %s", strerror(errno));
	rc = drop_privileges(why);
	if (rc)
		return rc;
	/* must come after drop_privileges(): a change of the user clears it */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0 || getppid() != parent)
		return fault(why, -ECHILD, "the parent of a parser has ended");
	rc = limit_resources(why);
	return rc ? rc : load_jail_filter(why);
}
