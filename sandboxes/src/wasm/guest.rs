//! One live instance of the interpreter.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use wasmtime::{Instance, InstancePre, Memory, Store, TypedFunc};

use super::door::Door;
use super::stop::Stop;
use super::world::World;
use crate::SandboxError;
use crate::protocol::Candidate;

/// Fuel between two looks at the wall clock: some tens of milliseconds.
const SLICE: u64 = 100_000_000;

/// An instance, its store and what of it is called. Dropping it frees everything it had.
pub(super) struct Guest {
    store: Store<World>,
    memory: Memory,
    alloc: TypedFunc<u32, u32>,
    turn: TypedFunc<(u32, u32), i32>,
}

impl Guest {
    /// A fresh copy of the warmed interpreter.
    pub(super) async fn start(program: &InstancePre<World>, world: World) -> Result<Guest, Stop> {
        let fuel = world.fuel;
        let mut store = Store::new(program.module().engine(), world);
        store.limiter(|world| &mut world.room);
        store.set_fuel(fuel).map_err(|error| Stop::of(&error))?;
        store
            .fuel_async_yield_interval(Some(SLICE))
            .map_err(|error| Stop::of(&error))?;
        let instance = program
            .instantiate_async(&mut store)
            .await
            .map_err(|error| Stop::of(&error))?;
        Guest::new(store, &instance).map_err(|error| Stop::of(&error))
    }

    /// Takes over an instance that was made elsewhere.
    pub(super) fn new(mut store: Store<World>, instance: &Instance) -> wasmtime::Result<Guest> {
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or(Stop::Protocol("the module exports no memory"))?;
        let alloc = instance.get_typed_func(&mut store, "host_alloc")?;
        let turn = instance.get_typed_func(&mut store, "turn")?;
        store.data_mut().memory = Some(memory);
        Ok(Guest {
            store,
            memory,
            alloc,
            turn,
        })
    }

    /// Runs Python source in the interpreter's main module. The status is the guest's word: 0 where nothing was raised.
    pub(super) async fn turn(&mut self, source: &str) -> Result<i32, Stop> {
        self.try_turn(source)
            .await
            .map_err(|error| Stop::of(&error))
    }

    async fn try_turn(&mut self, source: &str) -> wasmtime::Result<i32> {
        let length = u32::try_from(source.len())?;
        let at = self.alloc.call_async(&mut self.store, length).await?;
        self.memory
            .write(&mut self.store, at as usize, source.as_bytes())?;
        self.turn.call_async(&mut self.store, (at, length)).await
    }

    pub(super) fn world(&mut self) -> &mut World {
        self.store.data_mut()
    }

    /// The conversation with a guest that runs a candidate's program.
    pub(super) fn conversation(&mut self) -> Result<&mut Candidate, Stop> {
        match &mut self.world().door {
            Door::Candidate(candidate) => Ok(candidate),
            Door::Closed | Door::Judge(_) => Err(Stop::Protocol("no candidate's instance")),
        }
    }

    /// Fuel used so far.
    pub(super) fn used(&self) -> u64 {
        let left = self.store.get_fuel().unwrap_or(0);
        self.store.data().fuel.saturating_sub(left)
    }

    /// The store, for taking a snapshot.
    pub(super) fn into_store(self) -> Store<World> {
        self.store
    }
}

/// Runs `work` to its end on this thread; it gives way after each slice of fuel.
///
/// # Errors
/// [`SandboxError::Transient`], where it has not ended after `backstop` seconds.
pub(super) fn drive<T>(backstop: f64, work: impl Future<Output = T>) -> Result<T, SandboxError> {
    let limit = Duration::try_from_secs_f64(backstop).unwrap_or(Duration::MAX);
    let start = Instant::now();
    let mut work = pin!(work);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match work.as_mut().poll(&mut context) {
            Poll::Ready(result) => return Ok(result),
            Poll::Pending if start.elapsed() > limit => {
                return Err(SandboxError::Transient(format!(
                    "a program was stopped after {backstop} s of wall-clock time, long before its fuel was used up: the machine is overloaded or was \
                     suspended; judge it again, or raise the sandbox's backstop"
                )));
            }
            Poll::Pending => {}
        }
    }
}
