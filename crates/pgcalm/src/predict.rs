use std::ops::RangeInclusive;
use std::time::Duration;

use pgcalm_host::{Failure, HostRoot};
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_predict::observe;
use pgcalm_predict::observe::Reads;
use pgcalm_predict::report::text;

use crate::args::predict::PredictArgs;
use crate::output;

/// The shortest look that says anything, and the longest.
const SECONDS: RangeInclusive<u64> = 5..=86_400;

/// Looks at a server and says what pg_calm would gain there.
pub(crate) fn run(args: &PredictArgs) -> anyhow::Result<()> {
    if !SECONDS.contains(&args.duration.as_secs()) {
        anyhow::bail!(Failure::Usage(format!(
            "--duration {}s: use a time from {} s to 1 d",
            args.duration.as_secs_f64(),
            SECONDS.start()
        )));
    }
    output::check_writable("--json", args.json.file())?;
    let interrupt = Interrupt::install()?;
    let (iops, bytes) = args.caps.of_writes();
    let shares = args.caps.shared.iops.is_some() || args.caps.shared.bandwidth.is_some();
    let options = observe::Options {
        seconds: args.duration.as_secs_f64().ceil() as u32,
        write_iops: iops.map(|limit| limit.map(|limit| limit as f64)),
        write_bytes_per_s: bytes.map(|limit| limit.map(|limit| limit as f64)),
        all_iops: args.caps.shared.iops.map(f64::from),
        all_bytes_per_s: args.caps.shared.bandwidth.map(|size| size.bytes() as f64),
        reads: args.reads.or_else(|| shares.then_some(Reads::Seen)),
    };
    let root = HostRoot::default();
    let mut client = observe::connect_to(&root, args.server.wanted())?;
    let observation = observe::observe(&root, &mut client, &options, &mut || {
        interrupt.sleep(Duration::ZERO).map_err(|_| Failure::Interrupted("nothing was changed").into())
    })?;
    let prediction = pgcalm_predict::predict(observation);
    output::present(&args.json, &prediction, &text::render(&prediction))
}
