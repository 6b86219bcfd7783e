//! Names of wait events by the numbers that a server's memory has.

/// Waits for another process with the first and last major version that have them, in the order of their numbers: enum WaitEventIPC,
/// src/include/utils/wait_event.h (wait_event_types.h from 17 on). Spelled as in PostgreSQL 17.
const IPC: &[(&str, u32, u32)] = &[
    ("AppendReady", 15, 18),
    ("ArchiveCleanupCommand", 15, 18),
    ("ArchiveCommand", 15, 18),
    ("BackendTermination", 15, 18),
    ("BackupWaitWalArchive", 15, 18),
    ("BgworkerShutdown", 15, 18),
    ("BgworkerStartup", 15, 18),
    ("BtreePage", 15, 18),
    ("BufferIo", 15, 18),
    ("CheckpointDelayComplete", 17, 18),
    ("CheckpointDelayStart", 17, 18),
    ("CheckpointDone", 15, 18),
    ("CheckpointStart", 15, 18),
    ("ExecuteGather", 15, 18),
    ("HashBatchAllocate", 15, 18),
    ("HashBatchElect", 15, 18),
    ("HashBatchLoad", 15, 18),
    ("HashBuildAllocate", 15, 18),
    ("HashBuildElect", 15, 18),
    ("HashBuildHashInner", 15, 18),
    ("HashBuildHashOuter", 15, 18),
    ("HashGrowBatchesAllocate", 15, 15),
    ("HashGrowBatchesDecide", 15, 18),
    ("HashGrowBatchesElect", 15, 18),
    ("HashGrowBatchesFinish", 15, 18),
    ("HashGrowBatchesReallocate", 16, 18),
    ("HashGrowBatchesRepartition", 15, 18),
    ("HashGrowBucketsAllocate", 15, 15),
    ("HashGrowBucketsElect", 15, 18),
    ("HashGrowBucketsReallocate", 16, 18),
    ("HashGrowBucketsReinsert", 15, 18),
    ("LogicalApplySendData", 16, 18),
    ("LogicalParallelApplyStateChange", 16, 18),
    ("LogicalSyncData", 15, 18),
    ("LogicalSyncStateChange", 15, 18),
    ("MessageQueueInternal", 15, 18),
    ("MessageQueuePutMessage", 15, 18),
    ("MessageQueueReceive", 15, 18),
    ("MessageQueueSend", 15, 18),
    ("MultixactCreation", 17, 18),
    ("ParallelBitmapScan", 15, 18),
    ("ParallelCreateIndexScan", 15, 18),
    ("ParallelFinish", 15, 18),
    ("ProcarrayGroupUpdate", 15, 18),
    ("ProcSignalBarrier", 15, 18),
    ("Promote", 15, 18),
    ("RecoveryConflictSnapshot", 15, 18),
    ("RecoveryConflictTablespace", 15, 18),
    ("RecoveryEndCommand", 15, 18),
    ("RecoveryPause", 15, 18),
    ("ReplicationOriginDrop", 15, 18),
    ("ReplicationSlotDrop", 15, 18),
    ("RestoreCommand", 15, 18),
    ("SafeSnapshot", 15, 18),
    ("SyncRep", 15, 18),
    ("WalReceiverExit", 15, 18),
    ("WalReceiverWaitStart", 15, 18),
    ("WalSummaryReady", 17, 18),
    ("XactGroupUpdate", 15, 18),
    ("WalReceiverUpstreamCatchup", 15, 18),
];

/// The name of a wait for another process in a server of that major version, or its number.
pub fn ipc(number: u32, major: u32) -> String {
    let mut names = IPC.iter().filter(|(_, first, last)| (*first..=*last).contains(&major));
    match names.nth(number as usize) {
        Some((name, ..)) => name.to_string(),
        None => format!("IPC event {number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the headers of these versions.
    #[test]
    fn a_number_is_another_wait_in_another_version() {
        let of = |major, numbers: [u32; 3]| numbers.map(|number| ipc(number, major));
        assert_eq!(of(15, [8, 9, 47]), ["BufferIo", "CheckpointDone", "SyncRep"]);
        assert_eq!(of(17, [9, 11, 52]), ["CheckpointDelayComplete", "CheckpointDone", "SyncRep"]);
        assert_eq!(of(18, [0, 11, 57]), ["AppendReady", "CheckpointDone", "WalReceiverUpstreamCatchup"]);
        assert_eq!(of(18, [58, 59, 60]), ["IPC event 58", "IPC event 59", "IPC event 60"]);
        // Not known of these.
        assert_eq!([ipc(9, 14), ipc(9, 19)], ["IPC event 9", "IPC event 9"]);
    }
}
