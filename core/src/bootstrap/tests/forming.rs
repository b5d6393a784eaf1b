//! Groups that form.

use std::sync::{Condvar, Mutex};

use super::*;
use crate::config::SideChannel;
use crate::error::{Cause, ConfigError, StartError};

fn forms(size: usize, config: impl Fn(usize) -> ConfigBuilder + Send + Sync + 'static) {
    let keys = ranks(0..size, move |rank| {
        let session = met(&config(rank).build().unwrap()).unwrap();
        assert_eq!((session.rank(), session.size()), (rank, size));
        let key = *session.token_key();
        let control = session.into_control();
        assert!(control.announcements() == 0);
        control.close();
        assert!(control.announcements() == 0, "{:?}", control.since(0));
        key
    });
    assert!(keys.iter().all(|key| *key == keys[0]), "all ranks have the same key");
    assert_ne!(keys[0], [0; 32]);
}

#[test]
fn a_group_of_one_needs_nothing() {
    let mut session = start(&Config::builder().build().unwrap()).unwrap();
    assert_eq!(session.exchange("x", b"mine").unwrap(), [b"mine"]);
    let control = session.into_control();
    let cause = control.report(Scope::Job, Cause::Closed);
    assert_eq!(*cause, Cause::Closed);
    assert!(control.announcements() == 1);
    control.leave();
    control.close();
    control.close();
}

#[test]
fn over_ipv4() {
    for size in [2, 3, 5, 16] {
        let port = free_port();
        forms(size, move |rank| local(rank, size, port));
    }
}

#[test]
fn over_ipv6() {
    let port = free_port();
    forms(3, move |rank| base(rank, 3).rendezvous(tcp("::1", port)));
}

#[test]
fn by_name_with_all_its_addresses() {
    let port = free_port();
    forms(4, move |rank| base(rank, 4).rendezvous(tcp("localhost", port)));
}

#[test]
fn by_the_name_of_this_host_with_a_token() {
    let name = crate::sys::interfaces::host_name();
    if std::net::ToSocketAddrs::to_socket_addrs(&(name.as_str(), 1)).is_err() {
        // A host that cannot resolve its own name says so; that is an answer to test as well.
        let config = local(1, 2, 1).rendezvous(tcp(&name, 1)).token("t");
        let config = config.start_timeout(Duration::from_millis(300)).build().unwrap();
        let error = start(&config).err().unwrap().to_string();
        assert!(error.contains("cannot resolve"), "{error}");
        return;
    }
    let port = free_port();
    forms(3, move |rank| base(rank, 3).rendezvous(tcp(&name, port)).token("s3cret"));
}

#[test]
fn with_a_token_and_in_any_order() {
    let port = free_port();
    forms(4, move |rank| {
        // Rank 0 comes last.
        std::thread::sleep(Duration::from_millis(120 * (3 - rank as u64)));
        local(rank, 4, port).token("s3cret")
    });
}

#[test]
fn a_late_worker_is_awaited() {
    let port = free_port();
    let began = Instant::now();
    forms(3, move |rank| {
        if rank == 1 {
            std::thread::sleep(Duration::from_millis(1500));
        }
        local(rank, 3, port)
    });
    assert!(began.elapsed() >= Duration::from_millis(1500));
}

#[test]
fn by_a_file_even_over_a_stale_one() {
    let folder = folder("file");
    let path = folder.join("meet");
    // What a killed job leaves: nobody listens there, and its secret is unknown.
    let port = free_port();
    let stale = format!(
        r#"{{"format":1,"job":"lycaon","host":"{}","process":"x","addresses":["127.0.0.1:{port}"],"secret":{:?}}}"#,
        crate::sys::interfaces::host_name(),
        [7u8; 32]
    );
    std::fs::write(&path, stale).unwrap();
    let file = path.clone();
    forms(4, move |rank| {
        if rank == 0 {
            std::thread::sleep(Duration::from_millis(300));
        }
        base(rank, 4).rendezvous(Rendezvous::File(file.clone()))
    });
    assert!(!path.exists(), "the file is gone once the group has formed");
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn a_file_that_leads_to_another_group_is_read_again() {
    let folder = folder("foreign");
    let path = folder.join("meet");
    let (one, file) = (path.clone(), path.clone());
    // The first job hangs: its rank 1 never comes. The second one uses the same path, and its
    // worker reads the first one's file before rank 0 replaces it.
    let results = ranks(0..3, move |who| {
        let config =
            |rank, size| base(rank, size).rendezvous(Rendezvous::File(one.clone())).job("same");
        match who {
            0 => {
                let quick = config(0, 3).start_timeout(Duration::from_millis(2000));
                start(&quick.build().unwrap()).is_err()
            }
            1 => {
                eventually("the first file", WATCHDOG, || file.exists());
                // An older secret, so that the worker is turned away there.
                let mut note = super::super::file::read(&file, "same").unwrap();
                note.secret[0] ^= 1;
                std::fs::write(&file, note.to_json()).unwrap();
                std::thread::sleep(Duration::from_millis(400));
                met(&config(0, 2).build().unwrap()).is_ok()
            }
            _ => {
                eventually("the first file", WATCHDOG, || file.exists());
                std::thread::sleep(Duration::from_millis(100));
                met(&config(1, 2).build().unwrap()).is_ok()
            }
        }
    });
    assert_eq!(results, [true, true, true]);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_rank_0_whose_file_is_replaced_names_the_other_one() {
    let folder = folder("twins");
    let path = folder.join("meet");
    let own = path.clone();
    let errors = ranks(0..2, move |who| {
        let rendezvous = Rendezvous::File(path.clone());
        let config = base(0, 2).rendezvous(rendezvous);
        // The second one waits until the first one has written, and lasts long enough.
        if who == 1 {
            eventually("the first file", WATCHDOG, || path.exists());
        }
        let config = config.start_timeout(Duration::from_millis([9000, 2000][who]));
        start(&config.build().unwrap()).err().expect("no worker comes").to_string()
    });
    assert!(errors[0].starts_with("two processes claim rank 0: host "), "{errors:?}");
    assert!(errors[1].contains("no word from rank 1"), "{errors:?}");
    assert!(!own.exists());
    std::fs::remove_dir(&folder).unwrap();
}

#[test]
fn a_launcher_that_says_all_ranks_are_here_gets_a_private_file() {
    let runtime = folder("runtime");
    let seen = runtime.clone();
    forms(3, move |rank| {
        let vars = [
            ("RANK", rank.to_string()),
            ("WORLD_SIZE", "3".to_owned()),
            ("LOCAL_WORLD_SIZE", "3".to_owned()),
            ("MASTER_ADDR", "127.0.0.1".to_owned()),
            ("MASTER_PORT", "29500".to_owned()),
            ("XDG_RUNTIME_DIR", runtime.display().to_string()),
        ];
        ConfigBuilder::from_vars(|name| {
            vars.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        })
        .unwrap()
    });
    let private = seen.join("lycaon");
    assert_eq!(std::fs::read_dir(&private).unwrap().count(), 0, "nothing is left behind");
    std::fs::remove_dir_all(&seen).unwrap();
}

/// An all-gather between threads.
struct Threads {
    entries: Mutex<Vec<Option<Vec<u8>>>>,
    all: Condvar,
    spoil: fn(&mut Vec<Vec<u8>>),
}

impl Threads {
    fn new(size: usize, spoil: fn(&mut Vec<Vec<u8>>)) -> Arc<Self> {
        let entries = Mutex::new((0..size).map(|_| None).collect());
        Arc::new(Threads { entries, all: Condvar::new(), spoil })
    }
}

impl SideChannel for Threads {
    fn all_gather(&self, rank: usize, size: usize, mine: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        let mut entries = self.entries.lock().unwrap();
        assert_eq!(entries.len(), size);
        entries[rank] = Some(mine.to_vec());
        self.all.notify_all();
        let (entries, late) = self
            .all
            .wait_timeout_while(entries, WATCHDOG, |entries| entries.iter().any(Option::is_none))
            .unwrap();
        if late.timed_out() {
            return Err("not everybody came".to_owned());
        }
        let mut all = entries.iter().flatten().cloned().collect();
        (self.spoil)(&mut all);
        Ok(all)
    }
}

#[test]
fn by_the_programs_own_all_gather() {
    let channel = Threads::new(4, |_| ());
    forms(4, move |rank| base(rank, 4).rendezvous(Rendezvous::SideChannel(channel.clone())));
}

#[test]
fn wrong_answers_of_the_all_gather_are_named() {
    type Spoil = fn(&mut Vec<Vec<u8>>);
    let cases: [(Spoil, &str); 5] = [
        (|all| all.truncate(1), "gave 1 entries for 2 ranks"),
        (|all| all.swap(0, 1), "entry 0 of its answer is that of rank 1"),
        (|all| all[0].truncate(4), "entry 0 of its answer is no rank 0's"),
        (|all| all[1].push(9), "entry 1 of its answer is not what this rank gave"),
        (|all| all[1].clear(), "entry 1 of its answer is too short"),
    ];
    for (spoil, expected) in cases {
        let channel = Threads::new(2, spoil);
        let errors = ranks(0..2, move |rank| {
            let rendezvous = Rendezvous::SideChannel(channel.clone());
            let config =
                base(rank, 2).rendezvous(rendezvous).start_timeout(Duration::from_millis(600));
            start(&config.build().unwrap()).err().expect("it fails").to_string()
        });
        assert!(errors[1].contains(expected), "{errors:?}");
    }
}

#[test]
fn a_name_that_leads_elsewhere_needs_a_token() {
    let addresses = ["192.0.2.1:5".parse().unwrap()];
    let config = local(0, 2, 5).build().unwrap();
    let error = super::super::rendezvous::check_loopback(&config, "node7", &addresses);
    let expected = ConfigError::TokenNeeded { address: "node7 (192.0.2.1:5)".to_owned() };
    assert_eq!(error, Err(expected));
    let config = local(0, 2, 5).token("t").build().unwrap();
    assert_eq!(super::super::rendezvous::check_loopback(&config, "node7", &addresses), Ok(()));
}

#[test]
fn errors_of_the_rendezvous_say_where_and_for_how_long() {
    let port = free_port();
    let quick = |builder: ConfigBuilder| {
        let config = builder.start_timeout(Duration::from_millis(400)).build().unwrap();
        match start(&config) {
            Err(Error::Start(error)) => error,
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("nobody was there"),
        }
    };
    match quick(local(1, 2, port)) {
        StartError::Unreachable { rank, action, address, local, tried, reason } => {
            assert_eq!((rank, action.as_str()), (1, "connect to"));
            assert_eq!(address, format!("127.0.0.1:{port}"));
            assert!(local.starts_with("127.0.0.1 (lo"), "{local}");
            assert!(tried >= Duration::from_millis(400), "{tried:?}");
            assert!(reason.contains("refused"), "{reason}");
        }
        error => panic!("{error}"),
    }
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let error = quick(local(0, 2, taken.local_addr().unwrap().port())).to_string();
    assert!(error.contains("cannot listen on 127.0.0.1:"), "{error}");
    assert!(error.contains("a second rank 0"), "{error}");
    let error = quick(local(0, 2, port).rendezvous(tcp("192.0.2.1", port)).token("t")).to_string();
    assert!(error.contains("rank 0 must run on the host"), "{error}");
    let path = folder("nothing").join("meet");
    let error = quick(base(1, 2).rendezvous(Rendezvous::File(path.clone()))).to_string();
    assert!(error.contains("meet") && error.contains("No such file"), "{error}");
    std::fs::remove_dir(path.parent().unwrap()).unwrap();
}
