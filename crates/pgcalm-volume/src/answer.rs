use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use fuser::{ReplyData, ReplyWrite};

use crate::buffer::Buffer;

/// An answer to a request for data.
pub(crate) struct Answer {
    kind: Kind,
    in_flight: Arc<AtomicU64>,
}

pub(crate) enum Kind {
    Read(ReplyData, Buffer, usize),
    Written(ReplyWrite, u32),
    /// Nobody in the kernel waits for it.
    #[cfg(test)]
    Told(std::sync::mpsc::Sender<()>),
}

impl Answer {
    /// `in_flight` counts the requests without an answer.
    pub(crate) fn new(kind: Kind, in_flight: Arc<AtomicU64>) -> Self {
        Self { kind, in_flight }
    }

    pub(crate) fn give(self) {
        // Before the answer: after it the next request may be there.
        self.in_flight.fetch_sub(1, Relaxed);
        match self.kind {
            Kind::Read(reply, buffer, length) => reply.data(&buffer[..length]),
            Kind::Written(reply, length) => reply.written(length),
            #[cfg(test)]
            Kind::Told(sender) => sender.send(()).unwrap_or_default(),
        }
    }
}
