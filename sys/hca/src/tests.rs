//! Tests of the codes of verbs and their meanings.

use core::time::Duration;

use super::*;

#[test]
fn codes_are_those_of_verbs() {
    assert_eq!(Mtu::ALL.map(Mtu::bytes), [256, 512, 1024, 2048, 4096]);
    assert_eq!((Mtu::of_code(5), Mtu::of_code(0), Mtu::of_code(6)), (Some(Mtu::B4096), None, None));
    for code in 0..24 {
        assert_eq!(Status::of_code(code) as u32, code);
    }
    assert_eq!(Status::of_code(24), Status::GeneralErr);
}

#[test]
fn waits_are_those_of_the_specification() {
    assert_eq!(timeout_wait(0), None);
    assert_eq!(timeout_wait(14), Some(Duration::from_nanos(67_108_864)));
    assert_eq!(timeout_wait(31), Some(Duration::from_nanos(4096 << 31)));
    assert_eq!(rnr_wait(0), Duration::from_micros(655_360));
    assert_eq!(rnr_wait(1), Duration::from_micros(10));
    assert_eq!(rnr_wait(12), Duration::from_micros(640));
    assert_eq!(rnr_wait(31), Duration::from_micros(491_520));
}

#[test]
fn memory_of_requests_is_laid_out_as_in_c() {
    assert_eq!((size_of::<Sge>(), size_of::<Piece<'_>>(), align_of::<Sge>()), (16, 16, 8));
    let bytes = [1, 2, 3];
    let sge = Piece::new(&bytes).sge();
    assert_eq!((sge.addr, sge.len, sge.lkey), (bytes.as_ptr() as u64, 3, 0));
}

#[test]
fn errors_say_what_mends_them() {
    let error = Error::new("ibv_reg_mr", "mlx5_0, 4096 bytes", errno::ENOMEM);
    let text = error.to_string();
    assert!(text.starts_with("ibv_reg_mr on mlx5_0, 4096 bytes: "), "{text}");
    for part in
        ["`ulimit -l unlimited`", "limits.conf", "LimitMEMLOCK", "PropagateResourceLimitsExcept=MEMLOCK"]
    {
        assert!(text.contains(part), "{text}");
    }
}
