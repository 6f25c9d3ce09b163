//! Every algorithm through the whole loop, with the exact policy and a verifier over HTTP.

use super::masked::failing;
use super::*;
use crate::rollout::SampledGroup;
use crate::run::sft::TeacherFile;

pub(super) fn preset_config(url: &str, preset: Preset, more: &[&str]) -> Config {
    let preset = format!("algorithm.preset={}", preset.name());
    let mut sets = vec![preset.as_str(), "run.updates=20", "eval.every=0"];
    if preset.ends_with("=sft") {
        sets.extend([
            "data.teacher=teacher.jsonl",
            "algorithm.group_size=1",
            "algorithm.h=1",
        ]);
    }
    sets.extend(more);
    config(url, &sets)
}

/// The logged updates of a run in this folder, with this preset and these settings.
async fn trained(root: &Path, url: &str, preset: Preset, sets: &[&str]) -> Vec<StepRecord> {
    let config = preset_config(url, preset, sets);
    run_in(root, &config).await.unwrap();
    steps(root)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_preset_learns_and_resumes_to_the_bit() {
    let (home, server) = home_and_verifier().await;
    for preset in Preset::ALL {
        let config = preset_config(&server.url, preset, &[]);
        let uninterrupted = home.path().join(preset.name());
        let summary = run_in(&uninterrupted, &config).await.unwrap();
        let passed = |at: usize| summary.evals[at].pass_at_1().unwrap();
        assert!(passed(1) > passed(0), "{preset:?}: {:?}", summary.evals);

        let cut = home.path().join(format!("{}-cut", preset.name()));
        fail_after(7, &cut, &config).await;
        run_in(&cut, &config).await.unwrap();
        assert_same(&outputs(&cut), &outputs(&uninterrupted), preset.name());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpo_logs_the_divergence_from_the_reference() {
    let (home, server) = home_and_verifier().await;
    let mut last = Vec::new();
    for beta in ["algorithm.kl=0.04", "algorithm.kl=20"] {
        let root = home.path().join(beta);
        let steps = trained(&root, &server.url, Preset::Grpo, &[beta]).await;
        let kl = |step: &StepRecord| step.algo.kl_reference.unwrap();
        let kl: Vec<f64> = steps.iter().map(kl).collect();
        assert_eq!(kl[0], 0.0);
        last.push(kl[19]);
    }
    assert!(last[0] > 0.01 && last[1] < last[0] / 4.0, "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_without_a_gradient_are_computed_for_metrics_of_all_alone() {
    let (home, server) = home_and_verifier().await;
    for preset in [Preset::RapidPaper, Preset::RapidLoo, Preset::RapidAuto] {
        let mut runs = Vec::new();
        for metrics in ["run.metrics=all", "run.metrics=trained"] {
            let root = home.path().join(preset.name()).join(metrics);
            runs.push(trained(&root, &server.url, preset, &[metrics]).await);
        }
        let [all, some] = [&runs[0], &runs[1]];
        for (all, some) in all.iter().zip(some) {
            let of = |step: &StepRecord| {
                let algo = step.algo;
                let weights = (step.grad_norm, algo.loss, algo.reward, step.length_mean);
                (weights, algo.judged, step.groups, algo.clipped_gradient)
            };
            assert_eq!(of(all), of(some), "{preset:?}");
            let learns = |it: &StepRecord| {
                it.groups.mixed + it.groups.right * usize::from(preset == Preset::RapidPaper)
            };
            // auto_h reads the effective sample size of all.
            let measured = match preset {
                Preset::RapidAuto => 16,
                _ => 4 * learns(some),
            };
            assert_eq!((all.algo.measured(), some.algo.measured()), (16, measured));
            assert!((all.entropy - some.entropy).abs() < 0.5);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dynamic_sampling_replaces_groups_without_signal() {
    let (home, server) = home_and_verifier().await;
    let (mut mixed, mut rewards_differ) = (Vec::new(), false);
    for rounds in [0, 9].map(|rounds| format!("algorithm.dynamic_sampling={rounds}")) {
        let root = home.path().join(&rounds);
        let sets = [&*rounds, "algorithm.h=2"];
        let steps = trained(&root, &server.url, Preset::Dapo, &sets).await;
        let is_whole = |step: &StepRecord| step.prompts == 4 && step.algo.judged == 16;
        assert!(steps.iter().all(is_whole));
        let discarded: usize = steps.iter().map(|step| step.discarded).sum();
        assert_eq!(discarded > 0, rounds.ends_with('9'));
        for phase in steps.chunks(2) {
            let trained = (phase[0].algo.reward + phase[1].algo.reward) / 2.0;
            let sampled = phase[0].sampled_reward;
            assert_eq!(sampled.is_some(), rounds.ends_with('9'));
            assert_eq!(phase[1].sampled_reward, None);
            // If no group was discarded, all sampled completions are trained on.
            let same = sampled.is_none_or(|sampled| (sampled - trained).abs() < 1e-12);
            assert!(same || phase[0].discarded > 0, "{sampled:?}, {trained}");
            rewards_differ |= !same;
        }
        mixed.push(steps.iter().map(|step| step.groups.mixed).sum::<usize>());
    }
    assert!(mixed[0] < 75 && mixed[1] == 80, "{mixed:?}");
    assert!(rewards_differ, "the mean reward includes discarded groups");
}

#[tokio::test(flavor = "multi_thread")]
async fn terms_of_rewards_and_the_clipped_share_are_logged() {
    let (home, server) = home_and_verifier().await;
    let sets = [
        "run.updates=9",
        "optimiser.clip_norm=0.0625",
        "reward.format=0.5",
        "reward.length=-0.25",
    ];
    let steps = trained(home.path(), &server.url, Preset::GrpoClip, &sets).await;
    for step in &steps {
        let terms = &step.terms;
        let sum = terms["correct"] + 0.5 * terms["format"] - 0.25 * terms["length"];
        assert!((step.algo.reward - sum).abs() < 1e-12, "{step:?}");
        assert!((terms["length"] - step.length_mean / 4.0).abs() < 1e-12);
        assert!((terms["correct"] - step.pass_at[&1]).abs() < 1e-12);
        assert_eq!(step.groups.right + step.groups.wrong + step.groups.mixed, 4);
        let expected = (0.0625 / (step.grad_norm + 1e-6)).min(1.0);
        assert_eq!(step.grad_scale, Some(expected));
        // The first update of a phase is on policy.
        let removed = step.algo.clipped_gradient.unwrap();
        assert!(step.update > 0 || removed == 0.0, "{removed}");
    }
    assert!(steps.iter().any(|step| step.grad_norm > 0.0625));
}

#[tokio::test(flavor = "multi_thread")]
async fn shuffled_mini_batches_have_groups_of_any_prompts() {
    let (home, server) = home_and_verifier().await;
    let sets = ["algorithm.mix_groups=true", "run.updates=9"];
    let steps = trained(home.path(), &server.url, Preset::RapidAuthor, &sets).await;
    assert!(steps.iter().all(|step| step.algo.judged == 16));
    assert!(steps.iter().any(|step| step.prompts > 4));
    // A mini-batch has 4 groups of 4, of any prompts, and no completion is left alone.
    for step in &steps {
        let counts = step.groups;
        assert_eq!(step.algo.groups_left_out, 0);
        assert_eq!(counts.right + counts.wrong + counts.mixed, 4);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn padding_changes_only_the_value_term_and_resumes_to_the_bit() {
    let (home, server) = home_and_verifier().await;
    let padding = [
        "run.updates=9",
        "run.metrics=all",
        "algorithm.sum_padding=true",
    ];
    let config = |sets: &[&str]| preset_config(&server.url, Preset::RapidAuthor, sets);
    let place = |name: &str| home.path().join(name);
    let preset = Preset::RapidAuthor;
    let bare = trained(&place("bare"), &server.url, preset, &padding[..2]).await;
    let padded = trained(&place("padded"), &server.url, preset, &padding).await;
    let unpadded = |step: &StepRecord| (step.algo.reward, step.length_mean, step.entropy);
    assert_eq!(unpadded(&bare[0]), unpadded(&padded[0]));
    // While μ equals π, all weights are 1, and padding gets no gradient. Until the first update that differs, the models are the same.
    let first = (0..9).find(|i| bare[*i].grad_norm != padded[*i].grad_norm);
    let first = first.expect("the value term includes padding");
    assert!(first > 0);
    for (bare, padded) in bare.iter().zip(&padded).take(first + 1) {
        assert_eq!(bare.algo.ell_std, padded.algo.ell_std);
    }

    fail_after(7, &place("cut"), &config(&padding)).await;
    run_in(&place("cut"), &config(&padding)).await.unwrap();
    let [cut, expected] = ["cut", "padded"].map(|name| outputs(&place(name)));
    assert_same(&cut, &expected, "padded");

    let mut policy = FakePolicy::default();
    policy.lacks_stop_tokens = true;
    let config = config(&["algorithm.sum_padding=true", "eval.samples=0"]);
    let job = job(&place("refused"), &config, Arc::new(policy));
    let error = train(job.unwrap()).await.unwrap_err();
    assert_contains(&error, &["no end-of-text token", "`algorithm.sum_padding`"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn recomputed_behaviour_log_probabilities_remove_the_rounding_of_sampling() {
    let (home, server) = home_and_verifier().await;
    let (h, recompute) = ("algorithm.h=4", "sampling.behaviour_logprob=recompute");
    let padded = [h, recompute, "algorithm.sum_padding=true"];
    for (name, sets) in [
        ("sampled", &padded[..1]),
        ("recomputed", &padded[..2]),
        ("padded", &padded),
    ] {
        let root = home.path().join(name);
        let config = preset_config(&server.url, Preset::RapidPaper, sets);
        let mut policy = FakePolicy::default();
        policy.logp_offset = 1e-3;
        let job = job(&root, &config, Arc::new(policy));
        train(job.unwrap()).await.unwrap();
        // Phases have four updates: in the first of each, μ equals π.
        for step in steps(&root).iter().step_by(4) {
            assert_eq!(step.algo.ell_std == 0.0, name != "sampled", "{name}");
        }
    }
}

async fn demonstrations_of(root: &Path, config: &Config) -> Result<Vec<SampledGroup>, TrainError> {
    let resumed = root.join("config.toml").exists().then_some(root);
    let teacher = TeacherFile::read(config, resumed)?.expect("the recipe has a teacher");
    let mut job = plain_job(root, config)?;
    let progress = &mut job.journal.progress;
    let (policy, prompts) = (job.policy.as_ref(), &job.prompts.train);
    let judging = teacher.judge(config, policy, &job.rewards, prompts, progress);
    let (demonstrations, file) = judging.await?;
    if let Some(file) = file {
        std::fs::write(root.join("teacher.jsonl"), file).unwrap();
    }
    Ok(demonstrations)
}

#[tokio::test(flavor = "multi_thread")]
async fn demonstrations_are_trained_at_temperature_1() {
    let (home, server) = home_and_verifier().await;
    let metrics = async |temperature: &str| {
        let root = home.path().join(temperature);
        let sets = [temperature, "run.updates=3", "eval.samples=0"];
        let config = preset_config(&server.url, Preset::Sft, &sets);
        run_in(&root, &config).await.unwrap();
        std::fs::read_to_string(root.join("metrics.jsonl")).unwrap()
    };
    let at_one_half = metrics("sampling.temperature=0.5").await;
    assert_eq!(at_one_half, metrics("sampling.temperature=1.0").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn demonstrations_are_correct_and_the_same_in_a_resumed_run() {
    let (home, server) = home_and_verifier().await;
    let (root, file) = (home.path().join("run"), home.path().join("teacher.jsonl"));
    let lines = [
        r#"{"task": "toy/train/0", "completion": "bb"}"#,
        r#"{"id": "toy/train/1", "sample": 3, "completion": "b", "finish": "stop"}"#,
        "",
        r#"{"task": "toy/train/1", "completion": "cb"}"#,
        r#"{"task": "toy/train/2", "completion": "bbbb", "finish": "length"}"#,
        r#"{"task": "toy/eval/0", "completion": "b"}"#,
        r#"{"task": "toy/train/3", "completion": "bbbbbbbbb"}"#,
    ];
    std::fs::write(&file, format!("\u{feff}{}", lines.join("\r\n"))).unwrap();
    let teacher = format!("data.teacher={}", file.display());
    let config = preset_config(&server.url, Preset::Sft, &[&teacher]);
    let demonstrations = demonstrations_of(&root, &config).await.unwrap();
    let summaries = demonstrations.iter().map(|one| {
        let (task, sample) = (&one.prompt.task, &one.samples[0]);
        (&*task.id, &*sample.text, sample.tokens.len())
    });
    // The end token counts too; the completion of nine letters is longer than the maximum.
    assert!(summaries.eq([("toy/train/0", "bb", 3), ("toy/train/1", "b", 2)]));
    std::fs::remove_file(&file).unwrap();
    let resumed = demonstrations_of(&root, &config).await.unwrap();
    assert_eq!(resumed, demonstrations);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_teacher_is_refused_and_not_stored() {
    let home = fakes::folder();
    let server = failing(|_, item| item.completion == "bb").await;
    let file = home.path().join("teacher.jsonl");
    let teacher = format!("data.teacher={}", file.display());
    let strict = preset_config(&server.url, Preset::Sft, &[&teacher]);
    let line = |text: &str| format!("{{\"task\": \"toy/train/0\", \"completion\": \"{text}\"}}\n");
    let unjudged = line("b") + &line("bb");
    for (number, (text, expected)) in [
        (None, "it cannot be read (No such file"),
        (Some("{\"task\""), "line 1 is not"),
        (Some("{\"task\": NaN}"), "(JSON has no number `NaN`"),
        (Some(r#"{"task": "toy/train/0"}"#), "line 1 is not"),
        (Some(&line("c")), "0 right, 1 wrong"),
        (Some(&line("b").replace("train", "eval")), "toy/train/0"),
        (Some(&line("bbbbb")), "sampling.max_tokens"),
        (Some(""), "none of its completions"),
        (Some(&unjudged), "verifier.max_masked"),
    ]
    .into_iter()
    .enumerate()
    {
        if let Some(text) = text {
            std::fs::write(&file, text).unwrap();
        }
        let root = home.path().join(format!("run-{number}"));
        let error = demonstrations_of(&root, &strict).await.unwrap_err();
        assert_refusal(&error, &[expected, "teacher.jsonl"]);
        assert!(!root.join("teacher.jsonl").exists());
    }
    let sets = [teacher.as_str(), "verifier.max_masked=0.5"];
    let lax = preset_config(&server.url, Preset::Sft, &sets);
    let root = home.path().join("lax");
    assert_eq!(demonstrations_of(&root, &lax).await.unwrap().len(), 1);
}
