//! What makes the neighbour noisy: sessions that make databases.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::background::Background;
use crate::connection::connect;

/// Sessions at work.
#[derive(Debug)]
pub(super) struct Noise {
    made: Arc<AtomicU32>,
    threads: Vec<Background<()>>,
}

impl Noise {
    /// Starts them on the server with its socket in `socket`.
    pub(super) fn start(socket: &Path, sessions: u32) -> anyhow::Result<Self> {
        let mut noise = Self { made: Arc::default(), threads: Vec::new() };
        for session in 0..sessions {
            let mut client = connect(socket)?;
            let made = Arc::clone(&noise.made);
            noise.threads.push(Background::start(move |stop| {
                let mut number = 0;
                while !stop.is_set() {
                    // All files are copied and synced, not written through WAL.
                    let sql = format!("create database noise_{session}_{number} strategy file_copy");
                    // The device is full, or the server has ended: there is no more noise to be had from it.
                    if client.batch_execute(&sql).is_err() {
                        break;
                    }
                    made.fetch_add(1, Ordering::Relaxed);
                    number += 1;
                }
            }));
        }
        Ok(noise)
    }

    /// Databases made so far.
    pub(super) fn made(&self) -> u32 {
        self.made.load(Ordering::Relaxed)
    }

    /// Whether any session is still at work.
    pub(super) fn is_alive(&self) -> bool {
        self.threads.iter().any(|thread| !thread.has_ended())
    }
}

impl Drop for Noise {
    fn drop(&mut self) {
        // All at once, before the first is waited for.
        self.threads.iter().for_each(Background::tell);
    }
}
