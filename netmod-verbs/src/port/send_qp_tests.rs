use super::*;

fn endpoint(at: u32) -> EndpointId {
    EndpointId { at, generation: 1 }
}

#[test]
fn ends_that_found_no_room_have_turns() {
    let mut shared = Shared::new(1, 4, 16);
    for at in [7, 8, 7, 9] {
        assert!(!shared.queue(endpoint(at), false), "there is no room");
    }
    // There is room for three; the endpoint that had it last is last again.
    assert!(!shared.queue(endpoint(9), true) && !shared.queue(endpoint(8), true), "it is not their turn");
    assert!(shared.queue(endpoint(7), true));
    assert!(!shared.queue(endpoint(7), true), "it waits behind the others");
    assert!(
        shared.queue(endpoint(8), true) && shared.queue(endpoint(9), true) && shared.queue(endpoint(7), true)
    );
    assert!(shared.waiting.is_empty());
}

#[test]
fn an_end_that_has_nothing_to_send_any_more_loses_its_turn() {
    let mut shared = Shared::new(1, 4, 16);
    assert!(!shared.queue(endpoint(7), false));
    let refused = (0..100).take_while(|_| !shared.queue(endpoint(8), true)).count();
    assert_eq!(refused, MISSES as usize);
}

#[test]
fn what_is_under_way_is_kept_as_it_was_posted() {
    let depth = 3;
    let mut shared = Shared::new(1, depth, 16);
    let bytes = |n: u8| vec![n; usize::from(n % 17)];
    let sge = |n: u8| Sge { addr: n.into(), len: 5, lkey: 6 };
    let what = |n: u8| if n.is_multiple_of(3) { What::Transfer { number: n.into() } } else { What::Inline };
    let keep = |shared: &mut Shared, n: u8| {
        let data = bytes(n);
        let payload = match what(n) {
            What::Inline => Payload::Inline(&data),
            _ => Payload::Registered(sge(n)),
        };
        shared.keep(&Request { op: SendOp::Send, payload, what: what(n) }, depth);
    };
    (0..3).for_each(|n| keep(&mut shared, n));
    for n in 0..200_u8 {
        // Some complete, and some are posted again.
        let again = shared.take(!n.is_multiple_of(5), what(n));
        assert_eq!(again.is_some(), !n.is_multiple_of(5), "{n}");
        if let Some(again) = again {
            match again.request().payload {
                Payload::Inline(data) => assert_eq!(data, bytes(n), "{n}"),
                Payload::Registered(of) => assert_eq!(of, sge(n), "{n}"),
            }
            assert_eq!(again.what, what(n));
        }
        keep(&mut shared, n + 3);
    }
}
