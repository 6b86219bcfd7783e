//! `GET /metrics`.

use std::io::Cursor;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::thread;
use std::thread::JoinHandle;
use std::time::Duration;
use std::time::Instant;

use tiny_http::Header;
use tiny_http::Method;
use tiny_http::Request;
use tiny_http::Response;
use tiny_http::Server;

use crate::Monitor;
use crate::MonitorError;
use crate::export::usage;
use crate::metrics;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// So that one client that does not read its answer does not keep others waiting.
const THREADS: usize = 4;

/// How long the end waits for answers that are being written.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Threads that answer; dropping it ends them.
pub struct Listener {
    server: Arc<Server>,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Listener {
    /// Starts answering with what the monitor has.
    pub fn start(address: SocketAddr, monitor: &Arc<Monitor>) -> Result<Self, MonitorError> {
        let server = Server::http(address).map_err(|error| {
            usage("--listen", address, format!("{error}; give an address of this host and a port that is free"))
        })?;
        let address = server.server_addr().to_ip().unwrap_or(address);
        let mut listener = Self { server: Arc::new(server), address, stop: Arc::default(), threads: Vec::new() };
        for _ in 0..THREADS {
            let server = Arc::clone(&listener.server);
            let monitor = Arc::clone(monitor);
            let stop = Arc::clone(&listener.stop);
            let thread = thread::Builder::new()
                .name("pgcalm http".to_string())
                .spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        // An error is that of a client who has gone before he was served, or the end.
                        if let Ok(request) = server.recv() {
                            answer(request, &monitor);
                        }
                    }
                })
                .map_err(|error| MonitorError::Host(format!("start a thread: {error}")))?;
            listener.threads.push(thread);
        }
        Ok(listener)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        // One that still writes to a client that does not read is left behind.
        while begin.elapsed() < LAST_ANSWERS && !self.threads.iter().all(JoinHandle::is_finished) {
            // Each call wakes one thread.
            self.server.unblock();
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn answer(request: Request, monitor: &Monitor) {
    let path = request.url().split('?').next().unwrap_or_default();
    let response = match (request.method(), path) {
        (Method::Get | Method::Head, "/metrics") => {
            let host = monitor.latest();
            match accepts_openmetrics(&request) {
                true => text(200, OPENMETRICS, metrics::openmetrics(&host)),
                false => text(200, CLASSIC, metrics::classic(&host)),
            }
        }
        (Method::Get | Method::Head, "/") => {
            text(200, PLAIN, "pgcalm export: the metrics are at /metrics\n".to_string())
        }
        (Method::Get | Method::Head, _) => text(404, PLAIN, "not found; the metrics are at /metrics\n".to_string()),
        _ => text(405, PLAIN, "only GET and HEAD\n".to_string()),
    };
    // A client that has gone away needs no answer.
    let _ = request.respond(response);
}

/// Prometheus prefers OpenMetrics and says so; others get the older format.
fn accepts_openmetrics(request: &Request) -> bool {
    request
        .headers()
        .iter()
        .filter(|header| header.field.equiv("Accept"))
        .any(|header| header.value.as_str().contains("application/openmetrics-text"))
}

fn text(status: u16, kind: &str, body: String) -> Response<Cursor<Vec<u8>>> {
    let response = Response::from_string(body).with_status_code(status);
    match Header::from_bytes("Content-Type", kind) {
        Ok(header) => response.with_header(header),
        Err(()) => response,
    }
}
