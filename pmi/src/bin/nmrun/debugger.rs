//! The process table that debuggers read, as the MPIR process acquisition interface names it.
//!
//! A debugger finds these symbols in the launcher's executable. It reads the table when the
//! launcher calls [`MPIR_Breakpoint`], or when it attaches later. The launcher's library does not
//! have them, since every library that contains it would export them.
#![allow(non_upper_case_globals, non_snake_case)]
// Symbols that are not mangled.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// A row of the table.
#[repr(C)]
struct Process {
    host_name: *mut c_char,
    executable_name: *mut c_char,
    pid: c_int,
}

/// State "the table is filled" (`MPIR_DEBUG_SPAWNED`).
const SPAWNED: c_int = 1;

#[unsafe(no_mangle)]
static MPIR_proctable: AtomicPtr<Process> = AtomicPtr::new(null_mut());
#[unsafe(no_mangle)]
static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);
#[unsafe(no_mangle)]
static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);
/// Set by a debugger.
#[unsafe(no_mangle)]
static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);
/// Says that this process starts the ranks, and is none.
#[unsafe(no_mangle)]
static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(1);
/// Says that a debugger may leave ranks alone: they do not wait for it one by one, but for an
/// answer of this process.
#[unsafe(no_mangle)]
static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// A debugger stops this process here to read the table.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn MPIR_Breakpoint() {
    // A function without effect could be left out.
    std::hint::black_box(MPIR_being_debugged.load(Ordering::SeqCst));
}

/// Fills the table with the program and process of each rank, and tells a debugger.
///
/// The memory stays allocated: a debugger may read it at any time.
pub(crate) fn show_processes(ranks: &[(&OsStr, u32)]) {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    // Neither name has a zero byte: the kernel would not have taken it.
    let text = |bytes: &[u8]| CString::new(bytes).unwrap_or_default().into_raw();
    let host = text(host.trim().as_bytes());
    let table: Vec<Process> = ranks
        .iter()
        .map(|(program, pid)| Process {
            host_name: host,
            executable_name: text(program.as_bytes()),
            pid: *pid as c_int,
        })
        .collect();
    let size = table.len() as c_int;
    MPIR_proctable.store(Vec::leak(table).as_mut_ptr(), Ordering::SeqCst);
    MPIR_proctable_size.store(size, Ordering::SeqCst);
    MPIR_debug_state.store(SPAWNED, Ordering::SeqCst);
    for kept in [&MPIR_i_am_starter, &MPIR_partial_attach_ok] {
        // The linker could drop a symbol that nobody uses.
        std::hint::black_box(kept);
    }
    MPIR_Breakpoint();
}
