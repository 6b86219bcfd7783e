//! `trace why`'s samples of an instance whose users are held: who waited for whom, with the kernel's stacks, by eBPF.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;

use pgcalm_host::HostRoot;
use pgcalm_trace::report::Missing;
use pgcalm_trace::stop::Stop;
use pgcalm_trace::target::Selection;
use pgcalm_trace::why;
use pgcalm_trace::why::report::Samples;

use crate::stuck::Target;

/// A second in which a session was in one system call for so long has stacks.
const THRESHOLD: Duration = Duration::from_millis(50);

/// Samples one instance at a time: a volume that hangs may hold a hundred, and is the same for all.
#[derive(Debug)]
pub struct Sampler {
    root: HostRoot,
    current: Option<Sampling>,
}

#[derive(Debug)]
struct Sampling {
    server: String,
    stop: Stop,
    samples: Arc<Mutex<Samples>>,
    /// Not waited for: it reads of processes that may be stuck.
    thread: JoinHandle<()>,
}

impl Sampler {
    /// One that samples nobody yet.
    pub fn new(root: HostRoot) -> Self {
        Self { root, current: None }
    }

    /// Begins with one that is held now, and ends when it is not any more.
    pub fn follow(&mut self, targets: &[Target]) {
        let held = || targets.iter().filter(|target| target.held);
        if let Some(current) = &self.current {
            if !held().any(|target| target.server == current.server) {
                current.stop.set();
            }
            if current.stop.is_set() && current.thread.is_finished() {
                self.current = None;
            }
        }
        if let (None, Some(target)) = (&self.current, held().next()) {
            self.current = Sampling::start(self.root.clone(), target).ok();
        }
    }

    /// What was found of an instance that is held, so far; of others that they have to wait.
    pub fn samples(&self, server: &str) -> Option<Samples> {
        let current = self.current.as_ref()?;
        if current.server == server && !current.stop.is_set() {
            return Some(lock(&current.samples).clone());
        }
        Some(Samples {
            missing: vec![missing(format!("instance {} was sampled then", current.server))],
            ..Samples::default()
        })
    }
}

impl Sampling {
    fn start(root: HostRoot, target: &Target) -> std::io::Result<Self> {
        let (stop, samples) = (Stop::default(), Arc::new(Mutex::new(Samples::default())));
        let (our_stop, ours) = (stop.clone(), Arc::clone(&samples));
        let selection = Selection { pid: Some(target.postmaster), ..Selection::default() };
        let options =
            why::Options { duration: None, threshold: THRESHOLD, probes: false, wal_calls: false, connect: None };
        let thread = thread::Builder::new().name("pgcalm sampler".to_string()).spawn(move || {
            let traced = pgcalm_trace::target::Target::find(&root, &selection).and_then(|target| {
                why::with_ebpf(&target, &options, &our_stop, &mut |line| {
                    lock(&ours).add(line);
                    Ok(())
                })
            });
            if let Err(error) = traced {
                lock(&ours).missing.push(missing(format!("{error:#}")));
            }
        })?;
        Ok(Self { server: target.server.clone(), stop, samples, thread })
    }
}

fn missing(reason: String) -> Missing {
    Missing { answer: "who waited for whom, by samples".to_string(), reason }
}

fn lock(samples: &Mutex<Samples>) -> MutexGuard<'_, Samples> {
    samples.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use pgcalm_host::fake::FakeHost;
    use pgcalm_testkit::wait_for;

    use super::*;

    fn target(server: &str, held: bool) -> Target {
        Target { server: server.to_string(), postmaster: 10, cluster_name: String::new(), held }
    }

    fn reason(sampler: &Sampler, server: &str) -> Option<String> {
        Some(sampler.samples(server)?.missing.first()?.reason.clone())
    }

    #[test]
    fn one_that_is_held_is_sampled_until_it_is_not_and_what_can_not_be_had_says_why() {
        let host = FakeHost::default();
        let mut sampler = Sampler::new(host.clone());
        sampler.follow(&[target("a", false)]);
        assert_eq!(sampler.samples("a"), None);
        sampler.follow(&[target("a", true), target("b", true)]);
        assert_eq!(reason(&sampler, "b").as_deref(), Some("instance a was sampled then"));
        wait_for("why not", || reason(&sampler, "a").is_some());
        assert!(reason(&sampler, "a").is_some_and(|reason| reason.contains("proc/10")), "{:?}", reason(&sampler, "a"));
        // Not again for the same stall.
        sampler.follow(&[target("a", true), target("b", true)]);
        assert!(sampler.current.as_ref().is_some_and(|current| current.server == "a"));
        wait_for("the turn of b", || {
            sampler.follow(&[target("a", false), target("b", true)]);
            sampler.current.as_ref().is_some_and(|current| current.server == "b")
        });
        wait_for("the end", || {
            sampler.follow(&[]);
            sampler.current.is_none()
        });
    }
}
