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
pub mod missing;
pub mod module;
pub mod replication;
pub mod share;

pub use activity::Activity;
pub use activity::Connections;
pub use activity::Counters;
pub use activity::Rates;
pub use activity::Wait;
pub use activity::WaitCause;
pub use archive::Archive;
pub use archive::ArchiveState;
pub use checkpoint::Checkpoint;
pub use checkpoint::CheckpointPhase;
pub use checkpoint::CheckpointSource;
pub use checkpoint::CompletedCheckpoint;
pub use device::Cap;
pub use device::Caps;
pub use device::Device;
pub use device::DeviceRates;
pub use device::Volume;
pub use guard::Guard;
pub use guard::GuardHold;
pub use guard::GuardInput;
pub use host::Host;
pub use host::Memory;
pub use instance::Identity;
pub use instance::Instance;
pub use instance::Reachability;
pub use instance::ServerRole;
pub use interface::Interface;
pub use interface::InterfaceRates;
pub use missing::Missing;
pub use missing::Subject;
pub use module::Module;
pub use module::ModuleRates;
pub use module::Unflushed;
pub use replication::Replication;
pub use replication::Slot;
pub use replication::Standby;
pub use replication::WalReceiver;
pub use share::ShareMember;
