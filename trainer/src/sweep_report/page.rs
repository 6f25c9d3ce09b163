//! The page of the report, which is self-contained.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use datasets::passk::{MIN_TASKS, RESAMPLES};

use super::figures::SweepFigure;
use crate::escape::html;
use crate::paper::PAPER;
use crate::report::page::{self, page};
use crate::report::table::Table;
use crate::sweep::{RunState, SweepFolder};

pub(super) fn render(
    folder: &SweepFolder,
    tables: &[Table],
    figures: &[SweepFigure],
    warnings: &[String],
) -> String {
    let name = std::fs::canonicalize(&folder.root).unwrap_or_else(|_| folder.root.clone());
    let name = name.file_name().unwrap_or_default().to_string_lossy();
    let mut body = String::new();
    facts(&mut body, folder);
    if !warnings.is_empty() {
        body.push_str("<h2>Before reading the numbers</h2>\n<ul class=\"notes\">\n");
        for warning in warnings {
            let _ = writeln!(body, "<li class=\"warning\">{}</li>", html(warning));
        }
        body.push_str("</ul>\n");
    }
    for table in tables {
        table.render(&mut body);
        let below = figures.iter().filter(|figure| figure.below == table.name);
        let below: String = below.map(|figure| figure.figure.render()).collect();
        if !below.is_empty() {
            let _ = writeln!(body, "<div class=\"charts below\">\n{below}</div>");
        }
    }
    let files = tables.iter().map(Table::file);
    let files = files.chain(figures.iter().map(|figure| figure.file.to_owned()));
    let notes = format!(
        "Bootstrap: {RESAMPLES} resamples of seeds, then of tasks, the same for all arms; tasks that ask for the same computation are drawn together. Intervals are percentiles, or wider where all tasks agree. \
         Below {MIN_TASKS} different computations there are none, and with so few, or below three seeds, nothing is concluded. With one seed they are over tasks alone, and with two there are none. With few seeds the bootstrap's intervals may be too narrow, so each stands beside the t interval over seeds. \
         Columns marked <em>paper</em> are from {}, with the pages in the program's data file results.toml. It prints no values of its figures; what its text says of them is in their captions.",
        html(&PAPER.title)
    );
    page("Sweep", &name, &body, &files.collect::<Vec<_>>(), &notes)
}

fn facts(out: &mut String, folder: &SweepFolder) {
    let (file, plan) = (&folder.file, &folder.plan);
    let configs = || plan.runs().map(|run| &run.config);
    let models = configs().filter_map(|config| {
        let path = config.model.path.as_ref();
        let path = path.map(|path| path.display().to_string());
        config.model.name.clone().or(path)
    });
    let data = configs().map(|config| config.data.name());
    let manifest = folder.manifest().unwrap_or_default();
    let processors = manifest.iter().map(|line| line.machine.processor.clone());
    let is_finished = |run: &&_| folder.state(run, &manifest) == RunState::Finished;
    let finished = plan.runs().filter(is_finished).count();
    let facts = [
        ("model", joined(models)),
        ("data", joined(data)),
        ("arms", file.arms.len().to_string()),
        ("seeds", file.seeds.len().to_string()),
        ("rounds", file.rounds.to_string()),
        (
            "runs finished",
            format!("{finished} of {}", plan.runs().count()),
        ),
        ("processor", joined(processors)),
    ];
    page::facts(out, &facts);
}

fn joined(items: impl Iterator<Item = String>) -> String {
    let items: BTreeSet<String> = items.collect();
    Vec::from_iter(items).join(", ")
}
