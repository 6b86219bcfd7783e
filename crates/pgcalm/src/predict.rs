use std::time::Duration;

use pgcalm_host::HostRoot;
use pgcalm_lab::Size;
use pgcalm_lab::interrupt::Interrupt;
use pgcalm_predict::PredictError;
use pgcalm_predict::observe;
use pgcalm_report::predict::text;

use crate::args::predict::PredictArgs;
use crate::output;

/// The shortest look that says anything, and the longest.
const SECONDS: (u32, u32) = (5, 86_400);

/// Looks at a server and says what pg_calm would gain there.
pub fn run(args: &PredictArgs) -> anyhow::Result<()> {
    if args.seconds.0 < SECONDS.0 || args.seconds.0 > SECONDS.1 {
        return Err(PredictError::Usage(format!(
            "--seconds {}: use a value from {} to {}",
            args.seconds, SECONDS.0, SECONDS.1
        ))
        .into());
    }
    let interrupt = Interrupt::install()?;
    let options = observe::Options {
        seconds: args.seconds.0,
        write_iops: args.device_iops.map(|limit| limit.0.map(f64::from)),
        write_bytes_per_s: args
            .device_bps
            .map(|limit| limit.0.map(|size| size.bytes() as f64)),
        reads: args.device_reads,
        operation_bytes: args.device_io_size.map(Size::bytes),
    };
    let mut client = observe::connect(&args.connect)?;
    let observation = observe::observe(&HostRoot::default(), &mut client, &options, &mut || {
        interrupt
            .sleep(Duration::ZERO)
            .map_err(|_| PredictError::Interrupted.into())
    })?;
    let prediction = pgcalm_predict::predict(observation);
    output::print(&if args.json {
        pgcalm_report::to_json_pretty(&prediction)?
    } else {
        text::render_prediction(&prediction)
    })
}
