/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of an engine under a server. The server derives them from its configuration; tests pass them directly. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uuid/uuid.h>

#include "base/text.h"
#include "cmd/engine/options.h"

enum { INSTANCE_MAX = 999, ADDRESS_BYTES_MAX = 64, PROVIDER_BYTES_MAX = 32 };
#define INCARNATION_MAX (UINT64_MAX - 1)

/* The last option given that is invalid without --socket-dir; NULL: none. */
static const char *given;

static bool is_folder(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int read_listen(const char *text, struct engine_server_options *options)
{
	static char address[ADDRESS_BYTES_MAX];
	const char *colon = strrchr(text, ':'), *begin = text, *end = colon;
	bool bracketed = text[0] == '[';
	uint8_t binary[sizeof(struct in6_addr)], none[sizeof(binary)] = { 0 };
	uint64_t port;
	int family = bracketed ? AF_INET6 : AF_INET;

	if (bracketed && colon && colon > text + 1 && colon[-1] == ']') {
		begin = text + 1;
		end = colon - 1;
	}
	if (!colon || text_parse_u64(colon + 1, 10, UINT16_MAX, &port) != 0 || end - begin >= ADDRESS_BYTES_MAX)
		return bad_argument("--listen", text, "not ADDRESS:PORT or [ADDRESS]:PORT, in numbers");
	memcpy(address, begin, (size_t)(end - begin));
	address[end - begin] = '\0';
	if (inet_pton(family, address, binary) != 1)
		return bad_argument("--listen", text, "not ADDRESS:PORT or [ADDRESS]:PORT, in numbers");
	if (memcmp(binary, none, family == AF_INET ? 4 : 16) == 0)
		return bad_argument("--listen", text, "hosts are told this address, so it must be one of this host's");
	options->address = address;
	options->port = (uint16_t)port;
	return 0;
}

static int read_instance(const char *text, struct engine_server_options *options)
{
	uint64_t number;

	if (text_parse_u64(text, 10, INSTANCE_MAX, &number) != 0)
		return bad_argument("--instance", text, "not a number up to 999");
	options->instance = (uint32_t)number;
	return 0;
}

static int read_uuid(const char *text, struct engine_server_options *options)
{
	uuid_t uuid;

	if (uuid_parse(text, uuid) != 0)
		return bad_argument("--uuid", text, "not a UUID");
	options->uuid = text;
	return 0;
}

/* A URI scheme (RFC 3986, section 3.1), in lower case. */
static int read_provider(const char *text, struct engine_server_options *options)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz", others[] = "abcdefghijklmnopqrstuvwxyz0123456789+-.";

	if (!text[0] || !strchr(letters, text[0]) || text[strspn(text, others)] || strlen(text) >= PROVIDER_BYTES_MAX)
		return bad_argument("--provider", text, "not the scheme of a URI, such as nvme+tcp");
	options->provider = text;
	return 0;
}

int read_server_option(int option, const char *text, struct engine_server_options *options)
{
	switch ((enum server_option)option) {
	case SERVER_OPTION_SOCKET_DIR:
		if (!is_folder(text))
			return bad_argument("--socket-dir", text, "there is no such folder");
		options->socket_dir = text;
		return 0;
	case SERVER_OPTION_INSTANCE:
		given = "--instance";
		return read_instance(text, options);
	case SERVER_OPTION_UUID:
		given = "--uuid";
		return read_uuid(text, options);
	case SERVER_OPTION_LISTEN:
		given = "--listen";
		return read_listen(text, options);
	case SERVER_OPTION_STORAGE:
		given = "--storage";
		if (!is_folder(text))
			return bad_argument("--storage", text, "there is no such folder");
		options->storage = text;
		return 0;
	case SERVER_OPTION_PROVIDER:
		given = "--provider";
		return read_provider(text, options);
	case SERVER_OPTION_INCARNATION_ABOVE:
		given = "--incarnation-above";
		if (text_parse_u64(text, 10, INCARNATION_MAX, &options->incarnation_above) != 0)
			return bad_argument("--incarnation-above", text, "not the number of an incarnation");
		return 0;
	}
	return EXIT_USAGE;
}

int check_server_options(const struct engine_server_options *options)
{
	if (!options->socket_dir && given)
		return bad_argument(given, "", "only an engine under a server has it: --socket-dir is missing");
	if (options->socket_dir && !options->address)
		return bad_argument("--socket-dir", options->socket_dir, "an engine under a server needs --listen");
	return 0;
}
