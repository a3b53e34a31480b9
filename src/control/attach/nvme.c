/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's driver, by libnvme. Disconnecting writes to sysfs itself: libnvme scans the namespaces first, and a scan of
 * a controller whose engine is gone would wait for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libnvme.h>

#include "base/text.h"
#include "control/attach/attach.h"
#include "control/fault/fault.h"

#define FABRICS_DEVICE "/dev/nvme-fabrics"

static void set_config(struct nvme_fabrics_config *config, const struct attach_options *options)
{
	nvmf_default_config(config);
	config->ctrl_loss_tmo = -1;
	config->reconnect_delay = (int)options->reconnect_delay_s;
	config->keep_alive_tmo = (int)options->keep_alive_s;
	config->nr_io_queues = (int)options->io_queues;
	config->hdr_digest = options->header_digest;
	config->data_digest = options->data_digest;
}

static int add_controller(nvme_root_t root, const struct attach_record *record, const char *traddr, const char *trsvcid,
			  const struct attach_options *options)
{
	nvme_host_t at = nvme_lookup_host(root, options->host_nqn, options->host_id[0] ? options->host_id : NULL);
	struct nvme_fabrics_config config;
	nvme_ctrl_t controller;
	int error = 0;

	if (!at)
		return -ENOMEM;
	controller = nvme_create_ctrl(root, record->nqn, "tcp", traddr, NULL, NULL, trsvcid);
	if (!controller)
		return -ENOMEM;
	set_config(&config, options);
	errno = 0;
	if (nvmf_add_ctrl(at, controller, &config) != 0)
		error = errno ? -errno : -EIO;
	nvme_free_ctrl(controller);
	return error;
}

static const char *reason_of(int error)
{
	const char *text = nvme_errno_to_string(-error); /* also of libnvme's own numbers */

	return text ? text : "unknown error";
}

static int connect_controller(struct attach_host *host, const struct attach_record *record, const char *address,
			      const struct attach_options *options, struct fathom_fault *why)
{
	char traddr[ATTACH_ADDRESS_BYTES], *port;
	nvme_root_t root;
	int error;

	if (access(FABRICS_DEVICE, F_OK) != 0)
		return fault_driver_missing(why, FABRICS_DEVICE);
	(void)text_copy(traddr, sizeof(traddr), address); /* the same size */
	port = strrchr(traddr, ':');
	must(port && port > traddr);
	*port++ = '\0';
	if (traddr[0] == '[') {
		traddr[strlen(traddr) - 1] = '\0';
		memmove(traddr, traddr + 1, strlen(traddr));
	}
	root = nvme_create_root(NULL, -1);
	if (!root)
		return fault(why, -ENOMEM, "out of memory for a connection");
	error = add_controller(root, record, traddr, port, options);
	nvme_free_tree(root);
	if (error == -EALREADY || error == -ENVME_CONNECT_ALREADY)
		return 0;
	return error ? fault_connect_failed(why, record->name, address, reason_of(error)) : 0;
}

static int remove_controller(struct attach_host *host, const char *controller)
{
	char path[PROVIDER_PATH_BYTES_MAX];
	int fd, error = 0;

	if (snprintf(path, sizeof(path), "/sys/class/nvme/%s/delete_controller", controller) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno; /* it has just gone */
	if (write(fd, "1", 1) != 1)
		error = -errno;
	close(fd);
	return error;
}

static bool is_in_use(struct attach_host *host, const char *device)
{
	int fd = open(device, O_RDONLY | O_EXCL | O_CLOEXEC);
	bool is_busy = fd < 0 && errno == EBUSY;

	if (fd >= 0)
		close(fd);
	return is_busy;
}

struct attach_host *attach_host_system(void)
{
	static struct attach_host host = {
		.connect = connect_controller,
		.disconnect = remove_controller,
		.is_in_use = is_in_use,
	};

	host.os = provider_system();
	return &host;
}

int attach_read_host(const char *nqn_file, const char *id_file, struct attach_options *options, struct fathom_fault *why)
{
	struct provider *os = provider_system();
	int error = provider_read_text(os, nqn_file, options->host_nqn, sizeof(options->host_nqn));

	if (error < 0 || !options->host_nqn[0])
		return fault_host_nqn_missing(why, nqn_file, error < 0 ? strerror(-error) : "it is empty");
	if (provider_read_text(os, id_file, options->host_id, sizeof(options->host_id)) < 0)
		options->host_id[0] = '\0';
	return 0;
}
