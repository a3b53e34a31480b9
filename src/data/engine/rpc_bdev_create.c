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
#include "base/log.h"
#include "base/text.h"
#include "data/engine/internal.h"
#include "base/reactor/reactor.h"
#include "data/store/backend/backend.h"
#include "data/store/bdev/bdev.h"

/* ---- shared ---- */

struct create_params {
	const char *name, *filename, *uuid;
	uint32_t block_size, physical_block_size, optimal_io_boundary;
	uint64_t num_blocks;
	bool readonly, fallocate, fallocate_given;
	/* protection information, which is not supported */
	uint32_t md_size, dif_pi_format;
	int32_t dif_type, numa_id;
	bool md_interleave, dif_is_head_of_md;
};

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

/* False: not a UUID; an error reply has been sent. */
static bool read_uuid(struct rpc_request *request, const char *text, uint8_t uuid[16])
{
	if (!text || uuid_parse(text, uuid) == 0)
		return true;
	rpc_error(request, RPC_CODE_INVALID_PARAMETERS, "Invalid parameters: \"uuid\" is \"%.64s\", not a UUID", text);
	return false;
}

static bool no_metadata(struct rpc_request *request, const struct create_params *p)
{
	if (p->md_size == 0 && p->dif_type == 0)
		return true;
	rpc_error(request, RPC_CODE_INVALID_PARAMETERS,
		  "Invalid parameters: \"%s\" is not 0, and there is no metadata here",
		  p->md_size ? "md_size" : "dif_type");
	return false;
}

/*
 * A device is removed after its last I/O completes, which may never happen if the device hangs. The name is free at once.
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
		"block device %s: deleted, but I/O has not come back from it for %d s; its file stays open until it has",
		deletion->name, DELETE_TIMEOUT_SEC);
	rpc_error(request, -ETIMEDOUT,
		  "%s: \"%s\" is deleted, but I/O has not come back from it for %d s; its file stays open until it has",
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
		log_notice("block device %s: the last I/O has come back, %llu s after its deletion", deletion->name,
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

struct delete_params {
	const char *name;
};

static const struct rpc_param delete_fields[] = {
	RPC_PARAM_STRING("name", delete_params, name, true),
	RPC_PARAM_END,
};

static void delete_kind(struct rpc_request *request, const json_t *params, const char *kind)
{
	struct delete_params p = { 0 };
	struct deletion *deletion;
	int rc;

	if (!rpc_params(request, params, delete_fields, &p))
		return;
	deletion = deletion_create(request, p.name);
	rc = backend_delete(p.name, kind, finish_deletion, deletion); /* may free `deletion` before it returns */
	if (rc) {
		poller_unregister(&deletion->timeout);
		free(deletion);
	}
	if (rc == -ENODEV && bdev_find(p.name))
		rpc_error(request, rc, "%s: %s is of another kind than %s", strerror(-rc), p.name, kind);
	else if (rc)
		rpc_error_errno(request, rc, p.name);
}

/* ---- null ---- */

static const struct rpc_param null_fields[] = {
	RPC_PARAM_STRING("name", create_params, name, true),
	RPC_PARAM_U64("num_blocks", create_params, num_blocks, true),
	RPC_PARAM_U32("block_size", create_params, block_size, true),
	RPC_PARAM_U32("physical_block_size", create_params, physical_block_size, false),
	RPC_PARAM_STRING("uuid", create_params, uuid, false),
	RPC_PARAM_U32("md_size", create_params, md_size, false),
	RPC_PARAM_I32("dif_type", create_params, dif_type, false),
	RPC_PARAM_BOOL("dif_is_head_of_md", create_params, dif_is_head_of_md, false),
	RPC_PARAM_U32("dif_pi_format", create_params, dif_pi_format, false),
	RPC_PARAM_MEANINGLESS(U32, "preferred_write_granularity"),
	RPC_PARAM_MEANINGLESS(U32, "preferred_write_alignment"),
	RPC_PARAM_MEANINGLESS(U32, "optimal_write_size"),
	RPC_PARAM_MEANINGLESS(U32, "preferred_unmap_granularity"),
	RPC_PARAM_MEANINGLESS(U32, "preferred_unmap_alignment"),
	RPC_PARAM_END,
};

static void bdev_null_create(struct rpc_request *request, const json_t *params)
{
	struct create_params p = { 0 };
	struct null_options options = { 0 };
	struct fathom_fault why;
	int rc;

	if (!rpc_params(request, params, null_fields, &p) || !no_metadata(request, &p) ||
	    !read_uuid(request, p.uuid, options.uuid))
		return;
	options.name = p.name;
	options.block_count = p.num_blocks;
	options.block_bytes = p.block_size;
	options.physical_block_bytes = p.physical_block_size;
	rc = null_create(&options, &why);
	reply_created(request, p.name, rc, 0, &why);
}

static void bdev_null_delete(struct rpc_request *request, const json_t *params)
{
	delete_kind(request, params, "null");
}

/* ---- malloc ---- */

static const struct rpc_param malloc_fields[] = {
	RPC_PARAM_STRING("name", create_params, name, false),
	RPC_PARAM_U64("num_blocks", create_params, num_blocks, true),
	RPC_PARAM_U32("block_size", create_params, block_size, true),
	RPC_PARAM_U32("physical_block_size", create_params, physical_block_size, false),
	RPC_PARAM_STRING("uuid", create_params, uuid, false),
	RPC_PARAM_U32("optimal_io_boundary", create_params, optimal_io_boundary, false),
	RPC_PARAM_U32("md_size", create_params, md_size, false),
	RPC_PARAM_BOOL("md_interleave", create_params, md_interleave, false),
	RPC_PARAM_I32("dif_type", create_params, dif_type, false),
	RPC_PARAM_BOOL("dif_is_head_of_md", create_params, dif_is_head_of_md, false),
	RPC_PARAM_U32("dif_pi_format", create_params, dif_pi_format, false),
	RPC_PARAM_I32("numa_id", create_params, numa_id, false), /* ignored: the first touch decides the node */
	RPC_PARAM_END,
};

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
			    " MiB of memory: who fills it is ended by the kernel",
			    bdev->name, bdev_mib, memory_mib);
}

static void bdev_malloc_create(struct rpc_request *request, const json_t *params)
{
	struct create_params p = { 0 };
	struct malloc_options options = { 0 };
	char name[32];
	struct fathom_fault why;
	int rc;

	if (!rpc_params(request, params, malloc_fields, &p) || !no_metadata(request, &p) ||
	    !read_uuid(request, p.uuid, options.uuid))
		return;
	for (unsigned int i = 0; !p.name; i++) {
		snprintf(name, sizeof(name), "Malloc%u", i);
		if (!bdev_find(name))
			p.name = name;
	}
	options.name = p.name;
	options.block_count = p.num_blocks;
	options.block_bytes = p.block_size;
	options.physical_block_bytes = p.physical_block_size;
	options.boundary_blocks = p.optimal_io_boundary;
	rc = malloc_create(&options, &why);
	if (rc == 0)
		warn_of_size(&options);
	reply_created(request, p.name, rc, 0, &why);
}

static void bdev_malloc_delete(struct rpc_request *request, const json_t *params)
{
	delete_kind(request, params, "malloc");
}

/* ---- files, under two names ---- */

static const struct rpc_param uring_fields[] = {
	RPC_PARAM_STRING("filename", create_params, filename, true),
	RPC_PARAM_STRING("name", create_params, name, true),
	RPC_PARAM_U32("block_size", create_params, block_size, false),
	RPC_PARAM_STRING("uuid", create_params, uuid, false),
	RPC_PARAM_END,
};

static const struct rpc_param aio_fields[] = {
	RPC_PARAM_STRING("filename", create_params, filename, true),
	RPC_PARAM_STRING("name", create_params, name, true),
	RPC_PARAM_U32("block_size", create_params, block_size, false),
	RPC_PARAM_BOOL("readonly", create_params, readonly, false),
	RPC_PARAM_BOOL("fallocate", create_params, fallocate,
		       false), /* ignored: holes are punched if the file supports it */
	RPC_PARAM_STRING("uuid", create_params, uuid, false),
	RPC_PARAM_MEANINGLESS(BOOL, "nowait"),
	RPC_PARAM_END,
};

static void file_create_by(struct rpc_request *request, const struct create_params *p, struct file_options *options,
			   int error_code)
{
	struct fathom_fault why;
	int rc;

	if (!read_uuid(request, p->uuid, options->uuid))
		return;
	options->name = p->name;
	options->filename = p->filename;
	options->block_bytes = p->block_size;
	options->read_only = p->readonly;
	rc = file_create(options, &why);
	reply_created(request, p->name, rc, error_code, &why);
}

static void bdev_uring_create(struct rpc_request *request, const json_t *params)
{
	struct file_options options = { .kind = FILE_KIND_URING };
	struct create_params p = { 0 };

	if (rpc_params(request, params, uring_fields, &p))
		file_create_by(request, &p, &options, RPC_CODE_INTERNAL);
}

static void bdev_uring_delete(struct rpc_request *request, const json_t *params)
{
	delete_kind(request, params, "uring");
}

static void bdev_aio_create(struct rpc_request *request, const json_t *params)
{
	struct file_options options = { .kind = FILE_KIND_AIO };
	struct create_params p = { 0 };

	if (rpc_params(request, params, aio_fields, &p))
		file_create_by(request, &p, &options, 0);
}

static void bdev_aio_delete(struct rpc_request *request, const json_t *params)
{
	delete_kind(request, params, "aio");
}

static const struct rpc_method methods[] = {
	{ "bdev_null_create", RPC_RUNTIME, bdev_null_create },
	{ "bdev_null_delete", RPC_RUNTIME, bdev_null_delete },
	{ "bdev_malloc_create", RPC_RUNTIME, bdev_malloc_create },
	{ "bdev_malloc_delete", RPC_RUNTIME, bdev_malloc_delete },
	{ "bdev_uring_create", RPC_RUNTIME, bdev_uring_create },
	{ "bdev_uring_delete", RPC_RUNTIME, bdev_uring_delete },
	{ "bdev_aio_create", RPC_RUNTIME, bdev_aio_create },
	{ "bdev_aio_delete", RPC_RUNTIME, bdev_aio_delete },
};

void rpc_bdev_create_register(void)
{
	rpc_register(methods, ARRAY_COUNT(methods));
}
