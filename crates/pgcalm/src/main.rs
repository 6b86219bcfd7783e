//! `pgcalm`: verbs, arguments and exit codes; what they do is in the other crates.

mod args;
mod doctor;
mod export;
mod generate;
mod isolate;
mod lab;
mod lag;
mod output;
mod predict;
mod report;
mod suite;
mod top;
mod trace;
mod usage;
mod volume;
mod wal_restore;

use std::process::ExitCode;

use clap::Parser;
use pgcalm_doctor::DoctorError;
use pgcalm_isolate::IsolateError;
use pgcalm_lab::LabError;
use pgcalm_lag::LagError;
use pgcalm_monitor::MonitorError;
use pgcalm_predict::PredictError;
use pgcalm_top::TopError;
use pgcalm_trace::TraceError;

use crate::args::Cli;
use crate::args::IsolateVerb;
use crate::args::LabVerb;
use crate::args::Verb;

/// A run or a file operation failed.
const FAILED: u8 = 1;
/// Bad options or values.
const USAGE: u8 = 2;
/// The host lacks a privilege, a program or a feature.
const HOST: u8 = 3;
/// SIGINT, SIGTERM or SIGHUP; as a shell reports SIGINT.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            output::say(&format!("pgcalm: {}", usage::one_line(&error)));
            // Recovery would take 2 for the end of WAL.
            let restores = std::env::args_os()
                .nth(1)
                .is_some_and(|verb| verb == wal_restore::VERB);
            return ExitCode::from(if restores { wal_restore::STOP } else { USAGE });
        }
        // --help and --version.
        Err(error) => {
            return match error.print() {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::from(FAILED),
            };
        }
    };
    pgcalm_connect::hide_passwords();
    let result = match cli.verb {
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Isolate(IsolateVerb::Show(args)) => isolate::show(&args),
        Verb::Isolate(IsolateVerb::Set(args)) => isolate::set(args),
        Verb::Isolate(IsolateVerb::Clear(args)) => isolate::clear(args),
        Verb::Isolate(IsolateVerb::Check(args)) => isolate::check(&args),
        Verb::Lab(LabVerb::List) => lab::list(),
        Verb::Lab(LabVerb::Run(scenario)) => lab::run(scenario),
        Verb::Lab(LabVerb::Volume(args)) => volume::run(*args),
        Verb::Lab(LabVerb::Up(args)) => lab::up(&args),
        Verb::Lab(LabVerb::Warm(args)) => {
            pgcalm_lab::warm::join_and_warm(&args.members, &args.data, args.how)
        }
        Verb::Lab(LabVerb::Clean(args)) => lab::clean(&args),
        Verb::Lag(args) => lag::run(&args),
        Verb::Top(args) => top::run(args),
        Verb::Trace(verb) => trace::run(verb),
        Verb::Export(args) => export::run(args),
        Verb::Predict(args) => predict::run(&args),
        Verb::Report(args) => report::render(&args),
        Verb::Generate(args) => generate::run(&args),
        Verb::WalRestore(args) => return ExitCode::from(wal_restore::run(args)),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Complete in themselves: what was going on at that moment doesn't matter.
            let complete = error
                .downcast_ref::<LabError>()
                .map(ToString::to_string)
                .or_else(|| error.downcast_ref::<TraceError>().map(ToString::to_string))
                .or_else(|| error.downcast_ref::<LagError>().map(ToString::to_string))
                .or_else(|| {
                    error
                        .downcast_ref::<PredictError>()
                        .map(ToString::to_string)
                });
            output::say(&match complete {
                Some(text) => format!("pgcalm: {text}"),
                None => format!("pgcalm: {error:#}"),
            });
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    match error.downcast_ref::<DoctorError>() {
        Some(DoctorError::Usage(_)) => return USAGE,
        Some(DoctorError::Host(_)) => return HOST,
        None => {}
    }
    match error.downcast_ref::<IsolateError>() {
        Some(IsolateError::Usage(_)) => return USAGE,
        Some(IsolateError::Host(_)) => return HOST,
        Some(IsolateError::Interrupted) => return INTERRUPTED,
        None => {}
    }
    match error.downcast_ref::<MonitorError>() {
        Some(MonitorError::Usage(_)) => return USAGE,
        Some(MonitorError::Host(_)) => return HOST,
        None => {}
    }
    if let Some(error) = error.downcast_ref::<PredictError>() {
        return match error {
            PredictError::Usage(_) => USAGE,
            PredictError::Host(_) => HOST,
            PredictError::Interrupted => INTERRUPTED,
        };
    }
    if let Some(error) = error.downcast_ref::<TraceError>() {
        return match error {
            TraceError::Usage(_) => USAGE,
            TraceError::Host(_) => HOST,
            TraceError::Interrupted => INTERRUPTED,
            TraceError::ServerEnded { .. } => FAILED,
        };
    }
    if error.is::<lag::Interrupted>() {
        return INTERRUPTED;
    }
    if let Some(error) = error.downcast_ref::<LagError>() {
        return match error {
            LagError::Connect(_) | LagError::Standby { .. } => USAGE,
            LagError::Rights { .. } | LagError::Version(_) => HOST,
            LagError::Query { .. } => FAILED,
        };
    }
    match error.downcast_ref::<TopError>() {
        Some(TopError::Usage(_)) => return USAGE,
        Some(TopError::Interrupted) => return INTERRUPTED,
        None => {}
    }
    match error.downcast_ref::<LabError>() {
        Some(LabError::Usage(_)) => USAGE,
        Some(LabError::Host(_)) => HOST,
        Some(LabError::Interrupted) => INTERRUPTED,
        None => FAILED,
    }
}
