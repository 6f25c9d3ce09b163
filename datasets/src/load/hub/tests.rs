use super::*;

#[test]
fn a_files_name_tells_its_subset_split_and_number_of_parts() {
    let names = r#"
main/train-00000-of-00002.parquet | main,train,Some(2)
data/train_sft-00000-of-00001-9d3f.parquet | ,train_sft,Some(1)
full/gsm8k-test-00000-of-00001.parquet | full,test,Some(1)
main/test/0000.parquet | main,test,None
test.jsonl | ,test,None
socratic_train.jsonl.gz | socratic,train,None
data/dapo-math.parquet | ,train,None
hard.json | ,hard,None
dataset_infos.json |
.cache/a.json |
README.md |
"#;
    for line in names.trim().lines() {
        let (name, expected) = line.split_once(" |").unwrap();
        let place = place(name, [Some("hard"), None]);
        let found = place.map(|at| format!("{},{},{:?}", at.subset, at.split, at.parts));
        assert_eq!(found.unwrap_or_default(), expected.trim(), "{name}");
    }
}

#[test]
fn a_data_set_of_the_hub_is_read_by_subset_and_split() {
    let csv = "id,problem,solution\n7,1+1?,So \\boxed{2}\n7,2+2?,#### 4\n";
    let empty = "{\"problem\":\"q\",\"answer\":\"\"}\n";
    let one = "{\"problem\":\"q\",\"answer\":\"1\"}\n".repeat(10) + empty;
    // Names of files, settings, and the numbers of tasks with the first id to evaluate on, or the error.
    let cases = r#"
train.csv | | 2,2,o/r/train/1
train.csv test.csv | | 2,2,o/r/test/1
test.csv | | 0,2,o/r/test/1
train.csv one.jsonl | | 10,10,o/r/train/1
train-00001-of-00002.csv train-00000-of-00002.csv | | 4,4,o/r/train/1
a/train.csv b/train.csv b/dev.csv | subset=b | 2,2,o/r/dev/1
a/train.csv b/train.csv | | name one of its subsets in the recipe, such as `data.subset = "a"`: a, b
a/train.csv b/train.csv | subset=c | name one of its subsets in the recipe
train.csv test.csv | eval_split=tset | there is no split `tset`; write `data.eval_split` with one of test, train
train-00001-of-00002.csv | | 1 of the 2 files of the split `train` are on this machine; fetch all with `rapid fetch dataset:o/r`
empty.jsonl | | field `answer`: it is empty
x.txt | | it has no .parquet, .jsonl, .json or .csv file
train.csv | grader=maths! | `grader`: `maths!` is not one of
"#;
    for line in cases.trim().lines() {
        let parts: Vec<&str> = line.splitn(3, '|').map(str::trim).collect();
        let home = tempfile::tempdir().unwrap();
        for name in parts[0].split(' ') {
            let path = home.path().join("o/r").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let text = match name {
                "one.jsonl" => &one,
                "empty.jsonl" => empty,
                _ => csv,
            };
            std::fs::write(&path, text).unwrap();
        }
        let mut source = serde_json::json!({ "dataset": "o/r" });
        if let Some((key, value)) = parts[1].split_once('=') {
            source[key] = value.into();
        }
        let source: Source = serde_json::from_value(source).unwrap();
        let found = match source.open(Some(home.path())) {
            Ok(set) => format!("{},{},{}", set.train.len(), set.eval.len(), set.eval[0].id),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(parts[2]), "{line}: {found}");
    }
    let missing = Source::named("nobody/has-this").open(None).unwrap_err();
    let says = "fetch it with `rapid fetch dataset:nobody/has-this`";
    assert!(missing.to_string().contains(says), "{missing}");
}
