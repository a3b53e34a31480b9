/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the helper's outputs and passes them on line by line, so that the server can log them in its own format. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "control/helper/client_internal.h"

int helper_words_open(struct helper_words *words, int *theirs_ret)
{
	int low[2], error = 0;

	*words = (struct helper_words){ .fd = -1 };
	if (pipe2(low, O_CLOEXEC) != 0)
		return -errno;
	/* above the descriptors that the child overwrites */
	words->fd = fcntl(low[0], F_DUPFD_CLOEXEC, HELPER_FD + 1);
	*theirs_ret = fcntl(low[1], F_DUPFD_CLOEXEC, HELPER_FD + 1);
	if (words->fd < 0 || *theirs_ret < 0 || fcntl(words->fd, F_SETFL, O_NONBLOCK) != 0)
		error = -errno;
	close(low[0]);
	close(low[1]);
	if (!error)
		return 0;
	if (words->fd >= 0)
		close(words->fd);
	if (*theirs_ret >= 0)
		close(*theirs_ret);
	words->fd = *theirs_ret = -1;
	return error;
}

static void end_line(struct helper_client *client)
{
	struct helper_words *words = &client->process.words;

	must(words->bytes < sizeof(words->line));
	words->line[words->bytes] = '\0';
	if (words->bytes > 0)
		client->said(client->said_ctx, words->line);
	words->bytes = 0;
}

/* Too long a line is split. */
static void split_lines(struct helper_client *client, const char *text, size_t bytes)
{
	struct helper_words *words = &client->process.words;

	must(words->bytes < sizeof(words->line));
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] != '\n')
			words->line[words->bytes++] = text[i];
		if (text[i] == '\n' || words->bytes == sizeof(words->line) - 1)
			end_line(client);
	}
}

/* One piece for each event: a helper that writes without end must not block the reactor. */
static ssize_t read_piece(struct helper_client *client)
{
	char piece[1024];
	ssize_t got;

	must(client->process.words.fd >= 0);
	got = read(client->process.words.fd, piece, sizeof(piece));
	if (got > 0)
		split_lines(client, piece, (size_t)got);
	return got;
}

static void on_words_readable(void *ctx, uint32_t events)
{
	struct helper_client *client = ctx;
	ssize_t got = read_piece(client);

	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		fd_watch_remove(&client->process.words.watch); /* the helper has closed its end */
}

int helper_words_watch(struct helper_client *client)
{
	struct helper_words *words = &client->process.words;

	must(!words->watch);
	words->watch = words->fd < 0 ? NULL : fd_watch_add(words->fd, EPOLLIN, on_words_readable, client);
	return words->fd < 0 || words->watch ? 0 : errno ? -errno : -ENOMEM;
}

void helper_words_close(struct helper_client *client)
{
	struct helper_words *words = &client->process.words;

	if (words->fd < 0)
		return;
	fd_watch_remove(&words->watch);
	for (int i = 0; i < HELPER_WORDS_LEFT_MAX && read_piece(client) > 0; i++)
		; /* the last lines may explain its end */
	end_line(client);
	close(words->fd);
	words->fd = -1;
}
