//! Tests of correct use: worlds are listed, objects open and close, messages arrive, and there are
//! no violations.

mod common;

use core::ptr::null_mut;

use common::*;
use libfabric_sys::consts::*;
use netmod_fake_fabric::{AddressFormat, Settings};

#[test]
fn a_message_goes_from_one_to_the_other() {
    let (library, world) = world(Settings::default());
    let (a, to_b, b, to_a) = Side::pair(&library, &world, &Requested::default());
    let contexts = Contexts::new(4);
    let mut buffer = vec![0; 100];
    assert_eq!(b.recv(&mut buffer, null_mut(), contexts.at(0)), 0);
    assert_eq!(a.send(b"hello", null_mut(), to_b, contexts.at(1)), 0);
    let (mut at_a, mut at_b) = (a.poll(), b.poll());
    at_a.extend(a.poll());
    at_b.extend(b.poll());
    assert_eq!(at_a.len(), 1, "{at_a:?}");
    assert_eq!((at_a[0].context, at_a[0].flags), (contexts.at(1).addr(), FI_SEND | FI_MSG));
    assert_eq!(at_b.len(), 1, "{at_b:?}");
    assert_eq!((at_b[0].context, at_b[0].len), (contexts.at(0).addr(), 5));
    assert_eq!(&buffer[..5], b"hello");
    // To itself as well, and back, by inject, before there is a buffer.
    assert_eq!(b.inject(b"back", to_a), 0);
    let to_itself = a.insert(&a.name);
    assert_eq!(a.inject(b"self", to_itself), 0);
    assert_eq!(a.poll(), []);
    let (mut one, mut two) = (vec![0; 4], vec![0; 4]);
    assert_eq!(a.recv(&mut one, null_mut(), contexts.at(2)), 0);
    assert_eq!(a.recv(&mut two, null_mut(), contexts.at(3)), 0);
    assert_eq!(a.poll().len(), 2);
    assert_eq!((&one[..], &two[..]), (&b"back"[..], &b"self"[..]));
    assert_eq!(world.violations(), [""; 0]);
    a.close();
    b.close();
    assert!(world.close().is_none());
}

#[test]
fn a_buffer_takes_several_messages_and_is_given_back() {
    for (align, alone) in [(1, 0.0), (64, 0.0), (1, 1.0)] {
        let settings = Settings::default().multi_recv_align(align).release_alone(alone);
        let (library, world) = world(settings);
        let requested = Requested { min_multi_recv: 200, ..Requested::default() };
        let (a, to_b, b, _) = Side::pair(&library, &world, &requested);
        let contexts = Contexts::new(2);
        let mut buffers = [vec![0; 1000], vec![0; 1000]];
        for (number, buffer) in buffers.iter_mut().enumerate() {
            assert_eq!(b.recv_multi(buffer, null_mut(), contexts.at(number)), 0);
        }
        let mut got: Vec<Vec<u8>> = Vec::new();
        let mut released = Vec::new();
        let mut since = 0;
        for number in 0..60u8 {
            assert_eq!(a.inject(&[number; 50], to_b), 0);
            for done in b.poll() {
                let owner = contexts.find(done.context).unwrap();
                if done.flags & FI_MSG != 0 {
                    let at = done.buf - buffers[owner].as_ptr().addr();
                    assert_eq!(at % align, 0);
                    got.push(buffers[owner][at..at + done.len].to_vec());
                    since += 1;
                }
                if done.flags & FI_MULTI_RECV != 0 {
                    assert_eq!(done.flags & FI_MSG == 0, alone == 1.0);
                    released.push((owner, std::mem::take(&mut since)));
                    assert_eq!(b.recv_multi(&mut buffers[owner], null_mut(), contexts.at(owner)), 0);
                }
            }
        }
        assert_eq!(got, (0..60).map(|number| vec![number; 50]).collect::<Vec<_>>());
        // Free space of 200 must remain: 17 messages of 50 in 1000 bytes, or 13 of 64.
        let each = if align == 1 { 17 } else { 13 };
        let expected: Vec<_> = (0..60 / each).map(|number| (number % 2, each)).collect();
        assert_eq!(released, expected);
        assert_eq!(world.stats().releases as usize, if alone == 1.0 { released.len() } else { 0 });
        assert_eq!(world.violations(), [""; 0]);
        a.close();
        b.close();
        assert!(world.close().is_none());
    }
}

#[test]
fn worlds_are_apart() {
    let (library, control) = library();
    let one = netmod_fake_fabric::World::new(&control, Settings::default());
    let two = netmod_fake_fabric::World::new(&control, Settings::default().address(AddressFormat::Text(300)));
    let all = domains(&library, getinfo(&library, |hints| hints.mode = ALL_MODES).unwrap());
    assert!(all.contains(&one.name().to_string()) && all.contains(&two.name().to_string()), "{all:?}");
    let only = domains(&library, info(&library, &one, &Requested::default()).unwrap());
    assert_eq!(only, [one.name()]);
    let (a, b) = (
        Side::open(&library, &one, &Requested::default()),
        Side::open(&library, &two, &Requested::default()),
    );
    let c = Side::open(&library, &two, &Requested::default());
    assert_eq!(a.name.len(), 16);
    assert_eq!(b.name.len(), 300);
    assert!(c.name.len() < 300 && c.name.ends_with(&[0]));
    assert_eq!(one.nodes().len(), 1);
    assert_eq!(two.nodes()[1].address, c.name);
    [a, b, c].into_iter().for_each(Side::close);
    let name = one.name().to_string();
    assert!(one.close().is_none() && two.close().is_none());
    let left = getinfo(&library, |hints| {
        // SAFETY: an empty `fi_info` has all its parts.
        #[allow(unsafe_code)]
        unsafe {
            (*hints.domain_attr).name = strdup(&name);
        }
    });
    assert_eq!(left, Err(-FI_ENODATA));
}
