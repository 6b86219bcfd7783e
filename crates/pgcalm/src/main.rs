//! `pgcalm`: verbs, arguments and exit codes; what they do is in the other crates.

mod args;
mod doctor;
mod exit;
mod export;
mod generate;
mod isolate;
mod lab;
mod lag;
mod output;
mod predict;
mod ready_to_stop;
mod record;
mod report;
mod suite;
mod targets;
mod top;
mod trace;
mod usage;
mod volume;
mod wal_restore;
mod warm;

use std::process::ExitCode;

use pgcalm_host::Failure;
use pgcalm_lag::QueryFailed;

use crate::args::{Cli, IsolateVerb, LabVerb, Verb, WAL_RESTORE};
use crate::exit::{Exit, RestoreExit};

fn main() -> ExitCode {
    let cli = match Cli::of_process() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            output::say(&format!("pgcalm: {}", usage::one_line(&error)));
            // Recovery would take 2 for the end of WAL.
            let restores = std::env::args_os().nth(1).is_some_and(|verb| verb == WAL_RESTORE);
            return ExitCode::from(if restores { RestoreExit::Stop as u8 } else { Exit::Usage as u8 });
        }
        // --help and --version.
        Err(error) => {
            return match error.print() {
                Ok(()) => ExitCode::SUCCESS,
                Err(_) => ExitCode::from(Exit::Failed as u8),
            };
        }
    };
    pgcalm_postgres::hide_passwords();
    output::columns().into_iter().for_each(pgcalm_render::text::fit);
    let Some(verb) = cli.verb else { return ended(record::sentences()) };
    let result = match verb {
        Verb::Doctor(args) => doctor::run(&args),
        Verb::Isolate(IsolateVerb::Show(args)) => isolate::show(&args),
        Verb::Isolate(IsolateVerb::Set(args)) => isolate::set(args),
        Verb::Isolate(IsolateVerb::Clear(args)) => isolate::clear(args),
        Verb::Isolate(IsolateVerb::Check(args)) => isolate::check(&args),
        Verb::Lab(LabVerb::List) => lab::list(),
        Verb::Lab(LabVerb::Run(scenario)) => scenario.run(),
        Verb::Lab(LabVerb::Volume(args)) => volume::run(*args),
        Verb::Lab(LabVerb::Report(args)) => report::render(&args),
        Verb::Lab(LabVerb::Up(args)) => lab::up(&args),
        Verb::Lab(LabVerb::Neighbour(args)) => pgcalm_lab::trouble::neighbour::run(args.how, &args.file),
        Verb::Lab(LabVerb::Warm(args)) => pgcalm_lab::warm::join_and_warm(&args.members, &args.data, args.how),
        Verb::Lab(LabVerb::Clean(args)) => lab::clean(&args),
        Verb::Lag(args) => lag::run(&args),
        Verb::Top(args) => top::run(args),
        Verb::Trace(verb) => trace::run(verb),
        Verb::Export(args) => export::run(args),
        Verb::Record(args) => record::run(args),
        Verb::Incidents(args) => record::incidents(&args),
        Verb::Incident(args) => record::incident(&args),
        Verb::Predict(args) => predict::run(&args),
        Verb::ReadyToStop(args) => ready_to_stop::run(&args),
        Verb::Targets(args) => targets::run(&args),
        Verb::Warm(args) => warm::run(&args),
        Verb::Generate(args) => generate::run(&args),
        Verb::WalRestore(args) => return ExitCode::from(wal_restore::run(args) as u8),
    };
    ended(result)
}

fn ended(result: anyhow::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(&format!("pgcalm: {}", message(&error)));
            ExitCode::from(exit::of(&error) as u8)
        }
    }
}

/// In one line. Some errors are complete in themselves: what was going on at that moment doesn't matter.
fn message(error: &anyhow::Error) -> String {
    let failure = error.downcast_ref::<Failure>().map(ToString::to_string);
    let complete = failure.or_else(|| error.downcast_ref::<QueryFailed>().map(ToString::to_string));
    complete.unwrap_or_else(|| format!("{error:#}"))
}
