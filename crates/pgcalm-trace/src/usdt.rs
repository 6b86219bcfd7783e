//! Attaching programs to the server's own probes.

pub mod argument;
pub mod notes;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use libbpf_rs::{Link, MapCore, MapFlags, ProgramMut, UprobeMultiOpts, UprobeOpts};

use crate::usdt::argument::{Argument, MAX_ARGUMENTS};
use crate::usdt::notes::Notes;

/// What PostgreSQL's probes are declared under.
pub const PROVIDER: &str = "postgresql";

/// USDT_OWN_ARGUMENTS of bpf/usdt_argument.bpf.h.
const OWN_ARGUMENTS: u64 = 1 << 32;
/// MAX_USDT_ARGUMENT_SETS of bpf/usdt_argument.bpf.h.
const MAX_SETS: u32 = 64;

/// All processes: those of the server that don't run yet, too. Programs look at server_processes.
const ANY_PROCESS: i32 = -1;

/// The probes of one server's program.
#[derive(Debug)]
pub struct Probes {
    program: PathBuf,
    notes: Notes,
    next_set: u32,
}

/// Where a probe is in the program, and how its arguments are read there.
#[derive(Debug, Clone)]
pub struct Places {
    program: PathBuf,
    offsets: Vec<usize>,
    semaphores: Vec<usize>,
    cookies: Vec<u64>,
}

impl Places {
    /// Attaches to all of them in one process: the kernel puts its breakpoints into the memory of that alone. -1: in all.
    pub fn attach(&self, program: &ProgramMut<'_>, pid: i32) -> anyhow::Result<Vec<Link>> {
        // From Linux 6.6 on libbpf loads usdt programs so that only this kind of link takes them, before only the other.
        let multi = program.attach_uprobe_multi_with_opts(
            pid,
            &self.program,
            "",
            UprobeMultiOpts {
                offsets: self.offsets.clone(),
                ref_ctr_offsets: self.semaphores.clone(),
                cookies: self.cookies.clone(),
                ..UprobeMultiOpts::default()
            },
        );
        if let Ok(link) = multi {
            return Ok(vec![link]);
        }
        let mut links = Vec::new();
        for (number, offset) in self.offsets.iter().enumerate() {
            links.push(program.attach_uprobe_with_opts(
                pid,
                &self.program,
                *offset,
                UprobeOpts {
                    ref_ctr_offset: self.semaphores[number],
                    cookie: self.cookies[number],
                    ..UprobeOpts::default()
                },
            )?);
        }
        Ok(links)
    }
}

impl Probes {
    /// Reads what the program declares.
    pub fn of(program: &Path) -> anyhow::Result<Self> {
        Ok(Self { program: program.to_path_buf(), notes: Notes::read(program)?, next_set: 0 })
    }

    /// Whether it declares none at all: PostgreSQL was built without --enable-dtrace.
    pub fn is_empty(&self) -> bool {
        !self.notes.sites.iter().any(|site| site.provider == PROVIDER)
    }

    /// From now on it is as if there were none.
    pub fn forget(&mut self) {
        self.notes = Notes::default();
    }

    /// Attaches to all places of a probe, e.g. `checkpoint__start`.
    ///
    /// `argument_sets` is that map of the program's object; `None` if the program reads no arguments. The kernel raises
    /// the probe's semaphore for as long as the links live.
    pub fn attach(
        &mut self,
        program: &ProgramMut<'_>,
        probe: &str,
        argument_sets: Option<&dyn MapCore>,
    ) -> anyhow::Result<Vec<Link>> {
        let sites: Vec<_> = self.notes.sites(probe).cloned().collect();
        if sites.is_empty() {
            bail!("the server has no probe {probe}");
        }
        if !sites.iter().any(|site| argument::has_symbol(&site.arguments)) {
            return Ok(vec![program.attach_usdt(ANY_PROCESS, &self.program, PROVIDER, probe)?]);
        }
        let mut cookies = Vec::new();
        for site in &sites {
            let mut cookie = OWN_ARGUMENTS;
            if let Some(map) = argument_sets {
                let arguments = argument::parse(&site.arguments, site.address, &self.notes.symbols)?;
                cookie |= u64::from(self.enter(map, &arguments)?);
            }
            cookies.push(cookie);
        }
        Places {
            program: self.program.clone(),
            offsets: sites.iter().map(|site| site.offset as usize).collect(),
            semaphores: sites.iter().map(|site| site.semaphore_offset as usize).collect(),
            cookies,
        }
        .attach(program, ANY_PROCESS)
    }

    /// The places of a probe, for attaching to it often and in one process at a time.
    pub fn places(&mut self, probe: &str, argument_sets: &dyn MapCore) -> anyhow::Result<Places> {
        let sites: Vec<_> = self.notes.sites(probe).cloned().collect();
        if sites.is_empty() {
            bail!("the server has no probe {probe}");
        }
        let mut places =
            Places { program: self.program.clone(), offsets: Vec::new(), semaphores: Vec::new(), cookies: Vec::new() };
        for site in &sites {
            let arguments = argument::parse(&site.arguments, site.address, &self.notes.symbols)?;
            let set = self.enter(argument_sets, &arguments)?;
            places.offsets.push(site.offset as usize);
            places.semaphores.push(site.semaphore_offset as usize);
            places.cookies.push(OWN_ARGUMENTS | u64::from(set));
        }
        Ok(places)
    }

    fn enter(&mut self, map: &dyn MapCore, arguments: &[Argument]) -> anyhow::Result<u32> {
        let index = self.next_set;
        if index >= MAX_SETS {
            bail!("more than {MAX_SETS} probes with symbols as arguments");
        }
        let mut set = [Argument::default(); MAX_ARGUMENTS];
        for (place, argument) in set.iter_mut().zip(arguments) {
            *place = *argument;
        }
        // SAFETY: Argument is Plain, and so is an array of it: integers without padding.
        let bytes = unsafe { plain::as_bytes(&set) };
        map.update(&index.to_ne_bytes(), bytes, MapFlags::ANY).context("enter the arguments of a probe")?;
        self.next_set += 1;
        Ok(index)
    }
}
