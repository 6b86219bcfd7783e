//! Services of pg_service.conf: parameters under a name (`parseServiceInfo` of fe-connect.c).

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::conninfo::Pairs;
use crate::environment::Environment;
use crate::error::ConnectError;
use crate::keyword;

/// A service, and the file that has it.
#[derive(Debug)]
pub(crate) struct Service {
    pub file: PathBuf,
    pub pairs: Pairs,
}

/// Looks for a service in the file that was named, else in ~/.pg_service.conf; then in that of the system.
pub(crate) fn look_up(
    service: &str,
    named: Option<PathBuf>,
    environment: &Environment,
) -> Result<Service, ConnectError> {
    let is_named = named.is_some();
    let mut looked = Vec::new();
    let own = named.or_else(|| environment.in_home(".pg_service.conf"));
    let places = own.map(|file| (file, is_named)).into_iter().chain([(environment.system_service_file(), false)]);
    for (file, must_be) in places {
        let text = match fs::read(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_be => {
                looked.push(format!("{} (not there)", file.display()));
                continue;
            }
            Err(error) => {
                return Err(ConnectError::Parameters(format!(
                    "service {service}: read {}: {error}: name the service file with PGSERVICEFILE",
                    file.display()
                )));
            }
        };
        if let Some(pairs) = find(&text, service, &file)? {
            return Ok(Service { file, pairs });
        }
        looked.push(file.display().to_string());
    }
    Err(ConnectError::Parameters(format!(
        "service {service}: there is no [{service}] in {}: add it, or name another file with PGSERVICEFILE",
        looked.join(" and ")
    )))
}

/// The parameters of a service; `None` if the text has none of that name. Only its parameters have to be UTF-8.
fn find(text: &[u8], service: &str, file: &Path) -> Result<Option<Pairs>, ConnectError> {
    let mut found: Option<Pairs> = None;
    for (number, line) in text.split(|byte| *byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        // The values may be passwords: a message has the number only.
        let wrong = |reason: String| {
            ConnectError::Parameters(format!("service {service}: line {} of {}: {reason}", number + 1, file.display()))
        };
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        if let Some(header) = line.strip_prefix(b"[") {
            if found.is_some() {
                break;
            }
            let is_it = header.strip_prefix(service.as_bytes()).is_some_and(|rest| rest.starts_with(b"]"));
            found = is_it.then(Pairs::new);
            continue;
        }
        let Some(pairs) = &mut found else { continue };
        let Ok(line) = std::str::from_utf8(line) else {
            return Err(wrong("is no UTF-8: write it in UTF-8".to_string()));
        };
        if line.starts_with("ldap") {
            return Err(wrong("LDAP is not supported: write the parameters here".to_string()));
        }
        let Some((name, value)) = line.split_once('=') else {
            return Err(wrong("no \"=\": write parameter=value".to_string()));
        };
        if name == "service" || name == "servicefile" {
            return Err(wrong("a service can't refer to another".to_string()));
        }
        let Some(keyword) = keyword::find(name) else {
            return Err(wrong(format!("there is no parameter {name:?} (no blanks around \"=\")")));
        };
        // Of several the first holds, as with libpq.
        if !pairs.iter().any(|(known, _)| known.name == name) {
            pairs.push((keyword, value.to_string()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# servers\n[one]\nhost=db1\n\n[two]\n host=db2  \nport=5433\nhost=db3\npassword=a=b #c\n[two]\nport=1\n";

    fn values(text: &str, service: &str) -> Result<Vec<(&'static str, String)>, String> {
        let pairs = find(text.as_bytes(), service, Path::new("f")).map_err(|error| error.to_string())?;
        let pairs = pairs.ok_or("no such service")?;
        Ok(pairs.into_iter().map(|(keyword, value)| (keyword.name, value)).collect())
    }

    #[test]
    fn a_service_ends_where_the_next_begins() {
        let one = values(TEXT, "one").unwrap();
        assert_eq!(one, [("host", "db1".to_string())]);
        let two = values(TEXT, "two").unwrap();
        let expected = [("host", "db2"), ("port", "5433"), ("password", "a=b #c")];
        assert_eq!(two, expected.map(|(name, value)| (name, value.to_string())));
        assert_eq!(values(TEXT, "tw").unwrap_err(), "no such service");
    }

    #[test]
    fn a_wrong_line_is_named_and_not_shown() {
        let error = values("[a]\nhost=x\nsecret\n", "a").unwrap_err();
        assert!(error.contains("line 3 of f"), "{error}");
        assert!(!error.contains("secret"), "{error}");
        // Of other services nothing is looked at.
        assert!(values("[b]\nnonsense\n[a]\nhost=x\n", "a").is_ok());
        assert!(values("[a]\nservice=b\n", "a").is_err());
        assert!(values("[a]\nldap://x\n", "a").is_err());
        assert!(values("[a]\nhots=x\n", "a").unwrap_err().contains("\"hots\""));
    }

    #[test]
    fn only_the_parameters_of_the_service_have_to_be_utf8() {
        let find = |text: &[u8]| find(text, "a", Path::new("f"));
        let text = b"# caf\xe9\n[\xe9]\nuser=\xe9\n[a]\n# \xe9\nhost=x\n[b]\nuser=\xe9\n";
        assert_eq!(find(text).unwrap().unwrap()[0].1, "x");
        let error = find(b"[a]\ndbname=caf\xe9\n").unwrap_err().to_string();
        assert!(error.contains("line 2 of f: is no UTF-8"), "{error}");
    }

    #[test]
    fn files_are_looked_through_in_order() {
        let home = tempfile::tempdir().unwrap();
        let system = tempfile::tempdir().unwrap();
        fs::write(home.path().join(".pg_service.conf"), "[a]\nhost=home\n").unwrap();
        fs::write(system.path().join("pg_service.conf"), "[a]\nhost=system\n[b]\nhost=system\n").unwrap();
        let mut environment = Environment {
            variables: [("PGSYSCONFDIR".to_string(), system.path().as_os_str().to_os_string())].into(),
            home: Some(home.path().to_path_buf()),
            uid: 1,
            user: None,
        };
        let host = |service: &str, named: Option<PathBuf>, environment: &Environment| {
            look_up(service, named, environment).map(|service| service.pairs[0].1.clone())
        };
        assert_eq!(host("a", None, &environment).unwrap(), "home");
        assert_eq!(host("b", None, &environment).unwrap(), "system");
        let error = host("c", None, &environment).unwrap_err().to_string();
        assert!(error.contains("[c]") && error.contains(".pg_service.conf"), "{error}");
        let missing = home.path().join("missing");
        let error = host("a", Some(missing), &environment).unwrap_err().to_string();
        assert!(error.contains("missing"), "{error}");
        environment.home = None;
        assert_eq!(host("a", None, &environment).unwrap(), "system");
    }
}
