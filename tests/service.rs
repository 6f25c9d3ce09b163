//! The running service on all of the real data: what is right is judged right, and labelled samples as their labels say.

#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use serde_json::{Value, json};
use tests::artifacts;
use tests::programs::{Verifier, rapid_verifier, run};

fn records(file: &str) -> Option<Vec<Value>> {
    let path = artifacts::data()?.join(file);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
    )
}

fn verifier(grader: &str) -> Option<Verifier> {
    let data = artifacts::data()?;
    if grader == "code" {
        artifacts::sandbox()?;
    }
    let require = format!("require=[\"{grader}\"]");
    Some(Verifier::start(&[
        "--data-dir",
        data.to_str().unwrap(),
        "--set",
        &require,
    ]))
}

/// Judgements of `(id, task, completion)`, in order, each answer under its own id.
fn judge(verifier: &Verifier, items: &[(String, Value, String)]) -> Vec<Value> {
    let body = json!({"items": items.iter().map(|(id, task, completion)| json!({"id": id, "task": task, "prompt": "", "completion": completion})).collect::<Vec<_>>()});
    let answer = verifier.request("POST", "/v1/verify", body.to_string().as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let results = answer.json()["results"].as_array().unwrap().clone();
    assert_eq!(results.len(), items.len());
    for (result, (id, ..)) in results.iter().zip(items) {
        assert_eq!(result["id"].as_str(), Some(id.as_str()));
    }
    results
}

#[test]
fn every_canonical_solution_of_mbpp_plus_is_correct() {
    let Some(verifier) = verifier("code") else {
        return;
    };
    let mut items = Vec::new();
    for file in ["mbppplus/train.jsonl", "mbppplus/eval.jsonl"] {
        for record in records(file).unwrap() {
            let id = format!("mbppplus/{}", record["task_id"]);
            items.push((
                id.clone(),
                json!(id),
                format!("```python\n{}\n```", record["code"].as_str().unwrap()),
            ));
        }
    }
    assert_eq!(items.len(), 378);
    let results = judge(&verifier, &items);
    let wrong: Vec<_> = results
        .iter()
        .filter(|result| result["verdict"] != "correct")
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of 378 are not correct: {wrong:#?}",
        wrong.len()
    );
    assert!(results.iter().all(|result| result["reward"] == 1.0
        && result["deterministic"] == true
        && result["passed"] == result["total"]));
}

#[test]
fn labelled_samples_are_judged_as_their_labels_say() {
    let Some(verifier) = verifier("code") else {
        return;
    };
    let samples = records("samples/mbppplus-qwen2.5-coder-1.5b.jsonl").unwrap();
    let items: Vec<_> = samples
        .iter()
        .enumerate()
        .map(|(i, sample)| {
            (
                i.to_string(),
                json!(format!("mbppplus/{}", sample["task_id"])),
                sample["completion"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    assert_eq!(items.len(), 372);
    let results = judge(&verifier, &items);
    let other: Vec<_> = results
        .iter()
        .zip(&samples)
        .filter(|(result, sample)| {
            result["reward"]
                != json!(if sample["plus_passed"] == true {
                    1.0
                } else {
                    0.0
                })
        })
        .map(|(result, sample)| {
            format!(
                "mbppplus/{}, labelled {}: {} {}",
                sample["task_id"], sample["plus_passed"], result["verdict"], result["detail"]
            )
        })
        .collect();
    eprintln!(
        "{} of 372 agree; the others:\n{}",
        372 - other.len(),
        other.join("\n")
    );
    assert!(
        other.len() * 100 <= 372,
        "{} of 372 disagree:\n{}",
        other.len(),
        other.join("\n")
    );

    // Asked again, the same verdicts come from the cache, and in the same words.
    let again = judge(&verifier, &items);
    for (first, second) in results.iter().zip(&again) {
        assert_eq!(second["cached"], true, "{second}");
        for field in ["key", "verdict", "reward", "detail", "passed", "total"] {
            assert_eq!(first[field], second[field], "{field} of {}", first["id"]);
        }
    }
}

#[test]
fn gold_answers_of_math_500_equal_themselves() {
    let Some(verifier) = verifier("math") else {
        return;
    };
    let items: Vec<_> = records("math/eval.jsonl")
        .unwrap()
        .iter()
        .enumerate()
        .map(|(i, record)| {
            let answer = record["answer"].as_str().unwrap();
            (
                i.to_string(),
                json!({"kind": "math", "answer": answer}),
                format!("So the answer is $\\boxed{{{answer}}}$."),
            )
        })
        .collect();
    assert_eq!(items.len(), 500);
    let results = judge(&verifier, &items);
    let wrong: Vec<_> = results
        .iter()
        .zip(&items)
        .filter(|(result, _)| result["verdict"] != "correct")
        .map(|(_, (.., completion))| completion)
        .collect();
    eprintln!("{} of 500 gold answers equal themselves", 500 - wrong.len());
    assert!(wrong.len() <= 4, "{wrong:#?}");
    // And no answer equals the next one's, unless it is the same.
    let shifted: Vec<_> = items
        .iter()
        .zip(items.iter().cycle().skip(1))
        .filter(|((_, task, _), (_, next, _))| task != next)
        .map(|((id, task, _), (.., completion))| (id.clone(), task.clone(), completion.clone()))
        .collect();
    let equal: Vec<_> = judge(&verifier, &shifted)
        .into_iter()
        .filter(|result| result["verdict"] == "correct")
        .collect();
    assert!(equal.len() <= 1, "{equal:#?}");
}

#[test]
fn a_file_of_samples_is_scored_without_a_server() {
    let Some(data) = artifacts::data() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("samples.jsonl");
    let lines: Vec<_> = records("gsm8k/eval.jsonl")
        .unwrap()
        .iter()
        .take(20)
        .enumerate()
        .flat_map(|(i, record)| {
            let answer = record["answer"].as_str().unwrap().rsplit("#### ").next().unwrap().to_owned();
            // One of each two samples is right in the first ten tasks, none in the others.
            let right = if i < 10 { answer } else { "-1".to_owned() };
            [right, "-1".to_owned()].map(|answer| json!({"task_id": format!("gsm8k/eval/{}", i + 1), "completion": format!("\\boxed{{{answer}}}")}).to_string())
        })
        .collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let score = run(&mut rapid_verifier([
        "score".as_ref(),
        "--dataset".as_ref(),
        "gsm8k".as_ref(),
        "--samples".as_ref(),
        file.as_os_str(),
        "--k".as_ref(),
        "1,2".as_ref(),
        "--json".as_ref(),
        "--data-dir".as_ref(),
        data.as_os_str(),
    ]))
    .success();
    let score: Value = serde_json::from_str(&score.stdout).unwrap();
    let mean = |k: &str| score["pass_at"][k]["mean"].as_f64().unwrap();
    assert!(
        (mean("1") - 0.25).abs() < 1e-12 && (mean("2") - 0.5).abs() < 1e-12,
        "{score}"
    );
}
