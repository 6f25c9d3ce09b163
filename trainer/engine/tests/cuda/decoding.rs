//! Decoding step by step, recorded or not.

use super::*;

#[test]
fn decoding_samples_the_cpus_tokens_recorded_or_not() {
    for (seed, family) in (250..).zip(Family::ALL) {
        let mut random = Random(seed);
        let config = config(&mut random, family);
        let weights = weights(&mut random, &config);
        let (mut gpu, counters) = emulated_model(&config, &weights, Dtype::F32);
        let backend = cpu::open_with(Some(1), Dtype::F32, None).unwrap();
        let mut cpu = Model::new(config.clone(), weights.clone(), backend).unwrap();
        // Five sequences in a pass of eight, with two sizes of the store. Each pass is run, recorded and then replayed.
        let mut sampled =
            |count| [&mut gpu, &mut cpu].map(|model| generate(model, &mut Random(seed), count, 5));
        let first = sampled(5);
        assert_eq!(counters.lock().unwrap().calls["replay"], 4);
        let second = sampled(6);
        assert_eq!(counters.lock().unwrap().calls["replay"], 8);
        for [ours, theirs] in [&first, &second] {
            let same = ours.iter().zip(theirs).filter(|(a, b)| a.token == b.token);
            // A draw on the border between two tokens may give either, and what follows then differs as well.
            assert!(same.clone().count() * 10 >= ours.len() * 8, "{family:?}");
            for (ours, theirs) in same {
                assert!(
                    (ours.logp - theirs.logp).abs() < 1e-2,
                    "{ours:?} {theirs:?}"
                );
            }
        }
        // The same again, with every pass replayed.
        assert_eq!(sampled(5)[0], first[0]);
        assert_eq!(counters.lock().unwrap().calls["replay"], 13);
    }
}

/// Sequences come and go, change places, share rows and grow, the device fails, and the store is made again. A device that knows the rows of earlier batches
/// computes the same as one without them.
#[test]
fn rows_that_the_device_has_are_those_of_the_batch() {
    let mut random = Random(261);
    let config = config(&mut random, Family::Llama);
    let weights = weights(&mut random, &config);
    let [(mut model, counters), (mut reference, _)] =
        [(), ()].map(|()| emulated_model(&config, &weights, Dtype::F32));
    let store = 4000;
    let mut running: Vec<KvRows> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    for step in 0..180 {
        if step % 60 == 0 {
            for model in [&mut model, &mut reference] {
                model.release_kv();
                model.reserve_kv(store + step).unwrap();
            }
            running.clear();
            free = (0..store / 16).collect();
        }
        if running.len() < 12 && random.below(3) == 0 {
            // The first three blocks are everybody's prompt.
            let mut rows = KvRows::default();
            for block in [7, 3, 90] {
                rows.append(16 * block, 1 + random.below(16));
            }
            rows.push(16 * free.swap_remove(100 + random.below(20)), 1);
            running.push(rows);
        }
        if random.below(6) == 0 && !running.is_empty() {
            running.swap_remove(random.below(running.len()));
        }
        if random.below(9) == 0 && !running.is_empty() {
            let places = random.below(running.len());
            running.rotate_left(places);
        }
        if running.is_empty() {
            continue;
        }
        let mut together = Batch::default();
        // One of them may compute several tokens.
        let several = random.below(5 * running.len());
        for (i, mut kv) in running.drain(..).enumerate() {
            let count = if i == several { 5 } else { 1 };
            let mut tokens = Vec::new();
            for _ in 0..count {
                let &(first, n) = kv.ranges().last().unwrap();
                let in_block = (first + n) % 16;
                let row = match in_block {
                    0 => 16 * free.swap_remove(100 + random.below(20)),
                    _ => first + n,
                };
                tokens.push(random.below(config.vocab_size) as u32);
                kv.append(row, 1);
            }
            together.add(&tokens, kv);
        }
        let all: Vec<usize> = (0..together.tokens.len()).collect();
        let draws: Vec<Draw> = (0..all.len() as u64)
            .map(|seed| Draw::new(Sampling::default(), seed, step as u64))
            .collect();
        if step % 17 == 16 {
            // The batch does not arrive, or the draws.
            let writes = counters.lock().unwrap().calls["write"];
            counters.lock().unwrap().failing = Some(("write", writes + step % 2));
            assert!(model.infer(&together, &all, &draws).is_err());
            counters.lock().unwrap().failing = None;
        }
        let sampled = model.infer(&together, &all, &draws).unwrap();
        let expected = reference.infer(&together.clone(), &all, &draws).unwrap();
        assert_eq!(sampled, expected, "step {step}");
        running = together.spans.into_iter().map(|span| span.kv).collect();
    }
    let calls = &counters.lock().unwrap().calls;
    assert!(calls["replay"] > 20, "{calls:?}");
}

#[test]
fn a_sample_does_not_depend_on_the_rest_of_the_batch() {
    let mut random = Random(260);
    let config = config(&mut random, Family::Qwen2);
    let weights = weights(&mut random, &config);
    let sampled = |count: usize| {
        let (mut model, _) = emulated_model(&config, &weights, Dtype::Bf16);
        let sampled = generate(&mut model, &mut Random(9), count, 3);
        sampled.into_iter().step_by(count).collect::<Vec<_>>()
    };
    // Only the first sequence's first token is the same in all batches.
    let alone = sampled(1);
    for count in [2, 7, 40] {
        assert_eq!(sampled(count)[0], alone[0]);
    }
}

#[test]
fn a_pass_that_cannot_be_recorded_still_runs() {
    let mut random = Random(272);
    let config = config(&mut random, Family::Qwen2);
    let weights = weights(&mut random, &config);
    let sampled = |unrecordable| {
        let (mut model, counters) = emulated_model(&config, &weights, Dtype::F32);
        counters.lock().unwrap().unrecordable = unrecordable;
        let sampled = generate(&mut model, &mut Random(5), 5, 12);
        let replays = counters.lock().unwrap().calls.get("replay").copied();
        (sampled, replays)
    };
    let (recorded, replays) = sampled(None);
    assert_eq!(replays, Some(11));
    for what in ["multiply", "launch", "record"] {
        assert_eq!(sampled(Some(what)), (recorded.clone(), None), "{what}");
    }
}
