//! Values, and a table of each kind of them.

use core::time::Duration;

use super::units::{K, MS};
use super::*;
use crate::settings;

settings! {
    /// Settings of a test.
    Plain: "Plain" {
        on: bool = false, "NETMOD_PLAIN_ON", Kind::Bool, "a switch";
        least: usize = 1, "NETMOD_PLAIN_LEAST", Kind::Count { min: 0, max: 9 }, "the smaller number";
        most: usize = 8, "NETMOD_PLAIN_MOST", Kind::Count { min: 0, max: 9 }, "the larger number";
        pause: Duration = MS, "NETMOD_PLAIN_PAUSE", Kind::Duration { min: MS, max: Duration::from_millis(5) },
            "a pause";
        size: usize = 4 * K, "NETMOD_PLAIN_SIZE", Kind::Size { min: K, max: 8 * K }, "a size";
    }
    check: ascending
}

fn ascending(s: &Plain) -> Result<(), ConfigError> {
    if s.least > s.most {
        return Err(ConfigError::Order { smaller: "NETMOD_PLAIN_LEAST", larger: "NETMOD_PLAIN_MOST" });
    }
    Ok(())
}

#[test]
fn a_table_sets_and_shows_its_own_variables() {
    let mut table: Box<dyn Table> = Box::new(Plain::default());
    let untouched = table.clone();
    assert_eq!(table.names().len(), 5);
    assert_eq!(table.assign("NETMOD_OTHER", "1"), None);
    for (name, good, shown, bad) in [
        ("NETMOD_PLAIN_ON", "true", "yes", "2"),
        ("NETMOD_PLAIN_LEAST", "9", "9", "10"),
        ("NETMOD_PLAIN_PAUSE", "2000us", "2ms", "1"),
        ("NETMOD_PLAIN_SIZE", " 2048 ", "2K", "512"),
    ] {
        let before = table.clone();
        let refused = table.assign(name, bad).expect("its own").expect_err("not accepted");
        assert!(refused.to_string().starts_with(&format!("{name}=`{bad}` is not accepted")), "{refused}");
        assert!(table.is_same(&*before));
        table.assign(name, good).expect("its own").expect("accepted");
        assert!(!table.is_same(&*before));
        let entry = table.entries().into_iter().find(|e| e.name == name).expect("an entry");
        assert_eq!((&entry.value[..], entry.title, entry.origin), (shown, "Plain", Origin::Default));
        assert_eq!(
            Some(entry.default),
            untouched.entries().into_iter().find(|e| e.name == name).map(|e| e.value)
        );
    }
    assert_eq!(untouched.verify(), Ok(()));
    assert!(matches!(table.verify(), Err(ConfigError::Order { .. })));
    let plain = (&*table as &dyn core::any::Any).downcast_ref::<Plain>().expect("its type");
    assert_eq!((plain.on, plain.least, plain.pause, plain.size), (true, 9, 2 * MS, 2 * K));
}

#[test]
fn names_of_settings() {
    for (name, is) in [("NETMOD", true), ("NETMOD_X", true), ("NETMODS", false), ("NETMOD_TEST_BUILT", false)]
    {
        assert_eq!(is_setting_name(name), is, "{name}");
    }
    assert_eq!(netmod_prefix("third"), "NETMOD_THIRD_");
}

#[test]
fn bools_and_choices() {
    for (text, value) in [("1", true), ("Yes", true), ("on", true), ("0", false), ("FALSE", false)] {
        assert_eq!(bool::parse(Kind::Bool, text), Some(value));
        assert_eq!(bool::parse(Kind::Bool, &value.show(Kind::Bool)), Some(value));
    }
    for bad in ["", "2", "y", "enable"] {
        assert_eq!(bool::parse(Kind::Bool, bad), None);
    }
    let kind = Kind::Choice(&["left", "right"]);
    assert_eq!(<&str>::parse(kind, "Left"), Some("left"));
    assert_eq!(<&str>::parse(kind, "up"), None);
    assert_eq!(kind.to_string(), "one of left, right");
    assert_eq!(<&str>::parse(Kind::Bool, "left"), None);
    assert_eq!(usize::parse(Kind::Bool, "1"), None);
    assert_eq!(String::parse(Kind::Bool, "1"), None);
}
