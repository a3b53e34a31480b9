/* SPDX-License-Identifier: BSD-2-Clause */
/* collection - the method CollectLog: the logs and states of this host as one archive, for support. */
#ifndef CONTROL_SERVER_COLLECTION_COLLECTION_H
#define CONTROL_SERVER_COLLECTION_COLLECTION_H

#include "control/server/core/core.h"

/* It must not be under way. Accepts NULL. */
void collection_free(struct collection *collection);

#endif
