//! `pgcalm lab up`: a server on a stage, for whoever wants to connect to it, until it is interrupted.

use std::time::{Duration, Instant};

use anyhow::bail;
use pgcalm_host::block_device::DeviceStat;
use pgcalm_host::meminfo::MemInfo;

use crate::contest::devices::Devices;
use crate::contest::report::Cap;
use crate::contest::{Options, need, with_last_words};
use crate::interrupt::Interrupt;
use crate::server::Server;
use crate::stage::{Needs, Stage};
use crate::template::Template;
use crate::{server, sysctl};
use pgcalm_host::Failure;

/// How often the live line is renewed.
const INTERVAL: Duration = Duration::from_secs(1);

/// Where the server takes connections besides its socket: this host only.
const ADDRESS: &str = "127.0.0.1";

/// Starts the server of the one contestant in `options`, calls `ready` with how to connect to it, and returns when
/// `interrupt` comes, with everything taken down. TCP connections are taken at `port` of the loopback address if given.
pub fn run(
    options: &Options,
    port: Option<u16>,
    interrupt: &Interrupt,
    ready: impl FnOnce(&str) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let [contestant] = options.contestants[..] else {
        bail!(Failure::Usage("--contestants: lab up starts one server: name one, e.g. stock or pg_calm".to_string(),));
    };
    options.check()?;
    let needs = Needs { module: contestant.module, ..Needs::default() };
    let stage = Stage::open(&options.common, needs, interrupt)?;
    need::stack(&stage, options)?;
    need::space(&stage, options)?;

    let _run_dir = stage.run_dir(Some("up"))?;
    let template = Template::obtain(&stage, &options.preparation()?)?;
    let mut options = options.clone();
    options.load.settle(template.table_bytes()?);
    let options = &options;
    let devices = Devices::create(&stage, options)?;
    let _sysctls = sysctl::apply(&stage.journal, options.sysctl())?;
    let progress = &stage.progress;
    progress.note("restoring the table on new file systems");
    let mut settings = options.server_settings(contestant);
    if let Some(port) = port {
        settings.insert("listen_addresses".to_string(), ADDRESS.to_string());
        settings.insert("port".to_string(), port.to_string());
    }
    let mut scene = devices.serve(options, &template, &settings)?;
    if contestant.module {
        stage.create_functions(&scene.server)?;
    }
    let limits = devices.limit(options, contestant)?;
    ready(&how_to_connect(&scene.server, port.is_some(), contestant.name, &devices.cap(options)))?;
    progress.note("the server is up");
    let watched = watch(&stage, &devices, &mut scene.server);
    drop(limits);
    match watched {
        Err(error) if matches!(error.downcast_ref(), Some(Failure::Interrupted(_))) => {
            progress.note("taking everything down");
            scene.discard()
        }
        Err(error) => Err(with_last_words(error, &scene.server.log())),
        Ok(()) => {
            let log = scene.server.log();
            bail!("the server has ended: {}", server::complaint(&log))
        }
    }
}

fn how_to_connect(server: &Server, listens: bool, contestant: &str, cap: &Cap) -> String {
    let (socket, port) = server.address();
    let socket = socket.display();
    let memory = cap.memory.as_ref().map_or_else(String::new, |memory| format!("; {memory} of memory"));
    let mut text = format!(
        "A server ({contestant}) is up: {}{memory}. The limits are in force.\n\n\
         \x20 psql -h {socket} -p {port} -U postgres postgres\n\
         \x20 export PGHOST={socket} PGPORT={port} PGUSER=postgres PGDATABASE=postgres\n",
        cap.description
    );
    if listens {
        text.push_str(&format!("\x20 postgresql://postgres@{ADDRESS}:{port}/postgres\n"));
    }
    text.push_str("\nCtrl-C takes all of it down.\n");
    text
}

/// Shows a live line until the server ends, or is to end (an error).
fn watch(stage: &Stage<'_>, devices: &Devices<'_>, server: &mut Server) -> anyhow::Result<()> {
    let root = stage.root();
    let (data, wal) = devices.names();
    let read = || -> anyhow::Result<Vec<DeviceStat>> {
        data.iter().chain(&wal).map(|device| Ok(DeviceStat::read(root, device)?)).collect()
    };
    let mut before = read()?;
    let mut since = Instant::now();
    while !server.has_ended()? {
        stage.interrupt.sleep(INTERVAL)?;
        let now = read()?;
        let seconds = since.elapsed().as_secs_f64();
        since = Instant::now();
        let rate = |of: fn(&DeviceStat) -> u64| {
            let sum = |stats: &[DeviceStat]| stats.iter().map(of).sum::<u64>();
            sum(&now).saturating_sub(sum(&before)) as f64 / seconds
        };
        let mib = f64::from(1 << 20);
        let memory = MemInfo::read(root)?;
        stage.progress.status(&format!(
            "{:.0} reads/s {:.1} MiB/s, {:.0} writes/s {:.1} MiB/s, Dirty {} MiB, Writeback {} MiB",
            rate(|stat| stat.read_ops),
            rate(|stat| stat.read_bytes) / mib,
            rate(|stat| stat.write_ops),
            rate(|stat| stat.write_bytes) / mib,
            memory.dirty_kib >> 10,
            memory.writeback_kib >> 10
        ));
        before = now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contestant;

    #[test]
    fn more_than_one_server_is_refused_before_anything_is_made() {
        let options = Options {
            contestants: ["stock", "pg_calm"].map(|name| contestant::parse(name).unwrap()).to_vec(),
            ..Options::default()
        };
        let error = run(&options, None, &Interrupt::default(), |_| Ok(())).unwrap_err();
        assert!(matches!(error.downcast_ref::<Failure>(), Some(Failure::Usage(_))));
    }
}
