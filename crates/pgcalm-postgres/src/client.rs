//! A session in which no wait is endless.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use pgcalm_host::stop;
use postgres::types::ToSql;
use postgres::{Error, NoTls, Row, Statement, ToStatement};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime;
use tokio::runtime::Runtime;
use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{Config, Socket};

/// How often a wait looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// For the farewell to the server.
const FAREWELL: Duration = Duration::from_millis(100);

/// A session with a server, as `postgres::Client` is one; but no call waits longer than the session may, nor after a
/// signal has asked this process to end ([`stop::is_asked_for`]).
///
/// A server that is stopped, and one whose host is gone, answer nothing, and none of the server's own time limits then
/// counts. A call that was given up fails with an `io::Error` of kind `TimedOut` or `Interrupted` as its cause, and ends the
/// session: [`is_lost`](crate::is_lost).
pub struct Client {
    // Dropped first: the connection then says farewell.
    client: tokio_postgres::Client,
    connection: Connection,
    /// `server_version`, which the server tells before it is asked anything.
    pub(crate) server_version: String,
}

type Traffic = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

struct Connection {
    runtime: Runtime,
    /// What carries questions and answers; `None` once it has ended.
    traffic: Option<Traffic>,
    /// Longest time of a call.
    longest: Option<Duration>,
}

impl Client {
    /// Connects to a host; that itself has the limits of `config`.
    pub(crate) fn connect<T>(config: &Config, tls: T, longest: Option<Duration>) -> Result<Self, Error>
    where
        T: MakeTlsConnect<Socket>,
        T::Stream: Send + 'static,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return Err(failure(error)),
        };
        let (client, traffic) = runtime.block_on(config.connect(tls))?;
        let server_version = traffic.parameter("server_version").unwrap_or_default().to_string();
        let connection = Connection { runtime, traffic: Some(Box::pin(traffic)), longest };
        Ok(Self { client, connection, server_version })
    }

    /// The rows that a statement gives.
    pub fn query<T>(&mut self, query: &T, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error>
    where
        T: ?Sized + ToStatement,
    {
        self.connection.wait(self.client.query(query, params))
    }

    /// The only row; any other number is an error.
    pub fn query_one<T>(&mut self, query: &T, params: &[&(dyn ToSql + Sync)]) -> Result<Row, Error>
    where
        T: ?Sized + ToStatement,
    {
        self.connection.wait(self.client.query_one(query, params))
    }

    /// The row, if there is one; more are an error.
    pub fn query_opt<T>(&mut self, query: &T, params: &[&(dyn ToSql + Sync)]) -> Result<Option<Row>, Error>
    where
        T: ?Sized + ToStatement,
    {
        self.connection.wait(self.client.query_opt(query, params))
    }

    /// Runs a statement; how many rows it has changed.
    pub fn execute<T>(&mut self, query: &T, params: &[&(dyn ToSql + Sync)]) -> Result<u64, Error>
    where
        T: ?Sized + ToStatement,
    {
        self.connection.wait(self.client.execute(query, params))
    }

    /// Runs statements without parameters.
    pub fn batch_execute(&mut self, query: &str) -> Result<(), Error> {
        self.connection.wait(self.client.batch_execute(query))
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, query: &str) -> Result<Statement, Error> {
        self.connection.wait(self.client.prepare(query))
    }

    /// From here on a call is given up after this time.
    pub fn wait_at_most(&mut self, longest: Duration) {
        self.connection.longest = Some(longest);
    }

    /// Whether the session is known to have ended.
    pub fn is_closed(&self) -> bool {
        self.connection.traffic.is_none() || self.client.is_closed()
    }
}

impl Connection {
    fn wait<T>(&mut self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let Self { runtime, traffic, longest } = self;
        let outcome = runtime.block_on(async {
            let mut call = pin!(call);
            let mut answer = poll_fn(|context| {
                if let Some(ended) = poll_traffic(traffic, context) {
                    // The server's last words tell more than that the session is closed.
                    ended?;
                }
                call.as_mut().poll(context)
            });
            let started = Instant::now();
            loop {
                // An answer that is there counts, also after a signal: what is taken down may need it.
                if let Ok(answer) = timeout(LOOK, &mut answer).await {
                    return Ok(answer);
                }
                if stop::is_asked_for() {
                    return Err(io::Error::new(
                        io::ErrorKind::Interrupted,
                        "a signal ended the wait for the server's answer",
                    ));
                }
                if let Some(longest) = longest.filter(|longest| started.elapsed() >= *longest) {
                    return Err(io::Error::new(
                        io::ErrorKind::TimedOut,
                        format!(
                            "no answer within {} s: is the server stopped, or its host gone?",
                            longest.as_secs_f64()
                        ),
                    ));
                }
            }
        });
        outcome.unwrap_or_else(|given_up| {
            self.traffic = None;
            Err(failure(given_up))
        })
    }
}

/// Its end, if that has come now.
fn poll_traffic(traffic: &mut Option<Traffic>, context: &mut Context<'_>) -> Option<Result<(), Error>> {
    let Poll::Ready(ended) = traffic.as_mut()?.as_mut().poll(context) else { return None };
    *traffic = None;
    Some(ended)
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(traffic) = self.traffic.take() {
            let _ = self.runtime.block_on(async { timeout(FAREWELL, traffic).await });
        }
    }
}

/// The library makes its errors itself: this one comes about where a connection breaks with `error`.
fn failure(error: io::Error) -> Error {
    let mut config = Config::new();
    // Else it asks the system for one.
    config.user("none");
    let mut attempt = pin!(config.connect_raw(Broken(Some(error)), NoTls));
    let mut context = Context::from_waker(std::task::Waker::noop());
    match attempt.as_mut().poll(&mut context) {
        Poll::Ready(Err(error)) => error,
        Poll::Ready(Ok(_)) | Poll::Pending => unreachable!("it fails at the first write"),
    }
}

/// A connection on which nothing can be said.
struct Broken(Option<io::Error>);

impl Broken {
    fn error(&mut self) -> io::Error {
        self.0.take().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

impl AsyncRead for Broken {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(self.error()))
    }
}

impl AsyncWrite for Broken {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(self.error()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Err(self.error()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::{is_lost, is_timed_out, with_cause};

    #[test]
    fn a_call_is_given_up_when_it_is_said_to() {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join(".s.PGSQL.5432")).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            // Let in, and ready; then nothing until the client goes away.
            stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let mut config = Config::new();
        config.host_path(directory.path()).user("none");
        let mut client = Client::connect(&config, NoTls, Some(Duration::from_secs(5))).unwrap();
        client.wait_at_most(Duration::from_millis(100));
        let error = client.batch_execute("SELECT 1").unwrap_err();
        assert!(is_timed_out(&error) && with_cause(&error).contains("within 0.1 s"), "{}", with_cause(&error));
        drop(client);
        server.join().unwrap();
    }

    #[test]
    fn an_error_of_this_side_is_the_librarys() {
        let error = failure(io::Error::new(io::ErrorKind::TimedOut, "no answer within 3 s"));
        assert!(is_lost(&error) && is_timed_out(&error));
        let text = with_cause(&error);
        assert!(text.ends_with("no answer within 3 s"), "{text}");
    }
}
