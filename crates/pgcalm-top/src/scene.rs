//! What a picture is made of, and nothing else: with the same scene and the same size it is the same picture.

use chrono::FixedOffset;
use pgcalm_monitor::model::{Host, Instance};

use crate::palette::Palette;
use crate::series::Series;
use crate::state::{Moment, State};
use crate::track;
use crate::track::{Figures, Track};

/// Parts of the interval between two pictures after which a moment without one counts as a gap: some pictures come late.
const GAP_INTERVALS: f64 = 2.5;

/// What is shown, and how.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The sample that is shown; `None` if there is none yet.
    pub host: Option<&'a Host>,
    /// Figures of all samples.
    pub track: &'a Track,
    /// What the user has chosen.
    pub state: &'a State,
    /// Styles.
    pub palette: Palette,
    /// The time zone in which times of day are shown.
    pub offset: FixedOffset,
    /// Seconds between two samples.
    pub interval: f64,
    /// Seconds since 1970.
    pub now: f64,
}

impl<'a> Scene<'a> {
    /// The chosen instance in the sample that is shown.
    pub fn instance(&self) -> Option<&'a Instance> {
        let host = self.host?;
        let at = self.state.chosen(&names(host))?;
        Some(&host.instances[at])
    }

    /// Whether pictures move on by themselves.
    pub fn is_live(&self) -> bool {
        self.state.moment == Moment::Live
    }

    /// The end of curves: the moment that is shown.
    pub fn end(&self) -> f64 {
        self.host.map_or(self.now, track::seconds)
    }

    /// The start of curves.
    pub fn start(&self) -> f64 {
        self.end() - self.state.span_seconds()
    }

    /// Seconds without a sample that count as a gap.
    pub fn gap(&self) -> f64 {
        self.interval * GAP_INTERVALS
    }

    /// A figure of the chosen instance over time.
    pub fn series(&self, figure: impl Fn(&Figures) -> Option<f64>) -> Series {
        match self.instance() {
            Some(instance) => self.track.of_instance(&instance.identity.name, figure),
            None => Series::default(),
        }
    }
}

/// The identities of a sample's instances, as they are listed.
pub fn names(host: &Host) -> Vec<String> {
    host.instances.iter().map(|instance| instance.identity.name.clone()).collect()
}
