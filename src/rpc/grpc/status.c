/* SPDX-License-Identifier: BSD-2-Clause */
/* Make headers, and convert roles to names and back. */
#include <string.h>

#include "base/bits.h"
#include "rpc/grpc/internal.h"

nghttp2_nv header(const char *name, const char *value)
{
	return (nghttp2_nv){
		.name = (uint8_t *)name,
		.value = (uint8_t *)value,
		.namelen = strlen(name),
		.valuelen = strlen(value),
		.flags = NGHTTP2_NV_FLAG_NO_COPY_NAME,
	};
}

static const struct {
	enum grpc_role role;
	const char *name;
} roles[] = { { GRPC_ROLE_ADMIN, "admin" }, { GRPC_ROLE_AGENT, "agent" }, { GRPC_ROLE_SERVER, "server" } };

const char *grpc_role_name(enum grpc_role role)
{
	for (size_t i = 0; i < ARRAY_COUNT(roles); i++) {
		if (roles[i].role == role)
			return roles[i].name;
	}
	return "a caller without a role";
}

enum grpc_role grpc_role_of(const char *name)
{
	for (size_t i = 0; i < ARRAY_COUNT(roles); i++) {
		if (strcmp(roles[i].name, name) == 0)
			return roles[i].role;
	}
	return GRPC_ROLE_ANYBODY;
}
