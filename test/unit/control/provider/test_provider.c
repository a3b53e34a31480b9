/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of calls to the operating system: files below a root, links, programs, signatures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after those four */
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake.h"

static struct fake fake;

static int setup(void **state)
{
	fake_begin(&fake);
	return 0;
}

static int teardown(void **state)
{
	fake_end(&fake);
	return 0;
}

static void texts_and_numbers_are_read_below_the_root(void **state)
{
	char text[16], *whole;
	int64_t number;

	fake_file(&fake, "/sys/a", "12\n");
	fake_file(&fake, "/sys/b", "-1\n");
	fake_file(&fake, "/sys/c", "many words \n\n");
	fake_file(&fake, "/sys/d", "");
	assert_int_equal(provider_read_number(&fake.provider, "/sys/a", &number), 0);
	assert_int_equal(number, 12);
	assert_int_equal(provider_read_number(&fake.provider, "/sys/b", &number), 0);
	assert_int_equal(number, -1);
	assert_int_equal(provider_read_number(&fake.provider, "/sys/c", &number), -EINVAL);
	assert_int_equal(provider_read_number(&fake.provider, "/sys/d", &number), -EINVAL);
	assert_int_equal(provider_read_number(&fake.provider, "/sys/none", &number), -ENOENT);
	assert_int_equal(provider_read_text(&fake.provider, "/sys/c", text, sizeof(text)), 0);
	assert_string_equal(text, "many words");
	assert_int_equal(provider_read_text(&fake.provider, "/sys/c", text, 4), -EFBIG);
	assert_int_equal(provider_read_file(&fake.provider, "/sys/c", 100, &whole), 0);
	assert_string_equal(whole, "many words \n\n");
	free(whole);
}

static void a_file_beyond_its_limit_is_refused(void **state)
{
	char *large = malloc(100000), *whole;

	memset(large, 'x', 99999);
	large[99999] = '\0';
	fake_file(&fake, "/proc/large", large);
	assert_int_equal(provider_read_file(&fake.provider, "/proc/large", 10000, &whole), -EFBIG);
	assert_int_equal(provider_read_file(&fake.provider, "/proc/large", 100000, &whole), 0);
	assert_string_equal(whole, large);
	free(whole);
	free(large);
}

static void links_resolve_below_the_root(void **state)
{
	char to[PROVIDER_PATH_BYTES_MAX];

	fake_link(&fake, "/sys/block/sda", "../devices/pci0000:00/./ata1//block/sda");
	fake_link(&fake, "/sys/block/away", "/sys/other");
	fake_link(&fake, "/sys/block/above", "../../../../../x");
	assert_int_equal(provider_follow(&fake.provider, "/sys/block/sda", to, sizeof(to)), 0);
	assert_string_equal(to, "/sys/devices/pci0000:00/ata1/block/sda");
	assert_int_equal(provider_follow(&fake.provider, "/sys/block/away", to, sizeof(to)), 0);
	assert_string_equal(to, "/sys/other");
	assert_int_equal(provider_follow(&fake.provider, "/sys/block/above", to, sizeof(to)), 0);
	assert_string_equal(to, "/x");
	assert_int_equal(provider_follow(&fake.provider, "/sys/block/sda", to, 10), -ENAMETOOLONG);
	assert_int_equal(provider_follow(&fake.provider, "/sys/block", to, sizeof(to)), -EINVAL);
}

static void a_plain_open_refuses_symbolic_links_in_each_part(void **state)
{
	struct provider *p = &fake.provider;
	int fd;

	fake_file(&fake, "/a/file", "x");
	fake_link(&fake, "/b", "a");
	fake_link(&fake, "/a/link", "file");
	assert_int_equal(p->calls->open(p, "/b/file", O_RDONLY, 0, true), -ELOOP);
	assert_int_equal(p->calls->open(p, "/a/link", O_RDONLY, 0, true), -ELOOP);
	fd = p->calls->open(p, "/a/file", O_RDONLY, 0, true);
	assert_true(fd >= 0);
	p->calls->close_fd(p, fd);
	fd = p->calls->open(p, "/b/link", O_RDONLY, 0, false);
	assert_true(fd >= 0);
	p->calls->close_fd(p, fd);
}

static void a_lock_excludes_another_open_file(void **state)
{
	struct provider *p = &fake.provider;
	int first, second;

	fake_file(&fake, "/a", "");
	first = p->calls->open(p, "/a", O_RDWR, 0, true);
	second = p->calls->open(p, "/a", O_RDWR, 0, true);
	assert_int_equal(p->calls->lock(p, first), 0);
	assert_int_equal(p->calls->lock(p, second), -EWOULDBLOCK);
	p->calls->close_fd(p, first);
	assert_int_equal(p->calls->lock(p, second), 0);
	p->calls->close_fd(p, second);
}

static void a_program_gets_its_environment_and_nothing_else(void **state)
{
	static const char *const argv[] = { "/bin/sh", "-c",
					    "env | grep -v -e '^PWD=' -e '^_=' -e '^SHLVL='; ls /proc/self/fd | wc -l; "
					    "cat; echo bad >&2; exit 3",
					    NULL };
	static const char *const env[] = { "PATH=/usr/bin:/bin", "ONLY=this", NULL };
	struct provider *p = provider_system();
	struct provider_run run;
	int extra = open("/dev/null", O_RDONLY); /* without O_CLOEXEC, as a careless library opens it */

	setenv("FATHOM_OUTSIDE", "1", 1);
	assert_int_equal(p->calls->run(p, argv, env, &run), 0);
	assert_true(WIFEXITED(run.status));
	assert_int_equal(WEXITSTATUS(run.status), 3);
	assert_non_null(strstr(run.output, "ONLY=this\n"));
	assert_null(strstr(run.output, "FATHOM_OUTSIDE"));
	assert_non_null(strstr(run.output, "\n4\nbad\n")); /* descriptors 0 to 2 and the one of ls */
	close(extra);
}

static void a_missing_program_is_an_error(void **state)
{
	static const char *const argv[] = { "/nowhere/program", NULL }, *const env[] = { NULL };
	struct provider *p = provider_system();
	struct provider_run run;

	assert_int_equal(p->calls->run(p, argv, env, &run), -ENOENT);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
	assert_int_equal(errno, ECHILD);
}

static void output_beyond_the_buffer_is_dropped(void **state)
{
	static const char *const argv[] = { "/bin/sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x", NULL };
	static const char *const env[] = { "PATH=/usr/bin:/bin", NULL };
	struct provider *p = provider_system();
	struct provider_run run;

	assert_int_equal(p->calls->run(p, argv, env, &run), 0);
	assert_int_equal(run.status, 0);
	assert_int_equal(strlen(run.output), sizeof(run.output) - 1);
}

static void an_empty_device_has_an_empty_signature(void **state)
{
	struct provider below, *p = &below;
	struct provider_signature signature;
	char *zeroes = calloc(1, 4 << 20);
	int fd;

	fake_bytes(&fake, "/image", zeroes, 4 << 20);
	assert_int_equal(provider_init_below(p, fake.folder), 0);
	fd = p->calls->open(p, "/image", O_RDONLY, 0, true);
	assert_true(fd >= 0);
	assert_int_equal(p->calls->signature(p, fd, &signature), 0);
	assert_string_equal(signature.type, "");
	assert_false(signature.several);
	p->calls->close_fd(p, fd);
	memcpy(zeroes + 510, "\x55\xaa", 2); /* a partition table with a Linux partition */
	memcpy(zeroes + 446, "\0\0\0\0\x83\0\0\0\x01\0\0\0\xff\x0f\0\0", 16);
	fake_bytes(&fake, "/image", zeroes, 4 << 20);
	fd = p->calls->open(p, "/image", O_RDONLY, 0, true);
	assert_int_equal(p->calls->signature(p, fd, &signature), 0);
	assert_string_equal(signature.partition_table, "dos");
	p->calls->close_fd(p, fd);
	free(zeroes);
}

static int count_loopback(void *ctx, const struct provider_address *address)
{
	uint32_t *found = ctx;

	if (strcmp(address->interface, "lo") == 0 && address->family == AF_INET &&
	    ntohl(address->v4.s_addr) == INADDR_LOOPBACK) {
		assert_int_equal(address->prefix_bits, 8);
		(*found)++;
	}
	return 0;
}

static void addresses_of_this_host_include_loopback(void **state)
{
	struct provider *p = provider_system();
	uint32_t found = 0;

	assert_int_equal(p->calls->addresses(p, count_loopback, &found), 0);
	if (found == 0)
		skip(); /* no loopback interface in this namespace */
	assert_int_equal(found, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(texts_and_numbers_are_read_below_the_root, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_beyond_its_limit_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(links_resolve_below_the_root, setup, teardown),
		cmocka_unit_test_setup_teardown(a_plain_open_refuses_symbolic_links_in_each_part, setup, teardown),
		cmocka_unit_test_setup_teardown(a_lock_excludes_another_open_file, setup, teardown),
		cmocka_unit_test(a_program_gets_its_environment_and_nothing_else),
		cmocka_unit_test(a_missing_program_is_an_error),
		cmocka_unit_test(output_beyond_the_buffer_is_dropped),
		cmocka_unit_test_setup_teardown(an_empty_device_has_an_empty_signature, setup, teardown),
		cmocka_unit_test(addresses_of_this_host_include_loopback),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
