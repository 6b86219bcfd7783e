use serde::Serializer;

use pgcalm_host::Failure;

/// What is chosen by its name.
pub trait Named: 'static {
    /// As on the command line.
    fn name(&self) -> &'static str;
}

/// The one of `all` with that name; `kind` is what they are, for the message.
pub(crate) fn one_of<T: Named>(all: &'static [T], kind: &str, name: &str) -> Result<&'static T, String> {
    all.iter().find(|one| one.name() == name.trim()).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(T::name).collect();
        format!("no {kind} {name:?}; choose from {}", names.join(", "))
    })
}

/// Fails if one is named twice in a list.
pub(crate) fn each_once<T: Named>(option: &str, list: &[&'static T]) -> Result<(), Failure> {
    for (index, one) in list.iter().enumerate() {
        if list[..index].iter().any(|other| other.name() == one.name()) {
            return Err(Failure::Usage(format!(
                "--{option}: {} is named twice; name each once, where there is --repeat it is for more runs",
                one.name()
            )));
        }
    }
    Ok(())
}

/// As a list of their names.
pub(crate) fn serialize_names<T: Named, S: Serializer>(list: &[&'static T], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(list.iter().map(|one| one.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Letter(&'static str);

    impl Named for Letter {
        fn name(&self) -> &'static str {
            self.0
        }
    }

    static LETTERS: [Letter; 2] = [Letter("alpha"), Letter("beta")];

    #[test]
    fn unknown_names_are_refused_with_those_there_are_and_double_ones_too() {
        let read = |name| one_of(&LETTERS, "letter", name).map(Named::name);
        assert_eq!(read(" beta"), Ok("beta"));
        assert_eq!(read("gamma"), Err("no letter \"gamma\"; choose from alpha, beta".to_string()));
        assert!(read("").is_err());
        let [alpha, beta] = &LETTERS;
        assert!(each_once("letters", &[alpha, beta]).is_ok());
        let error = each_once("letters", &[alpha, beta, alpha]).unwrap_err();
        assert!(error.to_string().contains("--letters: alpha"), "{error}");
    }
}
