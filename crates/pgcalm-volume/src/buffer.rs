use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// The largest request that the kernel sends, `max_write` and `max_pages` of FUSE.
pub(crate) const LARGEST: usize = 1 << 20;

/// Enough for direct I/O on any device.
const ALIGNMENT: usize = 4096;

/// Memory for one request, aligned for direct I/O. Pages that no request has used yet take none.
pub(crate) struct Buffer {
    memory: Vec<u8>,
    start: usize,
    pool: Arc<Pool>,
}

/// Memory that is used again: allocating under memory pressure could make the kernel write to the very volume that waits
/// for it.
#[derive(Default)]
pub(crate) struct Pool(Mutex<Vec<Vec<u8>>>);

impl Pool {
    pub(crate) fn take(self: &Arc<Self>) -> Buffer {
        let memory =
            self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_else(|| vec![0; LARGEST + ALIGNMENT]);
        Buffer { start: memory.as_ptr().align_offset(ALIGNMENT), memory, pool: Arc::clone(self) }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + LARGEST]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + LARGEST]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        self.pool.0.lock().unwrap_or_else(PoisonError::into_inner).push(memory);
    }
}
