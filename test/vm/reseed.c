/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reseed HEX - mixes these bytes into the kernel's random numbers, at once.
 *
 * A guest that continues from a saved state has the random numbers of that state: without this program, volumes of two
 * runs would get the same UUID.
 */
#include <fcntl.h>
#include <linux/random.h>
#include <stdio.h>
#include <sys/ioctl.h>

int main(int argc, char **argv)
{
	struct {
		struct rand_pool_info info;
		char bytes[64];
	} pool = { .info = { .entropy_count = 8 * sizeof(pool.bytes), .buf_size = sizeof(pool.bytes) } };
	int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);

	if (argc != 2 || fd < 0)
		return 2;
	for (size_t i = 0; i < sizeof(pool.bytes) && argv[1][i]; i++)
		((char *)pool.info.buf)[i] = argv[1][i];
	if (ioctl(fd, RNDADDENTROPY, &pool) != 0 || ioctl(fd, RNDRESEEDCRNG) != 0) {
		perror("reseed");
		return 1;
	}
	return 0;
}
