//! What a program logs, as its users write it.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// The filter in a text such as `info,engine=debug`; without one, `default`.
///
/// # Errors
/// If a level is unknown, with the known ones, and `example` as a filter of one module. `tracing_subscriber` would take such a level for the name of a module, and
/// log nothing else.
pub fn filter(text: &str, default: &str, example: &str) -> Result<EnvFilter, String> {
    let directives = directives(text, default, example)?;
    EnvFilter::try_new(directives).map_err(|error| error.to_string())
}

/// The directives of a filter, in the form of `tracing_subscriber`.
fn directives(text: &str, default: &str, example: &str) -> Result<String, String> {
    let mut directives = Vec::new();
    for directive in text.split(',').map(str::trim).filter(|it| !it.is_empty()) {
        let (target, level) = directive.rsplit_once('=').unwrap_or(("", directive));
        let level = if level.eq_ignore_ascii_case("warning") {
            "warn"
        } else {
            level
        };
        level.parse::<LevelFilter>().map_err(|_| {
            format!(
                "`{level}` is not a level; give error, warn, info, debug, trace or off, or a filter such as {example}"
            )
        })?;
        directives.push(match target {
            "" => level.to_owned(),
            target => format!("{target}={level}"),
        });
    }
    if directives.is_empty() {
        return Ok(default.to_owned());
    }
    Ok(directives.join(","))
}

#[cfg(test)]
mod tests {
    use super::directives;

    #[test]
    fn a_level_has_either_name_and_an_unknown_one_is_refused_with_all_names() {
        for (text, expected) in [
            ("", "off"),
            ("warning", "warn"),
            ("DEBUG", "DEBUG"),
            ("info, engine=warning", "info,engine=warn"),
        ] {
            let found = directives(text, "off", "engine=debug");
            assert_eq!(found.as_deref(), Ok(expected), "{text}");
        }
        for text in ["wran", "engine", "info,engine=verbose"] {
            let error = directives(text, "off", "engine=debug").unwrap_err();
            let expected =
                "error, warn, info, debug, trace or off, or a filter such as engine=debug";
            assert!(error.ends_with(expected), "{error}");
        }
    }
}
