/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probe - a process tells fathom-probed which DTrace-style probes it has, over a UNIX socket: where there is no
 * /dev/dtrace/helper, as in containers.
 *
 * Nothing is allocated, nothing is printed, and where no daemon is there nothing happens but one system call that fails.
 * A call waits two seconds at most. A child of fork() registers anew by itself; what was registered goes when the process
 * ends, however it ends. Any thread; not in signal handlers.
 *
 * The socket is /run/fathom/probed.sock, or what FATHOM_PROBED_SOCKET names; if that is empty, nothing is registered.
 */
#ifndef FATHOM_PROBE_H
#define FATHOM_PROBE_H

#include <stddef.h>
#include <stdint.h>

#define FATHOM_PROBE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* What is registered: an object (DOF), or the notes of a file (.note.usdt), which the daemon reads: then `dof` is NULL. */
struct fathom_probe_object {
	const void *dof; /* lent until fathom_probe_remove(): a child of fork() sends it again */
	size_t bytes;
	const void *place; /* an address in the mapped file that has the probes; NULL: that of dof */
	uint64_t base; /* what is to be added to the object's addresses; of notes without a module, the daemon finds it */
	const char *module; /* what consumers see; lent. Of notes it may be NULL: the file's name */
};

/* A registration. The caller's storage, zeroed at first, lent until fathom_probe_remove(). The fields are the library's. */
struct fathom_probe {
	struct fathom_probe *next;
	struct fathom_probe_object object;
	char module[64];
	int64_t generation; /* -1: it is not registered */
	int error;	    /* of the last attempt */
	uint64_t socket[3]; /* which one it was registered at */
};

/*
 * Register `object`, which is copied, what it points to lent. 0; or a negative errno: -ENOENT or -ECONNREFUSED, nobody is
 * there; -EINVAL, it is no DOF, or `place` in no mapped file; -EDQUOT, a limit; -ETIMEDOUT ... Whatever it was, `probe` is
 * kept, fathom_probe_refresh() tries again, and fathom_probe_remove() is to be called.
 */
int fathom_probe_add(struct fathom_probe *probe, const struct fathom_probe_object *object) FATHOM_PROBE_API;

/*
 * Likewise for an object that lies in a mapped file, such as the __SUNW_dof of `dtrace -G`: its length, where it was loaded
 * and by which name are found. -EINVAL: it is no DOF, or in no file that the dynamic linker knows.
 */
int fathom_probe_add_mapped(struct fathom_probe *probe, const void *dof) FATHOM_PROBE_API;

/*
 * Likewise for the file, a program or a library, that `place` lies in, such as a function of it: what `dtrace -G` made of
 * it, .note.usdt (2.0.3 and later) or .SUNW_dof, is found. -ENODATA: it has neither; -ENOENT ...: the file cannot be read.
 */
int fathom_probe_add_file(struct fathom_probe *probe, const void *place) FATHOM_PROBE_API;

/* Take it back. `probe` is the caller's again, whatever is returned. Also of one that was never added. */
int fathom_probe_remove(struct fathom_probe *probe) FATHOM_PROBE_API;

/*
 * Has a daemon come since, or another one in its place? Then register anew what this process has. One system call if not:
 * for a program that lives long, every few seconds. Returns how many were registered.
 */
unsigned int fathom_probe_refresh(void) FATHOM_PROBE_API;

/*
 * In one source file of a program or a library, outside of functions: register what `dtrace -G` made of it when it is
 * loaded, take it back when it is unloaded.
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

/* Likewise for the object `dof`, which lies in a mapped file. */
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
