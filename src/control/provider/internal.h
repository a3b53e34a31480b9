/* SPDX-License-Identifier: BSD-2-Clause */
/* provider, inside: the calls of the real one that have files of their own. */
#ifndef CONTROL_PROVIDER_INTERNAL_H
#define CONTROL_PROVIDER_INTERNAL_H

#include "control/provider/provider.h"

/* What libblkid knows of the device: its calls' contracts are those of provider_calls. */
int provider_blkid_signature(struct provider *self, int fd, struct provider_signature *signature_ret);
int provider_system_addresses(struct provider *self, provider_address_fn visit, void *ctx);

#endif
