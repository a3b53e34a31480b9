/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * events - every event of a system: its id, name, type and severity. Ids below 1000 are those of DAOS; ids of Fathom
 * begin at 1001. A number is never reused. docs/events.md lists the events that Fathom raises (`scripts/check-docs
 * --write`).
 */
#ifndef RAS_EVENTS_H
#define RAS_EVENTS_H

/* X(identifier, id, name, type, severity, when it is raised; "": Fathom does not raise it) */
#define RAS_EVENTS(X)                                                                                                      \
	X(ENGINE_FORMAT_REQUIRED, 1, "engine_format_required", INFO, NOTICE,                                               \
	  "the storage of an engine must be formatted with `fathom storage format`")                                       \
	X(ENGINE_DIED, 2, "engine_died", STATE_CHANGE, ERROR,                                                              \
	  "the process of an engine ended without a stop; its rank becomes Errored")                                       \
	X(ENGINE_ASSERTED, 3, "engine_asserted", STATE_CHANGE, ERROR, "")                                                  \
	X(ENGINE_CLOCK_DRIFT, 4, "engine_clock_drift", INFO, ERROR, "")                                                    \
	X(ENGINE_SELF_TERMINATED, 5, "engine_self_terminated", INFO, NOTICE,                                               \
	  "an engine ends because its rank was excluded; another event reports its end")                                   \
	X(POOL_CORRUPTION_DETECTED, 6, "pool_corruption_detected", INFO, ERROR, "")                                        \
	X(POOL_REBUILD_STARTED, 7, "pool_rebuild_started", INFO, NOTICE, "")                                               \
	X(POOL_REBUILD_FINISHED, 8, "pool_rebuild_finished", INFO, NOTICE, "")                                             \
	X(POOL_REBUILD_FAILED, 9, "pool_rebuild_failed", INFO, ERROR, "")                                                  \
	X(POOL_REPLICAS_UPDATED, 10, "pool_replicas_updated", STATE_CHANGE, NOTICE, "")                                    \
	X(POOL_DURABLE_FORMAT_INCOMPATIBLE, 11, "pool_durable_format_incompatible", INFO, ERROR, "")                       \
	X(POOL_DESTROY_DEFERRED, 12, "pool_destroy_deferred", INFO, WARNING, "")                                           \
	X(POOL_START_FAILED, 13, "pool_start_failed", INFO, ERROR, "")                                                     \
	X(CONTAINER_DURABLE_FORMAT_INCOMPATIBLE, 14, "container_durable_format_incompatible", INFO, ERROR, "")             \
	X(RDB_DURABLE_FORMAT_INCOMPATIBLE, 15, "rdb_durable_format_incompatible", INFO, ERROR, "")                         \
	X(SWIM_RANK_ALIVE, 16, "swim_rank_alive", STATE_CHANGE, NOTICE, "")                                                \
	X(SWIM_RANK_DEAD, 17, "swim_rank_dead", STATE_CHANGE, NOTICE, "")                                                  \
	X(SYSTEM_START_FAILED, 18, "system_start_failed", INFO, ERROR, "a system start failed for some of its ranks")      \
	X(SYSTEM_STOP_FAILED, 19, "system_stop_failed", INFO, ERROR, "a system stop failed for some of its ranks")         \
	X(DEVICE_SET_FAULTY, 20, "device_set_faulty", INFO, NOTICE, "")                                                    \
	X(DEVICE_MEDIA_ERROR, 21, "device_media_error", INFO, ERROR,                                                       \
	  "a device of an engine or of a host reported media errors")                                                      \
	X(DEVICE_UNPLUGGED, 22, "device_unplugged", INFO, NOTICE, "a device of an engine or of a host was removed")        \
	X(DEVICE_PLUGGED, 23, "device_plugged", INFO, NOTICE, "a device of an engine or of a host was added")              \
	X(DEVICE_REPLACE, 24, "device_replace", INFO, NOTICE, "")                                                          \
	X(SYSTEM_FABRIC_PROVIDER_CHANGED, 25, "system_fabric_provider_changed", INFO, NOTICE, "")                          \
	X(ENGINE_JOIN_FAILED, 26, "engine_join_failed", INFO, ERROR, "the join of an engine was rejected")                 \
	X(DEVICE_LINK_SPEED_CHANGED, 27, "device_link_speed_changed", INFO, NOTICE,                                        \
	  "the speed of an NVMe device's PCIe link has changed")                                                           \
	X(DEVICE_LINK_WIDTH_CHANGED, 28, "device_link_width_changed", INFO, NOTICE,                                        \
	  "the width of an NVMe device's PCIe link has changed")                                                           \
	X(OBJ_CSUM_ERROR, 29, "obj_csum_error", INFO, ERROR, "")                                                           \
	X(DEVICE_LED_SET, 30, "device_led_set", INFO, NOTICE, "the lamp of a device was switched; it names the operator")  \
	X(SERVER_SILENT, 1001, "server_silent", STATE_CHANGE, ERROR,                                                       \
	  "a server missed three reports; its ranks become Unresponsive")                                                  \
	X(SERVER_HEARD, 1002, "server_heard", STATE_CHANGE, NOTICE, "a silent server reports again")                       \
	X(ENGINE_HUNG, 1003, "engine_hung", INFO, ERROR, "an engine did not answer three pings in a row")                  \
	X(ENGINE_ANSWERS, 1004, "engine_answers", INFO, NOTICE, "a hung engine answers pings again")                       \
	X(ENGINE_KILLED, 1005, "engine_killed", INFO, WARNING, "an engine did not stop in time and was killed")            \
	X(STORAGE_MISSING, 1006, "storage_missing", INFO, ERROR, "the storage of an engine is missing")                    \
	X(ENGINE_NOT_STARTED, 1007, "engine_not_started", INFO, ERROR,                                                     \
	  "an engine cannot be started, for example because of its storage")                                               \
	X(SERVER_STARTED, 1010, "server_started", INFO, NOTICE,                                                            \
	  "a server has started: its release and the number of its engines")                                               \
	X(SERVER_ENDED, 1011, "server_ended", INFO, NOTICE,                                                                \
	  "a server ends after a signal or a stop; its engines keep running")                                              \
	X(STORAGE_FORMATTED, 1012, "storage_formatted", INFO, NOTICE,                                                      \
	  "the storage of an engine was formatted; it names the operator")                                                 \
	X(ENGINE_JOINED, 1013, "engine_joined", INFO, NOTICE,                                                              \
	  "engines have joined; one event for all that joined at the same time")                                           \
	X(SYSTEM_STARTED, 1014, "system_started", INFO, NOTICE, "ranks were started; it names the operator")               \
	X(SYSTEM_STOPPED, 1015, "system_stopped", INFO, NOTICE, "ranks were stopped; it names the operator")               \
	X(RANK_EXCLUDED, 1016, "rank_excluded", INFO, NOTICE, "ranks were excluded; it names the operator")                \
	X(RANK_EXCLUDE_CLEARED, 1017, "rank_exclude_cleared", INFO, NOTICE,                                                \
	  "the exclusion of ranks was cleared; it names the operator")                                                     \
	X(SYSTEM_ERASED, 1018, "system_erased", INFO, WARNING, "ranks were erased; it names the operator")                 \
	X(ATTRIBUTES_CHANGED, 1019, "attributes_changed", INFO, NOTICE,                                                    \
	  "attributes of the system were set or deleted; it names the operator")                                           \
	X(PROPERTIES_CHANGED, 1020, "properties_changed", INFO, NOTICE,                                                    \
	  "properties of the system were set; it names the operator")                                                      \
	X(ENGINE_RESTARTED, 1021, "engine_restarted", INFO, NOTICE,                                                        \
	  "a server started an engine again, according to its restart policy")                                             \
	X(ENGINE_STOPPED, 1022, "engine_stopped", INFO, NOTICE,                                                            \
	  "an engine was stopped on its host (`fathom-server stop-engines`); it names the operator")                       \
	X(RESTART_POLICY_CHANGED, 1023, "restart_policy_changed", INFO, NOTICE,                                            \
	  "the restart policy of a host was changed; it names the operator")                                               \
	X(CERTIFICATES_CHANGED, 1024, "certificates_changed", INFO, NOTICE,                                                \
	  "a server loaded other certificates after SIGHUP")                                                               \
	X(CERTIFICATE_EXPIRES, 1025, "certificate_expires", INFO, WARNING,                                                 \
	  "a certificate of a server expires in 30, 7 or 1 days")                                                          \
	X(CERTIFICATE_EXPIRED, 1026, "certificate_expired", INFO, ERROR, "a certificate of a running server has expired")  \
	X(VOLUME_ERRORED, 1030, "volume_errored", INFO, ERROR,                                                             \
	  "an engine cannot serve a volume, or a pool; it gives the reason")                                               \
	X(POOL_CREATED, 1040, "pool_created", INFO, NOTICE, "a pool was created; it names the operator")                   \
	X(POOL_DESTROYED, 1041, "pool_destroyed", INFO, NOTICE, "a pool was destroyed; it names the operator")             \
	X(VOLUME_CREATED, 1042, "volume_created", INFO, NOTICE, "a volume was created; it names the operator")             \
	X(VOLUME_DESTROYED, 1043, "volume_destroyed", INFO, NOTICE, "a volume was destroyed; it names the operator")       \
	X(VOLUME_CHANGED, 1044, "volume_changed", INFO, NOTICE, "a volume was renamed or resized; it names the operator")  \
	X(VOLUME_PUBLISHED, 1045, "volume_published", INFO, NOTICE, "a host may use a volume; it names the operator")      \
	X(VOLUME_UNPUBLISHED, 1046, "volume_unpublished", INFO, NOTICE,                                                    \
	  "a host may no longer use a volume; it names the operator")                                                      \
	X(STORAGE_CHANGE_FAILED, 1047, "storage_change_failed", INFO, ERROR,                                               \
	  "an engine refused a change of a pool or a volume, which was undone")                                            \
	X(POOL_SPACE_LOW, 1048, "pool_space_low", INFO, WARNING,                                                           \
	  "the use of a pool on an engine has passed 80, 90 or 95 %; it gives the forecast")                               \
	X(STORAGE_SPACE_LOW, 1049, "storage_space_low", INFO, WARNING,                                                     \
	  "the use of an engine's storage has passed 80, 90 or 95 %; it gives the forecast")                               \
	X(SPACE_RECOVERED, 1050, "space_recovered", INFO, NOTICE, "the use of a pool or a storage is below 80 % again")    \
	X(SPACE_EXCEEDED, 1051, "space_exceeded", INFO, ERROR,                                                             \
	  "writes to volumes of pools with overcommit ended with Capacity Exceeded, although the storage is not full")     \
	X(VOLUME_MISMATCH, 1052, "volume_mismatch", INFO, ERROR,                                                           \
	  "blocks of a volume do not fit their checksums, or were not read as written (--paranoid); it names their LBAs")  \
	X(VOLUME_MOVED, 1054, "volume_moved", INFO, NOTICE, "a volume was moved to another rank; it names the operator")   \
	X(VOLUME_MOVE_UNDONE, 1055, "volume_move_undone", INFO, ERROR,                                                     \
	  "a volume could not be moved to another rank, and stays; it gives the reason")                                   \
	X(STORAGE_FAILED, 1057, "storage_failed", INFO, ERROR,                                                             \
	  "an engine's storage could not sync a change, and rejects changes until the engine is started again")            \
	X(ENGINE_STATE_HELD, 1060, "engine_state_held", INFO, ERROR,                                                       \
	  "an engine cannot use the file that keeps its configuration, or a part of it")                                   \
	X(VOLUME_READ_ONLY, 1061, "volume_read_only", INFO, ERROR,                                                         \
	  "a sync of a volume's file failed, so the volume takes no writes until its engine starts again")                 \
	X(POOL_ACCESS_CHANGED, 1063, "pool_access_changed", INFO, NOTICE,                                                  \
	  "the access control list or the owner of a pool was changed; it names the operator")                             \
	X(POOL_CHANGED, 1064, "pool_changed", INFO, NOTICE, "properties of a pool were set; it names the operator")        \
	X(POOL_EVICTED, 1065, "pool_evicted", INFO, NOTICE,                                                                \
	  "hosts were evicted from the volumes of a pool; it names the operator")                                          \
	X(POOL_EXTENDED, 1067, "pool_extended", INFO, NOTICE, "ranks were added to a pool; it names the operator")         \
	X(POOL_RANK_CHANGED, 1068, "pool_rank_changed", INFO, NOTICE,                                                      \
	  "a rank of a pool is excluded, drained or used for new volumes again; it names the operator")                    \
	X(POOL_RANK_DRAINED, 1069, "pool_rank_drained", INFO, NOTICE,                                                      \
	  "a rank of a pool that was being drained has no volumes of the pool any more")                                   \
	X(RANK_DATA_LOST, 1070, "rank_data_lost", INFO, ERROR,                                                             \
	  "a rank with shares of pools was replaced; it counts the volumes that are lost")                                 \
	X(DEVICE_UNRESPONSIVE, 1072, "device_unresponsive", INFO, ERROR,                                                   \
	  "the disk of a device, or of a volume, did not respond when its engine stopped, so the engine ended without it") \
	X(DEVICE_WARNING, 1080, "device_warning", INFO, WARNING,                                                           \
	  "a device is hot, worn or unreliable, has few spare blocks, or takes no writes; it gives the figures")           \
	X(DEVICE_RECOVERED, 1081, "device_recovered", INFO, NOTICE, "a warning of a device has ended")                     \
	X(DEVICE_HEALTH_UNREAD, 1082, "device_health_unread", INFO, WARNING,                                               \
	  "a device does not answer requests for its health; it gives the reason")                                         \
	X(FIRMWARE_UPDATED, 1083, "firmware_updated", INFO, NOTICE,                                                        \
	  "firmware was stored on a device; it names the operator")

#endif
