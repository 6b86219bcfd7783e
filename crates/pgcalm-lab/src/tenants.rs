//! Many instances under load on volumes of one capped device, or on two file systems, all checkpoints in lockstep.
//!
//! With file systems of its own each instance has two volumes, for data and WAL, with caps of its own, and all volumes lie on one device, which has a
//! cap that binds them together. A volume is a loop device on a part of the common loop device. All caps are in the root
//! group of cgroup v1, which is flat: limits of a child group would replace those of the root group for what its
//! processes submit, so that no cap could bind an instance and all of them together, and the kernel's flusher would
//! escape them. A limit of the root group on a device holds for whatever is sent to that device.
//!
//! With shared file systems it is just such child groups that cap the instances, as on hosts that pack them by cgroup v1.

mod client_barrier;
mod contestant;
mod disks;
mod instance_limits;
mod options;
mod pool;
pub mod report;
mod states;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use hdrhistogram::Histogram;

use crate::cap::{Capper, Caps, InForce};
use crate::contestant::Contestant;
use crate::interrupt::Interrupt;
use crate::load::overtime::Overtime;
use crate::load::preparation::Preparation;
use crate::load::{LOG_PREFIX, Load, Work};
use crate::measure::Recording;
use crate::options::{Distribution, named};
use crate::report::Latency;
use crate::sampler::Sampler;
use crate::scenarios::Help;
use crate::server::{Places, Server, read_log};
use crate::stage::{Needs, Stage};
use crate::template::Template;
use crate::tenants::report::Contestant as ContestantReport;
use crate::tenants::report::Instance as InstanceReport;
use crate::tenants::report::{Report, Stall};
use crate::transaction_log;
use crate::transaction_log::Transactions;
use crate::{measure, server_log, sysctl};
use pgcalm_host::Failure;

pub use options::{Options, Ownership};

/// What the command line says of it.
pub const HELP: Help = Help {
    name: "tenants",
    example: "Example: sudo pgcalm lab run tenants --instances 20",
    text: "\
        Many instances on one capped device, all checkpoints in lockstep: does any of them stand still?\n\n\
        Each instance has a volume for data and one for WAL, both with caps; all volumes are parts of one loop device, \
        with a cap that binds them together. Each contestant gets new copies of the same loaded cluster; a CHECKPOINT in \
        all instances right before the load starts their clocks together.",
};

use client_barrier::ClientBarrier;
use disks::{Disks, Mounted};
use instance_limits::InstanceLimits;
use pool::Volume;
use states::States;

/// What is done to many instances is done to so many at a time.
const WORKERS: usize = 4;

/// Runs the contestants and returns their report. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    options.check()?;
    let needs = Needs { module: options.contestants.iter().any(|c| c.module), ..Needs::default() };
    let stage = &Stage::open(&options.common, needs, interrupt)?;
    stage.dir.need_space(options.space(), "fewer --instances or --rows")?;
    let Some(capper) = Capper::of_root_group(&stage.journal)? else {
        return Err(Failure::Host(
            "needs the blkio controller of cgroup v1, in its root group, for caps on each volume and the device below"
                .to_string(),
        )
        .into());
    };
    let run_dir = stage.run_dir(None)?;
    let template = Template::obtain(stage, &Preparation::Standard { rows: options.rows })?;
    let _sysctls = sysctl::apply(&stage.journal, options.sysctl)?;
    let host = stage.host(match options.file_systems {
        Ownership::Own => capper.mechanism(),
        Ownership::Shared => "cgroup-v1",
    })?;
    let disks = Disks::create(options, stage, &template)?;
    drop(run_dir);
    let arena = Arena { options, stage, capper: &capper, disks: &disks };
    let mut report =
        Report { scenario: HELP.name.to_string(), host, settings: named(options), contestants: Vec::new() };
    for contestant in &options.contestants {
        let result = arena.run(contestant).with_context(|| contestant.name)?;
        stage.progress.note(&result.summary());
        report.contestants.push(result);
    }
    Ok(report)
}

/// What the runs share.
struct Arena<'a> {
    options: &'a Options,
    stage: &'a Stage<'a>,
    capper: &'a Capper,
    disks: &'a Disks<'a>,
}

/// One instance's places.
struct Tenant {
    number: u32,
    data: Volume,
    wal: Volume,
    /// Socket, server log, transaction logs.
    directory: PathBuf,
    limits: InstanceLimits,
}

impl Tenant {
    fn cluster(&self) -> PathBuf {
        self.data.path.join("cluster")
    }

    fn log(&self, options: &Options) -> PathBuf {
        match options.file_systems {
            Ownership::Own => self.directory.join("server.log"),
            Ownership::Shared => self.cluster().join("log").join(options::LOG_FILE),
        }
    }
}

impl Arena<'_> {
    fn run(&self, contestant: &Contestant) -> anyhow::Result<ContestantReport> {
        let label = contestant.name;
        let _run_dir = self.stage.run_dir(Some(&format!("tenants-{label}")))?;
        let mut mounted = self.disks.mount(self.options, self.stage)?;
        let tenants = self.tenants(label, &mut mounted)?;
        let mut settings = self.options.server_settings(contestant);
        let shared = self.stage.dir.run().join("share");
        self.stage.private_dir(&shared)?;
        contestant::add_directory(contestant, &shared, &mut settings);

        let servers = self.each(label, "starting servers", &tenants, |tenant| {
            let places = Places {
                data: tenant.cluster(),
                socket: tenant.directory.clone(),
                log: tenant.directory.join("server.log"),
            };
            let server = self.stage.start(places, &settings)?;
            tenant.limits.admit(server.pid())?;
            Ok(server)
        })?;
        if contestant.module {
            self.each(label, "creating the extension", &servers, |server| self.stage.create_functions(server))?;
        }
        let measured = self.measure(contestant, &tenants, &servers);
        self.stage.progress.status(&format!("{label}: stopping servers"));
        for server in servers {
            server.discard()?;
        }
        mounted.discard()?;
        let measured = measured?;
        self.report(contestant, &tenants, measured)
    }

    /// Copies, mounts and warms the volumes of all.
    fn tenants(&self, label: &str, mounted: &mut Mounted<'_>) -> anyhow::Result<Vec<Tenant>> {
        self.stage
            .progress
            .note(&format!("{label}: restoring {} instances on new file systems", self.options.instances));
        let numbers: Vec<u32> = (0..self.options.instances).collect();
        let tenants = self.each(label, "restoring", &numbers, |&index| {
            let number = index + 1;
            let [data, wal] = mounted.add(self.options, self.stage, index)?;
            let directory = self.stage.dir.run().join(number.to_string());
            self.stage.private_dir(&directory)?;
            Ok(Tenant {
                number,
                data,
                wal,
                directory,
                limits: InstanceLimits::create(&self.stage.journal, self.options, number)?,
            })
        })?;
        mounted.settle(self.options)?;
        self.each(label, "warming", &tenants, |tenant| {
            tenant.limits.warm(&tenant.cluster(), &self.stage.progress, self.stage.interrupt)
        })?;
        Ok(tenants)
    }

    /// Calls `f` for each item in a few threads; results are in the items' order.
    fn each<T: Sync, R: Send>(
        &self,
        label: &str,
        doing: &str,
        items: &[T],
        f: impl Fn(&T) -> anyhow::Result<R> + Sync,
    ) -> anyhow::Result<Vec<R>> {
        let next = AtomicUsize::new(0);
        let results = Mutex::new(Vec::new());
        let work = || -> anyhow::Result<()> {
            loop {
                self.stage.interrupt.check()?;
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else {
                    return Ok(());
                };
                self.stage.progress.status(&format!("{label}: {doing}: {} of {}", index + 1, items.len()));
                let result = f(item).inspect_err(|_| {
                    // The others need not begin what comes to nothing.
                    next.store(items.len(), Ordering::Relaxed);
                })?;
                results.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().unwrap_or_else(|_| bail!("a thread of the lab has panicked")))
        })?;
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(index, _)| *index);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }

    /// Puts the checkpoints into lockstep, then loads all servers under caps and records what happens.
    fn measure(&self, contestant: &Contestant, tenants: &[Tenant], servers: &[Server]) -> anyhow::Result<Measured> {
        let label = contestant.name;
        // The checkpointer's clock starts anew with any checkpoint.
        self.each(label, "checkpoint", servers, |server| server.sql("checkpoint", self.stage.interrupt))?;
        let seconds = self.options.seconds.0;
        self.stage.progress.note(&format!("{label}: measuring {seconds} s"));
        let mut caps = Some(self.caps(tenants)?);
        // Shared, it is that of all.
        let wal: BTreeSet<String> = tenants.iter().map(|t| t.wal.name.clone()).collect();
        let states = States::start(self.stage.root().clone());
        let sampler = Sampler::start(
            self.stage.root().clone(),
            vec![self.disks.data().name.clone()],
            wal.into_iter().collect(),
            Vec::new(),
            // Servers and clients are our children.
            std::process::id() as i32,
        );
        let barrier = ClientBarrier::close(servers)?;
        let mut loads = Vec::new();
        for (tenant, server) in tenants.iter().zip(servers) {
            self.stage.interrupt.check()?;
            loads.push(Load::start(
                self.stage,
                server,
                &tenant.directory,
                Work {
                    rows: self.options.rows,
                    clients: self.options.clients,
                    seconds,
                    distribution: Distribution::Uniform,
                    rate: self.options.rate.0,
                },
            )?);
        }
        barrier.open(self.stage)?;
        let started = Instant::now();
        let overtime = Overtime::after(started + Duration::from_secs(seconds.into()));
        let mut caps_lifted = false;
        let mut statuses = None;
        while !all_ended(&mut loads)? {
            caps_lifted |= overtime.check(label, &mut caps, &self.stage.progress)?;
            let tps: f64 = loads.iter().filter_map(Load::tps).sum();
            let mut text = format!("{label}: {:>3} of {seconds} s, {tps:.0} TPS", started.elapsed().as_secs());
            if let Some(sample) = sampler.latest() {
                text.push_str(&format!(
                    ", Dirty {} MiB, Writeback {} MiB",
                    sample.memory.dirty_kib >> 10,
                    sample.memory.writeback_kib >> 10
                ));
            }
            self.stage.progress.status(&text);
            self.stage.interrupt.sleep(Duration::from_millis(250))?;
        }
        drop(caps);
        let (samples, blocked) = sampler.finish();
        let states = states.finish();
        if contestant.module {
            statuses = Some(self.each(label, "reading the status", servers, |server| {
                server.row("pg_calm_status", self.stage.interrupt)
            })?);
        }
        self.stage.progress.status("reading the logs");
        let mut instances = Vec::new();
        let mut total: Option<Transactions> = None;
        for tenant in tenants {
            let transactions = Transactions::read(&tenant.directory, LOG_PREFIX)
                .with_context(|| format!("instance {}", tenant.number))?;
            instances.push(InstanceTransactions::of(&transactions));
            match &mut total {
                Some(total) => total.merge(transactions)?,
                None => total = Some(transactions),
            }
        }
        Ok(Measured {
            instances,
            total: total.context("no instance")?,
            samples,
            blocked,
            caps_lifted,
            states,
            statuses: statuses.unwrap_or_default(),
            checkpoints: tenants.iter().map(|t| server_log::checkpoints(&read_log(&t.log(self.options)))).collect(),
        })
    }

    fn caps(&self, tenants: &[Tenant]) -> anyhow::Result<Vec<InForce>> {
        // The instances' own caps are control groups' on a volume, too.
        let mut caps = self.disks.cap(self.capper, self.options)?;
        let own = |volume: &Volume, iops, bps| (volume.number.clone(), Caps::on_writes(iops, bps));
        for tenant in tenants {
            let capper = tenant.limits.capper().unwrap_or(self.capper);
            for (device, own) in [
                own(&tenant.data, self.options.data_iops, self.options.data_bps),
                own(&tenant.wal, self.options.wal_iops, crate::Limit(None)),
            ] {
                caps.extend(capper.apply_to(&device, own)?);
            }
        }
        Ok(caps)
    }

    fn report(
        &self,
        contestant: &Contestant,
        tenants: &[Tenant],
        measured: Measured,
    ) -> anyhow::Result<ContestantReport> {
        let earliest = measured.instances.iter().map(|instance| instance.started).fold(f64::INFINITY, f64::min);
        let merged = measured.total;
        // While all of them run.
        let spread = (merged.started - earliest).ceil() as u32;
        let seconds = self.options.seconds.0.saturating_sub(spread).max(1);
        let first = merged.started.ceil() as i64;
        let end = ((merged.started + f64::from(seconds)).floor() as i64).max(first + 1);
        let mut statuses = measured.statuses.into_iter();
        let of_all = |second: &i64| merged.by_second.get(second).map_or(0, Histogram::len);
        let mut worst: Vec<i64> = (first..end).collect();
        worst.sort_by_key(of_all);
        worst.truncate(worst.len().div_ceil(10));
        let stall = Stall {
            seconds: worst.len() as u32,
            tps_mean: worst.iter().map(of_all).sum::<u64>() as f64 / worst.len() as f64,
            roles: states::roles(&measured.states, &worst),
        };
        let instances: Vec<InstanceReport> = tenants
            .iter()
            .zip(measured.instances)
            .zip(&measured.checkpoints)
            .map(|((tenant, transactions), checkpoints)| {
                let tps: Vec<f64> = (first..end)
                    .map(|second| {
                        let ended = transactions.by_second.get(&second);
                        ended.copied().unwrap_or_default() as f64
                    })
                    .collect();
                InstanceReport {
                    number: tenant.number,
                    tps_mean: tps.iter().sum::<f64>() / tps.len() as f64,
                    tps_min: tps.iter().copied().fold(f64::INFINITY, f64::min),
                    seconds_zero: tps.iter().filter(|tps| **tps == 0.0).count() as u32,
                    latency_ms: transactions.latency,
                    checkpoint_starts_s: checkpoints
                        .complete
                        .iter()
                        .map(|checkpoint| checkpoint.start_s)
                        .chain(checkpoints.running.iter().map(|(start, _)| *start))
                        .map(|start| start - first as f64)
                        .filter(|start| *start >= 0.0 && *start < (end - first) as f64)
                        .collect(),
                    module_status: statuses.next().unwrap_or_default(),
                }
            })
            .collect();
        let mut settings: BTreeMap<String, String> =
            contestant.settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        contestant::add_directory(contestant, &self.stage.dir.run().join("share"), &mut settings);
        settings.extend(crate::contestant::settings_of(contestant, &self.options.set_contestant));
        Ok(ContestantReport {
            name: contestant.name.to_string(),
            description: contestant.description.to_string(),
            server_settings: settings,
            total: measure::figures(Recording {
                transactions: merged,
                seconds,
                samples: measured.samples,
                server: Vec::new(),
                blocked: measured.blocked,
                checkpoints: server_log::CheckpointLog::default(),
                server_failure: None,
                wal_free_min_mib: None,
                module_status: Default::default(),
                backlog: None,
                steadiness: None,
                caps_lifted: measured.caps_lifted,
                cached: [None, None],
                troubles: Vec::new(),
                fsync: None,
            }),
            instances,
            stall: Some(stall),
        })
    }
}

/// What is kept of one instance's transactions. A histogram for each second of each of a hundred instances would be gigabytes,
/// and the lab starts programs by fork, which copies the page tables of whatever it holds.
struct InstanceTransactions {
    /// By the second of the epoch in which they ended.
    by_second: BTreeMap<i64, u64>,
    latency: Latency,
    /// When the first of them began, in seconds of the epoch.
    started: f64,
}

impl InstanceTransactions {
    fn of(transactions: &Transactions) -> Self {
        Self {
            by_second: transactions.by_second.iter().map(|(second, histogram)| (*second, histogram.len())).collect(),
            latency: transaction_log::latency(&transactions.all),
            started: transactions.started,
        }
    }
}

/// What was recorded of all instances, in their order.
struct Measured {
    instances: Vec<InstanceTransactions>,
    /// Those of all.
    total: Transactions,
    samples: Vec<crate::sampler::Sample>,
    blocked: Vec<crate::contest::report::Blocked>,
    caps_lifted: bool,
    states: BTreeMap<i64, states::Tally>,
    statuses: Vec<BTreeMap<String, serde_json::Value>>,
    checkpoints: Vec<server_log::CheckpointLog>,
}

fn all_ended(loads: &mut [Load]) -> anyhow::Result<bool> {
    let mut ended = true;
    for load in loads {
        ended &= load.has_ended()?;
    }
    Ok(ended)
}
