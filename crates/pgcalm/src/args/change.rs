//! `--plan`, `--apply` and `--yes`, of every verb that changes a host or a server.

use std::io;
use std::io::{BufRead, IsTerminal};

use anyhow::Context;
use clap::Args;
use pgcalm_host::Failure;

use crate::output;

/// Without --apply nothing is changed.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ChangeArgs {
    /// Show every change that --apply would make, and make none.
    #[arg(long, group = "change")]
    pub plan: bool,
    /// Show the changes, ask, and make them.
    #[arg(long, group = "change")]
    pub apply: bool,
    /// Don't ask.
    #[arg(long, requires = "apply")]
    pub yes: bool,
}

impl ChangeArgs {
    /// Fails if there is nobody to be asked.
    pub(crate) fn check(self) -> anyhow::Result<()> {
        if self.apply && !self.yes && !io::stdin().is_terminal() {
            anyhow::bail!(Failure::Usage(
                "--apply asks before it changes anything, and standard input is no terminal; give --yes".to_string(),
            ));
        }
        Ok(())
    }

    /// Whether the changes in `text` are to be made; asks unless told not to. On standard error: standard output may be a
    /// file.
    pub(crate) fn agreed(self, text: &str) -> anyhow::Result<bool> {
        if self.yes || !self.apply {
            return Ok(self.apply);
        }
        output::say(text.trim_end());
        output::say("Make these changes? Type yes:");
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer).context("read the answer")?;
        Ok(answer.trim() == "yes")
    }
}
