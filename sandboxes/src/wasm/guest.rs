//! One live instance of the interpreter.

use futures::FutureExt;
use wasmtime::{Instance, InstancePre, Memory, Store, TypedFunc};

use super::fuel::Tank;
use super::host_call::HostCall;
use super::store_data::StoreData;
use super::termination::Termination;
use crate::protocol::{Broken, ProgramConversation};
use crate::{Abandoned, Limits};

/// An instance, its store, and its functions that the host calls. Dropping it frees everything.
pub(super) struct Guest {
    store: Store<StoreData>,
    memory: Memory,
    alloc: TypedFunc<u32, u32>,
    turn: TypedFunc<(u32, u32), i32>,
}

impl Guest {
    /// A fresh copy of the warmed interpreter.
    pub(super) async fn start(
        program: &InstancePre<StoreData>,
        data: StoreData,
        limits: &Limits,
    ) -> Result<Guest, Termination> {
        let started = async {
            let mut store = Store::new(program.module().engine(), data);
            store.limiter(|data| &mut data.memory_limiter);
            let instance = program.instantiate_async(&mut store).await?;
            let tank = Tank::fill(&mut store, &instance, limits)?;
            store.data_mut().tank = Some(tank);
            Guest::new(store, &instance)
        };
        started.await.map_err(|error| Termination::of(&error))
    }

    /// Takes over an instance that was created elsewhere.
    pub(super) fn new(mut store: Store<StoreData>, instance: &Instance) -> wasmtime::Result<Guest> {
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or(Broken::Protocol("the module exports no memory"))?;
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

    /// Runs Python source in the interpreter's main module. The returned status comes from the guest and is not trusted: 0 if no exception was raised.
    pub(super) async fn turn(&mut self, source: &str) -> Result<i32, Termination> {
        match self.try_turn(source).await {
            Ok(status) => Ok(status),
            // A loop traps if no fuel is left.
            Err(error) => Err(match Termination::of(&error) {
                Termination::Trap(_) if self.is_out_of_fuel() => Broken::Fuel.into(),
                stop => stop,
            }),
        }
    }

    fn is_out_of_fuel(&mut self) -> bool {
        let tank = self.store.data().tank;
        tank.is_some_and(|tank| tank.is_empty(&mut self.store))
    }

    async fn try_turn(&mut self, source: &str) -> wasmtime::Result<i32> {
        let length = u32::try_from(source.len())?;
        let at = self.alloc.call_async(&mut self.store, length).await?;
        self.memory
            .write(&mut self.store, at as usize, source.as_bytes())?;
        self.turn.call_async(&mut self.store, (at, length)).await
    }

    pub(super) fn data(&mut self) -> &mut StoreData {
        self.store.data_mut()
    }

    /// The conversation with a guest that runs the program.
    pub(super) fn conversation(&mut self) -> Result<&mut ProgramConversation, Termination> {
        match &mut self.data().host_call {
            HostCall::Program(conversation, _) => Ok(conversation),
            HostCall::Unanswered | HostCall::Tests(_) => {
                Err(Broken::Protocol("no candidate's instance").into())
            }
        }
    }

    /// Prepares another turn with as much fuel. `abandoned` is that of the next run.
    pub(super) fn refill(&mut self, abandoned: Option<&Abandoned>) -> Result<(), Termination> {
        self.data().abandoned = abandoned.cloned();
        let tank = self.store.data().tank;
        let tank = tank.map(|tank| tank.refilled(&mut self.store)).transpose();
        self.data().tank = tank.map_err(|error| Termination::of(&error))?;
        Ok(())
    }

    /// Bytes of its memory. Memory never shrinks.
    pub(super) fn memory(&self) -> u64 {
        self.memory.data_size(&self.store) as u64
    }

    /// Fuel used so far.
    pub(super) fn used(&mut self) -> u64 {
        let tank = self.store.data().tank;
        tank.map_or(0, |tank| tank.used(&mut self.store))
    }

    /// The store, from which a snapshot is taken.
    pub(super) fn into_store(self) -> Store<StoreData> {
        self.store
    }
}

/// Runs `work` with guests to its end on this thread, and returns its result.
///
/// wasmtime's asynchronous calls give every guest a native stack of its own. Of the futures in them, only the program's question is ever pending (`instance_pair`). Its
/// turn is polled again once there is an answer.
pub(super) fn run_now<T>(work: impl Future<Output = T>) -> T {
    work.now_or_never()
        .expect("no host function of the sandbox waits")
}
