/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "rpc/grpc/address.h"
#include "rpc/grpc/internal.h"

int grpc_address_parse(const char *text, struct sockaddr_storage *address_ret, socklen_t *bytes_ret,
		       struct fathom_fault *why)
{
	struct sockaddr_storage address = { 0 };
	struct sockaddr_in *v4 = (struct sockaddr_in *)&address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&address;
	char host[GRPC_ADDRESS_BYTES_MAX];
	const char *colon = strrchr(text, ':');
	uint64_t port;

	if (!colon || text_copy(host, sizeof(host), text) < 0 || text_parse_u64(colon + 1, 10, UINT16_MAX, &port) < 0)
		return fault(why, -EINVAL, "\"%s\" is not an address and a port such as 10.0.0.1:10001 or [::1]:10001",
			     text);
	host[colon - text] = '\0';
	if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)port);
		*bytes_ret = sizeof(*v4);
	} else {
		size_t length = strlen(host);

		if (length < 2 || host[0] != '[' || host[length - 1] != ']')
			return fault(why, -EINVAL, "\"%s\" is not an address; write it in numbers, IPv6 in brackets", text);
		host[length - 1] = '\0';
		if (inet_pton(AF_INET6, host + 1, &v6->sin6_addr) != 1)
			return fault(why, -EINVAL, "\"%s\" is not an IPv6 address", text);
		v6->sin6_family = AF_INET6;
		v6->sin6_port = htons((uint16_t)port);
		*bytes_ret = sizeof(*v6);
	}
	*address_ret = address;
	return 0;
}

void address_format(char text[static GRPC_ADDRESS_BYTES_MAX], const struct sockaddr_storage *address)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
	char host[INET6_ADDRSTRLEN] = "?";

	if (address->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host));
		snprintf(text, GRPC_ADDRESS_BYTES_MAX, "[%s]:%u", host, ntohs(v6->sin6_port));
	} else {
		inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host));
		snprintf(text, GRPC_ADDRESS_BYTES_MAX, "%s:%u", host, ntohs(v4->sin_port));
	}
}
