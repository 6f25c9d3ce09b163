//! Reads data sets of the Hugging Face hub by the names of their files, such as `main/train-00000-of-00001.parquet`: the folder `main` is a subset, and `train` is a split.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::record;
use super::rows::{ENDINGS, Format};
use super::source::Source;
use super::user_file::Reader;
use crate::{Dataset, DatasetError, Task, fetch};

/// The names of splits, the held-out ones in the order in which one is chosen.
const SPLITS: [&str; 7] = ["train", "test", "validation", "eval", "dev", "valid", "val"];

/// Files that describe the others.
const NO_DATA: &str =
    "dataset_info.json dataset_infos.json dataset_dict.json fetched.json state.json";

/// One in so many records may be left out, because it gives no task.
const MAX_LEFT_OUT: usize = 10;

/// What the name of a file tells.
struct Place {
    format: Format,
    /// Empty for a data set without subsets.
    subset: String,
    split: String,
    /// The number of files of the split, if the name has it.
    parts: Option<usize>,
}

pub(super) fn open(source: &Source, data_dir: Option<&Path>) -> Result<Dataset, DatasetError> {
    let name = source.hub_name();
    let given = data_dir.map(|folder| folder.join(&source.dataset));
    let files = match given.filter(|folder| folder.is_dir()) {
        Some(folder) => fetch::files_under(&folder),
        None => fetch::hub_files(&name)
            .map_err(|looked_for| DatasetError::Missing { name, looked_for })?,
    };
    let files = of_subset(source, files)?;
    let names = listed(files.iter().map(|(place, _)| &*place.split));
    let has = |split: &str| files.iter().any(|(place, _)| place.split == split);
    let tasks = |key: &str, split: &Option<String>, usual: &[&str]| match split.as_deref() {
        Some(split) if !has(split) => Err(source.wrong(format!(
            "there is no split `{split}`; write `data.{key}` with one of {names}"
        ))),
        split => {
            let split = split.or_else(|| usual.iter().copied().find(|split| has(split)));
            split.map(|split| tasks(source, split, &files)).transpose()
        }
    };
    let train = tasks("train_split", &source.train_split, &SPLITS[..1])?;
    let eval = tasks("eval_split", &source.eval_split, &SPLITS[1..])?;
    if train.is_none() && eval.is_none() {
        let reason = format!("write `data.train_split` with one of its splits: {names}");
        return Err(source.wrong(reason));
    }
    Ok(Dataset {
        name: source.dataset.clone(),
        // As in a file without splits, every task is both trained on and evaluated.
        eval: eval.or_else(|| train.clone()).unwrap_or_default(),
        train: train.unwrap_or_default(),
    })
}

/// Each of some names once, for messages.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: BTreeSet<&str> = names.filter(|name| !name.is_empty()).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// The files of the subset, in one format: the same records are often there in several.
fn of_subset(
    source: &Source,
    files: Vec<(String, PathBuf)>,
) -> Result<Vec<(Place, PathBuf)>, DatasetError> {
    let own = [source.train_split.as_deref(), source.eval_split.as_deref()];
    let placed = files.into_iter();
    let placed = placed.filter_map(|(name, path)| Some((place(&name, own)?, path)));
    let mut placed: Vec<(Place, PathBuf)> = placed.collect();
    let has = |format: &Format| placed.iter().any(|(place, _)| place.format == *format);
    let Some(format) = ENDINGS.into_iter().map(|(_, format)| format).find(has) else {
        return Err(source.wrong("it has no .parquet, .jsonl, .json or .csv file"));
    };
    placed.retain(|(place, _)| place.format == format);
    placed.sort_by(|(_, a), (_, b)| a.cmp(b));
    let subsets = listed(placed.iter().map(|(place, _)| &*place.subset));
    let usual = match source.subset.as_deref() {
        Some(subset) => vec![subset],
        None => vec!["", "default", &subsets],
    };
    let mut chosen = usual.iter();
    let chosen = chosen.find(|name| placed.iter().any(|(place, _)| place.subset == **name));
    let Some(chosen) = chosen else {
        let first = subsets.split(", ").next().unwrap_or_default();
        return Err(source.wrong(format!(
            "name one of its subsets in the recipe, such as `data.subset = {first:?}`: {subsets}"
        )));
    };
    placed.retain(|(place, _)| place.subset == *chosen);
    Ok(placed)
}

/// What a file's name tells; `None` if it has no data. `own` are splits of other names.
fn place(name: &str, own: [Option<&str>; 2]) -> Option<Place> {
    let mut folders: Vec<&str> = name.split('/').collect();
    let is_hidden = folders.iter().any(|part| part.starts_with('.'));
    let file = folders.pop()?;
    if is_hidden || NO_DATA.split(' ').any(|other| other == file) {
        return None;
    }
    let (format, stem) = Format::of(file)?;
    let is_split = |word: &str| SPLITS.contains(&word) || own.contains(&Some(word));
    // `train-00000-of-00002`, with or without a digest after it.
    let numbered = stem.split_once("-of-").and_then(|(start, end)| {
        let start = start.trim_end_matches(|c: char| c.is_ascii_digit());
        let parts = end.split('-').next()?.parse().ok()?;
        Some((start.strip_suffix('-')?, parts))
    });
    let (stem, parts) = numbered.map_or((stem, None), |(stem, parts)| (stem, Some(parts)));
    let mut words: Vec<&str> = stem.split(['-', '_', '.']).collect();
    let word = words.iter().position(|word| is_split(word));
    let is_name = is_split(stem) || parts.is_some() && !stem.contains('-');
    let folder = folders.iter().rev().find(|folder| is_split(folder));
    let split = match word {
        _ if is_name => stem,
        Some(at) => words.remove(at),
        None => folder.copied().unwrap_or("train"),
    };
    let prefix = (!is_name && word.is_some()).then(|| words.join("_"));
    folders.retain(|folder| !is_split(folder) && *folder != "data");
    Some(Place {
        format,
        subset: match folders.is_empty() {
            true => prefix.unwrap_or_default(),
            false => folders.join("/"),
        },
        split: split.to_owned(),
        parts,
    })
}

/// The tasks of a split. A record that gives no task, such as one with an empty answer, is left out with a warning: the user cannot correct it.
fn tasks(
    source: &Source,
    split: &str,
    files: &[(Place, PathBuf)],
) -> Result<Vec<Task>, DatasetError> {
    let files = files.iter().filter(|(place, _)| place.split == split);
    let files: Vec<_> = files.collect();
    let (there, parts) = (files.len(), files.iter().find_map(|(place, _)| place.parts));
    if let Some(parts) = parts.filter(|parts| *parts != there) {
        return Err(source.wrong(format!(
            "{there} of the {parts} files of the split `{split}` are on this machine; fetch all with `rapid fetch dataset:{}`",
            source.hub_name()
        )));
    }
    let dataset = format!("{}/{split}", source.dataset);
    let mut reader = Reader::new(source, &dataset);
    let (mut all, mut number) = (Vec::new(), 0);
    for (_, path) in files {
        let mut left_out = Vec::new();
        let tasks = record::read(path, |place, fields| {
            number += 1;
            let task = reader.task(number, fields);
            Ok(task.map_err(|error| left_out.push((place, error))).ok())
        })?;
        let (records, count) = (tasks.len(), left_out.len());
        if let Some((place, error)) = left_out.into_iter().next() {
            let error = record::wrong(path, place, error);
            if count * MAX_LEFT_OUT > records {
                return Err(error);
            }
            tracing::warn!(
                "{count} of {records} records give no task and are left out, the first because: {error}"
            );
        }
        all.extend(tasks.into_iter().flatten().map(|(task, _)| task));
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
