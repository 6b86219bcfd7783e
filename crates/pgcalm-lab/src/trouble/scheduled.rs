use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

use crate::Seconds;
use crate::contest::Options;
use crate::options::{Named, one_of};
use crate::trouble::{Need, TROUBLES, Trouble};
use pgcalm_host::Failure;

/// A trouble and when it comes: `NAME[@SECOND]`.
#[derive(Debug, Clone, Copy)]
pub struct Scheduled {
    /// Which one.
    pub trouble: &'static Trouble,
    /// Second of the measured part, if one is given.
    pub at: Option<Seconds>,
}

impl Scheduled {
    /// The second of a run of `seconds` in which it comes: as given, or its own, or a quarter of a shorter run. None:
    /// before the server starts.
    pub fn second(&self, seconds: Seconds) -> Option<u32> {
        let own = self.trouble.at?;
        Some(match self.at {
            Some(at) => at.0,
            None => own.min(seconds.0 / 4),
        })
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.trouble.name == other.trouble.name && self.at == other.at
    }
}

impl FromStr for Scheduled {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, at) = match text.split_once('@') {
            Some((name, at)) => (name, Some(at)),
            None => (text, None),
        };
        let trouble = one_of(&TROUBLES, "trouble", name)?;
        let at = at
            .map(|at| at.parse().map(Seconds).map_err(|_| format!("{text}: give a second, e.g. {name}@20")))
            .transpose()?;
        if at.is_some() && trouble.at.is_none() {
            return Err(format!("{text}: {name} comes before the server starts: leave its second out"));
        }
        Ok(Self { trouble, at })
    }
}

impl fmt::Display for Scheduled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.trouble.name)?;
        match self.at {
            Some(at) => write!(f, "@{}", at.0),
            None => Ok(()),
        }
    }
}

impl Serialize for Scheduled {
    /// As it was given.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Fails on troubles that can't come in a contest with these options.
pub(crate) fn check(options: &Options) -> Result<(), Failure> {
    let all = &options.common.trouble;
    for (index, scheduled) in all.iter().enumerate() {
        let name = scheduled.trouble.name();
        let refused = |why: String| Err(Failure::Usage(format!("--trouble {scheduled}: {why}")));
        if all[..index].iter().any(|earlier| earlier.trouble.name() == name) {
            return refused("it is named twice: it comes once in a run".to_string());
        }
        if let Some(second) = scheduled.second(options.seconds)
            && second + 1 >= options.seconds.0
        {
            return refused(format!(
                "the run ends after {}: give an earlier second, or more --seconds",
                options.seconds
            ));
        }
        for need in scheduled.trouble.needs {
            if let Some(lacks) = need.lacking(options) {
                return refused(lacks);
            }
        }
        let before = |name: &str| name.starts_with("caps-told") || name == "caps-not-told";
        if before(name) && all[..index].iter().any(|one| before(one.trouble.name())) {
            return refused("the module is told its caps in one way: name one".to_string());
        }
    }
    Ok(())
}

impl Need {
    /// What is missing for it, and the way out.
    fn lacking(self, options: &Options) -> Option<String> {
        let (there, way_out) = match self {
            Self::Module => (
                options.contestants.iter().any(|one| one.module),
                "no contestant has the module: name pg_calm in --contestants",
            ),
            Self::Memory => (options.memory.is_some(), "it needs a host of a known size: give --memory"),
            Self::MemoryToSpare => (
                options.memory.is_some_and(|memory| options.fits(crate::Size(memory.bytes() / 2))),
                "shared_buffers do not fit into half of it: give more --memory or less --shared-buffers",
            ),
            Self::Caps => (options.has_caps(), "there are no caps: give --volume, or leave --cap none out"),
            Self::Volume => {
                (options.common.volume.is_some(), "the module finds caps of control groups by itself: give --volume")
            }
            Self::Pgbench => (
                options.load.choice.is_pgbench(),
                "a program that is not pgbench can't be asked to pause: use another --load",
            ),
        };
        (!there).then(|| way_out.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::parsed;

    fn refusal(arguments: &[&str]) -> String {
        let options: Options = parsed(arguments).unwrap();
        options.check().unwrap_err().to_string()
    }

    #[test]
    fn a_name_may_have_a_second_and_is_printed_as_it_was_given() {
        for text in ["pg-dump", "pg-dump@7", "files-read-before-start"] {
            assert_eq!(text.parse::<Scheduled>().unwrap().to_string(), text);
        }
        for (text, part) in [
            ("pgdump", "no trouble \"pgdump\"; choose from none, base-backup-fast"),
            ("pg-dump@soon", "give a second"),
            ("pg-dump@", "give a second"),
            ("files-read-before-start@3", "leave its second out"),
        ] {
            let error = text.parse::<Scheduled>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn one_without_a_second_has_its_own_or_a_quarter_of_a_short_run() {
        let of = |text: &str, seconds| text.parse::<Scheduled>().unwrap().second(Seconds(seconds));
        assert_eq!(of("pg-dump", 150), Some(20));
        assert_eq!(of("pg-dump", 8), Some(2));
        assert_eq!(of("pg-dump@5", 8), Some(5));
        assert_eq!(of("files-read-before-start", 8), None);
    }

    #[test]
    fn what_can_not_come_is_refused_with_the_way_out() {
        for (arguments, part) in [
            (&["--trouble", "pg-dump@60", "--seconds", "60"][..], "--trouble pg-dump@60: the run ends after 60s"),
            (&["--trouble", "pg-dump@5", "--trouble", "pg-dump@9"], "named twice"),
            (&["--trouble", "memory-halves"], "give --memory"),
            (&["--trouble", "caps-halve", "--cap", "none"], "leave --cap none out"),
            (&["--trouble", "caps-not-told"], "give --volume"),
            (&["--trouble", "caps-told-half", "--trouble", "caps-told-double"], "name one"),
            (&["--trouble", "worker-killed", "--contestants", "stock"], "name pg_calm"),
            (&["--trouble", "restart-in-mid-load", "--load", "sh -c true"], "use another --load"),
            (&["--trouble", "memory-halves", "--memory", "2GB", "--shared-buffers", "1GB"], "do not fit"),
        ] {
            let error = refusal(arguments);
            assert!(error.contains(part), "{arguments:?}: {error}");
        }
        let options: Options = parsed(&["--trouble", "none", "--trouble", "pg-dump"]).unwrap();
        options.check().unwrap();
    }
}
