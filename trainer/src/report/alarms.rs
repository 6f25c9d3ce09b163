//! What a run warned of, and whether it is over.

use std::fmt::Write as _;

use super::escape::html;
use super::run_data::RunData;
use crate::record::{AlarmRecord, AlarmState};

/// The section of one run, `name` being what its heading says of whose it is, as HTML; nothing where nothing rang.
pub(super) fn section(out: &mut String, run: &RunData, name: &str) {
    let raised: Vec<&AlarmRecord> = run
        .alarms
        .iter()
        .filter(|alarm| alarm.state == AlarmState::Raised)
        .collect();
    if raised.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<h2>Alarms{name}</h2><p>Signs of reward hacking or collapse in the numbers. What they mean is for a person to judge.</p>\n<ul class=\"alarms\">"
    );
    for alarm in raised {
        let over = run.alarms.iter().find(|other| {
            other.state == AlarmState::Cleared
                && other.alarm == alarm.alarm
                && other.step >= alarm.step
        });
        let until = over.map_or_else(
            || "not over".to_owned(),
            |over| format!("over after update {}", over.step),
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
