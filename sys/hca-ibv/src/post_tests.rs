//! Tests of lists, with a driver that records its calls.

use hca::errno;

use super::*;

const REFUSED: u64 = u64::MAX;

fn request(wr_id: &u64) -> Result<ibv_recv_wr, Errno> {
    if *wr_id == REFUSED {
        return Err(errno::EINVAL);
    }
    let nothing = core::ptr::null_mut();
    Ok(ibv_recv_wr { wr_id: *wr_id, next: core::ptr::null_mut(), sg_list: nothing, num_sge: 0 })
}

/// Posts a list to a driver with room for `room` requests. Returns the requests that it took, by
/// call, and the result.
fn post_to(list: &[u64], room: usize) -> (Vec<Vec<u64>>, Result<(), PostError>) {
    let (mut calls, mut left): (Vec<Vec<u64>>, usize) = (Vec::new(), room);
    let done = post(list, request, |mut wr, bad| {
        let mut taken = Vec::new();
        while !wr.is_null() {
            // SAFETY: the list ends, and so far it lives.
            unsafe {
                if left == 0 {
                    *bad = wr;
                    calls.push(taken);
                    return libc::ENOMEM;
                }
                left -= 1;
                taken.push((*wr).wr_id);
                wr = (*wr).next;
            }
        }
        calls.push(taken);
        0
    });
    (calls, done)
}

#[test]
fn a_list_goes_in_order_in_calls_of_a_batch() {
    for len in [0, 1, 2, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH, 3 * BATCH + 5] {
        let list: Vec<u64> = (0..len as u64).collect();
        let (calls, done) = post_to(&list, usize::MAX);
        assert_eq!((done, calls.concat()), (Ok(()), list));
        assert_eq!(calls.len(), len.div_ceil(BATCH));
    }
}

#[test]
fn what_the_driver_refuses_is_found_in_the_whole_list() {
    let list: Vec<u64> = (0..3 * BATCH as u64).collect();
    for room in 0..list.len() {
        let (calls, done) = post_to(&list, room);
        assert_eq!(done, Err(PostError { at: room, errno: errno::ENOMEM }));
        assert_eq!(calls.concat(), list[..room]);
        assert_eq!(calls.len(), room / BATCH + 1, "nothing is posted after it");
    }
}

#[test]
fn what_is_refused_here_comes_after_what_was_posted() {
    for bad in 0..2 * BATCH + 3 {
        let mut list: Vec<u64> = (0..2 * BATCH as u64 + 3).collect();
        list[bad] = REFUSED;
        let (calls, done) = post_to(&list, usize::MAX);
        assert_eq!(done, Err(PostError { at: bad, errno: errno::EINVAL }));
        assert_eq!(calls.concat(), list[..bad]);
        // A request that the driver refuses comes before one that the conversion refuses later.
        if bad > 1 {
            assert_eq!(post_to(&list, bad - 1).1, Err(PostError { at: bad - 1, errno: errno::ENOMEM }));
        }
    }
}

#[test]
fn a_driver_that_does_not_say_where_has_refused_the_call() {
    let list: Vec<u64> = (0..BATCH as u64 + 4).collect();
    let mut elsewhere = request(&0).expect("a request");
    for bad in [core::ptr::null_mut(), &raw mut elsewhere] {
        let mut calls = 0;
        let done = post(&list, request, |_, refused| {
            calls += 1;
            // SAFETY: the pointer is valid during the call.
            unsafe { *refused = bad };
            if calls == 2 { -libc::EINVAL } else { 0 }
        });
        assert_eq!(done, Err(PostError { at: BATCH, errno: errno::EINVAL }));
    }
}
