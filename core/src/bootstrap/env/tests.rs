//! Environments as the launchers make them, recorded or as their manuals give them.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::config::Config;

fn vars(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| line.trim().split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

fn config(text: &str) -> Result<Config, ConfigError> {
    let vars = vars(text);
    Config::from_vars(|name| {
        vars.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    })
}

fn good(text: &str) -> (usize, usize, String) {
    let config = config(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let place = config.rendezvous().map(ToString::to_string).unwrap_or_default();
    (config.rank(), config.size(), place)
}

fn bad(text: &str) -> String {
    match config(text) {
        Ok(config) => panic!("{config:?}"),
        Err(error) => error.to_string(),
    }
}

fn without(text: &str, name: &str) -> String {
    text.lines()
        .filter(|line| line.trim().split_once('=').is_none_or(|(known, _)| known != name))
        .map(|line| format!("{line}\n"))
        .collect()
}

const TORCHRUN: &str = "
    LOCAL_RANK=1
    RANK=1
    GROUP_RANK=0
    ROLE_RANK=1
    ROLE_NAME=default
    LOCAL_WORLD_SIZE=2
    WORLD_SIZE=2
    GROUP_WORLD_SIZE=1
    ROLE_WORLD_SIZE=2
    MASTER_ADDR=node7.lab
    MASTER_PORT=29400
    TORCHELASTIC_RESTART_COUNT=0
    TORCHELASTIC_MAX_RESTARTS=0
    TORCHELASTIC_RUN_ID=none
    TORCHELASTIC_USE_AGENT_STORE=True
    TORCH_NCCL_ASYNC_ERROR_HANDLING=1
    OMP_NUM_THREADS=1";

const OPENMPI: &str = "
    OMPI_MCA_orte_hnp_uri=1189871616.0;tcp://192.0.2.2:57641;tcp6://[fd00::2]:56273
    OMPI_MCA_orte_num_nodes=1
    OMPI_MCA_ess_base_jobid=1189871617
    OMPI_MCA_ess_base_vpid=1
    OMPI_COMM_WORLD_RANK=1
    OMPI_COMM_WORLD_SIZE=2
    OMPI_COMM_WORLD_LOCAL_RANK=1
    OMPI_COMM_WORLD_LOCAL_SIZE=2
    OMPI_COMM_WORLD_NODE_RANK=1
    OMPI_UNIVERSE_SIZE=2
    PMIX_RANK=1
    PMIX_NAMESPACE=1189871617
    PMIX_SERVER_URI2=1189871616.0;tcp4://127.0.0.1:46719
    PMIX_VERSION=4.2.2rc2";

const MPICH: &str = "
    MPI_LOCALNRANKS=2
    MPI_LOCALRANKID=1
    PMI_RANK=1
    PMI_SIZE=2
    PMI_FD=8
    HYDI_CONTROL_FD=7
    GFORTRAN_UNBUFFERED_PRECONNECTED=y
    MPIR_CVAR_CH3_INTERFACE_HOSTNAME=vm";

const SRUN: &str = "
    SLURM_JOB_ID=4711
    SLURM_JOBID=4711
    SLURM_JOB_NODELIST=node[003-005]
    SLURM_JOB_NUM_NODES=3
    SLURM_NNODES=2
    SLURM_NTASKS=4
    SLURM_NPROCS=4
    SLURM_STEP_ID=0
    SLURM_STEPID=0
    SLURM_STEP_NODELIST=node[004-005]
    SLURM_STEP_NUM_NODES=2
    SLURM_STEP_NUM_TASKS=4
    SLURM_STEP_TASKS_PER_NODE=2(x2)
    SLURM_PROCID=3
    SLURM_LOCALID=1
    SLURM_NODEID=1
    SLURM_LAUNCH_NODE_IPADDR=192.0.2.9
    SLURM_SRUN_COMM_HOST=192.0.2.9";

const SBATCH: &str = "
    SLURM_JOB_ID=4711
    SLURM_JOB_NODELIST=node[003-005]
    SLURM_NNODES=3
    SLURM_NTASKS=6
    SLURM_NPROCS=6
    SLURM_PROCID=0
    SLURM_LOCALID=0
    SLURM_NODEID=0
    SLURM_GTIDS=0
    SLURM_TASKS_PER_NODE=2(x3)
    SLURM_SUBMIT_HOST=login1";

#[test]
fn nothing_gives_a_group_of_one() {
    assert_eq!(good("HOME=/root"), (0, 1, String::new()));
    assert_eq!(good("LYCAON_TIMEOUT=5\nLYCAON_LINKS=tcp"), (0, 1, String::new()));
}

#[test]
fn our_own_variables() {
    let text = "
        LYCAON_RANK=2
        LYCAON_SIZE=4
        LYCAON_RENDEZVOUS=127.0.0.1:5000
        LYCAON_JOB=train
        LYCAON_START_TIMEOUT=90
        LYCAON_TIMEOUT=1.5s
        LYCAON_LINKS=tcp
        LYCAON_RAILS=4
        LYCAON_HOST_ID=other
        LYCAON_INTERFACE=en5,10.0.0.3
        LYCAON_ALGORITHM=direct,all_reduce=ring
        LYCAON_RANK_ORDER=1
        LYCAON_SPIN_US=20
        LYCAON_STAGING=2M
        LYCAON_RECORDER=99
        LYCAON_LIVENESS=250ms";
    let config = config(text).unwrap();
    assert_eq!(good(text), (2, 4, "127.0.0.1:5000".to_owned()));
    use std::time::Duration;

    use crate::call::Operation;
    use crate::collective::Algorithm;
    use crate::error::LinkKind;
    assert_eq!(config.job(), "train");
    assert_eq!(config.start_timeout(), Duration::from_secs(90));
    assert_eq!(config.timeout(), Duration::from_millis(1500));
    assert_eq!(config.links(), [LinkKind::Tcp]);
    assert_eq!(config.rails(), 4);
    assert_eq!(config.host_id(), Some("other"));
    let interfaces: Vec<String> = config.interfaces().iter().map(ToString::to_string).collect();
    assert_eq!(interfaces, ["en5", "10.0.0.3"]);
    assert_eq!(config.algorithm(Operation::AllReduce), Some(Algorithm::Ring));
    assert_eq!(config.algorithm(Operation::AllGather), Some(Algorithm::Direct));
    assert!(config.rank_order());
    assert_eq!(config.spin(), Some(Duration::from_micros(20)));
    assert_eq!(config.staging(), 2 << 20);
    assert_eq!(config.recorder(), 99);
    assert_eq!(config.liveness(), Duration::from_millis(250));
}

#[test]
fn every_variable_of_ours_is_checked() {
    let whole = "LYCAON_RANK=0\nLYCAON_SIZE=2\nLYCAON_RENDEZVOUS=127.0.0.1:5000\n";
    for name in NAMES.iter().filter(|name| name.starts_with("LYCAON_")) {
        if ["LYCAON_JOB", "LYCAON_HOST_ID", "LYCAON_TOKEN"].contains(name) {
            assert!(config(&format!("{whole}{name}=")).is_err(), "{name} may not be empty");
            continue;
        }
        let error = bad(&format!("{whole}{name}=?!"));
        let builder_name = name.trim_start_matches("LYCAON_").to_lowercase();
        assert!(error.contains(name) || error.contains(&builder_name), "{name}: {error}");
    }
}

#[test]
fn a_part_of_ours_is_never_a_group_of_one() {
    let whole = "LYCAON_RANK=0\nLYCAON_SIZE=2\nLYCAON_RENDEZVOUS=127.0.0.1:5000\n";
    for name in ["LYCAON_RANK", "LYCAON_SIZE", "LYCAON_RENDEZVOUS"] {
        let error = bad(&without(whole, name));
        assert!(error.contains(&format!("{name} is not set although LYCAON_")), "{error}");
    }
    assert!(bad("LYCAON_RENDEZVOUS=127.0.0.1:1").contains("LYCAON_RANK is not set"));
    let error = bad("LYCAON_RANK=2\nLYCAON_SIZE=2\nLYCAON_RENDEZVOUS=127.0.0.1:5000");
    assert!(error.starts_with("LYCAON_RANK=2 and LYCAON_SIZE=2 contradict"), "{error}");
    assert!(bad("LYCAON_RANK=x\nLYCAON_SIZE=2").contains("LYCAON_RANK=\"x\" is not a rank"));
    assert_eq!(good("LYCAON_RANK=0\nLYCAON_SIZE=1").1, 1);
}

#[test]
fn other_machines_need_a_token_and_it_never_shows() {
    let text = "LYCAON_RANK=0\nLYCAON_SIZE=2\nLYCAON_RENDEZVOUS=10.0.0.1:5000\n";
    assert!(bad(text).contains("rendezvous 10.0.0.1:5000 can be reached from other machines"));
    let config = config(&format!("{text}LYCAON_TOKEN=hunter2")).unwrap();
    let shown = format!("{config:?}");
    assert!(!shown.contains("hunter2") && shown.contains("secret"), "{shown}");
    for local in ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "/tmp/meet"] {
        good(&format!("LYCAON_RANK=0\nLYCAON_SIZE=2\nLYCAON_RENDEZVOUS={local}"));
    }
    assert!(bad("LYCAON_RANK=0\nLYCAON_SIZE=2\nLYCAON_RENDEZVOUS=0.0.0.0:1").contains("token"));
}

#[test]
fn torchrun_on_one_host_meets_at_a_private_file() {
    let (rank, size, place) = good(TORCHRUN);
    assert_eq!((rank, size), (1, 2));
    assert!(place.starts_with("file:/") && place.contains("lycaon"), "{place}");
    assert_eq!(place, good(&format!("{TORCHRUN}\nRANK=0\nLOCAL_RANK=0")).2, "equal on all ranks");
    for other in ["TORCHELASTIC_RESTART_COUNT=1", "MASTER_PORT=29401", "TORCHELASTIC_RUN_ID=x"] {
        assert_ne!(place, good(&format!("{TORCHRUN}\n{other}")).2, "{other} is another job");
    }
}

#[test]
fn torchrun_on_several_hosts_uses_the_port_after_pytorchs() {
    let text = format!("{TORCHRUN}\nWORLD_SIZE=4\nLYCAON_TOKEN=t");
    assert_eq!(good(&text), (1, 4, "node7.lab:29401".to_owned()));
    assert_eq!(good(&format!("{text}\nMASTER_PORT=65535")).2, "node7.lab:65534");
    assert_eq!(good(&format!("{text}\nMASTER_ADDR=fd00::2")).2, "[fd00::2]:29401");
    let by_hand = "RANK=0\nWORLD_SIZE=2\nMASTER_ADDR=127.0.0.1\nMASTER_PORT=29500";
    assert_eq!(good(by_hand), (0, 2, "127.0.0.1:29501".to_owned()));
    for name in ["RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"] {
        assert!(bad(&without(by_hand, name)).contains(&format!("{name} is not set although ")));
    }
    assert!(bad("RANK=0").contains("WORLD_SIZE is not set although RANK is"));
    assert!(bad("RANK=one\nWORLD_SIZE=2").contains("RANK=\"one\""));
    assert_eq!(good("RANK=0\nWORLD_SIZE=1").1, 1);
}

#[test]
fn openmpi() {
    let (rank, size, place) = good(OPENMPI);
    assert_eq!((rank, size), (1, 2));
    assert!(place.starts_with("file:/"), "{place}");
    let newer = without(OPENMPI, "OMPI_MCA_ess_base_jobid");
    assert!(good(&format!("{newer}\nPMIX_NAMESPACE=prterun-vm-77@1")).2.starts_with("file:/"));
    let spread = format!("{OPENMPI}\nOMPI_COMM_WORLD_SIZE=4");
    let error = bad(&spread);
    assert!(
        error.contains("LYCAON_RENDEZVOUS is not set although OMPI_COMM_WORLD_SIZE=4"),
        "{error}"
    );
    let given = format!("{spread}\nLYCAON_RENDEZVOUS=10.0.0.1:5\nLYCAON_TOKEN=t");
    assert_eq!(good(&given), (1, 4, "10.0.0.1:5".to_owned()));
    let error = bad(&without(OPENMPI, "OMPI_COMM_WORLD_SIZE"));
    assert!(error.contains("OMPI_COMM_WORLD_SIZE is not set although OMPI_COMM_WORLD_RANK"));
}

#[test]
fn mpich() {
    let (rank, size, place) = good(MPICH);
    assert_eq!((rank, size), (1, 2));
    assert!(place.starts_with("file:/"), "{place}");
    assert_ne!(place, good(&format!("{MPICH}\nPMI_JOBID=9")).2);
    assert!(bad(&format!("{MPICH}\nPMI_SIZE=3")).contains("LYCAON_RENDEZVOUS is not set"));
    assert!(bad(&without(MPICH, "PMI_RANK")).contains("PMI_RANK is not set although PMI_SIZE"));
}

#[test]
fn slurm() {
    let (rank, size, place) = good(&format!("{SRUN}\nLYCAON_TOKEN=t"));
    assert_eq!((rank, size), (3, 4));
    assert!(place.starts_with("node004:2"), "{place}");
    assert_ne!(place, good(&format!("{SRUN}\nSLURM_STEP_ID=1\nLYCAON_TOKEN=t")).2);
    let single = format!("{SRUN}\nSLURM_STEP_NUM_NODES=1\nSLURM_STEP_NODELIST=node004");
    assert!(good(&single).2.starts_with("file:/"));
    let error = bad(&format!("{SRUN}\nSLURM_STEP_NODELIST=n[x]\nLYCAON_TOKEN=t"));
    assert!(error.contains("SLURM_STEP_NODELIST=\"n[x]\" is not a list of nodes"), "{error}");
}

#[test]
fn a_batch_script_is_no_step() {
    assert_eq!(good(SBATCH), (0, 1, String::new()));
    // A shell that `salloc` gives is a step of one task, with a reserved number.
    let shell = "SLURM_STEP_ID=4294967290\nSLURM_STEP_NUM_TASKS=1";
    assert_eq!(good(&format!("{SBATCH}\n{shell}")).1, 1);
    assert!(bad(&without(SRUN, "SLURM_PROCID")).contains("SLURM_PROCID is not set"));
}

#[test]
fn pmi_under_slurm_meets_where_the_step_is() {
    let text = format!("{SRUN}\nPMI_RANK=3\nPMI_SIZE=4\nLYCAON_TOKEN=t");
    assert!(good(&text).2.starts_with("node004:"));
}

#[test]
fn inner_launchers_win_over_slurm_and_ours_over_all() {
    // mpirun inside of an allocation starts its daemons with srun.
    let text = format!("{SRUN}\n{OPENMPI}\nSLURM_PROCID=0\nSLURM_STEP_NUM_TASKS=1");
    assert_eq!((good(&text).0, good(&text).1), (1, 2));
    let own = "LYCAON_RANK=6\nLYCAON_SIZE=7\nLYCAON_RENDEZVOUS=127.0.0.1:9";
    assert_eq!(good(&format!("{TORCHRUN}\n{own}")), (6, 7, "127.0.0.1:9".to_owned()));
    // A master address exported for somebody else does not get in the way of srun.
    let stray = format!("{SRUN}\nMASTER_ADDR=x\nLYCAON_TOKEN=t");
    assert_eq!((good(&stray).0, good(&stray).1), (3, 4));
}

#[test]
fn launchers_that_contradict_are_both_named() {
    let error = bad(&format!("{OPENMPI}\n{TORCHRUN}\nRANK=0"));
    assert!(error.contains("RANK=0 and OMPI_COMM_WORLD_RANK=1 contradict"), "{error}");
    let error = bad(&format!("{MPICH}\n{TORCHRUN}\nPMI_SIZE=8"));
    assert!(error.contains("WORLD_SIZE=2 and PMI_SIZE=8 contradict"), "{error}");
    good(&format!("{OPENMPI}\n{TORCHRUN}"));
}

fn mlx(name: &str, rank: &str, content: &str) -> String {
    let path = crate::bootstrap::tests::folder("mlx").join(name);
    std::fs::write(&path, content).unwrap();
    format!("MLX_RANK={rank}\nMLX_HOSTFILE={}", path.display())
}

fn remove(text: &str) {
    let path = text.split_once("MLX_HOSTFILE=").unwrap().1;
    std::fs::remove_dir_all(Path::new(path).parent().unwrap()).unwrap();
}

#[test]
fn mlx_ring_files() {
    let nested = r#"[["198.51.100.1:32323","198.51.100.65:32324"],["198.51.100.5:32323"]]"#;
    let text = mlx("ring.json", "1", nested);
    assert!(bad(&text).contains("token"), "other machines need a token here too");
    assert_eq!(good(&format!("{text}\nLYCAON_TOKEN=t")), (1, 2, "198.51.100.1:32323".to_owned()));
    assert!(bad(&format!("{text}\nMLX_RANK=2")).contains("which lists 2 ranks"));
    assert!(bad(&without(&text, "MLX_RANK")).contains("MLX_RANK is not set although MLX_HOSTFILE"));
    assert!(bad("MLX_RANK=0").contains("MLX_HOSTFILE is not set although MLX_RANK is"));
    assert!(bad("MLX_RANK=0\nMLX_HOSTFILE=/nowhere").contains("cannot read /nowhere"));
    remove(&text);
}

#[test]
fn flat_mlx_files_differ_from_rank_to_rank() {
    let zero = mlx("0", "0", r#"["0.0.0.0:52415","192.0.2.22:52415","192.0.2.23:52415"]"#);
    let token = "\nLYCAON_TOKEN=t";
    assert_eq!(good(&format!("{zero}{token}")), (0, 3, "0.0.0.0:52415".to_owned()));
    remove(&zero);
    let one = mlx("1", "1", r#"["192.0.2.21:52415","0.0.0.0:52415","198.51.100.1:0"]"#);
    assert_eq!(good(&format!("{one}{token}")), (1, 3, "192.0.2.21:52415".to_owned()));
    remove(&one);
    let far = mlx("2", "2", r#"["198.51.100.1:0","192.0.2.22:5","0.0.0.0:5","192.0.2.24:5"]"#);
    let error = bad(&format!("{far}{token}"));
    assert!(error.contains("rank 2 has no address of rank 0"), "{error}");
    assert!(error.contains("set LYCAON_RENDEZVOUS"), "{error}");
    remove(&far);
}

proptest! {
    #[test]
    fn no_environment_panics(
        picks in proptest::collection::vec((0..NAMES.len(), "[0-9x:./,\\[\\]=-]{0,12}"), 0..12),
    ) {
        let text: Vec<(&str, String)> =
            picks.into_iter().map(|(name, value)| (NAMES[name], value)).collect();
        let result = Config::from_vars(|name| {
            text.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        });
        if let Ok(config) = result {
            prop_assert!(config.rank() < config.size());
            prop_assert!(config.size() == 1 || config.rendezvous().is_some());
        }
    }
}
