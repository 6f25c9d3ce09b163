//! The fuel that a running guest has left. It is in the two globals of a metered module (`meter`).

use std::time::Instant;

use wasmtime::{AsContextMut, Caller, Global, Instance, Linker, Val};

use super::meter::{FUEL, MARK, REFUEL};
use super::store_data::StoreData;
use super::termination::Termination;
use crate::protocol::Broken;
use crate::{Abandoned, Limits};

/// Fuel between two checks of the wall clock and of whether anyone waits: some tens of milliseconds.
const SLICE: i64 = 100_000_000;

/// The fuel of one guest.
#[derive(Clone, Copy)]
pub(super) struct Tank {
    fuel: Global,
    mark: Global,
    /// Fuel at the start.
    initial: i64,
    started: Instant,
    /// Seconds after which the run is stopped as a failure of the sandbox.
    backstop: f64,
}

impl Tank {
    /// Fills the tank of a new instance.
    pub(super) fn fill(
        mut store: impl AsContextMut<Data = StoreData>,
        instance: &Instance,
        limits: &Limits,
    ) -> wasmtime::Result<Tank> {
        let mut global = |name| {
            instance
                .get_global(&mut store, name)
                .ok_or(Broken::Protocol("the module is not metered"))
        };
        let tank = Tank {
            fuel: global(FUEL)?,
            mark: global(MARK)?,
            initial: i64::try_from(limits.fuel).unwrap_or(i64::MAX),
            started: Instant::now(),
            backstop: limits.backstop,
        };
        tank.refilled(store)
    }

    /// This tank, full again, with a clock that starts now.
    pub(super) fn refilled(self, mut store: impl AsContextMut) -> wasmtime::Result<Tank> {
        self.fuel.set(&mut store, Val::I64(self.initial))?;
        self.lower_mark(&mut store)?;
        let started = Instant::now();
        Ok(Tank { started, ..self })
    }

    /// Fuel that is left; negative if the guest needed more than it had.
    fn left(&self, store: impl AsContextMut) -> i64 {
        self.fuel.get(store).i64().unwrap_or(-1)
    }

    /// Fuel used so far, at most the initial fuel.
    pub(super) fn used(&self, store: impl AsContextMut) -> u64 {
        (self.initial - self.left(store).max(0)) as u64
    }

    pub(super) fn is_empty(&self, store: impl AsContextMut) -> bool {
        self.left(store) < 0
    }

    fn lower_mark(&self, mut store: impl AsContextMut) -> wasmtime::Result<()> {
        let mark = self.left(&mut store).saturating_sub(SLICE).max(0);
        self.mark.set(store, Val::I64(mark))
    }
}

/// Fuel that a caller has used so far; 0 while the interpreter is warmed, since warming is not metered.
pub(super) fn used(caller: &mut Caller<'_, StoreData>) -> u64 {
    caller.data().tank.map_or(0, |tank| tank.used(caller))
}

/// Charges fuel for work that the host does for the guest: one unit for each copied byte, as for bulk copies in the guest. Other work has its own price.
///
/// # Errors
/// [`Broken::Fuel`], if less fuel is left.
pub(super) fn charge(caller: &mut Caller<'_, StoreData>, units: u64) -> wasmtime::Result<()> {
    let Some(tank) = caller.data().tank else {
        return Ok(());
    };
    let left = tank
        .left(&mut *caller)
        .saturating_sub(i64::try_from(units).unwrap_or(i64::MAX));
    tank.fuel.set(&mut *caller, Val::I64(left))?;
    if left < 0 {
        return Err(Broken::Fuel.into());
    }
    Ok(())
}

/// Defines the function that a metered guest calls when its fuel is below the mark.
pub(super) fn define(linker: &mut Linker<StoreData>) -> wasmtime::Result<()> {
    linker.func_wrap(
        REFUEL.0,
        REFUEL.1,
        |mut caller: Caller<'_, StoreData>| -> wasmtime::Result<()> {
            let Some(tank) = caller.data().tank else {
                return Err(Broken::Protocol("a guest that runs before it has fuel").into());
            };
            if tank.is_empty(&mut caller) {
                return Err(Broken::Fuel.into());
            }
            if tank.started.elapsed().as_secs_f64() > tank.backstop {
                return Err(Termination::Backstop(tank.backstop).into());
            }
            let abandoned = caller.data().abandoned.as_ref();
            if abandoned.is_some_and(Abandoned::is_abandoned) {
                return Err(Termination::Abandoned.into());
            }
            tank.lower_mark(&mut caller)
        },
    )?;
    Ok(())
}
