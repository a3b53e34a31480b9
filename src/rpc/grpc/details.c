/* SPDX-License-Identifier: BSD-2-Clause */
#include "rpc/grpc/details.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/grpc/text.h"

#define ERROR_INFO_URL "type.googleapis.com/google.rpc.ErrorInfo"

char *details_encode(int32_t code, const char *message, const Google__Rpc__ErrorInfo *info)
{
	Google__Rpc__Status status = GOOGLE__RPC__STATUS__INIT;
	Google__Rpc__Any any = GOOGLE__RPC__ANY__INIT, *anys[] = { &any };
	size_t bytes = google__rpc__error_info__get_packed_size(info);
	uint8_t *inner = malloc(bytes + 1), *outer = NULL;
	char *text = NULL;

	if (inner) {
		any.type_url = (char *)ERROR_INFO_URL;
		any.value = (ProtobufCBinaryData){ .len = google__rpc__error_info__pack(info, inner), .data = inner };
		status.code = code;
		status.message = (char *)message;
		status.n_details = 1;
		status.details = anys;
		bytes = google__rpc__status__get_packed_size(&status);
		outer = malloc(bytes);
	}
	if (outer) {
		must(google__rpc__status__pack(&status, outer) == bytes);
		text = malloc(GRPC_BASE64_BYTES(bytes));
	}
	if (text)
		grpc_base64_encode(text, outer, bytes);
	free(inner);
	free(outer);
	return text;
}

Google__Rpc__ErrorInfo *details_decode(const char *text)
{
	uint8_t *data = malloc(strlen(text) + 1);
	Google__Rpc__Status *status = NULL;
	Google__Rpc__ErrorInfo *info = NULL;
	size_t bytes;

	if (data && grpc_base64_decode(data, text, &bytes) == 0)
		status = google__rpc__status__unpack(NULL, bytes, data);
	for (size_t i = 0; status && !info && i < status->n_details; i++) {
		const Google__Rpc__Any *any = status->details[i];

		if (strcmp(any->type_url, ERROR_INFO_URL) == 0)
			info = google__rpc__error_info__unpack(NULL, any->value.len, any->value.data);
	}
	if (status)
		google__rpc__status__free_unpacked(status, NULL);
	free(data);
	return info;
}
