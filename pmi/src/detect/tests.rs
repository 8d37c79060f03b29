//! Environments of real launchers, and broken ones.

use super::*;

fn choose(choice: Choice, vars: &[(&str, &str)]) -> Result<Detected, PmiError> {
    detect(choice, |name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
}

fn with(vars: &[(&str, &str)]) -> Result<Detected, PmiError> {
    choose(Choice::Auto, vars)
}

fn by_fd(version: Version, job: Option<&str>) -> Detected {
    Detected::Descriptor { fd: 5, rank: 1, size: 2, version, job: job.map(str::to_owned) }
}

fn by_port(version: Version) -> Detected {
    Detected::Port { address: "[::1]:4711".into(), id: "3".into(), version }
}

const FD: [(&str, &str); 3] = [("PMI_FD", "5"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")];
const PORT: [(&str, &str); 2] = [("PMI_PORT", "[::1]:4711"), ("PMI_ID", "3")];

#[test]
fn pmi_comes_before_everything_else() {
    // nmrun in a Slurm allocation or inside a PMIx job; srun --mpi=pmi2.
    let outer = [("PMIX_NAMESPACE", "x"), ("SLURM_NTASKS", "2"), ("SLURM_NPROCS", "2")];
    assert_eq!(with(&FD).unwrap(), by_fd(Version::V1, None));
    assert_eq!(with(&PORT).unwrap(), by_port(Version::V1));
    assert_eq!(with(&[&FD[..], &PORT, &outer].concat()).unwrap(), by_fd(Version::V1, None));
    assert_eq!(with(&[&PORT[..], &outer].concat()).unwrap(), by_port(Version::V1));
}

#[test]
fn without_a_launcher_it_is_a_singleton() {
    assert_eq!(with(&[]).unwrap(), Detected::Singleton);
    assert_eq!(with(&[("SLURM_NTASKS", "1"), ("SLURM_JOB_ID", "7")]).unwrap(), Detected::Singleton);
    assert_eq!(with(&[("PMI_FD", ""), ("PMIX_NAMESPACE", "")]).unwrap(), Detected::Singleton);
}

#[test]
fn pmi2_is_spoken_with_slurm_and_on_demand() {
    let slurm = [&FD[..], &[("PMI_JOBID", "1.0"), ("SLURM_MPI_TYPE", "pmi2")]].concat();
    let job = Some("1.0");
    assert_eq!(with(&slurm).unwrap(), by_fd(Version::V2, job));
    assert_eq!(choose(Choice::Pmi1, &slurm).unwrap(), by_fd(Version::V1, job));
    assert_eq!(choose(Choice::Pmi2, &slurm).unwrap(), by_fd(Version::V2, job));
    // Another launcher inside a Slurm job, which passes the type on; a server that has a name for
    // the job.
    let below = [&FD[..], &[("SLURM_MPI_TYPE", "pmi2")]].concat();
    assert_eq!(with(&below).unwrap(), by_fd(Version::V1, None));
    let named = [&FD[..], &[("PMI_JOBID", "1.0")]].concat();
    assert_eq!(with(&named).unwrap(), by_fd(Version::V1, job));
    assert_eq!(choose(Choice::Pmi2, &FD).unwrap(), by_fd(Version::V2, None));
    assert_eq!(choose(Choice::Pmi2, &PORT).unwrap(), by_port(Version::V2));
    assert_eq!(choose(Choice::Pmi1, &PORT).unwrap(), by_port(Version::V1));
}

#[test]
fn pmix_is_spoken_where_there_is_nothing_else_and_on_demand() {
    let slurm = [("PMIX_NAMESPACE", "job.7"), ("SLURM_NTASKS", "4")];
    let pmix = Detected::Pmix { namespace: "job.7".into() };
    assert_eq!(with(&slurm).unwrap(), pmix);
    assert_eq!(choose(Choice::Pmix, &slurm).unwrap(), pmix);
    // An mpirun inside a PMI job, which passes it on.
    let both = [&FD[..], &PORT, &slurm].concat();
    assert_eq!(with(&both).unwrap(), by_fd(Version::V1, None));
    assert_eq!(choose(Choice::Pmix, &both).unwrap(), pmix);
}

#[test]
fn a_demand_that_cannot_be_met_says_what_is_missing() {
    let pmix = [("PMIX_NAMESPACE", "job.7")];
    for (choice, vars, parts) in [
        (Choice::Pmix, &[][..], ["NETMOD_PMI=pmix", "PMIX_NAMESPACE"]),
        (Choice::Pmix, &FD, ["NETMOD_PMI=pmix", "PMIX_NAMESPACE"]),
        (Choice::Pmi1, &pmix, ["NETMOD_PMI=1", "PMI_FD"]),
        (Choice::Pmi2, &pmix, ["NETMOD_PMI=2", "PMI_PORT"]),
        (Choice::Pmi2, &[], ["NETMOD_PMI=2", "PMI_PORT"]),
    ] {
        let error = choose(choice, vars).unwrap_err();
        assert!(matches!(error, PmiError::NotOffered { .. }), "{error}");
        for part in parts {
            assert!(error.to_string().contains(part), "{error}");
        }
    }
}

#[test]
fn settings_are_read() {
    let with = |vars: &[(&str, &str)]| {
        Settings::from_lookup(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
    };
    assert_eq!(with(&[]).unwrap(), Settings::default());
    assert_eq!(with(&[(CHOICE, " "), (PMIX_LIBRARY, "")]).unwrap(), Settings::default());
    let set = with(&[(CHOICE, "PMIx"), (PMIX_LIBRARY, "/opt/lib/libpmix.so")]).unwrap();
    assert_eq!(set, Settings { choice: Choice::Pmix, pmix_library: "/opt/lib/libpmix.so".into() });
    for (word, choice) in Choice::WORDS.iter().zip([Choice::Auto, Choice::Pmi1, Choice::Pmi2, Choice::Pmix]) {
        assert_eq!(word.parse::<Choice>().unwrap(), choice);
    }
    for bad in ["3", "pmi2", "1,2"] {
        let error = with(&[(CHOICE, bad)]).unwrap_err();
        assert!(error.to_string().contains("auto, 1, 2, pmix"), "{error}");
        assert!(error.to_string().contains(bad), "{error}");
    }
}

#[test]
fn several_processes_without_pmi_are_refused_with_the_way_out() {
    for (var, launcher) in [
        ("SLURM_NTASKS", "srun --mpi=pmi2"),
        ("SLURM_NPROCS", "srun --mpi=pmi2"),
        ("OMPI_COMM_WORLD_SIZE", "mpirun"),
        ("PMI_SIZE", "PMI_FD"),
        ("PALS_NRANKS", "PALS"),
    ] {
        let error = with(&[(var, "4")]).unwrap_err();
        assert!(matches!(error, PmiError::WithoutPmi { count: 4, .. }));
        for part in [var, launcher, "mpiexec.hydra", "nmrun"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        assert_eq!(with(&[(var, "1")]).unwrap(), Detected::Singleton);
    }
}

#[test]
fn nonsense_is_an_error_that_names_the_variable() {
    for (vars, var) in [
        (&[("PMI_FD", "x"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")][..], "PMI_FD"),
        (&[("PMI_FD", "-1"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")], "PMI_FD"),
        (&[("PMI_FD", "4294967295"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")], "PMI_FD"),
        (&[("PMI_FD", "3"), ("PMI_SIZE", "1")], "PMI_RANK"),
        (&[("PMI_FD", "3"), ("PMI_RANK", "0")], "PMI_SIZE"),
        (&[("PMI_FD", "3"), ("PMI_RANK", "2"), ("PMI_SIZE", "2")], "PMI_RANK"),
        (&[("PMI_FD", "3"), ("PMI_RANK", "0"), ("PMI_SIZE", "-2")], "PMI_SIZE"),
        (&[("PMI_FD", "3"), ("PMI_RANK", "0"), ("PMI_SIZE", "0")], "PMI_RANK"),
        (&[("PMI_FD", "3"), ("PMI_RANK", "0"), ("PMI_SIZE", "1"), ("PMI_JOBID", "1;cmd=x")], "PMI_JOBID"),
        (&[("PMI_PORT", "nohost"), ("PMI_ID", "0")], "PMI_PORT"),
        (&[("PMI_PORT", ":80"), ("PMI_ID", "0")], "PMI_PORT"),
        (&[("PMI_PORT", "h:0"), ("PMI_ID", "0")], "PMI_PORT"),
        (&[("PMI_PORT", "h:65536"), ("PMI_ID", "0")], "PMI_PORT"),
        (&[("PMI_PORT", "h:1")], "PMI_ID"),
        (&[("PMI_PORT", "h:1"), ("PMI_ID", "a b")], "PMI_ID"),
        (&[("PMI_PORT", "h:1"), ("PMI_ID", "1\ncmd=abort")], "PMI_ID"),
    ] {
        let error = with(vars).unwrap_err();
        assert!(matches!(error, PmiError::Environment { var: v, .. } if v == var), "{vars:?}: {error}");
    }
}

#[test]
fn addresses_are_split() {
    assert_eq!(split_address("vm:38629").unwrap(), ("vm", 38629));
    assert_eq!(split_address("127.0.0.1:1").unwrap(), ("127.0.0.1", 1));
    assert_eq!(split_address("[fe80::1]:65535").unwrap(), ("fe80::1", 65535));
}
