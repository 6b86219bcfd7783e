//! A gap with which operations and bytes are used up alike (bridge_choice.c, `bridge_balanced_gap`).

use super::super::caps::Caps;
use super::super::caps::Work;

/// In which time what was written counts half, and the gap follows; seconds (`BALANCE_HALF_LIFE_MS`).
const HALF_LIFE: f64 = 1.0;

/// Least change in that time (`BALANCE_STEP`).
const STEP: f64 = 1.0;

/// Part of one of the budgets that has to be used for it to be followed (`BALANCE_USED`).
const USED: f64 = 0.5;

#[derive(Debug, Clone, Default)]
pub(super) struct Balance {
    /// What the worker has written in all.
    pub written: Work,
    /// None yet, or the gap and when it was chosen.
    chosen: Option<(f64, f64)>,
    /// Written until then, and lately, fading.
    before: Work,
    lately: Work,
}

impl Balance {
    /// The gap of up to `limit` pages; `quickest` is where it starts.
    pub fn gap(&mut self, caps: &Caps, limit: u32, now: f64, quickest: impl Fn() -> u32) -> u32 {
        if caps.write_iops.is_infinite() || caps.write_bytes.is_infinite() {
            return limit;
        }
        let gap = match self.chosen {
            Some((gap, when)) if now - when <= 4.0 * HALF_LIFE => {
                let elapsed = (now - when) / HALF_LIFE;
                self.lately = self.lately * (-elapsed).exp2();
                self.lately += self.written;
                self.lately += self.before * -1.0;
                let rate = self.lately * (std::f64::consts::LN_2 / HALF_LIFE);
                let operations = rate.operations / caps.write_iops;
                let bytes = rate.bytes / caps.write_bytes;
                if operations.max(bytes) < USED {
                    f64::from(quickest())
                } else if operations > 0.0 && bytes > 0.0 {
                    let mut change = gap * ((operations / bytes).powf(elapsed) - 1.0);
                    if operations > bytes {
                        change = change.max(STEP * elapsed);
                    }
                    (gap + change).clamp(0.0, f64::from(limit))
                } else {
                    gap
                }
            }
            _ => {
                self.lately = Work::default();
                f64::from(quickest())
            }
        };
        self.chosen = Some((gap, now));
        self.before = self.written;
        gap.round() as u32
    }
}
