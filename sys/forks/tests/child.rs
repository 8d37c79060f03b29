//! A child's view of its parent's values, with `fork` and with the bare system call.

#![allow(unsafe_code)]

use netmod_forks::{Local, Origin};

/// Runs `check` in a child made by `fork`, and returns true if it returns true there.
fn in_child(fork: fn() -> libc::pid_t, check: impl FnOnce() -> bool) -> bool {
    match fork() {
        // SAFETY: ends the child, without destructors.
        0 => unsafe { libc::_exit(i32::from(!check())) },
        child if child > 0 => {
            let mut status = 0;
            // SAFETY: a child of this process, and the status has room.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
        }
        failed => panic!("fork: {failed}"),
    }
}

fn by_function() -> libc::pid_t {
    // SAFETY: the child does nothing but compare, store and exit.
    unsafe { libc::fork() }
}

/// Forks without running the C library's handlers.
fn by_system_call() -> libc::pid_t {
    let (none, flags) = (std::ptr::null::<u8>(), libc::SIGCHLD as libc::c_ulong);
    // SAFETY: as a fork: no shared memory, no stack of its own; the child does nothing but compare,
    // store and exit.
    unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) as libc::pid_t }
}

/// Sets a flag in memory that children share, when it is dropped.
struct Flag(&'static std::sync::atomic::AtomicU32);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

fn shared_word() -> &'static std::sync::atomic::AtomicU32 {
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, a page of zeros that is never unmapped and used as one atomic.
    unsafe {
        let page = libc::mmap(std::ptr::null_mut(), 4, prot, flags, -1, 0);
        assert_ne!(page, libc::MAP_FAILED);
        &*page.cast()
    }
}

#[test]
fn a_child_is_told_from_its_parent() {
    for fork in [by_function, by_system_call] {
        let origin = Origin::here();
        assert!(origin.is_here() && Origin::here().is_here());
        let told = in_child(fork, || {
            // A child can have values of its own; its own children then see them as inherited.
            let own = Origin::here();
            !origin.is_here()
                && own.is_here()
                && in_child(by_function, || !own.is_here() && !origin.is_here())
        });
        assert!(told && origin.is_here());
    }
}

#[test]
fn a_child_does_not_drop_what_is_its_parents() {
    let dropped = shared_word();
    let count = || dropped.load(std::sync::atomic::Ordering::Relaxed);
    let mut value = Some(Local::new(Flag(dropped)));
    let untouched = in_child(by_function, || {
        value = None;
        let inherited = count() == 0;
        drop(Local::new(Flag(dropped)));
        inherited && count() == 1
    });
    assert!(untouched);
    drop(value);
    assert_eq!(count(), 2);
}
