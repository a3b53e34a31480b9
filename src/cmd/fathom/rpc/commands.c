/* SPDX-License-Identifier: BSD-2-Clause */
/* The commands of `fathom rpc`. Flags, keys and defaults are those of SPDK's rpc.py. */
#include <string.h>

#include "base/bits.h"
#include "cmd/fathom/rpc/client.h"

#define ARG(...)                                                                                                           \
	{                                                                                                                  \
		__VA_ARGS__                                                                                                \
	}
#define POSITION(KEY, TYPE, HELP) ARG(.key = KEY, .type = RPC_ARG_##TYPE, .required = true, .help = HELP)
#define POSITION_MAYBE(KEY, TYPE, HELP) ARG(.key = KEY, .type = RPC_ARG_##TYPE, .help = HELP)
#define POSITION_OF(KEY, CHOICES, HELP) ARG(.key = KEY, .required = true, .choices = CHOICES, .help = HELP)
#define OPTION(FLAG, LONG, KEY, TYPE, HELP)                                                                                \
	ARG(.flag = FLAG, .long_flag = LONG, .key = KEY, .type = RPC_ARG_##TYPE, .help = HELP)
#define OPTION_OF(FLAG, LONG, KEY, TYPE, CHOICES, HELP)                                                                    \
	ARG(.flag = FLAG, .long_flag = LONG, .key = KEY, .type = RPC_ARG_##TYPE, .choices = CHOICES, .help = HELP)
#define REQUIRED(FLAG, LONG, KEY, TYPE, HELP)                                                                              \
	ARG(.flag = FLAG, .long_flag = LONG, .key = KEY, .type = RPC_ARG_##TYPE, .required = true, .help = HELP)
#define WITH_BATCHES                                                                                                       \
	ARG(.long_flag = "--with-batches", .key = "with_batches", .type = RPC_ARG_YES_NO, .send_false = true,              \
	    .help = "keep lists of calls that may be made at once")
#define INTO(GROUP, ...) ARG(.group = GROUP, __VA_ARGS__)
#define END ARG(.key = NULL)

#define TARGET(FLAG) OPTION(FLAG, "--tgt-name", "tgt_name", STRING, "name of the target (there is one, nvmf_tgt)")
#define NQN POSITION("nqn", STRING, "NQN of the subsystem")
#define NAME(HELP) POSITION("name", STRING, HELP)

/* ---- conversion of arguments ---- */

static const char *size_to_blocks(json_t *params)
{
	const json_t *size = json_object_get(params, "total_size");
	json_int_t block_bytes = json_integer_value(json_object_get(params, "block_size"));
	double blocks;

	if (block_bytes <= 0)
		return "block_size is not above 0";
	if (json_is_integer(size)) {
		if (json_integer_value(size) > INT64_MAX >> 20 || json_integer_value(size) < 0)
			return "total_size is not a size in MiB";
		json_object_set_new(params, "num_blocks", json_integer((json_integer_value(size) << 20) / block_bytes));
	} else {
		blocks = json_real_value(size) * 1048576.0 / (double)block_bytes;
		if (!(blocks >= 0 && blocks < 9e15))
			return "total_size is not a size in MiB";
		json_object_set_new(params, "num_blocks", json_integer((json_int_t)blocks));
	}
	json_object_del(params, "total_size");
	return NULL;
}

static const char *null_create(json_t *params)
{
	if (json_integer_value(json_object_get(params, "dif_type")) &&
	    !json_integer_value(json_object_get(params, "md_size")))
		return "--md-size must be above 0 when --dif-type is";
	return size_to_blocks(params);
}

static const char *discovery_nqn(json_t *params)
{
	const char *nqn = json_string_value(json_object_get(params, "nqn"));

	if (nqn && strcmp(nqn, "discovery") == 0)
		json_object_set_new(params, "nqn", json_string("nqn.2014-08.org.nvmexpress.discovery"));
	return NULL;
}

/* Replace "all" in `names` by all of `known`; other names must be in `known`. */
static const char *masked(json_t *params, const char *key, const char *const *known, const char *complaint)
{
	json_t *names = json_object_get(params, key), *name, *all;
	size_t i, n;
	bool want_all = false;

	json_array_foreach (names, i, name) {
		bool found = strcmp(json_string_value(name), "all") == 0;

		want_all = want_all || found;
		for (n = 0; known[n]; n++)
			found = found || strcmp(json_string_value(name), known[n]) == 0;
		if (!found)
			return complaint;
	}
	if (!want_all)
		return NULL;
	all = json_array();
	for (n = 0; known[n]; n++)
		json_array_append_new(all, json_string(known[n]));
	json_object_set_new(params, key, all);
	return NULL;
}

static const char *create_transport(json_t *params)
{
	static const char *const oncs[] = { "nvmcmps", "nvmdsmsv", "nvmwzsv", "reservs", "nvmcpys", NULL };
	static const char *const fuses[] = { "fcws", NULL };
	const char *wrong = masked(params, "masked_oncs", oncs,
				   "--masked-oncs: one is none of all, nvmcmps, nvmdsmsv, nvmwzsv, reservs, nvmcpys");

	return wrong ? wrong : masked(params, "masked_fuses", fuses, "--masked-fuses: one is none of all, fcws");
}

/* ---- the program ---- */

static const struct rpc_arg rpc_get_methods[] = {
	OPTION("-c", "--current", "current", TRUE, "only those that can be called now"),
	OPTION("-i", "--include-aliases", "include_aliases", TRUE, "old names too"),
	END,
};
static const struct rpc_arg spdk_kill_instance[] = {
	POSITION_OF("sig_name", "SIGINT SIGTERM SIGQUIT SIGHUP SIGKILL SIGUSR1", "the signal"),
	END,
};
static const struct rpc_arg framework_get_config[] = {
	NAME("subsystem, see framework_get_subsystems"),
	WITH_BATCHES,
	END,
};
static const struct rpc_arg thread_set_cpumask[] = {
	REQUIRED("-i", "--id", "id", INT, "of the thread, as thread_get_stats shows it"),
	REQUIRED("-m", "--cpumask", "cpumask", STRING, "CPUs that it may run on: a mask (0x3) or a list ([0,2-3])"),
	END,
};

static const struct rpc_arg framework_set_scheduler[] = {
	NAME("static or dynamic"),
	OPTION("-p", "--period", "period", INT, "in us"),
	OPTION(NULL, "--load-limit", "load_limit", INT, "busy percentage above which a thread may be moved"),
	OPTION(NULL, "--core-limit", "core_limit", INT, "busy percentage at which a core is full"),
	OPTION(NULL, "--core-busy", "core_busy", INT, "busy percentage at which threads are moved away"),
	OPTION(NULL, "--mappings", "mappings", STRING, "thread:core,... for static"),
	END,
};
static const struct rpc_arg save_config[] = {
	OPTION("-i", "--indent", "indent", INT, "spaces a level, 2 at first; below 0: all in one line"),
	OPTION("-s", "--subsystems", "subsystems", STRING, "only these, comma-separated, and what they depend on"),
	WITH_BATCHES,
	END,
};
static const struct rpc_arg load_config[] = {
	OPTION("-i", "--include-aliases", "include_aliases", TRUE, "old method names are allowed"),
	OPTION("-j", "--json-conf", "json_conf", STRING, "file, or the JSON itself; default: standard input"),
	END,
};
static const struct rpc_arg save_subsystem_config[] = {
	OPTION("-i", "--indent", "indent", INT, "spaces a level, 2 at first; below 0: all in one line"),
	REQUIRED("-n", "--name", "name", STRING, "the subsystem"),
	WITH_BATCHES,
	END,
};
static const struct rpc_arg load_subsystem_config[] = {
	OPTION("-j", "--json-conf", "json_conf", STRING, "file, or the JSON itself; default: standard input"),
	END,
};

/* ---- log, threads, trace ---- */

#define LEVELS "ERROR WARNING NOTICE INFO DEBUG"

static const struct rpc_arg log_level[] = {
	POSITION_OF("level", LEVELS, "up to which lines are printed"),
	END,
};
static const struct rpc_arg trace_group[] = {
	NAME("trace group, or all"),
	END,
};
static const struct rpc_arg trace_mask[] = {
	NAME("trace group"),
	POSITION("tpoint_mask", HEX, "hexadecimal; bit n is its n-th point"),
	END,
};

static const struct rpc_arg trace_slow[] = {
	POSITION("object", STRING, "type of request: nvmf_req, bdev_io"),
	OPTION("-s", "--state", "state", STRING, "the state in which it stays too long; without it: its whole life"),
	OPTION("-u", "--us", "us", INT, "so many us are slow; without it: what about one in 10,000 reaches"),
	END,
};
static const struct rpc_arg trace_freeze[] = {
	OPTION(NULL, "--path", "path", STRING, "into this file, which is not there yet; without it beside the trace file"),
	OPTION(NULL, "--reason", "reason", STRING, "what the copy says of why it was made"),
	END,
};

static const struct rpc_arg trace_filter[] = {
	POSITION_MAYBE("owner", STRING,
		       "of whose I/O alone: part of a host's NQN, an address, a volume's name; without it: all"),
	END,
};

/* ---- block devices ---- */

static const struct rpc_arg bdev_name_only[] = {
	NAME("name of the block device"),
	END,
};
static const struct rpc_arg bdev_set_options[] = {
	OPTION("-p", "--bdev-io-pool-size", "bdev_io_pool_size", INT, "I/O structures in the pool"),
	OPTION("-c", "--bdev-io-cache-size", "bdev_io_cache_size", INT, "of these kept by each thread"),
	OPTION(NULL, "--auto-examine", "bdev_auto_examine", YES_NO, "look into new devices for others"),
	OPTION(NULL, "--iobuf-small-cache-size", "iobuf_small_cache_size", INT, "small buffers kept by each thread"),
	OPTION(NULL, "--iobuf-large-cache-size", "iobuf_large_cache_size", INT, "large buffers kept by each thread"),
	END,
};
static const struct rpc_arg bdev_examine[] = {
	REQUIRED("-b", "--name", "name", STRING, "name or alias of the block device"),
	END,
};
static const struct rpc_arg bdev_get_bdevs[] = {
	OPTION("-b", "--name", "name", STRING, "only this one"),
	OPTION("-t", "--timeout-ms", "timeout", INT, "wait so long for it to appear"),
	END,
};
#define RESET_MODES "all maxmin error none"
static const struct rpc_arg bdev_get_iostat[] = {
	OPTION("-c", "--per-channel", "per_channel", TRUE, "each thread's of one device"),
	OPTION_OF(NULL, "--reset-mode", "reset_mode", STRING, RESET_MODES, "what begins at 0 again afterwards"),
	OPTION(NULL, "--names", "names", LIST, "only these, comma-separated"),
	END,
};
static const struct rpc_arg bdev_reset_iostat[] = {
	OPTION("-b", "--name", "name", STRING, "only of this one"),
	OPTION_OF("-m", "--mode", "mode", STRING, RESET_MODES, "what begins at 0 again"),
	END,
};
static const struct rpc_arg bdev_malloc_create_args[] = {
	OPTION("-b", "--name", "name", STRING, "name of the block device"),
	OPTION("-u", "--uuid", "uuid", STRING, "its UUID"),
	POSITION("total_size", FLOAT, "in MiB"),
	POSITION("block_size", INT, "in bytes"),
	OPTION("-p", "--physical-block-size", "physical_block_size", INT, "in bytes"),
	OPTION("-o", "--optimal-io-boundary", "optimal_io_boundary", INT, "in blocks; I/O is split there"),
	OPTION("-m", "--md-size", "md_size", INT, NULL),
	OPTION("-i", "--md-interleave", "md_interleave", TRUE, NULL),
	OPTION_OF("-t", "--dif-type", "dif_type", INT, "0 1 2 3", NULL),
	OPTION("-d", "--dif-is-head-of-md", "dif_is_head_of_md", TRUE, NULL),
	OPTION_OF("-f", "--dif-pi-format", "dif_pi_format", INT, "0 1 2", NULL),
	OPTION("-n", "--numa-id", "numa_id", INT, "without effect here"),
	END,
};
static const struct rpc_arg bdev_null_create_args[] = {
	NAME("name of the block device"),
	OPTION("-u", "--uuid", "uuid", STRING, "its UUID"),
	POSITION("total_size", INT, "in MiB"),
	POSITION("block_size", INT, "in bytes"),
	OPTION("-p", "--physical-block-size", "physical_block_size", INT, "in bytes"),
	OPTION("-m", "--md-size", "md_size", INT, NULL),
	OPTION_OF("-t", "--dif-type", "dif_type", INT, "0 1 2 3", NULL),
	OPTION("-d", "--dif-is-head-of-md", "dif_is_head_of_md", TRUE, NULL),
	OPTION_OF("-f", "--dif-pi-format", "dif_pi_format", INT, "0 1 2", NULL),
	OPTION("-a", "--preferred-write-alignment", "preferred_write_alignment", INT, "without effect here"),
	OPTION("-g", "--preferred-write-granularity", "preferred_write_granularity", INT, "without effect here"),
	OPTION("-s", "--optimal-write-size", "optimal_write_size", INT, "without effect here"),
	OPTION("-c", "--preferred-unmap-alignment", "preferred_unmap_alignment", INT, "without effect here"),
	OPTION("-r", "--preferred-unmap-granularity", "preferred_unmap_granularity", INT, "without effect here"),
	END,
};
static const struct rpc_arg bdev_uring_create_args[] = {
	POSITION("filename", STRING, "file or block device of the kernel"),
	NAME("name of the block device"),
	POSITION_MAYBE("block_size", INT, "in bytes"),
	OPTION("-u", "--uuid", "uuid", STRING, "its UUID; else the device's own, or one kept with the file"),
	END,
};
static const struct rpc_arg bdev_aio_create_args[] = {
	POSITION("filename", STRING, "file or block device of the kernel"),
	NAME("name of the block device"),
	POSITION_MAYBE("block_size", INT, "in bytes"),
	OPTION("-r", "--readonly", "readonly", TRUE, "refuse writes"),
	OPTION(NULL, "--fallocate", "fallocate", TRUE, "unmap and write zeroes by fallocate"),
	OPTION("-u", "--uuid", "uuid", STRING, "its UUID; else the device's own, or one kept with the file"),
	OPTION(NULL, "--no-wait", "nowait", TRUE, "submit with RWF_NOWAIT"),
	END,
};
static const struct rpc_arg bdev_error_create_args[] = {
	POSITION("base_name", STRING, "the block device below"),
	OPTION(NULL, "--uuid", "uuid", STRING, "UUID of the new one"),
	END,
};
static const struct rpc_arg bdev_error_inject_args[] = {
	NAME("name of the error device"),
	POSITION_OF("io_type", "clear read write unmap flush all", "which I/O"),
	POSITION_OF("error_type", "failure nvme_failure pending corrupt_data nomem drop swap stale delay",
		    "what happens to it"),
	OPTION(NULL, "--nvme-sct", "nvme_sct", INT, "status code type of nvme_failure"),
	OPTION(NULL, "--nvme-sc", "nvme_sc", INT, "status code of nvme_failure"),
	OPTION("-n", "--num", "num", INT, "how many I/Os"),
	OPTION("-q", "--queue-depth", "queue_depth", INT, "only at this queue depth"),
	OPTION("-o", "--corrupt-offset", "corrupt_offset", INT, "the byte that is changed"),
	OPTION("-v", "--corrupt-value", "corrupt_value", INT, "by exclusive or with this, 1 to 255"),
	OPTION(NULL, "--delay-us", "delay_us", INT, "how long delay holds one, in microseconds"),
	OPTION(NULL, "--one-in", "one_in", INT, "only one of so many"),
	OPTION(NULL, "--skip", "skip", INT, "not the first so many"),
	END,
};

/* ---- nvmf ---- */

static const struct rpc_arg nvmf_create_transport[] = {
	REQUIRED("-t", "--trtype", "trtype", STRING, "TCP"),
	TARGET("-g"),
	OPTION("-q", "--max-queue-depth", "max_queue_depth", INT, "commands of an I/O queue, up to 1024 (128)"),
	OPTION("-m", "--max-io-qpairs-per-ctrlr", "max_io_qpairs_per_ctrlr", INT, "I/O queues of a controller"),
	OPTION("-c", "--in-capsule-data-size", "in_capsule_data_size", INT,
	       "bytes of data that come with a command, up to 65536 (4096)"),
	OPTION("-i", "--max-io-size", "max_io_size", INT, "bytes of one I/O, a power of two up to 8388608 (131072)"),
	OPTION("-u", "--io-unit-size", "io_unit_size", INT, "without effect here"),
	OPTION("-a", "--max-aq-depth", "max_aq_depth", INT, "commands of an admin queue, 32 to 256 (128)"),
	OPTION("-n", "--num-shared-buffers", "num_shared_buffers", INT, "without effect here"),
	OPTION("-b", "--buf-cache-size", "buf_cache_size", INT, "without effect here"),
	OPTION(NULL, "--iobuf-small-cache-size", "iobuf_small_cache_size", INT, "without effect here"),
	OPTION(NULL, "--iobuf-large-cache-size", "iobuf_large_cache_size", INT, "without effect here"),
	OPTION("-z", "--zcopy", "zcopy", TRUE, NULL),
	OPTION("-d", "--num-cqe", "num_cqe", INT, "RDMA only"),
	OPTION("-s", "--max-srq-depth", "max_srq_depth", INT, "RDMA only"),
	OPTION("-r", "--no-srq", "no_srq", TRUE, "RDMA only"),
	OPTION("-o", "--c2h-success", "c2h_success", FALSE, "always send a response capsule after data"),
	OPTION("-f", "--dif-insert-or-strip", "dif_insert_or_strip", TRUE, NULL),
	OPTION("-y", "--sock-priority", "sock_priority", INT, "without effect here"),
	OPTION("-l", "--acceptor-backlog", "acceptor_backlog", INT, "without effect here"),
	OPTION("-x", "--abort-timeout-sec", "abort_timeout_sec", INT, "without effect here"),
	OPTION("-w", "--no-wr-batching", "no_wr_batching", TRUE, "RDMA only"),
	OPTION("-e", "--control-msg-num", "control_msg_num", INT, "without effect here"),
	OPTION("-M", "--disable-mappable-bar0", "disable_mappable_bar0", TRUE, "vfio-user only"),
	OPTION("-I", "--disable-adaptive-irq", "disable_adaptive_irq", TRUE, "vfio-user only"),
	OPTION("-S", "--disable-shadow-doorbells", "disable_shadow_doorbells", TRUE, "vfio-user only"),
	OPTION(NULL, "--acceptor-poll-rate", "acceptor_poll_rate", INT, "without effect here"),
	OPTION(NULL, "--ack-timeout", "ack_timeout", INT, "without effect here"),
	OPTION(NULL, "--data-wr-pool-size", "data_wr_pool_size", INT, "RDMA only"),
	OPTION(NULL, "--disable-command-passthru", "disable_command_passthru", TRUE, "without effect here"),
	OPTION(NULL, "--kas", "kas", INT, "granularity of keep-alive timeouts, in 100 ms"),
	OPTION(NULL, "--min-kato", "min_kato", INT, "shortest keep-alive timeout, in ms"),
	OPTION(NULL, "--max-connections", "max_connections", INT, "connections in all; 0: as many as descriptors allow"),
	OPTION(NULL, "--max-connections-per-address", "max_connections_per_address", INT,
	       "connections from one source address; 0: half of all"),
	OPTION(NULL, "--masked-oncs", "masked_oncs", LIST, "without effect here"),
	OPTION(NULL, "--masked-fuses", "masked_fuses", LIST, "without effect here"),
	END,
};
static const struct rpc_arg nvmf_get_transports[] = {
	OPTION(NULL, "--trtype", "trtype", STRING, "only this one"),
	TARGET("-t"),
	END,
};
static const struct rpc_arg nvmf_get_subsystems[] = {
	POSITION_MAYBE("nqn", STRING, "only this one"),
	TARGET("-t"),
	END,
};
static const struct rpc_arg nvmf_target_only[] = {
	TARGET("-t"),
	END,
};
static const struct rpc_arg nvmf_nqn_only[] = {
	NQN,
	TARGET("-t"),
	END,
};
static const struct rpc_arg nvmf_create_subsystem[] = {
	NQN,
	TARGET("-t"),
	OPTION("-s", "--serial-number", "serial_number", STRING, "at most 20 characters"),
	OPTION("-d", "--model-number", "model_number", STRING, "at most 40 characters"),
	OPTION("-a", "--allow-any-host", "allow_any_host", TRUE, "do not ask for nvmf_subsystem_add_host"),
	OPTION("-m", "--max-namespaces", "max_namespaces", INT, "how many it can have"),
	OPTION("-r", "--ana-reporting", "ana_reporting", TRUE, NULL),
	OPTION("-i", "--min-cntlid", "min_cntlid", INT, "lowest controller ID"),
	OPTION("-I", "--max-cntlid", "max_cntlid", INT, "highest controller ID"),
	OPTION(NULL, "--max-host-controllers", "max_host_controllers", INT, "of one host; default 64"),
	OPTION(NULL, "--dmrsl", "dmrsl", INT, "blocks in a range of Dataset Management"),
	OPTION(NULL, "--wzsl", "wzsl", INT, "Write Zeroes size limit, a power of two of pages"),
	OPTION("-p", "--passthrough", "passthrough", TRUE, NULL),
	OPTION("-n", "--enable-nssr", "enable_nssr", TRUE, "NVM subsystem reset"),
	OPTION(NULL, "--admin-label", "admin_label", STRING, "without effect here"),
	END,
};

#define ADDRESS                                                                                                            \
	INTO("listen_address", .flag = "-t", .long_flag = "--trtype", .key = "trtype", .required = true, .help = "TCP"),   \
		INTO("listen_address", .flag = "-a", .long_flag = "--traddr", .key = "traddr", .required = true,           \
		     .help = "IP address"),                                                                                \
		TARGET("-p"),                                                                                              \
		INTO("listen_address", .flag = "-f", .long_flag = "--adrfam", .key = "adrfam", .help = "ipv4 or ipv6"),    \
		INTO("listen_address", .flag = "-s", .long_flag = "--trsvcid", .key = "trsvcid", .help = "port")

#define LISTENER_NQN POSITION("nqn", STRING, "NQN of the subsystem; \"discovery\" for the discovery subsystem's")
static const struct rpc_arg nvmf_add_listener[] = {
	LISTENER_NQN,
	ADDRESS,
	OPTION("-k", "--secure-channel", "secure_channel", TRUE, NULL),
	OPTION_OF("-n", "--ana-state", "ana_state", STRING, "optimized non_optimized inaccessible", NULL),
	OPTION("-S", "--sock-impl", "sock_impl", STRING, "without effect here"),
	OPTION(NULL, "--numa-id", "numa_id", INT, "without effect here"),
	END,
};
static const struct rpc_arg nvmf_remove_listener[] = {
	LISTENER_NQN,
	ADDRESS,
	END,
};
static const struct rpc_arg nvmf_add_ns[] = {
	NQN,
	INTO("namespace", .key = "bdev_name", .required = true, .help = "the block device"),
	TARGET("-t"),
	INTO("namespace", .flag = "-p", .long_flag = "--ptpl-file", .key = "ptpl_file"),
	INTO("namespace", .flag = "-n", .long_flag = "--nsid", .key = "nsid", .type = RPC_ARG_INT,
	     .help = "default: the lowest free"),
	INTO("namespace", .flag = "-g", .long_flag = "--nguid", .key = "nguid", .help = "32 hexadecimal digits"),
	INTO("namespace", .flag = "-e", .long_flag = "--eui64", .key = "eui64", .help = "16 hexadecimal digits"),
	INTO("namespace", .flag = "-u", .long_flag = "--uuid", .key = "uuid", .help = "default: the block device's"),
	INTO("namespace", .flag = "-a", .long_flag = "--anagrpid", .key = "anagrpid", .type = RPC_ARG_INT,
	     .help = "ANA group"),
	INTO("namespace", .flag = "-i", .long_flag = "--no-auto-visible", .key = "no_auto_visible", .type = RPC_ARG_TRUE),
	INTO("namespace", .flag = "-N", .long_flag = "--hide-metadata", .key = "hide_metadata", .type = RPC_ARG_TRUE,
	     .help = "without effect here"),
	END,
};
static const struct rpc_arg nvmf_remove_ns[] = {
	NQN,
	POSITION("nsid", INT, "which namespace"),
	TARGET("-t"),
	OPTION(NULL, "--drain-timeout-ms", "drain_timeout_ms", INT,
	       "wait so long for I/O that its device has, then end it with an error; default 10000"),
	END,
};
static const struct rpc_arg nvmf_add_host[] = {
	NQN,
	POSITION("host", STRING, "NQN of the host"),
	TARGET("-t"),
	OPTION(NULL, "--psk", "psk", STRING, NULL),
	OPTION(NULL, "--dhchap-key", "dhchap_key", STRING, NULL),
	OPTION(NULL, "--dhchap-ctrlr-key", "dhchap_ctrlr_key", STRING, NULL),
	END,
};
static const struct rpc_arg nvmf_remove_host[] = {
	NQN,	      POSITION("host", STRING, "NQN of the host"),
	TARGET("-t"), OPTION("-T", "--timeout-ms", "timeout_ms", INT, "wait so long for its I/O"),
	END,
};
static const struct rpc_arg nvmf_allow_any_host[] = {
	NQN,
	{ .long_flag = "--allow-any-host",
	  .key = "allow_any_host",
	  .type = RPC_ARG_YES_NO,
	  .required = true,
	  .help = "any host, or only those of nvmf_subsystem_add_host" },
	TARGET("-t"),
	END,
};
static const struct rpc_arg nvmf_set_crdt[] = {
	OPTION("-t1", "--crdt1", "crdt1", INT, "retry delay 1, in 100 ms"),
	OPTION("-t2", "--crdt2", "crdt2", INT, "retry delay 2"),
	OPTION("-t3", "--crdt3", "crdt3", INT, "retry delay 3"),
	END,
};

/* ---- all of them ---- */

#define SILENT .output = RPC_OUTPUT_NONE
#define JSON .output = RPC_OUTPUT_JSON
#define RAW .output = RPC_OUTPUT_RAW

/* In alphabetical order. */
static const struct rpc_command commands[] = {
	{ "bdev_aio_create", "make a block device of a file or device", bdev_aio_create_args, RAW },
	{ "bdev_aio_delete", "take it away", bdev_name_only, SILENT },
	{ "bdev_error_create", "make a block device that fails on request", bdev_error_create_args, RAW },
	{ "bdev_error_delete", "take it away", bdev_name_only, SILENT },
	{ "bdev_error_inject_error", "have it fail", bdev_error_inject_args, SILENT },
	{ "bdev_examine", "look into a block device for others", bdev_examine, SILENT },
	{ "bdev_get_bdevs", "show block devices", bdev_get_bdevs, JSON },
	{ "bdev_get_iostat", "show what has gone through them", bdev_get_iostat, JSON },
	{ "bdev_malloc_create", "make a block device of memory", bdev_malloc_create_args, RAW, .adjust = size_to_blocks },
	{ "bdev_malloc_delete", "take it away", bdev_name_only, SILENT },
	{ "bdev_null_create", "make a block device of nothing", bdev_null_create_args, RAW, .adjust = null_create },
	{ "bdev_null_delete", "take it away", bdev_name_only, SILENT },
	{ "bdev_reset_iostat", "begin counting at 0 again", bdev_reset_iostat, SILENT },
	{ "bdev_set_options", "options of all block devices", bdev_set_options, SILENT },
	{ "bdev_uring_create", "make a block device of a file or device, by io_uring", bdev_uring_create_args, RAW },
	{ "bdev_uring_delete", "take it away", bdev_name_only, SILENT },
	{ "bdev_wait_for_examine", "wait until all have been looked into", NULL, SILENT },
	{ "framework_get_config", "show the calls that make a subsystem as it is", framework_get_config, JSON },
	{ "framework_get_control", "show the engine under its server: state, rank, events", NULL, JSON },
	{ "framework_get_reactors", "show the reactors", NULL, JSON },
	{ "framework_get_scheduler", "show who moves threads", NULL, JSON },
	{ "framework_get_subsystems", "show the parts that have a configuration", NULL, JSON },
	{ "framework_set_scheduler", "choose who moves threads", framework_set_scheduler, SILENT },
	{ "framework_start_init", "go on, after --wait-for-rpc", NULL, SILENT },
	{ "framework_wait_init", "wait until the engine is ready", NULL, SILENT },
	{ "load_config", "make the calls of a configuration", load_config, SILENT, .run = rpc_load_config },
	{ "load_subsystem_config", "likewise, of one subsystem", load_subsystem_config, SILENT,
	  .run = rpc_load_subsystem_config },
	{ "log_get_level", "show which lines are logged", NULL, JSON },
	{ "log_get_print_level", "show which lines are printed", NULL, JSON },
	{ "log_set_level", "choose which lines are logged", log_level, SILENT },
	{ "log_set_print_level", "choose which lines are printed", log_level, SILENT },
	{ "nvmf_create_subsystem", "make a subsystem", nvmf_create_subsystem, SILENT },
	{ "nvmf_create_transport", "make a transport", nvmf_create_transport, SILENT, .adjust = create_transport },
	{ "nvmf_delete_subsystem", "take a subsystem away", nvmf_nqn_only, SILENT },
	{ "nvmf_get_stats", "show what the poll groups have done", nvmf_target_only, JSON },
	{ "nvmf_get_subsystems", "show subsystems", nvmf_get_subsystems, JSON },
	{ "nvmf_get_targets", "show targets", NULL, JSON },
	{ "nvmf_get_transports", "show transports", nvmf_get_transports, JSON },
	{ "nvmf_set_crdt", "set the delays after which hosts retry", nvmf_set_crdt, JSON },
	{ "nvmf_subsystem_add_host", "let a host connect", nvmf_add_host, SILENT },
	{ "nvmf_subsystem_add_listener", "serve a subsystem at an address", nvmf_add_listener, SILENT,
	  .adjust = discovery_nqn },
	{ "nvmf_subsystem_add_ns", "serve a block device as a namespace", nvmf_add_ns, SILENT },
	{ "nvmf_subsystem_allow_any_host", "let any host connect, or not", nvmf_allow_any_host, SILENT },
	{ "nvmf_subsystem_get_controllers", "show who is connected", nvmf_nqn_only, JSON },
	{ "nvmf_subsystem_get_listeners", "show where it is served", nvmf_nqn_only, JSON },
	{ "nvmf_subsystem_get_qpairs", "show queues of those who are connected", nvmf_nqn_only, JSON },
	{ "nvmf_subsystem_remove_host", "let a host connect no more", nvmf_remove_host, SILENT },
	{ "nvmf_subsystem_remove_listener", "serve a subsystem there no more", nvmf_remove_listener, SILENT,
	  .adjust = discovery_nqn },
	{ "nvmf_subsystem_remove_ns", "take a namespace away", nvmf_remove_ns, SILENT },
	{ "rpc_get_methods", "show what can be called", rpc_get_methods, JSON },
	{ "save_config", "print the calls that make the engine as it is", save_config, SILENT, .run = rpc_save_config },
	{ "save_subsystem_config", "likewise, of one subsystem", save_subsystem_config, SILENT,
	  .run = rpc_save_subsystem_config },
	{ "spdk_get_version", "show the engine's version", NULL, RAW },
	{ "spdk_kill_instance", "send the engine a signal", spdk_kill_instance, SILENT },
	{ "thread_get_io_channels", "show which devices threads use", NULL, JSON },
	{ "thread_get_pollers", "show what threads do again and again", NULL, JSON },
	{ "thread_get_stats", "show how busy threads are", NULL, JSON },
	{ "thread_set_cpumask", "move a thread to another CPU", thread_set_cpumask, SILENT },
	{ "trace_clear", "forget what has been traced", NULL, SILENT },
	{ "trace_clear_tpoint_mask", "trace these points no more", trace_mask, SILENT },
	{ "trace_disable_tpoint_group", "trace a group no more", trace_group, SILENT },
	{ "trace_enable_tpoint_group", "trace a group", trace_group, SILENT },
	{ "trace_freeze", "copy the trace file as it is now", trace_freeze, JSON },
	{ "trace_get_info", "show the trace file and its groups", NULL, JSON },
	{ "trace_get_tpoint_group_mask", "show which points are traced", NULL, JSON },
	{ "trace_set_filter", "trace the I/O of some owners alone", trace_filter, SILENT },
	{ "trace_set_slow", "say what is slow, and so is kept whole", trace_slow, SILENT },
	{ "trace_set_tpoint_mask", "trace these points", trace_mask, SILENT },
};

const struct rpc_command *rpc_command_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_COUNT(commands); i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

const struct rpc_command *rpc_command_at(size_t index)
{
	return index < ARRAY_COUNT(commands) ? &commands[index] : NULL;
}
