//! NCCL carries bytes between the GPUs of the ranks. Its library is loaded when the program runs.
//!
//! It only sends and receives: the engine computes the sums, in its own order ([`crate::train`]). All calls return at once, and a rank waits for others no
//! longer than the process group's deadline. The functions are looked up here, since cudarc looks for `libnccl.so`, a name in development packages alone.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use cudarc::driver::sys::CUstream;
use libloading::Library;

use super::driver::Bytes;
use super::libraries;
use crate::backend::ranks::{self, ProcessGroup, agree};
use crate::error::EngineError;

/// The variable that names the library's file, or is `none` if ranks are to exchange through the host's memory.
const LIBRARY: &str = "RAPID_NCCL_LIBRARY";
const NONE: &str = "none";
/// The library's name. All versions since 2.0 have it.
const NAME: &str = "libnccl.so.2";
/// The oldest version that is used, the first one with the [`Config`] below, as NCCL numbers them.
const OLDEST: c_int = 21800;

/// Values of `ncclResult_t`.
const SUCCESS: c_int = 0;
const IN_PROGRESS: c_int = 7;
/// The value of `ncclUint8` in `ncclDataType_t`.
const BYTE: c_int = 1;
/// The value of a setting that NCCL chooses.
const UNSET: c_int = c_int::MIN;

type Comm = *mut c_void;

/// `ncclUniqueId`, by which ranks find each other. It is passed by value.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

/// `ncclConfig_t` of version 2.18. It states this version, so later libraries accept it.
#[repr(C)]
struct Config {
    size: usize,
    magic: c_uint,
    version: c_int,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
}

type Simple = unsafe extern "C" fn() -> c_int;
type Transfer = unsafe extern "C" fn(*mut c_void, usize, c_int, c_int, Comm, CUstream) -> c_int;

/// The functions of the loaded library, which stays loaded.
#[derive(Debug)]
pub(super) struct Nccl {
    /// The file and its version, for messages.
    name: String,
    unique_id: unsafe extern "C" fn(*mut UniqueId) -> c_int,
    init: unsafe extern "C" fn(*mut Comm, c_int, UniqueId, c_int, *mut Config) -> c_int,
    state: unsafe extern "C" fn(Comm, *mut c_int) -> c_int,
    abort: unsafe extern "C" fn(Comm) -> c_int,
    group_start: Simple,
    group_end: Simple,
    send: Transfer,
    receive: Transfer,
    error: unsafe extern "C" fn(c_int) -> *const c_char,
    last_error: unsafe extern "C" fn(Comm) -> *const c_char,
}

/// The library's file and version, for messages. The error says why there is none, with the remedy.
///
/// # Errors
/// If there is none, or it cannot be used.
pub fn find() -> Result<String, String> {
    library().map(|nccl| nccl.name.clone())
}

/// Whether the user has named the library's file.
pub fn is_named() -> bool {
    std::env::var(LIBRARY).is_ok_and(|name| !name.is_empty() && name != NONE)
}

/// Whether the user wants none.
pub(super) fn is_refused() -> bool {
    std::env::var(LIBRARY).is_ok_and(|name| name == NONE)
}

pub(super) fn library() -> Result<&'static Nccl, String> {
    static FOUND: OnceLock<Result<Nccl, String>> = OnceLock::new();
    let load = || match std::env::var(LIBRARY) {
        Ok(name) if name == NONE => Err(format!("{LIBRARY} is `{NONE}`")),
        Ok(name) if !name.is_empty() => Nccl::load(&[name.into()]),
        _ => Nccl::load(&libraries::candidates(NAME)),
    };
    FOUND.get_or_init(load).as_ref().map_err(Clone::clone)
}

impl Nccl {
    /// Loads the first of some files that can be loaded.
    fn load(files: &[PathBuf]) -> Result<Self, String> {
        let found = files
            .iter()
            .find_map(|file| Some((libraries::open(file)?, file)));
        let Some((library, file)) = found else {
            return Err(match files {
                [named] => format!(
                    "{} cannot be loaded as NCCL; correct {LIBRARY}",
                    named.display()
                ),
                _ => format!(
                    "NCCL ({NAME}) is not found; {} installs it, or name its file in {LIBRARY}",
                    libraries::nccl_package()
                ),
            });
        };
        // Its threads and exit handlers may run until the process ends.
        let library: &'static Library = Box::leak(Box::new(library));
        let lacks = |error| format!("{} is no NCCL that can be used: {error}", file.display());
        // SAFETY: the functions of these names have these types since version 2.18, which is checked before any other is called.
        let nccl = unsafe {
            let version = library
                .get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"ncclGetVersion\0")
                .map_err(lacks)?;
            let mut number = 0;
            if version(&raw mut number) != SUCCESS || number < OLDEST {
                return Err(format!(
                    "{} is NCCL {}, and 2.18 is the oldest that can be used; {} installs a newer one",
                    file.display(),
                    version_text(number),
                    libraries::nccl_package()
                ));
            }
            Self {
                name: format!("NCCL {}, {}", version_text(number), file.display()),
                unique_id: *library.get(b"ncclGetUniqueId\0").map_err(lacks)?,
                init: *library.get(b"ncclCommInitRankConfig\0").map_err(lacks)?,
                state: *library.get(b"ncclCommGetAsyncError\0").map_err(lacks)?,
                abort: *library.get(b"ncclCommAbort\0").map_err(lacks)?,
                group_start: *library.get(b"ncclGroupStart\0").map_err(lacks)?,
                group_end: *library.get(b"ncclGroupEnd\0").map_err(lacks)?,
                send: *library.get(b"ncclSend\0").map_err(lacks)?,
                receive: *library.get(b"ncclRecv\0").map_err(lacks)?,
                error: *library.get(b"ncclGetErrorString\0").map_err(lacks)?,
                last_error: *library.get(b"ncclGetLastError\0").map_err(lacks)?,
            }
        };
        Ok(nccl)
    }

    /// NCCL's description of a failure.
    fn reason(&self, code: c_int, comm: Comm) -> String {
        let text = |text: *const c_char| {
            // SAFETY: a string that lives until the library's next failure.
            let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
            text.map(|text| text.to_string_lossy().into_owned())
        };
        // SAFETY: both take any code, and a communicator or null.
        let texts = unsafe { [(self.error)(code), (self.last_error)(comm)] };
        let [error, last] = texts.map(text);
        let error = error.unwrap_or_else(|| format!("error {code}"));
        match last.as_deref().map(str::trim) {
            None | Some("") => error,
            Some(last) => format!("{error}; {last}"),
        }
    }
}

/// A version number as NCCL writes it: 22803 is 2.28.3.
fn version_text(number: c_int) -> String {
    format!("{}.{}.{}", number / 10000, number / 100 % 100, number % 100)
}

/// Connects the GPUs of all ranks, which call it together. `gpu` is a name of this rank's GPU that no other GPU has. If they cannot be connected, returns the
/// reason, the same on all ranks.
///
/// # Errors
/// If NCCL fails on any rank; [`EngineError::Ranks`] if the ranks lose each other.
pub(super) fn connect(
    nccl: &Result<&'static Nccl, String>,
    gpu: &Result<[u8; 16], String>,
    ranks: &dyn ProcessGroup,
) -> Result<Result<Link, String>, EngineError> {
    let own = match (nccl, gpu) {
        (Ok(_), Ok(gpu)) => [&[1], &gpu[..]].concat(),
        (Err(why), _) | (_, Err(why)) => [&[0], why.as_bytes()].concat(),
    };
    let all = ranks.all_gather(&own)?;
    let nccl = match (nccl, obstacle(&all)) {
        (Ok(nccl), None) => *nccl,
        (_, Some(why)) => return Ok(Err(why)),
        (Err(why), None) => return Ok(Err(why.clone())),
    };
    let failed = |why: String| {
        EngineError::Device(format!(
            "{} does not connect the ranks' GPUs: {why}. NCCL_DEBUG=INFO shows more, and with {LIBRARY}={NONE} ranks exchange through the host's memory",
            nccl.name
        ))
    };
    // A name for the ranks to find each other by.
    let mut id = UniqueId([0; 128]);
    let code = match ranks.rank() {
        // SAFETY: the name is writable.
        0 => unsafe { (nccl.unique_id)(&raw mut id) },
        _ => SUCCESS,
    };
    let id = match code {
        SUCCESS => Ok(id.0.to_vec()),
        _ => Err(failed(nccl.reason(code, null_mut()))),
    };
    let id = agree(ranks, id)?;
    let id = id[0].as_slice().try_into().map(UniqueId);
    let id = id.map_err(|_| "rank 0 has sent no name".to_owned());
    let (link, joined) = match id.and_then(|id| Link::join(nccl, id, ranks)) {
        Ok(link) => (Some(link), Ok(Vec::new())),
        Err(why) => {
            // The other ranks only know that they have waited.
            tracing::warn!("NCCL on rank {}: {why}", ranks.rank());
            (None, Err(failed(why)))
        }
    };
    agree(ranks, joined)?;
    link.map(Ok).ok_or(EngineError::Stopped)
}

/// Why the GPUs cannot be connected, from the messages of all ranks.
fn obstacle(all: &[Vec<u8>]) -> Option<String> {
    for (rank, own) in all.iter().enumerate() {
        match own.split_first() {
            Some((1, gpu)) if gpu.len() == 16 => {
                if let Some(other) = all[..rank].iter().position(|other| other == own) {
                    return Some(format!("ranks {other} and {rank} have the same GPU"));
                }
            }
            Some((_, why)) => {
                return Some(format!("rank {rank}: {}", String::from_utf8_lossy(why)));
            }
            None => return Some(format!("rank {rank} has said nothing")),
        }
    }
    None
}

/// This rank's side of the connection of all GPUs. It ends when it is dropped, and on a failure.
#[derive(Debug)]
pub(super) struct Link {
    nccl: &'static Nccl,
    /// Null once it has been ended.
    comm: Comm,
    deadline: Duration,
    /// Since when the device's work includes an exchange that may wait for other ranks.
    waiting: Option<Instant>,
}

impl Link {
    /// Joins the ranks that have the same name for each other. The current context is that of the GPU.
    fn join(nccl: &'static Nccl, id: UniqueId, ranks: &dyn ProcessGroup) -> Result<Self, String> {
        let mut config = Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: OLDEST,
            blocking: 0,
            cga_cluster_size: UNSET,
            min_ctas: UNSET,
            max_ctas: UNSET,
            net_name: null(),
            split_share: UNSET,
        };
        let mut comm = null_mut();
        let number =
            |n: usize| c_int::try_from(n).map_err(|_| "there are too many ranks".to_owned());
        let (size, rank) = (number(ranks.size())?, number(ranks.rank())?);
        // SAFETY: the communicator is writable, and the configuration is that of its stated version.
        let code = unsafe { (nccl.init)(&raw mut comm, size, id, rank, &raw mut config) };
        if comm.is_null() {
            return Err(nccl.reason(code, comm));
        }
        let mut link = Self {
            nccl,
            comm,
            // Shorter than the process group's deadline, since its next call must still report a failure to the other ranks.
            deadline: ranks.deadline() / 2,
            waiting: None,
        };
        let ready = link.started(code, Instant::now());
        ready.map(|()| link)
    }

    /// The library's file and version, for messages.
    pub(super) fn name(&self) -> &str {
        &self.nccl.name
    }

    /// Sends bytes to each rank's GPU and receives some from each, in the order of the stream.
    pub(super) fn exchange(
        &mut self,
        send: &[Bytes],
        receive: &[Bytes],
        stream: CUstream,
    ) -> Result<(), String> {
        if self.comm.is_null() {
            return Err("the connection has been ended".to_owned());
        }
        let calls = [(self.nccl.send, send), (self.nccl.receive, receive)];
        let calls = calls.into_iter().flat_map(|(call, ranges)| {
            let peers = ranges.iter().enumerate();
            peers.map(move |(peer, range)| (call, peer as c_int, *range))
        });
        let began = Instant::now();
        // SAFETY: begins a group of NCCL's calls, which is ended below whatever happens.
        let mut code = unsafe { (self.nccl.group_start)() };
        for (call, peer, range) in calls.filter(|(_, _, range)| range.len != 0) {
            if !matches!(code, SUCCESS | IN_PROGRESS) {
                break;
            }
            // SAFETY: the caller promises that the bytes are on the device, and remain there until the stream's work is done.
            code = unsafe {
                call(
                    range.address as *mut c_void,
                    range.len,
                    BYTE,
                    peer,
                    self.comm,
                    stream,
                )
            };
        }
        // SAFETY: ends the group.
        let ended = unsafe { (self.nccl.group_end)() };
        let code = match code {
            SUCCESS | IN_PROGRESS => ended,
            failed => failed,
        };
        self.started(code, began)?;
        self.waiting.get_or_insert(began);
        Ok(())
    }

    /// Waits until NCCL has begun the work of a call that returned `code`.
    fn started(&mut self, code: c_int, began: Instant) -> Result<(), String> {
        let mut code = code;
        while code == IN_PROGRESS {
            self.pause(began)?;
            code = self.state();
        }
        match code {
            SUCCESS => Ok(()),
            failed => Err(self.end(failed)),
        }
    }

    /// Waits until the stream has no exchange left to do; `idle` says whether it has done all its work.
    pub(super) fn wait_for_ranks(&mut self, mut idle: impl FnMut() -> bool) -> Result<(), String> {
        let Some(began) = self.waiting else {
            return Ok(());
        };
        while !idle() {
            match self.state() {
                SUCCESS | IN_PROGRESS => self.pause(began)?,
                failed => return Err(self.end(failed)),
            }
        }
        self.waiting = None;
        Ok(())
    }

    fn state(&self) -> c_int {
        let mut state = SUCCESS;
        // SAFETY: the communicator is alive, and the state is writable.
        match unsafe { (self.nccl.state)(self.comm, &raw mut state) } {
            SUCCESS => state,
            failed => failed,
        }
    }

    /// A moment of waiting for other ranks; an error after the deadline.
    fn pause(&mut self, began: Instant) -> Result<(), String> {
        ranks::pause(began, self.deadline).inspect_err(|_| self.abort())
    }

    /// Ends the connection after a failure, and returns its reason.
    fn end(&mut self, code: c_int) -> String {
        let reason = self.nccl.reason(code, self.comm);
        self.abort();
        reason
    }

    /// Ends the connection, and with it exchanges that wait for other ranks.
    fn abort(&mut self) {
        self.waiting = None;
        let comm = std::mem::replace(&mut self.comm, null_mut());
        if !comm.is_null() {
            // SAFETY: the communicator is alive, and is not used again.
            let _ = unsafe { (self.nccl.abort)(comm) };
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.abort();
    }
}

#[cfg(test)]
mod tests;
