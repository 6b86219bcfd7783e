//! Processors: a quota, the hypervisor, too much to do.

use pgcalm_monitor::model::WaitCause;

use super::Found;
use super::evidence::shares;
use super::window::Window;

pub(super) fn cpu_quota(window: &Window) -> Option<Found> {
    let (throttled, before) = window.means(|second| second.group.and_then(|group| group.throttled));
    (throttled >= 0.2 && throttled >= 2.0 * before && !window.waits_for_idle_session()).then(|| {
        (
            "The control group had used up its quota of CPU: the kernel stopped its processes until the next period."
                .to_string(),
            vec![shares("time in which the quota was used up", throttled, before)],
        )
    })
}

pub(super) fn cpu_steal(window: &Window) -> Option<Found> {
    let (steal, before) = window.means(|second| second.cpu.map(|cpu| cpu.steal));
    (steal >= 0.15 && steal >= 2.0 * before && !window.waits_for_idle_session()).then(|| {
        (
            "The hypervisor gave this machine's processors to others.".to_string(),
            vec![shares("processors' time that was stolen", steal, before)],
        )
    })
}

pub(super) fn cpu_busy(window: &Window) -> Option<Found> {
    let (busy, before) = window.means(|second| second.cpu.map(|cpu| cpu.busy));
    let (some, some_before) = window.means(|second| second.pressure.map(|pressure| pressure.cpu_some));
    // Others may keep the processors busy while sessions wait for something else.
    let runs = window.waiting(&[WaitCause::Cpu]);
    (busy >= 0.95 && busy >= before + 0.1 && runs >= 0.4).then(|| {
        (
            "All processors were busy, and tasks waited for one.".to_string(),
            vec![
                shares("processors' time in use", busy, before),
                shares("time in which a task waited for a processor", some, some_before),
            ],
        )
    })
}
