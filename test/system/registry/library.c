/* SPDX-License-Identifier: BSD-2-Clause */
/* A library that registers its probes when it is loaded and removes them when it is unloaded. */
#include <fathom/probe.h>

#ifdef LARGE /* an object larger than a message of the socket */
#include "large_object.h"
#else
#include "library_object.h"
#endif

FATHOM_PROBE_REGISTER(object);
