//! What the lab can reproduce.

/// Hands all scenarios to the macro `of`, in the order in which they are shown. This is the one list of them: the command line,
/// `lab list`, the reader of documents and their schemas are made from it. The module of each has `HELP`, `Options`,
/// `run` and `report::Report`.
#[macro_export]
macro_rules! scenarios {
    ($of:ident) => {
        $of! {
            Checkpoint(contest),
            Journal(interference),
            Tenants(tenants),
            Torture(torture),
            ArchiveCrash(archive_crash),
            Guard(guard),
            WalFull(wal_full),
            Archive(archive),
            Replica(replica),
            StopStart(stop_start),
            Predict(predict),
        }
    };
}

/// A scenario as the command line shows it.
#[derive(Debug)]
pub struct Help {
    /// On the command line, and in its documents, which are told from others by it.
    pub name: &'static str,
    /// A command line, which comes first.
    pub example: &'static str,
    /// What is measured, and how.
    pub text: &'static str,
}

impl Help {
    /// The first paragraph.
    pub fn about(&self) -> &'static str {
        self.text.split_once("\n\n").map_or(self.text, |(first, _)| first)
    }
}

macro_rules! scenario_helps {
    ($($scenario:ident($module:ident),)*) => {
        /// What there is.
        pub const SCENARIOS: &[Help] = &[$(crate::$module::HELP,)*];
    };
}

scenarios!(scenario_helps);

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use crate::naps::{HELP, Options, Report};
    use crate::report::Shown;

    /// CONTRIBUTING shows it; the documentation test holds it to the file.
    #[test]
    fn the_scenario_that_contributing_makes_up_is_one() {
        let command = <Options as clap::Args>::augment_args(Command::new(HELP.name));
        command.clone().debug_assert();
        let options = Options::from_arg_matches(&command.get_matches_from([HELP.name, "--nap", "7"])).unwrap();
        options.check().unwrap();
        let settings = crate::options::named(&options);
        let host = crate::report::Host::of_a_test("none");
        let report = Report { scenario: HELP.name.into(), host, settings, naps: vec![99.0, 98.0] };
        assert!(report.text().contains("nap 7") && report.text().contains("99"), "{}", report.text());
        assert!(report.html().contains("<svg"), "{}", report.html());
    }
}
