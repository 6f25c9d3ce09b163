//! What a preset is besides its estimator: sizes, and what is done with groups and rewards. The paper's, where it has them.

use toml::Value;

use super::Preset;

/// Section, key and value of each, where the recipe does not say.
pub(super) fn settings(preset: Preset) -> Vec<(&'static str, &'static str, Value)> {
    // What has no means against staleness stays on policy.
    let h = match preset {
        Preset::Pg | Preset::Grpo | Preset::DapoPaper | Preset::Sft => 1,
        Preset::RapidPaper
        | Preset::RapidAuthor
        | Preset::RapidLoo
        | Preset::GrpoClip
        | Preset::Dapo => 4,
    };
    let (group_size, n_step) = if preset == Preset::Sft {
        (1, 96)
    } else {
        (4, 32)
    };
    let mut settings = vec![
        ("algorithm", "group_size", Value::Integer(group_size)),
        ("algorithm", "n_step", Value::Integer(n_step)),
        ("algorithm", "h", Value::Integer(h)),
        // As many draws as DAPO's own code makes at most (verl, `max_num_gen_batches`), the first included.
        (
            "algorithm",
            "dynamic_sampling",
            Value::Integer(if preset == Preset::Dapo { 9 } else { 0 }),
        ),
    ];
    match preset {
        // DAPO's Eq. 13, over the last fifth of the tokens, as there. There, right and wrong are 1 and −1, so that the whole penalty is half of what lies between them; here
        // they are 1 and 0. It is this share that counts, since advantages are divided by the standard deviation.
        Preset::Dapo => settings.push(("reward", "overlong", Value::Float(0.5))),
        Preset::Sft => settings.push(("optimiser", "lr", Value::Float(2e-5))),
        _ => {}
    }
    settings
}
