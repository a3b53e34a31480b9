/* SPDX-License-Identifier: BSD-2-Clause */
/* provider, internal: calls of provider_system() that are in other files. Contracts: struct provider_calls. */
#ifndef CONTROL_PROVIDER_INTERNAL_H
#define CONTROL_PROVIDER_INTERNAL_H

#include "control/provider/provider.h"

/* signature.c, addresses.c */
int provider_blkid_signature(struct provider *self, int fd, struct provider_signature *signature_ret);
int provider_system_addresses(struct provider *self, provider_address_fn visit, void *ctx);

/* process.c */
int provider_system_start(struct provider *self, char *const argv[], char *const env[], const char *log_file,
			  pid_t *pid_ret);
int provider_system_open_process(struct provider *self, pid_t pid);
int provider_system_signal_process(struct provider *self, int pid_fd, int signal);

#endif
