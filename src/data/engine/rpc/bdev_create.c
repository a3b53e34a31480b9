/* SPDX-License-Identifier: BSD-2-Clause */
/* Creating and deleting block devices. Errors are negative errno values, as in SPDK. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uuid/uuid.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/text.h"
#include "data/engine/internal.h"
#include "data/engine/methods.gen.h"
#include "base/reactor/daemon.h"
#include "base/reactor/reactor.h"
#include "base/reactor/worker.h"
#include "data/store/backend/backend.h"
#include "data/store/bdev/bdev.h"

/* ---- shared ---- */

/* Reply with the new bdev's name, or with the error: its code is `code`, or the errno if `code` is 0. */
static void reply_created(struct rpc_request *request, const char *name, int rc, int code, const struct fathom_fault *why)
{
	if (rc == 0)
		rpc_reply(request, json_text(name));
	else if (code)
		rpc_error_fault(request, code, why);
	else
		rpc_error_errno(request, rc, why->text);
}

/*
 * A device is removed after its last I/O completes and its file is closed, which may never happen if the device hangs. The
 * name is free at once.
 * The reply waits for removal, but at most DELETE_TIMEOUT_SEC; a later completion is only logged.
 */
enum { DELETE_TIMEOUT_SEC = 10 };

struct deletion {
	struct rpc_request *request; /* NULL: answered */
	struct poller *timeout;
	uint64_t begin_ns;
	char name[BDEV_NAME_BYTES_MAX];
};

static int deletion_timed_out(void *ctx)
{
	struct deletion *deletion = ctx;
	struct rpc_request *request = deletion->request;

	must(request);
	deletion->request = NULL;
	poller_unregister(&deletion->timeout);
	log_warning(
		"block device %s: deleted, but some of its I/O has not completed, or its file is not closed, for %d s; the"
		" file stays open until then",
		deletion->name, DELETE_TIMEOUT_SEC);
	rpc_error(request, -ETIMEDOUT,
		  "%s: \"%s\" is deleted, but some of its I/O has not completed, or its file is not closed, for %d s; the"
		  " file stays open until then",
		  strerror(ETIMEDOUT), deletion->name, DELETE_TIMEOUT_SEC);
	return 1;
}

static void finish_deletion(void *ctx)
{
	struct deletion *deletion = ctx;

	poller_unregister(&deletion->timeout);
	if (deletion->request)
		rpc_reply(deletion->request, NULL);
	else
		log_notice("block device %s: its file was closed %llu s after its deletion", deletion->name,
			   (clock_monotonic_ns() - deletion->begin_ns) / NS_PER_SEC);
	free(deletion);
}

static struct deletion *deletion_create(struct rpc_request *request, const char *name)
{
	struct deletion *deletion = calloc(1, sizeof(*deletion));

	must(deletion);
	deletion->request = request;
	deletion->begin_ns = clock_monotonic_ns();
	(void)text_copy(deletion->name, sizeof(deletion->name), name); /* used in messages only */
	deletion->timeout = poller_register("bdev_delete", deletion_timed_out, deletion, DELETE_TIMEOUT_SEC * NS_PER_SEC);
	must(deletion->timeout);
	return deletion;
}

static void delete_kind(struct rpc_request *request, const char *name, const char *kind)
{
	struct deletion *deletion = deletion_create(request, name);
	int rc = backend_delete(name, kind, finish_deletion, deletion); /* may free `deletion` before it returns */

	if (rc) {
		poller_unregister(&deletion->timeout);
		free(deletion);
	}
	if (rc == -ENODEV && bdev_find(name))
		rpc_error(request, rc, "%s: %s is of another kind than %s", strerror(-rc), name, kind);
	else if (rc)
		rpc_error_errno(request, rc, name);
}

/* ---- null ---- */

void method_bdev_null_create(struct rpc_request *request, const struct bdev_null_create_params *p)
{
	struct null_options options = {
		.name = p->name,
		.block_count = p->num_blocks,
		.block_bytes = p->block_size,
		.physical_block_bytes = p->physical_block_size,
	};
	struct fathom_fault why;
	int rc;

	uuid_copy(options.uuid, p->uuid);
	rc = null_create(&options, &why);
	reply_created(request, p->name, rc, 0, &why);
}

void method_bdev_null_delete(struct rpc_request *request, const struct bdev_null_delete_params *p)
{
	delete_kind(request, p->name, "null");
}

/* ---- malloc ---- */

/* Memory is allocated at the first write, so a device larger than memory is only a warning. */
static void warn_of_size(const struct malloc_options *options)
{
	uint64_t memory_mib = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) >> 20;
	const struct bdev *bdev = bdev_find(options->name);
	uint64_t bdev_mib;

	must(bdev);
	bdev_mib = bdev->block_count * bdev->block_bytes >> 20;
	if (bdev_mib > memory_mib)
		log_warning("bdev_malloc_create: \"%s\" has %" PRIu64 " MiB, this machine only %" PRIu64
			    " MiB of memory: the kernel kills the engine when it is filled",
			    bdev->name, bdev_mib, memory_mib);
}

/* "Malloc" and the lowest number that makes a free name. */
static void choose_malloc_name(char *name, size_t name_bytes)
{
	for (unsigned int i = 0;; i++) {
		snprintf(name, name_bytes, "Malloc%u", i);
		if (!bdev_find(name))
			return;
	}
}

void method_bdev_malloc_create(struct rpc_request *request, const struct bdev_malloc_create_params *p)
{
	struct malloc_options options = {
		.name = p->name,
		.block_count = p->num_blocks,
		.block_bytes = p->block_size,
		.physical_block_bytes = p->physical_block_size,
		.boundary_blocks = p->optimal_io_boundary,
	};
	char name[32];
	struct fathom_fault why;
	int rc;

	if (!p->name) {
		choose_malloc_name(name, sizeof(name));
		options.name = name;
	}
	uuid_copy(options.uuid, p->uuid);
	rc = malloc_create(&options, &why);
	if (rc == 0)
		warn_of_size(&options);
	reply_created(request, options.name, rc, 0, &why);
}

void method_bdev_malloc_delete(struct rpc_request *request, const struct bdev_malloc_delete_params *p)
{
	delete_kind(request, p->name, "malloc");
}

/*
 * ---- files, under two names ----
 *
 * A worker thread opens the file: a disk that hangs stops this request, and no other one.
 */

struct creation {
	struct worker_job job;
	struct rpc_request *request;
	struct file_options options;
	char name[BDEV_NAME_BYTES_MAX], *filename;
	int code;		/* of a reply with an error; 0: the errno */
	struct file_bdev *file; /* the result; NULL: `why` */
	struct fathom_fault why;
	struct bdev_going going;
	TAILQ_ENTRY(creation) link;
};

static TAILQ_HEAD(, creation) creations = TAILQ_HEAD_INITIALIZER(creations);

static void end_creation(struct creation *creation, int error)
{
	must(!creation->file);
	TAILQ_REMOVE(&creations, creation, link);
	reply_created(creation->request, creation->name, error, creation->code, &creation->why);
	bdev_going_end(&creation->going);
	free(creation->filename);
	free(creation);
}

/* Worker thread. */
static void open_file(struct worker_job *job)
{
	struct creation *creation = container_of(job, struct creation, job);

	if (file_bdev_open(&creation->options, &creation->file, &creation->why))
		must(creation->why.error && !creation->file);
}

static void note_opened(struct worker_job *job)
{
	struct creation *creation = container_of(job, struct creation, job);
	struct file_bdev *file = creation->file;
	int error = creation->why.error;

	creation->file = NULL;
	if (file && daemon_is_stopping()) {
		file_bdev_abandon(file);
		error = fault(&creation->why, -ECANCELED, "the engine is stopping");
	} else if (file) {
		error = file_bdev_register(file, NULL, &creation->why);
	}
	end_creation(creation, error);
}

static bool is_being_created(const char *name)
{
	const struct creation *creation;

	TAILQ_FOREACH (creation, &creations, link) {
		if (strcmp(creation->name, name) == 0)
			return true;
	}
	return false;
}

/* `code`: of a reply with an error; 0: the errno. */
static void create_file(struct rpc_request *request, const struct file_options *options, int code)
{
	struct creation *creation;
	struct fathom_fault why;
	int error = 0;

	if (strlen(options->name) >= BDEV_NAME_BYTES_MAX)
		error = fault(&why, -EINVAL, "a block device's name has at most %d characters, \"%.40s...\" has more",
			      BDEV_NAME_BYTES_MAX - 1, options->name);
	else if (bdev_find(options->name) || is_being_created(options->name)) /* before the file gets an attribute */
		error = fault(&why, -EEXIST, "a block device named \"%s\" exists already", options->name);
	if (error) {
		reply_created(request, options->name, error, code, &why);
		return;
	}
	creation = calloc(1, sizeof(*creation));
	must(creation);
	creation->request = request;
	creation->options = *options;
	creation->code = code;
	(void)text_copy(creation->name, sizeof(creation->name), options->name); /* as long */
	creation->filename = strdup(options->filename);
	must(creation->filename);
	creation->options.name = creation->name;
	creation->options.filename = creation->filename;
	TAILQ_INSERT_TAIL(&creations, creation, link);
	bdev_going_begin(&creation->going, creation->name);
	creation->job = (struct worker_job){ .work = open_file, .done = note_opened, .holds_home = true };
	error = worker_start(&creation->job);
	if (error)
		end_creation(creation, fault(&creation->why, error, "cannot start a thread: %s", strerror(-error)));
}

void method_bdev_uring_create(struct rpc_request *request, const struct bdev_uring_create_params *p)
{
	struct file_options options = {
		.kind = FILE_KIND_URING,
		.name = p->name,
		.filename = p->filename,
		.block_bytes = p->block_size,
	};

	uuid_copy(options.uuid, p->uuid);
	create_file(request, &options, RPC_CODE_INTERNAL);
}

void method_bdev_uring_delete(struct rpc_request *request, const struct bdev_uring_delete_params *p)
{
	delete_kind(request, p->name, "uring");
}

void method_bdev_aio_create(struct rpc_request *request, const struct bdev_aio_create_params *p)
{
	struct file_options options = {
		.kind = FILE_KIND_AIO,
		.name = p->name,
		.filename = p->filename,
		.block_bytes = p->block_size,
		.read_only = p->readonly,
	};

	uuid_copy(options.uuid, p->uuid);
	create_file(request, &options, 0);
}

void method_bdev_aio_delete(struct rpc_request *request, const struct bdev_aio_delete_params *p)
{
	delete_kind(request, p->name, "aio");
}
