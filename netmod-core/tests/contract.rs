//! The shape of the contract: small traits, no silent defaults, and a forwarding macro that covers
//! all of it.

/// Each trait, its file, and the most functions that it may have.
const TRAITS: [(&str, &str, usize); 6] = [
    ("Netmod", include_str!("../src/netmod.rs"), 12),
    ("Module", include_str!("../src/netmod/module.rs"), 8),
    ("VcLife", include_str!("../src/netmod/vc_life.rs"), 8),
    ("DynamicProcesses", include_str!("../src/netmod/dynamic.rs"), 8),
    ("Checkpoint", include_str!("../src/netmod/checkpoint.rs"), 8),
    ("Diagnose", include_str!("../src/netmod/diagnose.rs"), 8),
];
const FORWARD: &str = include_str!("../src/netmod/forward.rs");

/// Returns the text between a trait's braces.
fn body<'a>(name: &str, source: &'a str) -> &'a str {
    let starts = ["pub trait", "pub unsafe trait"].map(|kind| source.find(&format!("{kind} {name}")));
    let start = starts.into_iter().flatten().next().expect("the trait");
    let text = &source[start..];
    &text[..text.find("\n}\n").expect("its end")]
}

/// Returns the names of the functions that a text declares.
fn functions(text: &str) -> Vec<&str> {
    let lines = text.lines().filter_map(|l| l.trim_start().strip_prefix("fn "));
    lines.filter_map(|l| l.split('(').next()).collect()
}

#[test]
fn each_trait_is_small() {
    for (name, source, most) in TRAITS {
        let n = functions(body(name, source)).len();
        assert!((1..=most).contains(&n), "{name} has {n} functions, and may have {most}");
    }
}

#[test]
fn no_function_has_a_default() {
    for (name, source, _) in TRAITS {
        assert!(!body(name, source).contains("    }\n"), "{name} has a function with a body");
    }
}

#[test]
fn wrappers_can_forward_every_function() {
    let all: Vec<&str> = TRAITS.iter().flat_map(|(name, source, _)| functions(body(name, source))).collect();
    let forwarded = functions(FORWARD);
    for function in &all {
        assert!(forwarded.contains(function), "forward! has no arm for {function}");
    }
    assert_eq!(forwarded.len(), all.len(), "forward! has arms for functions that are none");
}
