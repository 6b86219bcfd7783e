//! Reading a connection string of libpq's, in either form (`conninfo_parse` and `conninfo_uri_parse` of fe-connect.c).
//!
//! No message repeats a value, nor a word that may be part of a password.

use std::borrow::Cow;
use std::iter::Peekable;
use std::ops::Range;
use std::str::Chars;

use percent_encoding::percent_decode_str;

use crate::error::ConnectError;
use crate::keyword;
use crate::keyword::Keyword;

const SCHEMES: [&str; 2] = ["postgresql://", "postgres://"];

/// Parameters in the order given; of several of one name the last holds.
pub(crate) type Pairs = Vec<(&'static Keyword, String)>;

/// Reads `host=db1 user=monitor` or `postgresql://monitor@db1`.
pub(crate) fn parse(text: &str) -> Result<Pairs, ConnectError> {
    match SCHEMES.iter().find_map(|scheme| text.strip_prefix(scheme)) {
        Some(rest) => parse_uri(rest),
        None => parse_keywords(text),
    }
}

fn parse_keywords(text: &str) -> Result<Pairs, ConnectError> {
    let mut pairs = Pairs::new();
    let mut rest = text.chars().peekable();
    loop {
        skip_space(&mut rest);
        if rest.peek().is_none() {
            return Ok(pairs);
        }
        let mut name = String::new();
        while let Some(letter) = rest.next_if(|letter| *letter != '=' && !is_space(*letter)) {
            name.push(letter);
        }
        skip_space(&mut rest);
        if rest.next() != Some('=') {
            return Err(unreadable(
                "a word has no \"=\" after it; put a value with spaces into single quotes",
            ));
        }
        skip_space(&mut rest);
        let value = value(&mut rest)?;
        pairs.push((known(&name, &pairs)?, value));
    }
}

/// A value, to its end: the next blank, or the closing quote.
fn value(rest: &mut Peekable<Chars>) -> Result<String, ConnectError> {
    let quoted = rest.next_if_eq(&'\'').is_some();
    let mut value = String::new();
    loop {
        match rest.next() {
            None if quoted => return Err(unreadable("a quoted value has no closing quote")),
            None => return Ok(value),
            Some('\'') if quoted => return Ok(value),
            Some(letter) if !quoted && is_space(letter) => return Ok(value),
            Some('\\') => value.extend(rest.next()),
            Some(letter) => value.push(letter),
        }
    }
}

fn parse_uri(rest: &str) -> Result<Pairs, ConnectError> {
    let mut pairs = Pairs::new();
    let mut add = |name: &str, value: &str| -> Result<(), ConnectError> {
        if !value.is_empty() {
            pairs.push((known(name, &pairs)?, decode(value)?.into_owned()));
        }
        Ok(())
    };
    let (authority, query) = match rest.split_once('?') {
        Some((authority, query)) => (authority, Some(query)),
        None => (rest, None),
    };
    let (authority, database) = match authority.split_once('/') {
        Some((authority, database)) => (authority, database),
        None => (authority, ""),
    };
    let hosts = match authority.split_once('@') {
        Some((credentials, hosts)) => {
            let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
            add("user", user)?;
            add("password", password)?;
            hosts
        }
        None => authority,
    };
    // Else the rest of a password would pass for a host or a database, and be shown as one.
    if hosts.contains('@') || database.contains('@') {
        return Err(unreadable(
            "there is more than one \"@\", or a \"/\" before it: write @ as %40, / as %2F and : as %3A in user and password",
        ));
    }
    let mut names = Vec::new();
    let mut ports = Vec::new();
    for place in hosts.split(',') {
        let (name, port) = host_and_port(place)?;
        names.push(name);
        ports.push(port);
    }
    let joined = |parts: Vec<&str>| match parts.iter().all(|part| part.is_empty()) {
        true => String::new(),
        false => parts.join(","),
    };
    add("host", &joined(names))?;
    add("port", &joined(ports))?;
    add("dbname", database)?;
    for parameter in query.unwrap_or_default().split('&') {
        if parameter.is_empty() {
            continue;
        }
        let (name, value) = match parameter.split_once('=') {
            Some((_, value)) if value.contains('=') => {
                return Err(unreadable("a parameter after \"?\" has two \"=\""));
            }
            Some(parts) => parts,
            None => return Err(unreadable("a parameter after \"?\" has no \"=\"")),
        };
        let (name, value) = (decode(name)?, decode(value)?);
        // As libpq has it, for URIs made for JDBC.
        let (name, value) = match (&*name, &*value) {
            ("ssl", "true") => ("sslmode", Cow::Borrowed("require")),
            (name, _) => (name, value),
        };
        let keyword = known(name, &pairs)?;
        pairs.push((keyword, value.into_owned()));
    }
    Ok(pairs)
}

/// Where the passwords are in a connection string, also in one that can't be read.
pub(crate) fn passwords(text: &str) -> Vec<Range<usize>> {
    match SCHEMES.iter().find(|scheme| text.starts_with(**scheme)) {
        Some(scheme) => passwords_in_uri(text, scheme.len()),
        None => passwords_in_keywords(text.as_bytes()),
    }
}

fn passwords_in_uri(text: &str, start: usize) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let authority_end = text.find('?').unwrap_or(text.len());
    // The last one: a password with an "@" that is not encoded is one all the same.
    if let Some(length) = text[start..authority_end].rfind('@')
        && let Some(colon) = text[start..start + length].find(':')
    {
        found.push(start + colon + 1..start + length);
    }
    let mut at = authority_end;
    for parameter in text[authority_end..].split(['?', '&']) {
        if let Some((name, value)) = parameter.split_once('=')
            && decode(name).is_ok_and(|name| is_password(&name))
        {
            let end = at + parameter.len();
            found.push(end - value.len()..end);
        }
        at += parameter.len() + 1;
    }
    found
}

/// All that this looks for is ASCII, and no part of another character.
fn passwords_in_keywords(text: &[u8]) -> Vec<Range<usize>> {
    let skip = |at: &mut usize, wanted: &dyn Fn(u8) -> bool| {
        let start = *at;
        while text.get(*at).is_some_and(|byte| wanted(*byte)) {
            *at += 1;
        }
        start..*at
    };
    let blank = |byte: u8| is_space(byte.into());
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        skip(&mut at, &blank);
        let name = skip(&mut at, &|byte| byte != b'=' && !blank(byte));
        skip(&mut at, &blank);
        if text.get(at) != Some(&b'=') {
            continue;
        }
        at += 1;
        skip(&mut at, &blank);
        let start = at;
        let is_quoted = text.get(at) == Some(&b'\'');
        at += usize::from(is_quoted);
        while let Some(byte) = text.get(at) {
            match byte {
                b'\\' => at += 1,
                b'\'' if is_quoted => break,
                byte if !is_quoted && blank(*byte) => break,
                _ => {}
            }
            at += 1;
        }
        at = (at + usize::from(is_quoted)).min(text.len());
        if std::str::from_utf8(&text[name]).is_ok_and(is_password) {
            found.push(start..at);
        }
    }
    found
}

fn is_password(name: &str) -> bool {
    name == "password" || name == "sslpassword"
}

fn host_and_port(place: &str) -> Result<(&str, &str), ConnectError> {
    let Some(address) = place.strip_prefix('[') else {
        return Ok(place.split_once(':').unwrap_or((place, "")));
    };
    match address.split_once(']') {
        Some(("", _)) | None => Err(unreadable(
            "an IPv6 address is not in brackets, as in [::1]:5432",
        )),
        Some((address, "")) => Ok((address, "")),
        Some((address, port)) => match port.strip_prefix(':') {
            Some(port) => Ok((address, port)),
            None => Err(unreadable("an IPv6 address is followed by no port")),
        },
    }
}

fn known(name: &str, before: &Pairs) -> Result<&'static Keyword, ConnectError> {
    keyword::find(name).ok_or_else(|| {
        // After "password=a b=c" this may be a part of the password.
        match before.iter().any(|(keyword, _)| keyword.name == "password") {
            true => unreadable(
                "there is an unknown parameter; put a password with spaces into single quotes",
            ),
            false => unreadable(&format!("there is no parameter {name:?}")),
        }
    })
}

fn decode(text: &str) -> Result<Cow<'_, str>, ConnectError> {
    let digits_follow = text
        .split('%')
        .skip(1)
        .all(|part| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit));
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) if digits_follow && !decoded.contains('\0') => Ok(decoded),
        _ => Err(unreadable(
            "a \"%\" is not followed by two hexadecimal digits of UTF-8 text: write % as %25",
        )),
    }
}

fn skip_space(rest: &mut Peekable<Chars>) {
    while rest.next_if(|letter| is_space(*letter)).is_some() {}
}

/// As `isspace` has it in the C locale.
fn is_space(letter: char) -> bool {
    letter.is_ascii_whitespace() || letter == '\x0b'
}

fn unreadable(reason: &str) -> ConnectError {
    ConnectError::Parameters(format!(
        "the connection string can't be read: {reason}; give e.g. \"host=db1.example user=monitor dbname=postgres\""
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(&'static str, String)> {
        parse(text)
            .unwrap()
            .into_iter()
            .map(|(keyword, value)| (keyword.name, value))
            .collect()
    }

    fn pairs(expected: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        expected
            .iter()
            .map(|(name, value)| (*name, value.to_string()))
            .collect()
    }

    #[test]
    fn keywords_and_values() {
        assert_eq!(
            read(" host = a,b  user='x y' password=a\\ b\\\\ dbname='it\\'s' port="),
            pairs(&[
                ("host", "a,b"),
                ("user", "x y"),
                ("password", "a b\\"),
                ("dbname", "it's"),
                ("port", "")
            ])
        );
        assert_eq!(read("  "), []);
    }

    #[test]
    fn uris() {
        assert_eq!(
            read(
                "postgresql://me%40x:p%3Aw@db1:5433,[::1],db3:1/the%20base?sslmode=verify-full&connect_timeout=3"
            ),
            pairs(&[
                ("user", "me@x"),
                ("password", "p:w"),
                ("host", "db1,::1,db3"),
                ("port", "5433,,1"),
                ("dbname", "the base"),
                ("sslmode", "verify-full"),
                ("connect_timeout", "3"),
            ])
        );
        assert_eq!(
            read("postgres:///base?host=/run/pg&ssl=true"),
            pairs(&[
                ("dbname", "base"),
                ("host", "/run/pg"),
                ("sslmode", "require")
            ])
        );
        assert_eq!(
            read("postgresql://%2Frun%2Fpg"),
            pairs(&[("host", "/run/pg")])
        );
        assert_eq!(read("postgresql://"), []);
    }

    #[test]
    fn passwords_are_found_where_they_are() {
        for (text, expected) in [
            ("user=x password = 'a b\\'c' host=y", vec!["'a b\\'c'"]),
            ("password=a\\ b sslpassword=c", vec!["a\\ b", "c"]),
            ("what password='a b", vec!["'a b"]),
            ("password=", vec![""]),
            ("passfile=a", vec![]),
            (
                "postgresql://u:a@b@h/d?password=c&pass%77ord=d#",
                vec!["a@b", "c", "d#"],
            ),
            ("postgres://u@h:1/d", vec![]),
        ] {
            let found: Vec<&str> = passwords(text)
                .into_iter()
                .map(|range| &text[range])
                .collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn what_may_be_a_password_is_not_repeated() {
        for text in [
            "user=x password=sec secret",
            "user=x password=sec secret=1",
            "password='secret",
            "postgresql://x:se@secret@db1/base",
            "postgresql://x:12/secret@db1/base",
            "postgresql://x:secret%zz@db1/base",
            "postgresql://x:secret@db1/base?nonsense",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{text}: {error}");
            assert!(error.contains("give e.g."), "{error}");
        }
        let error = parse("hots=db1").unwrap_err().to_string();
        assert!(error.contains("\"hots\""), "{error}");
    }
}
