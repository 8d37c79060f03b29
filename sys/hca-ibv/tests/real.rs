//! Runs the scenarios on the machine's first RDMA device, whose port has an IPv4 address, and tests
//! what a simulation cannot show.
//!
//! The virtual machine of `cargo xtask vm-test` has such a device; elsewhere these tests are
//! ignored.

#![allow(unsafe_code)]

mod scenarios;

use std::os::fd::BorrowedFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hca::{Access, Hca, Mr, QpCap, QpInit, QpKind, errno};
use netmod_hca_ibv::{Devices, IbvHca};
use scenarios::World;

/// Timeout of a wait in ms. An emulated machine on a busy host is slow.
const PATIENCE: i32 = 60_000;
/// Network interface of the virtual machine's device.
const INTERFACE: &str = "dummy0";

struct Real(Devices);

impl Real {
    fn new() -> Real {
        Real(Devices::load(None).unwrap_or_else(|e| panic!("{e}")))
    }
}

impl World for Real {
    type H = IbvHca;

    fn open(&self) -> IbvHca {
        let names = self.0.names().unwrap_or_else(|e| panic!("{e}"));
        let name = names.first().expect("there is no RDMA device here (cargo xtask vm-test has one)");
        self.0.open(name).unwrap_or_else(|e| panic!("{e}"))
    }

    fn wait(&self, fd: BorrowedFd<'_>, what: &str) {
        assert!(scenarios::readable(fd, PATIENCE), "{what} did not come within {} s", PATIENCE / 1000);
    }

    fn set_port(&self, up: bool) -> bool {
        let gids = self.open().gids(1).expect("a table");
        let index = std::fs::read_to_string(format!("/sys/class/net/{INTERFACE}/ifindex"));
        let index: u32 = index.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
        // A port without addresses has no GIDs; in that case this interface has been taken down.
        if index == 0 || gids.iter().any(|entry| entry.ifindex != index) {
            // Only the virtual machine's own interface may be taken down.
            println!("the device's port is not that of {INTERFACE}, which the virtual machine has");
            return false;
        }
        let state = if up { "up" } else { "down" };
        let set = Command::new("/usr/bin/ip").args(["link", "set", INTERFACE, state]).status();
        assert!(set.is_ok_and(|status| status.success()));
        true
    }

    fn pass(&self, time: core::time::Duration) {
        std::thread::sleep(time);
    }

    /// The child shares all of this process's memory.
    fn beside_a_child(&self, work: impl FnOnce()) {
        // SAFETY: the child only makes system calls that are allowed after a fork of a
        // multi-threaded process.
        let child = unsafe {
            match libc::fork() {
                0 => {
                    libc::pause();
                    libc::_exit(0)
                }
                child => child,
            }
        };
        assert!(child > 0, "{}", std::io::Error::last_os_error());
        work();
        let mut status = 0;
        // SAFETY: the child is this process's, and the number has room.
        let ended = unsafe { (libc::kill(child, libc::SIGKILL), libc::waitpid(child, &raw mut status, 0)) };
        assert_eq!(
            (ended, libc::WTERMSIG(status)),
            ((0, child), libc::SIGKILL),
            "the child has not lived that long"
        );
    }

    fn not_ready(&self) -> Option<u64> {
        // The counter of `rdma_rxe`.
        let name = self.0.names().ok()?.into_iter().next()?;
        let count = format!("/sys/class/infiniband/{name}/ports/1/hw_counters/rcvd_rnr_err");
        std::fs::read_to_string(count).ok()?.trim().parse().ok()
    }
}

suite! { [#[ignore = "needs an RDMA device (cargo xtask vm-test)"]] Real::new() }

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn objects_of_another_context_are_refused() {
    let world = Real::new();
    let (a, b) = (world.open(), world.open());
    let foreign = b.create_channel().expect("a channel");
    assert_eq!(a.create_cq(8, 1, Some(&foreign)).expect_err("another's").errno, errno::EINVAL);
    let (ours, theirs) =
        (a.create_cq(8, 1, None).expect("a queue"), b.create_cq(8, 1, None).expect("a queue"));
    let cap = QpCap { max_send_wr: 1, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline: 0 };
    for (send_cq, recv_cq) in [(&ours, &theirs), (&theirs, &ours)] {
        let init = QpInit { kind: QpKind::Rc { send_cq, recv_cq, srq: None }, cap, signal_all: true };
        assert_eq!(a.create_qp(&init).expect_err("another's").errno, errno::EINVAL);
    }
    let too_many = QpCap { max_send_wr: u32::MAX, ..cap };
    let kind = QpKind::Rc { send_cq: &ours, recv_cq: &ours, srq: None };
    let refused = a.create_qp(&QpInit { kind, cap: too_many, signal_all: true }).expect_err("so many");
    assert!(refused.to_string().contains("4294967295 sends"), "{refused}");
}

/// Counts logged events.
#[derive(Clone, Default)]
struct Logged(Arc<AtomicUsize>);

impl tracing::Subscriber for Logged {
    fn enabled(&self, at: &tracing::Metadata<'_>) -> bool {
        at.target().starts_with("hca_ibv")
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn whatever_goes_first_all_objects_close() {
    let logged = Logged::default();
    tracing::subscriber::with_default(logged.clone(), || scenarios::objects_go_in_any_order(&Real::new()));
    assert_eq!(logged.0.load(Ordering::Relaxed), 0, "objects that do not close are warnings");
}

/// Runs in a thread of its own, which drops the capability that lets root lock any amount of
/// memory. The system call affects only the calling thread.
#[test]
#[ignore = "needs an RDMA device (cargo xtask vm-test)"]
fn a_limit_of_locked_memory_is_named() {
    const LIMIT: u64 = 64 << 10;
    let set = |soft: u64| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the record has room.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit), 0);
            let before = limit.rlim_cur;
            limit.rlim_cur = soft;
            assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &raw const limit), 0);
            before
        }
    };
    let before = set(LIMIT);
    let refused = std::thread::spawn(|| {
        // SAFETY: three numbers; the effective user becomes nobody.
        let nobody = unsafe { libc::syscall(libc::SYS_setresuid, -1, 65534, -1) };
        assert_eq!(nobody, 0, "{}", std::io::Error::last_os_error());
        let hca = Real::new().open();
        let mut memory = vec![0_u8; 1 << 20];
        // SAFETY: the memory outlives the registration, if there is one, and nobody uses it.
        let register =
            |memory: &mut [u8]| unsafe { hca.register(memory.as_mut_ptr(), memory.len(), Access::LOCAL) };
        let refused = register(&mut memory).map(drop);
        let little = register(&mut memory[..4096]).expect("that is within the limit");
        assert_eq!(little.len(), 4096);
        assert!(little.deregister().is_ok());
        refused
    });
    let refused = refused.join();
    set(before);
    let refused = refused.expect("no panic").expect_err("more than the limit");
    assert_eq!(refused.errno, errno::ENOMEM);
    let text = refused.to_string();
    for part in ["ibv_reg_mr on ", "1048576 bytes", "locked memory of 64 KiB", "ulimit -l"] {
        assert!(text.contains(part), "{text}");
    }
}
