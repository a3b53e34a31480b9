/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server - fathom-server: runs the engines of a host, serves its part of the control plane and, on the management host,
 * the management service of the system.
 *
 *   configuration, places -> server_run(): trace, reactor -> sockets, database, engines -> READY -> LEAVING
 *
 * This folder is the frame: it opens the parts in order and closes them. core/ has what they share, and names them.
 *
 * Everything runs on the control reactor's light thread; blocking work (scans, copies, collections) has worker threads. The
 * engines survive the server: after it ends, or is killed, they keep serving, and the next server adopts them.
 */
#ifndef CONTROL_SERVER_SERVER_H
#define CONTROL_SERVER_SERVER_H

#include "control/server/core/options.h"
#include "rpc/grpc/tls.h"

#define SERVER_NAME_DEFAULT "fathom-server"

/* Run until a signal ends it; returns the exit status. Call once in a process, before it has threads. Logs. */
MUST_CHECK int server_run(const struct server_options *options);

/*
 * Load the certificates of a configuration if they are valid now; grpc_tls_destroy() them. Errors (explained):
 * certificate_..., key_exposed.
 */
MUST_CHECK int server_certificates_open(const struct server_transport *transport, struct grpc_tls **tls_ret,
					struct fathom_fault *why);

#endif
