//! Cookies survive a round trip, have one form each, and damage is refused or yields another valid
//! cookie.

use proptest::prelude::*;

use super::*;

fn keyed() -> impl Strategy<Value = Keyed> {
    let key = proptest::collection::vec(any::<u8>(), 0..=RemoteKey::MAX);
    (any::<u32>(), any::<u32>(), 1..=u64::from(u32::MAX), key).prop_map(|(index, at, len, key)| {
        let key = RemoteKey::new(&key).expect("a key");
        Keyed { window: Window { index, at: u64::from(at), len }, key }
    })
}

fn cookies() -> impl Strategy<Value = Cookie> {
    let domain = (any::<[u8; 16]>(), any::<u64>(), any::<u64>(), any::<u32>())
        .prop_map(|(boot, device, pids, user)| ShmDomain { boot, device, pids, user });
    let offer = (0..8u8, domain, keyed()).prop_map(|(bits, domain, first)| {
        let modes = Modes::of_bits(bits).expect("three bits");
        Cookie::Offer(Offer { modes, domain, first: modes.has(Mode::Get).then_some(first) })
    });
    prop_oneof![
        offer,
        keyed().prop_map(Cookie::GrantPut),
        any::<[u8; 16]>().prop_map(|r| Cookie::GrantCoop(RingName(r))),
        keyed().prop_map(Cookie::Window),
        any::<u32>().prop_map(Cookie::WindowAck),
        Just(Cookie::Refuse),
        Just(Cookie::Abort),
        Just(Cookie::Wake),
        proptest::option::of((any::<[u8; 16]>().prop_map(RingName), any::<u64>())).prop_map(Cookie::Rest),
        Just(Cookie::Rested),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn cookies_come_back(cookie in cookies()) {
        prop_assert_eq!(Cookie::parse(&cookie.emit()), Ok(cookie));
    }

    /// After one byte is changed or some are cut off or appended, any accepted cookie still has
    /// exactly one form.
    #[test]
    fn what_is_taken_has_one_form(
        cookie in cookies(), at in any::<prop::sample::Index>(), to in any::<u8>(),
        cut in any::<prop::sample::Index>(), more in proptest::collection::vec(any::<u8>(), 0..4),
    ) {
        let mut bytes = cookie.emit();
        let i = at.index(bytes.len());
        bytes[i] = to;
        for form in [bytes.clone(), bytes[..cut.index(bytes.len())].to_vec(), [&bytes[..], &more].concat()] {
            if let Ok(read) = Cookie::parse(&form) {
                prop_assert_eq!(read.emit(), form);
            }
        }
    }

    #[test]
    fn noise_is_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(read) = Cookie::parse(&bytes) {
            prop_assert_eq!(read.emit(), bytes);
        }
    }
}

#[test]
fn the_forms_stay() {
    let key = Keyed { window: Window { index: 1, at: 2, len: 3 }, key: RemoteKey::of([9, 8]) };
    let window = [1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 9, 8];
    let domain = ShmDomain { boot: [7; 16], device: 5, pids: 8, user: 6 };
    let offer = Offer { modes: Modes::NULL.with(Mode::Get), domain, first: Some(key) };
    let mut golden = vec![2, 1, 2];
    golden.extend([7; 16]);
    golden.extend([5, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0]);
    golden.extend(window);
    assert_eq!(Cookie::Offer(offer).emit(), golden);
    assert_eq!(Cookie::GrantPut(key).emit(), [&[2, 2][..], &window].concat());
    assert_eq!(Cookie::GrantCoop(RingName([4; 16])).emit(), [&[2, 3][..], &[4; 16]].concat());
    assert_eq!(Cookie::Window(key).emit(), [&[2, 4][..], &window].concat());
    assert_eq!(Cookie::WindowAck(0x0102).emit(), [2, 5, 2, 1, 0, 0]);
    assert_eq!(Cookie::Refuse.emit(), [2, 6]);
    assert_eq!(Cookie::Abort.emit(), [2, 7]);
    assert_eq!(Cookie::Wake.emit(), [2, 8]);
    let rest = [&[2, 9][..], &[4; 16], &[3, 2, 0, 0, 0, 0, 0, 0]].concat();
    assert_eq!(Cookie::Rest(Some((RingName([4; 16]), 0x0203))).emit(), rest);
    assert_eq!(Cookie::Rest(None).emit(), [2, 9]);
    assert_eq!(Cookie::Rested.emit(), [2, 10]);
}

#[test]
fn what_is_wrong_is_named() {
    let error = |bytes: &[u8]| Cookie::parse(bytes).expect_err("no cookie").to_string();
    assert_eq!(error(&[]), "empty cookie of 0 bytes, which is not its length");
    assert!(error(&[1, 8]).contains("version 1"));
    assert!(error(&[2, 99]).contains("kind 99"));
    assert_eq!(error(&[2, 8, 0]), "Wake cookie of 3 bytes, which is not its length");
    assert_eq!(error(&[2, 9, 0]), "Rest cookie of 3 bytes, which is not its length");
    let empty = Keyed { window: Window { index: 0, at: 0, len: 0 }, key: RemoteKey::of([]) };
    assert_eq!(error(&Cookie::Window(empty).emit()), "Window cookie whose window cannot be so");
    let key = Keyed { window: Window { index: 1, at: 2, len: 3 }, key: RemoteKey::of([0; RemoteKey::MAX]) };
    let mut long = Cookie::Window(key).emit();
    let n = long.len() - RemoteKey::MAX - 2;
    long[n] += 1;
    long.push(0);
    assert_eq!(error(&long), "Window cookie whose length of the key cannot be so");
}
