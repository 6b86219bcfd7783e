//! One run of a suite.

use super::Given;

/// Options of one place of the file (the defaults, a matrix, a value of an axis, a row), in its order.
pub type Level = Vec<(String, Given)>;

/// One run of a scenario with all its contestants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Names the row on the command line and its result's file; letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// Heading in renderings.
    pub title: String,
    /// What is run, as `pgcalm lab run` calls it.
    pub scenario: String,
    /// The part of the suite that it belongs to, if it is to be run in parts.
    pub part: Option<String>,
    /// Its options, from the most general to the most special.
    pub levels: Vec<Level>,
}

impl Row {
    /// The options as words of a command line, `--name=value`.
    ///
    /// What a later level gives replaces what an earlier one has given, in its place; options that `is_repeated` says
    /// may be repeated add up instead.
    pub fn arguments(&self, is_repeated: impl Fn(&str) -> bool) -> Vec<String> {
        let mut merged: Vec<(&str, Given)> = Vec::new();
        for (name, given) in self.levels.iter().flatten() {
            let earlier = merged.iter_mut().find(|(earlier, _)| earlier == name);
            match earlier {
                Some((_, earlier)) if is_repeated(name) => {
                    *earlier = Given::Several([texts(earlier), texts(given)].concat());
                }
                Some((_, earlier)) => *earlier = given.clone(),
                None => merged.push((name, given.clone())),
            }
        }
        let mut words = Vec::new();
        for (name, given) in merged {
            match given {
                Given::Flag(true) => words.push(format!("--{name}")),
                Given::Flag(false) => {}
                Given::Several(texts) if is_repeated(name) => {
                    words.extend(texts.iter().map(|text| format!("--{name}={text}")));
                }
                Given::Several(texts) => words.push(format!("--{name}={}", texts.join(","))),
                Given::One(text) => words.push(format!("--{name}={text}")),
            }
        }
        words
    }
}

fn texts(given: &Given) -> Vec<String> {
    match given {
        Given::Flag(flag) => vec![flag.to_string()],
        Given::One(text) => vec![text.clone()],
        Given::Several(texts) => texts.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(options: &[(&str, Given)]) -> Level {
        options.iter().map(|(name, given)| (name.to_string(), given.clone())).collect()
    }

    fn one(text: &str) -> Given {
        Given::One(text.to_string())
    }

    fn several(texts: &[&str]) -> Given {
        Given::Several(texts.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn later_levels_replace_but_what_may_be_repeated_adds_up() {
        let row = Row {
            name: "a".into(),
            title: "a".into(),
            scenario: "checkpoint".into(),
            part: None,
            levels: vec![
                level(&[
                    ("seconds", one("60")),
                    ("set", several(&["a=1", "b=2"])),
                    ("contestants", several(&["stock", "pg_calm"])),
                    ("keep", Given::Flag(true)),
                ]),
                level(&[
                    ("seconds", one("90")),
                    ("set", one("a=3")),
                    ("contestants", several(&["stock"])),
                    ("keep", Given::Flag(false)),
                    ("quick", Given::Flag(true)),
                ]),
            ],
        };
        assert_eq!(
            row.arguments(|name| name == "set"),
            ["--seconds=90", "--set=a=1", "--set=b=2", "--set=a=3", "--contestants=stock", "--quick"]
        );
    }
}
