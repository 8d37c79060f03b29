//! Golden bytes, round trips and mutated headers.

use proptest::prelude::*;

use super::*;

const ENV: Envelope = Envelope::new(0x0403_0201, 0x1413_1211, -2);

fn short(data: &[u8]) -> ShortData {
    ShortData::new(data).expect("at most 16 bytes")
}

fn cookie(len: usize) -> CookieLen {
    CookieLen::new(len).expect("at most 1024 bytes")
}

/// Every packet, every flag of it, and its bytes.
fn golden() -> Vec<(Packet, Header)> {
    let sreq = 0x2827_2625_2423_2221;
    let rreq = 0x3837_3635_3433_3231;
    let size = 0x4847_4645_4443_4241;
    vec![
        (
            Packet::EagerShort { env: ENV, ready: false, data: short(&[0xa0, 0xa1, 0xa2, 0xa3, 0xa4]) },
            [
                0x01, 0x00, 0x05, 0x00, 0x01, 0x02, 0x03, 0x04, // type flags aux context
                0x11, 0x12, 0x13, 0x14, 0xfe, 0xff, 0xff, 0xff, // source tag
                0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0x00, 0x00, 0x00, // data
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, // data
            ],
        ),
        (
            Packet::EagerShort {
                env: ENV,
                ready: true,
                data: short(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]),
            },
            [
                0x01, 0x02, 0x10, 0x00, 0x01, 0x02, 0x03, 0x04, //
                0x11, 0x12, 0x13, 0x14, 0xfe, 0xff, 0xff, 0xff, //
                0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, //
                0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10, //
            ],
        ),
        (
            Packet::Eager { env: ENV, mode: Mode::Standard, len: 0x5453_5251, sreq, credit: 0x6463_6261 },
            [
                0x02, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, //
                0x11, 0x12, 0x13, 0x14, 0xfe, 0xff, 0xff, 0xff, //
                0x51, 0x52, 0x53, 0x54, 0x61, 0x62, 0x63, 0x64, // len credit
                0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, // sreq
            ],
        ),
        (
            Packet::Eager { env: ENV, mode: Mode::Sync, len: 0, sreq, credit: 0 },
            [
                0x02, 0x01, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, //
                0x11, 0x12, 0x13, 0x14, 0xfe, 0xff, 0xff, 0xff, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, //
            ],
        ),
        (
            Packet::Eager { env: ENV, mode: Mode::Ready, len: u32::MAX, sreq: 0, credit: u32::MAX },
            [
                0x02, 0x02, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, //
                0x11, 0x12, 0x13, 0x14, 0xfe, 0xff, 0xff, 0xff, //
                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
            ],
        ),
        (
            Packet::EagerSyncAck { sreq },
            [
                0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, // sreq
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
            ],
        ),
        (
            Packet::Rts { env: ENV, sync: true, sreq, data_sz: size, cookie_len: cookie(1024) },
            [
                0x04, 0x01, 0x00, 0x04, 0x01, 0x02, 0x03, 0x04, //
                0x11, 0x12, 0x13, 0x14, 0xfe, 0xff, 0xff, 0xff, //
                0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, // sreq
                0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, // data_sz
            ],
        ),
        (
            Packet::Cts { sreq, rreq, data_sz: size, cookie_len: cookie(0x0102) },
            [
                0x05, 0x00, 0x02, 0x01, 0x00, 0x00, 0x00, 0x00, //
                0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, // sreq
                0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, // rreq
                0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, // data_sz
            ],
        ),
        (
            Packet::RndvData { rreq, len: size },
            [
                0x06, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, // rreq
                0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48, // len
            ],
        ),
        (
            Packet::CancelReq { env: ENV, sreq },
            [
                0x07, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, //
                0x11, 0x12, 0x13, 0x14, 0xfe, 0xff, 0xff, 0xff, //
                0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, // sreq
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
            ],
        ),
        (
            Packet::CancelResp { sreq, ack: true },
            [
                0x08, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, // sreq
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
            ],
        ),
        (
            Packet::Close { ack: false },
            [
                0x09, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
            ],
        ),
        (
            Packet::Close { ack: true },
            [
                0x09, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
            ],
        ),
        (
            Packet::Done { req: rreq },
            [
                0x0a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, // req
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
            ],
        ),
        (
            Packet::Cookie { from_sender: true, sreq, rreq, cookie_len: cookie(3) },
            [
                0x0b, 0x08, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, // sreq
                0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, // rreq
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
            ],
        ),
        (
            Packet::Credit { want: true, bytes: 0x5453_5251, slots: 0x6463_6261 },
            [
                0x0c, 0x10, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x51, 0x52, 0x53, 0x54, 0x61, 0x62, 0x63, 0x64, // bytes slots
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
            ],
        ),
        (
            Packet::Credit { want: false, bytes: 0, slots: 1 },
            [
                0x0c, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
                0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, //
            ],
        ),
    ]
}

#[test]
fn golden_bytes() {
    for (packet, bytes) in golden() {
        assert_eq!(packet.emit(), bytes, "{packet:?}");
        assert_eq!(Packet::parse(&bytes), Ok(packet));
    }
}

#[test]
fn payload_lengths() {
    let lens: Vec<u64> = golden().iter().map(|(p, _)| p.payload_len()).collect();
    let len = 0x5453_5251;
    let size = 0x4847_4645_4443_4241;
    let max = u64::from(u32::MAX);
    assert_eq!(lens, [0, 0, len, 0, max, 0, 1024, 0x0102, size, 0, 0, 0, 0, 0, 3, 0, 0]);
}

#[test]
fn what_is_refused_and_why() {
    let mut header = Packet::Close { ack: false }.emit();
    for found in [0].into_iter().chain(0x0d..=0xff) {
        header[0] = found;
        assert_eq!(Packet::parse(&header), Err(PktError::Type { found }));
    }
    let eager = emit_eager(ENV, Mode::Standard, 1, 2, 3);
    let refused = |at: usize, byte: u8, base: &Header| {
        let mut header = *base;
        header[at] = byte;
        Packet::parse(&header).expect_err("refused").to_string()
    };
    assert_eq!(
        refused(1, SYNC_AND_READY, &eager),
        "Eager packet with flags 0x03, of which only one of SYNC (0x01) and READY (0x02) is \
         allowed; does the peer use packet version 3?"
    );
    assert_eq!(
        refused(2, 1, &eager),
        "Eager packet with reserved bytes 2..4 that are not zero; does the peer use packet \
         version 3?"
    );
    let credit = Packet::Credit { want: false, bytes: 1, slots: 2 }.emit();
    assert_eq!(
        refused(1, 1, &credit),
        "Credit packet with flags 0x01, of which only WANT (0x10) is known; does the peer use packet \
         version 3?"
    );
    let shorts = emit_eager_short(ENV, false, &[7]).unwrap();
    assert_eq!(refused(2, 17, &shorts), "EagerShort packet of 17 data bytes, at most 16 fit in a header");
    assert_eq!(
        refused(17, 1, &shorts),
        "EagerShort packet with reserved bytes 17..32 that are not zero; does the peer use \
         packet version 3?"
    );
    let rts = Packet::Rts { env: ENV, sync: false, sreq: 1, data_sz: 2, cookie_len: cookie(1024) };
    assert_eq!(
        refused(2, 1, &rts.emit()),
        "Rts packet with a cookie of 1025 bytes, more than the limit of 1024"
    );
}

const SYNC_AND_READY: u8 = 3;

#[test]
fn bounds_of_the_constructors() {
    assert_eq!(ShortData::new(&[0; MAX_SHORT + 1]), None);
    assert_eq!(CookieLen::new(MAX_COOKIE + 1), None);
    for len in 0..=MAX_SHORT {
        let data: Vec<u8> = (1..=len as u8).collect();
        assert_eq!(short(&data).as_slice(), data);
    }
    assert_eq!(cookie(MAX_COOKIE).get(), MAX_COOKIE);
}

/// If a header is accepted, emission gives the very same bytes.
fn is_canonical(header: &Header) -> bool {
    match Packet::parse(header) {
        Ok(packet) => {
            assert_eq!(&packet.emit(), header, "{packet:?}");
            assert_eq!(Packet::parse(&packet.emit()), Ok(packet));
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

#[test]
fn every_single_bit_flip() {
    for (_, header) in golden() {
        for bit in 0..HDR_LEN * 8 {
            let mut flipped = header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            is_canonical(&flipped);
        }
    }
}

#[test]
fn millions_of_mutated_headers() {
    let golden = golden();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut accepted, mut refused) = (0u32, 0u32);
    for _ in 0..3_000_000 {
        let mut header = golden[random() as usize % golden.len()].1;
        for _ in 0..1 + random() % 3 {
            let at = random() as usize % HDR_LEN;
            header[at] = match random() % 4 {
                0 => 0,
                1 => header[at] ^ 1 << (random() % 8),
                2 => (random() % 16) as u8,
                _ => random() as u8,
            };
        }
        if is_canonical(&header) {
            accepted += 1;
        } else {
            refused += 1;
        }
    }
    assert!(accepted > 100_000, "{accepted} accepted");
    assert!(refused > 100_000, "{refused} refused");
}

fn any_env() -> impl Strategy<Value = Envelope> {
    any::<(u32, i32, i32)>().prop_map(|(c, s, t)| Envelope::new(c, s, t))
}

fn any_cookie() -> impl Strategy<Value = CookieLen> {
    (0..=MAX_COOKIE).prop_map(cookie)
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let mode = prop_oneof![Just(Mode::Standard), Just(Mode::Sync), Just(Mode::Ready)];
    let data = prop::collection::vec(any::<u8>(), 0..=MAX_SHORT);
    prop_oneof![
        (any_env(), any::<bool>(), data).prop_map(|(env, ready, data)| Packet::EagerShort {
            env,
            ready,
            data: short(&data)
        }),
        (any_env(), mode, any::<u32>(), any::<u64>(), any::<u32>())
            .prop_map(|(env, mode, len, sreq, credit)| Packet::Eager { env, mode, len, sreq, credit }),
        any::<u64>().prop_map(|sreq| Packet::EagerSyncAck { sreq }),
        (any_env(), any::<bool>(), any::<u64>(), any::<u64>(), any_cookie()).prop_map(
            |(env, sync, sreq, data_sz, cookie_len)| Packet::Rts { env, sync, sreq, data_sz, cookie_len }
        ),
        (any::<u64>(), any::<u64>(), any::<u64>(), any_cookie()).prop_map(
            |(sreq, rreq, data_sz, cookie_len)| { Packet::Cts { sreq, rreq, data_sz, cookie_len } }
        ),
        any::<(u64, u64)>().prop_map(|(rreq, len)| Packet::RndvData { rreq, len }),
        (any_env(), any::<u64>()).prop_map(|(env, sreq)| Packet::CancelReq { env, sreq }),
        any::<(u64, bool)>().prop_map(|(sreq, ack)| Packet::CancelResp { sreq, ack }),
        any::<bool>().prop_map(|ack| Packet::Close { ack }),
        any::<u64>().prop_map(|req| Packet::Done { req }),
        (any::<bool>(), any::<u64>(), any::<u64>(), any_cookie()).prop_map(
            |(from_sender, sreq, rreq, cookie_len)| {
                Packet::Cookie { from_sender, sreq, rreq, cookie_len }
            }
        ),
        any::<(bool, u32, u32)>().prop_map(|(want, bytes, slots)| Packet::Credit { want, bytes, slots }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 20_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn round_trip(packet in any_packet()) {
        prop_assert_eq!(Packet::parse(&packet.emit()), Ok(packet));
    }

    #[test]
    fn any_bytes_are_refused_or_canonical(kind in 0u8..16, rest in any::<[u8; HDR_LEN - 1]>()) {
        let mut header = [kind; HDR_LEN];
        header[1..].copy_from_slice(&rest);
        is_canonical(&header);
    }
}

/// Each length, against the slow way.
#[test]
fn short_messages_of_each_length() {
    for len in 0..=MAX_SHORT {
        let bytes: Vec<u8> = (0..len as u8).map(|i| 0xff - 7 * i).collect();
        let slow = Packet::EagerShort { env: ENV, ready: false, data: short(&bytes) }.emit();
        assert_eq!(emit_eager_short(ENV, false, &bytes), Some(slow), "{len}");
        assert_eq!(&slow[HDR_LEN - MAX_SHORT..][..len], &bytes[..]);
        let parsed = Short::of(&slow).expect("a short message");
        assert_eq!((parsed.env, parsed.ready, parsed.data(&slow)), (ENV, false, &bytes[..]));
    }
    assert_eq!(emit_eager_short(ENV, false, &[1; MAX_SHORT + 1]), None);
}
