//! Tests of scalable endpoints, selective completion, waiting, and their attributes in
//! `fi_getinfo`.

#![allow(unsafe_code)]

mod common;

use core::ptr::null_mut;
use std::time::Duration;

use common::*;
use libfabric_sys::call;
use libfabric_sys::consts::*;
use libfabric_sys::fid::{fid, fid_cq};
use netmod_fake_fabric::{Node, Progress, Settings};

const COUNT: usize = 3;

fn scalable() -> (Settings, Requested) {
    let settings = Settings::default().max_ep_tx_ctx(COUNT).max_ep_rx_ctx(COUNT).complete_early(false);
    (settings, Requested { contexts: COUNT, caps: FI_MSG | FI_RMA | FI_NAMED_RX_CTX, ..Requested::default() })
}

#[test]
fn contexts_have_lanes_of_their_own() {
    let (settings, requested) = scalable();
    let (library, world) = world(settings.mr_mode(FI_MR_ENDPOINT));
    let (a, to_b, b, _) = Side::pair(&library, &world, &requested);
    let contexts = Contexts::new(2 * COUNT);
    let mut buffers = vec![vec![0u8; 8]; COUNT];
    for (number, buffer) in buffers.iter_mut().enumerate() {
        // SAFETY: the test keeps the buffer.
        let rc = unsafe {
            let base = buffer.as_mut_ptr().cast();
            call::fi_recv(b.rx[number], base, 8, null_mut(), FI_ADDR_UNSPEC, contexts.at(number))
        };
        assert_eq!(rc, 0);
    }
    // From each to each other one.
    for number in 0..COUNT {
        let rx = (number + 1) % COUNT;
        let to = call::fi_rx_addr(to_b, rx as u32, RX_CTX_BITS as u32);
        let data = [b'0' + number as u8];
        let context = contexts.at(COUNT + number);
        assert_eq!(sendmsg(a.tx[number], &[piece(&data)], to, context, 0), 0);
        assert_eq!(
            poll(b.cqs[rx]).iter().map(|done| done.context).collect::<Vec<_>>(),
            [contexts.at(rx).addr()]
        );
        assert_eq!(buffers[rx][0], data[0]);
        for other in 0..COUNT {
            assert_eq!(poll(a.cqs[other]).len(), usize::from(other == number));
        }
    }
    // One-sided transfers address the endpoint that the region is bound to.
    let (memory, mut into) = (vec![7u8; 8], vec![0u8; 8]);
    let region = b.register(&memory, ALL_ACCESS, 1).unwrap();
    assert_eq!((bind(region.cast(), b.ep.cast(), 0), enable(region.cast())), (0, 0));
    // SAFETY: the test keeps the memory.
    let rc = unsafe {
        let base = into.as_mut_ptr().cast();
        call::fi_read(a.tx[2], base, 8, null_mut(), to_b, 0, 1, contexts.at(0))
    };
    assert_eq!((rc, poll(a.cqs[2]).len(), into), (0, 1, memory.clone()));
    assert_eq!(world.violations(), [""; 0]);

    // The endpoint itself does not send, transmit contexts do not receive, and there are no further
    // contexts.
    let mut none = null_mut();
    // SAFETY: live objects; nothing is lent.
    unsafe {
        assert_eq!(call::fi_inject(a.ep, null_mut(), 0, to_b), -258);
        assert_eq!(call::fi_recv(a.tx[0], null_mut(), 0, null_mut(), FI_ADDR_UNSPEC, null_mut()), -258);
        assert_eq!(call::fi_tx_context(a.ep, 1, null_mut(), &raw mut none, null_mut()), -libc::EINVAL);
        assert_eq!(
            call::fi_rx_context(a.ep, COUNT as i32, null_mut(), &raw mut none, null_mut()),
            -libc::EINVAL
        );
        let beyond = call::fi_rx_addr(to_b, COUNT as u32, RX_CTX_BITS as u32);
        assert_eq!(call::fi_inject(a.tx[0], null_mut(), 0, beyond), -(libc::EINVAL as isize));
        assert_eq!(call::fi_bind(a.tx[0].cast(), a.cq.cast(), FI_RECV), -libc::EINVAL);
    }
    assert_eq!(close(a.ep.cast()), -libc::EBUSY);
    assert_eq!(world.violations().len(), 7, "{:?}", world.violations());
    assert_eq!(close(region.cast()), 0);
    a.close();
    b.close();
    assert!(world.close().is_none());
}

#[test]
fn a_context_can_be_closed_and_opened_again() {
    let (settings, requested) = scalable();
    let (library, world) = world(settings);
    let mut a = Side::open(&library, &world, &requested);
    let (contexts, mut buffer) = (Contexts::new(1), vec![0u8; 8]);
    assert_eq!(recv_multi_refused(&a, &mut buffer, &contexts), -260);
    // SAFETY: the test keeps the buffer; live objects, and a place for a new one.
    unsafe {
        let base = buffer.as_mut_ptr().cast();
        assert_eq!(call::fi_recv(a.rx[1], base, 8, null_mut(), FI_ADDR_UNSPEC, contexts.at(0)), 0);
        assert_eq!(close(a.rx[1].cast()), 0);
        let mut again = null_mut();
        assert_eq!(call::fi_rx_context(a.ep, 1, null_mut(), &raw mut again, null_mut()), 0);
        assert_eq!(call::fi_bind(again.cast(), a.cqs[0].cast(), FI_RECV), 0);
        assert_eq!(call::fi_enable(again.cast()), 0);
        a.rx[1] = again;
        let itself = a.insert(&a.name);
        let to = call::fi_rx_addr(itself, 1, RX_CTX_BITS as u32);
        assert_eq!(call::fi_inject(a.tx[0], b"x".as_ptr().cast(), 1, to), 0);
        assert_eq!(poll(a.cqs[0]), []);
        assert_eq!(call::fi_recv(again, base, 8, null_mut(), FI_ADDR_UNSPEC, contexts.at(0)), 0);
        assert_eq!((poll(a.cqs[0]).len(), buffer[0]), (1, b'x'));
    }
    assert_eq!(world.violations().len(), 1);
    a.close();
    assert!(world.close().is_none());
}

/// Posts a multi-receive although the capability was not requested.
fn recv_multi_refused(side: &Side, buffer: &mut [u8], contexts: &Contexts) -> isize {
    recv_multi(side.rx[0], buffer, null_mut(), contexts.at(0))
}

#[test]
fn receive_contexts_have_addresses_where_they_have() {
    let (settings, requested) = scalable();
    let (library, world) = world(settings.named_rx_ctx(false));
    assert_eq!(info(&library, &world, &requested), Err(-FI_ENODATA));
    let (a, to_b, _b, _) = Side::pair(&library, &world, &Requested { caps: FI_MSG, ..requested });
    // SAFETY: live objects; nothing is lent.
    unsafe {
        assert_eq!(call::fi_inject(a.tx[0], null_mut(), 0, to_b), 0);
        let to = call::fi_rx_addr(to_b, 1, RX_CTX_BITS as u32);
        assert_eq!(call::fi_inject(a.tx[0], null_mut(), 0, to), -(libc::EINVAL as isize));
    }
    assert!(world.violations()[0].contains("have no addresses"));
}

#[test]
fn completions_come_for_whom_they_are_asked_for() {
    for (selective, tx_flags, flags, comes) in [
        (false, 0, None, true),
        (false, 0, Some(0), true),
        (true, 0, None, false),
        (true, FI_COMPLETION, None, true),
        (true, FI_COMPLETION, Some(0), false),
        (true, 0, Some(FI_COMPLETION), true),
    ] {
        let (library, world) = world(Settings::default().tx_size(1).mode(FI_CONTEXT2));
        let requested = Requested { selective, tx_flags, ..Requested::default() };
        let (a, to_b, b, _) = Side::pair(&library, &world, &requested);
        let (contexts, mut buffer) = (Contexts::new(2), vec![0; 8]);
        // Twice: the slot must become free without a completion, too.
        for _ in 0..2 {
            let rc = match flags {
                None => a.send(b"x", null_mut(), to_b, contexts.at(0)),
                Some(flags) => sendmsg(a.ep, &[piece(b"x")], to_b, contexts.at(0), flags),
            };
            assert_eq!(rc, 0, "{selective} {tx_flags:#x} {flags:?}");
            assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(1)), 0);
            assert_eq!((b.poll().len(), a.poll().len()), (1, usize::from(comes)));
        }
        assert_eq!(world.violations(), [""; 0]);
        a.close();
        b.close();
        assert!(world.close().is_none());
    }
    // Errors are always reported.
    let (library, world) = world(Settings::default());
    let (a, to_b, ..) = Side::pair(&library, &world, &Requested { selective: true, ..Requested::default() });
    world.fail_next(netmod_fake_fabric::Operation::Send, 1);
    assert_eq!(a.send(b"x", null_mut(), to_b, null_mut()), 0);
    assert_eq!(a.poll().len(), 1);
}

#[test]
fn a_queue_that_is_full_keeps_what_comes() {
    let (library, world) = world(Settings::default().cq_size(2));
    let (a, to_b, ..) = Side::pair(&library, &world, &Requested::default());
    for _ in 0..5 {
        world.fail_next(netmod_fake_fabric::Operation::Send, 1);
        assert_eq!(a.send(b"x", null_mut(), to_b, null_mut()), 0);
    }
    let mut entry = libfabric_sys::attr::fi_cq_err_entry::ZERO;
    // SAFETY: a live queue, and room for what is asked for.
    let one = |entry| unsafe { call::fi_cq_readerr(a.cq, entry, 0) };
    for visible in [2, 2, 1] {
        // SAFETY: as above; nothing is written where an error is first.
        assert_eq!(unsafe { call::fi_cq_read(a.cq, null_mut(), 1) }, -(FI_EAVAIL as isize));
        (0..visible).for_each(|_| assert_eq!(one(&raw mut entry), 1));
        assert_eq!(one(&raw mut entry), -(FI_EAGAIN as isize));
    }
}

fn trywait(side: &Side, cq: *mut fid_cq) -> i32 {
    let mut object: *mut fid = cq.cast();
    // SAFETY: live objects.
    unsafe { call::fi_trywait(side.fabric, &raw mut object, 1) }
}

/// Returns true if a queue's descriptor becomes readable within a time.
fn readable(cq: *mut fid_cq, within: Duration) -> bool {
    let mut fd = -1i32;
    // SAFETY: a live queue and a place for a descriptor.
    assert_eq!(unsafe { call::fi_control(cq.cast(), FI_GETWAIT, (&raw mut fd).cast()) }, 0);
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry.
    unsafe { libc::poll(&raw mut poll, 1, within.as_millis() as i32) == 1 }
}

#[test]
fn who_waits_is_woken() {
    for progress in [Progress::Auto, Progress::Manual] {
        let settings = Settings::default().progress(progress).delivery_delay(3).completion_delay(3);
        let (library, world) = world(settings);
        let requested = Requested { wait_obj: FI_WAIT_FD, ..Requested::default() };
        let (a, to_b, b, _) = Side::pair(&library, &world, &requested);
        let (contexts, mut buffer) = (Contexts::new(2), vec![0; 8]);
        let memory = vec![1; 8];
        b.register(&memory, ALL_ACCESS, 1).unwrap();
        for round in 0..20 {
            assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(0)), 0);
            assert_eq!(trywait(&b, b.cq), 0);
            assert!(!readable(b.cq, Duration::ZERO), "{round}");
            assert_eq!(a.inject(b"x", to_b), 0);
            assert!(readable(b.cq, Duration::from_secs(20)));
            let mut got = 0;
            while got == 0 {
                // An event is coming, so one may not wait.
                assert_eq!(trywait(&b, b.cq), -FI_EAGAIN);
                got = b.poll().len();
            }
            // A read: the side that makes progress must not sleep; the other one is woken when it
            // ends.
            let mut into = vec![0; 8];
            assert_eq!(trywait(&b, b.cq), 0);
            assert_eq!(a.read(&mut into, null_mut(), to_b, 0, 1, contexts.at(1)), 0);
            if progress == Progress::Manual {
                assert_eq!(trywait(&a, a.cq), 0);
                assert!(readable(b.cq, Duration::from_secs(20)) && !readable(a.cq, Duration::ZERO));
                while !readable(a.cq, Duration::ZERO) {
                    let _ = b.poll();
                }
            }
            let mut got = 0;
            while got == 0 {
                assert_eq!(trywait(&a, a.cq), -FI_EAGAIN);
                got = a.poll().len();
            }
            assert_eq!(into, memory);
        }
        // A message without a buffer is no reason to poll.
        assert_eq!(trywait(&b, b.cq), 0);
        assert_eq!(a.inject(b"x", to_b), 0);
        assert_eq!(trywait(&b, b.cq), 0);
        // A death wakes, since it may end an operation.
        world.kill(Node::Number(1));
        assert!(readable(a.cq, Duration::from_secs(20)));
        assert_eq!(world.violations(), [""; 0]);
    }
}

#[test]
fn hints_are_copied_and_answers_are_what_settings_say() {
    let settings = Settings::default()
        .inject_size(17)
        .tx_size(5)
        .rx_size(6)
        .max_msg_size(12_345)
        .iov_limit(3)
        .rma_iov_limit(2)
        .mr_key_size(3)
        .max_ep_tx_ctx(4)
        .max_ep_rx_ctx(5)
        .link_speed(Some(100_000_000_000));
    let (library, control) = library();
    let world = netmod_fake_fabric::World::new(&control, settings.clone());
    let list = info(&library, &world, &Requested::default()).unwrap();
    // SAFETY: an info and its copy have their parts.
    unsafe {
        let copy = (library.fi_dupinfo)(list);
        for info in [list, copy] {
            let (tx, rx) = (&*(*info).tx_attr, &*(*info).rx_attr);
            assert_eq!((tx.inject_size, tx.size, tx.iov_limit, tx.rma_iov_limit), (17, 5, 3, 2));
            assert_eq!((rx.size, rx.iov_limit), (6, 3));
            let (domain, ep) = (&*(*info).domain_attr, &*(*info).ep_attr);
            assert_eq!((domain.mr_key_size, domain.max_ep_tx_ctx, domain.max_ep_rx_ctx), (3, 4, 5));
            assert_eq!((ep.max_msg_size, ep.type_), (12_345, FI_EP_RDM));
            let (link, device) = (&*(*(*info).nic).link_attr, &*(*(*info).nic).device_attr);
            assert_eq!((link.speed, link.state), (100_000_000_000, FI_LINK_UP));
            assert!(!device.name.is_null());
            assert_eq!(((*info).addr_format, (*info).src_addrlen), (FI_SOCKADDR_IN, 16));
        }
        assert_ne!((*(*list).domain_attr).name, (*(*copy).domain_attr).name);
        (library.fi_freeinfo)(copy);
        (library.fi_freeinfo)(list);
    }
    // Requested that request more get no answer.
    type Fill = fn(&mut libfabric_sys::attr::fi_info);
    // SAFETY: hints have their parts.
    let more: [Fill; 12] = unsafe {
        [
            |hints| (*hints.tx_attr).inject_size = 18,
            |hints| (*hints.tx_attr).size = 6,
            |hints| (*hints.rx_attr).size = 7,
            |hints| (*hints.tx_attr).iov_limit = 4,
            |hints| (*hints.ep_attr).max_msg_size = 12_346,
            |hints| (*hints.ep_attr).tx_ctx_cnt = 5,
            |hints| (*hints.ep_attr).type_ = FI_EP_MSG,
            |hints| (*hints.domain_attr).mr_key_size = 4,
            |hints| hints.addr_format = FI_ADDR_STR,
            |hints| (*hints.fabric_attr).prov_name = strdup("tcp"),
            |hints| (*hints.fabric_attr).name = strdup("elsewhere"),
            |hints| (*hints.tx_attr).msg_order = 1,
        ]
    };
    for (number, fill) in more.into_iter().enumerate() {
        let name = world.name().to_string();
        let ask = |fill: Option<Fill>| {
            getinfo(&library, |hints| {
                // SAFETY: as above.
                unsafe { (*hints.domain_attr).name = strdup(&name) };
                fill.into_iter().for_each(|fill| fill(hints));
            })
        };
        assert_eq!(ask(Some(fill)), Err(-FI_ENODATA), "{number}");
        domains(&library, ask(None).unwrap());
    }
    assert_eq!(library.error(-259), "Error available");
    assert_eq!(library.api(), libfabric_sys::API);
    // Requesting more than was offered gives no domain.
    let list = info(&library, &world, &Requested::default()).unwrap();
    // SAFETY: an info has its parts, and its fabric is this library's.
    unsafe {
        let (mut fabric, mut domain) = (null_mut(), null_mut());
        assert_eq!((library.fi_fabric)((*list).fabric_attr, &raw mut fabric, null_mut()), 0);
        (*list).caps |= FI_TAGGED;
        assert_eq!(call::fi_domain(fabric, list, &raw mut domain, null_mut()), -FI_ENODATA);
        (library.fi_freeinfo)(list);
        assert_eq!(close(fabric.cast()), 0);
    }
    assert!(world.violations()[0].contains("was not offered"));
    assert!(world.close().is_none());
}
