//! An emulated tile unit: AMX's instructions on a processor without AMX.
//!
//! Such a processor refuses the instructions, and the system sends the process a signal. Its handler decodes the refused instruction, computes it as Intel's
//! manual defines it (Software Developer's Manual, volume 2), and continues after it. So a test runs the very machine code that a processor with AMX runs. Only
//! what the engine uses is emulated: whole tiles and products of bf16. Anything else ends the process, as it would without the handler.

#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::Once;

use libc::{c_int, c_void, siginfo_t, ucontext_t};

/// A tile: 16 rows of 64 bytes.
type Tile = [[u32; 16]; 16];

/// A thread's tiles.
struct Unit {
    configured: bool,
    tiles: [Tile; 8],
}

thread_local! {
    static UNIT: UnsafeCell<Unit> = const {
        UnsafeCell::new(Unit { configured: false, tiles: [[[0; 16]; 16]; 8] })
    };
}

/// Handles refused instructions from now on, and then calls `assume_available`, which is safe from then on. A processor with AMX refuses none.
pub(crate) fn install(assume_available: unsafe fn()) {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the handler has the signature that SA_SIGINFO requires, and an all-zero action is a valid one to start from.
        let result = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction =
                refused as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGILL, &raw const action, ptr::null_mut())
        };
        assert_eq!(result, 0, "the handler is installed");
        // SAFETY: the instructions are emulated from now on.
        unsafe { assume_available() };
    });
}

extern "C" fn refused(signal: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the system passes the interrupted thread's context. The thread was refused an instruction, so it is not using its unit.
    let emulated = unsafe {
        let context = &mut *context.cast::<ucontext_t>();
        UNIT.with(|unit| emulate(&mut *unit.get(), context))
    };
    if emulated.is_none() {
        // SAFETY: the instruction is refused again, now without a handler, and ends the process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Numbers of the general registers in the context, by their number in instructions.
const REGISTERS: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// The operand of an instruction in memory.
struct Memory {
    address: usize,
    /// The index register times its scale, which for tiles is the distance between rows.
    index: usize,
}

/// Emulates the instruction at the context's instruction pointer; `None` if it is none of AMX's, or invalid.
///
/// # Safety
/// The context is that of the calling thread at a refused instruction. Its memory operand is valid.
unsafe fn emulate(unit: &mut Unit, context: &mut ucontext_t) -> Option<()> {
    let registers = &mut context.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as usize;
    // SAFETY: the instructions of AMX are 5 bytes or more, and code goes on after the engine's.
    let byte = |i: usize| unsafe { *((at + i) as *const u8) };
    let [prefix, first, second, opcode, modrm] = [0, 1, 2, 3, 4].map(byte);
    // A VEX prefix of three bytes, opcode map 0F38, 128 bits, W0. The R, X, B and vvvv bits are stored inverted.
    if prefix != 0xC4 || first & 0x1F != 2 || second & 0x84 != 0 {
        return None;
    }
    let extension = |bit: u8| usize::from(first >> bit & 1 == 0) << 3;
    let (x, b) = (extension(6), extension(5));
    let third = usize::from(!second >> 3 & 0xF);
    let (mode, reg, rm) = (
        modrm >> 6,
        usize::from(modrm >> 3 & 7),
        usize::from(modrm & 7),
    );
    let mut length = 5;
    let memory = (mode != 3).then(|| {
        let value = |register: usize| registers[REGISTERS[register] as usize] as usize;
        let (base, index) = if rm == 4 {
            length += 1;
            let sib = byte(5);
            let index = usize::from(sib >> 3 & 7) | x;
            let index = if index == 4 {
                0
            } else {
                value(index) << (sib >> 6)
            };
            (usize::from(sib & 7) | b, index)
        } else {
            (rm | b, 0)
        };
        let offset = match mode {
            1 => isize::from(byte(length) as i8),
            2 => i32::from_le_bytes([0, 1, 2, 3].map(|i| byte(length + i))) as isize,
            _ => 0,
        };
        length += match mode {
            1 => 1,
            2 => 4,
            _ => 0,
        };
        // Without an offset, number 5 is no register but another form, which is not used here.
        (mode != 0 || base & 7 != 5).then(|| Memory {
            address: value(base).wrapping_add_signed(offset),
            index,
        })
    });
    let memory = match memory {
        Some(None) => return None,
        Some(memory) => memory,
        None => None,
    };
    match (opcode, second & 3, memory) {
        // ldtilecfg
        (0x49, 0, Some(memory)) if reg == 0 => {
            // SAFETY: the operand is valid, by the caller's promise.
            let shapes = unsafe { *(memory.address as *const [u8; 64]) };
            let whole = (0..8).all(|i| {
                shapes[16 + 2 * i] == 64 && shapes[17 + 2 * i] == 0 && shapes[48 + i] == 16
            });
            if shapes[..2] != [1, 0] || !whole {
                return None;
            }
            *unit = Unit {
                configured: true,
                tiles: [[[0; 16]; 16]; 8],
            };
        }
        // tilerelease
        (0x49, 0, None) if modrm == 0xC0 => unit.configured = false,
        _ if !unit.configured => return None,
        // tilezero
        (0x49, 3, None) if rm == 0 => unit.tiles[reg] = [[0; 16]; 16],
        // tileloadd
        (0x4B, 3, Some(memory)) if rm == 4 => {
            for (i, row) in unit.tiles[reg].iter_mut().enumerate() {
                let from = memory.address.wrapping_add(i.wrapping_mul(memory.index));
                // SAFETY: as above; tiles need no alignment.
                *row = unsafe { (from as *const [u32; 16]).read_unaligned() };
            }
        }
        // tilestored
        (0x4B, 2, Some(memory)) if rm == 4 => {
            for (i, row) in unit.tiles[reg].iter().enumerate() {
                let to = memory.address.wrapping_add(i.wrapping_mul(memory.index));
                // SAFETY: as above.
                unsafe { (to as *mut [u32; 16]).write_unaligned(*row) };
            }
        }
        // tdpbf16ps; its three tiles must differ
        (0x5C, 2, None) if third < 8 && reg != rm && reg != third && rm != third => {
            let (a, b) = (unit.tiles[rm], unit.tiles[third]);
            multiply(&mut unit.tiles[reg], &a, &b);
        }
        _ => return None,
    }
    registers[libc::REG_RIP as usize] += length as i64;
    Some(())
}

/// `tdpbf16ps`: for each element, the products of the lower and of the upper bf16 numbers are summed apart by fused multiply-adds, in order of depth. Both sums
/// are then added. Denormal operands and results count as zero.
fn multiply(sums: &mut Tile, a: &Tile, b: &Tile) {
    #[target_feature(enable = "avx2,fma")]
    fn with_fma(sums: &mut Tile, a: &Tile, b: &Tile) {
        multiply_body(sums, a, b);
    }
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these features.
        unsafe { with_fma(sums, a, b) }
    } else {
        multiply_body(sums, a, b);
    }
}

#[inline(always)]
fn multiply_body(sums: &mut Tile, a: &Tile, b: &Tile) {
    let low = |pair: u32| flush(f32::from_bits(pair << 16));
    let high = |pair: u32| flush(f32::from_bits(pair & 0xFFFF_0000));
    let b_low = b.map(|row| row.map(low));
    let b_high = b.map(|row| row.map(high));
    for (sums, a) in sums.iter_mut().zip(a) {
        let even = dot(a.map(low), &b_low);
        let odd = dot(a.map(high), &b_high);
        for (sum, (even, odd)) in sums.iter_mut().zip(even.iter().zip(odd)) {
            let add = flush(even + odd);
            *sum = flush(flush(f32::from_bits(*sum)) + add).to_bits();
        }
    }
}

/// One row times 16 columns.
#[inline(always)]
fn dot(a: [f32; 16], b: &[[f32; 16]; 16]) -> [f32; 16] {
    let mut sums = [0.0_f32; 16];
    for (a, b) in a.iter().zip(b) {
        for (sum, b) in sums.iter_mut().zip(b) {
            *sum = flush(a.mul_add(*b, *sum));
        }
    }
    sums
}

#[inline(always)]
fn flush(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE {
        0.0_f32.copysign(x)
    } else {
        x
    }
}
