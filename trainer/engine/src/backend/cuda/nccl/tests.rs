//! Tests with a stand-in for the library, which `g++` compiles from `stand_in.cpp`: it moves bytes between threads.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

use super::*;
use crate::backend::ranks::{local, on_each};
use crate::error::assert_says;

/// The stand-in, copied to a file of its own, so that tests share none of its state.
struct StandIn {
    nccl: &'static Nccl,
    idle: unsafe extern "C" fn(Comm) -> c_int,
    /// Sets the failure of all ranks, and the rank that cannot join.
    set: unsafe extern "C" fn(c_int, c_int),
    /// Number of communicators that are alive.
    alive: unsafe extern "C" fn() -> c_int,
    _folder: tempfile::TempDir,
}

fn compiled(folder: &Path, flags: &[&str]) -> PathBuf {
    let file = folder.join(NAME);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/backend/cuda/nccl/stand_in.cpp");
    let status = Command::new("g++")
        .args(["-std=c++17", "-Wall", "-shared", "-fPIC", "-o"])
        .args([&file, &source])
        .args(flags)
        .status();
    assert!(status.unwrap().success());
    file
}

impl StandIn {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = compiled(folder.path(), &[]);
        let nccl = Nccl::load(std::slice::from_ref(&file)).unwrap();
        let library = libraries::open(&file).unwrap();
        // SAFETY: these are their types in `stand_in.cpp`.
        unsafe {
            Self {
                nccl: Box::leak(Box::new(nccl)),
                idle: *library.get(b"stand_in_idle").unwrap(),
                set: *library.get(b"stand_in_set").unwrap(),
                alive: *library.get(b"stand_in_alive").unwrap(),
                _folder: folder,
            }
        }
    }

    fn set(&self, failure: c_int, refused: c_int) {
        // SAFETY: it takes any numbers.
        unsafe { (self.set)(failure, refused) };
    }

    fn alive(&self) -> c_int {
        // SAFETY: it only returns a number.
        unsafe { (self.alive)() }
    }

    /// Runs `work` on ranks that are threads, each with its connection.
    fn each<T: Send>(
        &self,
        size: usize,
        deadline: Duration,
        work: impl Fn(usize, Result<Result<Link, String>, EngineError>) -> T + Sync,
    ) -> Vec<T> {
        on_each(size, deadline, |ranks| {
            let rank = ranks.rank();
            let gpu = Ok([rank as u8; 16]);
            work(rank, connect(&Ok(self.nccl), &gpu, ranks.as_ref()))
        })
    }

    fn wait_for_ranks(&self, link: &mut Link) -> Result<(), String> {
        let comm = link.comm;
        // SAFETY: the communicator is alive while the link waits.
        link.wait_for_ranks(|| unsafe { (self.idle)(comm) } != 0)
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

fn bytes(of: &[u8]) -> Bytes {
    Bytes {
        address: of.as_ptr() as u64,
        len: of.len(),
    }
}

#[test]
fn every_rank_gets_what_every_rank_sent_it() {
    let stand_in = StandIn::new();
    let size = 4;
    stand_in.each(size, PATIENCE, |rank, link| {
        let mut link = link.unwrap().unwrap();
        assert!(link.name().contains("NCCL 2.28.3"), "{}", link.name());
        // The length depends on both ranks, and some have nothing for each other.
        let part = |from: usize, to: usize, round: usize| {
            vec![(16 * from + to + round) as u8; (from + to + round) % 5]
        };
        for round in 0..1000 {
            let sent: Vec<Vec<u8>> = (0..size).map(|to| part(rank, to, round)).collect();
            let expected: Vec<Vec<u8>> = (0..size).map(|from| part(from, rank, round)).collect();
            let mut got: Vec<Vec<u8>> = expected.iter().map(|part| vec![0; part.len()]).collect();
            let [send, receive] =
                [&sent, &got].map(|parts| parts.iter().map(|p| bytes(p)).collect::<Vec<_>>());
            link.exchange(&send, &receive, null_mut()).unwrap();
            stand_in.wait_for_ranks(&mut link).unwrap();
            assert!(
                std::mem::take(&mut got) == expected,
                "rank {rank}, round {round}"
            );
        }
    });
    assert_eq!(stand_in.alive(), 0);
}

#[test]
fn a_rank_that_does_not_exchange_is_an_error_after_the_deadline() {
    let stand_in = StandIn::new();
    let links = Mutex::new(Vec::new());
    let reasons = stand_in.each(2, Duration::from_secs(6), |rank, link| {
        let mut link = link.unwrap().unwrap();
        if rank == 1 {
            // It stays connected.
            links.lock().unwrap().push(link.comm as usize);
            std::mem::forget(link);
            return String::new();
        }
        let room = [0; 8];
        link.exchange(
            &[bytes(&[]), bytes(&room)],
            &[bytes(&[]), bytes(&room)],
            null_mut(),
        )
        .unwrap();
        let reason = stand_in.wait_for_ranks(&mut link).unwrap_err();
        assert!(link.exchange(&[], &[], null_mut()).is_err());
        // Nothing is waited for any more.
        stand_in.wait_for_ranks(&mut link).unwrap();
        reason
    });
    assert_says(&reasons[0], &["waited 3 s for other ranks"]);
    assert_eq!((stand_in.alive(), links.lock().unwrap().len()), (1, 1));
}

#[test]
fn a_failure_in_the_background_ends_the_connection_with_its_reason() {
    let stand_in = StandIn::new();
    let links: Vec<usize> = stand_in.each(2, PATIENCE, |_, link| {
        Box::into_raw(Box::new(link.unwrap().unwrap())) as usize
    });
    stand_in.set(6, -1);
    for link in links {
        // SAFETY: made by `into_raw` above.
        let mut link = unsafe { Box::from_raw(link as *mut Link) };
        let room = [0; 8];
        let reason = link.exchange(&[bytes(&room); 2], &[bytes(&room); 2], null_mut());
        let reason = reason
            .and_then(|()| stand_in.wait_for_ranks(&mut link))
            .unwrap_err();
        assert_says(&reason, &["network error; socket closed by peer"]);
    }
    assert_eq!(stand_in.alive(), 0);
}

#[test]
fn a_rank_that_cannot_join_is_an_error_on_all_with_the_remedy() {
    let stand_in = StandIn::new();
    stand_in.set(SUCCESS, 1);
    let errors = stand_in.each(2, Duration::from_secs(8), |_, link| {
        link.unwrap_err().to_string()
    });
    for error in errors {
        assert_says(&error, &["does not connect the ranks' GPUs"]);
        assert_says(&error, &["RAPID_NCCL_LIBRARY=none"]);
    }
    assert_eq!(stand_in.alive(), 0);
}

#[test]
fn gpus_are_connected_only_if_every_rank_has_its_own() {
    let rank = |gpu: u8| [&[1], &[gpu; 16][..]].concat();
    assert_eq!(obstacle(&[rank(1), rank(2), rank(3)]), None);
    let shared = obstacle(&[rank(1), rank(2), rank(1)]).unwrap();
    assert_eq!(shared, "ranks 0 and 2 have the same GPU");
    let lacks = [rank(1), [&[0], &b"NCCL is not found"[..]].concat()];
    assert_eq!(obstacle(&lacks).unwrap(), "rank 1: NCCL is not found");
    assert!(obstacle(&[rank(1), Vec::new()]).is_some());

    let ranks = local(1, PATIENCE);
    let why = connect(
        &Err("no library".to_owned()),
        &Ok([0; 16]),
        ranks[0].as_ref(),
    );
    assert!(why.unwrap().unwrap_err().contains("rank 0: no library"));
}

#[test]
fn a_library_that_cannot_be_used_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let old = compiled(folder.path(), &["-DVERSION=21605"]);
    let named = folder.path().join("missing.so");
    for (files, expected) in [
        (vec![old], "is NCCL 2.16.5, and 2.18 is the oldest"),
        (vec!["libc.so.6".into()], "libc.so.6 is no NCCL"),
        (
            vec![named],
            "missing.so cannot be loaded as NCCL; correct RAPID",
        ),
        (
            vec!["nowhere-1.so".into(), "nowhere-2.so".into()],
            "pip install nvidia-nccl-cu1",
        ),
    ] {
        let error = Nccl::load(&files).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
