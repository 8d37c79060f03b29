//! Offers of the libfabrics here, and the choice of the netmod `ofi`.

use libfabric_sys::consts::{FI_ORDER_SAS, FI_RMA};
use libfabric_sys::{API, Library, OLDEST};
use netmod_core::{Diagnose, Module};
use netmod_ofi::OfiConfig;
use netmod_ofi::choose::{Survey, Verdict, survey};
use netmod_ofi::fi::info::Offer;
use netmod_ofi::{OfiNetmod, Setup};
use netmod_tests::factory::bare_name;
use netmod_tests::libfabric::{again_with, first_or_skip, second_or_skip};

fn with(library: &Library, provider: &str, domain: &str) -> Survey {
    let cfg = OfiConfig { provider: provider.into(), domain: domain.into(), ..OfiConfig::default() };
    survey(library, &cfg)
}

fn names(offers: &[Offer]) -> Vec<String> {
    offers.iter().map(|o| format!("{} {}", o.provider, o.domain)).collect()
}

#[test]
fn one_provider_is_chosen_and_every_offer_has_a_reason() {
    let Some(library) = first_or_skip("what libfabric offers") else { return };
    let all = with(&library, "", "");
    assert_eq!(all.library, library.version());
    for entry in &all.entries {
        let (Verdict::Chosen(why) | Verdict::Refused(why)) = &entry.verdict;
        assert!(!why.is_empty());
        let line = entry.to_string();
        assert!(
            line.starts_with(&entry.offer.provider) && line.contains(&**why) && !line.contains('\n'),
            "{line}"
        );
    }
    let (chosen, host) = all.into_chosen().expect("there is always a loopback interface");
    assert!(!host.nics.is_empty());
    let provider = chosen[0].provider.clone();
    for offer in &chosen {
        assert_eq!(offer.provider, provider);
        assert!(!offer.info().is_null());
        assert!(offer.tx_order & offer.rx_order & FI_ORDER_SAS != 0);
        let second = offer.duplicate().expect("memory");
        assert!(second.facts() == offer.facts() && second.info() != offer.info());
    }
}

/// Ranks soon give up their cores if they and such threads are more than cores.
#[test]
fn threads_that_need_a_core_are_known() {
    if first_or_skip("threads of providers").is_none() {
        return;
    }
    let threads = |provider: &str| {
        let cfg = OfiConfig { provider: provider.into(), domain: "lo".into(), ..OfiConfig::default() };
        let before = std::fs::read_dir("/proc/self/task").expect("threads").count();
        let netmod = OfiNetmod::new(&Setup::new(&cfg), bare_name(0), 1);
        assert_eq!(netmod.failure(), None);
        let made = std::fs::read_dir("/proc/self/task").expect("threads").count() > before;
        (netmod.threads(), made)
    };
    assert_eq!(threads("sockets"), (1, true));
    assert_eq!(threads("tcp").0, 0);
}

#[test]
fn providers_and_domains_are_those_that_were_named() {
    let Some(library) = first_or_skip("providers by name") else { return };
    let chosen =
        |provider: &str, domain: &str| with(&library, provider, domain).into_chosen().map(|(o, _)| names(&o));
    let tcp = if library.version() < libfabric_sys::version(2, 0) { "tcp;ofi_rxm" } else { "tcp" };
    assert_eq!(chosen("tcp", "lo"), Ok(vec![format!("{tcp} lo")]));
    assert_eq!(chosen("tcp;ofi_rxm", "127.0.0.0/8"), Ok(vec!["tcp;ofi_rxm lo".to_owned()]));
    assert_eq!(chosen("nonsense,shm", ""), Ok(vec!["shm shm".to_owned()]));
    let shm = with(&library, "shm", "");
    assert!(shm.chosen().all(|o| o.caps & FI_RMA != 0 && o.mr().virt_addr));
    let why = chosen("nonsense", "").expect_err("there is no such provider");
    assert!(
        why.to_string().contains("no provider nonsense") && why.to_string().contains("tcp;ofi_rxm"),
        "{why}"
    );
    let why = chosen("tcp", "nonsense").expect_err("there is no such domain");
    assert!(why.to_string().contains("NETMOD_OFI_DOMAIN=nonsense"), "{why}");
}

#[test]
fn fi_provider_is_heeded() {
    const HERE: &str = "NETMOD_TEST_OFI_HERE";
    if first_or_skip("FI_PROVIDER").is_none() {
        return;
    }
    if std::env::var_os(HERE).is_none() {
        return again_with("fi_provider_is_heeded", &[(HERE, "1"), ("FI_PROVIDER", "shm")]);
    }
    let library = first_or_skip("FI_PROVIDER").expect("it was there");
    let all = with(&library, "", "");
    assert_eq!(names(&all.into_chosen().expect("shm").0), ["shm shm"]);
    let why = with(&library, "tcp", "").into_chosen().expect_err("FI_PROVIDER leaves it out");
    assert!(why.to_string().contains("FI_PROVIDER is set, too"), "{why}");
}

/// The fake provider's library says whatever version it is told to.
#[test]
fn a_library_that_is_too_old_is_refused() {
    let Ok(says) = std::env::var(netmod_fake_fabric::VERSION) else {
        for version in ["1.8", "1.9", "2.99"] {
            again_with("a_library_that_is_too_old_is_refused", &[(netmod_fake_fabric::VERSION, version)]);
        }
        return;
    };
    let path = netmod_fake_fabric::library_path();
    let cfg = OfiConfig { library: path.display().to_string(), ..OfiConfig::default() };
    let netmod = OfiNetmod::new(&Setup::new(&cfg), bare_name(0), 1);
    // No world of the provider has been made.
    let why = netmod.failure().expect("there is nothing to use");
    let loaded = Library::load(Some(&path));
    if says == "1.8" {
        let error = loaded.expect_err("it is too old").to_string();
        assert_eq!(why, error);
        for part in [&*cfg.library, "is libfabric 1.8", "at least 1.9", "apt-get install", Library::VARIABLE]
        {
            assert!(error.contains(part), "{error}");
        }
        assert!(!error.contains('\n'), "{error}");
    } else {
        let library = loaded.expect("it is new enough");
        assert!(library.version() >= OLDEST && library.api() == library.version().min(API));
        assert!(!why.contains("at least"), "{why}");
    }
}

#[test]
fn the_same_with_a_second_library() {
    let Some(variables) = second_or_skip("what another version of libfabric offers") else { return };
    for test in [
        "one_provider_is_chosen_and_every_offer_has_a_reason",
        "providers_and_domains_are_those_that_were_named",
    ] {
        again_with(test, &variables);
    }
}
