use std::net::SocketAddr;

use pgcalm_monitor::export::{ExportOptions, Exporter};
use pgcalm_trace::stop::Stop;

use crate::args::export::ExportArgs;
use crate::output;

/// As postgres_exporter's, which it stands in for.
const LISTEN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9187);

/// Exports until a signal ends it, which is no error.
pub fn run(args: ExportArgs) -> anyhow::Result<()> {
    let stop = Stop::install()?;
    let listen = match (args.listen, &args.textfile) {
        (None, None) => Some(LISTEN),
        (listen, _) => listen,
    };
    let textfile = args.textfile.clone();
    let exporter = Exporter::start(ExportOptions {
        listen,
        textfile: args.textfile,
        connect: args.servers.connect,
        interval: args.interval,
    })?;
    if let Some(address) = exporter.address() {
        output::say(&format!("pgcalm export: http://{address}/metrics"));
    }
    if let Some(file) = textfile {
        output::say(&format!("pgcalm export: {}", file.display()));
    }
    exporter.run(|| stop.is_set(), |problem| output::say(&format!("pgcalm export: {problem}")))
}
