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
            return Err(unreadable("a word has no \"=\" after it; put a value with spaces into single quotes"));
        }
        skip_space(&mut rest);
        let value = value(&mut rest)?;
        store(&mut pairs, &name, value, true)?;
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
    let mut add = |name: &str, value: &str| match value {
        "" => Ok(()),
        value => store(&mut pairs, name, decode(value)?.into_owned(), false),
    };
    // Whatever else stands before the first "@", a "?" included, is of user and password.
    let (credentials, place) = match rest.find(['@', '/']) {
        Some(at) if rest[at..].starts_with('@') => (Some(&rest[..at]), &rest[at + 1..]),
        _ => (None, rest),
    };
    if let Some(credentials) = credentials {
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        add("user", user)?;
        add("password", password)?;
    }
    let (hosts, ports, rest) = hosts_and_ports(place)?;
    let (database, query) = match rest.strip_prefix('/') {
        Some(path) => path.split_once('?').map_or((path, None), |(database, query)| (database, Some(query))),
        None => ("", rest.strip_prefix('?')),
    };
    // Else the rest of a password would pass for a host or a database, and be shown as one.
    let may_be_cut = credentials.is_some() || !ports.is_empty();
    if hosts.contains('@') || ports.contains('@') || may_be_cut && database.contains('@') {
        return Err(unreadable(
            "there is more than one \"@\", or a \"/\" before it: write @ as %40, / as %2F and : as %3A in user and password",
        ));
    }
    add("host", &hosts)?;
    add("port", &ports)?;
    add("dbname", database)?;
    let mut rest = query.unwrap_or_default();
    let is_clear = !rest.contains('@');
    while !rest.is_empty() {
        let (parameter, next) = rest.split_once('&').unwrap_or((rest, ""));
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
        store(&mut pairs, name, value.into_owned(), is_clear)?;
        rest = next;
    }
    Ok(pairs)
}

/// Lists of both, and what follows them.
fn hosts_and_ports(place: &str) -> Result<(String, String, &str), ConnectError> {
    let (mut hosts, mut ports) = (String::new(), String::new());
    let mut rest = place;
    loop {
        let until = |text: &str, ends: &[char]| text.find(ends).unwrap_or(text.len());
        let (host, after) = match rest.strip_prefix('[') {
            None => rest.split_at(until(rest, &[':', '/', '?', ','])),
            Some(address) => match address.split_once(']') {
                Some(("", _)) | None => {
                    return Err(unreadable("an IPv6 address is not in brackets, as in [::1]:5432"));
                }
                Some((address, after)) if after.is_empty() || after.starts_with([':', '/', '?', ',']) => {
                    (address, after)
                }
                Some(_) => return Err(unreadable("an IPv6 address is followed by no port")),
            },
        };
        hosts.push_str(host);
        let (port, after) = match after.strip_prefix(':') {
            Some(after) => after.split_at(until(after, &['/', '?', ','])),
            None => ("", after),
        };
        ports.push_str(port);
        let Some(next) = after.strip_prefix(',') else { return Ok((hosts, ports, after)) };
        hosts.push(',');
        ports.push(',');
        rest = next;
    }
}

/// Adds a parameter. `may_show`: its name, if there is none, is certainly no part of a password.
fn store(pairs: &mut Pairs, name: &str, value: String, may_show: bool) -> Result<(), ConnectError> {
    // Of version 7.4, and libpq still takes it.
    let (name, value) = match (name, value.starts_with('1')) {
        ("requiressl", true) => ("sslmode", "require".to_string()),
        ("requiressl", false) => ("sslmode", "prefer".to_string()),
        (name, _) => (name, value),
    };
    let keyword = keyword::find(name).ok_or_else(|| {
        // After "password=a b=c" this may be a part of the password.
        match may_show && !pairs.iter().any(|(keyword, _)| is_password(keyword.name)) {
            true => unreadable(&format!("there is no parameter {name:?}")),
            false => unreadable(
                "there is an unknown parameter; put a password with spaces into single quotes, and write @ as %40, \
                 / as %2F and ? as %3F in a URI's",
            ),
        }
    })?;
    // Somebody has separated parameters as another program has them, and this one's value would be shown.
    if !is_password(keyword.name) && has_password(&value) {
        return Err(unreadable(
            "there is a password= within another parameter's value: separate parameters by blanks, in a URI by &",
        ));
    }
    pairs.push((keyword, value));
    Ok(())
}

fn has_password(value: &str) -> bool {
    let mut text = value.to_ascii_lowercase();
    text.retain(|letter| !is_space(letter));
    text.contains("password=")
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
    // The last "@" of what can't be the query: a password with one that is not encoded is a password all the same.
    if let Some(first) = text[start..].find('@') {
        let end = text[start + first..].find('?').map_or(text.len(), |length| start + first + length);
        if let Some(length) = text[start..end].rfind('@')
            && let Some(colon) = text[start..start + length].find(':')
        {
            found.push(start + colon + 1..start + length);
        }
    }
    let query = text.find('?').unwrap_or(text.len());
    let mut at = query;
    for parameter in text[query..].split(['?', '&']) {
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

fn decode(text: &str) -> Result<Cow<'_, str>, ConnectError> {
    let digits_follow =
        text.split('%').skip(1).all(|part| part.len() >= 2 && part.as_bytes()[..2].iter().all(u8::is_ascii_hexdigit));
    match percent_decode_str(text).decode_utf8() {
        Ok(decoded) if digits_follow && !decoded.contains('\0') => Ok(decoded),
        _ => Err(unreadable("a \"%\" is not followed by two hexadecimal digits of UTF-8 text: write % as %25")),
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
mod tests;
