//! Tests of the description of a refused registration.

use super::*;

#[test]
fn a_limit_of_locked_memory_is_named_with_the_command_that_shows_it() {
    let text = |why, limit| Error::new("ibv_reg_mr", refused("rxe0", 4096, why, limit), why).to_string();
    for why in [errno::ENOMEM, errno::EAGAIN, errno::EPERM] {
        let text = text(why, Some(64 << 10));
        for part in ["ibv_reg_mr on rxe0, 4096 bytes", "locked memory of 64 KiB", "ulimit -l"] {
            assert!(text.contains(part), "{text}");
        }
    }
    assert!(!text(errno::ENOMEM, None).contains("KiB"));
    assert!(!text(errno::EINVAL, Some(64 << 10)).contains("KiB"));
}
