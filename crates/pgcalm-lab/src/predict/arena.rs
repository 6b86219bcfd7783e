//! One point: a new server, a look at it, and a measurement.

use std::fs::File;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use pgcalm_predict::report::Prediction;

use crate::cap::InForce;
use crate::contest::devices::{Devices, Scene};
use crate::contest::with_last_words;
use crate::load::overtime::Overtime;
use crate::load::{LOG_PREFIX, Load, Work};
use crate::predict::grid::GridPoint;
use crate::predict::measured::Counters;
use crate::predict::report::{Measured, Point};
use crate::predict::{Options, measured, shadow};
use crate::sampler::Sampler;
use crate::server::Server;
use crate::stage::Stage;
use crate::template::Template;
use crate::transaction_log::Transactions;
use crate::{contest, options, server_log, sysctl};

/// Between looks at a load.
const POLL: Duration = Duration::from_millis(100);

/// What the points of a run share.
pub(super) struct Arena<'a> {
    pub options: &'a Options,
    pub stage: &'a Stage<'a>,
    pub devices: &'a Devices<'a>,
}

impl Arena<'_> {
    pub(super) fn run(&self, point: &GridPoint) -> anyhow::Result<Point> {
        let conditions = self.options.of(point);
        let stage = self.stage;
        // Server and client files of this point only.
        let _run_dir = stage.run_dir(Some(point.name))?;
        let template = Template::obtain(stage, &conditions.preparation()?)?;
        let _sysctls = sysctl::apply(&stage.journal, conditions.sysctl())?;
        stage.progress.note(&format!("{}: restoring the table on new file systems", point.name));
        let settings = conditions.server_settings(shadow());
        let scene = self.devices.serve(&conditions, &template, &settings)?;
        stage.create_functions(&scene.server)?;
        let (prediction, measured) = self
            .predict_and_measure(point, &conditions, &scene)
            .map_err(|error| with_last_words(error, &scene.server.log()))?;
        scene.discard()?;
        let mut settings = options::named(point);
        if self.options.common.volume.is_some() {
            // It has limits of its own.
            settings.retain(|name, _| !name.starts_with("data-"));
        }
        settings.insert("rows".to_string(), conditions.rows.into());
        Ok(Point { name: point.name.to_string(), settings, prediction, measured })
    }

    fn predict_and_measure(
        &self,
        point: &GridPoint,
        conditions: &contest::Options,
        scene: &Scene,
    ) -> anyhow::Result<(Prediction, Measured)> {
        let options = self.options;
        let Scene { server, data, .. } = scene;
        let Stage { progress, interrupt, dir, .. } = self.stage;
        let mut caps = Some(self.devices.limit(conditions, shadow())?);
        progress.note(&format!("{}: observing {} s in shadow mode", point.name, options.observe.0));
        // Before the load: where stock stalls, a new connection may take longer than anybody waits for it.
        let mut client =
            pgcalm_predict::observe::connect(&format!("host='{}' user=postgres dbname=postgres", dir.run().display()))?;
        let mut load = self.load(conditions, server, options.lead.0 + options.observe.0 + 2)?;
        interrupt.sleep(Duration::from_secs(options.lead.0.into()))?;
        let observation = pgcalm_predict::observe::observe(
            self.stage.root(),
            &mut client,
            &pgcalm_predict::observe::Options { seconds: options.observe.0, ..Default::default() },
            &mut || Ok(interrupt.check()?),
        )?;
        let prediction = pgcalm_predict::predict(observation);
        self.wait_for(point, &mut load, &mut caps)?;
        drop(load);

        // What stock has left in the kernel would be in the way of the measurement for minutes.
        drop(caps.take());
        server.sql("alter system set pg_calm.mode = 'on'", interrupt)?;
        server.sql("select pg_reload_conf()", interrupt)?;
        let file_system = File::open(data.path())?;
        rustix::fs::syncfs(&file_system).with_context(|| format!("sync {}", data.path().display()))?;
        drop(file_system);

        let mut caps = Some(self.devices.limit(conditions, shadow())?);
        progress.note(&format!("{}: measuring {} s with pg_calm on", point.name, options.seconds.0));
        let (data_devices, wal_devices) = self.devices.names();
        let sampler = Sampler::start(self.stage.root().clone(), data_devices, wal_devices, Vec::new(), server.pid());
        let started = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let mut load = self.load(conditions, server, options.settle.0 + options.seconds.0 + 2)?;
        let first = started.as_secs() as i64 + 1 + i64::from(options.settle.0);
        let end = first + i64::from(options.seconds.0);
        self.wait_until(first)?;
        let before = Counters::read(&mut client)?;
        self.wait_until(end)?;
        let after = Counters::read(&mut client)?;
        drop(client);
        self.wait_for(point, &mut load, &mut caps)?;
        drop(caps);
        let (samples, _blocked) = sampler.finish();
        // Of both loads: the seconds tell them apart.
        let transactions = Transactions::read(&dir.run(), LOG_PREFIX)?;
        let (first, end) = measured::whole_checkpoints(&server_log::checkpoints(&server.log()), first, end);
        let mut measured = measured::measured(&samples, &transactions, first, end)?;
        after.tell(&before, &mut measured);
        Ok((prediction, measured))
    }

    /// Until that second of the epoch begins.
    fn wait_until(&self, second: i64) -> anyhow::Result<()> {
        let second = Duration::from_secs(second.unsigned_abs());
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
        Ok(self.stage.interrupt.sleep(second.saturating_sub(now))?)
    }

    fn load(&self, conditions: &contest::Options, server: &Server, seconds: u32) -> anyhow::Result<Load> {
        Load::start(
            self.stage,
            server,
            &self.stage.dir.run(),
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
    fn wait_for(&self, point: &GridPoint, load: &mut Load, caps: &mut Option<Vec<InForce>>) -> anyhow::Result<()> {
        let options = self.options;
        let longest = options.lead.0 + options.observe.0 + options.settle.0 + options.seconds.0;
        let overtime = Overtime::after(Instant::now() + Duration::from_secs(longest.into()));
        while !load.has_ended()? {
            overtime.check(point.name, caps, &self.stage.progress)?;
            self.stage.interrupt.sleep(POLL)?;
        }
        Ok(())
    }
}
