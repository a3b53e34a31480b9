/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * helper_client_32 - registers the object at the start of /tmp/simple32.dof, as a 32-bit program, and keeps running.
 *
 * It uses no C library, so that it compiles where no 32-bit one is installed. It exits with 1 on failure. It prints the
 * generation, one digit.
 */
typedef unsigned int u32;
typedef unsigned long long u64;

enum { NR_EXIT = 1, NR_WRITE = 4, NR_OPEN = 5, NR_PAUSE = 29, NR_IOCTL = 54, NR_MMAP2 = 192 };
enum { READ_WRITE = 2, MAP_PRIVATE = 2, PROT_READ = 1, OBJECT_BYTES = 4096 };

struct helper {
	char module[64];
	u64 base, object;
};
_Static_assert(sizeof(struct helper) == 80, "as in 64-bit programs");

static long call(long number, long a, long b, long c, long d, long e, long f)
{
	struct {
		long number, f;
	} words = { number, f };
	long result;

	/* the sixth argument is in ebp, which the compiler may use */
	__asm__ volatile("push %%ebp\n\t"
			 "mov 4(%%eax), %%ebp\n\t"
			 "mov (%%eax), %%eax\n\t"
			 "int $0x80\n\t"
			 "pop %%ebp"
			 : "=a"(result)
			 : "a"(&words), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e)
			 : "memory");
	return result;
}

static void leave(long status)
{
	for (;;)
		call(NR_EXIT, status, 0, 0, 0, 0, 0);
}

void _start(void)
{
	static struct helper helper = { .module = "simple32" };
	static char digit[2] = "?\n";
	long file = call(NR_OPEN, (long)"/tmp/simple32.dof", 0, 0, 0, 0, 0);
	long device = call(NR_OPEN, (long)"/dev/dtrace/helper", READ_WRITE, 0, 0, 0, 0);
	long map = call(NR_MMAP2, 0, OBJECT_BYTES, PROT_READ, MAP_PRIVATE, file, 0);
	long generation;

	if (file < 0 || device < 0 || (u32)map > 0xfffff000u)
		leave(1);
	helper.object = (u32)map;
	generation = call(NR_IOCTL, device, 0x4050d803, (long)&helper, 0, 0, 0);
	if (generation < 0 || generation > 9)
		leave(1);
	digit[0] = (char)('0' + generation);
	call(NR_WRITE, 1, (long)digit, sizeof(digit), 0, 0, 0);
	call(NR_PAUSE, 0, 0, 0, 0, 0, 0);
	leave(0);
}
