//! `GET /metrics` and `GET /alive`.
//!
//! Each connection carries one request: nothing that stands behind it is ever taken for another one, whatever a proxy before this
//! made of its length.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, thread};

use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use percent_encoding::percent_decode_str;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::export::alive::Lives;
use crate::metrics;
use pgcalm_host::Failure;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// What there is, for who asks for something else.
const PATHS: &str = "the metrics are at /metrics, whether servers are alive is at /alive\n";

/// Where the latest sample is old.
const NO_SAMPLE: &str = "no sample for a long time: does the volume of --record hang?\n";

/// Connections at a time; one more takes the place of the oldest, of those first that have asked nothing: no probe of a server
/// may wait for clients that say nothing.
const CONNECTIONS: usize = 64;

/// How long a client may take to ask.
const REQUEST: Duration = Duration::from_secs(2);

/// How long a connection may take.
const CONNECTION: Duration = Duration::from_secs(5);

/// How long the end waits for answers that are being written.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// How long it waits after a failure to accept, as without file descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// A thread that answers; dropping it ends it.
#[derive(Debug)]
pub(super) struct Listener {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listener {
    /// Starts answering with what the monitor has.
    pub(super) fn start(address: SocketAddr, lives: &Arc<Lives>) -> Result<Self, Failure> {
        let bind = || {
            let listener = bound(address, std::net::TcpListener::bind)?;
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        };
        let (address, listener) = bind().map_err(|error: io::Error| {
            // At a boot the host may not have it yet, and another program may have the port for a moment.
            Failure::Host(format!("--listen {address}: {error}; give an address of this host and a port that is free"))
        })?;
        let failed = |error| Failure::Host(format!("start a thread: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let listener = {
            let _within = runtime.enter();
            TcpListener::from_std(listener).map_err(failed)?
        };
        let (stop, stopped) = oneshot::channel();
        let lives = Arc::clone(lives);
        let thread = thread::Builder::new()
            .name("pgcalm http".to_string())
            .spawn(move || runtime.block_on(serve(listener, lives, stopped)))
            .map_err(failed)?;
        Ok(Self { address, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        drop(self.stop.take());
        // It has bounds on all that it waits for.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Listens by `bind`. A kernel without IPv6 (ipv6.disable=1) does not know `[::]`, which is all addresses of either kind.
fn bound<T>(address: SocketAddr, bind: impl Fn(SocketAddr) -> io::Result<T>) -> io::Result<T> {
    let unknown = Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error());
    match bind(address) {
        Err(error) if address.ip() == Ipv6Addr::UNSPECIFIED && error.raw_os_error() == unknown => {
            bind((Ipv4Addr::UNSPECIFIED, address.port()).into())
        }
        other => other,
    }
}

/// Accepts connections until `stopped`.
async fn serve(listener: TcpListener, lives: Arc<Lives>, mut stopped: oneshot::Receiver<()>) {
    let graceful = GracefulShutdown::new();
    // The oldest first, with whether it has asked.
    let mut open: VecDeque<(AbortHandle, Arc<AtomicBool>)> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => break,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        open.retain(|(task, _)| !task.is_finished());
        if open.len() >= CONNECTIONS {
            let idle = open.iter().position(|(_, asked)| !asked.load(Ordering::Relaxed));
            if let Some((task, _)) = open.remove(idle.unwrap_or(0)) {
                task.abort();
            }
        }
        let (lives, asked) = (Arc::clone(&lives), Arc::new(AtomicBool::new(false)));
        let asks = Arc::clone(&asked);
        let service = service_fn(move |request| {
            asks.store(true, Ordering::Relaxed);
            answer(request, Arc::clone(&lives))
        });
        let connection = http1::Builder::new()
            .keep_alive(false)
            .timer(TokioTimer::new())
            .header_read_timeout(REQUEST)
            .serve_connection(TokioIo::new(stream), service);
        let connection = timeout(CONNECTION, graceful.watch(connection));
        // A client that has gone away needs no answer.
        open.push_back((tokio::spawn(async move { drop(connection.await) }).abort_handle(), asked));
        // So that what it has asked already is read before its place may be taken.
        tokio::task::yield_now().await;
    }
    let _ = timeout(LAST_ANSWERS, graceful.shutdown()).await;
}

fn answer<B>(request: Request<B>, lives: Arc<Lives>) -> impl Future<Output = Result<Response<String>, Infallible>> {
    let response = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => Some(match lives.monitor().fresh() {
            None => text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, NO_SAMPLE.to_string()),
            Some(host) if accepts(&request, "application/openmetrics-text") => {
                text(StatusCode::OK, OPENMETRICS, metrics::openmetrics(&host))
            }
            Some(host) => text(StatusCode::OK, CLASSIC, metrics::classic(&host)),
        }),
        (&Method::GET | &Method::HEAD, "/alive") => None,
        (&Method::GET | &Method::HEAD, "/") => Some(text(StatusCode::OK, PLAIN, format!("pgcalm export: {PATHS}"))),
        (&Method::GET | &Method::HEAD, _) => Some(text(StatusCode::NOT_FOUND, PLAIN, format!("not found; {PATHS}"))),
        _ => Some(text(StatusCode::METHOD_NOT_ALLOWED, PLAIN, "only GET and HEAD\n".to_string())),
    };
    let json = accepts(&request, JSON);
    // A name has slashes and colons, which clients may encode: one that is not found would be taken for gone.
    let server = request.uri().query().and_then(|query| query.split('&').find_map(|one| one.strip_prefix("server=")));
    let server = server.map(|name| percent_decode_str(name).decode_utf8_lossy().into_owned());
    async move {
        match response {
            Some(response) => Ok(response),
            None => Ok(alive(&lives, server.as_deref(), json).await),
        }
    }
}

async fn alive(lives: &Arc<Lives>, server: Option<&str>, json: bool) -> Response<String> {
    let alive = lives.ask(server).await;
    let status = if alive.alive { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    match serde_json::to_string(&alive) {
        Ok(document) if json => text(status, JSON, document + "\n"),
        _ => text(status, PLAIN, alive.to_string()),
    }
}

/// Whether it asks for this format by name, as Prometheus does for OpenMetrics; others get the plainer one.
fn accepts<B>(request: &Request<B>, format: &str) -> bool {
    let accepted = request.headers().get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.into_iter().any(|value| value.contains(format))
}

fn text(status: StatusCode, kind: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::{IncidentSource, Monitor, Options};

    fn monitor(incidents: Option<IncidentSource>) -> Arc<Monitor> {
        let connect = vec!["host=127.0.0.1 port=1 user=none".to_string()];
        Arc::new(Monitor::start(Options { connect, incidents, ..Options::default() }).unwrap())
    }

    fn listens(monitor: Arc<Monitor>) -> Listener {
        Listener::start("127.0.0.1:0".parse().unwrap(), &Arc::new(Lives::new(monitor, None))).unwrap()
    }

    fn listener() -> Listener {
        listens(monitor(None))
    }

    #[test]
    fn without_ipv6_all_addresses_are_those_of_ipv4() {
        let without_ipv6 = |address: SocketAddr| match address {
            SocketAddr::V4(_) => Ok(address.to_string()),
            SocketAddr::V6(_) => Err(rustix::io::Errno::AFNOSUPPORT.into()),
        };
        assert_eq!(bound("[::]:9187".parse().unwrap(), without_ipv6).unwrap(), "0.0.0.0:9187");
        bound("[::1]:9187".parse().unwrap(), without_ipv6).unwrap_err();
    }

    #[test]
    fn a_sample_that_is_old_is_not_given_as_that_of_the_moment() {
        let ((asks, asked), (go, goes)) = (channel(), channel::<()>());
        let goes = Mutex::new(goes);
        let incidents = IncidentSource(Arc::new(move || {
            let _ = asks.send(());
            let _ = goes.lock().unwrap().recv();
            Vec::new()
        }));
        // For the first sample.
        go.send(()).unwrap();
        let monitor = monitor(Some(incidents));
        // Dropped before the monitor, which waits for its thread.
        let hold = go;
        asked.iter().take(2).count();
        let listener = listens(Arc::clone(&monitor));
        let get = || said(&listener, "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert!(get().starts_with("HTTP/1.1 200 "));
        monitor.age();
        let old = get();
        assert!(old.starts_with("HTTP/1.1 503 ") && old.ends_with(NO_SAMPLE), "{old}");
        drop(hold);
        while !get().starts_with("HTTP/1.1 200 ") {
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// All that comes back until the connection is closed.
    fn said(listener: &Listener, request: &str) -> String {
        let mut stream = TcpStream::connect(listener.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        // What is closed while something unread is left is reset.
        let _ = stream.read_to_string(&mut text);
        text
    }

    #[test]
    fn what_stands_behind_a_request_is_not_taken_for_another_one() {
        let listener = listener();
        let hidden = "GET / HTTP/1.1\r\nHost: hidden\r\n\r\n";
        for headers in [
            format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", 5 + hidden.len()),
            "Transfer-Encoding : chunked\r\n".to_string(),
            format!("Content-Length: 0\r\nContent-Length: {}\r\n", hidden.len()),
            String::new(),
        ] {
            let text = said(&listener, &format!("GET /x HTTP/1.1\r\nHost: a\r\n{headers}\r\n0\r\n\r\n{hidden}"));
            assert!(!text.contains(PATHS) || text.contains(" 404 "), "{headers:?}: {text}");
            assert!(text.matches("HTTP/1.1 ").count() <= 1, "{headers:?}: {text}");
        }
    }

    #[test]
    fn each_request_gets_its_answer() {
        let listener = listener();
        // Those who connect and say nothing keep nobody waiting.
        let silent: Vec<TcpStream> =
            (0..CONNECTIONS).map(|_| TcpStream::connect(listener.address()).unwrap()).collect();
        let get = |path: &str, accept: &str| {
            said(&listener, &format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"))
        };
        let classic = get("/metrics?x=1", "*/*");
        assert!(classic.starts_with("HTTP/1.1 200 ") && classic.contains("version=0.0.4"), "{classic}");
        let open = get("/metrics", "text/plain, application/openmetrics-text;version=1.0.0");
        assert!(open.contains("version=1.0.0") && open.ends_with("# EOF\n"), "{open}");
        assert!(get("/", "*/*").ends_with(PATHS));
        let none = get("/alive?server=nowhere", "*/*");
        assert!(none.starts_with("HTTP/1.1 503 ") && none.ends_with("no such server runs here\n"), "{none}");
        let json = get("/alive?server=nowhere", "application/json");
        assert!(json.ends_with("{\"alive\":false,\"servers\":[]}\n"), "{json}");
        let encoded = get("/alive?x=1&server=127.0.0.1%3A1", "*/*");
        assert!(encoded.contains("127.0.0.1:1: gone"), "{encoded}");
        assert!(get("/other", "*/*").starts_with("HTTP/1.1 404 "));
        let close = "Host: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        assert!(said(&listener, &format!("POST /metrics HTTP/1.1\r\n{close}")).starts_with("HTTP/1.1 405 "));
        let head = said(&listener, &format!("HEAD /metrics HTTP/1.1\r\n{close}"));
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
        // And each ends, also those in whose place nobody came.
        for mut stream in silent {
            stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            assert!(!matches!(stream.read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock));
        }
    }
}
