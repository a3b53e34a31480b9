/* SPDX-License-Identifier: BSD-2-Clause */
/* Volumes: the parts of their calls that the table of operations (src/control/operation) cannot declare. */
#include "control/client/internal.h"
#include "rpc/proto/fathom.pb-c.h"

/* The answer of calls that change a volume. Without a volume (it was destroyed) all texts are "". */
void take_volume(void *ctx, const ProtobufCMessage *message)
{
	const Fathom__VolumeResp *response = (const Fathom__VolumeResp *)message;
	const Fathom__Volume none = FATHOM__VOLUME__INIT;

	copy_volume(result_arena(ctx), response->volume ? response->volume : &none, ctx);
}
