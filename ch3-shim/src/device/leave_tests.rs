//! The end of finalize: the process manager's answer, in simulated time.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::Config;
use netmod_core::Arm;

use super::*;
use crate::bootstrap::{Answer, Asked, Bootstrap, Silence};
use crate::{Builder, Device, VirtualClock};

/// The process manager of a job of one, which answers when it is told to.
#[derive(Debug, Default)]
pub(in crate::device) struct Office {
    answers: AtomicBool,
    refuses: AtomicBool,
    asked: AtomicU32,
}

impl Office {
    pub(in crate::device) fn answer(&self) {
        self.answers.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Place(Arc<Office>, HashMap<String, Vec<u8>>);

impl Bootstrap for Place {
    fn rank(&self) -> u32 {
        0
    }
    fn size(&self) -> u32 {
        1
    }
    fn job_id(&self) -> String {
        "leaves".into()
    }
    fn local_size(&self) -> u32 {
        1
    }
    fn put(&mut self, key: &str, value: &[u8]) -> std::result::Result<(), BootstrapError> {
        self.1.insert(key.into(), value.into());
        Ok(())
    }
    fn get(&mut self, key: &str) -> std::result::Result<Option<Vec<u8>>, BootstrapError> {
        Ok(self.1.get(key).cloned())
    }
    fn barrier_begin(&mut self) -> std::result::Result<(), BootstrapError> {
        Ok(())
    }
    fn barrier_poll(&mut self) -> std::result::Result<bool, BootstrapError> {
        Ok(true)
    }
    /// Nobody waits on it.
    fn fd(&self) -> Option<RawFd> {
        Some(0)
    }
    fn finalize_poll(&mut self) -> std::result::Result<bool, BootstrapError> {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        if self.0.refuses.load(Ordering::Relaxed) {
            return Err(BootstrapError::Refused("it does not know this process".into()));
        }
        Ok(self.0.answers.load(Ordering::Relaxed))
    }
    fn abort(&mut self, code: i32, message: &str) -> i32 {
        panic!("aborted with {code}: {message}")
    }
}

/// A device of a job of one.
pub(in crate::device) fn alone() -> (Device, Arc<Office>, VirtualClock) {
    let mut cfg = Config::default();
    cfg.netmods = vec!["tcp".into()];
    cfg.tcp.interface = "127.0.0.1".into();
    let (office, clock) = (Arc::new(Office::default()), VirtualClock::default());
    let boot = Box::new(Place(Arc::clone(&office), HashMap::new()));
    let dev = Builder::new(cfg, boot).clock(clock.clone()).build().expect("a device");
    (dev, office, clock)
}

/// A device of a job of one that has come to the last stage of finalize.
fn leaving() -> (Device, Arc<Office>, VirtualClock) {
    let (mut dev, office, clock) = alone();
    dev.finalize_begin();
    for _ in 0..100 {
        assert!(!dev.finalize_poll().expect("nothing is wrong"));
        if office.asked.load(Ordering::Relaxed) > 0 {
            return (dev, office, clock);
        }
    }
    panic!("it never leaves");
}

fn told(dev: &Device) -> bool {
    matches!(&dev.departure.stage, Leaving::Goodbye(goodbye) if goodbye.told)
}

#[test]
fn a_launcher_that_is_slow_is_named_after_a_second_and_waited_for() {
    let (mut dev, office, clock) = leaving();
    let begun = dev.now();
    assert_eq!(dev.arm(), Arm::Armed);
    assert_eq!(dev.deadline(), Some(begun + Duration::from_secs(1)));
    clock.set(begun + Duration::from_millis(999));
    assert!(!dev.finalize_poll().expect("it waits"));
    assert!(!told(&dev));
    clock.set(begun + Duration::from_secs(1));
    assert!(!dev.finalize_poll().expect("it waits"));
    assert!(told(&dev));
    assert_eq!(dev.status().activity, "finalizing: waits for the launcher's answer");
    office.answers.store(true, Ordering::Relaxed);
    // A loop that was woken by the answer arms again, and must not sleep then.
    assert_eq!(dev.arm(), Arm::Busy);
    assert!(dev.finalize_poll().expect("it is over"));
    let asked = office.asked.load(Ordering::Relaxed);
    assert!(dev.finalize_poll().expect("it stays over"));
    assert_eq!(office.asked.load(Ordering::Relaxed), asked);
}

#[test]
fn a_launcher_that_never_answers_is_an_error_that_names_it() {
    let (mut dev, _office, clock) = leaving();
    let begun = dev.now();
    clock.set(begun + Duration::from_secs(119));
    assert!(!dev.finalize_poll().expect("it waits"));
    clock.set(begun + Duration::from_secs(120));
    let error = dev.finalize_poll().expect_err("it has waited for long").to_string();
    assert!(error.contains("the launcher did not answer within 120s"), "{error}");
    assert!(dev.finalize_poll().expect("it is over"));
}

#[test]
fn a_launcher_that_refuses_is_an_error_even_if_a_wait_finds_out() {
    let (mut dev, office, _clock) = leaving();
    office.refuses.store(true, Ordering::Relaxed);
    assert_eq!(dev.arm(), Arm::Busy);
    let error = dev.finalize_poll().expect_err("it was refused").to_string();
    assert!(error.contains("it does not know this process"), "{error}");
}

/// The process manager of a job of two. It answers what was asked before a barrier when it is asked
/// for the end of that.
#[derive(Debug, Default)]
struct InOrder {
    own: HashMap<String, Vec<u8>>,
    asked: Vec<String>,
    answers: Vec<Answer>,
    started: bool,
}

impl Bootstrap for InOrder {
    fn rank(&self) -> u32 {
        0
    }
    fn size(&self) -> u32 {
        2
    }
    fn job_id(&self) -> String {
        "in order".into()
    }
    fn local_size(&self) -> u32 {
        2
    }
    fn put(&mut self, key: &str, value: &[u8]) -> std::result::Result<(), BootstrapError> {
        self.own.insert(key.into(), value.into());
        Ok(())
    }
    fn get(&mut self, key: &str) -> std::result::Result<Option<Vec<u8>>, BootstrapError> {
        Ok(self.own.get(key).cloned())
    }
    fn ask_value(&mut self, key: &str) -> std::result::Result<Asked<Option<Vec<u8>>>, BootstrapError> {
        self.asked.push(key.into());
        Ok(Asked::Later)
    }
    fn answer(&mut self) -> std::result::Result<Option<Answer>, Silence> {
        Ok(self.answers.pop())
    }
    fn barrier_begin(&mut self) -> std::result::Result<(), BootstrapError> {
        Ok(())
    }
    fn barrier_poll(&mut self) -> std::result::Result<bool, BootstrapError> {
        self.answers.extend(self.asked.drain(..).map(|key| Answer::Value(key, Ok(None))));
        // The one of the start ends at once, the other one when rank 1 comes.
        Ok(!std::mem::replace(&mut self.started, true))
    }
    /// Nobody waits on it.
    fn fd(&self) -> Option<RawFd> {
        Some(0)
    }
    fn finalize_poll(&mut self) -> std::result::Result<bool, BootstrapError> {
        Ok(true)
    }
    fn abort(&mut self, code: i32, message: &str) -> i32 {
        panic!("aborted with {code}: {message}")
    }
}

/// The other rank may wait for the message, and never come to the barrier.
#[test]
fn an_answer_that_the_barrier_has_read_is_heard_before_a_sleep() {
    let mut cfg = Config::default();
    cfg.netmods = vec!["tcp".into()];
    cfg.tcp.interface = "127.0.0.1".into();
    let boot = Box::new(InOrder::default());
    let mut dev = Builder::new(cfg, boot).build().expect("a device");
    let world = dev.world();
    let send = dev.isend(vec![1; 100], 1, 0, world).expect("it waits for the card");
    dev.finalize_begin();
    // One of the few polls that do not look at the launcher by themselves.
    assert!(!dev.finalize_poll().expect("rank 1 is not there yet"));
    assert!(dev.has_questions() && !dev.is_finished(send.raw()));
    while dev.has_questions() {
        assert_eq!(dev.prepare_to_sleep(), Arm::Busy, "the answer is not heard");
    }
    // There is no card.
    assert!(dev.is_finished(send.raw()));
}
