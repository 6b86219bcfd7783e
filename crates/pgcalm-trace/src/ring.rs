//! Events that a group of probes sends.

use std::sync::mpsc;

use anyhow::Context;
use libbpf_rs::{MapCore, RingBuffer, RingBufferBuilder};

/// Something that wakes [`Session::wait`](crate::session::Session::wait).
pub trait Wake {
    /// Readable when an event is there.
    fn epoll_fd(&self) -> i32;
}

/// The ring buffer of a group, with events of type `T`.
pub struct Events<T> {
    ring: RingBuffer<'static>,
    receiver: mpsc::Receiver<T>,
}

impl<T: plain::Plain + Copy + Default + 'static> Events<T> {
    /// Reads the ring buffer `map`; events that are not of T's size are errors of the program, and left out.
    pub fn of(map: &dyn MapCore) -> anyhow::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let mut builder = RingBufferBuilder::new();
        builder.add(map, move |bytes| {
            let mut event = T::default();
            if plain::copy_from_bytes(&mut event, bytes).is_ok() {
                // The receiver lives as long as the ring.
                let _ = sender.send(event);
            }
            0
        })?;
        Ok(Self { ring: builder.build()?, receiver })
    }

    /// What has arrived, in order.
    pub fn take(&self) -> anyhow::Result<Vec<T>> {
        self.ring.consume().context("read a ring buffer")?;
        Ok(self.receiver.try_iter().collect())
    }
}

impl<T> Wake for Events<T> {
    fn epoll_fd(&self) -> i32 {
        self.ring.epoll_fd()
    }
}
