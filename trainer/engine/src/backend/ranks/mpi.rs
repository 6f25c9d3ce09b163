//! MPI. Its library is loaded when the program runs: Open MPI's, MPICH's (or one with the same binary interface, such as Intel's), or one with the standard
//! binary interface of MPI 5.
//!
//! Only a few functions are called, all of MPI-3. The interfaces differ in the handles. Open MPI's are addresses of its variables, MPICH's are `int` constants,
//! and MPI 5's are constants of a pointer's size. Here, all are passed with a pointer's size: on 64-bit Linux, a function that takes an `int` reads the low
//! half of the register or stack slot.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use super::{ProcessGroup, pause};
use crate::error::EngineError;

type Handle = usize;
const SUCCESS: c_int = 0;
/// Largest number of bytes of an exchange, since MPI counts with `int`.
const MAX_BYTES: usize = 1 << 30;

/// Names of Open MPI's library, and of the others.
const OPEN_MPI: &[&str] = &["libmpi.so.40"];
const OTHERS: &[&str] = &[
    "libmpi.so.12",
    "libmpich.so.12",
    "libmpi_abi.so.1",
    "libmpi_abi.so.0",
    "libmpi.so",
];

/// The binary interface of a library.
struct Interface {
    name: &'static str,
    /// A symbol that only libraries of this interface have.
    mark: &'static str,
    /// `MPI_THREAD_SERIALIZED`: calls come from several threads, one at a time.
    serialized: c_int,
    /// `MPI_COMM_WORLD`, `MPI_BYTE` and `MPI_ERRORS_RETURN`; `None` if they are the addresses of variables.
    handles: Option<[Handle; 3]>,
    status_ignore: usize,
}

static INTERFACES: [Interface; 3] = [
    Interface {
        name: "Open MPI",
        mark: "ompi_mpi_comm_world",
        serialized: 2,
        handles: None,
        status_ignore: 0,
    },
    Interface {
        name: "MPICH",
        mark: "MPIR_Dup_fn",
        serialized: 2,
        handles: Some([0x4400_0000, 0x4c00_010d, 0x5400_0001]),
        status_ignore: 1,
    },
    Interface {
        name: "MPI 5",
        mark: "MPI_Abi_get_version",
        serialized: 2048,
        handles: Some([0x101, 0x247, 0x143]),
        status_ignore: 0,
    },
];

type Init = unsafe extern "C" fn(*mut c_int, *mut c_void, c_int, *mut c_int) -> c_int;
type CommNumber = unsafe extern "C" fn(Handle, *mut c_int) -> c_int;
type SetErrhandler = unsafe extern "C" fn(Handle, Handle) -> c_int;
type AllToAll = unsafe extern "C" fn(
    *const c_void,
    *const c_int,
    *const c_int,
    Handle,
    *mut c_void,
    *const c_int,
    *const c_int,
    Handle,
    Handle,
    *mut Handle,
) -> c_int;
type Test = unsafe extern "C" fn(*mut Handle, *mut c_int, *mut c_void) -> c_int;
type Abort = unsafe extern "C" fn(Handle, c_int) -> c_int;
type Finalize = unsafe extern "C" fn() -> c_int;

/// What exchanges need of a loaded library.
struct Functions {
    all_to_all: AllToAll,
    test: Test,
    world: Handle,
    byte: Handle,
    status_ignore: usize,
    /// Why an exchange failed. No other exchange follows, since other ranks are gone or still in it.
    lost: Option<String>,
}

/// The ranks that an MPI launcher started.
pub struct Mpi {
    /// Locked for every call, since calls come one at a time.
    functions: Mutex<Functions>,
    abort: Abort,
    finalize: Finalize,
    rank: usize,
    size: usize,
    deadline: Duration,
    library: Loaded,
}

impl std::fmt::Debug for Mpi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "rank {} of {} by {}",
            self.rank, self.size, self.library.title
        )
    }
}

/// Finds a library: the named one, or the first of the usual ones, beginning with those of this launcher. Returns its name too.
fn load(named: Option<&str>) -> Result<(Library, String), EngineError> {
    let mut names: Vec<String> = Vec::new();
    match named {
        Some(name) => names.push(name.to_owned()),
        None => {
            let mut usual = [OPEN_MPI, OTHERS];
            if std::env::var_os("PMI_SIZE").is_some() {
                usual.reverse();
            }
            let usual = usual.concat();
            names.extend(beside_launcher(&usual));
            names.extend(usual.iter().map(|name| (*name).to_owned()));
        }
    }
    let mut errors = Vec::new();
    for name in names {
        // SAFETY: loading an MPI library runs its initialisers, which have no preconditions. A file that is no library is an error.
        match unsafe { Library::open(Some(&name), RTLD_NOW | RTLD_GLOBAL) } {
            Ok(library) => return Ok((library, name)),
            // The loader's own words.
            Err(error) => errors.push(match std::error::Error::source(&error) {
                Some(source) => source.to_string(),
                None => error.to_string(),
            }),
        }
    }
    Err(EngineError::Ranks(format!(
        "no MPI library can be loaded ({}); install the one that the launcher belongs to (Debian: libopenmpi3 or libmpich12), or name its file in RAPID_MPI_LIBRARY",
        errors.first().map_or("none is known", String::as_str)
    )))
}

/// The libraries in `../lib` of the folder that has `mpiexec`, as in a Python environment.
fn beside_launcher(names: &[&str]) -> Vec<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter(|folder| folder.join("mpiexec").is_file());
    let folders = folders.filter_map(|folder| Some(folder.parent()?.join("lib")));
    let files = folders.flat_map(|folder| names.iter().map(move |name| folder.join(name)));
    let files = files.filter(|file| file.is_file());
    files.map(|file| file.display().to_string()).collect()
}

/// A library that stays loaded for the life of the process: its initialisers may have started something, and MPI leaves threads and exit handlers.
struct Loaded {
    library: &'static Library,
    interface: &'static Interface,
    /// Its file and its kind, for messages.
    title: String,
}

impl Loaded {
    fn new(library: Library, name: &str) -> Result<Self, EngineError> {
        let library: &'static Library = Box::leak(Box::new(library));
        let has_mark = |interface: &&Interface| {
            // SAFETY: the symbol is only looked up.
            unsafe { library.get::<*const c_void>(interface.mark.as_bytes()) }.is_ok()
        };
        let Some(interface) = INTERFACES.iter().find(has_mark) else {
            return Err(EngineError::Ranks(format!(
                "{name} is not an MPI library of a known kind (Open MPI, MPICH, MPI 5); name another one in RAPID_MPI_LIBRARY"
            )));
        };
        let title = format!("{name} ({})", interface.name);
        Ok(Self {
            library,
            interface,
            title,
        })
    }

    fn broken(&self, what: &str) -> EngineError {
        EngineError::Ranks(format!(
            "{} {what}; name another library in RAPID_MPI_LIBRARY",
            self.title
        ))
    }

    /// A function, or the address of a variable as a [`Handle`].
    ///
    /// # Safety
    /// `T` is the type of the function, or [`Handle`].
    unsafe fn symbol<T: Copy>(&self, name: &str) -> Result<T, EngineError> {
        // SAFETY: by the caller's promise.
        let found = unsafe { self.library.get::<T>(name.as_bytes()) };
        let found = found.map(|symbol| *symbol);
        found.map_err(|_| self.broken(&format!("has no {name}")))
    }
}

/// The library that [`Mpi::join`] would load, for messages; `None` if no name is given and none of the usual ones can be loaded. Nothing is initialised.
///
/// # Errors
/// If the named library cannot be loaded, or the library is of no known kind.
pub fn find(named: Option<&str>) -> Result<Option<String>, EngineError> {
    match load(named) {
        Ok((library, name)) => Ok(Some(Loaded::new(library, &name)?.title)),
        Err(_) if named.is_none() => Ok(None),
        Err(error) => Err(error),
    }
}

impl Mpi {
    /// Joins the ranks that the launcher started. Called once in a process. A call that waits longer than `deadline` for other ranks is an error.
    ///
    /// # Errors
    /// If there is no library, or it cannot be initialised.
    pub fn join(named: Option<&str>, deadline: Duration) -> Result<Self, EngineError> {
        let (library, name) = load(named)?;
        let loaded = Loaded::new(library, &name)?;
        let interface = loaded.interface;
        let (mut provided, mut rank, mut size): (c_int, c_int, c_int) = (0, 0, 0);
        // SAFETY: the types are those of the functions in the MPI standard, with handles of a pointer's size (see the module's documentation). MPI is initialised
        // once, without arguments, before the other calls; the outputs outlive them.
        let (functions, abort, finalize, codes) = unsafe {
            let [world, byte, errors_return] = match interface.handles {
                Some(handles) => handles,
                None => [
                    loaded.symbol("ompi_mpi_comm_world")?,
                    loaded.symbol("ompi_mpi_byte")?,
                    loaded.symbol("ompi_mpi_errors_return")?,
                ],
            };
            let functions = Functions {
                all_to_all: loaded.symbol("MPI_Ialltoallv")?,
                test: loaded.symbol("MPI_Test")?,
                world,
                byte,
                status_ignore: interface.status_ignore,
                lost: None,
            };
            let init: Init = loaded.symbol("MPI_Init_thread")?;
            let number_of: CommNumber = loaded.symbol("MPI_Comm_rank")?;
            let size_of: CommNumber = loaded.symbol("MPI_Comm_size")?;
            let set_errhandler: SetErrhandler = loaded.symbol("MPI_Comm_set_errhandler")?;
            let (abort, finalize) = (loaded.symbol("MPI_Abort")?, loaded.symbol("MPI_Finalize")?);
            let level = interface.serialized;
            let codes = [
                init(ptr::null_mut(), ptr::null_mut(), level, &raw mut provided),
                set_errhandler(world, errors_return),
                number_of(world, &raw mut rank),
                size_of(world, &raw mut size),
            ];
            (functions, abort, finalize, codes)
        };
        if codes != [SUCCESS; 4] || rank < 0 || size < 1 {
            return Err(loaded.broken("cannot be initialised"));
        }
        if provided < interface.serialized {
            return Err(loaded.broken("does not allow calls from several threads"));
        }
        Ok(Self {
            functions: Mutex::new(functions),
            abort,
            finalize,
            rank: rank as usize,
            size: size as usize,
            deadline,
            library: loaded,
        })
    }

    /// The library's file and kind, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.library.title
    }
}

impl Functions {
    /// One exchange: sends a piece of `send` to each rank, and receives a piece from each in the places of `received`. All ranks know the lengths.
    fn exchange<T: bytemuck::Pod>(
        &mut self,
        mut send: Vec<T>,
        pieces: &[Range<usize>],
        mut received: Vec<T>,
        places: &[Range<usize>],
        deadline: Duration,
    ) -> Result<[Vec<T>; 2], String> {
        if let Some(reason) = &self.lost {
            return Err(reason.clone());
        }
        let lists = [pieces, places];
        let bytes = |count: usize| (count * size_of::<T>()) as c_int;
        let counts = lists.map(|list| list.iter().map(|r| bytes(r.len())).collect::<Vec<_>>());
        let starts = lists.map(|list| list.iter().map(|r| bytes(r.start)).collect::<Vec<_>>());
        for (list, buffer) in lists.iter().zip([&mut send, &mut received]) {
            assert!(
                list.iter().all(|range| range.end <= buffer.len()),
                "pieces lie in their buffer"
            );
            // The pointer of an empty list may mean something else to MPI: 1 is `MPI_IN_PLACE` in Open MPI.
            if buffer.is_empty() {
                buffer.push(T::zeroed());
            }
        }
        let mut request: Handle = 0;
        // SAFETY: both buffers and the four lists live until the request is complete, or the process ends: a failed request leaks them below. The counts of both
        // sides agree, since they were exchanged before, or follow from what ranks have compared.
        let code = unsafe {
            (self.all_to_all)(
                send.as_ptr().cast(),
                counts[0].as_ptr(),
                starts[0].as_ptr(),
                self.byte,
                received.as_mut_ptr().cast(),
                counts[1].as_ptr(),
                starts[1].as_ptr(),
                self.byte,
                self.world,
                &raw mut request,
            )
        };
        let result = if code == SUCCESS {
            self.wait(&mut request, deadline)
        } else {
            Err(format!("an exchange failed with MPI's error {code}"))
        };
        match result {
            Ok(()) => Ok([send, received]),
            Err(error) => {
                // MPI may still write to and read from them.
                std::mem::forget((send, received, counts, starts));
                self.lost = Some(error.clone());
                Err(error)
            }
        }
    }

    fn wait(&self, request: &mut Handle, deadline: Duration) -> Result<(), String> {
        let began = Instant::now();
        loop {
            let mut done: c_int = 0;
            // SAFETY: the request is one that `all_to_all` started.
            let code =
                unsafe { (self.test)(request, &raw mut done, self.status_ignore as *mut c_void) };
            if code != SUCCESS {
                return Err(format!("an exchange failed with MPI's error {code}"));
            }
            if done != 0 {
                return Ok(());
            }
            pause(began, deadline)?;
        }
    }
}

impl Mpi {
    /// Sends a piece of `send` to each rank, after its length, and returns what each rank sent.
    fn exchange_any(
        &self,
        send: Vec<u8>,
        pieces: &[Range<usize>],
    ) -> Result<Vec<Vec<u8>>, EngineError> {
        self.check_size(send.len())?;
        let mut functions = self.functions();
        let lengths = pieces
            .iter()
            .flat_map(|piece| (piece.len() as u64).to_ne_bytes());
        let each: Vec<Range<usize>> = (0..self.size).map(|n| 8 * n..8 * (n + 1)).collect();
        let room = vec![0; 8 * self.size];
        let [_, lengths] = functions
            .exchange(lengths.collect(), &each, room, &each, self.deadline)
            .map_err(|reason| self.failed(&reason))?;
        let lengths = lengths.as_chunks().0.iter();
        let mut total = 0usize;
        let places = lengths.map(|n| {
            let start = total;
            total = total.saturating_add(u64::from_ne_bytes(*n) as usize);
            start..total
        });
        let places: Vec<Range<usize>> = places.collect();
        // The other ranks go on to an exchange that this rank does not make.
        let size = self.check_size(total);
        functions.lost = size.as_ref().err().map(ToString::to_string);
        size?;
        let [_, mut bytes] = functions
            .exchange(send, pieces, vec![0u8; total], &places, self.deadline)
            .map_err(|reason| self.failed(&reason))?;
        // From the last, so that the first is not copied.
        bytes.truncate(total);
        let mut parts: Vec<Vec<u8>> = Vec::with_capacity(places.len());
        for place in places.iter().rev() {
            parts.push(bytes.split_off(place.start));
        }
        parts.reverse();
        Ok(parts)
    }

    fn functions(&self) -> MutexGuard<'_, Functions> {
        self.functions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, reason: &str) -> EngineError {
        EngineError::Ranks(format!(
            "rank {} of {} stopped: {reason}; look for the error of another rank",
            self.rank, self.size
        ))
    }

    /// Checks that MPI can count some bytes.
    fn check_size(&self, bytes: usize) -> Result<(), EngineError> {
        match bytes <= MAX_BYTES {
            true => Ok(()),
            false => Err(self.failed("an exchange has more than 1 GiB")),
        }
    }
}

impl ProcessGroup for Mpi {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }

    fn all_to_all(&self, parts: &[&[u8]]) -> Result<Vec<Vec<u8>>, EngineError> {
        let mut next = 0;
        let pieces = parts.iter().map(|part| {
            let start = next;
            next += part.len();
            start..next
        });
        let pieces: Vec<Range<usize>> = pieces.collect();
        self.exchange_any(parts.concat(), &pieces)
    }

    fn all_gather(&self, part: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
        // All ranks are sent the same bytes.
        self.exchange_any(part.to_vec(), &vec![0..part.len(); self.size])
    }

    fn exchange(
        &self,
        send: Vec<f32>,
        pieces: &[Range<usize>],
        received: Vec<f32>,
        places: &[Range<usize>],
    ) -> Result<[Vec<f32>; 2], EngineError> {
        self.check_size(size_of::<f32>() * send.len().max(received.len()))?;
        let mut functions = self.functions();
        functions
            .exchange(send, pieces, received, places, self.deadline)
            .map_err(|reason| self.failed(&reason))
    }

    fn finish(&self) {
        let _turn = self.functions();
        // SAFETY: the last call of MPI in this process.
        unsafe { (self.finalize)() };
    }

    fn abort(&self, code: i32) {
        let functions = self.functions();
        // SAFETY: ends the processes of all ranks.
        unsafe { (self.abort)(functions.world, code) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Number of exchanges that have begun.
    static BEGUN: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn begin(
        _: *const c_void,
        _: *const c_int,
        _: *const c_int,
        _: Handle,
        _: *mut c_void,
        _: *const c_int,
        _: *const c_int,
        _: Handle,
        _: Handle,
        _: *mut Handle,
    ) -> c_int {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        SUCCESS
    }

    /// The exchange is not complete, as when another rank is gone.
    extern "C" fn test(_: *mut Handle, _: *mut c_int, _: *mut c_void) -> c_int {
        SUCCESS
    }

    #[test]
    fn no_exchange_follows_one_that_failed() {
        let mut functions = Functions {
            all_to_all: begin,
            test,
            world: 0,
            byte: 0,
            status_ignore: 0,
            lost: None,
        };
        let each = [0..1, 1..2];
        for _ in 0..2 {
            let room = || vec![0u8; 2];
            let error = functions
                .exchange(room(), &each, room(), &each, Duration::ZERO)
                .expect_err("the other rank is gone");
            assert!(error.contains("for other ranks"), "{error}");
        }
        assert_eq!(BEGUN.load(Ordering::Relaxed), 1);
    }
}
