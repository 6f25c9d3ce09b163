//! AMX: eight registers of 16 rows of 64 bytes, called tiles, and an instruction that multiplies tiles of bf16 numbers.

#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::marker::PhantomData;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a tile's row.
pub(in super::super) const ROW_BYTES: usize = 64;

/// Set by [`assume_available`].
static ASSUMED: AtomicBool = AtomicBool::new(false);

/// Whether this process may use tiles of bf16: the processor must have them, and Linux grants them to a process on request.
pub(in super::super) fn available() -> bool {
    static GRANTED: LazyLock<bool> = LazyLock::new(|| in_processor() && request());
    *GRANTED || ASSUMED.load(Ordering::Relaxed)
}

/// Makes [`available`] return `true` from now on.
///
/// # Safety
/// This process emulates the instructions of AMX that the processor does not have.
pub unsafe fn assume_available() {
    ASSUMED.store(true, Ordering::Relaxed);
}

fn in_processor() -> bool {
    const AMX_BF16: u32 = 1 << 22;
    const AMX_TILE: u32 = 1 << 24;
    if __cpuid(0).eax < 7 {
        return false;
    }
    let features = __cpuid_count(7, 0).edx;
    features & AMX_BF16 != 0 && features & AMX_TILE != 0
}

#[cfg(target_os = "linux")]
fn request() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const ARCH_REQ_XCOMP_PERM: u64 = 0x1023;
    const XTILEDATA: u64 = 18;
    let mut result = ARCH_PRCTL;
    // SAFETY: this system call takes only numbers, and changes only what this process may use. System calls write rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inout("rax") result,
            in("rdi") ARCH_REQ_XCOMP_PERM,
            in("rsi") XTILEDATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(not(target_os = "linux"))]
fn request() -> bool {
    false
}

/// Shapes of the eight tiles in the format of `ldtilecfg`, palette 1.
#[repr(C, align(64))]
struct TileShapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

/// All tiles whole.
static SHAPES: TileShapes = TileShapes {
    palette: 1,
    start_row: 0,
    reserved: [0; 14],
    row_bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// The calling thread's tiles, all of 16 rows of 64 bytes. They are released when this is dropped: a thread that keeps tiles in use makes its context switches
/// slower, and keeps its processor from saving power.
pub(in super::super) struct Tiles {
    /// Tiles belong to a thread.
    _thread: PhantomData<*const ()>,
}

impl Tiles {
    /// Configures the tiles. Their content is zero.
    ///
    /// # Panics
    /// If there are none.
    pub(in super::super) fn configure() -> Self {
        assert!(available(), "the processor has AMX");
        // SAFETY: the process may use tiles, as just checked, and the shapes are valid for palette 1.
        unsafe {
            asm!("ldtilecfg [{shapes}]", shapes = in(reg) &raw const SHAPES, options(nostack, readonly));
        }
        Self {
            _thread: PhantomData,
        }
    }
}

impl Drop for Tiles {
    fn drop(&mut self) {
        // SAFETY: the process may use tiles, since this was configured. Nothing else uses them now.
        unsafe { asm!("tilerelease", options(nostack, nomem)) }
    }
}
