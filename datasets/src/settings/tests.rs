use std::path::PathBuf;

use toml::Table;

use super::*;

settings! {
    /// A program.
    struct Program {
        /// Its name.
        name: String = "p".into(),
        /// How it runs.
        run: Run,
    }
}

settings! {
    /// How it runs.
    struct Run {
        /// Seconds; no limit unless set.
        seconds: Option<u64> => whole(1, 60).hint("; leave it out for no limit"),
        /// A cap.
        cap: f64 = 2.0 => at_least(1.0),
        /// Where.
        place: Location,
        /// Deeper.
        deep: Deep,
    }
    beside {
        /// Where it was found.
        found: Option<PathBuf>,
    }
}

settings! {
    /// Deeper.
    struct Deep {
        /// How deep.
        depth: usize = 3,
    }
}

choice! {
    /// Where it runs.
    enum Location {
        #[default]
        Here = "here" => "on this machine",
        There = "there" => "on another",
    }
}

const KEYS: Keys = Keys::new(Program::KEYS, "run.seconds=1");

fn set(setting: &str) -> Result<Program, SettingError> {
    let (path, value) = KEYS.parse_set(setting)?;
    let mut table = Table::new();
    put(&mut table, &path, value);
    KEYS.check_limits(&table)?;
    Ok(table.try_into().unwrap())
}

#[test]
fn a_declaration_gives_a_struct_with_defaults_and_a_list_of_keys() {
    let program = Program::default();
    assert_eq!((program.name.as_str(), program.run.cap), ("p", 2.0));
    assert_eq!(program.run.place.name(), "here");
    assert_eq!(program.run.found, None);
    assert_eq!(
        KEYS.list(),
        "  name\n  run.{seconds, cap, place}\n  run.deep.{depth}"
    );
}

#[test]
fn a_setting_is_parsed_according_to_its_keys_kind() {
    assert_eq!(set("name=12").unwrap().name, "12");
    assert_eq!(set("run.seconds = 5").unwrap().run.seconds, Some(5));
    assert_eq!(set("run.cap=inf").unwrap().run.cap, f64::INFINITY);
    assert_eq!(set("run.place=there").unwrap().run.place, Location::There);
}

/// Settings that are refused, each with the message.
const REFUSED: &str = r"
run.second=1 | --set run.second=1: there is no key `run.second`; did you mean `run.seconds`?
run.name=x | --set run.name=x: there is no key `run.name`; the section [run] has seconds, cap, place, deep. There is `name`
nam=x | --set nam=x: there is no key `nam`; did you mean `name`?
rum.cap=1 | --set rum.cap=1: there is no key `rum`; did you mean the section [run]?
xyz=1 | --set xyz=1: there is no key `xyz`; outside the sections there are name, and the sections are [run]
run=1 | --set run=1: `run` is a section: give one of its keys, such as `run.seconds`
cap=1 | --set cap=1 is not a setting: write section.key=value, such as --set run.cap=1
? | --set ? is not a setting: write section.key=value, such as --set run.seconds=1
run.seconds=-1 | --set run.seconds=-1: `run.seconds` takes a whole number of at least 1 and at most 60, not -1
run.seconds=61 | `run.seconds`: 61 is out of its range; give a whole number of at least 1 and at most 60; leave it out for no limit
run.cap=nan | --set run.cap=nan: `run.cap` takes a number of at least 1, or inf for none, not nan
run.place=3 | `run.place`: this version has no `3`; it has here, there
run.place=ther | `run.place`: this version has no `ther`; it has here, there (did you mean `there`?)
run.found=x | --set run.found=x: there is no key `run.found`; the section [run] has seconds, cap, place, deep
";

#[test]
fn unknown_keys_and_wrong_values_are_refused_with_the_remedy() {
    for line in REFUSED.trim().lines() {
        let (setting, says) = line.split_once(" | ").unwrap();
        assert_eq!(set(setting).unwrap_err().to_string(), says);
    }
    let error = KEYS.read("my.toml", "name = 1").unwrap_err().to_string();
    assert_eq!(error, "my.toml: `name` takes a text, as in \"…\", not 1");
}

#[test]
fn the_explanation_has_help_ranges_values_and_defaults() {
    let values: Table = "[run]\ncap = 3.0".parse().unwrap();
    let defaults = Table::try_from(Program::default()).unwrap();
    let text = "\
# Its name.
# name = \"p\"

# How it runs.
[run]
# Seconds; no limit unless set.
# Takes a whole number of at least 1 and at most 60.
# seconds = N
# A cap.
# Takes a number of at least 1, or inf for none. Default: 2.0.
cap = 3.0
# Where.
#   here            on this machine
#   there           on another
# Takes one of `here`, `there`.
# place = \"here\"

# Deeper.
[run.deep]
# How deep.
# depth = 3
";
    assert_eq!(KEYS.explain(&values, &defaults), text);
}
