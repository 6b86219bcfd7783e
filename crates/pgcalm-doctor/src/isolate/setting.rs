use pgcalm_host::throttle::Kind;

/// One limit to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// What it counts.
    pub kind: Kind,
    /// Operations or bytes per second; `None` lifts it.
    pub value: Option<u64>,
}
