/// Why a monitor or an exporter can't be started.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// A bad option or value.
    #[error("{0}")]
    Usage(String),
    /// The host lacks a privilege or a feature.
    #[error("{0}")]
    Host(String),
}
