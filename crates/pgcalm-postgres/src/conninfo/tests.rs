//! What libpq makes of connection strings has to be made of them here, too: the expectation is its own.

use std::collections::BTreeMap;

use pgcalm_testkit::{libpq, need};

use super::*;

/// Of both kinds, good and bad. Of `secret` no message may show a part.
const STRINGS: [&str; 124] = [
    // Keywords and values.
    "",
    "   ",
    "host=db1",
    "host=db1 port=5433 user=me dbname=base",
    " host = a,b  user='x y' port=",
    "host\t=\ndb1\x0buser\r=\x0cme",
    "host=db1user=me",
    "host=a=b",
    "host==a",
    "host='a=b' user==",
    "=db1",
    "host",
    "host ",
    "host db1",
    "host db1=x",
    "host=",
    "host= user=me",
    "host='' user=me",
    "host=''user=me",
    "host='a'user='b'",
    "host='a''b'",
    "host=a'b",
    "host=a'b c'",
    "password=a\\ b\\\\ dbname='it\\'s'",
    "password=secret\\",
    "password='secret",
    "password='secret\\'",
    "password='secret\\",
    "password=se cret",
    "password=sec secret=1",
    "password='' user=''",
    "password=\"secret secret\"",
    "user=x password=sec secret",
    "passwd=x",
    "hots=db1",
    "HOST=db1",
    "host=a host=b",
    "host=a host=''",
    "user=a user=b user=c port=1 port=",
    "host=/run/postgresql",
    "host=/run/a,/run/b port=1,2",
    "host=@abstract",
    "host=::1",
    "hostaddr=fe80::1%eth0 host=x",
    "hostaddr=127.0.0.1,::1 port=1,",
    "options='-c geqo=off -c a=b'",
    "options=-c\\ geqo=off",
    "options=--search_path=a",
    "application_name='müller \\\\ co'",
    "sslmode=verify-full sslrootcert=system connect_timeout=3",
    "sslmode=nonsense",
    "port=nonsense",
    "connect_timeout=' 3 '",
    "requiressl=1",
    "requiressl=0",
    "service=there",
    "keepalives=0 keepalives_idle=1 tcp_user_timeout=5",
    "target_session_attrs=any gssencmode=disable channel_binding=prefer",
    "replication=database fallback_application_name=x client_encoding=auto",
    "dbname=postgresql://h/d",
    "dbname='host=x user=y'",
    " postgresql://h/d",
    "postgresql:/h/d",
    "POSTGRESQL://h/d",
    // URIs.
    "postgresql://",
    "postgres://",
    "postgresql:///",
    "postgresql:///base",
    "postgresql://?",
    "postgresql:///?",
    "postgresql://h",
    "postgresql://h/",
    "postgresql://h:1",
    "postgresql://h:/d",
    "postgresql://:1/d",
    "postgresql://h:1:2/d",
    "postgresql://h:x/d",
    "postgresql://h/d/e",
    "postgresql://h?user=x",
    "postgresql://h:1?user=x",
    "postgresql://h/d?user=x?y",
    "postgresql://u@h/d",
    "postgresql://u@",
    "postgresql://@h",
    "postgresql://:@h",
    "postgresql://u:@h",
    "postgresql://:secret@h",
    "postgresql://u:secret@h:1/d",
    "postgresql://u:sec?ret@h/d",
    "postgresql://u:sec?ret=a@h/d?sslmode=require",
    "postgresql://u:sec:ret@h/d",
    "postgresql://u:sec#ret,[x]@h/d",
    "postgresql://u?x@h/d",
    "postgresql://me%40x:p%3Aw%2F@db1:5433,[::1],db3:1/the%20base",
    "postgresql://u:secret%zz@h/d",
    "postgresql://u:secret%4@h/d",
    "postgresql://u:secret%00@h/d",
    "postgresql://u:%c3%a4ä@h/d",
    "postgresql://%68%6f%73%74:%31/%64",
    "postgresql://%2Frun%2Fpg:5433/d",
    "postgresql:///d?host=/run/pg&port=5433",
    "postgresql://a,b",
    "postgresql://a:1,b:2,c/d",
    "postgresql://a,/d",
    "postgresql://,",
    "postgresql://a,:5",
    "postgresql://[::1]",
    "postgresql://[::1]:5432/d",
    "postgresql://u@[::1]?port=1",
    "postgresql://[fe80::1%25eth0]/d",
    "postgresql://[fe80::1%eth0]/d",
    "postgresql://[::1",
    "postgresql://[]",
    "postgresql://[::1]x/d",
    "postgresql://::1/d",
    "postgresql://h/d?ssl=true",
    "postgresql://h/d?ssl=1",
    "postgresql://h/d?sslmode=disable&application_name=a%26b%3Dc",
    "postgresql://u:secret@h/d?nonsense",
    "postgresql://h/d?nonsense=1",
    "postgresql://h/d?a=b=c",
    "postgresql://h/d?user=&port=",
    "postgresql://h/d?user=x&",
    "postgresql://h/d?&user=x",
];

#[test]
fn strings_mean_what_they_mean_to_libpq() {
    if !need::met("libpq's connection strings", &[need::LIBPQ]) {
        return;
    }
    let mut wrong = Vec::new();
    for text in STRINGS {
        let here = parse(text);
        if let Err(error) = &here {
            let message = error.to_string();
            for part in ["sec", "cret", "ret"] {
                assert!(!message.contains(part), "{text}: {message}");
            }
            assert!(message.contains("give e.g."), "{message}");
        }
        let here = here.ok().map(|pairs| -> BTreeMap<String, String> {
            let pairs = pairs.into_iter();
            pairs.map(|(keyword, value)| (keyword.name.to_string(), value)).collect()
        });
        let there = libpq::parse(text);
        if here != there.clone().ok() {
            wrong.push(format!("{text:?}: here {here:?}, there {there:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// libpq takes these, and fails later with a part of the password as a host's, a parameter's or a database's name.
#[test]
fn what_may_be_a_password_in_the_wrong_place_is_refused() {
    for text in [
        "postgresql://x:se@secret@db1/base",
        "postgresql://x:12/secret@db1/base",
        "postgresql://x:12/12?secret=1@db1/base",
        "postgresql://x:12/12?secret@db1/base",
        "host=db1;password=secret",
        "host=db1 user='x,Password = secret'",
        "postgresql://h/d;password=secret",
        "postgresql://x:1@h/12?options=password=secret",
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{text}: {error}");
        assert!(error.contains("give e.g."), "{error}");
    }
    let error = parse("hots=db1").unwrap_err().to_string();
    assert!(error.contains("\"hots\""), "{error}");
    // These are none.
    for text in ["postgresql://h/d@x", "host=a dbname=a@b"] {
        assert!(parse(text).is_ok(), "{text}");
    }
}

#[test]
fn passwords_are_found_where_they_are() {
    for (text, expected) in [
        ("user=x password = 'a b\\'c' host=y", vec!["'a b\\'c'"]),
        ("password=a\\ b sslpassword=c", vec!["a\\ b", "c"]),
        ("what password='a b", vec!["'a b"]),
        ("password=", vec![""]),
        ("passfile=a", vec![]),
        ("postgresql://u:a@b@h/d?password=c&pass%77ord=d#", vec!["a@b", "c", "d#"]),
        ("postgresql://u:a?b@h/d?password=c", vec!["a?b", "c"]),
        ("postgresql://u:a/b?c@h/d", vec!["a/b?c"]),
        ("postgres://u@h:1/d", vec![]),
    ] {
        let found: Vec<&str> = passwords(text).into_iter().map(|range| &text[range]).collect();
        assert_eq!(found, expected, "{text}");
    }
}
