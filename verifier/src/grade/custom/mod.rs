//! Graders of the operator's own: a program that reads items and writes rewards, line by line, or an HTTP server that answers with them.
//!
//! A reward counts only if it is a number from 0 to 1 that was given for this item in time. Anything else is `unavailable`, which trainers leave out.

mod answer;
mod command;
mod files;
mod settings;
mod url;

use std::path::PathBuf;

use serde_json::{Map, Value as Json};

use super::Grading;
use answer::{Failure, Question};
use command::Processes;
use files::Files;
pub use settings::{CustomSettings, RequestForm};
use url::Server;

/// A grader of the operator's own.
pub struct CustomGrader {
    name: String,
    settings: CustomSettings,
    source: Source,
    files: Files,
}

enum Source {
    Command(Processes),
    Url(Server),
}

impl CustomGrader {
    /// Creates the grader `name`, and starts its program. A jail hides `secrets` from it.
    ///
    /// # Errors
    /// Why it cannot judge, and what to do.
    pub fn open(
        name: &str,
        settings: &CustomSettings,
        secrets: Vec<PathBuf>,
    ) -> Result<CustomGrader, String> {
        let files = Files::new(settings);
        let content = files.content()?;
        let source = match &settings.url {
            None => {
                let processes = Processes::open(name, settings, files.paths(), secrets)?;
                processes.warm_up(&content)?;
                Source::Command(processes)
            }
            Some(url) => Source::Url(Server::open(url, settings)?),
        };
        Ok(CustomGrader {
            source,
            name: name.to_owned(),
            settings: settings.clone(),
            files,
        })
    }

    /// Starts its program once more, asks nothing, and waits for whether it ends, as when a module is missing, or writes. Blocks for two seconds.
    ///
    /// # Errors
    /// What it did.
    pub fn try_out(&self) -> Result<(), String> {
        match &self.source {
            Source::Command(processes) => processes.try_out(&self.files.content()?),
            Source::Url(_) => Ok(()),
        }
    }

    /// What its rewards depend on besides the item: `grader.version`, or else the content of its files, now.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn version(&self) -> Result<String, String> {
        self.files.content().map(|content| content.digest)
    }

    /// Judges a completion. Blocks until its program or server has answered, at most for its time limit.
    pub fn grade(&self, task: &Map<String, Json>, prompt: &str, completion: &str) -> Grading {
        let question = Question {
            task,
            prompt,
            completion,
        };
        let answer = self
            .files
            .content()
            .map_err(Failure::new)
            .and_then(|content| {
                let answer = match &self.source {
                    Source::Command(processes) => processes.ask(&question, &content),
                    Source::Url(server) => server.ask(&question),
                }?;
                // The program may have read a file before or after it changed.
                match self.files.content() {
                    Ok(now) if now == content => Ok(answer),
                    _ => Err(Failure::passing("its files changed while it judged")),
                }
            });
        match answer {
            Ok(answer) => answer
                .grading()
                .deterministic_if(self.settings.deterministic),
            Err(Failure { reason, retryable }) => {
                Grading::unavailable(&format!("the grader `{}`: {reason}", self.name), retryable)
            }
        }
    }
}

#[cfg(test)]
mod tests;
