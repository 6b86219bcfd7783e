//! Arguments of `pgcalm lab volume`.

use std::path::PathBuf;

use clap::Args;
use pgcalm_lab::{DEFAULT_VOLUME_DIR, Size};
use pgcalm_volume::Volume;

#[derive(Debug, Args)]
pub(crate) struct VolumeArgs {
    /// The volume: a profile, and what is changed of it, e.g. gp3:iops=6000,bandwidth=250MB.
    ///
    /// Keys: size (where limits depend on it), iops, bandwidth (shared by reads and writes), read_iops, write_iops,
    /// read_bandwidth, write_bandwidth, io_size (bytes that count as one operation), latency, depth, burst_iops, credits.
    #[arg(long, value_name = "PROFILE[:KEY=VALUE,...]")]
    pub profile: Volume,
    /// Size of the device; needed unless there is an image.
    #[arg(long, value_name = "SIZE")]
    pub size: Option<Size>,
    /// The file that holds the data: taken as it is if it exists, else made, and removed at the end [default: one in --dir].
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// The directory to mount the volume's file in; made if it is not there [default: one in --dir].
    #[arg(long, value_name = "DIR")]
    pub mount: Option<PathBuf>,
    /// Directory of the image and of what has to be taken down; one volume each.
    #[arg(long, value_name = "DIR", default_value = DEFAULT_VOLUME_DIR)]
    pub dir: PathBuf,
    /// Answer flushes at once instead of passing them on: a crash of this host may lose data.
    #[arg(long)]
    pub ignore_flushes: bool,
    /// Only mount --image on --mount and take orders on standard input, as the lab does: docs/guides/lab.md.
    #[arg(long, requires = "image", requires = "mount", conflicts_with_all = ["size", "dir"])]
    pub control: bool,
}
