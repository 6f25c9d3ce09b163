//! The section on a run's alarms.

use std::fmt::Write as _;

use super::escape::html;
use super::run_data::RunData;
use crate::record::{AlarmRecord, AlarmState};

/// The section of one run as HTML; nothing if no alarm was raised. `name` is the end of its heading, which names the run.
pub(super) fn section(out: &mut String, run: &RunData, name: &str) {
    let raised = run.alarms.iter();
    let raised = raised.filter(|alarm| alarm.state == AlarmState::Raised);
    let raised: Vec<&AlarmRecord> = raised.collect();
    if raised.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<h2>Alarms{name}</h2><p>Signs of reward hacking or collapse in the numbers. They need a person's judgement.</p>\n<ul class=\"alarms\">"
    );
    for alarm in raised {
        let cleared = run.alarms.iter().find(|other| {
            other.state == AlarmState::Cleared
                && other.alarm == alarm.alarm
                && other.step >= alarm.step
        });
        let until = cleared.map_or_else(
            || "not cleared".to_owned(),
            |cleared| format!("cleared after update {}", cleared.step),
        );
        let _ = writeln!(
            out,
            "<li><b>{}</b> <span>after update {}, {until}</span><br/>{}</li>",
            html(&alarm.alarm.to_string()),
            alarm.step,
            html(&alarm.text)
        );
    }
    out.push_str("</ul>\n");
}
