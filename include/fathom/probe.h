/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probe - registers the DTrace-style probes of a process at fathom-probed over a UNIX socket. It needs no
 * /dev/dtrace/helper, so it works in containers.
 *
 * It prints nothing and does not call malloc() itself. If the socket does not exist, a call makes one system call that
 * fails (fathom_probe_add_file() reads the file before). A request waits at most 1 s to connect, 1 s to send and 2 s for
 * the answer; add and remove send one request, refresh up to two for each object. A child of fork() registers again
 * before fork() returns in it. The daemon removes all registrations when the process ends. Any thread; not in signal
 * handlers. While fathom_probe_refresh() runs, fork() and the other calls wait for it.
 *
 * The socket is /run/fathom/probed.sock, or the value of FATHOM_PROBED_SOCKET (ignored by set-user-ID programs); if that
 * is empty, nothing is registered.
 */
#ifndef FATHOM_PROBE_H
#define FATHOM_PROBE_H

#include <stddef.h>
#include <stdint.h>

#define FATHOM_PROBE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* An object to register: DOF; or, with `dof` NULL, the notes of a file (.note.usdt), which the daemon reads. */
struct fathom_probe_object {
	const void *dof; /* lent until fathom_probe_remove(): a child of fork() sends it again */
	size_t bytes;
	const void *place;  /* an address in the mapped file with the probes; NULL: that of dof */
	uint64_t base;	    /* added to the object's addresses; for notes without a module, the daemon determines it */
	const char *module; /* the module that consumers see; lent. May be NULL for notes: the file's name */
};

/*
 * A registration. The caller zeroes it, and lends it from fathom_probe_add() to fathom_probe_remove(); in between it must
 * not be added again. The fields are private.
 */
struct fathom_probe {
	struct fathom_probe *next;
	struct fathom_probe_object object;
	char module[64];
	int64_t generation; /* -1: not registered */
	int error;	    /* of the last attempt */
	uint64_t socket[3]; /* identity of the socket at which it is registered */
};

/*
 * Register `object`, which is copied; what it points to is lent. Returns 0 or a negative errno. -ENOENT, -ECONNREFUSED: no
 * daemon runs, or the environment disables it; -EINVAL: not DOF, no module, or no file is mapped at `place`; -EDQUOT,
 * -E2BIG: over a limit; -ETIMEDOUT, -ECONNRESET: no answer; others: docs/formats/probed.md. After an error of the daemon or
 * the connection `probe` stays in use: fathom_probe_refresh() retries if there was no answer, or with the next daemon; the
 * caller must call fathom_probe_remove().
 */
int fathom_probe_add(struct fathom_probe *probe, const struct fathom_probe_object *object) FATHOM_PROBE_API;

/*
 * The same for an object in a mapped file, such as the __SUNW_dof of `dtrace -G`: finds its length, load address and
 * module. -EINVAL: not DOF, or not in a file that the dynamic linker loaded.
 */
int fathom_probe_add_mapped(struct fathom_probe *probe, const void *dof) FATHOM_PROBE_API;

/*
 * The same for the program or library mapped at `place`, such as the address of one of its functions: finds the output of
 * `dtrace -G`, .note.usdt (2.0.3 and later) or .SUNW_dof. -ENODATA: it has neither; -ENOENT ...: the file cannot be read.
 */
int fathom_probe_add_file(struct fathom_probe *probe, const void *place) FATHOM_PROBE_API;

/*
 * Remove the registration. The caller owns `probe` again, also after an error (those of a request). Accepts a probe that
 * was never added.
 */
int fathom_probe_remove(struct fathom_probe *probe) FATHOM_PROBE_API;

/*
 * Register the objects of this process again if a daemon has started since, and retry registrations that had no answer. If
 * there is nothing to do, it makes one system call. A long-running program calls it every few seconds. Returns the number
 * of objects that this call registered.
 */
unsigned int fathom_probe_refresh(void) FATHOM_PROBE_API;

/*
 * Use it in one source file of a program or library, outside of functions: registers the output of `dtrace -G` when the
 * file is loaded, and removes it when it is unloaded.
 */
#define FATHOM_PROBE_REGISTER_FILE()                                                                                       \
	static struct fathom_probe fathom_probe_of_this_file;                                                              \
	__attribute__((constructor)) static void fathom_probe_constructor(void)                                            \
	{                                                                                                                  \
		(void)fathom_probe_add_file(&fathom_probe_of_this_file,                                                    \
					    (const void *)(uintptr_t)&fathom_probe_constructor);                           \
	}                                                                                                                  \
	__attribute__((destructor)) static void fathom_probe_destructor(void)                                              \
	{                                                                                                                  \
		(void)fathom_probe_remove(&fathom_probe_of_this_file);                                                     \
	}                                                                                                                  \
	extern int fathom_probe_needs_a_semicolon

/* The same for the object `dof` in a mapped file. */
#define FATHOM_PROBE_REGISTER(dof)                                                                                         \
	static struct fathom_probe fathom_probe_of_this_file;                                                              \
	__attribute__((constructor)) static void fathom_probe_constructor(void)                                            \
	{                                                                                                                  \
		(void)fathom_probe_add_mapped(&fathom_probe_of_this_file, (dof));                                          \
	}                                                                                                                  \
	__attribute__((destructor)) static void fathom_probe_destructor(void)                                              \
	{                                                                                                                  \
		(void)fathom_probe_remove(&fathom_probe_of_this_file);                                                     \
	}                                                                                                                  \
	extern int fathom_probe_needs_a_semicolon

#ifdef __cplusplus
}
#endif

#endif
