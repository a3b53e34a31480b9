/* SPDX-License-Identifier: BSD-2-Clause */
/* A library with probes of its own, which it registers while it is loaded. */
#include <fathom/probe.h>

#ifdef LARGE /* more than a message holds */
#include "large_object.h"
#else
#include "library_object.h"
#endif

FATHOM_PROBE_REGISTER(object);
