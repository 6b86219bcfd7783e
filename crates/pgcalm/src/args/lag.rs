//! Arguments of `pgcalm lag`.

use clap::Args;

#[derive(Debug, Args)]
pub struct LagArgs {
    /// The primary, as a connection string of libpq's or a URI; needs a role with pg_monitor.
    ///
    /// PG* variables, ~/.pgpass and pg_service.conf count, and TLS works, as with psql: docs/guides/connecting.md.
    #[arg(long, value_name = "CONNINFO")]
    pub connect: String,
    /// Time between samples, s; 0.1 to 3600.
    #[arg(long, value_name = "S", default_value = "1", value_parser = interval)]
    pub interval: f64,
    /// Stop after this many samples [default: Ctrl-C].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Ask twice, an interval apart, and show one sample: with rates, but a short history.
    #[arg(long, conflicts_with = "count")]
    pub once: bool,
    /// Write JSON lines to standard output.
    #[arg(long)]
    pub json: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("give seconds, 0.1 to 3600".to_string()),
    }
}
