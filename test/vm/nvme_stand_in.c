/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nvme_stand_in - a library that stands between fathom-helper and the kernel, at ioctl(): QEMU's NVMe device has no
 * firmware commands, no media errors, and never hangs. All other commands go to the device.
 *
 *	echo /etc/fathom/stand_in.so > /etc/ld.so.preload	(before the server starts its helper)
 *	printf 'hang SERIAL\n' > /tmp/stand_in			(a line; see below)
 *
 *	hang SERIAL	an Identify of that controller does not return
 *	errors NUMBER	media errors in the SMART log
 *	spare PERCENT	available spare in the SMART log; its threshold is 10
 *
 * What the "device" got as firmware lies in /tmp/stand_in.flash: the image, with a trailer of struct flash. An image that
 * begins with "BAD!" is refused by the commit. Both files are mapped before the helper confines itself.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/ioctl.h>
#include <linux/nvme_ioctl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { IMAGE_BYTES = 1 << 20, ORDER_BYTES = 4096, SERIAL_BYTES = 20 };
enum { GET_LOG_PAGE = 0x02, IDENTIFY = 0x06, FIRMWARE_COMMIT = 0x10, FIRMWARE_DOWNLOAD = 0x11 };
enum { LOG_SMART = 2, LOG_FIRMWARE = 3, INVALID_IMAGE = 0x107, NEEDS_SUBSYSTEM_RESET = 0x110 };

struct flash {
	char image[IMAGE_BYTES];
	uint32_t received, slot, commits;
};

static struct flash *flash;
static const char *order;

static void *map(const char *path, size_t bytes)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *at = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, (off_t)bytes) == 0)
		at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return at == MAP_FAILED ? NULL : at;
}

__attribute__((constructor)) static void begin(void)
{
	char name[256];
	ssize_t length = readlink("/proc/self/exe", name, sizeof(name) - 1);

	if (length <= 0)
		return;
	name[length] = '\0';
	if (!strstr(name, "fathom-helper"))
		return;
	order = map("/tmp/stand_in", ORDER_BYTES);
	flash = map("/tmp/stand_in.flash", sizeof(*flash));
}

/* The number in the order of this kind; 0: none. */
static unsigned long ordered(const char *kind)
{
	size_t length = strlen(kind);

	return strncmp(order, kind, length) == 0 ? strtoul(order + length, NULL, 10) : 0;
}

static void change_identify(uint8_t *data)
{
	static uint32_t never;
	size_t length = strcspn(order, "\n");

	if (strncmp(order, "hang ", 5) == 0 && length > 5 && strncmp((char *)data + 4, order + 5, length - 5) == 0) {
		for (;;)
			syscall(SYS_futex, &never, FUTEX_WAIT, 0, NULL, NULL, 0);
	}
	data[256] |= 4;	    /* OACS: Firmware Commit and Firmware Image Download */
	data[260] = 3 << 1; /* FRMW: three slots */
	data[319] = 1;	    /* FWUG: pieces of 4 KiB */
}

static void change_log(const struct nvme_passthru_cmd *command, uint8_t *data)
{
	unsigned long number;

	if ((command->cdw10 & 0xff) == LOG_FIRMWARE && flash->slot) {
		data[0] = (uint8_t)(1 | flash->slot << 4); /* the first slot is active, that one after the next reset */
		memcpy(data + 8 + 8 * (flash->slot - 1), "NEW 2.0 ", 8);
	}
	if ((command->cdw10 & 0xff) != LOG_SMART)
		return;
	number = ordered("errors ");
	if (number)
		memcpy(data + 160, &number, sizeof(number));
	number = ordered("spare ");
	if (number) {
		data[3] = (uint8_t)number;
		data[4] = 10;
	}
}

static int take_piece(const struct nvme_passthru_cmd *command)
{
	if (command->cdw11 == 0)
		flash->received = 0;
	if (command->cdw11 * 4 != flash->received || command->data_len != (command->cdw10 + 1) * 4 ||
	    flash->received + command->data_len > IMAGE_BYTES)
		return INVALID_IMAGE;
	memcpy(flash->image + flash->received, (const void *)(uintptr_t)command->addr, command->data_len);
	flash->received += command->data_len;
	return 0;
}

static int commit(const struct nvme_passthru_cmd *command)
{
	if (memcmp(flash->image, "BAD!", 4) == 0)
		return INVALID_IMAGE;
	flash->slot = command->cdw10 & 7 ? command->cdw10 & 7 : 3;
	flash->commits++;
	return NEEDS_SUBSYSTEM_RESET;
}

int ioctl(int fd, unsigned long request, ...)
{
	struct nvme_passthru_cmd *command;
	va_list args;
	int status;

	va_start(args, request);
	command = va_arg(args, void *);
	va_end(args);
	if (!flash || !order || request != NVME_IOCTL_ADMIN_CMD)
		return (int)syscall(SYS_ioctl, fd, request, command);
	if (command->opcode == FIRMWARE_DOWNLOAD)
		return take_piece(command);
	if (command->opcode == FIRMWARE_COMMIT)
		return commit(command);
	status = (int)syscall(SYS_ioctl, fd, request, command);
	if (status == 0 && command->opcode == IDENTIFY)
		change_identify((uint8_t *)(uintptr_t)command->addr);
	if (status == 0 && command->opcode == GET_LOG_PAGE)
		change_log(command, (uint8_t *)(uintptr_t)command->addr);
	return status;
}
