use std::net::SocketAddr;
use std::time::Duration;

use pgcalm_monitor::MonitorError;
use pgcalm_monitor::export::ExportOptions;
use pgcalm_monitor::export::Exporter;
use pgcalm_trace::stop::Stop;

use crate::args::export::ExportArgs;
use crate::output;

/// As postgres_exporter's, which it stands in for.
const LISTEN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9187);

/// Exports until a signal ends it, which is no error.
pub fn run(args: ExportArgs) -> anyhow::Result<()> {
    let stop = Stop::install()?;
    if args.interval.0 == 0 {
        return Err(MonitorError::Usage("--interval 0: give at least 1".to_string()).into());
    }
    let listen = match (args.listen, &args.textfile) {
        (None, None) => Some(LISTEN),
        (listen, _) => listen,
    };
    let textfile = args.textfile.clone();
    let exporter = Exporter::start(ExportOptions {
        listen,
        textfile: args.textfile,
        connect: args.connect,
        interval: Duration::from_secs(u64::from(args.interval.0)),
    })?;
    if let Some(address) = exporter.address() {
        output::say(&format!("pgcalm export: http://{address}/metrics"));
    }
    if let Some(file) = textfile {
        output::say(&format!("pgcalm export: {}", file.display()));
    }
    exporter.run(|| stop.is_set())
}
