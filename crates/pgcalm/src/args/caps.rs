//! What a disk takes or is to take, in the words of pg_calm's settings and of `lab volume`.

use std::time::Duration;

use clap::Args;
use pgcalm_doctor::collect;
use pgcalm_host::quantity::{Limit, PER_SECOND, Size, number};
use pgcalm_postgres::Wanted;

#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct WriteCaps {
    /// Write operations per second, or none for no limit.
    #[arg(long, value_name = "N|none")]
    pub write_iops: Option<Limit<u32>>,
    /// Bytes written per second, or none.
    #[arg(long, value_name = "SIZE|none")]
    pub write_bandwidth: Option<Limit<Size>>,
}

#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ReadCaps {
    /// Read operations per second, or none for no limit.
    #[arg(long, value_name = "N|none")]
    pub read_iops: Option<Limit<u32>>,
    /// Bytes read per second, or none.
    #[arg(long, value_name = "SIZE|none")]
    pub read_bandwidth: Option<Limit<Size>>,
}

/// Of the disk of the data, as its user knows them: a cloud volume's are nowhere on the host.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Caps of the disk of the data")]
pub(crate) struct DiskCaps {
    #[command(flatten)]
    pub shared: SharedCaps,
    #[command(flatten)]
    pub writes: WriteCaps,
}

/// Those that reads and writes share.
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Caps of the disk of the data")]
pub(crate) struct SharedCaps {
    /// Operations per second that reads and writes share, e.g. 3000 on gp3 [default: what is found].
    ///
    /// Found are the limits of control groups, and what pg_calm is set to. A cloud volume's are nowhere on the host.
    #[arg(long, value_name = "N", value_parser = |text: &str| number::<u32>(PER_SECOND, text))]
    pub iops: Option<u32>,
    /// Bytes per second that reads and writes share, e.g. 125MB on gp3 [default: what is found].
    #[arg(long, value_name = "SIZE", value_parser = Size::per_second)]
    pub bandwidth: Option<Size>,
}

impl DiskCaps {
    /// What is to be looked at of a server with these caps; for how long the host is watched.
    pub(crate) fn collect(self, wanted: Wanted<'_>, sample: Duration) -> collect::Options {
        let (write_iops, write_bandwidth) = self.of_writes();
        collect::Options {
            connect: wanted.connect.map(str::to_string),
            instance: wanted.instance.map(str::to_string),
            write_iops,
            write_bandwidth,
            iops: self.shared.iops.map(u64::from),
            bandwidth: self.shared.bandwidth.map(Size::bytes),
            sample,
        }
    }

    /// What writes may have at most, if anything was said: their own cap or the shared one, whichever is less.
    pub(crate) fn of_writes(self) -> (Option<Option<u64>>, Option<Option<u64>>) {
        let least = |own: Option<Option<u64>>, shared: Option<u64>| match shared {
            Some(shared) => Some(Some(own.flatten().map_or(shared, |own| own.min(shared)))),
            None => own,
        };
        let own_iops = self.writes.write_iops.map(|limit| limit.0.map(u64::from));
        let own_bytes = self.writes.write_bandwidth;
        (
            least(own_iops, self.shared.iops.map(u64::from)),
            least(own_bytes.map(|limit| limit.0.map(Size::bytes)), self.shared.bandwidth.map(Size::bytes)),
        )
    }
}
