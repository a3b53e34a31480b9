/* SPDX-License-Identifier: BSD-2-Clause */
#include "control/mgmt/absent.h"

#include <stdbool.h>
#include <string.h>

#include "base/bits.h"
#include "control/fault/fault.h"
#include "control/status/status.h"
#include "rpc/proto/fathom.pb-c.h"

static const struct row {
	const char *path;
	uint32_t field;
	bool has_method; /* whose function refuses requests with that field */
	const char *command, *reason, *instead;
} rows[] = {
#include "control/mgmt/absent.gen.inc"
};
static_assert(ARRAY_COUNT(rows) <= ABSENT_METHODS_MAX, "each method has its place");

/* AbsentReq declares no fields, so protobuf-c keeps every field of the request as an unknown one. */
static bool has_field(const ProtobufCMessage *message, uint32_t field)
{
	for (unsigned int i = 0; i < message->n_unknown_fields; i++) {
		if (message->unknown_fields[i].tag == field)
			return true;
	}
	return field == 0;
}

static void refuse(struct grpc_call *call, const struct row *row)
{
	struct fathom_fault why;

	must(row < rows + ARRAY_COUNT(rows));
	why.error = fault_dmg_absent(&why, row->command, row->reason, row->instead);
	call_fail(call, &why);
}

static void reply_absent(struct grpc_call *call, const ProtobufCMessage *request)
{
	const struct row *row = rows;

	while (row < rows + ARRAY_COUNT(rows) &&
	       (strcmp(row->path, grpc_call_method(call)->path) != 0 || !has_field(request, row->field)))
		row++;
	refuse(call, row);
}

void mgmt_refuse_absent(struct grpc_call *call, const char *path, uint32_t field)
{
	const struct row *row = rows;

	while (row < rows + ARRAY_COUNT(rows) && (strcmp(row->path, path) != 0 || row->field != field))
		row++;
	refuse(call, row);
}

static bool has_method(const struct grpc_method *methods, size_t count, const char *path)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(methods[i].path, path) == 0)
			return true;
	}
	return false;
}

size_t mgmt_absent_methods(struct grpc_method *methods)
{
	size_t count = 0;

	for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
		if (rows[i].has_method || has_method(methods, count, rows[i].path))
			continue;
		must(count < ABSENT_METHODS_MAX);
		methods[count++] = (struct grpc_method){
			.path = rows[i].path,
			.request = &fathom__absent_req__descriptor,
			.response = &fathom__absent_req__descriptor,
			.roles = GRPC_ROLE_ANYBODY,
			.fn = reply_absent,
		};
	}
	return count;
}
