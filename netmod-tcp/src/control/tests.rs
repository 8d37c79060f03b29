//! Control frames: their bytes, and what is none.

use super::*;

#[test]
fn the_bytes_are_these() {
    for (control, kind, number) in [
        (Control::Goodbye, 1, 0u64),
        (Control::Withdrawn, 2, 0),
        (Control::Ack { position: 0x0102_0304_0506_0708 }, 4, 0x0102_0304_0506_0708),
        (Control::Suspend { connection: 9 }, 7, 9),
        (Control::Moved { port: 4711 }, 8, 4711),
        (Control::Suspended { connection: 9 }, 11, 9),
    ] {
        let mut want = [0; CONTROL_LEN];
        want[..8].copy_from_slice(&[0xff, kind, 0, 0, 0x93, b'N', b'M', b'T']);
        want[8..16].copy_from_slice(&number.to_le_bytes());
        assert_eq!(control.emit(), want);
    }
}

#[test]
fn control_frames_are_told_from_messages() {
    for control in [
        Control::Goodbye,
        Control::Withdrawn,
        Control::Ack { position: 1 << 40 | 7 },
        Control::Suspend { connection: 1 << 40 | 7 },
        Control::Moved { port: 4711 },
        Control::Suspended { connection: 3 },
    ] {
        let frame = control.emit();
        assert_eq!(Control::parse(&frame), Ok(Some(control)));
        for at in 1..CONTROL_LEN {
            for bit in 0..8 {
                let mut bad = frame;
                bad[at] ^= 1 << bit;
                let parsed = Control::parse(&bad);
                // The number is all that may vary.
                let numbers = match control {
                    Control::Goodbye | Control::Withdrawn => 8..8,
                    Control::Ack { .. } | Control::Suspend { .. } | Control::Suspended { .. } => 8..16,
                    Control::Moved { .. } => 8..10,
                };
                let other = numbers.contains(&at);
                if other && let Ok(Some(parsed)) = parsed {
                    assert_eq!(std::mem::discriminant(&parsed), std::mem::discriminant(&control));
                }
                assert!(parsed != Ok(Some(control)) && parsed != Ok(None), "byte {at} bit {bit}");
                assert_eq!(parsed.is_ok(), other, "byte {at} bit {bit}");
            }
        }
    }
    for first in 0..CONTROL_MARK {
        let mut header = Control::Goodbye.emit();
        header[0] = first;
        assert_eq!(Control::parse(&header), Ok(None));
    }
}
