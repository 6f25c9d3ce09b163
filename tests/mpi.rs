//! Ranks of MPI launchers train as one process does, to the byte.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tests::artifacts::{self, long};
use tests::disk::Disk;
use tests::programs::{
    Outcome, Running, Verifier, assert_has, descendants, program, rapid, run, signal, start,
    wait_for,
};
use tests::repository::root;
use tests::training::{Job, repeating, set};

/// Time limit for a run of these tests.
const LIMIT: Duration = Duration::from_secs(900);

/// A launcher, if it is installed: Open MPI's or MPICH's. Prints that the test is skipped otherwise.
fn launcher(name: &str, more: &[&str]) -> Option<Vec<String>> {
    if Command::new(name).arg("--version").output().is_err() {
        let required = std::env::var("RAPID_TEST_MPI").is_ok_and(|value| value == "required");
        assert!(!required, "{name} is not installed");
        artifacts::skipped(&format!(
            "{name} is not installed (apt-get install openmpi-bin mpich)"
        ));
        return None;
    }
    let words = [&[name], more].concat();
    Some(words.into_iter().map(str::to_owned).collect())
}

/// Open MPI, if the model is there too.
fn open_mpi() -> Option<Vec<String>> {
    artifacts::model()?;
    let options = "--allow-run-as-root --oversubscribe --bind-to none";
    launcher("mpirun.openmpi", &Vec::from_iter(options.split(' ')))
}

fn mpich() -> Option<Vec<String>> {
    launcher("mpirun.mpich", &[])
}

/// `rapid` as `ranks` ranks of a launcher.
fn launched(launcher: &[String], ranks: usize, arguments: &[String]) -> Command {
    let mut command = Command::new(&launcher[0]);
    command.args(&launcher[1..]);
    command.args(["-n", &ranks.to_string()]);
    command.env("CUDA_VISIBLE_DEVICES", "");
    command.arg(program("rapid")).args(arguments);
    command
}

/// The command line of a small run.
fn training(out: &Path, verifier: &Verifier, inputs: &Path, more: &str) -> Vec<String> {
    let mut sets = repeating(inputs);
    let run = "run.slices=4 run.updates=4 run.checkpoint_every=2 run.keep_state=true";
    let others = "algorithm.n_step=8 algorithm.group_size=4 engine.threads=1";
    sets.extend([run, others, more].into_iter().flat_map(set));
    Job::new(out, "quickstart", Some(verifier), &sets).arguments
}

/// What a run leaves that does not depend on time: its metrics, and its last checkpoint with the optimiser's state.
fn results(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let checkpoint = Path::new("checkpoints/last");
    let mut files = vec![PathBuf::from("metrics.jsonl")];
    for entry in std::fs::read_dir(folder.join(checkpoint)).unwrap() {
        files.push(checkpoint.join(entry.unwrap().file_name()));
    }
    files.sort();
    assert!(files.len() > 4, "{files:?}");
    let read = |file: PathBuf| {
        let content = std::fs::read(folder.join(&file)).unwrap();
        (file, content)
    };
    files.into_iter().map(read).collect()
}

#[track_caller]
fn assert_same(folder: &Path, expected: &Path) {
    for ((file, content), (other, wanted)) in results(folder).into_iter().zip(results(expected)) {
        assert_eq!(file, other);
        // No diff of megabytes.
        let (file, folder) = (file.display(), folder.display());
        assert!(content == wanted, "{file} of {folder} differs");
    }
}

fn finish(command: &mut Command) -> Outcome {
    start(command).finish_within(LIMIT).success()
}

#[test]
fn ranks_of_open_mpi_and_of_mpich_train_as_one_process_does() {
    let (Some(open_mpi), Some(mpich)) = (open_mpi(), mpich()) else {
        return;
    };
    let verifier = Verifier::start(&[]);
    let home = tempfile::tempdir().unwrap();
    let train =
        |name: &str, more: &str| training(&home.path().join(name), &verifier, home.path(), more);
    // The size of a phase follows from the effective sample size, which all ranks' log-probabilities give.
    let mut auto = "algorithm.preset=rapid-auto algorithm.h=4 run.checkpoint_every=0".to_owned();
    if !long("runs of all weights, in place of adapters") {
        auto += " lora.rank=4";
    }
    let alone = home.path().join("alone");
    let _ = finish(&mut rapid(train("alone", &auto)));
    let outcome = finish(&mut launched(&open_mpi, 2, &train("two", &auto)));
    // The others are silent.
    let finished = outcome.stderr.matches("finished after").count();
    assert_eq!(finished, 1, "{}", outcome.stderr);
    assert_same(&home.path().join("two"), &alone);

    // Another number of ranks, of another MPI, goes on where one process stopped.
    let lora = "lora.rank=4 algorithm.kl=0.01 algorithm.dynamic_sampling=2";
    let adapters = home.path().join("adapters");
    let _ = finish(&mut rapid(train("adapters", lora)));
    let half = format!("{lora} run.updates=2");
    let _ = finish(&mut rapid(train("four", &half)));
    let four = home.path().join("four");
    let mut again = train("four", lora);
    again.push("--or-resume".to_owned());
    let outcome = finish(&mut launched(&mpich, 4, &again));
    assert_has(&outcome.stderr, &["continuing the run"]);
    assert_same(&four, &adapters);
}

#[test]
fn ranks_that_cannot_divide_a_mini_batch_are_refused() {
    let Some(open_mpi) = open_mpi() else { return };
    let verifier = Verifier::start(&[]);
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("refused");
    let arguments = training(&out, &verifier, home.path(), "run.slices=1");
    let outcome = start(&mut launched(&open_mpi, 2, &arguments)).finish_within(LIMIT);
    assert!(outcome.code != Some(0));
    assert_has(&outcome.stderr, &["run.slices"]);
    assert!(!out.exists());
    let doctor = start(&mut launched(&open_mpi, 2, &["doctor".to_owned()])).finish_within(LIMIT);
    assert_has(&doctor.stderr, &["start this command without it"]);
}

/// How long a rank waits for the others in the tests of failures, in seconds.
const DEADLINE_S: u64 = 20;

/// A run with adapters, and what it leaves if nothing happens to it.
struct Undisturbed {
    verifier: Verifier,
    home: tempfile::TempDir,
}

impl Undisturbed {
    fn new() -> Self {
        let undisturbed = Self {
            verifier: Verifier::start(&[]),
            home: tempfile::tempdir().unwrap(),
        };
        let expected = undisturbed.arguments(&undisturbed.expected());
        let _ = finish(&mut rapid(expected));
        undisturbed
    }

    fn expected(&self) -> PathBuf {
        self.home.path().join("expected")
    }

    fn arguments(&self, out: &Path) -> Vec<String> {
        let settings = "lora.rank=4 run.updates=6";
        training(out, &self.verifier, self.home.path(), settings)
    }

    /// Starts the run on two ranks, and waits for an update.
    fn start(&self, launcher: &[String], out: &Path, updates: usize) -> Running {
        let mut command = launched(launcher, 2, &self.arguments(out));
        command.env("RAPID_RANK_TIMEOUT_S", DEADLINE_S.to_string());
        let mut running = start(&mut command);
        Job::new(out, "quickstart", None, &[]).reach(&mut running, updates);
        running
    }

    /// Ends a run on `ranks` ranks that was stopped, and compares it.
    #[track_caller]
    fn resume(&self, launcher: &[String], ranks: usize, out: &Path) {
        let resume = ["train", "--resume", out.to_str().unwrap()].map(str::to_owned);
        let _ = finish(&mut launched(launcher, ranks, &resume));
        assert_same(out, &self.expected());
    }
}

fn rank(running: &Running, rank: &str) -> u32 {
    let is_rank = |process: &u32| {
        let all = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let variable = format!("OMPI_COMM_WORLD_RANK={rank}");
        all.split(|byte| *byte == 0)
            .any(|line| line == variable.as_bytes())
    };
    let ranks = descendants(running.process());
    ranks.into_iter().find(is_rank).expect("the rank runs")
}

#[test]
fn libraries_of_python_packages_carry_the_same_bytes() {
    let Some(_) = artifacts::model() else { return };
    if !long("MPICH's, Open MPI's and MPI 5's libraries of Python packages") {
        return;
    }
    let undisturbed = Undisturbed::new();
    for (package, more, library) in [
        ("mpich", &[][..], None),
        ("mpich", &[], Some("libmpi_abi.so.1")),
        ("openmpi", &["--allow-run-as-root", "--oversubscribe"], None),
    ] {
        let venv = undisturbed.home.path().join(package);
        let _ = run(Command::new("python3").args(["-m", "venv"]).arg(&venv)).success();
        let pip = venv.join("bin/pip");
        let _ = run(Command::new(pip).args(["install", "--quiet", package])).success();
        let launcher = [&["mpiexec"], more].concat();
        let launcher: Vec<String> = launcher.into_iter().map(str::to_owned).collect();
        let out = undisturbed.home.path().join("out");
        let mut command = launched(&launcher, 2, &undisturbed.arguments(&out));
        let path = std::env::var("PATH").unwrap();
        command.env("PATH", format!("{}:{path}", venv.join("bin").display()));
        if let Some(library) = library {
            command.env("RAPID_MPI_LIBRARY", venv.join("lib").join(library));
        }
        let _ = finish(&mut command);
        assert_same(&out, &undisturbed.expected());
        std::fs::remove_dir_all(out).unwrap();
    }
}

#[test]
fn a_killed_rank_ends_all_and_the_run_goes_on_without_loss() {
    let Some(open_mpi) = open_mpi() else { return };
    let undisturbed = Undisturbed::new();
    // Updates take about a second here, and every second one ends with a checkpoint.
    let (moments, victims) =
        if long("either rank killed in all phases of a run, and the run resumed on 1, 2 and 4") {
            let moments = &[(1, 0), (1, 300), (2, 0), (3, 100), (3, 600), (4, 10)][..];
            (moments, &["0", "1"][..])
        } else {
            (&[(3, 0)][..], &["1"][..])
        };
    for (number, (updates, milliseconds)) in moments.iter().enumerate() {
        for victim in victims {
            let name = format!("killed-{number}-{victim}");
            let out = undisturbed.home.path().join(name);
            let running = undisturbed.start(&open_mpi, &out, *updates);
            std::thread::sleep(Duration::from_millis(*milliseconds));
            assert!(signal("KILL", &[rank(&running, victim)]));
            let since = Instant::now();
            let outcome = running.finish_within(LIMIT);
            assert!(outcome.code != Some(0), "{}", outcome.stderr);
            let limit = Duration::from_secs(DEADLINE_S + 10);
            assert!(since.elapsed() < limit, "{:?}", since.elapsed());
            undisturbed.resume(&open_mpi, [1, 2, 4][number % 3], &out);
        }
    }
}

#[test]
fn a_stop_a_full_disk_and_an_outage_of_the_verifier_lose_nothing() {
    let Some(open_mpi) = open_mpi() else { return };
    if !long("a stop, a full disk and an outage of the verifier with several ranks") {
        return;
    }
    let mut undisturbed = Undisturbed::new();
    let folder = |name: &str| undisturbed.home.path().join(name);
    let (stopped, outage) = (folder("stopped"), folder("outage"));

    // As Slurm does before the time is up: all ranks get the signal.
    let running = undisturbed.start(&open_mpi, &stopped, 2);
    for number in ["1", "0"] {
        assert!(signal("TERM", &[rank(&running, number)]));
    }
    let outcome = running.finish_within(LIMIT);
    assert_has(&outcome.stderr, &["continue with"]);
    undisturbed.resume(&open_mpi, 4, &stopped);

    let running = undisturbed.start(&open_mpi, &outage, 2);
    undisturbed.verifier.kill();
    // Longer than ranks wait for each other.
    std::thread::sleep(Duration::from_secs(DEADLINE_S + 5));
    undisturbed.verifier.restart();
    let _ = running.finish_within(LIMIT).success();
    assert_same(&outage, &undisturbed.expected());

    let Some(disk) = Disk::mount("size=4g") else {
        return;
    };
    let out = disk.path().join("run");
    let running = start(&mut launched(&open_mpi, 2, &undisturbed.arguments(&out)));
    // At the start, there was room.
    wait_for("the run folder", LIMIT, || {
        out.join("config.toml").exists().then_some(())
    });
    disk.remount("size=24m");
    let outcome = running.finish_within(LIMIT);
    assert!(outcome.code != Some(0), "{}", outcome.stderr);
    assert_has(&outcome.stderr, &["the disk is full"]);
    disk.remount("size=4g");
    undisturbed.resume(&open_mpi, 2, &out);
}

#[test]
fn ranks_of_slurm_train_as_one_process_does() {
    if artifacts::model().is_none() || !long("runs under a Slurm of one node") {
        return;
    }
    let slurm = run(Command::new("bash").arg(root().join("scripts/slurm.sh"))).success();
    let conf = slurm.stdout.lines().last().unwrap().to_owned();
    let slurm = |arguments: &[String]| {
        let mut command = Command::new(&arguments[0]);
        command.args(&arguments[1..]).env("SLURM_CONF", &conf);
        command.env("CUDA_VISIBLE_DEVICES", "");
        command
    };
    let undisturbed = Undisturbed::new();
    let folder = |name: &str| undisturbed.home.path().join(name);
    let srun = |kind: &str, ranks: usize, arguments: Vec<String>| {
        let mut words: Vec<String> = ["srun", kind, "--overcommit", "--ntasks", &ranks.to_string()]
            .map(str::to_owned)
            .into();
        words.push(program("rapid").to_str().unwrap().to_owned());
        words.extend(arguments);
        slurm(&words)
    };
    let out = folder("pmix");
    let _ = finish(&mut srun("--mpi=pmix", 2, undisturbed.arguments(&out)));
    assert_same(&out, &undisturbed.expected());
    let out = folder("pmi2");
    let _ = finish(&mut srun("--mpi=pmi2", 4, undisturbed.arguments(&out)));
    assert_same(&out, &undisturbed.expected());

    // Ranks that do not know of each other do not train side by side.
    let out = folder("none");
    let outcome = start(&mut srun("--mpi=none", 2, undisturbed.arguments(&out)));
    let outcome = outcome.finish_within(LIMIT);
    assert!(outcome.code != Some(0), "{}", outcome.stderr);
    assert_has(&outcome.stderr, &["--mpi=pmix"]);
    assert!(!out.exists());

    // The batch script of this repository, interrupted and sent again.
    let (binary, path) = (program("rapid"), std::env::var("PATH").unwrap());
    let path = format!("{}:{path}", binary.parent().unwrap().display());
    let (out, log) = (folder("job"), folder("job.log"));
    let script = root().join("deploy/slurm/train.sbatch");
    let words = ["sbatch", "--wait", "--ntasks=2", "--overcommit", "--output"].map(str::to_owned);
    let mut words = Vec::from(words);
    let files = [&log, &script].map(|file| file.to_str().unwrap().to_owned());
    words.extend(files);
    words.extend(["quickstart".to_owned(), out.to_str().unwrap().to_owned()]);
    // Those that the script does not give itself.
    let own = [
        "train",
        "--recipe",
        "quickstart",
        "--out",
        out.to_str().unwrap(),
    ];
    let more = undisturbed.arguments(&out).into_iter();
    words.extend(more.filter(|word| !own.contains(&word.as_str())));
    let sbatch = || {
        let mut command = slurm(&words);
        command.env("PATH", &path);
        command
    };
    let mut running = start(&mut sbatch());
    Job::new(&out, "quickstart", None, &[]).reach(&mut running, 3);
    let cancel = ["scancel", "--signal=TERM", "--name=rapid-train"].map(str::to_owned);
    let _ = run(&mut slurm(&cancel)).success();
    let outcome = running.finish_within(LIMIT);
    assert!(outcome.code != Some(0), "{}", outcome.stderr);
    let _ = finish(&mut sbatch());
    let log = std::fs::read_to_string(log).unwrap();
    assert_has(&log, &["continue with", "continuing the run"]);
    assert_same(&out, &undisturbed.expected());
}
