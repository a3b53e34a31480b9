/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of an engine under a server. The server derives them from its configuration; tests pass them directly. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <uuid/uuid.h>

#include "base/text.h"
#include "cmd/engine/options.h"

enum { INSTANCE_MAX = 999, ADDRESS_BYTES_MAX = 64, PROVIDER_BYTES_MAX = 32 };
#define INCARNATION_MAX (UINT64_MAX - 1)

/* The last option given that is invalid without --socket-dir; NULL: none. */
static const char *server_option_given;

static int check_existing_folder(const char *path, struct fathom_fault *why)
{
	struct stat status;

	if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
		return 0;
	return fault(why, -EINVAL, "is not an existing folder");
}

int engine_read_socket_dir(void *to, const char *text, struct fathom_fault *why)
{
	((struct engine_server_options *)to)->socket_dir = text;
	return check_existing_folder(text, why);
}

int engine_read_storage(void *to, const char *text, struct fathom_fault *why)
{
	*(const char **)to = text;
	return check_existing_folder(text, why);
}

/* ADDRESS:PORT or [ADDRESS]:PORT. `binary_ret`: the address, of `*family_ret`. */
static int read_address(const char *text, char address[static ADDRESS_BYTES_MAX], uint16_t *port_ret,
			uint8_t binary_ret[static sizeof(struct in6_addr)], int *family_ret, struct fathom_fault *why)
{
	const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
	bool bracketed = text[0] == '[';
	uint64_t port;

	*family_ret = bracketed ? AF_INET6 : AF_INET;
	if (bracketed && colon && colon > text + 1 && colon[-1] == ']') {
		begin = text + 1;
		end = colon - 1;
	}
	if (colon && text_parse_u64(colon + 1, 10, UINT16_MAX, &port) == 0 && end - begin < ADDRESS_BYTES_MAX) {
		memcpy(address, begin, (size_t)(end - begin));
		address[end - begin] = '\0';
		*port_ret = (uint16_t)port;
		if (inet_pton(*family_ret, address, binary_ret) == 1)
			return 0;
	}
	return fault(why, -EINVAL, "is not ADDRESS:PORT or [ADDRESS]:PORT, in numbers");
}

int engine_read_listen(void *to, const char *text, struct fathom_fault *why)
{
	static char address[ADDRESS_BYTES_MAX];
	struct engine_server_options *options = to;
	uint8_t binary[sizeof(struct in6_addr)], none[sizeof(binary)] = { 0 };
	int family, error = read_address(text, address, &options->port, binary, &family, why);

	if (error)
		return error;
	if (memcmp(binary, none, family == AF_INET ? 4 : 16) == 0)
		return fault(why, -EINVAL, "is not an address of this host; hosts connect to this address");
	options->address = address;
	return 0;
}

int engine_read_metrics(void *to, const char *text, struct fathom_fault *why)
{
	static char address[ADDRESS_BYTES_MAX];
	struct engine_metrics_options *options = to;
	uint8_t binary[sizeof(struct in6_addr)];
	int family, error = read_address(text, address, &options->port, binary, &family, why);

	if (error == 0)
		options->address = address;
	return error;
}

int engine_read_instance(void *to, const char *text, struct fathom_fault *why)
{
	uint64_t number;

	server_option_given = "--instance";
	if (text_parse_u64(text, 10, INSTANCE_MAX, &number) != 0)
		return fault(why, -EINVAL, "is not a number from 0 to %d", INSTANCE_MAX);
	((struct engine_server_options *)to)->instance = (uint32_t)number;
	return 0;
}

int engine_read_uuid(void *to, const char *text, struct fathom_fault *why)
{
	uuid_t uuid;

	server_option_given = "--uuid";
	if (uuid_parse(text, uuid) != 0)
		return fault(why, -EINVAL, "is not a UUID");
	((struct engine_server_options *)to)->uuid = text;
	return 0;
}

/* A URI scheme (RFC 3986, section 3.1), in lower case. */
int engine_read_provider(void *to, const char *text, struct fathom_fault *why)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz", others[] = "abcdefghijklmnopqrstuvwxyz0123456789+-.";

	server_option_given = "--provider";
	if (!text[0] || !strchr(letters, text[0]) || text[strspn(text, others)] || strlen(text) >= PROVIDER_BYTES_MAX)
		return fault(why, -EINVAL, "is not the scheme of a URI, such as nvme+tcp");
	((struct engine_server_options *)to)->provider = text;
	return 0;
}

int engine_read_incarnation_above(void *to, const char *text, struct fathom_fault *why)
{
	struct engine_server_options *options = to;

	server_option_given = "--incarnation-above";
	if (text_parse_u64(text, 10, INCARNATION_MAX, &options->incarnation_above) != 0)
		return fault(why, -EINVAL, "is not the number of an incarnation");
	return 0;
}

int engine_check_server_options(const struct engine_server_options *options)
{
	if (!options->socket_dir && server_option_given)
		return options_reject(&engine_table,
				      "%s is valid only for an engine under a server: --socket-dir is missing",
				      server_option_given);
	if (options->socket_dir && !options->address)
		return options_reject(&engine_table, "--socket-dir: an engine under a server needs --listen");
	return 0;
}
