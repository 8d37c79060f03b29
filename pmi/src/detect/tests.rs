//! Environments of the launchers, and broken ones.

use super::*;

fn with(vars: &[(&str, &str)]) -> Result<Detected, PmiError> {
    detect(|name| vars.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned()))
}

const FD: [(&str, &str); 3] = [("PMI_FD", "5"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")];
const PORT: [(&str, &str); 2] = [("PMI_PORT", "[::1]:4711"), ("PMI_ID", "3")];

#[test]
fn pmi_comes_before_everything_else() {
    let by_fd = Detected::Descriptor { fd: 5, rank: 1, size: 2 };
    let by_port = Detected::Port { address: "[::1]:4711".into(), id: "3".into() };
    // nmrun in a Slurm allocation or below a PMIx launcher; srun --mpi=pmi2.
    let outer = [("PMIX_NAMESPACE", "x"), ("SLURM_NTASKS", "2"), ("SLURM_NPROCS", "2")];
    assert_eq!(with(&FD).unwrap(), by_fd);
    assert_eq!(with(&PORT).unwrap(), by_port);
    assert_eq!(with(&[&FD[..], &PORT, &outer].concat()).unwrap(), by_fd);
    assert_eq!(with(&[&PORT[..], &outer].concat()).unwrap(), by_port);
}

#[test]
fn without_a_launcher_it_is_a_singleton() {
    assert_eq!(with(&[]).unwrap(), Detected::Singleton);
    assert_eq!(with(&[("SLURM_NTASKS", "1"), ("SLURM_JOB_ID", "7")]).unwrap(), Detected::Singleton);
    assert_eq!(with(&[("PMI_FD", ""), ("PMIX_NAMESPACE", "")]).unwrap(), Detected::Singleton);
}

#[test]
fn launchers_that_cannot_be_spoken_to_are_named_with_the_way_out() {
    let error = with(&[("PMIX_NAMESPACE", "job.7"), ("SLURM_NTASKS", "4")]).unwrap_err();
    assert!(matches!(error, PmiError::PmixOnly { .. }));
    let text = error.to_string();
    for part in ["PMIX_NAMESPACE=job.7", "mpiexec.hydra", "nmrun", "srun --mpi=pmi2"] {
        assert!(text.contains(part), "{text}");
    }
    for var in ["SLURM_NTASKS", "SLURM_NPROCS"] {
        let error = with(&[(var, "4")]).unwrap_err();
        assert!(matches!(error, PmiError::SlurmWithoutPmi { ntasks: 4 }));
        assert!(error.to_string().contains("srun --mpi=pmi2"), "{error}");
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
