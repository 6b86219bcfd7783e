//! Many instances under load on volumes of one capped device, all checkpoints in lockstep.
//!
//! Each instance has two volumes, for data and WAL, with caps of its own, and all volumes lie on one device, which has a
//! cap that binds them together. A volume is a loop device on a part of the common loop device. All caps are in the root
//! group of cgroup v1, which is flat: limits of a child group would replace those of the root group for what its
//! processes submit, so that no cap could bind an instance and all of them together, and the kernel's flusher would
//! escape them. A limit of the root group on a device holds for whatever is sent to that device.

mod contestant;
mod options;
mod pool;

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use anyhow::Context;
use anyhow::bail;
use pgcalm_host::HostRoot;
use pgcalm_report::model::Latency;
use pgcalm_report::tenants::Contestant as ContestantReport;
use pgcalm_report::tenants::Instance as InstanceReport;
use pgcalm_report::tenants::Report;
use pgcalm_report::tenants::SCENARIO;

use crate::LabError;
use crate::cap::Capper;
use crate::cap::Caps;
use crate::cap::InForce;
use crate::contestant::Contestant;
use crate::device::Device;
use crate::device::Kind;
use crate::filesystem::FileSystem;
use crate::host_facts;
use crate::installation::Installation;
use crate::interrupt::Interrupt;
use crate::journal::Journal;
use crate::lab_dir::LabDir;
use crate::load::LOG_PREFIX;
use crate::load::Load;
use crate::load::Work;
use crate::load::preparation::Preparation;
use crate::measure;
use crate::measure::Recording;
use crate::need_root::need_root;
use crate::options::Distribution;
use crate::options::FsType;
use crate::options::Warm;
use crate::progress::Progress;
use crate::run_dir::RunDir;
use crate::sampler::Sampler;
use crate::server::Places;
use crate::server::Server;
use crate::server_log;
use crate::sysctl;
use crate::template::Template;
use crate::transaction_log;
use crate::transaction_log::Transactions;
use crate::warm;

pub use contestant::CONTESTANTS;
pub use contestant::parse_list;
pub use options::Options;

use pool::Volume;
use pool::Volumes;

/// How long the clients may take to notice that their time is up before the caps are lifted for them.
const OVERTIME: Duration = Duration::from_secs(2);

/// How long it may take after that.
const OVERTIME_UNCAPPED: Duration = Duration::from_secs(180);

/// What is done to many instances is done to so many at a time.
const WORKERS: usize = 4;

/// Runs the contestants and returns their report. Whatever way it ends, the host is as before.
pub fn run(options: &Options, interrupt: &Interrupt) -> anyhow::Result<Report> {
    options.check()?;
    let root = HostRoot::default();
    need_root("loop devices, mounts, cgroup limits and vm sysctls")?;
    let installation = Installation::find(&root, options.pg_bindir.as_deref(), interrupt)?;
    need_module(options, &installation, interrupt)?;
    let lab = LabDir::open(&root, &options.dir)?;
    let progress = Progress::new();
    let journal = lab.clean_journal(&root, &progress)?;
    need_space(options, &lab)?;
    let Some(capper) = Capper::of_root_group(&journal)? else {
        return Err(LabError::Host(
            "needs the blkio controller of cgroup v1, in its root group, for caps on each volume and the device below"
                .to_string(),
        )
        .into());
    };
    let started_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let run_dir = RunDir::create(&lab, &journal, &installation)?;
    let template = Template::obtain(
        &lab,
        &journal,
        &installation,
        &Preparation::Standard { rows: options.rows },
        &progress,
        interrupt,
    )?;
    let _sysctls = sysctl::apply(&journal, options.sysctl)?;
    let host = host_facts::collect(&root, &installation, started_at, capper.mechanism())?;
    progress.note(&format!(
        "making a device of {} for {} instances",
        options.device_size(),
        options.instances
    ));
    let image = lab.image("tenants");
    let pool = Device::create(
        &journal,
        &image,
        options.device_size(),
        Kind::of(options.volume.as_ref(), &lab.volume("tenants")),
        interrupt,
    )?;
    let models = Models::create(options, &lab, &journal, &installation, &template, interrupt)?;
    drop(run_dir);
    let arena = Arena {
        options,
        lab: &lab,
        journal: &journal,
        installation: &installation,
        capper: &capper,
        pool: &pool,
        image: &image,
        models: &models,
        progress: &progress,
        interrupt,
    };
    let mut report = Report {
        scenario: SCENARIO.to_string(),
        host,
        settings: options.named(),
        contestants: Vec::new(),
    };
    for contestant in &options.contestants {
        let result = arena.run(contestant).with_context(|| contestant.name)?;
        progress.note(&result.summary());
        report.contestants.push(result);
    }
    Ok(report)
}

fn need_module(
    options: &Options,
    installation: &Installation,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let Some(contestant) = options.contestants.iter().find(|c| c.module) else {
        return Ok(());
    };
    let module = installation.module_dir(interrupt)?.join("pg_calm.so");
    if module.exists() {
        return Ok(());
    }
    Err(LabError::Host(format!(
        "contestant {}: {} not found: run make install in extension/pg_calm, or --contestants stock",
        contestant.name,
        module.display()
    ))
    .into())
}

fn need_space(options: &Options, lab: &LabDir) -> anyhow::Result<()> {
    let needed = options.device_size().bytes()
        + 2 * (options.data_size().bytes() + options.wal_size().bytes());
    lab.need_space(needed, "fewer --instances or --rows")
}

/// File systems that those of all tenants are copies of, with a loaded cluster; not mounted.
struct Models {
    data: Device,
    wal: Device,
}

impl Models {
    fn create(
        options: &Options,
        lab: &LabDir,
        journal: &Journal,
        installation: &Installation,
        template: &Template,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let device = |role: &str, size| -> anyhow::Result<Device> {
            let device = Device::create(
                journal,
                &lab.image(&format!("model-{role}")),
                size,
                Kind::LOOP,
                interrupt,
            )?;
            pool::mark_untouched(&device, size, interrupt)?;
            Ok(device)
        };
        let models = Self {
            data: device("data", options.data_size())?,
            wal: device("wal", options.wal_size())?,
        };
        let mount = |role: &str, device: &Device| {
            FileSystem::create(
                journal,
                device,
                FsType::Ext4,
                &lab.mountpoint(&format!("model-{role}")),
                interrupt,
            )
        };
        let data = mount("data", &models.data)?;
        let wal = mount("wal", &models.wal)?;
        template.copy_to(
            &data.path().join("cluster"),
            Some(&wal.path().join("pg_wal")),
            installation,
            interrupt,
        )?;
        Ok(models)
    }
}

/// What the runs share.
struct Arena<'a> {
    options: &'a Options,
    lab: &'a LabDir,
    journal: &'a Journal,
    installation: &'a Installation,
    capper: &'a Capper,
    pool: &'a Device,
    image: &'a Path,
    models: &'a Models,
    progress: &'a Progress,
    interrupt: &'a Interrupt,
}

/// One instance's places.
struct Tenant {
    number: u32,
    data: Volume,
    wal: Volume,
    /// Socket, server log, transaction logs.
    directory: PathBuf,
}

impl Tenant {
    fn cluster(&self) -> PathBuf {
        self.data.path.join("cluster")
    }
}

impl Arena<'_> {
    fn run(&self, contestant: &Contestant) -> anyhow::Result<ContestantReport> {
        let label = contestant.name;
        let run_dir = RunDir::create(self.lab, self.journal, self.installation)?;
        let volumes = Volumes::new(
            self.journal,
            self.pool,
            self.image,
            self.lab.mountpoint("tenants"),
            self.options.mount_options.as_ref(),
        )?;
        let tenants = self.tenants(label, &volumes)?;
        let mut settings = self.options.server_settings(contestant);
        let shared = self.lab.run().join("arbiter");
        self.private_dir(&shared)?;
        contestant::add_directory(contestant, &shared, &mut settings);

        let servers = self.each(label, "starting servers", &tenants, |tenant| {
            Server::start(
                self.journal,
                self.installation,
                Places {
                    data: tenant.cluster(),
                    socket: tenant.directory.clone(),
                    log: tenant.directory.join("server.log"),
                },
                &settings,
                self.interrupt,
            )
        })?;
        if contestant.module {
            self.each(label, "creating the extension", &servers, |server| {
                server.sql("create extension pg_calm", self.interrupt)
            })?;
        }
        let measured = self.measure(contestant, &tenants, &servers);
        self.progress.status(&format!("{label}: stopping servers"));
        for server in servers {
            server.discard()?;
        }
        let measured = measured?;
        let report = self.report(contestant, &tenants, measured)?;
        if self.options.keep {
            self.keep_logs(contestant)?;
        }
        drop(volumes);
        drop(run_dir);
        Ok(report)
    }

    /// Copies, mounts and warms the volumes of all.
    fn tenants(&self, label: &str, volumes: &Volumes<'_>) -> anyhow::Result<Vec<Tenant>> {
        let (data_size, wal_size) = (self.options.data_size(), self.options.wal_size());
        self.progress.note(&format!(
            "{label}: restoring {} instances on new file systems",
            self.options.instances
        ));
        let numbers: Vec<u32> = (0..self.options.instances).collect();
        let tenants = self.each(label, "restoring", &numbers, |&index| {
            let number = index + 1;
            let offset = u64::from(index) * (data_size.bytes() + wal_size.bytes());
            let data = volumes.add(
                &format!("data-{number}"),
                &self.models.data,
                offset,
                data_size,
                self.interrupt,
            )?;
            let wal = volumes.add(
                &format!("wal-{number}"),
                &self.models.wal,
                offset + data_size.bytes(),
                wal_size,
                self.interrupt,
            )?;
            let link = data.path.join("cluster/pg_wal");
            fs::remove_file(&link).with_context(|| format!("remove {}", link.display()))?;
            symlink(wal.path.join("pg_wal"), &link)?;
            let directory = self.lab.run().join(number.to_string());
            self.private_dir(&directory)?;
            Ok(Tenant {
                number,
                data,
                wal,
                directory,
            })
        })?;
        self.each(label, "warming", &tenants, |tenant| {
            warm::warm(
                &tenant.cluster(),
                Warm::Random,
                self.progress,
                self.interrupt,
            )
        })?;
        Ok(tenants)
    }

    /// A new directory of the servers' user.
    fn private_dir(&self, path: &Path) -> anyhow::Result<()> {
        fs::create_dir(path)
            .and_then(|()| {
                chown(
                    path,
                    Some(self.installation.uid),
                    Some(self.installation.gid),
                )
            })
            .with_context(|| format!("create {}", path.display()))
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
                self.interrupt.check()?;
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(index) else {
                    return Ok(());
                };
                self.progress.status(&format!(
                    "{label}: {doing}: {} of {}",
                    index + 1,
                    items.len()
                ));
                let result = f(item).inspect_err(|_| {
                    // The others need not begin what comes to nothing.
                    next.store(items.len(), Ordering::Relaxed);
                })?;
                results
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((index, result));
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
            threads.into_iter().try_for_each(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|_| bail!("a thread of the lab has panicked"))
            })
        })?;
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(index, _)| *index);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }

    /// Puts the checkpoints into lockstep, then loads all servers under caps and records what happens.
    fn measure(
        &self,
        contestant: &Contestant,
        tenants: &[Tenant],
        servers: &[Server],
    ) -> anyhow::Result<Measured> {
        let label = contestant.name;
        // The checkpointer's clock starts anew with any checkpoint.
        self.each(label, "checkpoint", servers, |server| {
            server.sql("checkpoint", self.interrupt)
        })?;
        let seconds = self.options.seconds.0;
        self.progress
            .note(&format!("{label}: measuring {seconds} s"));
        let mut caps = Some(self.caps(tenants)?);
        let sampler = Sampler::start(
            self.journal.root().clone(),
            vec![self.pool.name.clone()],
            tenants.iter().map(|t| t.wal.name.clone()).collect(),
            // Servers and clients are our children.
            std::process::id() as i32,
        );
        let started = Instant::now();
        let mut loads = Vec::new();
        for (tenant, server) in tenants.iter().zip(servers) {
            self.interrupt.check()?;
            loads.push(Load::start(
                self.journal,
                self.installation,
                server,
                &tenant.directory,
                Work {
                    rows: self.options.rows,
                    clients: self.options.clients,
                    seconds,
                    distribution: Distribution::Uniform,
                    rate: Some(self.options.rate),
                },
            )?);
        }
        let time_up = Instant::now() + Duration::from_secs(seconds.into()) + OVERTIME;
        let mut statuses = None;
        while !all_ended(&mut loads)? {
            if Instant::now() > time_up && caps.is_some() {
                self.progress.note(&format!(
                    "{label}: time is up, but a stall holds clients: lifting the caps"
                ));
                caps = None;
            }
            if Instant::now() > time_up + OVERTIME_UNCAPPED {
                bail!(
                    "clients do not end {} s after the caps were lifted",
                    OVERTIME_UNCAPPED.as_secs()
                );
            }
            let tps: f64 = loads.iter().filter_map(Load::tps).sum();
            let mut text = format!(
                "{label}: {:>3} of {seconds} s, {tps:.0} TPS",
                started.elapsed().as_secs()
            );
            if let Some(sample) = sampler.latest() {
                text.push_str(&format!(
                    ", Dirty {} MiB, Writeback {} MiB",
                    sample.memory.dirty_kib >> 10,
                    sample.memory.writeback_kib >> 10
                ));
            }
            self.progress.status(&text);
            self.interrupt.sleep(Duration::from_millis(250))?;
        }
        drop(caps);
        let (samples, blocked) = sampler.finish();
        if contestant.module {
            statuses = Some(self.each(label, "reading the status", servers, |server| {
                let row = server.sql(
                    "select row_to_json(s) from pg_calm_status s",
                    self.interrupt,
                )?;
                serde_json::from_str(row.trim()).context("read pg_calm_status")
            })?);
        }
        self.progress.status("reading the logs");
        let mut transactions = Vec::new();
        for tenant in tenants {
            transactions.push(
                Transactions::read(&tenant.directory, LOG_PREFIX)
                    .with_context(|| format!("instance {}", tenant.number))?,
            );
        }
        Ok(Measured {
            transactions,
            samples,
            blocked,
            statuses: statuses.unwrap_or_default(),
            checkpoints: servers
                .iter()
                .map(|server| server_log::checkpoints(&server.log()))
                .collect(),
        })
    }

    fn caps(&self, tenants: &[Tenant]) -> anyhow::Result<Vec<InForce>> {
        // The instances' own caps are control groups' on a volume, too.
        let mut caps = match self.pool.limit()? {
            Some(limits) => vec![InForce::Volume(limits)],
            None => self.capper.apply(
                self.pool,
                Caps::on_writes(self.options.device_iops, self.options.device_bps),
            )?,
        };
        for tenant in tenants {
            caps.extend(self.capper.apply_to(
                &tenant.data.number,
                Caps::on_writes(self.options.data_iops, self.options.data_bps),
            )?);
            caps.extend(self.capper.apply_to(
                &tenant.wal.number,
                Caps::on_writes(self.options.wal_iops, crate::Limit(None)),
            )?);
        }
        Ok(caps)
    }

    fn report(
        &self,
        contestant: &Contestant,
        tenants: &[Tenant],
        measured: Measured,
    ) -> anyhow::Result<ContestantReport> {
        let earliest = measured
            .transactions
            .iter()
            .map(|t| t.started)
            .fold(f64::INFINITY, f64::min);
        let merged = Transactions::merged(&measured.transactions)?;
        // While all of them run.
        let spread = (merged.started - earliest).ceil() as u32;
        let seconds = self.options.seconds.0.saturating_sub(spread).max(1);
        let first = merged.started.ceil() as i64;
        let end = ((merged.started + f64::from(seconds)).floor() as i64).max(first + 1);
        let mut statuses = measured.statuses.into_iter();
        let instances: Vec<InstanceReport> = tenants
            .iter()
            .zip(&measured.transactions)
            .zip(&measured.checkpoints)
            .map(|((tenant, transactions), checkpoints)| {
                let tps: Vec<f64> = (first..end)
                    .map(|second| {
                        let ended = transactions.by_second.get(&second);
                        ended.map_or(0.0, |histogram| histogram.len() as f64)
                    })
                    .collect();
                let latency: Latency = transaction_log::latency(&transactions.all);
                InstanceReport {
                    number: tenant.number,
                    tps_mean: tps.iter().sum::<f64>() / tps.len() as f64,
                    tps_min: tps.iter().copied().fold(f64::INFINITY, f64::min),
                    seconds_zero: tps.iter().filter(|tps| **tps == 0.0).count() as u32,
                    latency_ms: latency,
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
        let mut settings: std::collections::BTreeMap<String, String> = contestant
            .settings
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        contestant::add_directory(contestant, &self.lab.run().join("arbiter"), &mut settings);
        settings.extend(crate::contestant::settings_of(
            contestant,
            &self.options.set_contestant,
        ));
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
                module_status: Default::default(),
                backlog: None,
                fsync: None,
            }),
            instances,
        })
    }

    fn keep_logs(&self, contestant: &Contestant) -> anyhow::Result<()> {
        let target = self.lab.kept().join(format!("tenants-{}", contestant.name));
        if target.exists() {
            fs::remove_dir_all(&target)?;
        }
        fs::create_dir_all(self.lab.kept())?;
        fs::rename(self.lab.run(), &target)
            .with_context(|| format!("keep logs in {}", target.display()))?;
        self.progress
            .note(&format!("logs are kept in {}", target.display()));
        Ok(())
    }
}

/// What was recorded of all instances, in their order.
struct Measured {
    transactions: Vec<Transactions>,
    samples: Vec<crate::sampler::Sample>,
    blocked: Vec<pgcalm_report::model::Blocked>,
    statuses: Vec<std::collections::BTreeMap<String, serde_json::Value>>,
    checkpoints: Vec<server_log::CheckpointLog>,
}

fn all_ended(loads: &mut [Load]) -> anyhow::Result<bool> {
    let mut ended = true;
    for load in loads {
        ended &= load.has_ended()?;
    }
    Ok(ended)
}
