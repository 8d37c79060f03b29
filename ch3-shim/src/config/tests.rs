//! Configuration: good and bad values of every type, origins, suggestions, arbitrary input.

use proptest::prelude::*;

use core::time::Duration;

use netmod_core::config::{Kind, SPIN_FEW, SPIN_MANY, Spin};

use super::*;

fn lookup(vars: &[(&str, &str)]) -> Result<(Config, Vec<ConfigWarning>), ConfigError> {
    let config = Config::from_lookup(vars.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())))?;
    let warnings = config.warnings();
    Ok((Config { unknown: Vec::new(), ..config }, warnings))
}

/// Returns the value as text after setting it in the environment, or `None` if it is refused.
fn shown(name: &str, value: &str) -> Option<String> {
    match lookup(&[(name, value)]) {
        Ok((config, warnings)) => {
            assert_eq!(warnings, []);
            assert_eq!(config.origin(name), Some(Origin::Env));
            Some(config.entries().find(|e| e.name == name).unwrap().value)
        }
        Err(ConfigError::Value { name: named, .. }) => {
            assert_eq!(named, name);
            None
        }
        Err(e) => panic!("{e}"),
    }
}

fn accepts(name: &str, pairs: &[(&str, &str)]) {
    for (text, value) in pairs {
        assert_eq!(shown(name, text).as_deref(), Some(*value), "{name}={text}");
    }
}

fn refuses(name: &str, texts: &[&str]) {
    for text in texts {
        assert_eq!(shown(name, text), None, "{name}={text}");
    }
}

#[test]
fn defaults() {
    let (config, warnings) = lookup(&[("PATH", "/bin"), ("NETMODS", "x")]).unwrap();
    assert_eq!((&config, &warnings[..]), (&Config::default(), &[][..]));
    let all: Vec<_> = config.entries().map(|e| (e.name, e.value)).collect();
    let want = [
        ("NETMOD", "shm,tcp"),
        ("NETMOD_EAGER_MAX", "128K"),
        ("NETMOD_EAGER_WINDOW", "64M"),
        ("NETMOD_RTS_MAX", "1024"),
        ("NETMOD_LMT", "auto"),
        ("NETMOD_LMT_MIN", "48K"),
        ("NETMOD_UNEXPECTED_MAX", "256M"),
        ("NETMOD_CLOSE_TIMEOUT", "30s"),
        ("NETMOD_CKPT_TIMEOUT", "3600s"),
        ("NETMOD_FAILURE_CHECK", "1s"),
        ("NETMOD_SPIN", "auto"),
        ("NETMOD_PROGRESS", "auto"),
        ("NETMOD_PMI", "auto"),
        ("NETMOD_PMIX_LIBRARY", "libpmix.so.2"),
        ("NETMOD_ENGINES", "1"),
        ("NETMOD_LOG", "warn"),
        ("NETMOD_FAULTS", ""),
        ("NETMOD_CAPTURE", ""),
        ("NETMOD_CAPTURE_SNAP", "64"),
        ("NETMOD_STATUS", ""),
        ("NETMOD_STATUS_SIGNAL", "none"),
        ("NETMOD_MPI_LEAKS", "no"),
        ("NETMOD_COLL_MEMORY", "32G"),
        ("NETMOD_COLL_BARRIER", "auto"),
        ("NETMOD_COLL_BCAST", "auto"),
        ("NETMOD_COLL_GATHER", "auto"),
        ("NETMOD_COLL_SCATTER", "auto"),
        ("NETMOD_COLL_ALLGATHER", "auto"),
        ("NETMOD_COLL_ALLTOALL", "auto"),
        ("NETMOD_COLL_REDUCE", "auto"),
        ("NETMOD_COLL_ALLREDUCE", "auto"),
        ("NETMOD_COLL_REDUCE_SCATTER", "auto"),
        ("NETMOD_COLL_SCAN", "auto"),
        ("NETMOD_SHM_DIR", "/dev/shm"),
        ("NETMOD_SHM_RANKS", "0"),
        ("NETMOD_SHM_JOINT", "auto"),
        ("NETMOD_SHM_REGISTER_MAX", "0"),
        ("NETMOD_TCP_INTERFACE", ""),
        ("NETMOD_TCP_SPEED", ""),
        ("NETMOD_TCP_RAILS", "4"),
        ("NETMOD_TCP_RAIL_RATIO", "4"),
        ("NETMOD_TCP_RAILS_LOOPBACK", "0"),
        ("NETMOD_TCP_PORT_RANGE", ""),
        ("NETMOD_TCP_CONNECT_TIMEOUT", "30s"),
        ("NETMOD_TCP_HELLO_TIMEOUT", "10s"),
        ("NETMOD_TCP_BACKOFF_MIN", "1ms"),
        ("NETMOD_TCP_BACKOFF_MAX", "1s"),
        ("NETMOD_TCP_DETECT", "15s"),
        ("NETMOD_TCP_RESUME_TIMEOUT", "10s"),
        ("NETMOD_TCP_RESUME_LOCAL", "no"),
        ("NETMOD_CHECKSUM", "no"),
        ("NETMOD_TCP_SECURITY", "auto"),
        ("NETMOD_TCP_SNDBUF", "0"),
        ("NETMOD_TCP_RCVBUF", "0"),
        ("NETMOD_TCP_STAGE", "16K"),
        ("NETMOD_TCP_RX_BUFFER", "64K"),
        ("NETMOD_TCP_HELLO_MAX", "256"),
        ("NETMOD_OFI_LIBRARY", ""),
        ("NETMOD_OFI_PROVIDER", ""),
        ("NETMOD_OFI_DOMAIN", ""),
        ("NETMOD_OFI_DOMAINS", "4"),
        ("NETMOD_OFI_CONTEXTS", "1"),
        ("NETMOD_OFI_DISABLE_SEP", "no"),
        ("NETMOD_OFI_FRAME", "65K"),
        ("NETMOD_OFI_WINDOW", "512K"),
        ("NETMOD_OFI_RX_MEMORY", "auto"),
        ("NETMOD_OFI_WAIT", "auto"),
        ("NETMOD_OFI_REGISTER_MAX", "0"),
        ("NETMOD_OFI_CONNECT_TIMEOUT", "30s"),
        ("NETMOD_OFI_DETECT", "15s"),
        ("NETMOD_OFI_HELLO_MAX", "256"),
        ("NETMOD_VERBS_LIBRARY", ""),
        ("NETMOD_VERBS_DEVICE", ""),
        ("NETMOD_VERBS_GID", ""),
        ("NETMOD_VERBS_PORTS", "4"),
        ("NETMOD_VERBS_FRAME", "8K"),
        ("NETMOD_VERBS_WINDOW", "256K"),
        ("NETMOD_VERBS_RX_MEMORY", "4M"),
        ("NETMOD_VERBS_XRC", "no"),
        ("NETMOD_VERBS_REGISTER_MAX", "0"),
        ("NETMOD_VERBS_CONNECT_TIMEOUT", "30s"),
        ("NETMOD_VERBS_DETECT", "15s"),
        ("NETMOD_VERBS_HELLO_MAX", "256"),
    ];
    assert_eq!(all, want.map(|(n, v)| (n, v.to_owned())));
    assert_eq!(config.eager_max, 128 * 1024);
    assert_eq!(config.tcp.connect_timeout, Duration::from_secs(30));
    assert_eq!(config.tcp, netmod_tcp::TcpConfig::default());
}

/// Every default satisfies its variable's own rules.
#[test]
fn every_default_is_accepted() {
    for entry in Config::default().entries() {
        assert_eq!((entry.origin, &entry.value), (Origin::Default, &entry.default));
        assert_eq!(shown(entry.name, &entry.default), Some(entry.default));
        assert!(is_setting_name(entry.name) && !entry.meaning.is_empty() && !entry.meaning.contains('\n'));
        assert_eq!(Config::default().names().iter().filter(|n| **n == entry.name).count(), 1);
    }
}

#[test]
fn sizes() {
    let pairs = [("0", "0"), (" 1k ", "1K"), ("64K", "64K"), ("1536", "1536"), ("2048K", "2M"), ("1G", "1G")];
    accepts("NETMOD_EAGER_MAX", &pairs);
    let bad =
        ["", "K", "-1", "+1", "1.5K", "12Q", "1 K", "1KB", "2G", "1025M", "9999999999999999999999G", "١"];
    refuses("NETMOD_EAGER_MAX", &bad);
    refuses("NETMOD_EAGER_MAX", &["18014398509481984K", "17179869184G"]);
    refuses("NETMOD_TCP_STAGE", &["0", "1023", "1048577", "2M"]);
    accepts("NETMOD_TCP_STAGE", &[("1024", "1K"), ("1M", "1M")]);
    refuses("NETMOD_TCP_RX_BUFFER", &["4095", "17M"]);
}

#[test]
fn counts() {
    accepts("NETMOD_TCP_HELLO_MAX", &[("1", "1"), ("0065536", "65536")]);
    refuses("NETMOD_TCP_HELLO_MAX", &["0", "65537", "1K", "", "many", "-5", "0x10", "99999999999999999999"]);
}

#[test]
fn sizes_that_may_be_left_open() {
    accepts("NETMOD_OFI_RX_MEMORY", &[("AUTO", "auto"), ("64K", "64K"), ("1048576", "1M")]);
    refuses("NETMOD_OFI_RX_MEMORY", &["", "0", "65535", "2G", "auto1", "-1"]);
    let (config, _) = lookup(&[("NETMOD_OFI_RX_MEMORY", "1M")]).unwrap();
    assert_eq!((config.ofi.rx_memory, Config::default().ofi.rx_memory), (Some(1 << 20), None));
    assert_eq!(Kind::AutoSize { min: 1, max: 2 }.to_string().split(' ').next(), Some("auto"));
}

#[test]
fn durations() {
    let pairs = [("1s", "1s"), ("1500ms", "1500ms"), ("2000ms", "2s"), ("1500us", "1500us"), ("3 s", "3s")];
    accepts("NETMOD_TCP_CONNECT_TIMEOUT", &pairs);
    let bad = ["", "30", "s", "-1s", "1m", "1.5s", "1S", "0ms", "999us", "3601s", "99999999999999999999s"];
    refuses("NETMOD_TCP_CONNECT_TIMEOUT", &bad);
    refuses("NETMOD_TCP_CONNECT_TIMEOUT", &["18446744073709551615s", "5ſ"]);
    accepts("NETMOD_CLOSE_TIMEOUT", &[("0s", "0s")]);
}

#[test]
fn names() {
    accepts("NETMOD", &[("tcp", "tcp"), ("ofi, tcp", "ofi,tcp"), ("shm tcp,", "shm,tcp")]);
    refuses("NETMOD", &["", ",", "TCP", "tcp,tcp", "a/b", "tcp;ofi", "seventeenletters1"]);
    let many = |n: usize| (0..n).map(|i| format!("n{i}")).collect::<Vec<_>>().join(",");
    assert_eq!(shown("NETMOD", &many(16)), Some(many(16)));
    refuses("NETMOD", &[&many(17)]);
}

#[test]
fn ports() {
    accepts("NETMOD_TCP_PORT_RANGE", &[("4000-4100", "4000-4100"), (" 7 ", "7-7"), ("", "")]);
    refuses("NETMOD_TCP_PORT_RANGE", &["0-5", "5-4", "1-65536", "a-b", "-5", "5-", "1-2-3", "-"]);
    let (config, _) = lookup(&[("NETMOD_TCP_PORT_RANGE", "65534-65535")]).unwrap();
    assert_eq!(config.tcp.port_range.unwrap().ports().collect::<Vec<_>>(), [65534, 65535]);
}

#[test]
fn texts() {
    accepts("NETMOD_TCP_INTERFACE", &[("eth0", "eth0"), ("fe80::1", "fe80::1"), ("", "")]);
    refuses("NETMOD_TCP_INTERFACE", &["a\nb", "\u{7}x", &"x".repeat(256)]);
    accepts("NETMOD_LOG", &[("netmod_tcp=debug,warn", "netmod_tcp=debug,warn")]);
}

#[test]
fn spin() {
    accepts("NETMOD_SPIN", &[("AUTO", "auto"), ("0", "0"), ("1000000000", "1000000000")]);
    refuses("NETMOD_SPIN", &["", "-1", "always", "1000000001", "4294967296"]);
    assert_eq!(Spin::Auto.polls(false), SPIN_MANY);
    assert_eq!(Spin::Auto.polls(true), SPIN_FEW);
    assert!(Spin::Auto.patience(SPIN_MANY) > SPIN_MANY);
    assert_eq!(Spin::Auto.patience(SPIN_FEW), 0, "who shares a core gives it up");
    assert_eq!(Spin::Polls(SPIN_MANY).patience(SPIN_MANY), 0, "a number is what it says");
    assert_eq!(Spin::Polls(7).polls(true), 7);
}

#[test]
fn origins_and_precedence() {
    let (mut config, _) =
        lookup(&[("NETMOD_SPIN", "1"), ("NETMOD_SPIN", "5"), ("NETMOD_LOG", "info")]).unwrap();
    config.set("NETMOD_LOG", "error").unwrap();
    assert_eq!((config.spin, config.log.as_str()), (Spin::Polls(5), "error"));
    assert_eq!(config.origin("NETMOD_SPIN"), Some(Origin::Env));
    assert_eq!(config.origin("NETMOD_LOG"), Some(Origin::Program));
    assert_eq!(config.origin("NETMOD"), Some(Origin::Default));
    assert_eq!(config.origin("NETMOD_X"), None);
    assert!(config.leaves_eager_open());
    config.eager_max += 1;
    assert!(!config.leaves_eager_open());
    config.set("NETMOD_EAGER_MAX", "128K").unwrap();
    assert!(!config.leaves_eager_open(), "somebody has said so");
    assert!(Origin::Default < Origin::Env && Origin::Env < Origin::Program);
    let entry = config.entries().find(|e| e.name == "NETMOD_LOG").unwrap();
    assert_eq!((entry.value.as_str(), entry.default.as_str()), ("error", "warn"));
    assert_eq!(entry.origin.to_string(), "program");
}

#[test]
fn a_refused_value_changes_nothing() {
    let mut config = Config::default();
    for (name, value) in
        [("NETMOD_SPIN", "x"), ("NETMOD_TCP_BACKOFF_MIN", "2s"), ("NETMOD_NO", "1"), ("PATH", "1")]
    {
        config.set(name, value).unwrap_err();
        assert_eq!(config, Config::default());
    }
    config.set("NETMOD_TCP_BACKOFF_MAX", "5s").unwrap();
    config.set("NETMOD_TCP_BACKOFF_MIN", "2s").unwrap();
}

#[test]
fn errors_say_what_would_be_accepted() {
    let text = |vars: &[(&str, &str)]| lookup(vars).unwrap_err().to_string();
    assert_eq!(
        text(&[("NETMOD_EAGER_MAX", "12Q")]),
        "NETMOD_EAGER_MAX=`12Q` is not accepted; expected a size from 0 to 1G, \
         such as 4096, 64K or 1M"
    );
    assert_eq!(
        text(&[("NETMOD_TCP_HELLO_TIMEOUT", "10\u{1b}")]),
        "NETMOD_TCP_HELLO_TIMEOUT=`10\\u{1b}` is not accepted; expected a time from 1ms to 3600s, \
         such as 50ms or 10s"
    );
    assert!(text(&[("NETMOD_SPIN", &"9".repeat(100_000))]).len() < 200);
    // Either order of the two is fine in an environment.
    let min = ("NETMOD_TCP_BACKOFF_MIN", "3s");
    assert!(text(&[min]).contains("NETMOD_TCP_BACKOFF_MIN is larger than NETMOD_TCP_BACKOFF_MAX"));
    assert!(lookup(&[min, ("NETMOD_TCP_BACKOFF_MAX", "4s")]).is_ok());
    let unknown = Config::default().set("NETMOD_EAGERMAX", "1").unwrap_err().to_string();
    assert_eq!(unknown, "there is no variable `NETMOD_EAGERMAX`; did you mean NETMOD_EAGER_MAX?");
}

#[test]
fn unknown_names_are_warned_about() {
    let cases = [
        ("NETMOD_EAGERMAX", Some("NETMOD_EAGER_MAX")),
        ("NETMOD_EAGER", Some("NETMOD_EAGER_MAX")),
        ("NETMOD_TCP_PORTRANGE", Some("NETMOD_TCP_PORT_RANGE")),
        ("NETMOD_TCP_SNDBUFF", Some("NETMOD_TCP_SNDBUF")),
        ("NETMOD_SPINS", Some("NETMOD_SPIN")),
        ("NETMOD_tcp_stage", Some("NETMOD_TCP_STAGE")),
        ("NETMOD_QUUX", None),
        ("NETMOD_", None),
    ];
    for (name, nearest) in cases {
        let (config, warnings) = lookup(&[(name, "1")]).unwrap();
        assert_eq!(config, Config::default());
        assert_eq!(warnings, [ConfigWarning::Unknown { name: name.into(), nearest }]);
    }
    let (_, warnings) = lookup(&[("NETMOD_SPINS", "1")]).unwrap();
    assert_eq!(
        warnings[0].to_string(),
        "the variable `NETMOD_SPINS` is unknown and ignored; did you mean NETMOD_SPIN?"
    );
    let long = format!("NETMOD_{}", "X".repeat(100_000));
    let (_, warnings) = lookup(&[(&long, "1")]).unwrap();
    assert!(warnings[0].to_string().len() < 120);
}

#[test]
fn the_environment_of_this_process_is_read() {
    let ours = std::env::vars_os().any(|(n, _)| n.to_str().is_some_and(is_setting_name));
    let read = Config::from_env();
    assert!(ours || read == Ok(Config::default()));
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 20 } else { 20_000 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Any text is refused with the variable's name, or accepted and shown in an equivalent form.
    #[test]
    fn arbitrary_values(
        i in 0..Config::default().names().len(),
        text in prop_oneof![
            "\\PC*",
            "[-+ ,.0-9KkMmGgsu]{0,12}",
            "[0-9]{1,25}(|K|M|G|s|ms|us)",
            "[0-9]{1,5}-[0-9]{1,5}",
        ],
    ) {
        let mut config = Config::default();
        let name = config.names()[i];
        match config.set(name, &text) {
            Ok(()) => {
                let value = config.entries().nth(i).expect("an entry").value;
                let mut again = Config::default();
                prop_assert_eq!(again.set(name, &value), Ok(()));
                prop_assert_eq!(again, config);
            }
            Err(e) => {
                prop_assert!(e.to_string().contains(name));
                prop_assert_eq!(config, Config::default());
            }
        }
    }

    #[test]
    fn arbitrary_names(name in "NETMOD_\\PC{0,80}", value in "\\PC{0,20}") {
        prop_assume!(!Config::default().names().contains(&&name[..]));
        let (config, warnings) = lookup(&[(&name, &value)]).unwrap();
        prop_assert_eq!(config, Config::default());
        prop_assert_eq!(warnings.len(), 1);
    }
}
