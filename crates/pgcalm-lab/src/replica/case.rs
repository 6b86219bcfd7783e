//! What is done to the same pair under the same load.

/// One case.
#[derive(Debug, PartialEq, Eq)]
pub struct Case {
    /// As on the command line.
    pub name: &'static str,
    /// What sets it apart, in one sentence.
    pub description: &'static str,
    /// Whether the WAL devices of both sides are capped.
    pub wal_capped: bool,
    /// Whether the link has its limit.
    pub link_limited: bool,
    /// Whether the standby has a replication slot, for which the primary keeps WAL without limit.
    pub slot: bool,
    /// Whether the primary archives WAL and the standby may restore it from there.
    pub archive: bool,
    /// Whether the governor has a limit of lag.
    pub governed: bool,
}

impl Case {
    /// Whether the primary runs with pg_calm.
    pub fn needs_module(&self) -> bool {
        self.archive || self.governed
    }
}

/// All that there are.
pub const CASES: [Case; 5] = [
    Case {
        name: "capped",
        description: "The WAL devices of both sides are capped, the link is not.",
        wal_capped: true,
        link_limited: false,
        slot: true,
        archive: false,
        governed: false,
    },
    Case {
        name: "slow-link",
        description: "The link is slower than WAL is made; a slot keeps WAL for the standby.",
        wal_capped: false,
        link_limited: true,
        slot: true,
        archive: false,
        governed: false,
    },
    Case {
        name: "recycled",
        description: "The same link, and nothing keeps WAL for the standby: it is recycled before it was sent.",
        wal_capped: false,
        link_limited: true,
        slot: false,
        archive: false,
        governed: false,
    },
    Case {
        name: "restore",
        description: "As recycled, but pg_calm archives WAL, and the standby restores it by pgcalm wal-restore. The archive \
                      is not behind the link.",
        wal_capped: false,
        link_limited: true,
        slot: false,
        archive: true,
        governed: false,
    },
    Case {
        name: "governed",
        description: "As recycled, but pg_calm's governor holds writers to a limit of lag.",
        wal_capped: false,
        link_limited: true,
        slot: false,
        archive: false,
        governed: true,
    },
];

/// The cases named in a comma-separated list.
pub fn parse_list(text: &str) -> Result<Vec<&'static Case>, String> {
    let mut chosen: Vec<&'static Case> = Vec::new();
    for name in text.split(',').map(str::trim) {
        let case = CASES.iter().find(|case| case.name == name).ok_or_else(|| {
            let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
            format!("no case {name:?}; choose from {}", names.join(", "))
        })?;
        if chosen.contains(&case) {
            return Err(format!("{name} is named twice"));
        }
        chosen.push(case);
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_cases_keeps_its_order_and_refuses_unknown_and_double_names() {
        let names =
            |text| parse_list(text).map(|list| list.iter().map(|c| c.name).collect::<Vec<_>>());
        assert_eq!(names("restore, capped"), Ok(vec!["restore", "capped"]));
        assert!(names("slow").unwrap_err().contains("slow-link"));
        assert!(names("capped,capped").is_err());
    }
}
