//! Barrier: dissemination. In round k each process tells the one 2^k behind it.

use super::schedule::Builder;

/// Nobody ends before all have begun.
pub fn barrier(b: &mut Builder) {
    let mut distance = 1;
    while distance < b.n {
        b.await_signal(b.before(distance));
        b.signal(b.after(distance));
        b.fence();
        distance *= 2;
    }
}
