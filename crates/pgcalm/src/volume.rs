use pgcalm_lab::interrupt::Interrupt;
use pgcalm_lab::volume;
use pgcalm_lab::volume::Options;
use pgcalm_volume::control;

use crate::args::volume::VolumeArgs;
use crate::output;

/// Serves a volume until it is told to end, or, with `--control`, until it is unmounted.
pub(crate) fn run(args: VolumeArgs) -> anyhow::Result<()> {
    if let (true, Some(image), Some(mount)) = (args.control, &args.image, &args.mount) {
        return control::run(&args.profile, image, mount, !args.ignore_flushes);
    }
    let interrupt = Interrupt::install()?;
    let options = Options {
        volume: args.profile,
        size: args.size,
        image: args.image,
        mount: args.mount,
        dir: args.dir,
        honour_flushes: !args.ignore_flushes,
    };
    volume::run(&options, &interrupt, |ready| output::print(&ready.to_string()))
}
