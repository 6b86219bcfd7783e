//! Whether anybody answers at an address, as `pg_isready` asks: no session comes about, and no password is sent.

use std::io;
use std::time::Duration;

use pgcalm_host::process_file;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

use crate::address::Address;
use crate::failure::Failure;
use crate::host::{Host, Literal, Place};

/// SQLSTATE of a server that starts, recovers or stops (`cannot_connect_now`).
const CANNOT_CONNECT_NOW: &str = "57P03";

/// Version 3.0 of the protocol.
const PROTOCOL: u32 = 3 << 16;

/// An answer longer than this is no refusal of a server's.
const LONGEST_ANSWER: usize = 16 << 10;

/// What came of asking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ping {
    /// It takes sessions, if maybe not of this role.
    Answers,
    /// It starts, recovers or stops; in its own words, which may be in any language.
    Rejects(String),
    /// It is there, and says nothing.
    Silent,
    /// Nobody listens there.
    Nobody(String),
    /// It can't be told, as with a network between that hands nothing on.
    Unknown(String),
}

impl Address {
    /// Asks the first host that anybody listens at. Takes no longer than `patience` for each.
    pub async fn ping(&self, patience: Duration) -> Ping {
        let mut last = Ping::Unknown("no host is named".to_string());
        for host in &self.hosts {
            last = self.ping_host(host, patience).await;
            if !matches!(last, Ping::Nobody(_) | Ping::Unknown(_)) {
                break;
            }
        }
        last
    }

    async fn ping_host(&self, host: &Host, patience: Duration) -> Ping {
        let asked = async {
            match &host.place {
                Place::Unix(directory) => {
                    // A server that was found may be in a container, and lie at another path than it says.
                    let found = self.postmaster.as_ref().filter(|_| self.is_found);
                    let socket = found.map(|postmaster| postmaster.socket(host.port)).transpose().map_err(reach)?;
                    let path = match &socket {
                        Some(socket) => process_file::handle(socket.handle()),
                        None => directory.join(format!(".s.PGSQL.{}", host.port)),
                    };
                    self.ask(UnixStream::connect(path).await?).await
                }
                Place::Tcp { name, address } => {
                    let name = address.as_ref().map_or(name.clone(), Literal::to_string);
                    self.ask(TcpStream::connect((name, host.port)).await?).await
                }
            }
        };
        match timeout(patience, asked).await {
            Ok(Ok(ping)) => ping,
            Ok(Err(error)) => match error.kind() {
                io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ping::Nobody(error.to_string()),
                // Its queue is full, since it accepts nobody.
                io::ErrorKind::WouldBlock => Ping::Silent,
                _ => Ping::Unknown(error.to_string()),
            },
            Err(_) if host.is_local() => Ping::Silent,
            Err(_) => Ping::Unknown(format!("no answer within {} ms", patience.as_millis())),
        }
    }

    /// Begins a session, and reads until it can be told what the server says. One that closes the connection has taken it before.
    async fn ask(&self, mut stream: impl AsyncRead + AsyncWrite + Unpin) -> io::Result<Ping> {
        stream.write_all(&self.startup()).await?;
        let mut got = Vec::new();
        loop {
            if let Some(ping) = judge(&got) {
                return Ok(ping);
            }
            if stream.read_buf(&mut got).await? == 0 {
                return Ok(Ping::Answers);
            }
        }
    }

    /// The first message of a session.
    fn startup(&self) -> Vec<u8> {
        let mut body = PROTOCOL.to_be_bytes().to_vec();
        for text in ["user", &self.user, "database", &self.database, ""] {
            body.extend(text.as_bytes());
            body.push(0);
        }
        let length = body.len() as u32 + 4;
        let mut message = length.to_be_bytes().to_vec();
        message.append(&mut body);
        message
    }
}

fn reach(failure: Failure) -> io::Error {
    match failure {
        Failure::Reach(error) => error,
        _ => io::ErrorKind::NotFound.into(),
    }
}

/// What a message says; `None` while it is not complete. An error is a row of fields: a letter, and a text that a zero ends.
fn judge(message: &[u8]) -> Option<Ping> {
    if message.first().is_some_and(|kind| *kind != b'E') {
        return Some(Ping::Answers);
    }
    let length = u32::from_be_bytes(message.get(1..5)?.try_into().ok()?) as usize;
    if length > LONGEST_ANSWER {
        return Some(Ping::Answers);
    }
    let fields = message.get(5..1 + length)?;
    let field = |letter: u8| {
        let mut texts = fields.split(|byte| *byte == 0).filter(|text| text.first() == Some(&letter));
        texts.next().map(|text| String::from_utf8_lossy(&text[1..]).into_owned())
    };
    match field(b'C').as_deref() {
        Some(CANNOT_CONNECT_NOW) => Some(Ping::Rejects(field(b'M').unwrap_or_default())),
        _ => Some(Ping::Answers),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(fields: &str) -> Vec<u8> {
        let mut message = vec![b'E'];
        message.extend((fields.len() as u32 + 4).to_be_bytes());
        message.extend(fields.as_bytes());
        message
    }

    #[test]
    fn a_server_that_starts_is_told_by_the_code_of_its_refusal() {
        let starts = error("SFATAL\0C57P03\0Mthe database system is starting up\0\0");
        assert_eq!(judge(&starts), Some(Ping::Rejects("the database system is starting up".to_string())));
        assert_eq!(judge(&starts[..20]), None);
        assert_eq!(judge(&error("SFATAL\0C53300\0Mtoo many clients\0\0")), Some(Ping::Answers));
        assert_eq!(judge(b"R\0\0\0\x08\0\0\0\0"), Some(Ping::Answers));
        assert_eq!(judge(b""), None);
    }
}
