/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probe - registers the DTrace-style probes of a process at fathom-probed over a UNIX socket. It needs no
 * /dev/dtrace/helper, so it works in containers.
 *
 * It allocates and prints nothing. Without a daemon, a call makes one system call that fails. A call waits two seconds at
 * most. A child of fork() registers again automatically. The daemon removes all registrations when the process ends, for
 * whatever reason. Any thread; not in signal handlers.
 *
 * The socket is /run/fathom/probed.sock, or the value of FATHOM_PROBED_SOCKET; if that is empty, nothing is registered.
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

/* A registration. The caller zeroes it first, and lends it until fathom_probe_remove(). The fields are private. */
struct fathom_probe {
	struct fathom_probe *next;
	struct fathom_probe_object object;
	char module[64];
	int64_t generation; /* -1: not registered */
	int error;	    /* of the last attempt */
	uint64_t socket[3]; /* identity of the socket at which it is registered */
};

/*
 * Register `object`, which is copied; what it points to is lent. 0, or a negative errno: -ENOENT or -ECONNREFUSED: no
 * daemon runs; -EINVAL: not DOF, or no file is mapped at `place`; -EDQUOT: over a limit; -ETIMEDOUT ... After an error,
 * `probe` is kept, too: fathom_probe_refresh() retries, and the caller must call fathom_probe_remove().
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

/* Remove the registration. `probe` belongs to the caller again, also after an error. Accepts one that was never added. */
int fathom_probe_remove(struct fathom_probe *probe) FATHOM_PROBE_API;

/*
 * If a daemon has started since, register the objects of this process again. Otherwise it makes one system call. A
 * long-running program calls it every few seconds. Returns the number of objects registered.
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
