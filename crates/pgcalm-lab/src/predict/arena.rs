//! One point: a new server, a look at it, and a measurement.

use std::fs::File;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;
use std::time::UNIX_EPOCH;

use anyhow::Context;
use anyhow::bail;
use pgcalm_report::predict::Measured;
use pgcalm_report::predict::Point;
use pgcalm_report::predict::Prediction;

use crate::cap::Capper;
use crate::cap::Caps;
use crate::cap::InForce;
use crate::contest;
use crate::contest::with_last_words;
use crate::device::Device;
use crate::filesystem::FileSystem;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::lab_dir::LabDir;
use crate::load::LOG_PREFIX;
use crate::load::Load;
use crate::load::Work;
use crate::load::preparation::Preparation;
use crate::predict::Options;
use crate::predict::grid::GridPoint;
use crate::predict::measured;
use crate::predict::measured::Counters;
use crate::predict::shadow;
use crate::progress::Progress;
use crate::run_dir::RunDir;
use crate::sampler::Sampler;
use crate::server::Places;
use crate::server::Server;
use crate::server_log;
use crate::sysctl;
use crate::template::Template;
use crate::transaction_log::Transactions;
use crate::warm;

/// How long pgbench may take to notice that its time is up before the caps are lifted for it.
const OVERTIME: Duration = Duration::from_secs(2);

/// How long it may take after that.
const OVERTIME_UNCAPPED: Duration = Duration::from_secs(120);

/// Between looks at a load.
const POLL: Duration = Duration::from_millis(100);

/// What the points of a run share.
pub(super) struct Arena<'a> {
    pub options: &'a Options,
    pub lab: &'a LabDir,
    pub journal: &'a Journal,
    pub installation: &'a Installation,
    pub capper: &'a Capper,
    pub data: &'a Device,
    pub wal: &'a Device,
    pub progress: &'a Progress,
    pub interrupt: &'a Interrupt,
}

impl Arena<'_> {
    pub fn run(&self, point: &GridPoint) -> anyhow::Result<Point> {
        let conditions = self.options.of(point);
        // Server and client files of this point only.
        let run_dir = RunDir::create(self.lab, self.journal, self.installation)?;
        let template = Template::obtain(
            self.lab,
            self.journal,
            self.installation,
            &Preparation::Standard {
                rows: conditions.rows,
            },
            self.progress,
            self.interrupt,
        )?;
        let _sysctls = sysctl::apply(self.journal, conditions.sysctl())?;
        self.progress.note(&format!(
            "{}: restoring the table on new file systems",
            point.name
        ));
        let mut data = self.file_system("data", self.data)?;
        let mut wal = self.file_system("wal", self.wal)?;
        let cluster = data.path().join("cluster");
        template.copy_to(
            &cluster,
            Some(&wal.path().join("pg_wal")),
            self.installation,
            self.interrupt,
        )?;
        // Drops the page cache of the copy, whose folios are as large as its writes were.
        data.remount()?;
        wal.remount()?;
        warm::warm(&cluster, conditions.warm, self.progress, self.interrupt)?;

        let server = Server::start(
            self.journal,
            self.installation,
            Places {
                data: cluster,
                socket: self.lab.run(),
                log: self.lab.run().join("server.log"),
            },
            &conditions.server_settings(shadow()),
            self.interrupt,
        )?;
        self.capper.admit(server.pid())?;
        server.sql("create extension pg_calm", self.interrupt)?;
        let (prediction, measured) = self
            .predict_and_measure(point, &conditions, &server, &data)
            .map_err(|error| with_last_words(error, &server.log()))?;
        server.discard()?;
        data.discard_contents()?;
        wal.discard_contents()?;
        drop(data);
        drop(wal);
        drop(run_dir);
        let mut settings = point.named();
        if self.options.volume.is_some() {
            // It has limits of its own.
            settings.retain(|name, _| !name.starts_with("data-"));
        }
        settings.insert("rows".to_string(), conditions.rows.into());
        Ok(Point {
            name: point.name.to_string(),
            held_back: point.held_back,
            settings,
            prediction,
            measured,
        })
    }

    fn file_system(&self, role: &str, device: &Device) -> anyhow::Result<FileSystem> {
        FileSystem::create(
            self.journal,
            device,
            self.options.fs,
            &self.lab.mountpoint(role),
            self.interrupt,
        )
    }

    fn cap(&self, conditions: &contest::Options) -> anyhow::Result<Vec<InForce>> {
        let mut caps = self
            .capper
            .apply(self.data, conditions.data_caps(shadow()))?;
        caps.extend(self.capper.apply(
            self.wal,
            Caps::on_writes(conditions.wal_iops, conditions.wal_bps),
        )?);
        Ok(caps)
    }

    fn predict_and_measure(
        &self,
        point: &GridPoint,
        conditions: &contest::Options,
        server: &Server,
        data: &FileSystem,
    ) -> anyhow::Result<(Prediction, Measured)> {
        let options = self.options;
        let mut caps = Some(self.cap(conditions)?);
        self.progress.note(&format!(
            "{}: observing {} s in shadow mode",
            point.name, options.observe.0
        ));
        // Before the load: where stock stalls, a new connection may take longer than anybody waits for it.
        let mut client = pgcalm_predict::observe::connect(&format!(
            "host='{}' user=postgres dbname=postgres",
            self.lab.run().display()
        ))?;
        let mut load = self.load(conditions, server, options.lead.0 + options.observe.0 + 2)?;
        self.interrupt
            .sleep(Duration::from_secs(options.lead.0.into()))?;
        let observation = pgcalm_predict::observe::observe(
            self.journal.root(),
            &mut client,
            &pgcalm_predict::observe::Options {
                seconds: options.observe.0,
                ..Default::default()
            },
            &mut || Ok(self.interrupt.check()?),
        )?;
        let prediction = pgcalm_predict::predict(observation);
        self.wait_for(&mut load, &mut caps)?;
        drop(load);

        // What stock has left in the kernel would be in the way of the measurement for minutes.
        drop(caps.take());
        server.sql("alter system set pg_calm.mode = 'on'", self.interrupt)?;
        server.sql("select pg_reload_conf()", self.interrupt)?;
        let file_system = File::open(data.path())?;
        rustix::fs::syncfs(&file_system)
            .with_context(|| format!("sync {}", data.path().display()))?;
        drop(file_system);

        let mut caps = Some(self.cap(conditions)?);
        self.progress.note(&format!(
            "{}: measuring {} s with pg_calm on",
            point.name, options.seconds.0
        ));
        let sampler = Sampler::start(
            self.journal.root().clone(),
            vec![self.data.name.clone()],
            vec![self.wal.name.clone()],
            server.pid(),
        );
        let started = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let mut load = self.load(conditions, server, options.settle.0 + options.seconds.0 + 2)?;
        let first = started.as_secs() as i64 + 1 + i64::from(options.settle.0);
        let end = first + i64::from(options.seconds.0);
        self.wait_until(first)?;
        let before = Counters::read(&mut client)?;
        self.wait_until(end)?;
        let after = Counters::read(&mut client)?;
        drop(client);
        self.wait_for(&mut load, &mut caps)?;
        drop(caps);
        let (samples, _blocked) = sampler.finish();
        // Of both loads: the seconds tell them apart.
        let transactions = Transactions::read(&self.lab.run(), LOG_PREFIX)?;
        let (first, end) =
            measured::whole_checkpoints(&server_log::checkpoints(&server.log()), first, end);
        let mut measured = measured::measured(&samples, &transactions, first, end)?;
        after.tell(&before, &mut measured);
        Ok((prediction, measured))
    }

    /// Until that second of the epoch begins.
    fn wait_until(&self, second: i64) -> anyhow::Result<()> {
        let second = Duration::from_secs(second.unsigned_abs());
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Ok(self.interrupt.sleep(second.saturating_sub(now))?)
    }

    fn load(
        &self,
        conditions: &contest::Options,
        server: &Server,
        seconds: u32,
    ) -> anyhow::Result<Load> {
        Load::start(
            self.journal,
            self.installation,
            server,
            &self.lab.run(),
            Work {
                rows: conditions.rows,
                clients: conditions.clients,
                seconds,
                distribution: conditions.distribution(),
                rate: None,
            },
        )
    }

    /// Until the load has ended; a stall that holds its clients beyond their time ends with the caps.
    fn wait_for(&self, load: &mut Load, caps: &mut Option<Vec<InForce>>) -> anyhow::Result<()> {
        let longest = u64::from(
            self.options.lead.0
                + self.options.observe.0
                + self.options.settle.0
                + self.options.seconds.0,
        );
        let time_up = Instant::now() + Duration::from_secs(longest) + OVERTIME;
        while !load.has_ended()? {
            if Instant::now() > time_up {
                drop(caps.take());
            }
            if Instant::now() > time_up + OVERTIME_UNCAPPED {
                bail!(
                    "clients do not end {} s after the caps were lifted",
                    OVERTIME_UNCAPPED.as_secs()
                );
            }
            self.interrupt.sleep(POLL)?;
        }
        Ok(())
    }
}
