//! The probe groups, a folder each.

/// What found no room in a group's maps. Each group has a skeleton of its own type, with the same two counters.
macro_rules! drops {
    ($skeleton:expr) => {
        $skeleton
            .maps
            .bss_data
            .as_deref()
            .map_or_else(Drops::default, |bss| Drops { events: bss.dropped_events, entries: bss.dropped_entries })
    };
}

pub mod checkpoint;
pub mod connect;
pub mod io;
pub mod locks;
pub mod server_processes;
pub mod why;

/// Storage for a group's object. A skeleton borrows it, and groups live until the process ends or nearly so.
pub fn object_storage() -> &'static mut std::mem::MaybeUninit<libbpf_rs::OpenObject> {
    Box::leak(Box::new(std::mem::MaybeUninit::uninit()))
}
