//! What starts servers of its own at most, and changes nothing of the host: it runs beside all others.

mod command_line;
mod connect;
mod export;
mod kubernetes;
mod lag;
mod packaging;
mod predict;
mod ready_to_stop;
mod record;
mod targets;
mod top;
mod wal_restore;
mod warm;
