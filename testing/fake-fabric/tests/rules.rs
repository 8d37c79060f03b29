//! Tests of misuse of the message interface: each is detected, refused where a call can refuse, and
//! nothing else is reported.

#![allow(unsafe_code)]

mod common;

use core::ptr::null_mut;

use common::*;
use libfabric_sys::attr::{fi_av_attr, fi_cq_attr, fi_cq_err_entry};
use libfabric_sys::call;
use libfabric_sys::consts::*;
use netmod_fake_fabric::{AddressFormat, Settings, World};

const EINVAL: isize = -(libc::EINVAL as isize);

/// Checks that the world has exactly one violation, containing these words.
fn complains(world: &World, words: &str) {
    let all = world.violations();
    assert!(all.len() == 1 && all[0].contains(words), "{words:?} expected: {all:#?}");
}

fn pair(settings: Settings) -> (World, Side, u64, Side, u64) {
    let (library, world) = world(settings);
    let (a, to_b, b, to_a) = Side::pair(&library, &world, &Requested::default());
    (world, a, to_b, b, to_a)
}

#[test]
fn contexts_are_lent() {
    for (mode, size) in [(FI_CONTEXT, 32), (FI_CONTEXT2, 64)] {
        let contexts = Contexts::new(2);
        let mut buffer = [0; 8];
        // No context.
        let (world, a, to_b, ..) = pair(Settings::default().mode(mode));
        assert_eq!(a.send(b"x", null_mut(), to_b, null_mut()), EINVAL);
        complains(&world, "no context to write to");
        // Not aligned.
        let (world, _, _, b, _) = pair(Settings::default().mode(mode));
        assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(0).wrapping_byte_add(1)), EINVAL);
        complains(&world, "no context to write to");
        // In use, completely or partly.
        for overlap in [0, size - 8] {
            let (world, a, to_b, b, _) = pair(Settings::default().mode(mode));
            assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(0)), 0);
            let context = contexts.at(0).wrapping_byte_add(overlap);
            assert_eq!(a.send(b"x", null_mut(), to_b, context), EINVAL);
            complains(&world, "is lent to another operation");
        }
        // Modified, in its last word, before the completion was read.
        let (world, a, to_b, b, _) = pair(Settings::default().mode(mode).complete_early(false));
        assert_eq!(a.send(b"x", null_mut(), to_b, contexts.at(1)), 0);
        // SAFETY: the test's own storage.
        unsafe { contexts.at(1).byte_add(size - 1).cast::<u8>().write(0) };
        assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(0)), 0);
        assert_eq!((b.poll().len(), a.poll().len()), (1, 1));
        complains(&world, "context was written to");
        // Correct: reused after its completion was read, and modified beyond the lent part.
        let (world, a, to_b, b, _) = pair(Settings::default().mode(mode).complete_early(false));
        for _ in 0..3 {
            assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(0)), 0);
            assert_eq!(a.send(b"x", null_mut(), to_b, contexts.at(1)), 0);
            if size == 32 {
                // SAFETY: the test's own storage.
                unsafe { contexts.at(1).byte_add(32).cast::<u64>().write(7) };
            }
            assert_eq!((b.poll().len(), a.poll().len()), (1, 1));
        }
        assert_eq!(world.violations(), [""; 0]);
    }
}

#[test]
fn what_is_sent_stays_as_it_is() {
    let contexts = Contexts::new(2);
    let (world, a, to_b, b, _) = pair(Settings::default().complete_early(false));
    let (mut data, mut buffer) = (*b"data", [0; 8]);
    assert_eq!(a.send(&data, null_mut(), to_b, contexts.at(0)), 0);
    data[3] = 0;
    assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(1)), 0);
    assert_eq!((b.poll().len(), a.poll().len()), (1, 1));
    assert_eq!(&data, b"dat\0");
    complains(&world, "data was changed");
}

#[test]
fn injected_data_is_free_at_once() {
    let contexts = Contexts::new(1);
    let (world, a, to_b, b, _) = pair(Settings::default());
    let (mut data, mut buffer) = (*b"data", [0; 8]);
    assert_eq!(a.inject(&data, to_b), 0);
    data[0] = 0;
    assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(0)), 0);
    assert_eq!((b.poll().len(), data[0]), (1, 0));
    assert_eq!(&buffer[..4], b"data");
    assert_eq!(world.violations(), [""; 0]);
}

#[test]
fn sizes_have_limits() {
    let contexts = Contexts::new(1);
    let limited = || Settings::default().inject_size(4).max_msg_size(100).iov_limit(2);
    let (world, a, to_b, ..) = pair(limited());
    assert_eq!(a.inject(b"12345", to_b), -(libc::EMSGSIZE as isize));
    complains(&world, "5 bytes are injected");
    let (world, a, to_b, ..) = pair(limited());
    assert_eq!(
        sendmsg(a.ep, &[piece(b"12345")], to_b, contexts.at(0), FI_INJECT),
        -(libc::EMSGSIZE as isize)
    );
    complains(&world, "5 bytes are injected");
    let (world, a, to_b, ..) = pair(Settings::default().inject_size(0));
    assert_eq!(a.inject(b"", to_b), 0);
    assert_eq!(a.inject(b"1", to_b), -(libc::EMSGSIZE as isize));
    complains(&world, "1 bytes are injected, and 0");
    let (world, a, to_b, ..) = pair(limited());
    assert_eq!(a.send(&[0; 101], null_mut(), to_b, contexts.at(0)), -(libc::EMSGSIZE as isize));
    complains(&world, "101 bytes, and 100");
    let (world, a, to_b, ..) = pair(limited());
    let pieces = [piece(b"a"), piece(b"b"), piece(b"c")];
    assert_eq!(sendmsg(a.ep, &pieces, to_b, contexts.at(0), 0), EINVAL);
    complains(&world, "3 pieces, and 2");
    // All at their limits.
    let (world, a, to_b, ..) = pair(limited());
    assert_eq!(a.inject(b"1234", to_b), 0);
    assert_eq!(a.send(&[0; 100], null_mut(), to_b, contexts.at(0)), 0);
    assert_eq!(sendmsg(a.ep, &pieces[..2], to_b, contexts.at(0), 0), 0);
    assert_eq!(world.violations(), [""; 0]);
}

#[test]
fn queues_have_sizes() {
    let (world, a, to_b, ..) = pair(Settings::default().tx_size(3).rx_size(2).complete_early(false));
    let contexts = Contexts::new(8);
    let mut buffers = [[0; 8]; 3];
    for (number, buffer) in buffers.iter_mut().enumerate() {
        let rc = a.recv(buffer, null_mut(), contexts.at(number));
        assert_eq!(rc, if number < 2 { 0 } else { -(FI_EAGAIN as isize) });
    }
    for number in 0..4 {
        let rc = a.send(b"x", null_mut(), to_b, contexts.at(3 + number));
        assert_eq!(rc, if number < 3 { 0 } else { -(FI_EAGAIN as isize) });
    }
    assert_eq!(world.violations(), [""; 0]);
    // A receiver without buffers blocks its senders.
    let (world, a, to_b, b, _) = pair(Settings::default().unexpected_max(5));
    let sent = (0..10).take_while(|_| a.inject(b"x", to_b) == 0).count();
    assert_eq!(sent, 5);
    let mut buffer = [0; 8];
    assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(7)), 0);
    assert_eq!(b.poll().len(), 1);
    assert_eq!((a.inject(b"x", to_b), a.inject(b"x", to_b)), (0, -(FI_EAGAIN as isize)));
    assert_eq!(world.violations(), [""; 0]);
}

#[test]
fn a_message_must_fit_its_buffer() {
    for multi in [false, true] {
        let (world, a, to_b, b, _) = pair(Settings::default());
        let contexts = Contexts::new(1);
        // The bytes behind the buffer must not be written.
        let mut memory = [9; 100];
        let rc = if multi {
            b.recv_multi(&mut memory[..70], null_mut(), contexts.at(0))
        } else {
            b.recv(&mut memory[..70], null_mut(), contexts.at(0))
        };
        assert_eq!(rc, 0);
        assert_eq!(a.send(&[1; 71], null_mut(), to_b, null_mut()), 0);
        let done = b.poll();
        assert_eq!((done.len(), done[0].err, done[0].len, done[0].olen), (1, FI_ETRUNC, 70, 1));
        assert_eq!((memory[69], memory[70]), (1, 9));
        complains(&world, "truncated");
        // A message that just fits.
        assert_eq!(b.recv(&mut memory[..70], null_mut(), contexts.at(0)), 0);
        assert_eq!((a.inject(&[2; 64], to_b), b.poll()[0].err, world.violations().len()), (0, 0, 1));
        assert_eq!(b.recv(&mut memory[..70], null_mut(), contexts.at(0)), 0);
        assert_eq!(a.send(&[3; 70], null_mut(), to_b, null_mut()), 0);
        assert_eq!((b.poll()[0].len, memory[69], memory[70], world.violations().len()), (70, 3, 9, 1));
    }
}

#[test]
fn arrays_stay_where_asked_for() {
    for (mode, touched) in [(FI_ASYNC_IOV, true), (0, false)] {
        let (world, a, to_b, b, _) = pair(Settings::default().mode(mode).complete_early(false));
        let contexts = Contexts::new(2);
        let mut buffer = [0; 8];
        let mut pieces = [piece(b"ab"), piece(b"cd")];
        assert_eq!(sendmsg(a.ep, &pieces, to_b, contexts.at(0), 0), 0);
        std::hint::black_box(&mut pieces)[1] = piece(b"ef");
        assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(1)), 0);
        assert_eq!((b.poll().len(), a.poll().len()), (1, 1));
        assert_eq!(&buffer[..4], b"abcd");
        if touched {
            complains(&world, "array of iovecs or descriptors was changed");
        } else {
            assert_eq!(world.violations(), [""; 0]);
        }
    }
}

#[test]
fn objects_close_in_order_and_once() {
    let settings = Settings::default().mr_mode(FI_MR_ENDPOINT);
    let (library, world) = world(settings.clone());
    let a = Side::open(&library, &world, &Requested::default());
    let memory = vec![0; 64];
    let region = a.register_for(&settings, &memory, 7);
    let early = [a.fabric.cast(), a.domain.cast(), a.av.cast(), a.cq.cast(), a.ep.cast()];
    for (number, object) in early.into_iter().enumerate() {
        assert_eq!(close(object), -libc::EBUSY);
        let all = world.violations();
        assert!(all.len() == number + 1 && all[number].contains("order of closing"), "{all:?}");
    }
    assert_eq!(close(region.cast()), 0);
    assert_eq!(close(region.cast()), -libc::EINVAL);
    assert_eq!(close(a.ep.cast()), 0);
    assert_eq!(a.inject(b"x", 0), EINVAL);
    assert_eq!(close(a.cq.cast()), 0);
    let mut entry = fi_cq_err_entry::ZERO;
    // SAFETY: closed objects of the fake provider stay until their world ends.
    assert_eq!(unsafe { call::fi_cq_readerr(a.cq, &raw mut entry, 0) }, EINVAL);
    let all = world.violations();
    assert!(all.len() == 8 && all[5..].iter().all(|text| text.contains("use after close")), "{all:?}");
    let leaks = world.close();
    assert_eq!((leaks.fabrics, leaks.domains, leaks.vectors), (1, 1, 1));
    assert_eq!((leaks.queues, leaks.endpoints, leaks.regions, leaks.operations), (0, 0, 0, 0));
}

#[test]
fn what_is_left_is_counted() {
    let (library, world) = world(Settings::default().max_ep_tx_ctx(2).max_ep_rx_ctx(2));
    let a = Side::open(&library, &world, &Requested { contexts: 2, ..Requested::default() });
    let (b, memory) = (Side::open(&library, &world, &Requested::default()), vec![0; 10]);
    let contexts = Contexts::new(2);
    b.register(&memory, ALL_ACCESS, 1).unwrap();
    let mut buffer = vec![0; 10];
    assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(0)), 0);
    let leaks = world.close();
    assert_eq!((leaks.fabrics, leaks.domains, leaks.vectors, leaks.queues), (2, 2, 2, 4), "{leaks:?}");
    assert_eq!((leaks.endpoints, leaks.contexts, leaks.regions, leaks.operations), (2, 4, 1, 1), "{leaks:?}");
    // Closing now fails, without harm.
    a.close();
}

#[test]
fn endpoints_are_complete_before_they_are_enabled_and_used() {
    let (library, world) = world(Settings::default());
    let a = Side::open(&library, &world, &Requested::default());
    let mut ep = null_mut();
    // SAFETY: live objects, and a place for a new one.
    unsafe {
        assert_eq!(call::fi_endpoint(a.domain, a.info, &raw mut ep, null_mut()), 0);
        let mut len = 0;
        assert_eq!(call::fi_getname(ep, null_mut(), &raw mut len), -258);
        // A buffer too short for the name gets the length, and is not written to.
        let mut name = [7u8; 16];
        let mut len = 15;
        assert_eq!(call::fi_getname(a.ep, name.as_mut_ptr().cast(), &raw mut len), -257);
        assert_eq!((len, name), (16, [7; 16]));
        assert_eq!(call::fi_getname(a.ep, name.as_mut_ptr().cast(), &raw mut len), 0);
        assert_eq!(name[..], a.name[..]);
        assert_eq!(call::fi_inject(ep, null_mut(), 0, 0), -258);
    }
    assert_eq!(enable(ep.cast()), -267);
    assert_eq!(bind(ep.cast(), a.av.cast(), 0), 0);
    assert_eq!(enable(ep.cast()), -263);
    assert_eq!(bind(ep.cast(), a.cq.cast(), FI_TRANSMIT), 0);
    assert_eq!(enable(ep.cast()), -263);
    assert_eq!(world.violations().len(), 5, "{:?}", world.violations());
    assert_eq!(bind(ep.cast(), a.cq.cast(), FI_RECV), 0);
    assert_eq!(enable(ep.cast()), 0);
    let b = Side::open(&library, &world, &Requested::default());
    assert_eq!(bind(ep.cast(), b.cq.cast(), FI_RECV), -libc::EINVAL);
    assert!(world.violations()[5].contains("different domains"));
}

#[test]
fn addresses_are_in_the_vector() {
    for (kind, format) in [(FI_AV_TABLE, AddressFormat::Inet), (FI_AV_MAP, AddressFormat::Text(200))] {
        let (library, world) = world(Settings::default().address(format));
        let requested = Requested { av_type: kind, ..Requested::default() };
        let (a, to_b, b, _) = Side::pair(&library, &world, &requested);
        let second = a.insert(&b.name);
        if kind == FI_AV_TABLE {
            assert_eq!((to_b, second), (0, 1));
        } else {
            assert_ne!(to_b, second);
        }
        assert_eq!(a.remove(to_b), 0);
        assert_eq!((a.inject(b"x", second), world.violations().len()), (0, 0));
        assert_eq!(a.inject(b"x", to_b), EINVAL);
        complains(&world, "not in the address vector");
        assert_eq!(a.remove(to_b), -libc::EINVAL);
        assert_eq!(world.violations().len(), 2);
        // Two addresses at once, the second one invalid.
        let addresses = if format == AddressFormat::Inet {
            [b.name.clone(), vec![0; 16]].concat()
        } else {
            [b.name.clone(), b"nonsense\0".to_vec()].concat()
        };
        let mut numbers = [7; 2];
        // SAFETY: two addresses of the vector's form, and places for two numbers.
        let rc = unsafe {
            call::fi_av_insert(a.av, addresses.as_ptr().cast(), 2, numbers.as_mut_ptr(), 0, null_mut())
        };
        assert_eq!((rc, numbers[1]), (1, u64::MAX));
        assert_eq!(world.violations().len(), 3);
        assert_eq!(a.inject(b"x", numbers[0]), 0);
    }
}

#[test]
fn several_messages_in_a_buffer_need_the_capability() {
    let mut buffer = [0; 100];
    let (library, world) = world(Settings::default());
    let a = Side::open(&library, &world, &Requested { caps: FI_MSG, ..Requested::default() });
    assert_eq!(a.recv_multi(&mut buffer, null_mut(), null_mut()), -260);
    complains(&world, "FI_MULTI_RECV");
    let (world, a, ..) = pair(Settings::default().multi_recv(false));
    assert_eq!(a.recv_multi(&mut buffer, null_mut(), null_mut()), -260);
    complains(&world, "FI_MULTI_RECV");
}

#[test]
fn a_domain_belongs_to_one_thread_at_a_time() {
    for (threading, noticed) in [(FI_THREAD_DOMAIN, true), (FI_THREAD_SAFE, false)] {
        let (library, world) = world(Settings::default());
        let a = Side::open(&library, &world, &Requested { threading, ..Requested::default() });
        // Two threads that only make calls are certain to collide; how soon is random.
        let most = if noticed { 200 } else { 3 };
        for _ in 0..most {
            std::thread::scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|| (0..5_000).for_each(|_| drop(a.poll())));
                }
            });
            if !world.violations().is_empty() {
                break;
            }
        }
        let all = world.violations();
        assert_eq!(!all.is_empty(), noticed);
        assert!(all.iter().all(|text| text.contains("threads: fi_cq_read")), "{all:?}");
        // Use by one thread after another is correct.
        let before = all.len();
        std::thread::scope(|scope| drop(scope.spawn(|| a.poll()).join()));
        drop(a.poll());
        assert_eq!(world.violations().len(), before);
    }
}

#[test]
fn other_formats_and_objects() {
    let (library, world) = world(Settings::default().wait_fd(false).av_types(1));
    let a = Side::open(&library, &world, &Requested::default());
    // SAFETY: live objects, attributes, and places for what is made.
    unsafe {
        let mut cq = null_mut();
        let mut attr: fi_cq_attr = core::mem::zeroed();
        attr.wait_obj = FI_WAIT_FD;
        assert_eq!(call::fi_cq_open(a.domain, &raw mut attr, &raw mut cq, null_mut()), -FI_ENOSYS);
        attr.wait_obj = FI_WAIT_NONE;
        attr.format = 4;
        assert_eq!(call::fi_cq_open(a.domain, &raw mut attr, &raw mut cq, null_mut()), -FI_ENOSYS);
        let mut av = null_mut();
        let mut attr: fi_av_attr = core::mem::zeroed();
        attr.type_ = FI_AV_TABLE;
        assert_eq!(call::fi_av_open(a.domain, &raw mut attr, &raw mut av, null_mut()), -FI_ENOSYS);
        let mut ep = null_mut();
        assert_eq!(call::fi_scalable_ep(a.domain, a.info, &raw mut ep, null_mut()), -FI_ENOSYS);
    }
    // The shorter formats.
    for format in [FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG] {
        let contexts = Contexts::new(1);
        // SAFETY: live objects and attributes, and results have room; the entries' room is that of
        // their format.
        unsafe {
            let (mut cq, mut ep) = (null_mut(), null_mut());
            let mut attr: fi_cq_attr = core::mem::zeroed();
            attr.format = format;
            assert_eq!(call::fi_cq_open(a.domain, &raw mut attr, &raw mut cq, null_mut()), 0);
            assert_eq!(call::fi_endpoint(a.domain, a.info, &raw mut ep, null_mut()), 0);
            assert_eq!(bind(ep.cast(), a.av.cast(), 0), 0);
            assert_eq!(bind(ep.cast(), cq.cast(), FI_TRANSMIT | FI_RECV), 0);
            assert_eq!(enable(ep.cast()), 0);
            let to = a.insert(&a.name);
            assert_eq!(sendmsg(ep, &[piece(b"abc")], to, contexts.at(0), FI_DELIVERY_COMPLETE), 0);
            let mut buffer = [0; 8];
            assert_eq!(a.recv(&mut buffer, null_mut(), null_mut()), 0);
            assert_eq!(a.poll().len(), 1);
            let words = if format == FI_CQ_FORMAT_CONTEXT { 1 } else { 3 };
            let mut entry = [77usize; 4];
            assert_eq!(call::fi_cq_read(cq, entry.as_mut_ptr().cast(), 1), 1);
            assert_eq!(entry[0], contexts.at(0).addr());
            assert!(entry[words..].iter().all(|word| *word == 77), "{entry:?}");
            if words == 3 {
                assert_eq!(entry[1..3], [(FI_SEND | FI_MSG) as usize, 3]);
            }
        }
    }
    assert_eq!(world.violations(), [""; 0]);
}
