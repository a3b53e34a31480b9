# SPDX-License-Identifier: BSD-2-Clause
"""
structures - the fields that these scripts read, and their types as memory.shape() spells them.

memory.field() reads only these. test/system/test_gdb.py compares the list with the program's debug information: if you rename or retype
a field, it names the printer to change.
"""

ENGINE = {      # the server has the threads, reactors and trace of these too
    "trace_istr": {
        "id": "uint32_t", "text": "char[1]",
    },
    "trace_object": {
        "id": "uint32_t", "owner": "uint16_t", "type": "uint16_t",
    },
    "trace_story": {
        "trace": "struct trace_object", "state": "uint8_t", "path": "uint16_t", "args": "uint32_t[6]",
        "ticks": "uint64_t[11]",
    },
    "trace_file": {
        "memory": "uint8_t *", "bytes": "size_t", "path": "char[256]", "clocks": "struct trace_clocks *",
        "frozen": "struct trace_frozen *", "owners": "struct trace_owner *",
    },
    "trace_frozen": {
        "tick": "uint64_t",
    },
    "trace_clocks": {
        "count": "uint64_t", "pairs": "struct trace_clock_pair[64]",
    },
    "trace_clock_pair": {
        "tick": "uint64_t", "monotonic_ns": "uint64_t",
    },
    "trace_schema": {
        "json": "char *",
    },
    "bdev": {
        "name": "char[256]", "product": "char *", "block_bytes": "uint32_t", "block_count": "uint64_t", "claimed": "bool",
        "removing": "bool", "read_only": "bool", "write_cache": "bool", "open_count": "uint32_t", "ops": "struct bdev_ops *",
        "link": "struct", "channels": "struct", "trace": "struct trace_object",
    },
    "bdev_ops": {
        "kind": "char *",
    },
    "bdev_io": {
        "story": "struct trace_story", "channel": "struct bdev_channel *", "type": "enum io_type", "status": "enum io_status",
        "block_index": "uint64_t", "block_count": "uint64_t",
        "parent": "struct trace_object *", "split_parent": "struct bdev_io *", "split_children": "uint8_t",
        "backend": "uint8_t[128]",
    },
    "bdev_child": {
        "io": "struct bdev_io",
    },
    "bdev_channel": {
        "backend_ctx": "void *", "bdev": "struct bdev *", "queue_depth": "uint64_t", "in_flight": "uint32_t", "queued": "uint64_t",
        "reset": "struct bdev_io *", "children": "struct bdev_child *", "thread": "struct fathom_thread *", "in_bdev": "struct",
    },
    "bdev_desc": {
        "bdev": "struct bdev *", "told": "bool",
    },
    "faulty_channel": {
        "pool": "struct base_io *", "pending": "struct held_list", "delayed": "struct held_list",
    },
    "faulty_io": {
        "io": "struct bdev_io *", "link": "struct",
    },
    "base_io": {
        "io": "struct bdev_io", "upper": "struct bdev_io *",
    },
    "file_io": {
        "op": "struct uring_op", "bytes_done": "uint64_t",
    },
    "uring_op": {
        "kind": "enum", "fd": "int", "offset_bytes": "uint64_t",
    },
    "volume": {
        "state": "enum volume_state", "record": "struct volume_record", "device": "char[256]", "link": "struct",
    },
    "volumes": {
        "pools": "struct pool_list",
    },
    "pool": {
        "record": "struct pool_record", "why": "struct fathom_fault", "volumes": "struct", "volume_count": "uint32_t", "link": "struct",
    },
    "pool_record": {
        "name": "char[64]",
    },
    "fathom_fault": {
        "error": "int", "code": "int", "text": "char[512]",
    },
    "volume_record": {
        "size_bytes": "uint64_t", "host_count": "uint32_t",
    },
    "volume_export": {
        "state": "enum volume_export_state", "nqn": "char[256]", "is_busy": "bool",
    },
    "nvmf_target": {
        "subsystems": "struct", "groups": "struct nvmf_poll_group * *", "group_count": "unsigned int",
    },
    "nvmf_poll_group": {
        "thread": "struct fathom_thread *", "name": "char[64]", "qpairs": "struct", "completed_io": "uint64_t",
        "current_qpairs": "uint32_t", "current_io_qpairs": "uint32_t",
    },
    "nvmf_subsystem": {
        "state": "enum nvmf_subsystem_state", "id": "uint32_t", "options": "struct nvmf_subsystem_options",
        "namespaces": "struct nvmf_ns * *", "ctrlr_count": "uint32_t", "ctrlrs": "struct", "link": "struct",
        "trace": "struct trace_object",
    },
    "nvmf_subsystem_options": {
        "nqn": "char[256]", "max_namespaces": "uint32_t",
    },
    "nvmf_ns": {
        "nsid": "uint32_t", "subsystem": "struct nvmf_subsystem *", "bdev": "struct bdev *",
    },
    "nvmf_group_subsystem": {
        "subsystem": "struct nvmf_subsystem *",
    },
    "nvmf_ctrlr": {
        "state": "enum nvmf_ctrlr_state", "subsystem": "struct nvmf_subsystem *", "cntlid": "uint16_t", "host_nqn": "char[256]",
        "io_count": "uint32_t", "link": "struct", "trace": "struct trace_object",
    },
    "nvmf_qpair": {
        "group": "struct nvmf_poll_group *", "trace": "struct trace_object", "peer_address": "char[64]", "peer_service": "char[8]",
        "state": "enum nvmf_qpair_state", "ctrlr": "struct nvmf_ctrlr *", "qid": "uint16_t", "req_count": "uint32_t",
        "command_count": "uint64_t", "subsystem": "struct nvmf_group_subsystem *", "group_link": "struct", "reqs": "struct",
    },
    "nvmf_req": {
        "story": "struct trace_story", "qpair": "struct nvmf_qpair *", "cmd": "struct nvme_command", "data_bytes": "uint32_t",
        "link": "struct", "channel": "struct bdev_channel *", "io": "struct bdev_io",
    },
    "nvme_command": {
        "opc": "uint8_t", "cid": "uint16_t", "nsid": "uint32_t",
    },
    "nvmf_address": {
        "trtype": "char[32]", "traddr": "char[257]", "trsvcid": "char[33]",
    },
    "registry": {
        "threads": "struct thread_list", "devices": "struct", "thread_count": "uint32_t",
    },
    "fathom_thread": {
        "id": "uint64_t", "interned_name": "struct trace_istr *", "state": "uint8_t", "in_registry": "struct",
        "pollers": "struct poller_list", "poller_count": "uint32_t", "channels": "struct", "channel_count": "uint32_t",
        "reactor": "struct reactor *", "trace": "struct trace_object",
    },
    "reactor": {
        "control": "bool", "index": "unsigned int", "cpu": "unsigned int", "tid": "atomic_int", "thread_count": "uint32_t",
        "sleeping": "atomic_bool", "running": "struct trace_istr *", "running_poller": "struct poller *", "busy_ticks": "counter",
        "idle_ticks": "counter", "turn_count": "uint64_t", "now": "counter",
    },
    "poller": {
        "name": "struct trace_istr *", "id": "uint64_t", "paused": "atomic_bool", "timed": "bool", "period_ticks": "uint64_t",
        "run_count": "counter", "busy_count": "counter", "busy_ticks": "counter", "thread": "struct fathom_thread *",
        "in_thread": "struct",
    },
    "device": {
        "address": "void *", "name": "struct trace_istr *", "channel_count": "uint32_t", "unregistered": "bool",
        "in_registry": "struct",
    },
    "channel": {
        "device": "struct device *", "thread": "struct fathom_thread *", "ref_count": "counter", "in_thread": "struct",
    },
}

SERVER = {
    "server_frame": {
        "server": "struct server", "grpc": "struct grpc_server *",
    },
    "server": {
        "of_call": "struct mgmt_of_call", "client": "struct grpc_client *", "instances": "struct instance *[64]",
        "instance_count": "uint32_t",
    },
    "mgmt_of_call": {
        "mgmt": "struct mgmt *",
    },
    "mgmt": {
        "system": "struct system *", "catalog": "struct catalog *",
    },
    "catalog": {
        "pools": "struct catalog_pool_list",
    },
    "catalog_pool": {
        "state": "enum mgmt_pool_state", "record": "struct catalog_pool_record", "volumes": "struct catalog_volume_list",
        "volume_count": "uint32_t", "task": "struct mgmt_task *", "link": "struct",
    },
    "catalog_pool_record": {
        "name": "char[64]",
    },
    "catalog_volume": {
        "state": "enum mgmt_volume_state", "record": "struct catalog_volume_record", "pool": "struct catalog_pool *",
        "task": "struct mgmt_task *", "link": "struct",
    },
    "catalog_volume_record": {
        "name": "char[64]", "size_bytes": "uint64_t", "host_count": "uint32_t", "place": "struct catalog_place",
        "change": "struct catalog_change",
    },
    "catalog_place": {
        "rank": "uint32_t",
    },
    "catalog_change": {
        "kind": "enum catalog_change_kind",
    },
    "system": {
        "members": "struct system_member * *", "count": "size_t",
    },
    "system_member": {
        "record": "struct member",
    },
    "member": {
        "rank": "uint32_t", "state": "enum member_state", "incarnation": "uint64_t", "address": "char[272]", "domain": "char[256]",
        "info": "char[256]",
    },
    "instance": {
        "state": "enum instance_state", "options": "struct instance_options", "superblock": "struct superblock", "has_superblock": "bool",
        "process": "struct instance_process", "why": "struct fathom_fault", "restarts": "uint32_t", "starts": "uint64_t",
    },
    "instance_options": {
        "index": "uint32_t",
    },
    "instance_process": {
        "pid": "pid_t", "adopted": "bool",
    },
    "superblock": {
        "rank": "uint32_t", "has_rank": "bool",
    },
    "fathom_fault": {
        "error": "int", "code": "int", "text": "char[512]",
    },
    "grpc_server": {
        "calls": "struct", "links": "struct",
    },
    "grpc_client": {
        "links": "struct",
    },
    "grpc_link": {
        "state": "enum grpc_connection_state", "peer": "char[64]", "link": "struct", "client_calls": "struct",
        "calls_open": "uint32_t", "server": "struct grpc_server *",
    },
    "grpc_call": {
        "state": "enum grpc_call_state", "path": "struct trace_istr *", "role": "enum grpc_role", "peer": "char[64]",
        "received_tick": "uint64_t", "in_server": "struct",
    },
    "grpc_client_call": {
        "address": "char[64]", "path_name": "struct trace_istr *", "begin_tick": "uint64_t", "timeout_ns": "uint64_t", "link": "struct",
    },
}

STRUCTURES = {**ENGINE, **SERVER}
