//! The state of a host and its instances at one moment.
//!
//! Figures that only grow (`…_total` in OpenMetrics) stand as they were read, since the server or the host started;
//! what they come to per second stands in the `rates` beside them, which are absent in the first sample and after a
//! restart. Units are in the names: `_seconds`, `_bytes`, `_pages` (blocks of the server, 8 KiB unless it was built
//! otherwise), `_per_second`.

pub mod activity;
pub mod archive;
pub mod checkpoint;
pub mod device;
pub mod guard;
pub mod host;
pub mod instance;
pub mod interface;
pub mod load;
pub mod maintenance;
pub mod missing;
pub mod module;
pub mod replication;
pub mod share;
pub mod stop;

pub use activity::{Activity, Blocked, Connections, Counters, Rates, Wait, WaitCause};
pub use archive::{Archive, ArchiveState};
pub use checkpoint::{Checkpoint, CheckpointPhase, CheckpointSource, CompletedCheckpoint};
pub use device::{Cap, Caps, Device, DeviceRates, Volume};
pub use guard::{Guard, GuardHold, GuardInput};
pub use host::{Host, IncidentCount, Memory};
pub use instance::{Identity, Instance, Reachability, ServerRole};
pub use interface::{Interface, InterfaceRates};
pub use load::{Cpu, Group, Pressure};
pub use maintenance::Maintenance;
pub use missing::{Missing, Subject};
pub use module::{Module, ModuleRates, Unflushed};
pub use replication::{Replication, Slot, Standby, WalReceiver};
pub use share::ShareMember;
pub use stop::{Stop, StopBasis};
