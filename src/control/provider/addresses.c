/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of network interfaces. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <sys/socket.h>

#include "control/provider/internal.h"

static unsigned int count_prefix_bits(const uint8_t *mask, size_t bytes)
{
	unsigned int bits = 0;

	for (size_t i = 0; i < bytes; i++)
		bits += (unsigned int)__builtin_popcount(mask[i]);
	return bits;
}

/* False: neither IPv4 nor IPv6. */
static bool read_address(const struct ifaddrs *from, struct provider_address *address)
{
	if (!from->ifa_addr)
		return false;
	*address = (struct provider_address){ .interface = from->ifa_name, .family = from->ifa_addr->sa_family };
	if (address->family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)from->ifa_addr;
		const struct sockaddr_in *mask = (const struct sockaddr_in *)(const void *)from->ifa_netmask;

		address->v4 = in->sin_addr;
		address->prefix_bits = mask ? count_prefix_bits((const uint8_t *)&mask->sin_addr, sizeof(mask->sin_addr))
					    : 32;
		return true;
	}
	if (address->family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)(const void *)from->ifa_addr;
		const struct sockaddr_in6 *mask = (const struct sockaddr_in6 *)(const void *)from->ifa_netmask;

		address->v6 = in->sin6_addr;
		address->prefix_bits = mask ? count_prefix_bits((const uint8_t *)&mask->sin6_addr, sizeof(mask->sin6_addr))
					    : 128;
		return true;
	}
	return false;
}

int provider_system_addresses(struct provider *self, provider_address_fn visit, void *ctx)
{
	struct provider_address address;
	struct ifaddrs *all;
	int error = 0;

	must(visit);
	if (getifaddrs(&all) != 0)
		return -errno;
	for (const struct ifaddrs *at = all; at && !error; at = at->ifa_next) {
		if (read_address(at, &address))
			error = visit(ctx, &address);
	}
	freeifaddrs(all);
	return error;
}
