//! Scans: in round k each process exchanges the result of its group of 2^k with the neighbouring
//! group's.

use super::reduce::{Accumulator, OpFacts};
use super::schedule::{Builder, Data};

/// Combines the operands of the processes up to this one into `result`.
///
/// `mine` is this process's operand; it is `result` if it is in place.
pub fn scan(b: &mut Builder, op: OpFacts, mine: Data, result: Data) {
    b.copy(mine, result);
    doubling(b, op, result, |b, tmp, _| b.reduce(tmp, result));
}

/// Combines the operands of the processes before this one into `result`; that of process 0 stays as
/// it is.
///
/// `mine` is this process's operand; it is `result` if it is in place.
pub fn exscan(b: &mut Builder, op: OpFacts, mine: Data, result: Data) {
    doubling(b, op, mine, |b, tmp, first| {
        if first {
            b.copy(tmp, result);
        } else {
            b.reduce(tmp, result);
        }
    });
}

/// Calls `before` with the combined operands of each group of processes before this one, the
/// nearest first.
fn doubling(b: &mut Builder, op: OpFacts, mine: Data, mut before: impl FnMut(&mut Builder, Data, bool)) {
    let (n, me) = (b.n, b.me);
    if n == 1 {
        return;
    }
    let (acc, tmp) = (b.room(mine.count, mine.elem), b.room(mine.count, mine.elem));
    b.copy(mine, acc);
    let mut group = Accumulator { acc, tmp, commutative: op.commutative };
    let (mut mask, mut first) = (1, true);
    while mask < n {
        let peer = me ^ mask;
        if peer < n {
            b.exchange(peer, group.acc, peer, group.tmp);
            if peer < me {
                before(b, group.tmp, first);
                first = false;
                group.left(b);
            } else {
                group.right(b);
            }
        }
        mask *= 2;
    }
}
